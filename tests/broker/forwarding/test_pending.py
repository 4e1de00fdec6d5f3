"""Requests that wait for a route (D-10, D-40): they are held as they came, and every wait has an end."""

from itertools import product

import pytest

from broker.core import CoreSettings
from broker.forwarding.pending import LOOKED_AT
from broker.forwarding.reassembly import MAX_FRAMES
from broker.routing.policies import Policy
from rsocket_wire.errors import REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.rsocket.resumption import FRAME_COST
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD
from rsocket_wire.wire.keys import SHARD_KEY
from rsocket_wire.wire.tags import Tag
from tests.broker.forwarding.pairs import ANSWERED, MODELS, end
from tests.broker.forwarding.waiting import ORDERS, held, nothing_left, waiting_world
from tests.fakes import Wire, World, address, addressed, asked, composite, error, fragments, moved, route_id


def leased(world: World, number: int) -> Wire:
    """A service that grants its requests."""
    wire = world.service("orders", number, wants_lease=True)
    wire.received()  # what the broker grants
    return wire


def test_all_that_wait_go_on_in_the_order_in_which_they_came() -> None:
    world = waiting_world()
    callers = [world.caller() for _ in range(3)]
    eu = address(service="orders", region="eu")
    for stream_id in (1, 3, 5):
        for number, caller in enumerate(callers):
            caller.request(REQUEST_FNF, stream_id, eu if number == 1 else ORDERS, b"%d of %d" % (stream_id, number))
    service = world.service("orders", 1, region="eu")
    expected = [b"%d of %d" % (stream_id, number) for stream_id in (1, 3, 5) for number in range(3)]
    assert [frame.data for frame in service.received()] == expected
    assert nothing_left(world)


def test_a_route_that_does_not_match_lets_nobody_go_on() -> None:
    world = waiting_world()
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, address(service="orders", region="eu"))
    near = [world.service("orders", 1, region="us"), world.service("stock", 2, region="eu")]
    assert [wire.received() for wire in near] == [[], []]
    right = world.service("orders", 3, region="eu")
    assert [frame.name for frame in right.received()] == ["REQUEST_RESPONSE"]


def test_tags_that_change_let_those_go_on_that_match_now() -> None:
    world = waiting_world()
    service, caller = world.service("orders", 1), world.caller()
    caller.request(REQUEST_RESPONSE, 1, address(service="orders", region="eu"))
    service.announce(1, "orders", region="eu")
    assert [frame.name for frame in service.received()] == ["REQUEST_RESPONSE"]


def test_what_is_redirected_while_it_waits_goes_on_with_the_first_route_of_the_other_service() -> None:
    world = waiting_world()
    caller = world.caller()
    caller.request(REQUEST_FNF, 1, ORDERS)
    world.core.query.set_redirects({"orders": "green"})
    world.advance(0.1)
    orders, green = world.service("orders", 1), world.service("green", 2)
    assert (orders.received(), [frame.name for frame in green.received()]) == ([], ["REQUEST_FNF"])
    caller.request(REQUEST_FNF, 3, address(service="stock"))
    world.core.query.set_redirects({"stock": "blue"})
    world.advance(0.1)
    world.core.query.set_redirects({})
    world.advance(0.1)
    blue, stock = world.service("blue", 3), world.service("stock", 4)
    assert (blue.received(), [frame.name for frame in stock.received()]) == ([], ["REQUEST_FNF"])
    assert nothing_left(world)


def test_a_fire_and_forget_that_waited_in_vain_is_counted_and_nothing_is_said() -> None:
    world = waiting_world()
    caller = world.caller()
    caller.request(REQUEST_FNF, 1, ORDERS)
    world.advance(5)
    assert caller.received() == []
    flows = [flow for flow in world.flows() if flow.requests]
    assert [(flow.outcome, flow.word, flow.service, flow.requests) for flow in flows] == [
        ("rejected", "no-route", "orders", 1)
    ]


