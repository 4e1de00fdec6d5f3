"""A broker of MQTT for a session of tests: a fixture, to import. Those of AMQP are `nodes` of tests/conftest.py."""

from collections.abc import Iterator

import pytest

from tests.spark_sink.feed.transports.mosquitto import Mosquitto


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path_factory.mktemp("mosquitto"))
    broker.start()
    yield broker
    broker.stop()
