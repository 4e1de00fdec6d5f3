"""A backend whose destinations a test turns on and off, and whose acknowledgements it gives."""

import asyncio
from collections.abc import Callable, Sequence

from client_sdk.gateways.samwise.backends.backend import DestinationState, NotDelivered
from client_sdk.gateways.samwise.values import Message, Publish, Refused, Rpc


class FakeBackend:
    def __init__(self, *up: str, is_fixed: bool = True) -> None:
        self.up = list(up)
        self.is_fixed = is_fixed
        self.acknowledges = True  # at once; else `answers` has a future for each delivery
        self.failure: NotDelivered | Exception | None = None  # of each delivery
        self.answers: dict[tuple[int, str], asyncio.Future[None]] = {}
        self.delivered: list[tuple[bytes, str]] = []  # payload and destination, as they were begun
        self.messages: list[Message] = []  # the same
        self.cancelled: list[tuple[int, str]] = []
        self.rpcs: list[Rpc] = []
        self.is_closed = False
        self.on_change: Callable[[], None] = lambda: None

    @property
    def has_fixed_destinations(self) -> bool:
        return self.is_fixed

    def set_up(self, *up: str) -> None:
        self.up = list(up)
        self.on_change()

    async def start(self, on_change: Callable[[], None]) -> None:
        self.on_change = on_change

    async def close(self) -> None:
        self.is_closed = True

    def check(self, publish: Publish) -> None:
        if publish.immediate:
            raise Refused("immediate is not there", "backend")

    async def check_mandatory(self, publish: Publish) -> None:
        if not self.up:
            raise Refused("nobody is there", "backend")

    async def rpc(self, rpc: Rpc) -> None:
        if rpc.name == "bad":
            raise Refused("406: type", "backend")
        if rpc.name == "worse":
            raise ValueError("secret")
        self.rpcs.append(rpc)

    async def destinations(self, message: Message) -> Sequence[str]:
        return tuple(self.up)

    async def deliver(self, message: Message, to: str) -> str:
        self.delivered.append((message.publish.payload, to))
        self.messages.append(message)
        if self.failure is not None:
            raise self.failure
        if not self.acknowledges:
            answer = self.answers[message.id, to] = asyncio.get_running_loop().create_future()
            try:
                await answer
            except asyncio.CancelledError:
                self.cancelled.append((message.id, to))
                raise
            finally:
                del self.answers[message.id, to]
        return to or message.publish.exchange

    def state(self) -> Sequence[DestinationState]:
        return [DestinationState(name, True, len(self.answers), "since today") for name in self.up]
