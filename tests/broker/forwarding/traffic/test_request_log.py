"""Single requests: rows that add up to the flow records exactly, from which what the choosers did can be repeated."""

import random
from base64 import b64decode
from collections import Counter
from typing import Any

import pytest

from broker import events
from broker.core import CoreSettings
from broker.events import FlowRecord, LifecycleEvent, bucket_of
from broker.forwarding.traffic.flows import COMPLETED, MAX_ADDRESS_BYTES, Flow, FlowTable, FlowTexts
from broker.forwarding.traffic.request_log import MAX_ROWS, RequestLog
from broker.routing.policies import Policies, Policy
from broker.routing.query import Query
from broker.routing.rng import Rng
from broker.routing.sharding.hashes import key_hash
from broker.routing.table import Route, Table
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_FNF, REQUEST_RESPONSE
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD, UNICAST
from rsocket_wire.wire.ids import parse_id
from rsocket_wire.wire.keys import SHARD_KEY, Key
from rsocket_wire.wire.tags import Tag
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import START_MS, Wire, World, address, composite

Row = dict[str, Any]


class Taken:
    """All that a broker has told, as whoever reads the files sees it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.events: list[LifecycleEvent] = []
        self.flows: list[FlowRecord] = []
        self.requests: list[Row] = []
        self.known: dict[int, Row] = {}
        self.forgotten: set[int] = set()

    def take(self) -> None:
        taken = self.world.core.take_requests()
        for event in self.world.core.take_events():
            if isinstance(event, FlowRecord):
                self.flows.append(event)
            else:
                self.events.append(event)
        if taken is None:
            return
        for definition in taken.definitions:
            assert definition[0] == events.DEFINITION
            named = dict(zip(events.DEFINITION_FIELDS, definition[1:], strict=True))
            assert named["flow"] not in self.known, "a number stands for one flow"
            self.known[named["flow"]] = named  # type: ignore[index]
        for row in taken.rows:
            assert row[0] == events.REQUEST
            request: Row = dict(zip(events.REQUEST_FIELDS, row[1:], strict=True))
            assert request["flow"] not in self.forgotten
            self.requests.append({**self.known[request["flow"]], **request})
        self.forgotten.update(taken.forgotten)


KEYS = (
    *("caller_route", "caller_service", "principal", "route_id", "service", "address", "model", "routing"),
    *("outcome", "word", "emptied_by", "address_frame"),
)


def sums_of_flows(records: list[FlowRecord]) -> dict[tuple[str, ...], Counter[str]]:
    sums: dict[tuple[str, ...], Counter[str]] = {}
    for record in records:
        sum_ = sums.setdefault(tuple(getattr(record, key) for key in KEYS), Counter())
        for name in ("requests", "branches", "items_in", "items_out", "bytes_in", "bytes_out", "latency_sum_us"):
            sum_[name] += getattr(record, name)
        for bucket, count in record.histogram:
            sum_[f"bucket {bucket}"] += count
    return {key: +sum_ for key, sum_ in sums.items()}


def sums_of_requests(rows: list[Row]) -> dict[tuple[str, ...], Counter[str]]:
    sums: dict[tuple[str, ...], Counter[str]] = {}
    for row in rows:
        named = {**row, "outcome": events.OUTCOME_NAMES[row["outcome"]]}
        sum_ = sums.setdefault(tuple(named[key] for key in KEYS), Counter())
        sum_["requests"] += 1
        sum_["latency_sum_us"] += row["duration_us"]
        for name in ("branches", "items_in", "items_out", "bytes_in", "bytes_out"):
            sum_[name] += row[name]
        sum_[f"bucket {bucket_of(row['duration_us'])}"] += 1
    return {key: +sum_ for key, sum_ in sums.items()}


class History:
    """Services that come and go, callers that ask, answers, errors, cancels and losses, as the rng fall."""

    def __init__(self, seed: int, method: str = "round_robin", every_n: int = 1, **settings: Any) -> None:
        self.rng = random.Random(seed)
        policy = Policy(chooser=method, max_in_flight_per_route=settings.pop("max_in_flight", 3))
        core = CoreSettings(policy=policy, single_requests=every_n, flow_interval_s=0.7, **settings)
        self.world = World(core, seed=seed)
        self.taken = Taken(self.world)
        self.services: dict[int, Wire] = {}
        self.callers = [self.world.caller(), self.world.service("web", 900)]
        self.streams = {caller.peer.id: 1 for caller in self.callers}
        self.open: list[tuple[Wire, int]] = []  # at a caller

    def step(self) -> None:
        rng, number = self.rng, self.rng.randrange(6)
        what = rng.random()
        self.world.now += rng.random() * 0.02
        if what < 0.05:
            region, weight = rng.choice(["eu", "us"]), str(rng.randint(1, 4))
            name = rng.choice(["orders", "stock"])
            self.services[number] = self.world.service(name, number + 1, region=region, weight=weight)
        elif what < 0.07 and number in self.services:
            self.services[number].announce(number + 1, "orders", region="eu")
        elif what < 0.09 and number in self.services:
            self.services.pop(number).lose()
        elif what < 0.10:
            caller = rng.choice(self.callers)
            caller.lose()
            self.callers.remove(caller)
            self.callers.append(self.world.caller())
            self.streams[self.callers[-1].peer.id] = 1
        elif what < 0.60:
            self.ask()
        elif what < 0.97:
            self.answer()
        elif what < 0.98:
            self.world.advance(rng.random())
        else:
            self.taken.take()

    def ask(self) -> None:
        rng = self.rng
        caller = rng.choice(self.callers)
        stream_id = self.streams[caller.peer.id]
        self.streams[caller.peer.id] += 2
        tags: dict[str, str | None] = {"service": rng.choice(["orders", "orders", "stock", "mars"])}
        if rng.random() < 0.3:
            tags["region"] = rng.choice(["eu", "us", "moon"])
        routing = rng.choice([UNICAST, UNICAST, UNICAST, self.other_routing()])
        hints: list[tuple[Key, str]] = []
        if routing == SHARD:
            tags["user"] = str(rng.randrange(20))
            hints.append((SHARD_KEY, "user"))
        if rng.random() < 0.1:
            hints.append((Key.text("deadline_ms"), "200"))
        raw = address(routing, hints or None, b"", **tags)
        if rng.random() < 0.02:
            raw = raw[:-1]  # no ADDRESS
        if rng.random() < 0.05:
            caller.push(composite((MIME_TYPE, raw)))
            return
        model = rng.choice(MODELS)
        caller.request(model, stream_id, raw, data=bytes(rng.randrange(40)), n=rng.choice([0, 8, 8, 8]))
        self.open.append((caller, stream_id))

    def other_routing(self) -> int:
        return self.rng.choice([SHARD, MULTICAST])

    def answer(self) -> None:
        """Something becomes of a stream that is open, at one of its ends."""
        rng = self.rng
        wires = [*self.services.values(), *self.callers]
        wire = rng.choice(wires)
        ids = list(wire.peer.streams)
        if not ids or wire.is_lost:
            return
        stream_id = rng.choice(ids)
        how = rng.random()
        if how < 0.6:
            wire.answer(stream_id, b"answer" * rng.randrange(3), rng.choice([NEXT, NEXT | COMPLETE, COMPLETE]))
        elif how < 0.75:
            wire.fail(stream_id, 0x201, "no")
        elif how < 0.9:
            wire.cancel(stream_id)
        else:
            wire.ask(stream_id, 3)

    def end(self) -> Taken:
        self.world.core.stop("done", self.world.now)
        self.world.pump()
        self.taken.take()
        return self.taken


@pytest.mark.parametrize("seed", range(12))
def test_single_requests_add_up_to_the_flow_records_exactly(seed: int) -> None:
    history = History(seed)
    for _ in range(800):
        history.step()
    taken = history.end()
    assert len(taken.requests) > 150
    assert sums_of_requests(taken.requests) == sums_of_flows(taken.flows)
    numbers = [row["seq"] for row in taken.requests]
    numbers += [event.seq for event in taken.events] + [record.seq for record in taken.flows]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert {row["model"] for row in taken.requests} >= {"request_response", "request_stream", "request_channel"}


@pytest.mark.parametrize("seed", range(3))
def test_orders_are_those_of_the_choices_and_ends_are_between_them(seed: int) -> None:
    history = History(seed)
    for _ in range(600):
        history.step()
    taken = history.end()
    orders = sorted(row["choice"] for row in taken.requests if row["choice"])
    assert orders == list(range(1, history.world.core.query.choices + 1))  # nobody chose for nobody
    assert all(row["ended"] >= row["choice"] for row in taken.requests)
    refused_before = [row for row in taken.requests if row["choice"] == 0]
    assert refused_before
    assert all(row["outcome"] == events.OUTCOME_NAMES.index("rejected") for row in refused_before)
    by_end = [row["ended"] for row in sorted(taken.requests, key=lambda row: int(row["seq"]))]
    assert by_end == sorted(by_end)


# What was chosen can be repeated


class Repeat:
    """The same routing code, fed with rows alone: who joined, left, asked and ended, in which order."""

    def __init__(self, taken: Taken) -> None:
        self.rows = sorted((row for row in taken.requests if row["choice"]), key=lambda row: int(row["choice"]))
        self.ends = sorted(taken.requests, key=lambda row: int(row["seq"]))
        self.events = sorted(taken.events, key=lambda event: event.seq)
        started = dict(self.events[0].tags)
        assert self.events[0].kind == events.BROKER_STARTED
        policy = Policy(
            chooser=started["lb_method"],
            shard_method=started["shard_method"],
            max_in_flight_per_route=int(started["max_in_flight_per_route"]),
            eject_after_errors=int(started["eject_after_errors"]),
        )
        self.table = Table(Policies(policy, {}))
        rng = Rng(int(started["seed"]))
        self.query = Query(self.table, rng, started["strict_hints"] == "yes", int(started["max_lookup_cache"]))
        self.loads: dict[int, Any] = {}  # by the order of the request that is in flight there
        self.next_end = self.next_event = 0

    def run(self) -> tuple[list[str], list[str]]:
        """The routes of all unicast and shard requests, as they are chosen now, and as they were."""
        chosen: list[str] = []
        really: list[str] = []
        for row in self.rows:
            self.catch_up(row["choice"] - 1)
            target = self.query.resolve(raw := b64decode(row["address_frame"]), 0, len(raw))
            if row["routing"] == "multicast":
                routes = self.query.choose_all(target)
                assert len(routes) == row["branches"]
                continue
            route = self.query.choose(target, b"", b"", 0.0)
            assert self.query.choices <= row["choice"]
            self.query.choices = row["choice"]  # further on when a caller had its share of the first choice (D-68)
            chosen.append(route.id_text if route is not None else "")
            really.append(row["route_id"])
            assert row["key_hash"] == (target.shard_hash if target.routing == SHARD else events.NO_KEY)
            if route is not None and row["model"] != "metadata_push":
                is_over = row["model"] == "fire_and_forget"
                if is_over:
                    route.load.take()
                else:
                    route.load.began(row["model"] == "request_response")
                    self.loads[row["choice"]] = route.load
        return chosen, really

    def catch_up(self, choices: int) -> None:
        """All that happened before the next choice was made."""
        while self.next_event < len(self.events) and self.events[self.next_event].choices <= choices:
            self.happened(self.events[self.next_event])
            self.next_event += 1
        while self.next_end < len(self.ends) and self.ends[self.next_end]["ended"] <= choices:
            row = self.ends[self.next_end]
            load = self.loads.pop(row["choice"], None)
            if load is not None:
                load.ended(row["model"] == "request_response", 2, 0, 0.0)
            self.next_end += 1

    def happened(self, event: LifecycleEvent) -> None:
        raw_id = parse_id(event.route_id) if event.route_id else b""
        if event.kind in (events.ROUTE_JOINED, events.ROUTE_ADDED):
            tags = [Tag.of(name, value) for name, value in event.tags]
            old = self.replaced if event.route_id == self.replaced_id else None
            load = old.load if old is not None and old.service == event.service else None
            self.table.join(Route(raw_id, event.service, tags, self), event.at_ms, 0.0, load)
            self.replaced_id = ""
        elif event.kind == events.ROUTE_REPLACED and event.reason == "changed":
            self.replaced, self.replaced_id = self.table.find(raw_id), event.route_id
        elif event.kind in (events.ROUTE_LEFT, events.ROUTE_REPLACED, events.ROUTE_REMOVED) and raw_id:
            route = self.table.find(raw_id)
            assert route is not None
            self.table.leave(route)

    replaced: Any = None  # a route whose connection changes its tags: the next event tells the new ones
    replaced_id = ""


METHODS = ("round_robin", "random", "weighted", "least_busy", "power_of_two")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(4))
def test_rows_alone_repeat_what_was_chosen(method: str, seed: int) -> None:
    class NoMulticast(History):
        """Branches of a multicast end one by one, and no row says when."""

        def other_routing(self) -> int:
            return SHARD

    history = NoMulticast(seed, method, max_in_flight=0)
    for _ in range(1200):
        history.step()
    taken = history.end()
    ejections = [event for event in taken.events if event.name == "RouteEjected"]
    chosen, really = Repeat(taken).run()
    assert len(set(really)) > 3
    if not ejections:
        assert chosen == really
    assert len(really) > 200


def test_who_gets_another_route_for_having_its_share_has_made_one_choice() -> None:
    """D-68."""
    world, first, greedy, taken = one_service(policy=Policy(max_in_flight_per_route=4))
    second, other = world.service("orders", 2), world.caller()
    for number in range(4):
        for caller in (greedy, other)[: 2 if number < 2 else 1]:
            caller.request(REQUEST_RESPONSE, 2 * number + 1, address(service="orders"))
    first.answer(first.received()[0].stream_id, b"")
    for number in (4, 5):
        greedy.request(REQUEST_RESPONSE, 2 * number + 1, address(service="orders"))
    for service in (first, second):
        for stream_id in list(service.peer.streams):
            service.answer(stream_id, b"")
    taken.take()
    orders = sorted(row["choice"] for row in taken.requests if row["choice"])
    assert orders == list(range(1, world.core.query.choices + 1))
    assert len(orders) == 8


def test_with_another_seed_something_else_is_chosen() -> None:
    """Or the test above would prove nothing."""
    history = History(1, "random")
    for _ in range(1200):
        history.step()
    taken = history.end()
    started = taken.events[0]
    tags = [(name, "99" if name == "seed" else value) for name, value in started.tags]
    taken.events[0] = LifecycleEvent(started.kind, started.seq, started.at_ms, tags=tags)
    chosen, really = Repeat(taken).run()
    assert chosen != really


# Which, when and how many


def one_service(every_n: int = 1, **settings: Any) -> tuple[World, Wire, Wire, Taken]:
    world = World(CoreSettings(single_requests=every_n, **settings))
    return world, world.service("orders", 1), world.caller(), Taken(world)


def test_a_request_says_when_it_came_and_how_long_it_took() -> None:
    world, service, caller, taken = one_service()
    world.advance(0.5)
    sent = caller.request(REQUEST_RESPONSE, 1, address(service="orders"))
    world.now += 0.25
    service.answer(2, b"answer")
    taken.take()
    [row] = taken.requests
    assert (row["started_at_us"], row["duration_us"]) == (START_MS * 1000 + 500_000, 250_000)
    assert (row["choice"], row["ended"], row["key_hash"], row["branches"]) == (1, 1, events.NO_KEY, 1)
    assert (row["items_in"], row["items_out"], row["bytes_in"], row["bytes_out"]) == (1, 1, len(sent), 12)
    assert (row["route_id"], row["service"]) == (world.core.table.routes()[0].id_text, "orders")
    assert (row["address"], row["model"]) == ("service=orders", "request_response")


def test_a_shard_request_says_the_hash_of_its_key() -> None:
    _, _, caller, taken = one_service()
    caller.request(REQUEST_FNF, 1, address(SHARD, [(SHARD_KEY, "user")], service="orders", user="7"))
    taken.take()
    assert [row["key_hash"] for row in taken.requests] == [key_hash([b"7"])]
    assert 0 <= taken.requests[0]["key_hash"] < 2**31


def test_a_refused_request_says_which_tag_left_no_route_over() -> None:
    world, _, caller, taken = one_service()
    world.service("stock", 2, region="eu")
    for stream_id, tags in ((1, {"service": "mars"}), (3, {"service": "orders", "region": "eu"})):
        caller.request(REQUEST_RESPONSE, stream_id, address(UNICAST, None, b"", **tags))
    taken.take()
    assert [(row["word"], row["emptied_by"], row["branches"]) for row in taken.requests] == [
        ("no-route", "service=mars", 0),
        ("no-route", "region=eu", 0),
    ]
    assert [record.emptied_by for record in world.flows()] == ["service=mars", "region=eu"]


def test_one_address_that_is_emptied_by_two_tags_in_turn_is_told_as_two() -> None:
    world, service, caller, _ = one_service(0)
    raw = address(service="orders", region="eu")
    caller.request(REQUEST_RESPONSE, 1, raw)
    service.lose()
    caller.request(REQUEST_RESPONSE, 3, raw)
    found = {(record.emptied_by, record.requests) for record in world.flows()}
    assert found == {("region=eu", 1), ("service=orders", 1)}


def test_a_multicast_says_how_many_routes_it_went_to() -> None:
    world, _, caller, taken = one_service()
    world.service("orders", 2)
    caller.request(REQUEST_FNF, 1, address(MULTICAST, service="orders"))
    taken.take()
    assert [(row["routing"], row["branches"], row["choice"]) for row in taken.requests] == [("multicast", 2, 1)]


def test_of_each_n_requests_one_is_written_and_not_always_the_same() -> None:
    world, _, caller, taken = one_service(10)
    world.service("orders", 2)  # they take turns: every tenth would always be of one route
    for number in range(1000):
        caller.request(REQUEST_FNF, number * 2 + 1, address(service="orders"))
    taken.take()
    orders = [row["choice"] for row in taken.requests]
    assert [(order - 1) // 10 for order in orders] == list(range(100))
    per_route = Counter(row["route_id"] for row in taken.requests)
    assert len(per_route) == 2
    assert min(per_route.values()) > 30


def test_none_is_written_unless_it_is_asked_for() -> None:
    world, _, caller, _ = one_service(0)
    caller.request(REQUEST_FNF, 1, address(service="orders"))
    assert world.core.take_requests() is None


def test_a_flow_has_another_number_in_each_interval_and_its_old_one_is_forgotten() -> None:
    world, service, caller, taken = one_service()
    caller.request(REQUEST_RESPONSE, 1, address(service="orders"))  # open over both intervals
    caller.request(REQUEST_FNF, 3, address(service="orders"))
    world.flows()
    taken.take()
    caller.request(REQUEST_FNF, 5, address(service="orders"))
    service.answer(2, b"")
    taken.take()
    numbers = [row["flow"] for row in taken.requests]
    assert len(set(numbers)) == 3  # two models
    assert taken.forgotten == {numbers[0]}


def test_requests_that_nobody_takes_are_bounded_and_the_gap_is_told() -> None:
    world, _, caller, taken = one_service()
    taken.take()
    for number in range(MAX_ROWS + 7):
        caller.request(REQUEST_FNF, number * 2 + 1, address(service="orders"))
        caller.received()
    taken.take()
    assert len(taken.requests) == MAX_ROWS
    [gap] = [event for event in taken.events if event.kind == events.EVENTS_DROPPED]
    first = taken.requests[-1]["seq"] + 1
    assert dict(gap.tags) == {"records": "7", "first_seq": str(first), "last_seq": str(first + 6)}
    assert (gap.seq, gap.requests, world.core.events_dropped) == (first + 6, 0, 7)  # the flow records have them
    caller.request(REQUEST_FNF, 2 * MAX_ROWS + 101, address(service="orders"))
    taken.take()
    assert taken.requests[-1]["seq"] == first + 7


def test_addresses_beyond_the_bound_are_not_kept() -> None:
    table = FlowTable(RequestLog(Query(Table(), Rng(1))))
    owner: dict[int, Flow] = {}
    for key in range(3):
        half = bytes(MAX_ADDRESS_BYTES // 2)
        flow = table.open(owner, key, FlowTexts(), half)
        flow.count(COMPLETED, 0, 1, 0, 1, 0, 0.0, 0, 1)
    table.end_interval()
    kept = [len(record.address_frame) > 0 for record in table.take_records(1, 0, 1000)]
    assert kept == [True, True, False]
    table.open(owner, 9, FlowTexts(), b"x").count(COMPLETED, 0, 1, 0, 1, 0, 0.0, 0, 1)
    table.end_interval()
    assert [record.address_frame for record in table.take_records(1, 0, 1000)] == ["eA=="]  # a new interval has room


def test_a_wrapped_address_is_told_without_what_is_wrapped() -> None:
    _, _, caller, taken = one_service()
    raw = address(UNICAST, None, b"wrapped", service="orders")
    caller.request(REQUEST_FNF, 1, raw)
    taken.take()
    told = b64decode(taken.requests[0]["address_frame"])
    assert told == raw[:6] + bytes(16) + raw[22:-7]
