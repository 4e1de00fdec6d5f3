"""Limits: the list of all of them, and what happens at the bounds that no other test knows: floods, origins, memory."""

from __future__ import annotations

import ast
import importlib
import re
from itertools import pairwise
from pathlib import Path

import pytest

from broker.build_hook import compiled_modules
from broker.config.options import OPTIONS
from broker.connections.rate_limits import BURST_S, SPENT, ConnectionCounter, TokenBucket
from broker.core import CoreSettings
from broker.event_log.histogram import Histogram
from broker.forwarding.traffic.flows import MAX_FLOWS, MAX_REFUSED_TOTALS, MAX_TOTALS
from broker.routing.choosers.sticky import MAX_CHOICES
from broker.routing.policies import Policy
from rsocket_wire.errors import APPLICATION_ERROR, CONNECTION_ERROR, REJECTED, REJECTED_SETUP
from rsocket_wire.rsocket.frames import (
    COMPLETE,
    FOLLOWS,
    MAX_N,
    NEXT,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    Setup,
    encode_error,
    encode_keepalive,
    encode_payload,
    encode_request,
    encode_request_n,
)
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD, Address, RouteSetup
from rsocket_wire.wire.keys import SHARD_KEY, STICKY_ROUTE_KEY
from rsocket_wire.wire.tags import Tag
from tests.fakes import Frame, Wire, World, address, addressed, asked, composite, error, route_id, tags_of

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs/limits.md").read_text()
A_LIMIT = re.compile(r"(MAX_|MIN_).*|.*_(BYTES|S|N|MS|BITS)")
MANY = 20_000  # of what a flood has a million of: enough to pass every bound that is not a matter of time


# The list


def modules() -> list[str]:
    """`connections.closed`, `client_sdk.protocol.output`: the compiled ones, the edge, most of the client."""
    paths = compiled_modules(ROOT) + [str(path.relative_to(ROOT)) for path in (ROOT / "broker/edge").glob("*.py")]
    paths += [
        "client_sdk/io/connection.py",
        "client_sdk/io/transport.py",
        "client_sdk/io/websocket.py",
        "client_sdk/io/failures.py",
        "client_sdk/io/dispatch.py",
        "client_sdk/io/stream_pump.py",
        "client_sdk/codecs.py",
        "admin_api/event_files.py",
        "admin_api/bodies.py",
        "admin_api/listener.py",
        "admin_api/shared.py",
        "broker/limited_log.py",
    ]
    paths += [f"client_sdk/{name}.py" for name in ("connecting", "metadata", "spans", "tracing")]
    for room in ("calls", "reconnect", "services", "rsocket_py"):
        paths += [str(path.relative_to(ROOT)) for path in (ROOT / "client_sdk" / room).glob("*.py")]
    return [path.removeprefix("broker/").removesuffix(".py").replace("/", ".") for path in paths]


def full_name(module: str) -> str:
    """`broker.connections.closed` of `connections.closed`; those of other packages are whole."""
    return module if module.startswith(("client_sdk.", "admin_api.", "rsocket_wire.")) else f"broker.{module}"


def constants() -> set[str]:
    """What looks like a limit among the public constants of these modules: `connections.closed.MAX_CLOSED`."""
    found: set[str] = set()
    for module in modules():
        for node in ast.parse((ROOT / (full_name(module).replace(".", "/") + ".py")).read_text()).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and A_LIMIT.fullmatch(target.id) and not target.id.startswith("_"):
                found.add(f"{module}.{target.id}")
    return found


def settings() -> set[str]:
    """Limits of the core that are no options: `settings.max_waiting_bytes`."""
    options = {doc.key for doc in OPTIONS.values()}
    return {f"settings.{name}" for name in dir(CoreSettings) if A_LIMIT.fullmatch(name.upper())} - {
        f"settings.{key}" for key in options
    }


