from collections.abc import AsyncIterator

import pytest

from tests.client_sdk.raw_broker import RawBroker


@pytest.fixture
async def raw(no_leaked_tasks: None) -> AsyncIterator[RawBroker]:
    """A broker on TCP whose frames the test writes."""
    broker = await RawBroker().start()
    yield broker
    await broker.stop()


@pytest.fixture
async def raw_websocket(no_leaked_tasks: None) -> AsyncIterator[RawBroker]:
    """The same on WebSocket."""
    broker = await RawBroker().start_websocket()
    yield broker
    await broker.stop()
