"""Connections that survive a broken socket: suspended, resumed, given up, and what others see of it (D-26, D-39)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.forwarding.multicast.steps import MAX_BRANCHES_PER_TURN
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_CHANNEL, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.frames import MULTICAST
from tests.broker.resuming import ORDERS, Client, calling, closed, event_names, request, resumed, serving, setup
from tests.fakes import Frame, World, address, addressed, framed, moved, raw_frame

# Suspended


def test_a_route_stays_and_its_requests_wait_while_its_socket_is_broken() -> None:
    world, service, caller = serving()
    service.wire.lose()
    asked = caller.request(REQUEST_RESPONSE, 1, ORDERS)
    world.advance(59.9)
    caller.send(frames.encode_keepalive(b"", False))
    assert caller.received() == []
    assert service.resume() == [resumed(0), moved(asked, 2)]
    service.send(frames.encode_payload(2, NEXT | COMPLETE, b"late"))
    assert caller.one() == Frame(frames.encode_payload(1, NEXT | COMPLETE, b"late"))
    assert world.left_over() == []


def test_a_caller_gets_what_was_sent_while_its_socket_was_broken() -> None:
    world, service, caller = calling()
    caller.send(request(1, kind=REQUEST_STREAM))
    service.answer(2, b"one", NEXT)
    caller.take()
    caller.wire.lose()
    service.answer(2, b"two", NEXT)
    service.answer(2, b"three")
    assert service.received()[1:] == []
    items = [Frame(frames.encode_payload(1, NEXT, b"two")), Frame(frames.encode_payload(1, NEXT | COMPLETE, b"three"))]
    assert caller.resume() == [resumed(len(caller.sent[0])), *items]
    assert world.left_over() == []


def test_what_was_not_even_written_when_the_socket_broke_is_sent_once() -> None:
    world, service, caller = calling()
    caller.send(request(1))
    answer = frames.encode_payload(2, NEXT | COMPLETE, b"ok")
    world.core.receive(service.peer, framed(answer), world.now)
    caller.wire.lose()
    assert caller.wire.peer.pending_bytes == 0
    assert caller.resume() == [resumed(len(caller.sent[0])), moved(answer, 1)]


def test_frames_without_a_position_do_not_count() -> None:
    world = World()
    wire = Client(world, b"t").wire
    wire.send(raw_frame(frames.EXT, frames.IGNORE, bytes(4), 7))
    wire.send(
        frames.encode_keepalive(b"", False),
        frames.encode_metadata_push(addressed(ORDERS)),
        frames.encode_keepalive(b"k", True),
    )
    assert wire.one() == Frame(frames.encode_keepalive(b"k", position=0))


def test_half_a_frame_that_came_before_the_break_does_not_count() -> None:
    world = World()
    world.service("orders", 1)
    caller = Client(world, b"c")
    raw = request(1)
    caller.sent.append(raw)
    caller.wire.send_bytes(framed(raw)[:-1])
    caller.wire.lose()
    assert caller.resume() == [resumed(0)]
    assert world.core.peers()[1].begun == 1


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


def test_bytes_behind_the_resume_are_those_of_the_resumed_peer() -> None:
    world, service, caller = calling()
    caller.wire.lose()
    raw = request(1)
    caller.wire = world.connect()
    resume = frames.Resume(b"c", 0, 0).encode()
    whole = framed(resume, raw, frames.encode_keepalive(b"k", True))
    caller.wire.send_bytes(whole[:-1])
    assert service.one() == moved(raw, 2)
    assert caller.take() == [resumed(0)]
    caller.wire.send_bytes(whole[-1:])
    assert caller.take() == [Frame(frames.encode_keepalive(b"k", position=len(raw)))]
    assert caller.wire.peer.bytes_in == len(setup(b"c")) + 3 + len(whole)


def test_frames_behind_the_resume_wait_for_a_multicast_that_goes_to_very_many() -> None:
    world = World()
    for number in range(1, MAX_BRANCHES_PER_TURN + 102):
        world.service("many", number)
    service = world.service("orders", 5000)
    caller = Client(world, b"c")
    caller.wire.lose()
    pieces = [frames.Resume(b"c", 0, 0).encode()]
    pieces.append(frames.encode_request(REQUEST_STREAM, 1, b"hi", addressed(address(MULTICAST, service="many")), 8))
    pieces += [request(3 + 2 * number) for number in range(5)]
    caller.wire = world.connect()
    caller.wire.send_bytes(framed(*pieces))
    assert service.received() == [moved(raw, 2 + 2 * number) for number, raw in enumerate(pieces[2:])]


def test_frames_behind_the_resume_are_left_for_another_turn() -> None:
    """However many they are, nobody else waits for them."""
    world = World()
    world.service("orders", 1)
    caller = Client(world, b"c")
    caller.wire.lose()
    newcomer, peer = world.connect(), caller.wire.peer
    data = framed(frames.Resume(b"c", 0, 0).encode(), request(1), request(3))
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
    assert world.core.lifecycle.sessions.resumed_n == 1


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


def test_a_socket_that_takes_nothing_is_given_up_and_the_peer_suspended() -> None:
    world = World()
    client = Client(world, b"s", "orders", 1)
    plain = world.service("orders", 2)
    world.events()
    for wire in (client.wire, plain):
        world.core.lifecycle.stuck(wire.peer, "9 bytes wait", world.now)
    world.core.lifecycle.end_slow(plain.peer, "slow-peer", "again", world.now)
    assert event_names(world) == [
        ("PeerSuspended", "slow-peer"),
        ("SlowPeerEnded", "slow-peer"),
        ("RouteLeft", "slow-peer"),
        ("PeerClosed", "slow-peer"),
    ]


def test_a_resume_takes_over_a_socket_that_the_broker_still_believes_in() -> None:
    world, service, caller = serving()
    old = service.wire
    world.events()
    asked = caller.request(REQUEST_RESPONSE, 1, ORDERS)
    assert service.resume() == [resumed(0), moved(asked, 2)]
    assert old.is_lost
    assert event_names(world) == [("PeerSuspended", "left"), ("PeerResumed", "")]
    assert world.core.lifecycle.sessions.suspended_n == 0
    service.send(frames.encode_payload(2, NEXT | COMPLETE, b"ok"))
    assert caller.one().data == b"ok"


def test_what_is_said_about_a_connection_does_not_outlive_its_socket() -> None:
    """KEEPALIVE has no position; neither has EXT, which may be ignored."""
    _, service, caller = calling()
    caller.send(request(1, kind=REQUEST_STREAM))
    caller.wire.send(frames.encode_keepalive(b"", True))
    caller.wire.lose()
    service.send(raw_frame(frames.EXT, frames.IGNORE, bytes(4), 2))
    assert caller.resume() == [resumed(len(caller.sent[0]))]


def test_a_metadata_push_waits_for_a_suspended_route_and_comes_once() -> None:
    _, service, caller = serving()
    push = Frame(frames.encode_metadata_push(addressed(ORDERS)))
    caller.push(addressed(ORDERS))
    assert service.take() == [push]
    service.wire.lose()
    caller.push(addressed(ORDERS))
    assert service.resume() == [resumed(0), push]
    service.wire.lose()
    assert service.resume() == [resumed(0)]


def test_keepalives_tell_and_hear_positions() -> None:
    world, service, caller = calling()
    caller.send(request(1, kind=REQUEST_STREAM))
    service.answer(2, b"one", NEXT)
    caller.take()
    session = caller.wire.peer.session
    assert session is not None
    assert session.frames_n == 1
    caller.wire.send(frames.encode_keepalive(b"k", True, caller.position))
    assert caller.take() == [Frame(frames.encode_keepalive(b"k", position=len(caller.sent[0])))]
    assert (session.frames_n, session.retained_bytes, world.core.lifecycle.sessions.budget.used_bytes) == (0, 0, 0)


def test_the_keepalives_of_a_peer_without_a_session_say_nothing_about_positions() -> None:
    world = World()
    world.service("orders", 1)
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, ORDERS)
    caller.send(frames.encode_keepalive(b"k", True, 77))
    assert caller.one() == Frame(frames.encode_keepalive(b"k"))


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
            self.send("service", frames.encode_payload(asked[number % len(asked)], NEXT, b"%d" % len(self.log)))
        elif name == "credit" and begun:
            self.send("caller", frames.encode_request_n(1 + 2 * (number % len(begun)), 1 + number))
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


@settings(derandomize=True, deadline=None, max_examples=75)
@given(st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 5)), max_size=60))
def test_each_stream_is_as_if_nothing_had_been_cut(steps: list[tuple[str, int]]) -> None:
    """A frame is never lost and never comes twice, whichever wires break where, and how often."""
    cut, uncut = Play(), Play()
    for what, number in steps:
        cut.step(what, number)
    for who, raw in cut.log:
        uncut.send(who, raw)
    assert cut.end() == uncut.end()
