"""Events: what the core tells, in which order, with which numbers; the buckets of the latency histogram."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker import VERSION
from broker.core import COMPILED, CoreSettings
from broker.event_log.log import MAX_EVENTS
from broker.events import (
    FLOW,
    FLOW_FIELDS,
    LIFECYCLE,
    LIFECYCLE_FIELDS,
    MAX_BUCKET,
    OUTCOME_NAMES,
    FlowRecord,
    LifecycleEvent,
    bucket_high_us,
    bucket_low_us,
    bucket_of,
)
from broker.forwarding.traffic.flows import CALLER_LOST, CANCELLED, COMPLETED, FAILED, REJECTED, ROUTE_LOST
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE, Setup
from tests.fakes import START_MS, World, address

CORE = "compiled" if COMPILED else "interpreted"
# What BrokerStarted tells: all that whoever repeats the choices must know.
STARTED = [
    ("version", VERSION),
    ("core", CORE),
    ("zone", ""),
    ("seed", "270369"),  # the first roll of the rng of a World
    ("prefers_local", "yes"),
    ("mates", ""),
    ("strict_hints", "no"),
    ("max_lookup_cache", "16384"),
    ("no_route", "reject"),
    ("single_requests", "0"),
    ("lb_method", "round_robin"),
    ("shard_method", "rendezvous"),
    ("sticky_ttl_s", "300"),
    ("slow_start_s", "0"),
    ("panic_percent", "50"),
    ("eject_after_errors", "5"),
    ("eject_s", "30"),
    ("eject_max_s", "300"),
    ("eject_max_percent", "10"),
    ("max_in_flight_per_route", "1024"),
    ("max_in_flight_per_service", "0"),
]
ID = "00000000-0000-0000-0000-00000000000{}"
Tags = list[tuple[str, str]]


def tags(service: str, number: int, **more: str) -> Tags:
    """A route's tags as an event tells them."""
    own = [(f"io.rsocket.routing.{name.capitalize()}", value) for name, value in more.items()]
    return [*own, ("io.rsocket.routing.ServiceName", service), ("io.rsocket.routing.RouteId", ID.format(number))]


def rows(world: World) -> list[tuple[object, ...]]:
    return [event.row() for event in world.core.take_events()]


def seqs(events: list[LifecycleEvent | FlowRecord]) -> list[int]:
    return [event.seq for event in events]


def lifecycle(
    kind: int, seq: int, at: int, route: int = 0, service: str = "", told: Tags | None = None, *rest: Any, **more: Any
) -> tuple[object, ...]:
    """The row of an event, `at` milliseconds after the start; `rest`, `more`: what LifecycleEvent has behind tags."""
    id = ID.format(route) if route else ""
    return LifecycleEvent(kind, seq, START_MS + at, id, service, told or (), *rest, **more).row()


PEER = "tcp 127.0.0.1:1"


def test_two_brokers_tell_what_happened_to_them_without_sockets_and_on_a_clock_of_the_test() -> None:
    """The same routes move from one broker to the other; each tells its own half."""
    first = World(number=1)
    second = World(number=2)
    first_service = first.service("orders", 1, region="eu")
    caller = first.caller()
    for world in (first, second):
        world.now += 0.5
    sent = caller.request(REQUEST_FNF, 1, address(service="orders"))
    for world in (first, second):
        world.now += 0.25
    first_service.lose()
    second.service("orders", 1, region="us")
    for world in (first, second):
        world.now += 0.125
    first.core.stop("maintenance", first.now)
    second.core.stop("maintenance", second.now)
    eu = tags("orders", 1, region="eu")
    us = tags("orders", 1, region="us")
    told = rows(first)
    flow = dict(zip(FLOW_FIELDS, told.pop(7)[1:], strict=True))
    named = [flow[name] for name in ("seq", "at_ms", "interval_ms", "service", "requests", "bytes_in")]
    assert named == [8, START_MS + 875, 875, "orders", 1, len(sent)]
    assert told == [
        lifecycle(1, 1, 0, told=STARTED, detail=CORE),
        lifecycle(6, 2, 0, peer=PEER),
        lifecycle(3, 3, 0, 1, "orders", eu, PEER),
        lifecycle(6, 4, 0, peer=PEER),
        lifecycle(4, 5, 750, 1, "orders", eu, PEER, "left", "connection reset", 750, 1, 1),
        lifecycle(7, 6, 750, 0, "orders", None, PEER, "left", "connection reset", 750, choices=1),
        lifecycle(7, 7, 875, 0, "", None, PEER, "broker-stopped", "maintenance", 875, 1, 1),
        lifecycle(2, 9, 875, detail="maintenance", uptime_ms=875, choices=1),
    ]
    assert rows(second) == [
        lifecycle(1, 1, 0, told=STARTED, detail=CORE),
        lifecycle(6, 2, 750, peer=PEER),
        lifecycle(3, 3, 750, 1, "orders", us, PEER),
        lifecycle(4, 4, 875, 1, "orders", us, PEER, "broker-stopped", "maintenance", 125),
        lifecycle(7, 5, 875, 0, "orders", None, PEER, "broker-stopped", "maintenance", 125),
        lifecycle(2, 6, 875, detail="maintenance", uptime_ms=875),
    ]


def test_a_replaced_route_is_told_before_the_one_in_its_place() -> None:
    world = World()
    world.service("orders", 1)
    world.core.take_events()
    world.now += 2
    world.service("orders", 1, region="eu")
    text = f"another connection came with the Route Id {ID.format(1)}"
    assert rows(world) == [
        lifecycle(6, 4, 2000, peer=PEER),
        lifecycle(5, 5, 2000, 1, "orders", tags("orders", 1), PEER, "replaced", text, 2000),
        lifecycle(7, 6, 2000, 0, "orders", None, PEER, "replaced", text, 2000),
        lifecycle(3, 7, 2000, 1, "orders", tags("orders", 1, region="eu"), PEER),
    ]


