"""What is asked of the gateway, and what it stores: values without ZeroMQ, SQLite or AMQP.

"PUBLISHING TO RABBITMQ" and "RPC CALLS TO RABBITMQ" of protocol 1.0, "ADDITIONAL OPTIONS" of 1.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

ROUND_ROBIN: Final = "round robin"
REDUNDANT: Final = "redundant"
DECLARE: Final = "exchange.declare"
DELETE: Final = "exchange.delete"
STOP: Final = "stop"
RESTART: Final = "restart"

ID_HEADER: Final = "x-samwise-id"  # under which `Message.uid` travels: receivers drop repeats by it

DEFAULT_TIMEOUT_S: Final = 5.0  # that our own client waits for an answer

TOO_LATE: Final = "stopping: the gateway stops"  # the answer to a request that comes while it does

# The twelve options of protocol 1.1 in the order of their frames.
OPTIONS: Final = (
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)

# What libsamwise does otherwise than the documents say.
HEADER_PAIRS: Final = "header-pairs"  # it counts pairs of header frames, not frames
REPEATED_OPTIONS: Final = "repeated-options"  # it writes content_type into all twelve options


class Refused(Exception):
    """A request that the gateway does not accept: the caller gets -1 and the text, and nothing is stored.

    `reason`: one word for counters: version, action, control, frames, number, empty, text, strict, limit, full, disk,
    backend, stopping, internal.
    """

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.text: Final = text
        self.reason: Final = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """A message that a caller hands over. Frames that were empty have the values of the configuration."""

    version: int
    distribution: str  # ROUND_ROBIN or REDUNDANT
    acks_n: int  # how many different destinations have to acknowledge it; 1 for ROUND_ROBIN
    exchange: str
    routing_key: str
    mandatory: bool = False
    immediate: bool = False
    options: Mapping[str, str]  # of OPTIONS, only those that are not empty
    headers: tuple[tuple[str, bytes], ...]  # in the order in which they were given
    payload: bytes
    quirks: tuple[str, ...] = field(default=(), compare=False)  # HEADER_PAIRS, REPEATED_OPTIONS: counted, not stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Rpc:
    """A control command for one RabbitMQ broker, or for all."""

    version: int
    broker: str  # a name of the configuration; empty: all
    action: str  # DECLARE or DELETE
    name: str  # of the exchange
    type: str = ""  # of the exchange that is declared


@dataclass(frozen=True, slots=True)
class Ping:
    """Is the gateway there, and does it speak this version?"""

    version: int


@dataclass(frozen=True, slots=True)
class Status:
    """What the gateway has done, as text. Protocol 1.2, which only programs in the wild speak."""

    version: int


@dataclass(frozen=True, slots=True)
class Control:
    """STOP or RESTART, of protocol 1.2."""

    version: int
    action: str


Request: TypeAlias = Publish | Rpc | Ping | Status | Control


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request."""

    is_ok: bool
    text: str = ""  # why it was refused; of Status what was asked for


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A Publish that is stored."""

    id: int  # ascending in the order in which messages were stored
    uid: str  # 32 hex digits, the same in each attempt: receivers drop repeats by it
    stored_at_ms: int  # since the epoch
    tries_n: int  # how often it was published and not acknowledged
    acknowledged_by: frozenset[str]  # names of destinations
    publish: Publish
