"""Routes that fail too often in a row get nothing for a while (D-37), and nobody more than may be in flight (D-38)."""

import pytest

from broker.core import CoreSettings
from broker.events import BREAKER_CLOSED, BREAKER_OPENED, ROUTE_EJECTED, ROUTE_RELIEVED, LifecycleEvent
from broker.routing.health.breakers import QUIET_S
from broker.routing.policies import Policy
from rsocket_wire.errors import APPLICATION_ERROR, CANCELED, INVALID, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.wire.frames import MULTICAST
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import Key
from tests.fakes import START_MS, Wire, World, address, addressed, ask, route_id

ORDERS = address(service="orders")


class Crowd:
    """Routes 1, 2, 3 … of orders, and a caller."""

    def __init__(self, count: int, policy: Policy | None = None, policies: dict[str, Policy] | None = None) -> None:
        self.world = World(CoreSettings(policy or Policy(), policies=policies or {}))
        self.services = {number: self.world.service("orders", number) for number in range(1, count + 1)}
        self.caller = self.world.caller()

    def to(self, number: int, kind: int = frames.REQUEST_RESPONSE, caller: Wire | None = None) -> int:
        """A request to exactly this route; its stream there."""
        caller = caller or self.caller
        ask(caller, 1, kind, address(route_id=id_text(route_id(number))))
        return self.services[number].received()[-1].stream_id

    def fail(self, number: int, times: int, code: int = APPLICATION_ERROR) -> None:
        for _ in range(times):
            self.services[number].fail(self.to(number), code, "no")
        self.caller.received()

    def succeed(self, number: int) -> None:
        self.services[number].answer(self.to(number), b"yes")
        self.caller.received()

    def served(self, count: int, raw: bytes = ORDERS, kind: int = frames.REQUEST_FNF) -> list[int]:
        """How many of so many requests each route got."""
        ask(self.caller, count, kind, raw)
        return [len(service.received()) for service in self.services.values()]

    def judged(self) -> list[tuple[int, str]]:
        """Ejections and reliefs since the last call."""
        return [
            (event.kind, event.route_id[-2:])
            for event in self.world.events()
            if event.kind in (ROUTE_EJECTED, ROUTE_RELIEVED)
        ]

    def live(self, seconds: float) -> None:
        """Time passes, and everybody keeps alive."""
        while seconds > 0:
            step = min(seconds, 20.0)
            self.world.advance(step)
            seconds -= step
            for wire in [*self.services.values(), self.caller]:
                wire.send(frames.encode_keepalive(b""))


def test_the_fifth_error_in_a_row_ejects_and_not_the_fourth() -> None:
    crowd = Crowd(3)
    crowd.fail(2, 4)
    assert crowd.served(6) == [2, 2, 2]
    crowd.fail(2, 1)
    assert crowd.judged() == [(ROUTE_EJECTED, "02")]
    assert crowd.served(6) == [3, 0, 3]


@pytest.mark.parametrize(
    "code, is_bad", [(APPLICATION_ERROR, True), (REJECTED, True), (CANCELED, True), (INVALID, False)]
)
def test_what_counts_as_the_routes_fault(code: int, is_bad: bool) -> None:
    crowd = Crowd(3)
    crowd.fail(2, 5, code)
    assert bool(crowd.judged()) == is_bad


@pytest.mark.parametrize("kind", [frames.REQUEST_RESPONSE, frames.REQUEST_STREAM, frames.REQUEST_CHANNEL])
def test_errors_of_every_model_count(kind: int) -> None:
    crowd = Crowd(3)
    for _ in range(5):
        crowd.services[1].fail(crowd.to(1, kind), APPLICATION_ERROR, "no")
    assert crowd.judged() == [(ROUTE_EJECTED, "01")]


def test_errors_of_a_branch_count_for_its_route() -> None:
    crowd = Crowd(2)
    for _ in range(5):
        ask(crowd.caller, 1, frames.REQUEST_RESPONSE, address(MULTICAST, service="orders"))
        (frame,) = crowd.services[1].received()
        crowd.services[1].fail(frame.stream_id, APPLICATION_ERROR, "no")
        crowd.services[2].received()
    assert crowd.judged() == [(ROUTE_EJECTED, "01")]


