"""Snapshots: every so many seconds all routes of the table as events, and one event with the table's digest.

    RouteSeen  RouteSeen  …  TableDigest        numbers of one block, the moment of its first one

Decides when, and what they say. What can change is noted at the moment itself, which takes two tenths of a microsecond
for each route (compiled); the events are made in pieces, one with each tick after that, so that a large table does not
hold up the loop. They have the numbers and the time of the moment, so they come behind younger events: whoever reads
goes by the numbers.
"""

from typing import Final

from broker.event_log.log import EventLog
from broker.event_log.route_events import owner_text, principal_of
from broker.events import ROUTE_SEEN, TABLE_DIGEST, LifecycleEvent
from broker.forwarding.peer import Peer
from broker.routing.query import Query
from broker.routing.table import Route, Table
from rsocket_wire.timers import NEVER

PIECE: Final = 500  # routes; some 2 ms with the writing of them, so that 10,000 take a second of ticks


class Seen:
    """A route as it was at the moment of a snapshot."""

    __slots__ = ("owner", "requests", "route", "slot")

    def __init__(self, route: Route) -> None:
        self.route: Final = route
        self.owner: Final = route.owner  # a route that leaves has none any more
        self.slot: Final = route.slot
        self.requests: Final = route.load.requests


class Snapshots:
    """Of one broker's table."""

    def __init__(self, table: Table, query: Query, event_log: EventLog, interval_s: float, now: float) -> None:
        """`interval_s`: 0 for no snapshots."""
        self._table: Final = table
        self._query: Final = query
        self._event_log: Final = event_log
        self._interval_s: Final = interval_s
        self._due_at = now + interval_s if interval_s > 0 else NEVER
        self._left: list[Seen] = []  # of the snapshot that is being told; empty between two of them
        self._told = 0  # of them
        self._tags: list[tuple[str, str]] = []  # of its TableDigest; empty between two
        self._first_seq = 0
        self._at_ms = 0
        self._choices = 0

    def tick(self, now: float) -> None:
        """Begins a snapshot when it is due, or tells a piece of one that has begun."""
        if self._tags:
            self._tell_piece(PIECE)
        elif now >= self._due_at:
            self._due_at = now + self._interval_s
            self._begin(now)

    def finish(self) -> None:
        """Tells all that is left of a snapshot that has begun."""
        if self._tags:
            self._tell_piece(len(self._left))

    def next_at(self) -> float:
        """When a tick is wanted at the latest, seconds, monotonic; 0: at once."""
        return 0.0 if self._tags else self._due_at

    def _begin(self, now: float) -> None:
        table = self._table
        self._left = [Seen(route) for route in table.routes()]
        self._told = 0
        local_n = sum([1 for seen in self._left if isinstance(seen.owner, Peer)])
        self._at_ms = self._event_log.wall(now)
        self._choices = self._query.choices
        self._first_seq = self._event_log.reserve(len(self._left) + 1)
        self._tags = [
            ("digest", table.digest.text),
            ("routes", str(len(self._left))),
            ("local", str(local_n)),
            ("generation", str(table.generation)),
        ]

    def _tell_piece(self, count: int) -> None:
        at_ms = self._at_ms
        end = min(self._told + count, len(self._left))
        for number in range(self._told, end):
            seen = self._left[number]
            route = seen.route
            self._event_log.add(
                LifecycleEvent(
                    ROUTE_SEEN,
                    self._first_seq + number,
                    at_ms,
                    route.id_text,
                    route.service,
                    route.tag_texts(),
                    owner_text(seen.owner),
                    detail=str(seen.slot),
                    uptime_ms=max(0, at_ms - route.joined_at_ms),
                    requests=seen.requests,
                    choices=self._choices,
                    principal=principal_of(seen.owner),
                )
            )
        self._told = end
        if end == len(self._left):
            seq = self._first_seq + end
            self._event_log.add(LifecycleEvent(TABLE_DIGEST, seq, at_ms, tags=self._tags, choices=self._choices))
            self._left = []
            self._tags = []
