"""sr3, and the brokers that it and we send posts through."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.client_sdk.gateways.samwise.rabbitmq import HOST
from tests.conftest import missing
from tests.spark_sink.feed.transports.brokers import mosquitto as mosquitto
from tests.system.feed.announcing import PostBroker
from tests.system.feed.programs import Feed
from tests.system.feed.sr3 import Sr3, Sr3Missing, install
from tests.system.support.waits import bound_tests_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    bound_tests_of(__file__, items)


@pytest.fixture
def feeds() -> Iterator[list[Feed]]:
    """Those that are killed at the end."""
    started: list[Feed] = []
    yield started
    for feed in started:
        feed.kill()


@pytest.fixture(scope="session")
def sr3_python() -> Path:
    try:
        return install()
    except Sr3Missing as error:
        missing(str(error))


@pytest.fixture
def sr3(sr3_python: Path, tmp_path: Path) -> Iterator[Sr3]:
    """The real programs, whose flows end with the test; what they said is shown when it fails."""
    home = tmp_path / "home"
    home.mkdir()
    one = Sr3(sr3_python, home)
    yield one
    one.end()
    for log in home.glob("*.log"):
        print(log.read_text(errors="replace"))


BROKERS: dict[str, Callable[[pytest.FixtureRequest], str]] = {
    "amqp": lambda request: f"amqp://{HOST}:{request.getfixturevalue('rabbit').port}",
    "mqtt": lambda request: f"mqtt://{HOST}:{request.getfixturevalue('mosquitto').port}",
}


@pytest.fixture(params=list(BROKERS))
def broker(request: pytest.FixtureRequest) -> PostBroker:
    """One of each protocol."""
    return PostBroker(BROKERS[request.param](request), f"x{uuid4().hex[:8]}")
