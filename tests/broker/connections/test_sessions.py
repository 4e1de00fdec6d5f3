"""Sessions that are refused, ended and bounded (D-39)."""

import pytest

from broker.core import CoreSettings
from broker.routing.table import Route
from rsocket_wire import errors
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.connection import MAX_TOKEN_BYTES
from rsocket_wire.rsocket.metadata import encode_well_known_entry
from rsocket_wire.rsocket.resumption import FRAME_COST
from tests.broker.resuming import NO_SESSION, ORDERS, Client, calling, closed, event_names, request, resumed, serving
from tests.fakes import Frame, World, address, addressed, error, framed, moved, setup

# Refused


def test_a_token_in_use_is_refused_and_its_session_goes_on() -> None:
    world = World()
    first = Client(world, b"t", "orders", 1)
    second = Client(world, b"t", "stock", 2)
    text = "token-in-use: another connection has this resume token"
    assert (second.take(), second.wire.is_closed) == ([error(0, errors.REJECTED_SETUP, text)], True)
    first.wire.lose()
    assert second.wire.peer.route is None
    assert first.resume() == [resumed(0)]
    first.wire.send(frames.encode_error(0, errors.CONNECTION_ERROR, "bye"))
    assert Client(world, b"t", "stock", 2).take() == []


@pytest.mark.parametrize("size", [0, MAX_TOKEN_BYTES + 1])
def test_a_token_must_be_one(size: int) -> None:
    world = World()
    text = f"bad-setup: a resume token of {size} bytes, it must have 1 to {MAX_TOKEN_BYTES}"
    assert Client(world, bytes(size)).take() == [error(0, errors.INVALID_SETUP, text)]
    assert Client(world, bytes(MAX_TOKEN_BYTES)).take() == []


def test_an_unknown_token_is_refused() -> None:
    world = World()
    wire = world.connect()
    wire.send(frames.Resume(b"nobody", 0, 0).encode())
    assert (wire.one(), wire.is_closed) == (error(0, errors.REJECTED_RESUME, NO_SESSION), True)


def test_a_resume_that_cannot_be_read_ends_its_connection_only() -> None:
    """ "All ERROR frames sent MUST be CONNECTION_ERROR or REJECTED_RESUME error code."."""
    world = World()
    client = Client(world, b"t")
    wire = world.connect()
    wire.send(frames.Resume(b"t", 0, 0).encode()[:-1])
    frame = wire.one()
    assert (frame.code, frame.text.split(":")[0], wire.is_closed) == (errors.CONNECTION_ERROR, "bad-frame", True)
    assert client.wire.peer.is_open


def test_a_client_that_cannot_resume_loses_its_session() -> None:
    world, service, caller = serving()
    caller.request(frames.REQUEST_RESPONSE, 1, ORDERS)
    service.wire.lose()
    service.position = 1
    text = "it says that 1 bytes had arrived, no frame ends there"
    assert service.resume() == [error(0, errors.REJECTED_RESUME, f"cannot-resume: {text}")]
    assert service.wire.is_closed
    assert [frame.code for frame in caller.received()] == [errors.CANCELED]
    assert closed(world) == ["cannot-resume", "cannot-resume"]
    service.position = 0
    assert service.resume() == [error(0, errors.REJECTED_RESUME, NO_SESSION)]
    assert world.left_over() == []


def test_a_peer_with_a_principal_is_resumed_by_the_same_one_only() -> None:
    world = World()
    client = Client(world, b"t", origin=("10.0.0.4", "commonName=orders"))
    client.wire.lose()
    for origin in (("10.0.0.4", ""), ("10.0.0.4", "commonName=stock")):
        assert client.resume(origin=origin) == [error(0, errors.REJECTED_RESUME, NO_SESSION)]
    assert client.resume(origin=("10.0.0.5", "commonName=orders")) == [resumed(0)]
    peer = client.wire.peer
    assert (peer.address, peer.principal) == ("10.0.0.5", "commonName=orders")