@pytest.mark.parametrize("principals", [("", ""), ("CN=x", "CN=x")])
@pytest.mark.parametrize("content", ["10.0.0.4", "10.0.0.5"])
def test_one_address_or_principal_on_many_connections_is_one_caller(principals: tuple[str, str], content: str) -> None:
    """A second socket made two callers of one, which nobody else had to agree with."""
    crowd = Crowd(2)
    crowd.caller = crowd.world.caller(origin=(content, ""))
    places = ("10.0.0.4", "10.0.0.4") if principals[0] == "" else ("10.0.0.4", "10.0.0.6")
    strangers = [crowd.world.caller(origin=each) for each in zip(places, principals, strict=True)]
    crowd.succeed(1)
    for number in range(20):
        crowd.services[1].fail(crowd.to(1, caller=strangers[number % 2]), APPLICATION_ERROR, "no such thing")
    assert (crowd.judged(), crowd.served(6)) == ([], [3, 3])
    crowd.fail(1, 1)
    assert crowd.judged() == [(ROUTE_EJECTED, "01")]


def test_another_service_name_keeps_who_met_the_errors() -> None:
    """D-37"""
    crowd = Crowd(2)
    crowd.succeed(1)
    stranger = crowd.world.caller()
    for _ in range(6):
        crowd.services[1].fail(crowd.to(1, caller=stranger), APPLICATION_ERROR, "no")
    rename(crowd, 1, "stock")
    assert crowd.judged() == []
    crowd.services[1].fail(crowd.to(1, caller=stranger), APPLICATION_ERROR, "no")
    assert crowd.judged() == []
    crowd.fail(1, 1)
    assert crowd.judged() == [(ROUTE_EJECTED, "01")]


def test_cancels_and_lost_callers_say_nothing_about_a_route() -> None:
    crowd = Crowd(3)
    for _ in range(4):
        crowd.fail(1, 1)
        crowd.to(1)
        crowd.caller.cancel(crowd.caller.peer.requests * 2 - 1)
    assert crowd.judged() == []
    crowd.fail(1, 1)
    assert crowd.judged() == [(ROUTE_EJECTED, "01")]


@pytest.mark.parametrize("deadline_ms, is_bad", [(1000, True), (999, False), (1, False)])
def test_deadlines_that_pass_without_an_answer_are_errors_unless_they_are_very_short(
    deadline_ms: int, is_bad: bool
) -> None:
    crowd = Crowd(3)
    raw = address(hints=[(Key.text("deadline_ms"), str(deadline_ms))], service="orders")
    for _ in range(5):
        crowd.served(3, raw, frames.REQUEST_RESPONSE)
        for number in (1, 3):  # 2 is silent
            for stream_id in [each for each in crowd.services[number].peer.streams if not each & 1]:
                crowd.services[number].answer(stream_id, b"")
        crowd.world.advance(deadline_ms / 1000)
    assert crowd.judged() == ([(ROUTE_EJECTED, "02")] if is_bad else [])


@pytest.mark.parametrize(
    "kind, flags", [(frames.REQUEST_RESPONSE, frames.FOLLOWS), (frames.REQUEST_STREAM, 0), (frames.REQUEST_CHANNEL, 0)]
)
def test_a_caller_cannot_eject_a_route_by_deadlines_of_its_own_making(kind: int, flags: int) -> None:
    """D-37: it keeps the last fragment of its requests, or lets streams that need not speak run out."""
    crowd = Crowd(3)
    raw = address(hints=[(Key.text("deadline_ms"), "1000")], service="orders")
    for number in range(30):
        crowd.caller.send(
            frames.encode_request(kind, 2 * number + 1, b"x", addressed(raw), 1 if flags == 0 else 0, flags)
        )
    crowd.world.advance(1.2)
    assert len(crowd.caller.received()) == 30
    assert crowd.judged() == []


@pytest.mark.parametrize("is_suspended", [True, False])
def test_deadlines_of_a_route_that_cannot_be_reached_are_no_errors(is_suspended: bool) -> None:
    """D-37: its connection is suspended, or does not take what is written to it."""
    world = World()
    service, caller = world.service("orders", 1, token=b"token" if is_suspended else None), world.caller()
    if is_suspended:
        service.lose()
    for number in range(6):
        hint = (Key.text("deadline_ms"), "1000")
        caller.request(frames.REQUEST_RESPONSE, 2 * number + 1, address(hints=[hint], service="orders"))
    if not is_suspended:
        world.core.congested(service.peer)
    world.advance(1.2)
    assert len(caller.received()) == 6
    assert [event for event in world.events() if event.kind == ROUTE_EJECTED] == []


def test_tags_that_change_do_not_end_an_ejection_and_a_new_connection_does() -> None:
    crowd = Crowd(3)
    crowd.fail(1, 5)
    crowd.services[1].announce(1, "orders", region="eu")
    assert crowd.served(4) == [0, 2, 2]
    crowd.services[1].lose()
    crowd.services[1] = crowd.world.service("orders", 1)
    assert sum(crowd.served(6)[:1]) == 2
    assert crowd.world.core.table.loads.services["orders"].ejected_n == 0
    crowd.live(60)
    assert crowd.judged() == [(ROUTE_EJECTED, "01")]


