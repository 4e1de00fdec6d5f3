"""What a journey gives: the table of a broker at an instant, how sure it is, and how two of them differ."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

REMOTE: Final = "broker "  # begins the peer of a route that another broker has

SILENT: Final = "silent"  # there are no later records of this run, and nobody says that it ended

EQUAL: Final = "equal"
NOT_EQUAL: Final = "not equal"
NONE_NEAR: Final = "none near"

SNAPSHOT: Final = "snapshot"
BROKER_START: Final = "broker-start"
FIRST_RECORD: Final = "first-record"


class SeenRoute(NamedTuple):
    """A route in the table."""

    route_id: str
    service: str
    tags: dict[str, str]
    peer: str  # "tcp 10.0.0.4:5123", or "broker <id>": another broker has it
    joined_at: datetime
    uptime: timedelta  # at the instant
    requests: int  # that it had got by `requests_at`, at least
    requests_at: datetime  # when the broker last told them
    is_exact: bool  # `joined_at` is; False: the clock was put back since, it is the time of a snapshot

    @property
    def broker_id(self) -> str:
        """The broker that has it; empty: this one."""
        return self.peer.removeprefix(REMOTE) if self.peer.startswith(REMOTE) else ""


class Check(NamedTuple):
    """A digest that the broker wrote, beside that of the table rebuilt for the same record."""

    at: datetime
    seq: int
    recorded: str
    rebuilt: str

    @property
    def is_equal(self) -> bool:
        """Are they the same?"""
        return self.recorded == self.rebuilt


class Gap(NamedTuple):
    """Records that are missing between the start point and the instant."""

    first_seq: int
    last_seq: int
    records: int  # how many of these numbers
    reason: str  # code word of an EventsDropped; "missing": nobody says why
    detail: str  # its sentence, or empty


@dataclass(frozen=True, kw_only=True)
class TableAt:
    """The routing table of a broker at an instant."""

    broker_id: str
    broker_name: str
    epoch: int
    at: datetime  # the instant that was asked for
    last_seq: int  # the record behind which this is the table
    last_at: datetime  # its time
    life: str  # of the broker at the instant: RUNNING, SILENT, STOPPED or DIED
    start: str  # what it is rebuilt from: SNAPSHOT, BROKER_START or FIRST_RECORD
    start_at: datetime
    routes: tuple[SeenRoute, ...]  # by service and route id; empty when the broker had stopped
    digest: str  # of these routes, 32 hex digits
    checks: tuple[Check, ...]  # at most two: the digests next to the instant, before and behind it
    gaps: tuple[Gap, ...]
    problems: tuple[str, ...]  # sentences: the beginning is missing, files that were passed over
    notes: tuple[str, ...]  # sentences: what else is to be known
    names: dict[str, str]  # of brokers, by their ids, as far as they are known

    @property
    def verdict(self) -> str:
        """EQUAL: it agrees with all digests near it; NOT_EQUAL: not with all; NONE_NEAR: there are none."""
        if not self.checks:
            return NONE_NEAR
        return EQUAL if all(check.is_equal for check in self.checks) else NOT_EQUAL

    @property
    def is_complete(self) -> bool:
        """Nothing is missing, the beginning among it, and no file was passed over."""
        return not self.gaps and not self.problems

    def to_json(self) -> dict[str, Any]:
        """Plain values; times as ISO texts, UTC."""
        return {
            "broker": {"id": self.broker_id, "name": self.broker_name, "epoch": self.epoch, "life": self.life},
            "at": self.at.isoformat(),
            "last_record": {"seq": self.last_seq, "at": self.last_at.isoformat()},
            "rebuilt_from": {"kind": self.start, "at": self.start_at.isoformat()},
            "digest": self.digest,
            "verdict": self.verdict,
            "checks": [
                check._asdict() | {"at": check.at.isoformat(), "is_equal": check.is_equal} for check in self.checks
            ],
            "is_complete": self.is_complete,
            "gaps": [gap._asdict() for gap in self.gaps],
            "problems": list(self.problems),
            "notes": list(self.notes),
            "routes": [route_json(route) for route in self.routes],
        }


class Change(NamedTuple):
    """A route that is in both tables and not the same."""

    before: SeenRoute
    after: SeenRoute


class Difference(NamedTuple):
    """From one table to another."""

    joined: list[SeenRoute]
    left: list[SeenRoute]
    replaced: list[Change]  # the same route id, service and tags, of another connection or broker
    changed: list[Change]  # the same route id, another service or other tags

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        routes = {"joined": self.joined, "left": self.left}
        changes = {"replaced": self.replaced, "changed": self.changed}
        found: dict[str, Any] = {word: [route_json(each) for each in of] for word, of in routes.items()}
        for word, of in changes.items():
            found[word] = [{"before": route_json(each.before), "after": route_json(each.after)} for each in of]
        return found

    @property
    def is_empty(self) -> bool:
        """Are both the same?"""
        return not any(self)


def diff(a: TableAt, b: TableAt) -> Difference:
    """From `a` to `b`; they may be of different brokers or runs."""
    before = {route.route_id: route for route in a.routes}
    after = {route.route_id: route for route in b.routes}
    difference = Difference(
        [route for route in b.routes if route.route_id not in before],
        [route for route in a.routes if route.route_id not in after],
        [],
        [],
    )
    for change in (Change(route, after[route.route_id]) for route in a.routes if route.route_id in after):
        if (change.before.service, change.before.tags) != (change.after.service, change.after.tags):
            difference.changed.append(change)
        elif _is_other_stay(*change):
            difference.replaced.append(change)
    return difference


def route_json(route: SeenRoute) -> dict[str, Any]:
    """Plain values."""
    return {
        "route_id": route.route_id,
        "service": route.service,
        "tags": route.tags,
        "peer": route.peer,
        "broker_id": route.broker_id or None,
        "joined_at": route.joined_at.isoformat(),
        "uptime_ms": round(route.uptime.total_seconds() * 1000),
        "requests": route.requests,
        "requests_at": route.requests_at.isoformat(),
    }


def _is_other_stay(before: SeenRoute, after: SeenRoute) -> bool:
    """Of another connection, or the same peer joined again in between."""
    if before.peer != after.peer:
        return True
    return before.is_exact and after.is_exact and before.joined_at != after.joined_at