def test_what_comes_in_the_same_bytes_as_the_setup_counts() -> None:
    world = World()
    world.service("orders", 1)
    wire = world.connect()
    raw = request(1)
    wire.send_bytes(framed(setup(token=b"t"), raw))
    wire.send(frames.encode_keepalive(b"", True))
    assert wire.one() == Frame(frames.encode_keepalive(b"", position=len(raw)))


def test_leases_begin_anew() -> None:
    """ "LEASE semantics MUST be restarted upon a new connection by sending a LEASE frame from the server."."""
    world = World()
    service = world.service("orders", 1, wants_lease=True, token=b"t")
    service.send(frames.encode_lease(10_000, 5))
    granted = service.one()
    masks = world.core.table.masks
    route = service.peer.route
    assert isinstance(route, Route)
    assert not masks.unleased.has(route.slot)
    service.lose()
    assert masks.unleased.has(route.slot)
    again = world.connect()
    again.send(frames.Resume(b"t", 0, 0).encode())
    assert again.received() == [resumed(0), granted]
    assert masks.unleased.has(route.slot)
    again.send(frames.encode_lease(10_000, 1))
    assert not masks.unleased.has(route.slot)


def test_resumption_can_be_switched_off() -> None:
    """D-26"""
    world = World(CoreSettings(resume_ttl_s=0))
    text = "resume-unsupported: resumption is not offered, connect again without it"
    client = Client(world, b"t")
    assert (client.take(), client.wire.is_closed) == ([error(0, errors.REJECTED_SETUP, text)], True)
    assert client.resume() == [error(0, errors.REJECTED_RESUME, NO_SESSION)]


def test_the_version_of_a_resume_is_not_looked_at() -> None:
    """rsocket-js 1.0.0-alpha.3 writes 0.1."""
    world = World()
    client = Client(world, b"t")
    client.wire.lose()
    wire = world.connect()
    wire.send(frames.Resume(b"t", 0, 0, 0, 1).encode())
    assert wire.one() == resumed(0)


# Ended


def test_nobody_comes_back_in_time() -> None:
    world, service, caller = serving(CoreSettings(resume_ttl_s=5))
    caller.request(frames.REQUEST_RESPONSE, 1, ORDERS)
    service.wire.lose()
    world.events()
    world.advance(4.99)
    assert caller.received() == []
    world.advance(0.01)
    assert caller.one() == error(
        1, errors.CANCELED, "route-lost: the connection of orders went away before the request ended"
    )
    assert event_names(world) == [("RouteLeft", "resume-timeout"), ("PeerClosed", "resume-timeout")]
    assert service.resume() == [error(0, errors.REJECTED_RESUME, NO_SESSION)]
    assert (world.core.lifecycle.sessions.size(), world.core.lifecycle.sessions.suspended_n) == (0, 0)
    assert world.core.lifecycle.sessions.budget.used_bytes == 0
    assert world.left_over() == []


def test_a_lost_caller_that_does_not_come_back_cancels_its_requests() -> None:
    world, service, caller = calling(CoreSettings(resume_ttl_s=5))
    caller.send(request(1, kind=frames.REQUEST_STREAM))
    service.received()
    caller.wire.lose()
    world.advance(4.9)
    assert service.received() == []
    world.advance(0.1)
    assert service.one() == Frame(frames.encode_cancel(2))
    assert world.left_over() == []


@pytest.mark.parametrize("code", [errors.CONNECTION_ERROR, errors.CONNECTION_CLOSE])
def test_a_peer_that_says_goodbye_is_not_waited_for(code: int) -> None:
    world, service, caller = serving()
    caller.request(frames.REQUEST_RESPONSE, 1, ORDERS)
    service.wire.send(frames.encode_error(0, code, "bye"))
    assert world.core.table.size() == 0
    assert world.core.lifecycle.sessions.size() == 0
    service.wire.lose()
    assert closed(world) == ["left"]
    assert [frame.code for frame in caller.received()] == [errors.CANCELED]


def test_a_fault_ends_the_session_too() -> None:
    world = World()
    client = Client(world, b"t")
    client.wire.send_bytes(b"\0\0\1\0" + bytes(20))
    assert client.wire.is_closed
    assert client.resume() == [error(0, errors.REJECTED_RESUME, NO_SESSION)]


