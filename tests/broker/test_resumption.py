"""Connections that survive a broken socket: suspended, resumed, given up, and what others see of it (D-26, D-39)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core import CoreSettings
from broker.forwarding.multicast.steps import MAX_BRANCHES_PER_TURN
from broker.routing.table import Route
from rsocket_wire.errors import (
    CANCELED,
    CONNECTION_CLOSE,
    CONNECTION_ERROR,
    INVALID_SETUP,
    REJECTED_RESUME,
    REJECTED_SETUP,
)
from rsocket_wire.rsocket.connection import MAX_TOKEN_BYTES
from rsocket_wire.rsocket.frames import (
    COMPLETE,
    EXT,
    IGNORE,
    NEXT,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    Resume,
    Setup,
    encode_cancel,
    encode_error,
    encode_keepalive,
    encode_lease,
    encode_metadata_push,
    encode_payload,
    encode_request,
    encode_request_n,
    encode_resume_ok,
    has_position,
)
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, encode_well_known_entry
from rsocket_wire.rsocket.resumption import FRAME_COST
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, RouteSetup
from tests.fakes import Frame, World, address, addressed, composite, error, moved, route_id, tags_of

ORDERS = address(service="orders")
NO_SESSION = "unknown-session: there is no session to resume, connect again with a SETUP"


def setup(token: bytes, service: str = "", number: int = 0) -> bytes:
    """A SETUP that asks for a session, with a route when it has a service."""
    metadata = None
    if service:
        metadata = composite((MIME_TYPE, RouteSetup(route_id(number), service, tags_of({})).encode()))
    return Setup(COMPOSITE_MIME, "text/plain", 20_000, 90_000, metadata, wants_resume=True, token=token).encode()


class Client:
    """A peer that resumes: what it sent and got, on whatever wire, and where it stands."""

    def __init__(
        self,
        world: World,
        token: bytes,
        service: str = "",
        number: int = 0,
        framed: bool = True,
        origin: tuple[str, str] = ("", ""),
    ) -> None:
        self.world = world
        self.token = token
        self.wire = world.connect(framed, origin=origin)
        self.wire.send(setup(token, service, number))
        self.sent: list[bytes] = []  # frames with a position, all that it ever sent
        self.arrived_n = 0  # of them, that the broker has seen
        self.got: list[Frame] = []  # all frames, without those that are about the connection
        self.position = 0

    def send(self, *frames: bytes) -> None:
        """Sends frames with a position, or keeps them for later."""
        for raw in frames:
            self.sent.append(raw)
            if not self.wire.is_lost:
                self.arrived_n += 1
                self.wire.send(raw)

    def take(self, count: int = -1) -> list[Frame]:
        """Reads so many of the frames that came, -1: all. Those that are left will be lost with the wire."""
        frames = self.wire.received()
        if count >= 0:
            self.wire.frames = frames[count:]
            frames = frames[:count]
        for frame in frames:
            if frame.stream_id and has_position(frame.kind):
                self.position += len(frame.raw)
        self.got += [frame for frame in frames if frame.stream_id]
        return frames

    def resume(self, framed: bool = True, origin: tuple[str, str] = ("", "")) -> list[Frame]:
        """Comes back on a new wire; what the broker says to that: RESUME_OK, and what was missed."""
        self.wire = self.world.connect(framed, f"tcp 127.0.0.1:{len(self.world.wires) + 1}", origin)
        self.wire.send(Resume(self.token, self.position, 0).encode())
        frames = self.take()
        if frames and frames[0].kind == 0x0E:
            at = int.from_bytes(frames[0].data, "big")
            behind = [raw for place, raw in zip(self.places(), self.sent, strict=True) if place >= at]
            self.arrived_n = len(self.sent)
            self.wire.send(*behind)
        return frames

    def places(self) -> list[int]:
        """Where each frame that it sent begins."""
        return [sum(map(len, self.sent[:at])) for at in range(len(self.sent))]


def resumed(position: int) -> Frame:
    return Frame(encode_resume_ok(position))


def request(stream_id: int, data: bytes = b"hi", kind: int = REQUEST_RESPONSE, n: int = 8) -> bytes:
    return encode_request(kind, stream_id, data, addressed(ORDERS), n)


def closed(world: World) -> list[str]:
    """Reasons of the connections that have ended."""
    return [each.reason for each in world.core.closed]


def event_names(world: World) -> list[tuple[str, str]]:
    return [(event.name, event.reason) for event in world.events()]


# Suspended


def test_a_route_stays_and_its_requests_wait_while_its_socket_is_broken() -> None:
    world = World()
    service = Client(world, b"s", "orders", 1)
    caller = world.caller()
    service.wire.lose()
    asked = caller.request(REQUEST_RESPONSE, 1, ORDERS)
    world.advance(59.9)
    caller.send(encode_keepalive(b"", False))
    assert caller.received() == []
    assert service.resume() == [resumed(0), moved(asked, 2)]
    service.send(encode_payload(2, NEXT | COMPLETE, b"late"))
    assert caller.one() == Frame(encode_payload(1, NEXT | COMPLETE, b"late"))
    assert world.left_over() == []


def test_a_caller_gets_what_was_sent_while_its_socket_was_broken() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = Client(world, b"c")
    caller.send(request(1, kind=REQUEST_STREAM))
    service.answer(2, b"one", NEXT)
    caller.take()
    caller.wire.lose()
    service.answer(2, b"two", NEXT)
    service.answer(2, b"three")
    assert service.received()[1:] == []
    items = [Frame(encode_payload(1, NEXT, b"two")), Frame(encode_payload(1, NEXT | COMPLETE, b"three"))]
    assert caller.resume() == [resumed(len(caller.sent[0])), *items]
    assert world.left_over() == []


def test_what_was_written_to_a_socket_and_never_arrived_is_sent_again() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = Client(world, b"c")
    caller.send(request(1, kind=REQUEST_STREAM))
    for item in (b"one", b"two", b"three"):
        service.answer(2, item, NEXT)
    assert [frame.data for frame in caller.take(1)] == [b"one"]
    caller.wire.lose()
    assert [frame.data for frame in caller.resume()[1:]] == [b"two", b"three"]


def test_what_was_not_even_written_when_the_socket_broke_is_sent_once() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = Client(world, b"c")
    caller.send(request(1))
    answer = encode_payload(2, NEXT | COMPLETE, b"ok")
    world.core.receive(service.peer, len(answer).to_bytes(3, "big") + answer, world.now)
    caller.wire.lose()
    assert caller.wire.peer.pending_bytes == 0
    assert caller.resume() == [resumed(len(caller.sent[0])), moved(answer, 1)]


def test_frames_without_a_position_do_not_count() -> None:
    world = World()
    wire = Client(world, b"t").wire
    wire.send((7).to_bytes(4, "big") + ((EXT << 10) | IGNORE).to_bytes(2, "big") + bytes(4))
    wire.send(encode_keepalive(b"", False), encode_metadata_push(addressed(ORDERS)), encode_keepalive(b"k", True))
    assert wire.one() == Frame(encode_keepalive(b"k", position=0))


def test_half_a_frame_that_came_before_the_break_does_not_count() -> None:
    world = World()
    world.service("orders", 1)
    caller = Client(world, b"c")
    raw = request(1)
    caller.sent.append(raw)
    caller.wire.send_bytes((len(raw).to_bytes(3, "big") + raw)[:-1])
    caller.wire.lose()
    assert caller.resume() == [resumed(0)]
    assert world.core.peers()[1].begun == 1


def test_a_route_stands_behind_the_mask_congested_while_it_is_suspended() -> None:
    """The soft one: whoever finds nobody else waits there."""
    world = World()
    client = Client(world, b"s", "orders", 1)
    route = client.wire.peer.route
    assert isinstance(route, Route)
    masks = world.core.table.masks
    assert not masks.congested.has(route.load.slot)
    client.wire.lose()
    assert masks.congested.has(route.load.slot)
    client.resume()
    assert not masks.congested.has(route.load.slot)


def test_others_are_preferred_while_a_route_is_suspended() -> None:
    world = World()
    client = Client(world, b"s", "orders", 1)
    other = world.service("orders", 2)
    caller = world.caller()
    client.wire.lose()
    for at in range(4):
        caller.request(REQUEST_RESPONSE, 1 + 2 * at, ORDERS)
    assert len(other.received()) == 4
    assert client.resume() == [resumed(0)]
    for at in range(4, 8):
        caller.request(REQUEST_RESPONSE, 1 + 2 * at, ORDERS)
    assert (len(other.received()), len(client.take())) == (2, 2)


def test_both_wires_may_be_of_different_kinds() -> None:
    world = World()
    service = Client(world, b"s", "orders", 1, framed=True)
    caller = world.caller()
    for framed in (False, True, False):
        service.wire.lose()
        asked = caller.request(REQUEST_FNF, 1, ORDERS)
        assert [frame for frame in service.resume(framed) if frame.stream_id] == [
            moved(asked, frame.stream_id) for frame in service.got[-1:]
        ]
    assert len(service.got) == 3


def test_bytes_behind_the_resume_are_those_of_the_resumed_peer() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = Client(world, b"c")
    caller.wire.lose()
    raw = request(1)
    caller.wire = world.connect()
    resume = Resume(b"c", 0, 0).encode()
    whole = b"".join(len(each).to_bytes(3, "big") + each for each in (resume, raw, encode_keepalive(b"k", True)))
    caller.wire.send_bytes(whole[:-1])
    assert service.one() == moved(raw, 2)
    assert caller.take() == [resumed(0)]
    caller.wire.send_bytes(whole[-1:])
    assert caller.take() == [Frame(encode_keepalive(b"k", position=len(raw)))]
    assert caller.wire.peer.bytes_in == len(setup(b"c")) + 3 + len(whole)


def test_frames_behind_the_resume_wait_for_a_multicast_that_goes_to_very_many() -> None:
    world = World()
    for number in range(1, MAX_BRANCHES_PER_TURN + 102):
        world.service("many", number)
    service = world.service("orders", 5000)
    caller = Client(world, b"c")
    caller.wire.lose()
    frames = [Resume(b"c", 0, 0).encode()]
    frames.append(encode_request(REQUEST_STREAM, 1, b"hi", addressed(address(MULTICAST, service="many")), 8))
    frames += [request(3 + 2 * number) for number in range(5)]
    caller.wire = world.connect()
    caller.wire.send_bytes(b"".join(len(each).to_bytes(3, "big") + each for each in frames))
    assert service.received() == [moved(raw, 2 + 2 * number) for number, raw in enumerate(frames[2:])]


def test_frames_behind_the_resume_are_left_for_another_turn() -> None:
    """However many they are, nobody else waits for them."""
    world = World()
    world.service("orders", 1)
    caller = Client(world, b"c")
    caller.wire.lose()
    newcomer, peer = world.connect(), caller.wire.peer
    data = b"".join(
        len(each).to_bytes(3, "big") + each for each in (Resume(b"c", 0, 0).encode(), request(1), request(3))
    )
    assert not world.core.receive(newcomer.peer, data, world.now, 1)
    assert [(move.peer, move.newcomer, move.has_frames) for move in world.core.take_moves()] == [
        (peer, newcomer.peer, True)
    ]
    assert [(list(peer.streams), world.core.go_on(peer, world.now, 1)) for _ in range(2)] == [([], True), ([1], False)]
    assert list(peer.streams) == [1, 3]


def test_a_resumed_peer_is_the_same_peer() -> None:
    world = World()
    client = Client(world, b"s", "orders", 1)
    peer = client.wire.peer
    client.wire.lose()
    client.resume()
    assert client.wire.peer is peer
    assert world.core.peers() == [peer]
    assert (peer.name, peer.heard_at, peer.is_suspended) == ("tcp 127.0.0.1:2", world.now, False)
    assert world.core.sessions.resumed_n == 1


def test_suspension_and_resumption_are_told() -> None:
    world = World()
    client = Client(world, b"s", "orders", 1)
    world.events()
    client.wire.lose()
    world.advance(3)
    client.resume()
    told = [
        (event.name, event.peer, event.service, event.route_id, event.reason, event.detail, event.uptime_ms)
        for event in world.events()
    ]
    route = "00000000-0000-0000-0000-000000000001"
    assert told == [
        ("PeerSuspended", "tcp 127.0.0.1:1", "orders", route, "left", "connection reset", 0),
        ("PeerResumed", "tcp 127.0.0.1:2", "orders", route, "", "0 frames are sent again", 3000),
    ]


def test_a_silent_socket_is_given_up_and_the_peer_suspended() -> None:
    world = World()
    client = Client(world, b"s", "orders", 1)
    world.events()
    first = client.wire
    world.advance(90)
    assert first.is_lost
    assert event_names(world) == [("PeerSuspended", "keepalive-timeout")]
    world.advance(59)
    assert client.resume() == [resumed(0)]
    world.advance(89)
    assert not client.wire.peer.is_suspended
    world.advance(1)
    assert client.wire.peer.is_suspended


def test_a_resumed_peer_has_to_be_heard_of_in_time_again() -> None:
    world = World(CoreSettings(resume_ttl_s=1000))
    client = Client(world, b"t")
    client.wire.lose()
    client.resume()
    world.advance(89.9)
    assert not client.wire.peer.is_suspended
    world.advance(0.1)
    assert client.wire.peer.is_suspended


def test_a_socket_that_takes_nothing_is_given_up_and_the_peer_suspended() -> None:
    world = World()
    client = Client(world, b"s", "orders", 1)
    plain = world.service("orders", 2)
    world.events()
    for wire in (client.wire, plain):
        world.core.stuck(wire.peer, "9 bytes wait", world.now)
    assert event_names(world) == [
        ("PeerSuspended", "slow-peer"),
        ("SlowPeerEnded", "slow-peer"),
        ("RouteLeft", "slow-peer"),
        ("PeerClosed", "slow-peer"),
    ]


def test_a_resume_takes_over_a_socket_that_the_broker_still_believes_in() -> None:
    world = World()
    service = Client(world, b"s", "orders", 1)
    caller = world.caller()
    old = service.wire
    world.events()
    asked = caller.request(REQUEST_RESPONSE, 1, ORDERS)
    assert service.resume() == [resumed(0), moved(asked, 2)]
    assert old.is_lost
    assert event_names(world) == [("PeerSuspended", "left"), ("PeerResumed", "")]
    assert world.core.sessions.suspended_n == 0
    service.send(encode_payload(2, NEXT | COMPLETE, b"ok"))
    assert caller.one().data == b"ok"


def test_what_is_said_about_a_connection_does_not_outlive_its_socket() -> None:
    """KEEPALIVE has no position; neither has EXT, which may be ignored."""
    world = World()
    service = world.service("orders", 1)
    caller = Client(world, b"c")
    caller.send(request(1, kind=REQUEST_STREAM))
    caller.wire.send(encode_keepalive(b"", True))
    caller.wire.lose()
    service.send((2).to_bytes(4, "big") + ((EXT << 10) | IGNORE).to_bytes(2, "big") + bytes(4))
    assert caller.resume() == [resumed(len(caller.sent[0]))]


def test_a_metadata_push_waits_for_a_suspended_route_and_comes_once() -> None:
    world = World()
    service = Client(world, b"s", "orders", 1)
    caller = world.caller()
    push = Frame(encode_metadata_push(addressed(ORDERS)))
    caller.push(addressed(ORDERS))
    assert service.take() == [push]
    service.wire.lose()
    caller.push(addressed(ORDERS))
    assert service.resume() == [resumed(0), push]
    service.wire.lose()
    assert service.resume() == [resumed(0)]


def test_keepalives_tell_and_hear_positions() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = Client(world, b"c")
    caller.send(request(1, kind=REQUEST_STREAM))
    service.answer(2, b"one", NEXT)
    caller.take()
    session = caller.wire.peer.session
    assert session is not None
    assert session.frames_n == 1
    caller.wire.send(encode_keepalive(b"k", True, caller.position))
    assert caller.take() == [Frame(encode_keepalive(b"k", position=len(caller.sent[0])))]
    assert (session.frames_n, session.retained_bytes, world.core.sessions.budget.used_bytes) == (0, 0, 0)


def test_the_keepalives_of_a_peer_without_a_session_say_nothing_about_positions() -> None:
    world = World()
    world.service("orders", 1)
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    caller.send(encode_keepalive(b"k", True, 77))
    assert caller.one() == Frame(encode_keepalive(b"k"))


# Refused


def test_a_token_in_use_is_refused_and_its_session_goes_on() -> None:
    world = World()
    first = Client(world, b"t", "orders", 1)
    second = Client(world, b"t", "stock", 2)
    text = "token-in-use: another connection has this resume token"
    assert (second.take(), second.wire.is_closed) == ([error(0, REJECTED_SETUP, text)], True)
    first.wire.lose()
    assert second.wire.peer.route is None
    assert first.resume() == [resumed(0)]
    first.wire.send(encode_error(0, CONNECTION_ERROR, "bye"))
    assert Client(world, b"t", "stock", 2).take() == []


@pytest.mark.parametrize("size", [0, MAX_TOKEN_BYTES + 1])
def test_a_token_must_be_one(size: int) -> None:
    world = World()
    text = f"bad-setup: a resume token of {size} bytes, it must have 1 to {MAX_TOKEN_BYTES}"
    assert Client(world, bytes(size)).take() == [error(0, INVALID_SETUP, text)]
    assert Client(world, bytes(MAX_TOKEN_BYTES)).take() == []


def test_an_unknown_token_is_refused() -> None:
    world = World()
    wire = world.connect()
    wire.send(Resume(b"nobody", 0, 0).encode())
    assert (wire.one(), wire.is_closed) == (error(0, REJECTED_RESUME, NO_SESSION), True)


def test_a_resume_that_cannot_be_read_ends_its_connection_only() -> None:
    """ "All ERROR frames sent MUST be CONNECTION_ERROR or REJECTED_RESUME error code."."""
    world = World()
    client = Client(world, b"t")
    wire = world.connect()
    wire.send(Resume(b"t", 0, 0).encode()[:-1])
    frame = wire.one()
    assert (frame.code, frame.text.split(":")[0], wire.is_closed) == (CONNECTION_ERROR, "bad-frame", True)
    assert client.wire.peer.is_open


def test_a_client_that_cannot_resume_loses_its_session() -> None:
    world = World()
    service = Client(world, b"s", "orders", 1)
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    service.wire.lose()
    service.position = 1
    text = "it says that 1 bytes had arrived, no frame ends there"
    assert service.resume() == [error(0, REJECTED_RESUME, f"cannot-resume: {text}")]
    assert service.wire.is_closed
    assert [frame.code for frame in caller.received()] == [CANCELED]
    assert closed(world) == ["cannot-resume", "cannot-resume"]
    service.position = 0
    assert service.resume() == [error(0, REJECTED_RESUME, NO_SESSION)]
    assert world.left_over() == []


def test_a_peer_with_a_principal_is_resumed_by_the_same_one_only() -> None:
    world = World()
    client = Client(world, b"t", origin=("10.0.0.4", "commonName=orders"))
    client.wire.lose()
    for origin in (("10.0.0.4", ""), ("10.0.0.4", "commonName=stock")):
        assert client.resume(origin=origin) == [error(0, REJECTED_RESUME, NO_SESSION)]
    assert client.resume(origin=("10.0.0.5", "commonName=orders")) == [resumed(0)]
    peer = client.wire.peer
    assert (peer.address, peer.principal) == ("10.0.0.5", "commonName=orders")


def test_what_comes_in_the_same_bytes_as_the_setup_counts() -> None:
    world = World()
    world.service("orders", 1)
    wire = world.connect()
    raw = request(1)
    wire.send_bytes(b"".join(len(each).to_bytes(3, "big") + each for each in (setup(b"t"), raw)))
    wire.send(encode_keepalive(b"", True))
    assert wire.one() == Frame(encode_keepalive(b"", position=len(raw)))


def test_leases_begin_anew() -> None:
    """ "LEASE semantics MUST be restarted upon a new connection by sending a LEASE frame from the server."."""
    world = World()
    service = world.connect()
    metadata = composite((MIME_TYPE, RouteSetup(route_id(1), "orders", []).encode()))
    service.send(Setup(COMPOSITE_MIME, "a/b", 20_000, 90_000, metadata, b"", True, True, b"t").encode())
    service.send(encode_lease(10_000, 5))
    granted = service.one()
    masks = world.core.table.masks
    route = service.peer.route
    assert isinstance(route, Route)
    assert not masks.unleased.has(route.slot)
    service.lose()
    assert masks.unleased.has(route.slot)
    again = world.connect()
    again.send(Resume(b"t", 0, 0).encode())
    assert again.received() == [resumed(0), granted]
    assert masks.unleased.has(route.slot)
    again.send(encode_lease(10_000, 1))
    assert not masks.unleased.has(route.slot)


def test_resumption_can_be_switched_off() -> None:
    """D-26"""
    world = World(CoreSettings(resume_ttl_s=0))
    text = "resume-unsupported: resumption is not offered, connect again without it"
    client = Client(world, b"t")
    assert (client.take(), client.wire.is_closed) == ([error(0, REJECTED_SETUP, text)], True)
    assert client.resume() == [error(0, REJECTED_RESUME, NO_SESSION)]


def test_the_version_of_a_resume_is_not_looked_at() -> None:
    """rsocket-js 1.0.0-alpha.3 writes 0.1."""
    world = World()
    client = Client(world, b"t")
    client.wire.lose()
    wire = world.connect()
    wire.send(Resume(b"t", 0, 0, 0, 1).encode())
    assert wire.one() == resumed(0)


# Ended


def test_nobody_comes_back_in_time() -> None:
    world = World(CoreSettings(resume_ttl_s=5))
    service = Client(world, b"s", "orders", 1)
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    service.wire.lose()
    world.events()
    world.advance(4.99)
    assert caller.received() == []
    world.advance(0.01)
    assert caller.one() == error(1, CANCELED, "route-lost: the connection of orders went away before the request ended")
    assert event_names(world) == [("RouteLeft", "resume-timeout"), ("PeerClosed", "resume-timeout")]
    assert service.resume() == [error(0, REJECTED_RESUME, NO_SESSION)]
    assert (world.core.sessions.size(), world.core.sessions.suspended_n) == (0, 0)
    assert world.core.sessions.budget.used_bytes == 0
    assert world.left_over() == []


def test_a_lost_caller_that_does_not_come_back_cancels_its_requests() -> None:
    world = World(CoreSettings(resume_ttl_s=5))
    service = world.service("orders", 1)
    caller = Client(world, b"c")
    caller.send(request(1, kind=REQUEST_STREAM))
    service.received()
    caller.wire.lose()
    world.advance(4.9)
    assert service.received() == []
    world.advance(0.1)
    assert service.one() == Frame(encode_cancel(2))
    assert world.left_over() == []


@pytest.mark.parametrize("code", [CONNECTION_ERROR, CONNECTION_CLOSE])
def test_a_peer_that_says_goodbye_is_not_waited_for(code: int) -> None:
    world = World()
    service = Client(world, b"s", "orders", 1)
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    service.wire.send(encode_error(0, code, "bye"))
    assert world.core.table.size() == 0
    assert world.core.sessions.size() == 0
    service.wire.lose()
    assert closed(world) == ["left"]
    assert [frame.code for frame in caller.received()] == [CANCELED]


def test_a_fault_ends_the_session_too() -> None:
    world = World()
    client = Client(world, b"t")
    client.wire.send_bytes(b"\0\0\1\0" + bytes(20))
    assert client.wire.is_closed
    assert client.resume() == [error(0, REJECTED_RESUME, NO_SESSION)]


def test_the_same_route_id_from_another_connection_ends_the_session() -> None:
    world = World()
    service = Client(world, b"s", "orders", 1)
    service.wire.lose()
    again = world.service("orders", 1)
    caller = world.caller()
    asked = caller.request(REQUEST_RESPONSE, 1, ORDERS)
    assert again.one() == moved(asked, 2)
    assert closed(world) == ["replaced"]
    assert service.resume() == [error(0, REJECTED_RESUME, NO_SESSION)]


def test_stop_ends_all_sessions() -> None:
    world = World()
    clients = [Client(world, bytes([at])) for at in range(3)]
    clients[0].wire.lose()
    world.core.stop("the broker stops", world.now)
    world.pump()
    assert closed(world) == ["broker-stopped"] * 3
    assert [peer.is_suspended for peer in world.core.peers()] == [False, False]
    assert (world.core.sessions.size(), world.core.sessions.suspended_n) == (0, 0)


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
    asked = encode_request(REQUEST_FNF, 1, b"x" * 100, addressed(ORDERS))
    world = World(CoreSettings(resume_buffer_bytes=3 * (len(asked) + FRAME_COST)))
    service = Client(world, b"s", "orders", 1)
    caller = world.caller()
    service.wire.lose()
    for at in range(3):
        caller.request(REQUEST_FNF, 1 + 2 * at, ORDERS, b"x" * 100)
    assert closed(world) == []
    caller.request(REQUEST_FNF, 7, ORDERS, b"x" * 100)
    assert closed(world) == ["resume-overrun"]
    assert (world.core.table.size(), world.core.sessions.budget.used_bytes) == (0, 0)
    assert service.resume() == [error(0, REJECTED_RESUME, NO_SESSION)]


def test_an_overrun_that_the_clock_causes_ends_the_session_at_that_tick() -> None:
    """A caller that is given up at a tick makes the broker send a CANCEL."""
    asked = request(1, kind=REQUEST_STREAM)
    world = World(CoreSettings(resume_buffer_bytes=len(asked) + FRAME_COST, resume_ttl_s=200))
    service = Client(world, b"s", "orders", 1)
    world.caller().send(asked)
    service.wire.lose()
    world.advance(90)
    assert closed(world) == ["keepalive-timeout", "resume-overrun"]
    assert world.left_over() == []


def test_connected_a_session_retains_no_more_than_its_limit() -> None:
    world = World(CoreSettings(resume_buffer_bytes=1000))
    service = world.service("orders", 1)
    caller = Client(world, b"c")
    caller.send(request(1, kind=REQUEST_STREAM, n=100))
    for _ in range(100):
        service.answer(2, b"item", NEXT)
    session = caller.wire.peer.session
    assert session is not None
    cost = len(encode_payload(1, NEXT, b"item")) + FRAME_COST
    assert (session.retained_bytes, session.frames_n) == (1000 // cost * cost, 1000 // cost)
    caller.take(100 - 1000 // cost)
    caller.wire.lose()
    assert len(caller.resume()) == 1 + 1000 // cost
    assert len(caller.got) == 100


def test_all_sessions_together_retain_no_more_than_their_limit() -> None:
    asked = encode_request(REQUEST_FNF, 1, b"x" * 100, addressed(ORDERS))
    cost = len(asked) + FRAME_COST
    world = World(CoreSettings(resume_total_bytes=3 * cost))
    services = [Client(world, bytes([at]), "orders", at) for at in (1, 2)]
    caller = world.caller()
    for service in services:
        service.wire.lose()
    for at in range(3):
        caller.request(REQUEST_FNF, 1 + 2 * at, ORDERS, b"x" * 100)
    assert (closed(world), world.core.sessions.budget.used_bytes) == ([], 3 * cost)
    caller.request(REQUEST_FNF, 7, ORDERS, b"x" * 100)
    assert closed(world) == ["resume-overrun"]
    assert world.core.sessions.budget.used_bytes <= 3 * cost


def test_connected_clients_that_acknowledge_nothing_end_no_suspended_session() -> None:
    world = World(CoreSettings(resume_buffer_bytes=10_000, resume_total_bytes=15_000))
    service = world.service("fill", 9)
    for at in range(2):
        hog = Client(world, b"hog %d" % at)
        hog.send(encode_request(REQUEST_STREAM, 1, b"hi", addressed(address(service="fill")), 1000))
    for stream_id in (2, 4):
        for _ in range(80):
            service.answer(stream_id, b"z" * 100, NEXT)
    assert world.core.sessions.budget.used_bytes > 14_000
    suspended = Client(world, b"s", "orders", 1)
    suspended.wire.lose()
    caller = world.caller()
    for at in range(20):
        caller.request(REQUEST_FNF, 1 + 2 * at, ORDERS, b"x" * 100)
    assert (closed(world), caller.received()) == ([], [])
    assert world.core.sessions.budget.used_bytes <= 15_000
    assert len(suspended.resume()) == 1 + 20


def test_a_suspended_peer_keeps_its_place_among_the_connections() -> None:
    world = World(CoreSettings(max_connections=2))
    clients = [Client(world, bytes([at]), "orders", at) for at in (1, 2)]
    clients[0].wire.lose()
    stranger = world.connect()  # it could be the one that comes back
    assert not stranger.is_closed
    full = world.connect()  # here the sockets end
    text = "over-limit: 3 connections are open, limits.max_connections is 2"
    assert (full.one(), full.is_closed) == (error(0, REJECTED_SETUP, text), True)
    full.lose()
    stranger.send(Setup(COMPOSITE_MIME, "a/b", 20_000, 90_000).encode())
    text = "over-limit: 2 connections are open, limits.max_connections is 2"
    assert (stranger.one(), stranger.is_closed) == (error(0, REJECTED_SETUP, text), True)
    stranger.lose()
    assert clients[0].resume() == [resumed(0)]
    assert world.connect().is_closed


def test_a_suspended_peer_keeps_its_pair_of_mime_types() -> None:
    world = World()
    mimes = world.core.engine.mimes
    client = Client(world, b"token", "orders", 1)
    caller = world.caller(data_mime="application/xml")
    client.wire.lose()
    world.caller(data_mime="a/b").lose()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    frames = client.resume()
    assert frames[-1].metadata == addressed(ORDERS) + encode_well_known_entry(0x7A, b"\x8a")
    client.wire.lose()
    before_n = len(mimes)
    world.advance(world.core.settings.resume_ttl_s + 1)
    assert len(mimes) == before_n - 1


@pytest.mark.parametrize("origin", [("10.0.0.4", ""), ("", "uid 7")])
def test_suspended_peers_keep_their_places_among_those_of_their_origin(origin: tuple[str, str]) -> None:
    world = World(CoreSettings(max_connections_per_address=2, max_connections_per_principal=2))
    who, option = ("this address", "address") if origin[0] else ("uid 7", "principal")
    clients = [Client(world, bytes([at]), origin=origin) for at in (1, 2)]
    for client in clients:
        client.wire.lose()
    strangers = [world.connect(origin=origin) for _ in range(2)]  # they could be the ones that come back
    assert [wire.is_closed for wire in strangers] == [False, False]
    text = f"over-limit: 4 connections of {who} are open, limits.max_connections_per_{option} is 2"
    assert world.connect(origin=origin).one() == error(0, REJECTED_SETUP, text)
    strangers[0].send(Setup(COMPOSITE_MIME, "a/b", 20_000, 90_000).encode())
    assert strangers[0].received()[0].code == REJECTED_SETUP
    for wire in world.wires.values():
        wire.lose()
    for client in clients:
        assert client.resume(origin=origin) == [resumed(0)]
        client.wire.lose()
    world.advance(60)
    assert (closed(world).count("resume-timeout"), world.core.peers()) == (2, [])
    again = [world.connect(origin=origin) for _ in range(3)]
    assert [wire.is_closed for wire in again] == [False, False, True]


# Any cut


WHAT = (
    *("ask", "answer", "answer", "credit", "read caller", "read service"),
    *("cut caller", "cut service", "heal caller", "heal service"),
)


class Play:
    """A caller and a service that both resume; `log` has what was sent, and by whom, in the order of sending."""

    def __init__(self) -> None:
        self.world = World()
        self.caller = Client(self.world, b"c")
        self.service = Client(self.world, b"s", "orders", 1)
        self.log: list[tuple[str, bytes]] = []

    def send(self, who: str, raw: bytes) -> None:
        self.log.append((who, raw))
        self.client(who).send(raw)

    def client(self, who: str) -> Client:
        return self.service if who == "service" else self.caller

    def step(self, what: str, number: int) -> None:
        """Any step; one that makes no sense now is none."""
        name, _, who = what.partition(" ")
        client = self.client(who)
        asked = [frame.stream_id for frame in self.service.got if REQUEST_STREAM <= frame.kind <= REQUEST_CHANNEL]
        begun = [raw for raw in self.caller.sent if raw[4] >> 2 in (REQUEST_STREAM, REQUEST_CHANNEL)]
        if name == "ask":
            kind = (REQUEST_STREAM, REQUEST_CHANNEL)[number % 2]
            self.send("caller", request(1 + 2 * len(begun), b"%d" % len(begun), kind, 100))
        elif name == "answer" and asked:
            self.send("service", encode_payload(asked[number % len(asked)], NEXT, b"%d" % len(self.log)))
        elif name == "credit" and begun:
            self.send("caller", encode_request_n(1 + 2 * (number % len(begun)), 1 + number))
        elif name == "read":
            client.take(number)
        elif name == "cut":
            client.take(number)
            client.wire.lose()
        elif name == "heal" and client.wire.is_lost:
            client.resume(framed=number % 2 == 0)

    def end(self) -> list[dict[int, list[Frame]]]:
        """All come back and read all; what both got, by stream."""
        for client in (self.service, self.caller):
            if client.wire.is_lost:
                client.resume()
        found: list[dict[int, list[Frame]]] = []
        for client in (self.service, self.caller):
            client.take()
            streams: dict[int, list[Frame]] = {}
            for frame in client.got:
                streams.setdefault(frame.stream_id, []).append(frame)
            found.append(streams)
        assert closed(self.world) == []
        return found


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 5)), max_size=60))
def test_each_stream_is_as_if_nothing_had_been_cut(steps: list[tuple[str, int]]) -> None:
    """A frame is never lost and never comes twice, whichever wires break where, and how often."""
    cut, uncut = Play(), Play()
    for what, number in steps:
        cut.step(what, number)
    for who, raw in cut.log:
        uncut.send(who, raw)
    assert cut.end() == uncut.end()


@pytest.mark.parametrize("count", range(12))
def test_a_stream_goes_on_wherever_it_was_cut(count: int) -> None:
    world = World()
    service = world.service("orders", 1)
    caller = Client(world, b"c")
    caller.send(request(1, kind=REQUEST_STREAM, n=20))
    for at in range(11):
        service.answer(2, b"%d" % at, NEXT | COMPLETE * (at == 10))
    caller.take(count)
    caller.wire.lose()
    caller.resume()
    assert [frame.data for frame in caller.got] == [b"%d" % at for at in range(11)]
    assert world.left_over() == []