@pytest.mark.parametrize(("kind", "how"), [*product(ANSWERED, ["cancel", "loss"]), (REQUEST_CHANNEL, "error")])
def test_the_caller_may_end_the_wait(kind: int, how: str) -> None:
    world = waiting_world()
    caller = world.caller()
    caller.request(kind, 1, ORDERS)
    end(caller, how)
    assert nothing_left(world)
    service = world.service("orders", 1)
    world.advance(10)
    assert (caller.received(), service.received()) == ([], [])
    outcome = {"cancel": "cancelled", "loss": "caller_lost", "error": "error"}[how]
    assert [key[:1] + key[3:] for key in world.core.engine.flows.totals] == [("orders", outcome, "")]


@pytest.mark.parametrize("kind", [REQUEST_STREAM, REQUEST_CHANNEL])
def test_credit_that_comes_meanwhile_is_not_lost(kind: int) -> None:
    world = waiting_world()
    caller = world.caller()
    raw = caller.request(kind, 1, ORDERS, n=3)
    caller.ask(1, 4)
    caller.ask(1, 0x7FFFFFFF)
    caller.send(frames.encode_request_n(1, 0))  # it is none
    service = world.service("orders", 1)
    assert service.received() == [moved(raw, 2), asked(2, 0x7FFFFFFF)]


@pytest.mark.parametrize("metadata_mime", [COMPOSITE_MIME, MIME_TYPE])
def test_a_channel_whose_caller_completes_meanwhile_is_complete_for_its_route(metadata_mime: str) -> None:
    world = waiting_world()
    caller = world.caller()
    caller.request(REQUEST_CHANNEL, 1, ORDERS)
    last = frames.encode_payload(1, frames.COMPLETE)
    caller.send(last)
    service = world.service("orders", 1, metadata_mime=metadata_mime)
    assert service.received()[1:] == [moved(last, 2)]
    service.answer(2, b"", frames.COMPLETE)
    assert nothing_left(world)


@pytest.mark.parametrize("kind", MODELS)
def test_fragments_that_come_meanwhile_follow_in_order(kind: int) -> None:
    metadata = addressed(ORDERS)
    frames = fragments(kind, 1, metadata, b"0123456789", [len(metadata) + 2, len(metadata) + 5])
    for waited in range(1, len(frames) + 1):
        world = waiting_world()
        caller = world.caller()
        caller.send(*frames[:waited])
        assert held(world) == (1, sum(len(raw) for raw in frames[:waited]))
        service = world.service("orders", 1)
        caller.send(*frames[waited:])
        assert service.received() == [moved(raw, 2) for raw in frames]


@pytest.mark.parametrize("cut", [8, 40])
def test_a_request_whose_address_is_cut_waits_when_it_is_whole(cut: int) -> None:
    world = waiting_world()
    caller = world.caller()
    frames = fragments(REQUEST_RESPONSE, 1, addressed(ORDERS), b"data", [cut])
    caller.send(frames[0])
    assert held(world) == (0, 0)
    caller.send(frames[1])
    assert held(world)[0] == 1
    service = world.service("orders", 1)
    assert service.received() == [moved(raw, 2) for raw in frames]
    assert caller.peer.gathered_bytes == 0


def test_a_request_that_waited_is_translated_for_the_route_that_came() -> None:
    world = waiting_world()
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS, b"data")
    service = world.service("orders", 1, metadata_mime=MIME_TYPE)
    (frame,) = service.received()
    assert (frame.metadata, frame.data) == (ORDERS, b"data")


