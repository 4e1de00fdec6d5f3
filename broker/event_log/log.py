"""The event log: what happened, in order and numbered, until somebody takes it.

Decides what is kept when nobody does: the oldest. What is dropped is counted, and told as a gap.
"""

from typing import Final

from broker.events import FlowRecord, Gap, LifecycleEvent
from broker.forwarding.traffic.request_log import RequestLog
from broker.routing.query import Query

MAX_EVENTS: Final = 100_000  # records that nobody has taken; more are dropped and counted, and the gap is told


class EventLog:
    """The records of one broker's run, and its clock."""

    def __init__(self, now: float, at_ms: int, query: Query, singles: RequestLog) -> None:
        """`now` seconds, monotonic; `at_ms` the same moment in milliseconds since the epoch. `query`: events say how
        many choices it had made. `singles`: records with numbers of the same sequence; those dropped are told here."""
        self._now = now
        self._at_ms = at_ms  # the wall clock at `_now`
        self._query: Final = query
        self._singles: Final = singles
        singles.set_clock(now, at_ms)
        self.dropped = 0  # ever
        self._events: list[LifecycleEvent | FlowRecord] = []
        self._gap = _no_gap()  # dropped since the last `take`

    def set_clock(self, now: float, at_ms: int) -> None:
        """What the wall clock says at a monotonic moment."""
        self._now = now
        self._at_ms = at_ms
        self._singles.set_clock(now, at_ms)

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
        principal: str = "",
        role: str = "",
    ) -> None:
        """Something happened. `uptime_ms`: how long the route or the connection was there."""
        told = tags if tags is not None else ()
        seq, choices = self.reserve(1), self._query.choices
        event = LifecycleEvent(
            kind,
            seq,
            at_ms,
            route_id,
            service,
            told,
            peer,
            reason,
            detail,
            uptime_ms,
            requests,
            choices,
            principal,
            role,
        )
        self.add(event)

    def reserve(self, count: int) -> int:
        """The first of so many numbers, for events that are told later as of now."""
        first = self._singles.latest_seq + 1
        self._singles.latest_seq += count
        return first

    def add(self, event: LifecycleEvent | FlowRecord) -> None:
        """A record under a number that was reserved."""
        if len(self._events) < MAX_EVENTS:
            self._events.append(event)
            return
        self._drop(1, event.requests if isinstance(event, FlowRecord) else 0, event.seq, event.seq)

    def add_flows(self, records: list[FlowRecord]) -> None:
        """The flows of an interval, numbered from `next_seq` on."""
        self._singles.latest_seq += len(records)
        for record in records:
            self.add(record)

    @property
    def next_seq(self) -> int:
        """The number that the next record will have."""
        return self._singles.latest_seq + 1

    @property
    def waiting_n(self) -> int:
        """Events that were not taken yet."""
        return len(self._events)

    def take(self) -> list[LifecycleEvent | FlowRecord]:
        """What happened since the last call; in order, but for what was told under reserved numbers."""
        events = self._events
        self._events = []
        singles = self._singles
        if singles.dropped_n:
            self._drop(singles.dropped_n, 0, singles.first_dropped, singles.last_dropped)
            singles.dropped_n = 0
        if self._gap.records:
            events.append(self._gap.told(self._at_ms, self._query.choices))
            self._gap = _no_gap()
        return events

    def _drop(self, records: int, requests: int, first_seq: int, last_seq: int) -> None:
        self.dropped += records
        self._gap.add(records, requests, first_seq, last_seq)


def _no_gap() -> Gap:
    return Gap("not-taken", f"are missing: the buffer of {MAX_EVENTS} events was full")
