"""A broker of each protocol, and what the tests of both ask of it."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

import pytest

from spark_sink.feed.transport import Sink, Source
from spark_sink.feed.transports.opening import open_sink, open_source
from spark_sink.feed.transports.settings import SinkSettings, SourceSettings
from tests.client_sdk.gateways.samwise.rabbitmq import HOST, RabbitNode
from tests.spark_sink.feed.transports.brokers import mosquitto as mosquitto
from tests.spark_sink.feed.transports.mosquitto import Mosquitto


@dataclass(frozen=True)
class Broker:
    """One that runs; `exchange` is a test's own."""

    url: str
    exchange: str
    stop: Callable[[], None]
    start: Callable[[], None]
    port: int
    version: str = "5"

    def source(self, **settings: object) -> Source:
        values = {"name": f"{self.exchange}-in", "url": self.url, "exchange": self.exchange, **settings}
        return open_source(SourceSettings(mqtt_version=self.version, **values))  # type: ignore[arg-type]

    def sink(self, **settings: object) -> Sink:
        values = {"name": f"{self.exchange}-out", "url": self.url, "exchange": self.exchange, **settings}
        return open_sink(SinkSettings(mqtt_version=self.version, **values))  # type: ignore[arg-type]


@pytest.fixture(params=["amqp", "mqtt", "mqtt-3.1.1"])
def broker(request: pytest.FixtureRequest) -> Broker:
    exchange = f"x{uuid4().hex[:8]}"
    if request.param == "amqp":
        node: RabbitNode = request.getfixturevalue("rabbit")
        return Broker(f"amqp://{HOST}:{node.port}", exchange, node.stop, node.go_on, node.port)
    one: Mosquitto = request.getfixturevalue("mosquitto")
    version = "3.1.1" if request.param.endswith("3.1.1") else "5"
    return Broker(f"mqtt://{HOST}:{one.port}", exchange, one.stop, one.start, one.port, version)
