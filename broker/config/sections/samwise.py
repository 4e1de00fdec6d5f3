"""The options of the Samwise gateway: section [samwise] and the tables in it. See `broker.config.options`."""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from broker.config.option import MAX_NAME_BYTES, option
from broker.config.quantities import SIZE, TIME
from broker.config.urls import Listen
from rsocket_wire.wire.tags import MAX_VALUE_BYTES

MAX_TRIES: Final = 1_000_000
MAX_SHORT_BYTES: Final = 255  # of a short string of AMQP 0-9-1
MAX_EXPIRATION_MS: Final = 315_360_000_000  # ten years; RabbitMQ 3.10 closes the channel for more

BackendName = Literal["services", "rabbitmq"]
Durability = Literal["fsync", "os"]
Distribution = Literal["", "round robin", "redundant"]
ExchangeType = Literal["direct", "fanout"]
DeliveryMode = Literal["", "1", "2"]


@dataclass(frozen=True)
class RetryOptions:
    """When a message that nobody has acknowledged is delivered again."""

    tries: int = option(
        3,
        "Deliveries of a message, the first one included, before it becomes a dead letter. 0: no limit.",
        "10",
        "deliveries",
        within=(0, MAX_TRIES),
    )
    interval: float = option(
        5.0,
        "Least time between two deliveries of one message after one that failed.",
        '"30s"',
        "seconds",
        within=(0.001, 86_400),
        form=TIME,
    )
    threshold: float = option(
        10.0,
        "Time for an acknowledgement, after which a delivery counts as failed.",
        '"1m"',
        "seconds",
        within=(0.01, 86_400),
        form=TIME,
    )


def _property(name: str, example: str, note: str = "") -> str:
    """An option for one of the twelve of protocol 1.1, as every message has it that says nothing else."""
    return option("", f"Default of {name}{note}.", example, within=(0, MAX_SHORT_BYTES))


@dataclass(frozen=True)
class MessageDefaults:
    """What empty frames of a publishing request stand for. Empty: nothing; a frame that is needed is then refused."""

    distribution: Distribution = option(
        "",
        "Default of distribution: round robin, one destination; redundant, several different ones.",
        '"round robin"',
    )
    min_acknowledged: int = option(
        0,
        'Default of "min. acknowledged": how many destinations must acknowledge a redundant message. 0: none.',
        "2",
        "destinations",
        within=(0, 1000),
    )
    exchange: str = _property("the exchange", '"orders"')
    routing_key: str = _property("the routing key", '"new"')
    content_type: str = _property("content_type", '"application/json"')
    content_encoding: str = _property("content_encoding", '"gzip"')
    delivery_mode: DeliveryMode = option(
        "", "Default of delivery_mode: 1, RabbitMQ may lose it when it ends; 2, it may not.", '"2"'
    )
    priority: str = _property("priority", '"5"', ", 0 to 255")
    correlation_id: str = _property("correlation_id", '"none"')
    reply_to: str = _property("reply_to", '"answers"')
    expiration: str = _property("expiration", '"60000"', ", 0 to 315360000000 milliseconds")
    message_id: str = _property("message_id", '"none"')
    type: str = _property("type", '"order"')
    user_id: str = _property("user_id", '"samwise"', ", which must be the user of the RabbitMQ broker")
    app_id: str = _property("app_id", '"shop"')


@dataclass(frozen=True)
class RabbitmqOptions:
    """One RabbitMQ broker, NAME, to which messages are published where `samwise.backend` is rabbitmq."""

    host: str = option("127.0.0.1", "Where it is: a name or an address.", '"rabbit-1.example"', within=(1, 253))
    port: int = option(5672, "Its port.", "5673", "port", within=(1, 65_535))
    user: str = option("guest", "The user; RabbitMQ lets guest in from its own machine only.", '"samwise"')
    password: str = option("guest", "The user's password.", '"a long one"', is_secret=True)
    virtual_host: str = option("/", "The virtual host.", '"shop"', within=(1, MAX_NAME_BYTES))
    tls: bool = option(False, "Whether the connection is encrypted; its port is 5671 then, mostly.", "true")
    ca: str = option(
        "",
        "CA certificates, PEM, that sign that of the broker. Empty: those of the system.",
        '"/etc/rabbitmq/ca.pem"',
        form="file",
    )
    heartbeat: float = option(
        3.0,
        "Interval of heartbeats, in whole seconds, rounded up; a broker that is silent for a little more than three of "
        "them counts as lost.",
        '"10s"',
        "seconds",
        within=(1, 3600),
        form=TIME,
    )


@dataclass(frozen=True)
class ExchangeOptions:
    """What exchange NAME stands for where `samwise.backend` is services; others are services of the same name."""

    service: str = option(
        "",
        "The service that gets its messages. Empty: that of the same name.",
        '"orders"',
        within=(0, MAX_VALUE_BYTES),
    )
    type: ExchangeType = option(
        "direct", "direct: one route of the service gets a message; fanout: all routes do.", '"fanout"'
    )