def test_the_same_route_id_from_another_connection_ends_the_session() -> None:
    world = World()
    service = Client(world, b"s", "orders", 1)
    service.wire.lose()
    again = world.service("orders", 1)
    caller = world.caller()
    asked = caller.request(frames.REQUEST_RESPONSE, 1, ORDERS)
    assert again.one() == moved(asked, 2)
    assert closed(world) == ["replaced"]
    assert service.resume() == [error(0, errors.REJECTED_RESUME, NO_SESSION)]


def test_stop_ends_all_sessions() -> None:
    world = World()
    clients = [Client(world, bytes([at])) for at in range(3)]
    clients[0].wire.lose()
    world.core.stop("the broker stops", world.now)
    world.pump()
    assert closed(world) == ["broker-stopped"] * 3
    assert [peer.is_suspended for peer in world.core.peers()] == [False, False]
    assert (world.core.lifecycle.sessions.size(), world.core.lifecycle.sessions.suspended_n) == (0, 0)


def test_a_session_that_ended_leaves_no_deadline_behind_that_ends_another() -> None:
    world = World(CoreSettings(resume_ttl_s=5))
    client = Client(world, b"t", "orders", 1)
    client.wire.lose()
    world.advance(3)
    client.resume()
    world.advance(3)
    assert closed(world) == []
    client.wire.lose()
    world.advance(4.9)
    assert client.resume() == [resumed(0)]


# Bounds


def test_as_much_as_the_limit_waits_for_a_suspended_peer_and_one_frame_more_ends_it() -> None:
    asked = frames.encode_request(frames.REQUEST_FNF, 1, b"x" * 100, addressed(ORDERS))
    world, service, caller = serving(CoreSettings(resume_buffer_bytes=3 * (len(asked) + FRAME_COST)))
    service.wire.lose()
    for at in range(3):
        caller.request(frames.REQUEST_FNF, 1 + 2 * at, ORDERS, b"x" * 100)
    assert closed(world) == []
    caller.request(frames.REQUEST_FNF, 7, ORDERS, b"x" * 100)
    assert closed(world) == ["resume-overrun"]
    assert (world.core.table.size(), world.core.lifecycle.sessions.budget.used_bytes) == (0, 0)
    assert service.resume() == [error(0, errors.REJECTED_RESUME, NO_SESSION)]


def test_an_overrun_that_the_clock_causes_ends_the_session_at_that_tick() -> None:
    """A caller that is given up at a tick makes the broker send a CANCEL."""
    asked = request(1, kind=frames.REQUEST_STREAM)
    world = World(CoreSettings(resume_buffer_bytes=len(asked) + FRAME_COST, resume_ttl_s=200))
    service = Client(world, b"s", "orders", 1)
    world.caller().send(asked)
    service.wire.lose()
    world.advance(90)
    assert closed(world) == ["keepalive-timeout", "resume-overrun"]
    assert world.left_over() == []


