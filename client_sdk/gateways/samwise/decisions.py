"""What `delivery` decides: what becomes of messages, which is to be written, and what to read. Values alone."""

from dataclasses import dataclass
from typing import TypeAlias

from client_sdk.gateways.samwise.values import Message

# What becomes of messages: to be written, in this order.


@dataclass(frozen=True, slots=True)
class Done:
    """Everybody whom it wants has acknowledged it."""

    message: Message


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """These have, and others have to."""

    message: Message
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Later:
    """It is tried again then."""

    message: Message
    due_at_ms: int
    reason: str  # of the last failure


@dataclass(frozen=True, slots=True)
class Parked:
    """It waits in this lane."""

    message: Message
    lane: str
    reason: str  # of the last failure; empty: there was none


@dataclass(frozen=True, slots=True)
class Dead:
    """It is not tried again."""

    message: Message
    reason: str  # of the last failure


Fate: TypeAlias = Done | Acknowledged | Later | Parked | Dead

# What to read.


@dataclass(frozen=True, slots=True)
class ReadNew:
    """New messages behind this id; the answer is `got_new`."""

    after_id: int
    max_n: int


@dataclass(frozen=True, slots=True)
class TakeDue:
    """Messages that are due; the answer is `got_due`."""

    max_n: int


@dataclass(frozen=True, slots=True)
class TakeLane:
    """The first messages of a lane; the answer is `got_lane`."""

    lane: str
    max_n: int


Want: TypeAlias = ReadNew | TakeDue | TakeLane
