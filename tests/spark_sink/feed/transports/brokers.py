"""A broker of AMQP and one of MQTT for a session of tests: fixtures, to import."""

from collections.abc import Iterator

import pytest

from tests.client_sdk.gateways.samwise.rabbitmq import RabbitNode, RabbitNodes
from tests.spark_sink.feed.transports.mosquitto import Mosquitto


@pytest.fixture(scope="session")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    with RabbitNodes(tmp_path_factory.mktemp("rabbitmq"), ("rabbit-1",)) as started:
        yield started.nodes["rabbit-1"]


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path_factory.mktemp("mosquitto"))
    broker.start()
    yield broker
    broker.stop()