def test_changed_tags_are_told_as_replaced_and_joined() -> None:
    world = World()
    service = world.service("orders", 1)
    service.request(REQUEST_FNF, 1, address(service="orders"))
    world.core.take_events()
    world.now += 2
    service.announce(1, "orders", region="eu")
    assert rows(world) == [
        lifecycle(5, 4, 2000, 1, "orders", tags("orders", 1), PEER, "changed", "", 2000, 1, 1),
        lifecycle(3, 5, 2000, 1, "orders", tags("orders", 1, region="eu"), PEER, requests=1, choices=1),
    ]


def test_a_refused_connection_is_told_with_its_reason() -> None:
    world = World()
    world.core.take_events()
    world.connect().send(Setup("a/b", "c/d", 1, 1, major=3).encode())
    text = "RSocket 3.0 requested, this broker supports 1.0"
    assert rows(world) == [lifecycle(7, 2, 0, peer=PEER, reason="bad-version", detail=text)]


def test_a_connection_that_said_nothing_and_left_is_not_told() -> None:
    world = World()
    world.core.take_events()
    world.connect().lose()
    assert rows(world) == []


def test_records_of_all_kinds_share_one_sequence_without_gaps() -> None:
    world = World(CoreSettings(flow_interval_s=0.5))
    found: list[LifecycleEvent | FlowRecord] = []
    caller = world.caller()
    for number in range(40):
        service = world.service(f"service-{number % 3}", number % 5)
        caller.request(REQUEST_RESPONSE, number * 2 + 1, address(service=f"service-{number % 3}"))
        world.advance(0.3)
        if number % 2:
            service.lose()
        if number % 7 == 0:
            found += world.core.take_events()
    world.core.stop("done", world.now)
    found += world.core.take_events()
    assert seqs(found) == list(range(1, len(found) + 1))
    assert any(isinstance(event, FlowRecord) for event in found)
    assert [event.at_ms for event in found] == sorted(event.at_ms for event in found)


def test_events_that_nobody_takes_are_bounded_and_the_gap_is_told() -> None:
    world = World(CoreSettings(max_connections=0))
    for _ in range(MAX_EVENTS + 9):  # one event each, behind BrokerStarted
        world.core.lost(world.core.connected("x", True, world.now), "", world.now)
        world.core.take_writes()
    assert world.core.events_dropped == 10
    events = world.core.take_events()
    assert seqs(events[:-1]) == list(range(1, MAX_EVENTS + 1))
    assert events[-1].row() == lifecycle(
        8,
        MAX_EVENTS + 10,
        0,
        told=[("records", "10"), ("first_seq", str(MAX_EVENTS + 1)), ("last_seq", str(MAX_EVENTS + 10))],
        reason="not-taken",
        detail=f"10 records are missing: the buffer of {MAX_EVENTS} events was full",
    )
    assert world.core.take_events() == []
    world.core.connected("x", True, world.now)
    assert seqs(world.core.take_events()) == [MAX_EVENTS + 11]


def test_rows_have_the_record_type_and_then_the_fields_of_their_table() -> None:
    event = LifecycleEvent(3, 7, 9)
    assert len(event.row()) == len(LIFECYCLE_FIELDS) + 1
    assert dict(zip(LIFECYCLE_FIELDS, event.row()[1:], strict=True)) == {
        name: getattr(event, name) for name in LIFECYCLE_FIELDS
    }
    assert event.row()[0] == LIFECYCLE
    record = FlowRecord(
        *(1, 2, 3, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "l", 4, 11, 5, 6, 7, 8, 9, 10), [(1, 2)], "k"
    )
    assert dict(zip(FLOW_FIELDS, record.row()[1:], strict=True)) == {
        name: getattr(record, name) for name in FLOW_FIELDS
    }
    assert record.row()[0] == FLOW


def test_the_numbers_of_outcomes_are_places_among_their_names() -> None:
    numbers = (COMPLETED, FAILED, CANCELLED, REJECTED, ROUTE_LOST, CALLER_LOST)
    names = ["completed", "error", "cancelled", "rejected", "route_lost", "caller_lost"]
    assert [OUTCOME_NAMES[number] for number in numbers] == names


def test_the_names_of_events_are_nouns_and_past_verbs() -> None:
    names = [LifecycleEvent(kind, 1, 0).name for kind in range(1, 9)]
    assert names[:4] == ["BrokerStarted", "BrokerStopped", "RouteJoined", "RouteLeft"]
    assert names[4:] == ["RouteReplaced", "PeerConnected", "PeerClosed", "EventsDropped"]


# Buckets


def test_small_latencies_have_a_bucket_each() -> None:
    assert [bucket_of(us) for us in (-5, 0, 1, 31, 32, 33, 34, 63, 64)] == [0, 0, 1, 31, 32, 32, 33, 47, 48]


def test_latencies_beyond_the_last_bucket_fall_into_it() -> None:
    assert bucket_of(2**62) == MAX_BUCKET


def test_buckets_are_adjacent_and_at_most_a_sixteenth_wide() -> None:
    for bucket in range(MAX_BUCKET):
        low, high = bucket_low_us(bucket), bucket_high_us(bucket)
        assert (bucket_of(low), bucket_of(high - 1), bucket_of(high)) == (bucket, bucket, bucket + 1)
        assert high - low <= max(1, low // 16)


@given(st.integers(0, 2**39))
def test_a_latency_lies_in_its_bucket(us: int) -> None:
    bucket = bucket_of(us)
    assert bucket_low_us(bucket) <= us < bucket_high_us(bucket)
