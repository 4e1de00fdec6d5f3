"""The sinks and sources of one feed: each made of what a table [feed.broker.NAME] says."""

import socket
import ssl
from collections.abc import Sequence
from typing import Final, TypedDict
from urllib.parse import urlsplit

from broker.config.sections.feed import MessageBrokerOptions, MqttVersion, SubscribeOptions, WinnowOptions
from rsocket_wire.ports import SCHEMES
from spark_sink.feed.producer.poster import Poster
from spark_sink.feed.program.assignment import Assignment
from spark_sink.feed.reports import REPORT_PREFIX
from spark_sink.feed.transport import Sink, Source
from spark_sink.feed.transports.offering import PostOffer
from spark_sink.feed.transports.opening import open_sink, open_source
from spark_sink.feed.transports.rsocket import Positions
from spark_sink.feed.transports.settings import SinkSettings, SourceSettings

OWN: Final = "broker"  # the name of that which has started the feed
ALL_REPORTS: Final = f"{REPORT_PREFIX}.#"


class _Link(TypedDict):
    """What sinks and sources have in common."""

    url: str
    exchange: str
    mqtt_version: MqttVersion
    tls: ssl.SSLContext | None


def sinks_of(assignment: Assignment, name: str) -> Sequence[Sink]:
    """Where the posts of one folder go. BadLink."""
    return [open_sink(_sink(to, broker)) for to, broker in _brokers(assignment, name) if not _is_rsocket(broker)]


def reports_of(assignment: Assignment, name: str) -> Sequence[Source]:
    """Where reports on them come from. BadLink."""
    if not assignment.options.post[name].reports:
        return []
    return [_reports_of(name, to, each) for to, each in _brokers(assignment, name) if not _is_rsocket(each)]


def sources_of(
    assignment: Assignment, name: str, options: SubscribeOptions | WinnowOptions, positions: Positions
) -> list[Source]:
    """Where the posts come from that one mirror, or one winnower, takes. BadLink."""
    return [
        open_source(
            SourceSettings(
                name=f"{name}.{of}",
                queue=options.queue or f"q_{_user(each)}.{socket.gethostname()}.{name}",
                patterns=options.topics,
                prefetch=each.prefetch,
                **_link(each),
            ),
            positions,
        )
        for of, each in _named(assignment, options.brokers)
    ]


def passed_to(assignment: Assignment, name: str, options: SubscribeOptions | WinnowOptions) -> list[Sink]:
    """Where one mirror, or one winnower, passes posts on. BadLink."""
    return [open_sink(_sink(f"{name}.{each}", assignment.options.broker[each])) for each in options.to]


def report_sinks_of(assignment: Assignment, name: str) -> dict[str, Sink]:
    """Where the reports of one mirror go, by the source that their posts are from. BadLink."""
    options = assignment.options.subscribe[name]
    if not options.reports:
        return {}
    brokers = _named(assignment, options.brokers)
    return {f"{name}.{of}": open_sink(_sink(f"{name}.{of}.reports", each)) for of, each in brokers}


def offers_of(assignment: Assignment, name: str, poster: Poster) -> Sequence[PostOffer]:
    """Where the posts of one folder are offered. BadLink."""
    found = [(to, each) for to, each in _brokers(assignment, name) if _is_rsocket(each)]
    return [PostOffer(_sink(to, each), poster.log, poster.heard) for to, each in found]


def _brokers(assignment: Assignment, name: str) -> list[tuple[str, MessageBrokerOptions]]:
    """Of one folder, with their names."""
    return _named(assignment, assignment.options.post[name].to)


def _named(assignment: Assignment, names: Sequence[str]) -> list[tuple[str, MessageBrokerOptions]]:
    """None: this broker."""
    if not names and assignment.broker_url:
        return [(OWN, MessageBrokerOptions(url=assignment.broker_url))]
    return [(each, assignment.options.broker[each]) for each in names]


def _user(broker: MessageBrokerOptions) -> str:
    return urlsplit(broker.url).username or "anonymous"


def _is_rsocket(broker: MessageBrokerOptions) -> bool:
    return broker.url.partition("://")[0] in SCHEMES


def _sink(name: str, broker: MessageBrokerOptions) -> SinkSettings:
    return SinkSettings(name=name, **_link(broker))


def _reports_of(name: str, to: str, broker: MessageBrokerOptions) -> Source:
    return open_source(
        SourceSettings(
            name=f"{name}.{to}.reports",
            queue=f"q_{_user(broker)}.{socket.gethostname()}.{name}.reports",  # so sr3 names its own, and may make them
            patterns=(ALL_REPORTS,),
            prefetch=broker.prefetch,
            **_link(broker),
        )
    )


def _link(broker: MessageBrokerOptions) -> _Link:
    is_tls = broker.url.partition("://")[0] in ("tls", "wss", "amqps", "mqtts")
    return {
        "url": broker.url,
        "exchange": broker.exchange,
        "mqtt_version": broker.mqtt_version,
        "tls": ssl.create_default_context(cafile=broker.ca) if is_tls and broker.ca else None,
    }
