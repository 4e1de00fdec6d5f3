"""The backend that delivers to 1..n RabbitMQ brokers: each is a destination, by the name that the configuration gives.

Section "PUBLISHING TO RABBITMQ" of protocol 1.0. How a message goes to one broker is `rabbitmq_link`'s, what a message
is there `rabbitmq_publication`'s. Nothing but these three, `rabbitmq_channel` and `gateways.rabbitmq` imports aiormq.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from client_sdk.gateways.rabbitmq import RabbitBroker
from client_sdk.gateways.samwise.backends.backend import DestinationState, NotDelivered
from client_sdk.gateways.samwise.backends.rabbitmq_link import RabbitLink
from client_sdk.gateways.samwise.backends.rabbitmq_publication import check, find_fault_of_name
from client_sdk.gateways.samwise.layouts import MALFORMED_RPC
from client_sdk.gateways.samwise.values import Message, Publish, Refused, Rpc
from client_sdk.reconnect.backoff import Backoff

__all__ = ["RabbitBackend", "RabbitBroker"]


class RabbitBackend:
    """A `Backend`. A broker that cannot be reached is down, with a reason, and is tried again and again."""

    has_fixed_destinations: Final = True

    def __init__(self, brokers: Sequence[RabbitBroker], *, declare_durable: bool = False) -> None:
        """`declare_durable`: exchanges that callers declare outlive the broker. ValueError without brokers, or with two
        of one name."""
        self._links: Final = {broker.name: RabbitLink(broker, Backoff()) for broker in brokers}
        if not brokers or len(self._links) < len(brokers):
            raise ValueError("RabbitMQ brokers need names, each its own, and there must be one at least")
        self._users: Final = {broker.name: broker.user for broker in brokers}
        self._declare_durable: Final = declare_durable

    async def start(self, on_change: Callable[[], None]) -> None:
        """Begins to connect to all."""
        # It logs each attempt that fails, with a traceback; the links say each reason once.
        logging.getLogger("aiormq").setLevel(logging.CRITICAL)
        for link in self._links.values():
            link.start(on_change)

    async def close(self) -> None:
        """Ends all connections."""
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def check(self, publish: Publish) -> None:
        """Refused for what closes a channel or a connection of RabbitMQ, whichever broker it is."""
        check(publish, self._users)

    async def check_mandatory(self, publish: Publish) -> None:
        """RabbitMQ says it itself: a message that comes back is not acknowledged."""

    async def rpc(self, rpc: Rpc) -> None:
        """At the broker that it names, or at all: then what one of them refuses is refused, though others did it."""
        if rpc.broker and rpc.broker not in self._links:
            known = ", ".join(self._links)
            raise _refused(f"there is no broker {rpc.broker[:40]!r}, there are: {known}")
        if fault := find_fault_of_name(rpc.name):
            raise _refused(fault)
        links = [self._links[rpc.broker]] if rpc.broker else list(self._links.values())
        said = await asyncio.gather(*(link.command(rpc, durable=self._declare_durable) for link in links))
        if any(said):
            raise _refused(". ".join(filter(None, said)))

    async def destinations(self, message: Message) -> Sequence[str]:
        """Those that are up, in the order of the configuration."""
        return [name for name, link in self._links.items() if link.is_up]

    def deliver(self, message: Message, to: str) -> "asyncio.Future[str]":
        """Publishes it; its place in the order is that of this call."""
        refusal = self._find_refusal(message.publish, to)
        if not refusal:
            return self._links[to].publish(message)
        # It was stored for other brokers, or for other users of theirs.
        is_hopeless = all(self._find_refusal(message.publish, name) for name in self._links)
        refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        refused.set_exception(NotDelivered(f"{to}: {refusal}", is_hopeless=is_hopeless))
        return refused

    def _find_refusal(self, publish: Publish, name: str) -> str:
        """Why this broker must not get it; empty: it may."""
        try:
            check(publish, {name: self._users[name]})
        except Refused as refused:
            return refused.text
        return ""

    def state(self) -> Sequence[DestinationState]:
        """Of each broker, in the order of the configuration."""
        return [link.state for link in self._links.values()]


def _refused(text: str) -> Refused:
    return Refused(f"{MALFORMED_RPC}: {text}", "backend")
