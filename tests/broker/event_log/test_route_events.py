"""What events tell of routes, of connections that end, and of requests that were dropped."""

from broker.event_log.route_events import owner_text, tell_slow
from broker.events import SLOW_PEER_ENDED, LifecycleEvent
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