def rename(crowd: Crowd, number: int, *names: str) -> None:
    """The route takes these service names one after another, on the same connection."""
    for name in names:
        crowd.services[number].announce(number, name)


@pytest.mark.parametrize("names", [["stock", "orders"], ["stock", "stock", "orders"], ["stock", "bills", "orders"]])
def test_another_service_name_and_back_does_not_end_an_ejection(names: list[str]) -> None:
    """D-37"""
    crowd = Crowd(3)
    crowd.fail(1, 5)
    rename(crowd, 1, *names)
    assert crowd.served(4) == [0, 2, 2]
    loads = crowd.world.core.table.loads
    assert (loads.services["orders"].ejected_n, list(loads.services)) == (1, ["orders"])
    events = [event for event in crowd.world.events() if event.kind == ROUTE_EJECTED]
    services = [event.service for event in events]
    assert services == ["orders", *dict.fromkeys(names)]
    assert events[-1].detail == "5 errors in a row; ejection 1, for 30 s; 1 of 3 routes of orders are ejected"
    crowd.live(30)
    assert crowd.judged() == [(ROUTE_RELIEVED, "01")]
    assert crowd.served(6) == [2, 2, 2]


def test_another_service_name_keeps_errors_and_earlier_ejections() -> None:
    """D-37"""
    crowd = Crowd(3)
    crowd.fail(1, 5)
    crowd.live(30)
    crowd.fail(1, 4)
    rename(crowd, 1, "stock")
    crowd.judged()
    crowd.fail(1, 1)
    details = [event.detail for event in crowd.world.events() if event.kind == ROUTE_EJECTED]
    assert details == ["5 errors in a row; ejection 2, for 60 s; 1 of 1 routes of stock are ejected"]


@pytest.mark.parametrize("after_errors, ejected", [(0, []), (3, ["stock"])])
def test_the_policy_of_the_new_service_judges_the_errors_of_the_old(after_errors: int, ejected: list[str]) -> None:
    """D-37"""
    crowd = Crowd(3, policies={"stock": Policy(eject_after_errors=after_errors)})
    crowd.fail(1, 4)
    rename(crowd, 1, "stock")
    assert [event.service for event in crowd.world.events() if event.kind == ROUTE_EJECTED] == ejected
    crowd.fail(1, 4)
    assert [event for event in crowd.world.events() if event.kind == ROUTE_EJECTED] == []


# Breakers


def limited(per_route: int, per_service: int = 0) -> Policy:
    return Policy(max_in_flight_per_route=per_route, max_in_flight_per_service=per_service)


def test_no_limit_can_be_switched_off_by_nothing_but_a_zero() -> None:
    crowd = Crowd(1, limited(0))
    assert crowd.served(3000, kind=frames.REQUEST_RESPONSE) == [3000]
    assert Policy().max_in_flight_per_route == 1024


def test_a_breaker_that_opens_is_told_once_and_closes_when_none_was_refused_for_a_second() -> None:
    crowd = Crowd(1, limited(1))
    crowd.world.advance(0.25)
    crowd.world.events()
    crowd.served(4, kind=frames.REQUEST_RESPONSE)
    crowd.world.advance(QUIET_S / 2)
    text = "of 1 routes with service=orders: 1 have as many requests in flight as they may"
    text += "; protection.max_in_flight_per_route is 1"
    (event,) = crowd.world.events()
    opened = LifecycleEvent(
        BREAKER_OPENED, event.seq, START_MS + 250, service="orders", reason="over-limit", detail=text, choices=2
    )
    assert event.row() == opened.row()
    crowd.served(1, kind=frames.REQUEST_RESPONSE)
    crowd.world.advance(QUIET_S - 0.01)
    assert crowd.world.events() == []
    crowd.world.advance(0.01)
    closed = "requests refused in 0.5 s: 4; in flight now: 1"
    told = [(event.kind, event.service, event.detail) for event in crowd.world.events()]
    assert told == [(BREAKER_CLOSED, "orders", closed)]


def test_a_waiting_policy_does_not_wait_for_a_full_route() -> None:
    world = World(CoreSettings(no_route="wait", policy=limited(1)))
    world.service("orders", 1)
    caller = world.caller()
    for stream_id in (1, 3):
        caller.request(frames.REQUEST_RESPONSE, stream_id, ORDERS)
    assert [frame.text.partition(":")[0] for frame in caller.received()] == ["over-limit"]
