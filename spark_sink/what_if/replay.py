"""The replay of one unit: requests in the order in which the broker chose, the changes of its table in between.

    choice      1  2       3  4            choices of the broker, as the records number them
    ended            1  2        4         a request was over after so many choices; by `seq` among its like
    choices       J        L               a route joined, left …; likewise

Every request is chosen for by the world's own rng and loads. Where it falls on the route that really had it, it ends
when it really did; on another route it takes as long as that one's requests do, on average (`speeds`), and ends by the
clock. What cannot be replayed is taken as it was, and counted.

Reads rows by name from Arrow batches; a worker of Spark and a test call the same function.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple

import pyarrow as pa

from broker.events import ROUTE_SEEN
from broker.routing.health.loads import BAD, GOOD, NEITHER
from broker.routing.table import Route
from broker.routing.targets import Target
from rsocket_wire.wire.frames import SHARD
from spark_sink.history.epochs import WHOLE, Epoch
from spark_sink.history.records import PUTS, Record
from spark_sink.what_if.addresses import Addresses
from spark_sink.what_if.question import Question, TagValues
from spark_sink.what_if.results import Compared, Load, RouteLoad, ShardMoves, UnitResult
from spark_sink.what_if.routing_model import RoutingModel, method_name
from spark_sink.what_if.settings import RunSettings

NO_ADDRESS: Final = "no ADDRESS: it was longer than 2048 bytes, or could not be read"
ANONYMOUS_STICKY: Final = "a sticky choice of a caller without a route: such callers have no identity in the records"
BEFORE_SNAPSHOT: Final = "before the first snapshot of an epoch whose beginning is gone"

_AWAITED: Final = "request_response"
_VERDICTS: Final = {"completed": GOOD, "error": BAD}
_UNANSWERED: Final = frozenset({"fire_and_forget", "metadata_push"})
_CHOSEN_AGAIN: Final = frozenset({"no-route", "unhealthy", "draining"})  # refusals that another table could undo
_LAST: Final = 1 << 62  # greater than any `seq`
_NO_ROUTE: Final = "refused, no route"


class Row(NamedTuple):
    """A request, or `weight` requests of a flow."""

    seq: int
    started_us: int
    duration_us: int
    caller_route: str
    route_id: str  # empty: none had it
    service: str
    model: str
    routing: str
    outcome: str
    word: str
    choice: int
    ended: int
    branches: int
    address_frame: str
    weight: int


@dataclass(slots=True, eq=False)
class Ending:
    """A request that is in flight: where it would have been, where it really was, or both."""

    row: Row
    routes: list[Route]  # those of the replay that serve it
    latency_us: int
    there: Load | None
    real: Load | None

    def __lt__(self, other: "Ending") -> bool:
        return False  # equals in a heap: rows of one flow that end at once


class Replay:
    """One unit, from its first row to its last."""

    def __init__(
        self,
        epoch: Epoch,
        unit: str,
        question: Question,
        speeds: Mapping[tuple[str, str], float],
        *,
        by_time: bool,
        compares: bool,
    ) -> None:
        """`speeds`: (route id, model) -> how long such requests took there on average, microseconds. `by_time`:
        positions are microseconds and not numbers of choices, because the rows were made of flows. `compares`: every
        choice is compared with the real one."""
        settings = RunSettings(epoch.tags)
        self._question: Final = question
        self._world: Final = RoutingModel(settings, question, unit)
        self._changes: Final = epoch.changes_of(unit)
        if unit != WHOLE:
            self._world.know_zones(epoch.changes)
        self._addresses: Final = Addresses(question, settings.strict_hints)
        self._speeds: Final = speeds
        self._by_time: Final = by_time
        self._compares: Final = compares
        self._begins_at: Final = self._position(epoch.begins_at) if epoch.begins_at is not None else -1
        self._next = 0  # of the changes
        self._change_at = self._next_change_at()
        self._ends: list[tuple[int, int, Ending]] = []  # a heap by `ended` and `seq`; bounded by requests in flight
        self._ends_by_time: list[tuple[int, int, Ending]] = []  # of those that went to another route
        self.result: Final = UnitResult()

    def take(self, rows: pa.RecordBatch) -> None:
        """Rows, in the order of their positions, with a column for each field of `Row`."""
        for row in map(Row._make, zip(*(rows.column(name).to_pylist() for name in Row._fields), strict=True)):
            self._take(row)

    def _take(self, row: Row) -> None:
        result = self.result
        result.rows += 1
        weight = row.weight if self._is_counted(row) else 0
        if weight:
            result.requests += weight
            result.first_us = min(result.first_us or row.started_us, row.started_us)
            result.last_us = max(result.last_us, row.started_us)
        choice = row.choice
        if choice:
            self._advance(choice - 1, _LAST, row.started_us)
        else:
            self._advance(row.ended, row.seq, row.started_us)
        if (choice or row.ended) <= self._begins_at:
            _add(result.not_replayed, BEFORE_SNAPSHOT, weight)
            return
        raw = self._addresses.find(row.address_frame)
        if not choice and (not raw or row.word not in _CHOSEN_AGAIN):
            _add(result.still_refused, row.word or row.outcome, weight)
            return
        if not raw:
            self._take_as_it_was(row, weight, NO_ADDRESS)
            return
        target = self._world.resolve(raw)
        if row.routing == "multicast":
            self._to_all(row, weight, target)
            return
        if target.is_by_origin and target.is_sticky and not row.caller_route:
            self._take_as_it_was(row, weight, ANONYMOUS_STICKY)
            return
        chosen = self._world.choose(target, row.caller_route, row.started_us) if target.refusal is None else None
        if weight:
            self._count(row, weight, target, chosen)
        self._begin(row, chosen)

    def _count(self, row: Row, weight: int, target: Target, chosen: Route | None) -> None:
        """A request that was chosen for."""
        result = self.result
        route_id = row.route_id
        is_same = (chosen.id_text if chosen is not None else "") == route_id
        if self._compares:
            name = method_name(target) if row.choice else _NO_ROUTE
            compared = result.compared.get(name)
            if compared is None:
                compared = result.compared[name] = Compared()
            compared.choices += 1
            compared.same += is_same
        if route_id:
            self._at(route_id, row.service).real.requests += weight
        if chosen is not None:
            self._at(chosen.id_text, chosen.service).asked.requests += weight
            if not route_id:
                _add(result.newly_routed, chosen.service, weight)
        elif route_id:
            _add(result.unroutable.setdefault(row.service, {}), self._world.emptied_by(target), weight)
        else:
            _add(result.still_refused, row.word or row.outcome, weight)
        if route_id and not is_same:
            result.moved_requests += weight
        if target.routing == SHARD and route_id:
            moves = result.shards.get(row.service)
            if moves is None:
                moves = result.shards[row.service] = ShardMoves()
            moves.requests += weight
            moves.moved_requests += 0 if is_same else weight
            moves.keys.add(target.shard_hash, is_moved=not is_same)

    def _begin(self, row: Row, chosen: Route | None) -> None:
        """The request is in flight: really, and as it would have been."""
        if row.ended == row.choice and row.model in _UNANSWERED:
            return  # it was over at once
        real = self._at(row.route_id, row.service).real if row.route_id else None
        there = self._at(chosen.id_text, chosen.service).asked if chosen is not None else None
        if real is not None:
            real.begin()
        if chosen is None or there is None:
            if real is not None:
                heappush(self._ends, (row.ended, row.seq, Ending(row, [], 0, None, real)))
            return
        there.begin()
        chosen.load.began(row.model == _AWAITED)
        if chosen.id_text == row.route_id:
            heappush(self._ends, (row.ended, row.seq, Ending(row, [chosen], row.duration_us, there, real)))
            return
        if real is not None:
            heappush(self._ends, (row.ended, row.seq, Ending(row, [], 0, None, real)))
        latency_us = self._duration_us(row, chosen.id_text)
        ending = Ending(row, [chosen], latency_us, there, None)
        heappush(self._ends_by_time, (row.started_us + latency_us, row.seq, ending))

    def _duration_us(self, row: Row, other: str) -> int:
        """How long a request would have taken at another route; as long as it did where one of them is not known.

        A stream lasts as long as its caller wants, wherever it goes."""
        if row.model != _AWAITED:
            return row.duration_us
        here, there = self._speeds.get((row.route_id, row.model), 0.0), self._speeds.get((other, row.model), 0.0)
        return int(row.duration_us * there / here) if here and there else row.duration_us

    def _to_all(self, row: Row, weight: int, target: Target) -> None:
        """A multicast goes to all that match, whoever chooses."""
        routes = self._world.query.members(target) if target.refusal is None else []
        result = self.result
        if weight:
            result.multicast_requests += weight
            result.real_branches += row.branches * weight
            result.branches += len(routes) * weight
        for route in routes:
            route.load.began(row.model == _AWAITED)
        if routes:
            # Each branch has its own end, of which only the last one is recorded.
            heappush(self._ends, (row.ended, row.seq, Ending(row, routes, 0, None, None)))

    def _take_as_it_was(self, row: Row, weight: int, why: str) -> None:
        """The request went where it really went, if that route is there."""
        _add(self.result.not_replayed, why, weight)
        route = self._world.find(row.route_id)
        if row.route_id and weight:
            load = self._at(row.route_id, row.service)
            load.real.requests += weight
            load.asked.requests += weight if route is not None else 0
        if row.choice and row.route_id:
            self._begin(row, route)

    def _advance(self, position: int, seq: int, now_us: int) -> None:
        """Everything that happened before a request: up to this position, and up to `seq` of what has the same."""
        by_time = self._ends_by_time
        while by_time and by_time[0][0] <= now_us:
            self._end(heappop(by_time)[2])
        ends = self._ends
        until = (position, seq)
        while True:
            if ends and ends[0] < self._change_at:
                if ends[0] > until:
                    return
                self._end(heappop(ends)[2])
            elif self._change_at <= until:
                self._change()
            else:
                return

    def _change(self) -> None:
        """The next change of the table."""
        change = self._changes[self._next]
        self._world.apply(change)
        if change.kind in PUTS:
            self._note(change)
        self._next += 1
        self._change_at = self._next_change_at()

    def _next_change_at(self) -> tuple[int, int]:
        if self._next == len(self._changes):
            return (_LAST, 0)
        change = self._changes[self._next]
        return (self._position(change), change.seq)

    def _end(self, ending: Ending) -> None:
        row = ending.row
        if ending.real is not None:
            ending.real.in_flight -= 1
        if ending.there is not None:
            ending.there.in_flight -= 1
        verdict = _VERDICTS.get(row.outcome, NEITHER)
        ended_us = row.started_us + ending.latency_us
        for route in ending.routes:
            self._world.ended(route, row.model == _AWAITED, verdict, ending.latency_us, ended_us)

    def _note(self, change: Record) -> None:
        """A route is there, and its copies; also those that get no request count when loads are compared."""
        tags = TagValues(change.tags)
        load = self._at(change.route_id, change.service)
        load.real.is_there = True
        load.asked.is_there |= not self._question.is_without(tags)
        if load.asked.is_there:
            for route_id in self._question.copy_ids(change.route_id, tags):
                copy = self._at(route_id, change.service)
                copy.asked.is_there = copy.is_copy = True

    def _position(self, change: Record) -> int:
        if change.kind == ROUTE_SEEN:
            return 0  # of the snapshot that all begins with
        return change.at_us if self._by_time else change.choices

    def _is_counted(self, row: Row) -> bool:
        question = self._question
        if question.service and row.service != question.service:
            return False
        return question.since_us is None or row.started_us >= question.since_us

    def _at(self, route_id: str, service: str) -> RouteLoad:
        found = self.result.routes.get(route_id)
        if found is None:
            found = self.result.routes[route_id] = RouteLoad(service)
        return found


def _add(sums: dict[str, int], name: str, number: int) -> None:
    if number:
        sums[name] = sums.get(name, 0) + number
