"""What a source or a sink is told: where its broker is, and what is asked of it. Knows no protocol's library.

    tcp:// tls:// ws:// wss:// unix://    an RSocket broker
    amqp:// amqps://                      a RabbitMQ broker, or another one of AMQP 0-9-1
    mqtt:// mqtts://                      a broker of MQTT

A URL of AMQP or MQTT may have a user and a password, and that of AMQP a virtual host as its path.
"""

import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from rsocket_wire.ports import SCHEMES
from spark_sink.errors import SinkError

RSOCKET: Final = "rsocket"
AMQP: Final = "amqp"
MQTT: Final = "mqtt"
PROTOCOLS: Final = {
    **dict.fromkeys(SCHEMES, RSOCKET),
    **dict.fromkeys(("amqp", "amqps"), AMQP),
    **dict.fromkeys(("mqtt", "mqtts"), MQTT),
}
PORTS: Final = {"amqp": 5672, "amqps": 5671, "mqtt": 1883, "mqtts": 8883}
POST_PREFIX: Final = "v03.post"
ALL_POSTS: Final = f"{POST_PREFIX}.#"
PREFETCH: Final = 25  # messages that may be out and not acknowledged, as of sr3
RSOCKET_PREFETCH: Final = 128  # the same of RSocket: twice as many posts a second as with 25; more of them gain nothing
MQTT_5: Final = "5"
MQTT_3: Final = "3.1.1"


class BadLink(SinkError):
    """A source or a sink that cannot be; the text names it and says why."""


@dataclass(frozen=True, kw_only=True)
class LinkSettings:
    """Of a source or a sink."""

    name: str  # no other source or sink has it
    url: str
    exchange: str = "xpublic"  # of AMQP; the first level of topics of MQTT
    mqtt_version: str = MQTT_5  # or MQTT_3, in which a post does not say that it is JSON
    tls: ssl.SSLContext | None = None  # for a URL that is encrypted; None: the certificates of the system

    @property
    def protocol(self) -> str:
        """RSOCKET, AMQP or MQTT. BadLink."""
        scheme = self.url.partition("://")[0]
        protocol = PROTOCOLS.get(scheme)
        if protocol is None:
            raise BadLink(f"{self.name}: {self.url!r} has none of the schemes {', '.join(PROTOCOLS)}")
        return protocol

    def where(self) -> "Where":
        """Of a URL of AMQP or MQTT. BadLink."""
        try:
            parts = urlsplit(self.url)
            port = parts.port
        except ValueError as error:
            raise BadLink(f"{self.name}: {self.url!r}: {error}") from None
        if not parts.hostname:
            raise BadLink(f"{self.name}: {self.url!r} names no host")
        return Where(
            host=parts.hostname,
            port=port or PORTS[parts.scheme],
            user=_unquoted(parts.username),
            password=_unquoted(parts.password),
            vhost=_vhost(parts),
            tls=(self.tls or ssl.create_default_context()) if parts.scheme.endswith("s") else None,
        )


@dataclass(frozen=True, kw_only=True)
class SourceSettings(LinkSettings):
    """Where posts come from, or reports."""

    patterns: tuple[str, ...] = (ALL_POSTS,)  # of topics with dots, as an AMQP exchange takes them
    queue: str = ""  # that several processes may share; of MQTT the session; empty: made of the name
    prefetch: int = 0  # 0: PREFETCH, or RSOCKET_PREFETCH
    expire_s: float = 0.0  # without a consumer, after which the queue or session is gone; 0: never
    message_ttl_s: float = 0.0  # after which a message in the queue is gone; 0: never

    @property
    def prefetch_n(self) -> int:
        """Messages that may be out and not acknowledged. BadLink."""
        return self.prefetch or (RSOCKET_PREFETCH if self.protocol == RSOCKET else PREFETCH)


@dataclass(frozen=True, kw_only=True)
class SinkSettings(LinkSettings):
    """Where posts go, or reports."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """What a URL says."""

    host: str
    port: int
    user: str  # empty: nobody
    password: str
    vhost: str  # of AMQP
    tls: ssl.SSLContext | None


def _unquoted(text: str | None) -> str:
    return unquote(text or "")


def _vhost(parts: SplitResult) -> str:
    """`/`, unless the path names another one."""
    return unquote(parts.path.removeprefix("/")) or "/"
