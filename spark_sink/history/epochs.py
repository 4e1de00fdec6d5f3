"""The history of the routing tables: what lifecycle events say of each run of each broker, in its order.

    epoch    BrokerStarted  RouteJoined  RouteJoined  DrainStarted  RouteLeft …        whole: from the beginning on
    epoch                       ···  RouteSeen RouteSeen TableDigest  RouteLeft …      else: from the first snapshot on

Decides which epochs can be replayed from where, and which parts of one can be replayed apart (`Epoch.split`). Knows
no requests.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from broker import events
from rsocket_wire.wire.keys import SERVICE_NAME
from spark_sink.errors import SinkError
from spark_sink.history.records import PUTS, TAKES, Record, Run, by_run, records_of

OF_ROUTES: Final = PUTS | TAKES | {events.ROUTE_EJECTED, events.ROUTE_RELIEVED}
_FOR_ALL: Final = frozenset({events.DRAIN_STARTED, events.DRAIN_ENDED, events.REDIRECT_SET, events.REDIRECT_REMOVED})
KINDS: Final = OF_ROUTES | _FOR_ALL | {events.BROKER_STARTED, events.TABLE_DIGEST, events.EVENTS_DROPPED}

MAX_CHANGES: Final = 1_000_000  # lifecycle events of one simulation; some 500 bytes each, held by every worker
FOR_EVER: Final = 1 << 62
WHOLE: Final = "\0all"  # the unit that is all of an epoch; no service has such a name
NOBODY: Final = "\0none"  # a unit that has no routes


class Epoch:
    """What changed the table in one run of a broker."""

    def __init__(self, run: Run, records: list[Record]) -> None:
        """`records`: by `seq`."""
        self.run: Final = run
        started = next((each for each in records if each.kind == events.BROKER_STARTED), None)
        self.is_whole: Final = started is not None
        # Its settings; without them somebody may lend those of another run.
        self.tags: Mapping[str, str] = started.tags if started is not None else {}
        self.lost_n: Final = sum(_lost_in(each) for each in records if each.kind == events.EVENTS_DROPPED)
        self.begins_at, self.changes = self._from_the_beginning(records)
        self._roots: dict[str, str] = {}  # service -> service, up to the one that names the unit

    @property
    def can_begin(self) -> bool:
        """There is a moment from which on the table is known."""
        return self.is_whole or self.begins_at is not None

    def _from_the_beginning(self, records: list[Record]) -> tuple[Record | None, list[Record]]:
        """Where the replay begins (None: with the epoch), and what changes from there on."""
        changes = [each for each in records if each.kind in OF_ROUTES | _FOR_ALL and each.kind != events.ROUTE_SEEN]
        if self.is_whole:
            return None, changes
        seen: list[Record] = []
        for record in records:
            if record.kind == events.ROUTE_SEEN:
                seen.append(record)
            elif record.kind == events.TABLE_DIGEST:
                if len(seen) == len(record.snapshot):  # all of it is there
                    return record, [*seen, *(each for each in changes if each.seq > record.seq)]
                seen = []
        return None, []

    def split(self) -> dict[str, str]:
        """From now on each set of services whose choices have nothing to do with each other is a unit of its own.
        Service -> unit, of all services that routes have had.

        A request for one service may reach routes of another one: those that carry its name as a tag, or to which it
        is redirected. Both are one unit.
        """
        for change in self.changes:
            if change.kind in PUTS:
                self._find(change.service)
                for name, joined in change.tags.items():
                    if name == SERVICE_NAME.name:
                        for value in values_of(joined):
                            self._join(change.service, value)
            elif change.kind == events.REDIRECT_SET:
                self._join(change.service, change.detail.removeprefix("requests go to "))
        return {service: self._find(service) for service in sorted(self._roots)}

    def changes_of(self, unit: str) -> list[Record]:
        """What changed in a unit. Of the routes of other units where callers are is still to be known."""
        if unit == WHOLE:
            return self.changes
        return [each for each in self.changes if each.kind in _FOR_ALL or self._find(each.service) == unit]

    def lifetimes(self) -> dict[str, list[tuple[int, int]]]:
        """Route Id -> when it came and when it went, microseconds; without an end: for ever."""
        found: dict[str, list[tuple[int, int]]] = {}
        for change in self.changes:
            lifetimes = found.setdefault(change.route_id, [])
            if change.kind in PUTS | TAKES and lifetimes and lifetimes[-1][1] == FOR_EVER:
                lifetimes[-1] = (lifetimes[-1][0], change.at_us)
            if change.kind in PUTS:
                lifetimes.append((change.at_us + 1, FOR_EVER))
        return found

    def _find(self, service: str) -> str:
        parent = self._roots.setdefault(service, service)
        while parent != service:
            service, parent = parent, self._roots[parent]
        return service

    def _join(self, one: str, other: str) -> None:
        roots = sorted((self._find(one), self._find(other)))
        self._roots[roots[1]] = roots[0]


def epochs_of(rows: pa.Table) -> list[Epoch]:
    """The epochs that lifecycle rows tell of, by broker and epoch; rows in any order. SinkError: there are too many.
    A record that is there twice counts once."""
    if len(rows) > MAX_CHANGES:
        raise SinkError(f"the routing tables changed more than {MAX_CHANGES} times: narrow it with --broker or --until")
    epochs = [Epoch(run, list({each.seq: each for each in records_of(mine)}.values())) for run, mine in by_run(rows)]
    _lend_settings(epochs)
    return epochs


def values_of(joined: str | None) -> list[str]:
    """What a value in an event may stand for: itself, and where it has commas each part. Which of both it was, events
    do not tell, so a route with commas in its tags may match more here than it did.
    """
    text = joined or ""
    return [text, *text.split(",")] if "," in text else [text]


def _lend_settings(epochs: list[Epoch]) -> None:
    """An epoch whose beginning is gone gets the settings of the broker's next run, or else of its latest."""
    for epoch in epochs:
        if not epoch.is_whole:
            others = [other for other in epochs if other.run.broker_id == epoch.run.broker_id and other.is_whole]
            later = [other for other in others if other.run.epoch > epoch.run.epoch]
            lender = later[0] if later else others[-1] if others else None
            epoch.tags = lender.tags if lender is not None else {}


def _lost_in(dropped: Record) -> int:
    text = dropped.tags.get("records") or "0"
    return int(text) if text.isdigit() else 0
