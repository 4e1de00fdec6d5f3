"""What events tell of routes, of connections that end, and of requests that were dropped."""

from broker.event_log.route_events import owner_text, tell_dropped, tell_route, tell_slow
from broker.events import REQUESTS_DROPPED, ROUTE_JOINED, ROUTE_LEFT, SLOW_PEER_ENDED, LifecycleEvent
from broker.forwarding.drops import Dropped
from broker.forwarding.interbroker.remote import Remote
from broker.routing.table import Route
from rsocket_wire.wire.ids import id_text
from tests.broker.event_log.test_log import new_log
from tests.fakes import START_MS, World, route_id


def joined() -> Route:
    """A route that joined at START_MS."""
    route = World().service("orders", 1).peer.route
    assert isinstance(route, Route)
    return route


def fields(event: object) -> tuple[object, ...]:
    assert isinstance(event, LifecycleEvent)
    return event.kind, event.route_id, event.service, event.peer, event.reason, event.detail, event.uptime_ms


def test_a_route_that_left_says_how_long_it_was_there_and_one_that_joined_does_not() -> None:
    log, route = new_log(), joined()
    tell_route(log, ROUTE_JOINED, route, "a", START_MS + 2000)
    tell_route(log, ROUTE_LEFT, route, "a", START_MS + 2000, "left", "gone")
    tell_route(log, ROUTE_LEFT, route, "a", START_MS - 1, "left")  # the clock was put back
    assert [fields(event) for event in log.take()] == [
        (ROUTE_JOINED, route.id_text, "orders", "a", "", "", 0),
        (ROUTE_LEFT, route.id_text, "orders", "a", "left", "gone", 2000),
        (ROUTE_LEFT, route.id_text, "orders", "a", "left", "", 0),
    ]


def test_an_owner_is_a_connection_or_a_broker_or_nobody() -> None:
    peer = World().caller().peer
    remote = Remote(route_id(5), "b5", None)
    assert [owner_text(owner) for owner in (peer, remote, None)] == [peer.name, f"broker {id_text(route_id(5))}", ""]


def test_a_slow_connection_is_told_with_its_route_only_while_that_is_there() -> None:
    log, wire = new_log(), World().service("orders", 1)
    route = wire.peer.route
    assert isinstance(route, Route)
    tell_slow(log, wire.peer, START_MS, "slow-peer", "it reads nothing")
    wire.lose()
    tell_slow(log, wire.peer, START_MS, "slow-peer", "it reads nothing")
    ids = [fields(event)[:2] for event in log.take()]
    assert ids == [(SLOW_PEER_ENDED, route.id_text), (SLOW_PEER_ENDED, "")]


def test_dropped_requests_name_the_service_or_the_link_that_had_no_room() -> None:
    log = new_log()
    room = "3 fire-and-forgets or pushes dropped: too many bytes wait for"
    for service, peer, broker in (("orders", "", ""), ("", "tcp b2:7000", "b2")):
        dropped = Dropped(service, peer, broker)
        dropped.requests_n = 3
        tell_dropped(log, dropped, START_MS)
    assert [fields(event) for event in log.take()] == [
        (REQUESTS_DROPPED, "", "orders", "", "over-limit", f"{room} its routes", 0),
        (REQUESTS_DROPPED, "", "", "tcp b2:7000", "over-limit", f"b2: {room} the link", 0),
    ]