@pytest.mark.parametrize("flags", [0, frames.COMPLETE])
@pytest.mark.parametrize("kind", MODELS)
def test_what_came_in_fragments_is_whole_after_its_translation(kind: int, flags: int) -> None:
    """Metadata becomes one piece; the data behind it follows as it came."""
    metadata = addressed(ORDERS, ("text/plain", b"more"))
    is_channel = kind == REQUEST_CHANNEL
    cuts = [50, len(metadata) + 2, len(metadata) + 5]
    pieces = fragments(kind, 1, metadata, b"0123456789", cuts, 8, 0, NEXT | (flags if is_channel else 0))
    for waited in range(2, len(pieces) + 1):
        world = waiting_world()
        caller = world.caller()
        caller.send(*pieces[:waited])
        service = world.service("orders", 1, metadata_mime=MIME_TYPE)
        caller.send(*pieces[waited:])
        got = service.received()
        assert [frame.data for frame in got] == [b"01", b"234", b"56789"], waited
        assert got[0].metadata == address(wrapped=composite(("text/plain", b"more")), service="orders")
        assert [frame.flags & (FOLLOWS | frames.COMPLETE) for frame in got] == [
            FOLLOWS,
            FOLLOWS,
            flags if is_channel else 0,
        ]


def test_a_multicast_waits_for_its_first_member() -> None:
    world = waiting_world()
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, address(MULTICAST, service="orders"))
    first, second = world.service("orders", 1), world.service("orders", 2)
    assert [len(first.received()), len(second.received())] == [1, 0]


def test_a_shard_request_waits_for_any_route_of_its_selectors() -> None:
    world = waiting_world()
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, address(SHARD, [(SHARD_KEY, "user")], service="orders", user="7"))
    assert len(world.service("orders", 1).received()) == 1


def test_a_push_never_waits() -> None:
    world = waiting_world()
    caller = world.caller()
    caller.push(addressed(ORDERS))
    assert held(world) == (0, 0)
    assert world.service("orders", 1).received() == []


# At the bounds


def test_no_more_requests_wait_than_may() -> None:
    world = waiting_world(max_waiting=3)
    callers = [world.caller() for _ in range(2)]
    for stream_id in (1, 3):
        for caller in callers:
            caller.request(REQUEST_RESPONSE, stream_id, ORDERS)
    text = "over-limit: no route has service=orders, and 3 requests wait already, limits.max_waiting is 3"
    refused = error(3, REJECTED, text)
    assert [caller.received() for caller in callers] == [[], [refused]]
    callers[0].cancel(1)
    callers[1].request(REQUEST_RESPONSE, 5, ORDERS)
    assert callers[1].received() == []


def test_no_more_requests_of_one_connection_wait_than_may() -> None:
    world = waiting_world(max_waiting_per_connection=1)
    callers = [world.caller() for _ in range(2)]
    for caller in callers:
        caller.request(REQUEST_RESPONSE, 1, ORDERS)
        caller.request(REQUEST_RESPONSE, 3, ORDERS)
    text = "over-limit: no route has service=orders, and 1 requests of this connection wait already, "
    text += "limits.max_waiting_per_connection is 1"
    assert [caller.received() for caller in callers] == [[error(3, REJECTED, text)]] * 2


def test_no_more_bytes_of_one_connection_wait_than_may() -> None:
    size = len(frames.encode_request(REQUEST_RESPONSE, 1, b"x" * 100, addressed(ORDERS)))
    cost = size + FRAME_COST
    world = waiting_world(max_waiting_bytes=2 * cost)
    caller = world.caller()
    for stream_id in (1, 3, 5):
        caller.request(REQUEST_RESPONSE, stream_id, ORDERS, b"x" * 100)
    waits = f"{2 * cost} bytes of requests of this connection wait already"
    text = f"over-limit: no route has service=orders, and {waits}, {cost} more would pass "
    text += f"limits.max_waiting_bytes: {2 * cost}"
    assert caller.received() == [error(5, REJECTED, text)]
    assert held(world) == (2, 2 * size)


