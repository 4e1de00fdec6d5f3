"""The history of the routing tables: what lifecycle events say of each run of each broker, in its order.

    epoch    BrokerStarted  RouteJoined  RouteJoined  DrainStarted  RouteLeft …        whole: from the beginning on
    epoch                       ···  RouteSeen RouteSeen TableDigest  RouteLeft …      else: from the first snapshot on

Decides which epochs can be replayed from where, and which parts of one can be replayed apart (`Epoch.units`). Knows
no requests.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from broker.events import (
    BROKER_STARTED,
    DRAIN_ENDED,
    DRAIN_STARTED,
    EVENTS_DROPPED,
    REDIRECT_REMOVED,
    REDIRECT_SET,
    ROUTE_EJECTED,
    ROUTE_RELIEVED,
    ROUTE_SEEN,
    TABLE_DIGEST,
)
from rsocket_wire.wire.keys import SERVICE_NAME
from spark_sink.errors import SinkError
from spark_sink.history.records import PUTS, TAKES

OF_ROUTES: Final = PUTS | TAKES | {ROUTE_EJECTED, ROUTE_RELIEVED}
_FOR_ALL: Final = frozenset({DRAIN_STARTED, DRAIN_ENDED, REDIRECT_SET, REDIRECT_REMOVED})
KINDS: Final = OF_ROUTES | _FOR_ALL | {BROKER_STARTED, TABLE_DIGEST, EVENTS_DROPPED}

MAX_CHANGES: Final = 1_000_000  # lifecycle events of one simulation; some 500 bytes each, held by every worker
FOR_EVER: Final = 1 << 62
WHOLE: Final = "\0all"  # the unit that is all of an epoch; no service has such a name
NOBODY: Final = "\0none"  # a unit that has no routes


class Change:
    """One thing that happened to the table."""

    __slots__ = ("at_us", "choices", "detail", "kind", "peer", "reason", "route_id", "seq", "service", "tags")

    def __init__(
        self,
        kind: int,
        seq: int,
        at_us: int,
        choices: int,
        route_id: str = "",
        service: str = "",
        tags: Mapping[str, str | None] | None = None,
        peer: str = "",
        reason: str = "",
        detail: str = "",
    ) -> None:
        self.kind: Final = kind
        self.seq: Final = seq
        self.at_us: Final = at_us
        self.choices: Final = choices  # that the broker had made by then
        self.route_id: Final = route_id
        self.service: Final = service
        self.tags: Final[Mapping[str, str | None]] = tags if tags is not None else {}
        self.peer: Final = peer
        self.reason: Final = reason
        self.detail: Final = detail


class Epoch:
    """One run of one broker."""

    def __init__(self, broker_id: str, broker_name: str, epoch: int, changes: list[Change]) -> None:
        """`changes`: by `seq`."""
        self.broker_id: Final = broker_id
        self.broker_name: Final = broker_name
        self.epoch: Final = epoch
        started = next((change for change in changes if change.kind == BROKER_STARTED), None)
        self.is_whole: Final = started is not None
        self.tags: Mapping[str, str | None] = started.tags if started is not None else {}  # its settings
        self.has_settings = started is not None  # else somebody may lend those of another run
        self.first_us: Final = changes[0].at_us
        self.lost_n: Final = sum(_records_of(change) for change in changes if change.kind == EVENTS_DROPPED)
        self.begins_at, self.changes = self._from_the_beginning(changes)
        self._roots: dict[str, str] = {}  # service -> service, up to the one that names the unit

    @property
    def can_begin(self) -> bool:
        """There is a moment from which on the table is known."""
        return self.is_whole or self.begins_at is not None

    def _from_the_beginning(self, changes: list[Change]) -> tuple[Change | None, list[Change]]:
        """Where the replay begins (None: with the epoch), and what changes from there on."""
        if self.is_whole:
            return None, [each for each in changes if each.kind in OF_ROUTES | _FOR_ALL and each.kind != ROUTE_SEEN]
        seen: list[Change] = []
        for number, change in enumerate(changes):
            if change.kind == ROUTE_SEEN:
                seen.append(change)
            elif change.kind == TABLE_DIGEST:
                if len(seen) == int(change.tags.get("routes") or 0):  # the whole snapshot is there
                    later = [each for each in changes[number + 1 :] if each.kind in OF_ROUTES | _FOR_ALL]
                    return change, [*seen, *(each for each in later if each.kind != ROUTE_SEEN)]
                seen = []
        return None, []

    def split(self) -> None:
        """From now on each set of services whose choices have nothing to do with each other is a unit of its own.

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
            elif change.kind == REDIRECT_SET:
                self._join(change.service, change.detail.removeprefix("requests go to "))

    def units(self) -> dict[str, str]:
        """Service -> unit, of all services that routes have had; empty: it is not split."""
        return {service: self._find(service) for service in sorted(self._roots)}

    def changes_of(self, unit: str) -> list[Change]:
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


def epochs_of(rows: Iterable[Mapping[str, Any]]) -> list[Epoch]:
    """The epochs that lifecycle rows tell of, by broker and epoch; rows in any order. SinkError: there are too many.

    A row has `kind`, `at_us` and the other columns of a lifecycle event. A record that is there twice counts once.
    """
    runs: dict[tuple[str, int], dict[int, Change]] = {}
    names: dict[tuple[str, int], str] = {}
    changes_n = 0
    for row in rows:
        key = (row["broker_id"], row["epoch"])
        names[key] = row["broker_name"]
        run = runs.setdefault(key, {})
        if row["seq"] not in run:
            changes_n += 1
            if changes_n > MAX_CHANGES:
                raise SinkError(
                    f"the routing tables changed more than {MAX_CHANGES} times: narrow it with --broker or --until"
                )
            run[row["seq"]] = Change(
                row["kind"],
                row["seq"],
                row["at_us"],
                row["choices"] or 0,
                row["route_id"],
                row["service"],
                dict(row["tags"] or ()),
                row["peer"],
                row["reason"],
                row["detail"],
            )
    epochs = [
        Epoch(*key[:1], names[key], key[1], [run[seq] for seq in sorted(run)]) for key, run in sorted(runs.items())
    ]
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
        if not epoch.has_settings:
            others = [other for other in epochs if other.broker_id == epoch.broker_id and other.has_settings]
            later = [other for other in others if other.epoch > epoch.epoch]
            lender = later[0] if later else others[-1] if others else None
            epoch.tags = lender.tags if lender is not None else {}


def _records_of(change: Change) -> int:
    text = change.tags.get("records") or "0"
    return int(text) if text.isdigit() else 0
