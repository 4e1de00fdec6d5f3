"""What operators see of a Samwise gateway; for units see `broker.views.schemas`.

The gateway says it in these words at the socket that it has for operators (`client_sdk.gateways.samwise.control`); the
REST API and `rsocket-broker samwise messages` pass them on. There is one gateway, however many workers there are:
nothing of it is merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

WAITING: Final = "waiting"  # states of stored messages
DEAD: Final = "dead"
MAX_ID: Final = 2**63 - 1  # of a message; SQLite has no larger numbers


class DestinationView(msgspec.Struct, frozen=True):
    """A RabbitMQ broker, the connection to brokers whose services get messages, or one of these services."""

    name: str
    is_up: bool | None  # None: only its counts are known, as of a service
    waiting: int  # deliveries that wait for its acknowledgement
    detail: str  # since when it is up, or why it is not
    acknowledged: int  # deliveries
    retried: int  # deliveries that were begun again
    failed: int  # deliveries that were not acknowledged


class GatewayView(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway in one look, as it says itself. Counts are since the start of its process."""

    started_at_ms: int
    callers: int  # connections that are open
    callers_refused: int  # connections that were one too many
    requests_waiting: int  # that have no answer yet; the one that asks this is one of them
    accepted: int  # messages that were stored
    refused: Mapping[str, int]  # requests, by the reason
    quirks: Mapping[str, int]  # accepted messages, by what libsamwise writes and the protocol does not allow
    delivered: int  # messages that all have acknowledged
    died: int  # messages that became dead letters
    events_dropped: int  # records for event files that are lost
    under_way: int  # deliveries
    waiting: int  # stored messages
    waiting_bytes: int
    oldest_age_s: float | None  # of the message that waits longest; None: none waits
    dead: int  # stored dead letters
    dead_bytes: int
    destinations: list[DestinationView]


class SamwiseView(GatewayView, frozen=True, kw_only=True):
    """The same of the gateway beside a broker."""

    pid: int
    restarts: int  # by the broker, since that was started
    backend: str  # services or rabbitmq
    endpoints: list[str]  # as configured


class MessageView(msgspec.Struct, frozen=True, kw_only=True):
    """A stored message, without its payload."""

    id: int
    uid: str  # that travels along with it, as x-samwise-id
    exchange: str
    routing_key: str
    distribution: str
    acknowledgements: int  # that it needs
    acknowledged_by: list[str]
    tries: int  # that were not acknowledged
    stored_at_ms: int
    due_at_ms: int | None  # when it is tried again; None: as soon as a destination takes it, or never
    dead_at_ms: int | None  # None: it is no dead letter
    reason: str  # of the last failure; empty: none yet
    payload_bytes: int


class MessagesView(msgspec.Struct, frozen=True):
    """Stored messages by id; fewer than `limit` where they are large, none: there are no others."""

    items: list[MessageView]
    state: str  # WAITING or DEAD
    after: int  # ids that are greater
    limit: int


class ChangedMessageView(msgspec.Struct, frozen=True):
    """A message that somebody changed."""

    id: int
    change: str  # requeued or removed


class MessageIds(msgspec.Struct, frozen=True):
    """Messages that the gateway is to change."""

    ids: list[Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)]]


class ChangedMessages(msgspec.Struct, frozen=True):
    """How many of these it has changed."""

    changed: int
