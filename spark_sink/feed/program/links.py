"""The sinks and sources of one feed: each made of what a table [feed.broker.NAME] says."""

import socket
import ssl
from collections.abc import Sequence
from typing import Final, TypedDict
from urllib.parse import urlsplit

from broker.config.sections.feed import MessageBrokerOptions, MqttVersion
from spark_sink.feed.program.assignment import Assignment
from spark_sink.feed.reports import REPORT_PREFIX
from spark_sink.feed.transport import Sink, Source
from spark_sink.feed.transports.opening import open_sink, open_source
from spark_sink.feed.transports.settings import SinkSettings, SourceSettings

ALL_REPORTS: Final = f"{REPORT_PREFIX}.#"


class _Link(TypedDict):
    """What sinks and sources have in common."""

    url: str
    exchange: str
    mqtt_version: MqttVersion
    tls: ssl.SSLContext | None


def sinks_of(assignment: Assignment, name: str) -> Sequence[Sink]:
    """Where the posts of one folder go. BadLink."""
    options = assignment.options
    return [open_sink(SinkSettings(name=to, **_link(options.broker[to]))) for to in options.post[name].to]


def reports_of(assignment: Assignment, name: str) -> Sequence[Source]:
    """Where reports on them come from. BadLink."""
    options, posted = assignment.options, assignment.options.post[name]
    return [_reports_of(name, to, options.broker[to]) for to in posted.to if posted.reports]


def _reports_of(name: str, to: str, broker: MessageBrokerOptions) -> Source:
    user = urlsplit(broker.url).username or "anonymous"
    return open_source(
        SourceSettings(
            name=f"{name}.{to}.reports",
            queue=f"q_{user}.{socket.gethostname()}.{name}.reports",  # so sr3 names its own, and may make them
            patterns=(ALL_REPORTS,),
            prefetch=broker.prefetch,
            **_link(broker),
        )
    )


def _link(broker: MessageBrokerOptions) -> _Link:
    is_tls = broker.url.partition("://")[0].endswith("s")
    return {
        "url": broker.url,
        "exchange": broker.exchange,
        "mqtt_version": broker.mqtt_version,
        "tls": ssl.create_default_context(cafile=broker.ca) if is_tls and broker.ca else None,
    }
