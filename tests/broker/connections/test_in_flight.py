"""Requests in flight are counted exactly, whatever ends them, and the limits hold at their bounds (D-38)."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.core import CoreSettings
from broker.events import ROUTE_EJECTED, LifecycleEvent
from broker.routing.fair_shares import ASK_S, UNKNOWN
from broker.routing.health.breakers import QUIET_S
from broker.routing.policies import Policy
from rsocket_wire.errors import APPLICATION_ERROR, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.wire.frames import MULTICAST, SHARD
from rsocket_wire.wire.keys import SHARD_KEY, Key
from tests.fakes import START_MS, Wire, World, address, addressed, orders

ORDERS = address(service="orders")
TO_ALL = address(MULTICAST, service="orders")


def bounds(per_route: int = 0, per_service: int = 0, **more: int) -> CoreSettings:
    policy = Policy(max_in_flight_per_route=per_route, max_in_flight_per_service=per_service, **more)  # type: ignore[arg-type]
    return CoreSettings(policy)


def ask(caller: Wire, count: int = 1, raw: bytes = ORDERS, kind: int = frames.REQUEST_RESPONSE) -> None:
    for _ in range(count):
        caller.request(kind, caller.peer.requests * 2 + 1, raw)


def words(caller: Wire) -> list[str]:
    """The code words of the errors that it got."""
    return [frame.text.partition(":")[0] for frame in caller.received()]


def counted(world: World) -> list[tuple[int, int]]:
    """(awaited at the route, awaited at its service) of each route."""
    return [(route.load.awaited_n, route.load.service.awaited_n) for route in world.core.table.routes()]


def full(world: World) -> list[int]:
    return world.core.table.masks.full.to_list()


def test_the_default_lets_a_route_have_1024_in_flight_and_not_one_more() -> None:
    world, service, caller = orders()
    ask(caller, 1023)
    assert full(world) == []
    ask(caller)
    assert (full(world), len(service.received()), caller.received()) == ([0], 1024, [])
    ask(caller)
    (frame,) = caller.received()
    text = "over-limit: of 1 routes with service=orders: 1 have as many requests in flight as they may"
    text += "; protection.max_in_flight_per_route is 1024"
    assert (frame.code, frame.text, service.received()) == (REJECTED, text, [])


ENDS = ["answer", "error", "cancel", "caller lost", "route lost", "deadline", "another answered"]


@pytest.mark.parametrize("how", ENDS)
def test_whatever_ends_a_request_ends_it_in_the_counts(how: str) -> None:
    world, service, caller = orders(bounds(1, 1))
    if how == "another answered":
        other = world.service("orders", 2)
        ask(caller, raw=TO_ALL)
        other.answer(2, b"first")
        assert counted(world) == [(0, 0), (0, 0)]
        other.lose()
    else:
        ask(caller, raw=address(hints=[(Key.text("deadline_ms"), "500")], service="orders"))
        assert (counted(world), full(world)) == ([(1, 1)], [0])
        load = world.core.table.routes()[0].load
        if how == "answer":
            service.answer(2, b"yes")
        elif how == "error":
            service.fail(2, APPLICATION_ERROR, "no")
        elif how == "cancel":
            caller.cancel(1)
        elif how == "caller lost":
            caller.lose()
        elif how == "route lost":
            service.lose()
        else:
            world.advance(0.5)
        assert (load.awaited_n, load.in_flight, load.service.awaited_n) == (0, 0, 0)
    assert (full(world), world.left_over()) == ([], [])
    service = service if how != "route lost" else world.service("orders", 1)
    service.received()
    ask(caller if how != "caller lost" else world.caller())
    assert len(service.received()) == 1


def test_other_tags_make_no_room() -> None:
    world, service, caller = orders(bounds(1))
    ask(caller)
    service.announce(1, "orders", region="eu")
    ask(caller)
    assert (words(caller), counted(world), full(world)) == (["over-limit"], [(1, 1)], [0])
    service.answer(2, b"")
    assert (counted(world), full(world)) == ([(0, 0)], [])


def test_a_multicast_reaches_full_routes_and_they_stay_full_until_they_are_below_the_limit() -> None:
    world, service, caller = orders(bounds(1))
    ask(caller)
    ask(caller, raw=TO_ALL)
    assert (counted(world), full(world)) == ([(2, 2)], [0])
    service.answer(4, b"")
    assert (counted(world), full(world)) == ([(1, 1)], [0])
    service.answer(2, b"")
    assert (counted(world), full(world)) == ([(0, 0)], [])


def test_the_limit_of_a_service_is_no_business_of_another() -> None:
    world = World(bounds(0, 2))
    orders, stock = world.service("orders", 1, region="eu"), world.service("stock", 2, region="eu")
    caller = world.caller()
    ask(caller, 3)
    ask(caller, 1, address(service="stock"))
    assert (len(orders.received()), len(stock.received()), words(caller)) == (2, 1, ["over-limit"])
    orders.answer(2, b"")
    caller.received()
    ask(caller, 2)
    assert (len(orders.received()), words(caller)) == (1, ["over-limit"])


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (ORDERS, frames.REQUEST_RESPONSE),
        (ORDERS, frames.REQUEST_FNF),
        (ORDERS, frames.REQUEST_STREAM),
        (ORDERS, frames.REQUEST_CHANNEL),
        (address(SHARD, [(SHARD_KEY, "id")], service="orders", id="7"), frames.REQUEST_RESPONSE),
    ],
)
@pytest.mark.parametrize("limits", [(1, 0), (0, 1)])
def test_all_that_must_choose_is_refused_and_counted(raw: bytes, kind: int, limits: tuple[int, int]) -> None:
    world, service, caller = orders(bounds(*limits))
    ask(caller)
    service.received()
    ask(caller, 1, raw, kind)
    assert (service.received(), words(caller)) == ([], [] if kind == frames.REQUEST_FNF else ["over-limit"])
    assert world.core.engine.breakers.refused == {"orders": 1}


def test_a_push_to_a_full_route_is_dropped_and_counted() -> None:
    world, service, caller = orders(bounds(1))
    ask(caller)
    service.received()
    caller.push(addressed(ORDERS))
    assert (service.received(), world.core.engine.breakers.refused) == ([], {"orders": 1})


def test_an_ejection_is_told_with_all_that_is_known() -> None:
    world = World()
    service, caller = world.service("orders", 1, region="eu"), world.caller()
    world.events()
    for number in range(5):
        ask(caller)
        service.fail(2 * number + 2, APPLICATION_ERROR, "no")
    (event,) = world.events()
    expected = LifecycleEvent(
        ROUTE_EJECTED,
        event.seq,
        START_MS,
        world.core.table.routes()[0].id_text,
        "orders",
        peer="tcp 127.0.0.1:1",
        reason="errors-in-row",
        detail="5 errors in a row; ejection 1, for 30 s; 1 of 1 routes of orders are ejected",
        requests=5,
        choices=5,
    )
    assert event.row() == expected.row()


def test_the_broker_asks_for_a_tick_at_the_end_of_an_ejection_and_of_a_breaker() -> None:
    world, service, caller = orders(CoreSettings(policy=Policy(max_in_flight_per_route=1), flow_interval_s=1000.0))
    world.advance(3.0)  # the times to the SETUP are over
    for number in range(5):
        ask(caller)
        service.fail(2 * number + 2, APPLICATION_ERROR, "no")
    assert world.core.next_deadline() == world.now + 30.0
    ask(caller, 2)
    assert world.core.next_deadline() == world.now + QUIET_S
    world.advance(QUIET_S)
    assert world.core.next_deadline() == world.now - QUIET_S + 30.0


def test_a_fire_and_forget_whose_fragments_a_route_does_not_want_counts_as_an_error() -> None:
    world, service, caller = orders()
    for number in range(5):
        caller.request(frames.REQUEST_FNF, 2 * number + 1, ORDERS, flags=frames.FOLLOWS)
        service.fail(2 * number + 2, REJECTED, "no")
    assert [event.kind for event in world.events()][-1] == ROUTE_EJECTED
    assert world.left_over() == []


# Shares of callers (D-68)


def refuse_text(held_n: int, limit: int = 1024, where: str = "a route of orders", of: str = "route") -> str:
    text = (
        f"over-limit: {held_n} requests of this connection are in flight at {where}: protection.max_in_flight_per_{of}"
    )
    return f"{text} is {limit}, of which a caller gets at most half while others compete"


def answer(service: Wire, caller: Wire, count: int) -> None:
    """The service answers so many of the requests of a caller, the oldest first."""
    mine = [number for number, stream in service.peer.streams.items() if getattr(stream, "caller", None) is caller.peer]
    for number in mine[:count]:
        service.answer(number, b"")
    caller.received()


def held(world: World, caller: Wire) -> int:
    return sum(caller.peer.awaited_at(route.load) for route in world.core.table.routes())


def test_by_default_nobody_holds_more_than_half_of_a_route_while_others_ask() -> None:
    """One caller took all 1,024 places of a route, and everybody else was refused for as long as it liked."""
    world = World()
    service, greedy, other = world.service("orders", 1), world.caller(), world.caller()
    ask(greedy, 1024)
    ask(other)
    assert words(other) == ["over-limit"]
    answer(service, greedy, 1)
    ask(greedy)
    assert [frame.text for frame in greedy.received()] == [refuse_text(1023)]
    ask(other)
    assert (other.received(), held(world, other)) == ([], 1)
    answer(service, greedy, 511)
    ask(greedy)
    assert [frame.text for frame in greedy.received()] == [refuse_text(512)]
    answer(service, greedy, 1)
    ask(greedy)
    assert (greedy.received(), held(world, greedy)) == ([], 512)
    ask(other, 511)
    assert (other.received(), held(world, other), full(world)) == ([], 512, [0])
    ask(greedy)
    ask(other)
    assert (words(greedy), words(other)) == (["over-limit"], ["over-limit"])


def test_who_is_alone_again_may_have_all_places_once_nobody_has_asked_for_long_enough() -> None:
    world = World(bounds(4))
    service, greedy, other = world.service("orders", 1), world.caller(), world.caller()
    ask(greedy, 4)
    ask(other)
    answer(service, greedy, 1)
    world.advance(ASK_S - 0.1)
    ask(greedy)
    assert words(greedy) == ["over-limit"]
    world.advance(0.2)
    ask(greedy)
    assert (words(greedy), held(world, greedy)) == ([], 4)
    assert words(other) == ["over-limit"]


def test_who_has_its_share_of_one_route_goes_to_another_that_has_room() -> None:
    world = World(bounds(4))
    services = [world.service("orders", number) for number in (1, 2, 3)]
    greedy, other = world.caller(), world.caller()
    ask(other, 3)  # one at each
    ask(greedy, 6)
    assert (words(greedy), [len(service.received()) for service in services]) == ([], [3, 3, 3])
    ask(greedy)
    assert [frame.text for frame in greedy.received()] == [refuse_text(2, 4)]
    services[1].answer(2, b"")
    services[1].answer(4, b"")
    greedy.received()
    ask(greedy)
    assert (words(greedy), len(services[1].received())) == ([], 1)


def test_a_share_is_of_request_responses_only() -> None:
    """What else there is has no place, and gets into no route that is full."""
    world = World(bounds(4))
    service, greedy, other = world.service("orders", 1), world.caller(), world.caller()
    ask(other)
    ask(greedy, 2)
    ask(greedy)
    assert words(greedy) == ["over-limit"]
    for kind in (frames.REQUEST_FNF, frames.REQUEST_STREAM, frames.REQUEST_CHANNEL):
        ask(greedy, 1, ORDERS, kind)
    assert (words(greedy), len(service.received())) == ([], 6)


def test_the_owner_of_a_shard_is_shared_like_any_other() -> None:
    world = World(bounds(2))
    world.service("orders", 1)
    greedy, other = world.caller(), world.caller()
    mine = address(SHARD, [(SHARD_KEY, "id")], service="orders", id="7")
    ask(greedy, 2, mine)
    ask(other, 1, mine)
    assert words(other) == ["over-limit"]
    greedy.cancel(1)
    ask(greedy, 1, mine)
    assert [frame.text for frame in greedy.received()] == [refuse_text(1, 2)]
    ask(other, 1, mine)
    assert (words(other), held(world, other)) == ([], 1)


def test_nobody_holds_more_than_half_of_the_places_of_a_service_while_others_ask() -> None:
    world = World(bounds(0, 4))
    world.service("orders", 1)
    world.service("orders", 2)
    greedy, other = world.caller(), world.caller()
    ask(greedy, 4)
    ask(other)
    assert words(other) == ["over-limit"]
    greedy.cancel(1)
    ask(greedy)
    assert [frame.text for frame in greedy.received()] == [refuse_text(3, 4, "service orders", "service")]
    ask(other)
    assert (words(other), held(world, other)) == ([], 1)
    greedy.cancel(3)
    greedy.cancel(5)
    ask(greedy)
    assert (words(greedy), held(world, greedy)) == ([], 2)


def test_refusals_for_shares_open_the_breaker_and_are_counted() -> None:
    world = World(bounds(4))
    world.service("orders", 1)
    greedy, other = world.caller(), world.caller()
    ask(other)
    ask(greedy, 3)
    assert words(greedy) == ["over-limit"]
    assert (world.core.engine.breakers.refused, world.core.engine.breakers.is_open("orders")) == ({"orders": 1}, True)


def test_a_request_in_fragments_and_a_multicast_hold_places_like_others() -> None:
    world = World()
    world.service("orders", 1)
    greedy, other = world.caller(), world.caller()
    ask(other)
    ask(greedy, 500, TO_ALL)
    for number in range(11):
        greedy.request(frames.REQUEST_RESPONSE, 10_001 + 2 * number, ORDERS, flags=frames.FOLLOWS)
    ask(greedy)
    assert (words(greedy), held(world, greedy)) == ([], 512)
    ask(greedy)
    assert [frame.text for frame in greedy.received()] == [refuse_text(512)]


def test_who_holds_what_is_counted_only_where_half_is_taken_and_until_a_quarter_is() -> None:
    world, service, caller = orders()
    (load,) = [route.load for route in world.core.table.routes()]
    ask(caller, 511)
    assert (load.shares, load.is_watched) == (None, False)
    ask(caller)
    assert (load.shares is not None, load.is_watched) == (True, True)
    answer(service, caller, 255)
    assert (load.awaited_n, load.shares is not None) == (257, True)
    answer(service, caller, 1)
    assert (load.shares, load.is_watched) == (None, False)
    answer(service, caller, 256)
    assert world.left_over() == []


MOVES = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "ask", "end", "wait", "all", "leave"]), st.integers(0, 2)), max_size=120
)


@pytest.mark.parametrize("limits", [(4, 0), (0, 4), (6, 5), (130, 0)])
@given(moves=MOVES)
@example(moves=[("ask", 0), ("leave", 0), ("ask", 0), ("ask", 0), ("ask", 0)])
@settings(max_examples=25, deadline=None)
def test_shares_hold_whatever_happens(limits: tuple[int, int], moves: list[tuple[str, int]]) -> None:
    """A request is refused only when all places are taken, or its caller has half of them and another one asks."""
    world = World(bounds(*limits))
    service = world.service("orders", 1)
    callers = [world.caller() for _ in range(3)]
    limit = min(each for each in limits if each)
    asked_at = [-1000.0] * 3
    left_at = -1000.0  # when the latest of those that have left asked
    many = 50 if limit > 100 else 1
    for move, number in moves:
        caller = callers[number]
        before = [held(world, each) for each in callers]
        if move == "ask":
            for _ in range(many):
                before = [held(world, each) for each in callers]
                ask(caller)
                others = [each for each in range(3) if each != number]
                has_asked = [world.now - at < ASK_S for at in (left_at, *(asked_at[each] for each in others))]
                is_contended = any(has_asked) or any(before[each] for each in others)
                if words(caller):
                    has_half = before[number] >= (limit + 1) // 2 and is_contended
                    assert sum(before) == limit or has_half or limits == (6, 5)
                    assert held(world, caller) == before[number]
                else:
                    is_modest = before[number] < (limit + 1) // 2
                    assert is_modest or not any(before[each] for each in others)
                asked_at[number] = world.now
        elif move == "end":
            answer(service, caller, many)
        elif move == "wait":
            world.advance(1.0)
        elif move == "all":
            answer(service, caller, 1000)
        else:
            caller.lose()
            callers[number] = world.caller()  # who has left counts as one that asks for as long as if it had stayed
            left_at, asked_at[number] = max(left_at, asked_at[number]), -1000.0
        (load,) = [route.load for route in world.core.table.routes()]
        for shares in (load.shares, load.service.shares):
            for each in callers:
                known_n = shares.held(each.peer.id) if shares is not None else UNKNOWN
                assert known_n in (UNKNOWN, held(world, each))
    for caller in callers:
        answer(service, caller, 1000)
    assert (world.left_over(), counted(world)) == ([], [(0, 0)])
