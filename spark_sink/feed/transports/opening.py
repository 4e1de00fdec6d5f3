"""Which source or sink a URL means. The libraries of protocols are imported where they are used: extra `feed`."""

import importlib
from types import ModuleType
from typing import Final

from spark_sink.feed.transport import Sink, Source
from spark_sink.feed.transports.rsocket import Positions, RSocketSink, RSocketSource
from spark_sink.feed.transports.settings import AMQP, MQTT, RSOCKET, BadLink, LinkSettings, SinkSettings, SourceSettings

_MODULES: Final = {AMQP: "spark_sink.feed.transports.amqp", MQTT: "spark_sink.feed.transports.mqtt"}


def open_source(settings: SourceSettings, positions: Positions | None = None) -> Source:
    """Where posts come from; it connects when it is asked for the first one. BadLink.

    `positions`: of a source by RSocket, which brokers of messages know themselves.
    """
    if settings.protocol == RSOCKET:
        return RSocketSource(settings, positions)
    module = _module(settings)
    try:
        source: Source = (module.AmqpSource if settings.protocol == AMQP else module.MqttSource)(settings)
    except ValueError as error:
        raise BadLink(f"{settings.name}: {error}") from None
    return source


def open_sink(settings: SinkSettings) -> Sink:
    """Where posts go; it connects when it has the first one. By RSocket only reports go: posts are offered there
    (`offering`). BadLink."""
    if settings.protocol == RSOCKET:
        return RSocketSink(settings)
    module = _module(settings)
    sink: Sink = (module.AmqpSink if settings.protocol == AMQP else module.MqttSink)(settings)
    return sink


def _module(settings: LinkSettings) -> ModuleType:
    try:
        return importlib.import_module(_MODULES[settings.protocol])
    except ModuleNotFoundError as error:
        text = f"{settings.url.partition('://')[0]} needs {error.name}: pip install 'rsocket-broker[feed]'"
        raise BadLink(f"{settings.name}: {text}") from None