def test_connected_a_session_retains_no_more_than_its_limit() -> None:
    _, service, caller = calling(CoreSettings(resume_buffer_bytes=1000))
    caller.send(request(1, kind=frames.REQUEST_STREAM, n=100))
    for _ in range(100):
        service.answer(2, b"item", frames.NEXT)
    session = caller.wire.peer.session
    assert session is not None
    cost = len(frames.encode_payload(1, frames.NEXT, b"item")) + FRAME_COST
    assert (session.retained_bytes, session.frames_n) == (1000 // cost * cost, 1000 // cost)
    caller.take(100 - 1000 // cost)
    caller.wire.lose()
    assert len(caller.resume()) == 1 + 1000 // cost
    assert len(caller.got) == 100


def test_all_sessions_together_retain_no_more_than_their_limit() -> None:
    asked = frames.encode_request(frames.REQUEST_FNF, 1, b"x" * 100, addressed(ORDERS))
    cost = len(asked) + FRAME_COST
    world = World(CoreSettings(resume_total_bytes=3 * cost))
    services = [Client(world, bytes([at]), "orders", at) for at in (1, 2)]
    caller = world.caller()
    for service in services:
        service.wire.lose()
    for at in range(3):
        caller.request(frames.REQUEST_FNF, 1 + 2 * at, ORDERS, b"x" * 100)
    assert (closed(world), world.core.lifecycle.sessions.budget.used_bytes) == ([], 3 * cost)
    caller.request(frames.REQUEST_FNF, 7, ORDERS, b"x" * 100)
    assert closed(world) == ["resume-overrun"]
    assert world.core.lifecycle.sessions.budget.used_bytes <= 3 * cost


def test_connected_clients_that_acknowledge_nothing_end_no_suspended_session() -> None:
    world = World(CoreSettings(resume_buffer_bytes=10_000, resume_total_bytes=15_000))
    service = world.service("fill", 9)
    for at in range(2):
        hog = Client(world, b"hog %d" % at)
        hog.send(frames.encode_request(frames.REQUEST_STREAM, 1, b"hi", addressed(address(service="fill")), 1000))
    for stream_id in (2, 4):
        for _ in range(80):
            service.answer(stream_id, b"z" * 100, frames.NEXT)
    assert world.core.lifecycle.sessions.budget.used_bytes > 14_000
    suspended = Client(world, b"s", "orders", 1)
    suspended.wire.lose()
    caller = world.caller()
    for at in range(20):
        caller.request(frames.REQUEST_FNF, 1 + 2 * at, ORDERS, b"x" * 100)
    assert (closed(world), caller.received()) == ([], [])
    assert world.core.lifecycle.sessions.budget.used_bytes <= 15_000
    assert len(suspended.resume()) == 1 + 20


def test_a_suspended_peer_keeps_its_pair_of_mime_types() -> None:
    world = World()
    mimes = world.core.engine.mimes
    client = Client(world, b"token", "orders", 1)
    caller = world.caller(data_mime="application/xml")
    client.wire.lose()
    world.caller(data_mime="a/b").lose()
    caller.request(frames.REQUEST_RESPONSE, 1, ORDERS)
    got = client.resume()
    assert got[-1].metadata == addressed(ORDERS) + encode_well_known_entry(0x7A, b"\x8a")
    client.wire.lose()
    before_n = len(mimes)
    world.advance(world.core.settings.resume_ttl_s + 1)
    assert len(mimes) == before_n - 1


@pytest.mark.parametrize(
    ("origin", "option", "who"),
    [
        (("", ""), "max_connections", ""),
        (("10.0.0.4", ""), "max_connections_per_address", " of this address"),
        (("", "uid 7"), "max_connections_per_principal", " of uid 7"),
    ],
)
def test_suspended_peers_keep_their_places_among_all_connections_and_those_of_their_origin(
    origin: tuple[str, str], option: str, who: str
) -> None:
    world = World(CoreSettings(**{option: 2}))  # type: ignore[arg-type]
    clients = [Client(world, bytes([at]), origin=origin) for at in (1, 2)]
    for client in clients:
        client.wire.lose()
    strangers = [world.connect(origin=origin) for _ in range(2)]  # they could be the ones that come back
    assert [wire.is_closed for wire in strangers] == [False, False]
    text = f"over-limit: 4 connections{who} are open, limits.{option} is 2"
    surplus = world.connect(origin=origin)  # here the sockets end
    assert (surplus.one(), surplus.is_closed) == (error(0, errors.REJECTED_SETUP, text), True)
    surplus.lose()
    strangers[0].send(setup())
    text = f"over-limit: 3 connections{who} are open, limits.{option} is 2"
    assert (strangers[0].one(), strangers[0].is_closed) == (error(0, errors.REJECTED_SETUP, text), True)
    for wire in world.wires.values():
        wire.lose()
    for client in clients:
        assert client.resume(origin=origin) == [resumed(0)]
        client.wire.lose()
    world.advance(60)
    assert (closed(world).count("resume-timeout"), world.core.peers()) == (2, [])
    again = [world.connect(origin=origin) for _ in range(3)]
    assert [wire.is_closed for wire in again] == [False, False, True]
