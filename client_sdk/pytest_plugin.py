"""The pytest plugin: fixtures for users' own tests, found by pytest wherever rsocket-broker is installed.

    def test_orders(rsocket_broker, rsocket_client): ...

pytest imports plugins in every run of every project: this module imports nothing of client or broker until a test asks
for a fixture.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from client_sdk.sync import Client
    from client_sdk.testing import SyncLocalBroker

MARKER = "rsocket_broker"


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    text = f"{MARKER}(listen=['tcp'], options={{}}, **keys): how the fixture rsocket_broker starts its broker"
    config.addinivalue_line("markers", text)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Says what to write where a fixture of a wider scope wants ours."""
    outcome = yield
    text = "" if call.excinfo is None else str(call.excinfo.value)
    if text.startswith("ScopeMismatch") and ("fixture rsocket_broker" in text or "fixture rsocket_client" in text):
        how = "its own: `with client_sdk.testing.sync_local_broker() as broker: yield broker`"
        outcome.get_result().sections.append((MARKER, f"it is of one test; a fixture of a wider scope has {how}"))


@pytest.fixture
def rsocket_broker(request: pytest.FixtureRequest) -> Iterator[SyncLocalBroker]:
    """A broker of this test's own: its URL, a str, with what it has seen (`client_sdk.testing.SyncLocalBroker`).

    It runs in a thread, so it is for tests with and without an event loop. The marker `rsocket_broker` takes what
    `sync_local_broker` takes.
    """
    marker = request.node.get_closest_marker(MARKER)
    testing = importlib.import_module("client_sdk.testing")
    with testing.sync_local_broker(*(marker.args if marker else ()), **(marker.kwargs if marker else {})) as broker:
        yield broker


@pytest.fixture
def rsocket_client(request: pytest.FixtureRequest, rsocket_broker: SyncLocalBroker) -> Iterator[Client]:
    """A blocking client (`client_sdk.sync.Client`) of the test's broker, for tests without an event loop."""
    if inspect.iscoroutinefunction(request.function):
        text = "rsocket_client blocks, and would stop the event loop of this test; in an async test write: "
        pytest.fail(text + "async with connect(rsocket_broker) as client", pytrace=False)
    sync = importlib.import_module("client_sdk.sync")
    with sync.connect(rsocket_broker) as client:
        yield client
