"""What operators see of the Samwise gateway beside a broker; for units see `broker.views.schemas`.

There is one gateway, however many workers there are: nothing of it is merged.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class DestinationView(msgspec.Struct, frozen=True):
    """A RabbitMQ broker, the connection to brokers whose services get messages, or one of these services."""

    name: str
    is_up: bool | None  # None: only its counts are known, as of a service
    waiting: int  # deliveries that wait for its acknowledgement
    detail: str  # since when it is up, or why it is not
    acknowledged: int  # deliveries
    retried: int  # deliveries that were begun again
    failed: int  # deliveries that were not acknowledged


class SamwiseView(msgspec.Struct, frozen=True):
    """The gateway in one look. Counts are since the start of its process."""

    pid: int
    restarts: int  # by the broker, since that was started
    backend: str  # services or rabbitmq
    endpoints: list[str]  # as configured
    started_at_ms: int
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


class MessageView(msgspec.Struct, frozen=True):
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
    state: str  # waiting or dead
    after: int  # ids that are greater
    limit: int


class ChangedMessageView(msgspec.Struct, frozen=True):
    """A message that somebody changed."""

    id: int
    change: str  # requeued or removed