def test_a_request_that_grows_beyond_the_bytes_that_may_wait_is_refused() -> None:
    world = waiting_world(max_waiting_bytes=1000)
    caller = world.caller()
    caller.request(REQUEST_FNF, 3, ORDERS)
    caller.request(REQUEST_RESPONSE, 1, ORDERS, b"x" * 400, flags=FOLLOWS)
    assert held(world)[0] == 2
    caller.send(frames.encode_payload(1, NEXT | FOLLOWS, b"x" * 600))
    text = "over-limit: the connection's requests that wait for a route have more bytes than "
    text += "limits.max_waiting_bytes: 1000"
    assert caller.received() == [error(1, REJECTED, text)]
    assert held(world)[0] == 1
    caller.send(frames.encode_payload(1, NEXT, b"late"))
    assert caller.received() == []


def test_a_small_frame_that_waits_costs_more_than_its_bytes() -> None:
    first = len(frames.encode_request(REQUEST_CHANNEL, 1, b"", addressed(ORDERS), 1)) + FRAME_COST
    item = frames.encode_payload(1, NEXT)
    world = waiting_world(max_waiting_bytes=first + 3 * (len(item) + FRAME_COST))
    caller = world.caller()
    caller.request(REQUEST_CHANNEL, 1, ORDERS, b"")
    for _ in range(3):
        caller.send(item)
    assert held(world)[0] == 1
    assert caller.received() == []
    caller.send(item)
    assert [frame.text.partition(":")[0] for frame in caller.received()] == ["over-limit"]
    assert nothing_left(world)


def test_a_request_in_too_many_fragments_is_refused() -> None:
    world = waiting_world()
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS, flags=FOLLOWS)
    for _ in range(MAX_FRAMES - 1):
        caller.send(frames.encode_payload(1, NEXT | FOLLOWS, b"x"))
    assert held(world)[0] == 1
    caller.send(frames.encode_payload(1, NEXT | FOLLOWS, b"x"))
    assert [frame.name for frame in caller.received()] == ["ERROR"]
    assert nothing_left(world)


# What else is waited for


def test_a_request_waits_for_a_lease() -> None:
    world = waiting_world()
    service, caller = leased(world, 1), world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    caller.request(REQUEST_RESPONSE, 3, ORDERS)
    assert service.received() == []
    service.send(frames.encode_lease(10_000, 1))
    assert [frame.stream_id for frame in service.received()] == [2]
    world.advance(5)
    (frame,) = caller.received()
    assert (frame.stream_id, frame.code) == (3, REJECTED)
    assert frame.text.endswith(", after 5.0 s of waiting")


@pytest.mark.parametrize("others_n", [0, LOOKED_AT])
def test_a_request_that_waits_for_a_lease_goes_on_when_its_route_is_no_longer_full(others_n: int) -> None:
    """However many wait before it: all are looked at."""
    world = World(CoreSettings(no_route="wait", policy=Policy(max_in_flight_per_route=1)))
    service, caller = leased(world, 1), world.caller()
    service.send(frames.encode_lease(10_000, 1))
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    for number in range(others_n):
        caller.request(REQUEST_RESPONSE, 5 + 2 * number, address(service="stock"))
    caller.request(REQUEST_RESPONSE, 3, ORDERS)
    service.send(frames.encode_lease(10_000, 10))  # and it is still full
    assert [frame.stream_id for frame in service.received()] == [2]
    service.answer(2, b"done")
    world.advance(2)
    assert [frame.stream_id for frame in service.received()] == [4]


def test_a_request_that_only_draining_routes_match_waits_for_a_new_one() -> None:
    world = waiting_world()
    old, caller = world.service("orders", 1), world.caller()
    world.core.lifecycle.drains.drain_route(route_id(1), 10, 0, False, world.now)
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    assert old.received() == []
    assert len(world.service("orders", 2).received()) == 1


def test_a_request_waits_until_its_route_is_in_service_again() -> None:
    world = waiting_world()
    service, caller = world.service("orders", 1, region="eu"), world.caller()
    world.core.lifecycle.drains.drain_tag(Tag.of("region", "eu"), 10, 0, False, world.now)
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    assert service.received() == []
    assert world.core.lifecycle.drains.undrain_tag(Tag.of("region", "eu"), world.now)
    world.pump()
    assert len(service.received()) == 1