def options() -> set[str]:
    return {name for name in OPTIONS if name.startswith("limits.")}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading of the document."""
    text = DOCUMENT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in cells] for cells in lines]


def number(text: str) -> float:
    """`64 KiB` is 65536."""
    digits, _, unit = text.replace(",", "").partition(" ")
    value = float(digits) if "." in digits else int(digits)
    return value * {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


def value_of(name: str) -> object:
    if name in OPTIONS:
        return OPTIONS[name].default
    module, _, constant = name.rpartition(".")
    if module == "settings":
        return getattr(CoreSettings(), constant)
    return getattr(importlib.import_module(full_name(module)), constant)


def test_every_limit_has_a_row_and_every_row_a_limit() -> None:
    bounds = [name.strip("`") for name, *_ in rows("Bounds")]
    others = [name.strip("`") for cell, _ in rows("What is no bound") for name in cell.split(", ")]
    listed = bounds + others
    assert len(listed) == len(set(listed)), "a limit is there twice"
    assert constants() | settings() | options() <= set(listed)
    assert set(listed) <= constants() | settings() | set(OPTIONS)


def test_the_list_says_the_defaults_as_they_are() -> None:
    said = {name.strip("`"): number(default) for name, default, *_ in rows("Bounds")}
    assert said == {name: value_of(name) for name in said}


@pytest.mark.parametrize(
    "heading, rooms",
    [
        ("Bounds of what-if", ["what_if"]),
        ("Bounds of readers of event files", ["event_files", "data_source", "history", "time_travel"]),
    ],
)
def test_every_bound_of_a_room_of_spark_sink_has_a_row_with_its_number(heading: str, rooms: list[str]) -> None:
    pytest.importorskip("pyarrow")
    found = {}
    for path in (path for room in rooms for path in (ROOT / "spark_sink" / room).glob("*.py")):
        module = f"spark_sink.{path.parent.name}.{path.stem}"
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "MAX_" in node.target.id:
                found[f"{module}.{node.target.id}"] = getattr(importlib.import_module(module), node.target.id)
    listed = rows(heading)
    assert {name.strip("`"): number(default) for name, default, *_ in listed} == found
    assert all(unit and at_the_bound for _, _, unit, at_the_bound, *_ in listed)


def test_every_bound_has_a_unit_and_says_what_happens() -> None:
    for name, _, unit, at_the_bound, *_ in rows("Bounds"):
        assert unit, name
        assert at_the_bound, name


# Buckets


def spent(rate: TokenBucket, moments: list[float]) -> list[bool]:
    """Which of the tokens at these moments were there."""
    full_at, found = 0.0, []
    for now in moments:
        at = rate.spend(full_at, now)
        found.append(at != SPENT)
        full_at = at if at != SPENT else full_at
    return found


@pytest.mark.parametrize("per_s", [1, 3, 10, 1000, 7919])
def test_a_full_bucket_gives_its_burst_at_once_and_then_one_token_in_its_time(per_s: int) -> None:
    rate = TokenBucket(per_s)
    burst = int(per_s * BURST_S)
    assert spent(rate, [500.0] * (burst + 1)) == [True] * burst + [False]
    moments = [500.0] * burst + [500.0 + 0.8 / per_s, 500.0 + 1.1 / per_s, 500.0 + 1.2 / per_s]
    assert spent(rate, moments)[burst:] == [False, True, False]


def test_a_bucket_is_full_again_after_its_time_and_never_fuller() -> None:
    rate = TokenBucket(10)
    assert spent(rate, [500.0] * 100 + [510.0] * 101)[100:] == [True] * 100 + [False]
    assert spent(rate, [500.0] * 100 + [9999.0] * 101)[100:] == [True] * 100 + [False]


def test_who_keeps_to_the_rate_is_never_refused() -> None:
    assert all(spent(TokenBucket(10), [500.0 + number / 10 for number in range(5000)]))


def test_a_rate_of_none_is_no_bound() -> None:
    assert all(spent(TokenBucket(0), [500.0] * 1000))


def test_a_census_counts_until_they_leave_and_forgets_who_has_nobody() -> None:
    census = ConnectionCounter(2)
    assert [census.enter("a"), census.enter("a"), census.enter("a"), census.enter("b")] == [True, True, False, True]
    census.leave("a")
    census.leave("a")
    assert (census.number_of("a"), census.number_of("b"), census.size()) == (1, 1, 2)
    assert census.enter("a")
    for name in "aab":
        census.leave(name)
    assert (census.size(), census.number_of("a")) == (0, 0)


def test_a_census_without_a_limit_and_an_origin_without_a_name_have_no_bound() -> None:
    assert all(ConnectionCounter(0).enter("a") for _ in range(100))
    census = ConnectionCounter(1)
    assert all(census.enter("") for _ in range(100))
    census.leave("")
    assert census.size() == 0


def test_durations_are_counted_by_bucket() -> None:
    durations = Histogram()
    for seconds, times in ((0.0, 1), (0.000_031, 2), (-5.0, 3), (1e9, 4)):
        durations.add(seconds, times)
    found = {bucket: times for bucket, times in enumerate(durations.numbers) if times}
    assert found == {0: 4, 31: 2, len(durations.numbers) - 1: 4}
    assert (durations.number, durations.sum_us, durations.max_us) == (10, 62 + 4 * 10**15, 10**15)


# Floods of one connection. D-43


def flood_of(wire: Wire, raw: bytes, times: int) -> None:
    for _ in range(times):
        wire.send(raw)


def ended(text: str) -> list[Frame]:
    return [error(0, CONNECTION_ERROR, text)]


def test_d_43_a_flood_of_keepalives_ends_its_connection_and_no_other() -> None:
    world = World()
    caller, other = world.caller(), world.caller()
    keepalive = encode_keepalive(b"", respond=True)
    flood_of(caller, keepalive, 100)
    assert caller.received() == [Frame(encode_keepalive(b""))] * 100
    caller.send(keepalive)
    text = "over-limit: KEEPALIVEs to be answered: more than 100 came faster than 10 a second "
    text += "(limits.max_keepalives_per_s)"
    assert caller.received() == ended(text)
    assert caller.is_closed
    other.send(keepalive)
    assert other.one() == Frame(encode_keepalive(b""))


def test_d_43_keepalives_at_their_rate_and_those_that_want_no_answer_are_no_flood() -> None:
    world = World()
    caller = world.caller()
    for _ in range(500):
        world.now += 0.1
        caller.send(encode_keepalive(b"", respond=True))
    flood_of(caller, encode_keepalive(b""), 1000)
    assert caller.received() == [Frame(encode_keepalive(b""))] * 500


def announcement(number: int, **tags: str | None) -> bytes:
    return composite((MIME_TYPE, RouteSetup(route_id(1), f"orders-{number}", tags_of(tags)).encode()))


def test_d_43_a_flood_of_route_setups_ends_its_connection() -> None:
    world = World()
    service = world.service("orders", 1)
    for number in range(99):  # one came with the SETUP
        service.push(announcement(number))
    assert service.received() == []
    assert world.core.table.size() == 1
    service.push(announcement(99))
    text = "over-limit: ROUTE_SETUPs: more than 100 came faster than 10 a second (limits.max_route_setups_per_s)"
    assert service.received() == ended(text)
    assert world.core.table.size() == 0


def small(stream_id: int, data: bytes) -> bytes:
    return encode_payload(stream_id, NEXT | FOLLOWS, data)


@pytest.mark.parametrize("framed", [True, False])
def test_d_43_a_flood_of_small_fragments_ends_its_connection(framed: bool) -> None:
    world = World(CoreSettings(max_small_fragments_per_s=10))
    service = world.service("orders", 1)
    caller = world.caller(framed)
    caller.request(REQUEST_CHANNEL, 1, address(service="orders"), b"x" * 64)
    flood_of(caller, small(1, b"x" * 54), 100)  # 54 bytes behind a header of 6 and a length of 3
    assert caller.received() == []
    assert len(service.received()) == 101
    caller.send(small(1, b"x" * 54))
    text = "over-limit: fragments of less than 64 bytes: more than 100 came faster than 10 a second"
    text += " (limits.max_small_fragments_per_s)"
    assert caller.received() == ended(text)
    assert [frame.name for frame in service.received()] == ["CANCEL"]
    assert world.left_over() == []


def test_d_43_fragments_of_64_bytes_last_ones_and_those_of_services_within_the_rate_are_no_flood() -> None:
    world = World(CoreSettings(max_small_fragments_per_s=1))
    service = world.service("orders", 1)
    caller = world.caller()
    caller.request(REQUEST_CHANNEL, 1, address(service="orders"))
    stream_id = service.one().stream_id
    flood_of(caller, small(1, b"x" * 55), 100)
    flood_of(caller, encode_payload(1, NEXT, b"x"), 100)
    flood_of(caller, encode_request_n(1, 1), 100)
    flood_of(service, small(stream_id, b"x"), 10)
    assert len(service.received()) == 300
    assert len(caller.received()) == 10
    service.send(small(stream_id, b"x"))
    assert service.is_closed
    assert [frame.name for frame in caller.received()] == ["ERROR"]


def test_a_request_in_tiny_fragments_is_forwarded_within_the_burst() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = world.caller()
    metadata = addressed(address(service="orders"))
    caller.send(encode_request(REQUEST_RESPONSE, 1, b"", metadata[:1], 0, FOLLOWS))
    for at in range(1, len(metadata)):
        caller.send(encode_payload(1, NEXT | FOLLOWS, b"", metadata[at : at + 1]))
    caller.send(encode_payload(1, NEXT, b"hi"))
    assert len(service.received()) == len(metadata) + 1
    assert caller.received() == []


@pytest.mark.parametrize("kind", [REQUEST_RESPONSE, REQUEST_FNF])
def test_refused_requests_at_line_rate_leave_nothing_behind(kind: int) -> None:
    """Nothing ends such a caller: it is bounded by reading its own answers."""
    world = World()
    caller = world.caller()
    for number in range(MANY):
        caller.request(kind, 2 * number + 1, address(service="nobody"))
        if kind == REQUEST_RESPONSE:
            assert caller.one().code == REJECTED
    flows = world.core.engine.flows
    assert (world.left_over(), flows.opened, len(flows.active), len(flows.totals)) == ([], 1, 1, 0)
    assert (world.core.query.remembered(), caller.peer.buffered_bytes) == (1, 0)


def test_answers_that_a_caller_does_not_read_count_as_buffered() -> None:
    world = World()
    caller = world.caller()
    before = caller.peer.bytes_out
    for number in range(10):
        raw = encode_request(REQUEST_RESPONSE, 2 * number + 1, b"", addressed(address(service="nobody")))
        world.core.receive(caller.peer, len(raw).to_bytes(3, "big") + raw, world.now)
    waiting = caller.peer.buffered_bytes
    world.pump()
    assert caller.peer.bytes_out - before == waiting > 10 * 9
    assert caller.peer.buffered_bytes == 0


# How long silence may last


def silent(world: World, keepalive_ms: int, lifetime_ms: int) -> Wire:
    wire = world.connect()
    wire.send(Setup(COMPOSITE_MIME, "a/b", keepalive_ms, lifetime_ms).encode())
    return wire


def test_d_43_a_client_that_promises_to_be_silent_for_long_is_looked_at_after_max_lifetime_s() -> None:
    world = World()
    wire = silent(world, 20_000, 3_600_000)
    world.advance(299.0)
    assert wire.received() == []
    world.advance(1.5)
    assert wire.received() == ended("keepalive-timeout: nothing arrived for 300.0 s, the limit is 300.0 s")


def test_d_43_a_client_with_a_long_keepalive_interval_is_given_two_of_them() -> None:
    world = World()
    wire = silent(world, 200_000, 3_600_000)
    for _ in range(3):
        world.advance(399.0)
        wire.send(encode_keepalive(b"", respond=True))
    assert wire.received() == [Frame(encode_keepalive(b""))] * 3
    world.advance(401.0)
    assert wire.received() == ended("keepalive-timeout: nothing arrived for 400.0 s, the limit is 400.0 s")


# Credit


@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_credit_passes_unicast_as_it_is_however_it_adds_up(kind: int) -> None:
    world = World()
    service = world.service("orders", 1)
    caller = world.caller()
    caller.request(kind, 1, address(service="orders"), n=MAX_N)
    first = service.one()
    caller.ask(1, MAX_N)
    caller.ask(1, MAX_N)
    caller.send(encode_request_n(1, 0))  # "Value MUST be > 0": ignored
    reserved = bytearray(encode_request_n(1, 5))
    reserved[6] |= 0x80  # the reserved bit is the sender's; who reads credit does not look at it
    caller.send(bytes(reserved))
    *asks, last = service.received()
    assert first.n == MAX_N
    assert asks == [asked(first.stream_id, MAX_N)] * 2
    assert (last.name, last.n & MAX_N) == ("REQUEST_N", 5)


def test_credit_of_a_multicast_stops_at_31_bits() -> None:
    world = World()
    services = [world.service("orders", number) for number in (1, 2)]
    caller = world.caller()
    caller.request(REQUEST_STREAM, 1, address(MULTICAST, service="orders"), n=MAX_N)
    for _ in range(5):
        caller.ask(1, MAX_N)
    for service in services:
        stream_id = service.received()[0].stream_id
        service.answer(stream_id, b"item", NEXT)
    assert [frame.data for frame in caller.received()] == [b"item", b"item"]
    for service in services:
        assert all(0 < frame.n <= MAX_N for frame in service.received())


@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_a_request_with_no_credit_is_refused(kind: int) -> None:
    world = World()
    world.service("orders", 1)
    caller = world.caller()
    caller.request(kind, 1, address(service="orders"), n=0)
    assert caller.one().text == "bad-request: the initial request n is 0, it must be over 0"


# Where connections come from


def connect(world: World, address: str = "", principal: str = "") -> Wire:
    wire = Wire(world, world.core.connected("tcp 127.0.0.1:1", True, world.now, address, principal))
    world.wires[wire.peer.id] = wire
    world.pump()
    return wire


def refused(text: str) -> list[Frame]:
    return [error(0, REJECTED_SETUP, f"over-limit: {text}")]


def test_connections_of_one_address_are_counted_until_they_are_lost() -> None:
    world = World(CoreSettings(max_connections_per_address=2))
    first, second, third = (connect(world, "10.0.0.4") for _ in range(3))
    other = connect(world, "10.0.0.5")
    text = "2 connections of this address are open, limits.max_connections_per_address is 2"
    assert third.received() == refused(text)
    assert third.is_closed
    assert (first.received(), second.received(), other.received()) == ([], [], [])
    third.lose()
    first.lose()
    assert connect(world, "10.0.0.4").received() == []
    assert connect(world, "10.0.0.4").is_closed


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_address", "max_connections_per_principal"])
def test_who_was_let_in_keeps_its_place_while_others_are_refused(limit: str) -> None:
    """The refused ones still have a transport, which is to be closed, when its SETUP comes."""
    world = World(CoreSettings(**{limit: 1}))  # type: ignore[arg-type]
    first, *others = (connect(world, "10.0.0.4", "uid 7") for _ in range(3))
    assert [wire.is_closed for wire in others] == [True, True]
    first.send(Setup(COMPOSITE_MIME, "a/b", 20_000, 90_000).encode(), encode_keepalive(b"", respond=True))
    assert first.received() == [Frame(encode_keepalive(b""))]


def test_connections_of_one_principal_are_counted_wherever_they_come_from() -> None:
    world = World(CoreSettings(max_connections_per_principal=1))
    connect(world, "10.0.0.4", "commonName=orders")
    surplus = connect(world, "10.0.0.5", "commonName=orders")
    text = "1 connections of commonName=orders are open, limits.max_connections_per_principal is 1"
    assert surplus.received() == refused(text)
    assert connect(world, "10.0.0.5", "commonName=billing").received() == []
    assert connect(world, "10.0.0.5").received() == []


def test_connections_from_nowhere_have_no_bound_but_that_of_all() -> None:
    world = World(CoreSettings(max_connections=3, max_connections_per_address=1, max_connections_per_principal=1))
    assert [connect(world).received() for _ in range(3)] == [[], [], []]
    assert connect(world).received() == refused("3 connections are open, limits.max_connections is 3")


def test_origins_of_lost_connections_are_forgotten() -> None:
    world = World(CoreSettings(max_connections=1))
    for number in range(100):
        connect(world, f"10.0.0.{number}", f"uid {number}").lose()
    assert world.core.limits.origins() == (0, 0)


# What waits, of all connections together


def half_a_frame(size: int) -> bytes:
    """`size` bytes of a frame that is never whole."""
    return (0x800000).to_bytes(3, "big") + bytes(size - 3)


def weighed(world: World) -> list[Wire]:
    """Who is closed because of what waits."""
    given = [world.wires[peer.id] for peer in world.core.limits.weigh(world.now)]
    world.pump()
    return given


def test_at_the_bound_of_all_bytes_nobody_is_ended_and_beyond_it_who_holds_most() -> None:
    world = World(CoreSettings(max_buffered_bytes=1000))
    wires = [world.caller() for _ in range(4)]
    for wire, size in zip(wires, (100, 200, 300, 400), strict=True):
        wire.send_bytes(half_a_frame(size))
    assert weighed(world) == []
    assert world.core.limits.buffered_bytes == 1000
    wires[0].send_bytes(b"x")
    assert weighed(world) == [wires[3]]
    text = "over-limit: 1001 bytes wait in the broker, 400 of them for this connection, the limit is 1000"
    text += " (limits.max_buffered_bytes)"
    assert wires[3].received() == ended(text)
    assert weighed(world) == []
    assert world.core.limits.buffered_bytes == 601
    assert [wire.is_closed for wire in wires] == [False, False, False, True]


@pytest.mark.parametrize("parts", [1, 2, 3, 20])
def test_part_by_part_the_weight_is_the_same_and_told_after_the_last_one(parts: int) -> None:
    world = World(CoreSettings(max_buffered_bytes=1499))
    wires = [world.caller() for _ in range(5)]
    for wire, size in zip(wires, (100, 200, 300, 400, 500), strict=True):
        wire.send_bytes(half_a_frame(size))
    told: list[bool] = []
    while not told or (world.core.limits.buffered_bytes == 0 and len(told) < 50):
        told.append(world.core.limits.weigh_part(parts))
    assert (told, world.core.limits.buffered_bytes) == ([False] * (len(told) - 1) + [True], 1500)
    assert len(told) <= parts
    wires[4].lose()
    again = [world.core.limits.weigh_part(parts) for _ in range(len(told) + 1)]
    assert (any(again), world.core.limits.buffered_bytes) == (False, 1000)


def test_as_many_are_ended_as_it_takes() -> None:
    world = World(CoreSettings(max_buffered_bytes=100))
    wires = [world.caller() for _ in range(5)]
    for wire, size in zip(wires, (40, 80, 60, 90, 50), strict=True):
        wire.send_bytes(half_a_frame(size))
    assert weighed(world) == [wires[3], wires[1], wires[2]]
    assert world.core.closed_by_reason == {"over-limit": 3}


def test_all_that_waits_because_of_a_connection_is_weighed_and_given_back() -> None:
    """A request without its ADDRESS, items of a multicast, a part of a frame, bytes that the system has not taken."""
    world = World()
    services = [world.service("orders", number) for number in (1, 2)]
    caller = world.caller()
    peer = caller.peer
    weights = [peer.buffered_bytes]
    metadata = addressed(address(service="orders"))
    caller.send(encode_request(REQUEST_RESPONSE, 1, b"", metadata[:9], 0, FOLLOWS))
    weights.append(peer.buffered_bytes)
    caller.request(REQUEST_STREAM, 3, address(MULTICAST, service="orders"), n=1)
    for service in services:
        service.answer(service.received()[0].stream_id, bytes(500), NEXT)
    weights.append(peer.buffered_bytes)
    caller.send_bytes(half_a_frame(50))
    weights.append(peer.buffered_bytes)
    peer.unsent_bytes = 77  # as the edge tells it
    weights.append(peer.buffered_bytes)
    grown = [after - before for before, after in pairwise(weights)]
    assert (weights[0], grown[0], grown[2:]) == (0, 6 + 3 + 9, [50, 77])
    assert 500 < grown[1] < 1000  # one item, with what a frame costs beside it
    caller.lose()
    assert peer.buffered_bytes == 0
    assert world.left_over() == []


def test_what_is_ended_for_memory_writes_only_why() -> None:
    """Its output is part of what is too much."""
    world = World(CoreSettings(max_buffered_bytes=10))
    caller = world.caller()
    raw = encode_keepalive(bytes(1000), respond=True)
    world.core.receive(caller.peer, len(raw).to_bytes(3, "big") + raw, world.now)
    assert weighed(world) == [caller]
    assert [frame.name for frame in caller.received()] == ["ERROR"]


def test_a_connection_that_is_ending_is_closed_rather_than_another_ended() -> None:
    world = World(CoreSettings(max_buffered_bytes=100))
    ending, other = world.caller(), world.caller()
    other.send_bytes(half_a_frame(60))
    world.core.end(ending.peer, "closed-by-operator", "enough", world.now)
    world.pump()
    ending.peer.unsent_bytes = 70
    assert weighed(world) == [ending]
    assert not other.is_closed


# A million different tags


def sizes(world: World, *wires: Wire) -> dict[str, int]:
    """How large every table is that names of peers can fill."""
    core = world.core
    flows = core.engine.flows
    return {
        "routes": core.table.size(),
        "tags": core.table.index.size(),
        "services": len(core.table.loads.services),
        "addresses": core.query.remembered(),
        "choices": core.query.sticky.size(),
        "totals": len(flows.totals),
        "streams": sum(len(wire.peer.streams) for wire in wires),
        "flows of peers": sum(len(wire.peer.flows) for wire in wires),
    }


def test_a_route_that_changes_its_tags_and_name_again_and_again_leaves_no_trace() -> None:
    world = World(CoreSettings(max_route_setups_per_s=0))
    service = world.service("orders", 1)
    for number in range(MANY // 10):
        tags: dict[str, str | None] = {f"key-{number}-{each}": f"value-{number}" for each in range(10)}
        service.push(composite((MIME_TYPE, RouteSetup(route_id(number), f"name-{number}", tags_of(tags)).encode())))
        world.core.take_events()
    found = sizes(world, service)
    assert (found["routes"], found["tags"], found["services"], found["addresses"]) == (1, 12, 1, 0)


def requests(number: int) -> list[tuple[int, bytes]]:
    """Requests with names that nobody has used before: a kind and an ADDRESS each."""
    name = f"{number:x}"
    return [
        (REQUEST_RESPONSE, address(service=f"nobody-{name}")),
        (REQUEST_FNF, Address(route_id(2), tags_of({"service": "orders", f"key-{name}": name})).encode()),
        (REQUEST_FNF, address(SHARD, [(SHARD_KEY, "user")], service="orders", user=name)),
        (REQUEST_FNF, address(hints=[(STICKY_ROUTE_KEY, "user")], service="orders", user=name)),
    ]


def test_addresses_with_new_tags_again_and_again_fill_no_table() -> None:
    world = World(CoreSettings(max_lookup_cache=1000, policy=Policy(sticky_ttl_s=300.0)))
    services = [world.service("orders", number) for number in (1, 2)]
    caller = world.caller()
    asked_n = MANY // 4
    for number in range(asked_n):
        for place, (kind, raw) in enumerate(requests(number)):
            caller.request(kind, 2 * (4 * number + place) + 1, raw, b"")
        if number % 500 == 499:  # the flows of an interval are those of ever new addresses
            flows = world.core.engine.flows
            assert flows.opened <= MAX_FLOWS
            world.flows()
            assert (flows.opened, len(flows.active), len(caller.peer.flows)) == (0, 0, 0)
    found = sizes(world, caller, *services)
    assert found["addresses"] <= 1000
    assert found["choices"] == min(asked_n, MAX_CHOICES)
    assert found["totals"] <= MAX_TOTALS + MAX_REFUSED_TOTALS + 10
    assert (found["routes"], found["tags"], found["services"], found["streams"]) == (2, 3, 1, 0)
    totals = world.core.engine.flows.totals
    assert sum(total.requests for total in totals.values()) == 4 * asked_n
    assert sum(1 for key in totals if key[4]) <= MAX_REFUSED_TOTALS + 5  # and one for the others, by model


def test_names_that_are_refused_do_not_crowd_out_those_that_are_there() -> None:
    world = World()
    caller = world.caller()
    for number in range(MAX_REFUSED_TOTALS + 100):
        caller.request(REQUEST_RESPONSE, 2 * number + 1, address(service=f"nobody-{number}"))
    service = world.service("orders", 1)
    caller.request(REQUEST_RESPONSE, 99_999, address(service="orders"))
    service.send(encode_error(service.received()[-1].stream_id, APPLICATION_ERROR, "no"))
    world.flows()
    assert ("orders", "request_response", "unicast", "error", "") in world.core.engine.flows.totals
    assert len(world.core.engine.flows.totals) == MAX_REFUSED_TOTALS + 2


def test_one_route_has_no_more_tags_than_it_may() -> None:
    world = World(CoreSettings(max_tags_per_route=3))
    service = world.connect()
    setup = RouteSetup(route_id(1), "orders", [Tag.of(f"key-{number}", "x") for number in range(4)]).encode()
    service.send(Setup(COMPOSITE_MIME, "a/b", 20_000, 90_000, composite((MIME_TYPE, setup))).encode())
    assert service.received() == [error(0, REJECTED_SETUP, "bad-route: 4 tags, limits.max_tags_per_route is 3")]
    assert world.core.table.index.size() == 0


def test_a_completed_item_is_no_fragment_whatever_its_length() -> None:
    world = World(CoreSettings(max_small_fragments_per_s=1))
    service = world.service("orders", 1)
    caller = world.caller()
    for number in range(100):
        caller.request(REQUEST_RESPONSE, 2 * number + 1, address(service="orders"))
        service.answer(service.one().stream_id, b"x", NEXT | COMPLETE)
        assert caller.one().data == b"x"