@dataclass(frozen=True)
class SamwiseOptions:
    """The Samwise gateway, a process of its own that takes messages by ZeroMQ, stores and delivers them."""

    endpoints: tuple[str, ...] = option(
        (),
        "ZeroMQ endpoints that the gateway listens on: ipc://PATH and tcp://ADDRESS:PORT. Empty: there is no gateway. "
        "An address that other machines reach needs curve_key.",
        '["ipc:///run/rsocket-broker/samwise", "tcp://127.0.0.1:5999"]',
        form="endpoint",
    )
    dir: str = option(
        "",
        "Directory of the stored messages, created if missing; only one gateway uses it. Required by endpoints.",
        '"/var/lib/rsocket-broker/samwise"',
        form="directory",
    )
    backend: BackendName = option(
        "services",
        "Who gets the messages: services of a broker, or the RabbitMQ brokers of [samwise.rabbitmq.NAME], which needs "
        "aiormq.",
        '"rabbitmq"',
    )
    brokers: tuple[Listen, ...] = option(
        (),
        "Brokers whose services get the messages, the first that answers. Empty: the first listener of server.listen.",
        '["tcp://127.0.0.1:7878"]',
        form="URL",
    )
    ca: str = option(
        "",
        "CA certificates, PEM, that sign those of the brokers, where they are tls or wss. Empty: those of the system.",
        '"/etc/rsocket-broker/ca.pem"',
        form="file",
    )
    durability: Durability = option(
        "fsync",
        "When a message counts as stored: fsync, when it is on the disk; os, when the operating system has it, which "
        "only a power failure or a crash of the system takes away. os answers one caller several times as fast.",
        '"os"',
    )
    max_messages: int = option(
        1_000_000,
        "Messages that are stored at the same time, dead letters included. Beyond it publishing is refused.",
        "100000",
        "messages",
        within=(1, 1 << 40),
    )
    max_bytes: int = option(
        4 << 30,
        "Size of all stored messages together. Beyond it publishing is refused.",
        '"10G"',
        "bytes",
        within=(1 << 16, 1 << 50),
        form=SIZE,
    )
    max_message_bytes: int = option(
        16 << 20,
        "Size of one request, all frames together. Beyond it the request is refused; a single frame that is larger "
        "ends the connection.",
        '"1M"',
        "bytes",
        within=(1 << 10, 1 << 30),
        form=SIZE,
    )
    max_frames: int = option(
        1024,
        "Frames of one request, beyond which it is refused: 22 and two for each header.",
        "64",
        "frames",
        within=(32, 1 << 20),
    )
    max_callers: int = option(
        4096,
        "Connections of callers at the same time; the next one is not let in. Each needs a file descriptor.",
        "64",
        "connections",
        within=(1, 1_000_000),
    )
    max_requests_per_s: int = option(
        0,
        "Requests of all callers per second, with bursts of as many; beyond it they are refused. 0: no limit.",
        "10000",
        "requests per second",
        within=(0, 10_000_000),
    )
    max_requests_per_caller_per_s: int = option(
        0,
        "Requests of one connection per second, likewise. 0: no limit.",
        "1000",
        "requests per second",
        within=(0, 10_000_000),
    )
    strict: bool = option(
        False,
        "Whether requests are refused that libsamwise writes and the protocol does not allow: pairs counted instead of "
        "frames of headers, content_type repeated in all twelve options.",
        "true",
    )
    strict_redundancy: bool = option(
        False,
        "Whether a redundant message is refused that wants more acknowledgements than there are destinations now. "
        "false: it is kept until there are enough.",
        "true",
    )
    min_version: int = option(
        100,
        "Lowest protocol version that is accepted, of 100, 110 and 120.",
        "110",
        "version",
        within=(100, 120),
    )
    controls: tuple[str, ...] = option(
        ("status",),
        'Control commands of protocol 1.2 that any caller may give, of "status", "stop" and "restart".',
        '["status", "stop"]',
        form="control",
    )
    declare_durable: bool = option(
        False,
        "Whether exchange.declare makes exchanges that outlive a RabbitMQ broker. false, as samd does.",
        "true",
    )
    curve_key: str = option(
        "",
        "The gateway's own key, a .key_secret file as zmq.auth.create_certificates writes it. When set, every tcp "
        "connection is encrypted by CURVE, which needs pyzmq, and callers must know the public key.",
        '"/etc/rsocket-broker/gateway.key_secret"',
        form="file",
    )
    curve_clients: str = option(
        "",
        "Directory with the public keys, .key files, of the callers that are let in, read at the start. Empty: all who "
        "know the gateway's public key.",
        '"/etc/rsocket-broker/callers"',
        form="directory",
    )
    retry: RetryOptions = field(default_factory=RetryOptions)
    defaults: MessageDefaults = field(default_factory=MessageDefaults)
    rabbitmq: Mapping[str, RabbitmqOptions] = field(default_factory=dict)  # by name
    exchange: Mapping[str, ExchangeOptions] = field(default_factory=dict)  # by name
