"""The diary: what happened, in order and numbered, until somebody takes it.

Decides what is kept when nobody does: the oldest. What is dropped is counted, and told as a gap.
"""

from typing import Final

from broker.events import (
    EVENTS_DROPPED,
    FlowRecord,
    LifecycleEvent,
)

MAX_EVENTS: Final = 100_000  # records that nobody has taken; more are dropped and counted, and the gap is told


class Diary:
    """The records of one broker's run, and its clock."""

    __slots__ = (
        "_at_ms",
        "_events",
        "_gap_first_seq",
        "_gap_last_seq",
        "_gap_records",
        "_gap_requests",
        "_now",
        "dropped",
        "seq",
    )

    def __init__(self, now: float, at_ms: int) -> None:
        """`now` seconds, monotonic; `at_ms` the same moment in milliseconds since the epoch."""
        self._now = now
        self._at_ms = at_ms  # the wall clock at `_now`
        self.seq = 0  # of the latest record
        self.dropped = 0  # ever
        self._events: list[LifecycleEvent | FlowRecord] = []
        self._gap_records = 0  # dropped since the last `take`
        self._gap_requests = 0  # counted in them
        self._gap_first_seq = 0
        self._gap_last_seq = 0

    def set_clock(self, now: float, at_ms: int) -> None:
        """What the wall clock says at a monotonic moment."""
        self._now = now
        self._at_ms = at_ms

    def wall(self, now: float) -> int:
        """The wall clock at a monotonic moment, milliseconds since the epoch."""
        return self._at_ms + int((now - self._now) * 1000)

    def tell(
        self,
        kind: int,
        at_ms: int,
        route_id: str = "",
        service: str = "",
        tags: list[tuple[str, str]] | None = None,
        peer: str = "",
        reason: str = "",
        detail: str = "",
        uptime_ms: int = 0,
        requests: int = 0,
    ) -> None:
        """Something happened."""
        self.seq += 1
        self._add(
            LifecycleEvent(
                kind,
                self.seq,
                at_ms,
                route_id,
                service,
                tags,
                peer,
                reason,
                detail,
                uptime_ms,
                requests,
                0,
            )
        )

    def add_flows(self, records: list[FlowRecord]) -> None:
        """The flows of an interval, numbered from `seq` + 1 on."""
        self.seq += len(records)
        for record in records:
            self._add(record)

    def take(self) -> list[LifecycleEvent | FlowRecord]:
        """What happened since the last call, in order."""
        events = self._events
        self._events = []
        if self._gap_records:
            events.append(self._told_gap())
        return events

    def _add(self, event: LifecycleEvent | FlowRecord) -> None:
        if len(self._events) < MAX_EVENTS:
            self._events.append(event)
            return
        self.dropped += 1
        if self._gap_records == 0:
            self._gap_first_seq = event.seq
        self._gap_records += 1
        self._gap_last_seq = event.seq
        self._gap_requests += event.requests if isinstance(event, FlowRecord) else 0

    def _told_gap(self) -> LifecycleEvent:
        """The records that were dropped, as an event with the number of the last of them."""
        first = self._gap_first_seq
        last = self._gap_last_seq
        event = LifecycleEvent(
            EVENTS_DROPPED,
            last,
            self._at_ms,
            tags=[("records", str(self._gap_records)), ("first_seq", str(first)), ("last_seq", str(last))],
            reason="not-taken",
            detail=f"{self._gap_records} records are missing: {MAX_EVENTS} others waited to be taken",
            requests=self._gap_requests,
        )
        self._gap_records = 0
        self._gap_requests = 0
        return event
