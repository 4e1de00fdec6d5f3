from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.leftovers import Leftovers, bound_tests_below, is_below
from tests.client_sdk.raw_broker import Attempts, RawBroker

UNHEARD = ("error::ResourceWarning", "error:coroutine .* was never awaited:RuntimeWarning")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    here = Path(__file__).parent
    bound_tests_below(here, items)
    for item in items:
        if is_below(here, item):
            for each in (*UNHEARD, "error::pytest.PytestUnraisableExceptionWarning"):
                item.add_marker(pytest.mark.filterwarnings(each))


@pytest.fixture(autouse=True)
async def no_leaked_tasks(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Whatever a test did, when its clients and brokers are closed nothing is left, and the log is not full."""
    leftovers = Leftovers()
    yield
    await leftovers.assert_none(caplog.get_records("call"))


@pytest.fixture
async def broker(no_leaked_tasks: None) -> AsyncIterator[FakeBroker]:
    fake = await FakeBroker().start()
    yield fake
    await fake.stop()


@pytest.fixture
async def other(no_leaked_tasks: None) -> AsyncIterator[FakeBroker]:
    """Beside `broker`."""
    fake = await FakeBroker().start()
    yield fake
    await fake.stop()


@pytest.fixture
async def raw(no_leaked_tasks: None) -> AsyncIterator[RawBroker]:
    """A broker on TCP whose frames the test writes."""
    raw = await RawBroker().start()
    yield raw
    await raw.stop()


@pytest.fixture
async def raw_websocket(no_leaked_tasks: None) -> AsyncIterator[RawBroker]:
    """The same on WebSocket."""
    raw = await RawBroker().start_websocket()
    yield raw
    await raw.stop()


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Attempts:
    """Reconnects wait for nothing."""
    return Attempts(monkeypatch)


@pytest.fixture
def no_long_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain waits for hardly anything before it looks what still runs."""
    monkeypatch.setattr("client_sdk.services.advertisement.SETTLE_S", 0.01)
