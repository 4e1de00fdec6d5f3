"""What `delivery` decides: what becomes of messages, which is to be written, and what to read. Values alone."""

from typing import TypeAlias

import msgspec

from client_sdk.gateways.samwise.values import Message

# What becomes of messages: to be written, in this order.


class Done(msgspec.Struct, frozen=True):
    """Everybody whom it wants has acknowledged it."""

    message: Message


class Acknowledged(msgspec.Struct, frozen=True):
    """These have, and others have to."""

    message: Message
    names: frozenset[str]


class Later(msgspec.Struct, frozen=True):
    """It is tried again then."""

    message: Message
    due_at_ms: int
    reason: str  # of the last failure


class Parked(msgspec.Struct, frozen=True):
    """It waits in this lane."""

    message: Message
    lane: str
    reason: str  # of the last failure; empty: there was none


class Dead(msgspec.Struct, frozen=True):
    """It is not tried again."""

    message: Message
    reason: str  # of the last failure


Fate: TypeAlias = Done | Acknowledged | Later | Parked | Dead

# What to read.


class ReadNew(msgspec.Struct, frozen=True):
    """New messages behind this id; the answer is `got_new`."""

    after_id: int
    max_n: int


class TakeDue(msgspec.Struct, frozen=True):
    """Messages that are due; the answer is `got_due`."""

    max_n: int


class TakeLane(msgspec.Struct, frozen=True):
    """The first messages of a lane; the answer is `got_lane`."""

    lane: str
    max_n: int


Want: TypeAlias = ReadNew | TakeDue | TakeLane
