"""Deliveries to nodes of `rabbitmq`, and what they come to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from client_sdk.gateways.samwise.backends.rabbitmq import RabbitBackend, RabbitBroker
from client_sdk.gateways.samwise.delivery import Retry
from client_sdk.gateways.samwise.gateway import Gateway
from client_sdk.gateways.samwise.store import OS, Store
from tests.client_sdk.gateways.samwise.messages import publish_to, stored
from tests.client_sdk.gateways.samwise.rabbitmq import HOST, RabbitNode
from tests.system.support.waits import soon, until

MARKS: Final = [pytest.mark.interop, pytest.mark.slow]


def broker_of(node: RabbitNode, **others: Any) -> RabbitBroker:
    return RabbitBroker(**{"name": node.name, "host": HOST, "port": node.port, **others})


async def started(backend: RabbitBackend, up_n: int) -> None:
    await backend.start(lambda: None)
    await until(lambda: sum(state.is_up for state in backend.state()) == up_n)


def details(backend: RabbitBackend) -> list[str]:
    return [state.detail for state in backend.state()]


async def outcomes(*deliveries: "asyncio.Task[str]") -> list[str]:
    """What each delivery came to: the name of who has it, or why nobody has."""
    said = await soon(asyncio.gather(*deliveries, return_exceptions=True))
    return [each if isinstance(each, str) else str(each) for each in said]


@contextlib.asynccontextmanager
async def gateway_over(nodes: Iterable[RabbitNode], folder: Path) -> AsyncIterator[Gateway]:
    """A gateway with a store, all of whose brokers are up."""
    backend = RabbitBackend([broker_of(node) for node in nodes])
    retry = Retry(tries=2, interval_s=0.2, threshold_s=10)
    gateway = Gateway(Store(folder / "store", durability=OS), backend, retry=retry)
    await gateway.start()
    try:
        await until(lambda: all(state.is_up for state in backend.state()))
        yield gateway
    finally:
        await gateway.stop()


def deliver(backend: RabbitBackend, to: str = "rabbit-1", **fields: Any) -> "asyncio.Task[str]":
    """One more delivery; begun in the order of these calls."""
    return asyncio.ensure_future(backend.deliver(stored(publish_to(**fields)), to))
