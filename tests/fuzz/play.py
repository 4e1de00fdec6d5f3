"""A play with any number of acts over one core: callers, services and vandals do what they like, and rules are watched.

`Play` is the stage: each method is one thing that a peer may do, and after each of them everything that must always
hold is checked, in the tables of the broker and in every frame that the broker wrote. `play(data)` reads the acts from
bytes: the one entry for Hypothesis, for atheris and for a file that once broke something.

What is watched of a request, at both of its ends (`Life`): nothing before it begins, nothing behind its end, each half
ends once. A peer that sends rubbish is still a peer: towards others all of this holds, whatever it does.
"""

from __future__ import annotations

from broker.core import CoreSettings
from broker.events import FlowRecord
from broker.forwarding.multicast.call import Branch, MulticastCall
from broker.forwarding.reassembly import Reassembly
from broker.forwarding.unicast import Splice
from broker.routing.policies import Policy
from broker.routing.table import Route
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, NEXT, REQUEST_CHANNEL, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, MIME_TYPE_V0, MULTICAST, SHARD, UNICAST
from rsocket_wire.wire.keys import SHARD_KEY
from tests import fakes
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import address, addressed, fragments, framed, raw_frame
from tests.fuzz.life import Life
from tests.invariants import check_masks

MAX_ACTORS = 7  # open at the same time
MIMES = (COMPOSITE_MIME, COMPOSITE_MIME, MIME_TYPE, MIME_TYPE_V0, COMPOSITE_MIME, "application/json")
DATA_MIMES = ("text/plain", "text/plain", "application/json")
SERVICES = ("orders", "orders", "stock")
REGIONS = ("eu", "us")
SETTINGS = CoreSettings(
    max_streams_per_connection=6,
    max_connections=MAX_ACTORS - 1,
    max_metadata_bytes=400,
    max_lookup_cache=3,
    multicast_prefetch_n=2,
    multicast_buffer_bytes=200,
    flow_interval_s=3.0,
    max_frame_bytes=3000,
    max_tags_per_route=5,
    resume_ttl_s=30.0,
    resume_buffer_bytes=1500,
    resume_total_bytes=2000,
)
STRICT = CoreSettings(
    max_streams_per_connection=3,
    max_metadata_bytes=150,
    multicast_on_leave="error",
    multicast_prefetch_n=3,
    multicast_buffer_bytes=60,
    strict_hints=True,
    resume_ttl_s=30.0,
    policy=Policy(chooser="random"),
)


class Actor:
    """One connection, and what its other end knows of its requests."""

    def __init__(self, stage: Play, wire: fakes.Wire) -> None:
        self.stage = stage
        self.wire = wire
        self.cursor = FrameCursor(wire.peer.is_framed, stage.world.core.settings.max_frame_bytes)
        self.mine: dict[int, Life] = {}  # requests that it began
        self.merged: set[int] = set()  # those of them that are multicast
        self.served: dict[int, Life] = {}
        self.requested: set[int] = set()
        self.is_wild = False  # it has sent rubbish: what it gets back is its own fault
        self.next_id = 1
        self.todo: list[bytes] = []  # fragments that it has not sent yet
        self.token = b""  # of its session; empty: it has none
        self.received_bytes = 0  # in frames with a position

    def send(self, raw: bytes) -> None:
        """One whole frame; nothing while its wire is broken."""
        if self.wire.is_lost:
            return
        self.send_bytes(framed(raw) if self.wire.peer.is_framed else raw)

    def send_bytes(self, data: bytes) -> None:
        """Any bytes; the frames in them are noted before the broker sees them."""
        if not self.wire.peer.is_ending:
            self.cursor.feed(data, 0.0)
            while self.cursor.advance():
                self._note_sent(self.cursor)
        self.wire.send_bytes(data)

    def _note_sent(self, frame: FrameCursor) -> None:
        stream_id, kind, flags = frame.stream_id, frame.kind, frame.flags
        n = frames.initial_n(frame.data, frame.start) if frame.end - frame.start >= 10 else 0
        if stream_id & 1:
            life = self.mine.get(stream_id)
            if REQUEST_RESPONSE <= kind <= REQUEST_CHANNEL:
                self.requested.add(stream_id)
                if life is None or life.is_over:
                    self.mine[stream_id] = Life(kind, flags, n)
            elif life is not None and not life.is_over:
                life.caller_says(kind, flags, n if kind == frames.REQUEST_N else 0)
        elif stream_id in self.served and not self.served[stream_id].is_over:
            self.served[stream_id].route_says(kind, flags)

    def note_received(self, frame: fakes.Frame) -> None:
        """Checks a frame that the broker wrote."""
        stream_id, kind, flags = frame.stream_id, frame.kind, frame.flags
        self.received_bytes += len(frame.raw) if stream_id and frames.has_position(kind) else 0
        if stream_id == 0:
            assert kind in (frames.KEEPALIVE, frames.METADATA_PUSH, frames.ERROR, frames.RESUME_OK), frame
            assert kind != frames.ERROR or frame.code < 0x201, frame
        elif stream_id & 1:
            assert stream_id in self.requested, f"{frame} for a stream that was never begun"
            assert kind != frames.ERROR or frame.code >= 0x201 or self.stage.is_anybody_wild, frame
            life = self.mine.get(stream_id)
            if self.is_wild or life is None:
                return
            assert life.route_may(kind, flags), f"{frame} behind the end, or not of this model"
            life.route_says(kind, flags)
            if stream_id in self.merged and life.kind >= REQUEST_STREAM:
                assert life.items <= life.asked_n, "more items than were asked for"
        elif REQUEST_RESPONSE <= kind <= REQUEST_CHANNEL:
            assert stream_id not in self.served, f"{frame} on a stream id that was used before"
            self.served[stream_id] = Life(kind, flags, frame.n)
        else:
            assert stream_id in self.served, f"{frame} before its request"
            assert self.served[stream_id].caller_may(kind, flags), f"{frame} behind the end, or not of this model"
            self.served[stream_id].caller_says(kind, flags, frame.n)


class Play:
    """The stage. Numbers choose among what is there, so that any numbers make a play."""

    def __init__(self, is_strict: bool = False) -> None:
        self.world = fakes.World(STRICT if is_strict else SETTINGS)
        self.actors: list[Actor] = []
        self.gone: list[Actor] = []
        self.is_anybody_wild = False
        self.counted = 0  # requests in the flow records so far
        self.flow_seqs: list[int] = []

    # Acts

    def connect(self, who: int, framed: bool, mime: int, data_mime: int, route: int) -> None:
        """A caller (`who` 0), a service, or somebody who has not said anything yet (`who` 3)."""
        if len(self.actors) >= MAX_ACTORS:
            return
        actor = Actor(self, self.world.connect(framed))
        self.actors.append(actor)
        if who == 3:
            self.look()
            return
        metadata_mime = MIMES[mime % len(MIMES)]
        metadata = self._route_setup(metadata_mime, route) if who else None
        data = DATA_MIMES[data_mime % len(DATA_MIMES)]
        if mime & 0x80:
            actor.token = b"%d" % actor.wire.peer.id
        actor.send(
            frames.Setup(
                metadata_mime, data, 20_000, 60_000, metadata, wants_resume=bool(actor.token), token=actor.token
            ).encode()
        )
        self.look()

    def request(self, who: int, kind: int, target: int, n: int, flags: int, cuts: list[int]) -> None:
        """A request, or its first fragment."""
        actor = self._actor(who)
        if actor is None or not actor.wire.peer.is_open:
            return
        stream_id = actor.next_id
        actor.next_id += 2
        raw_address, is_multicast = self._address(target)
        metadata = raw_address
        if actor.wire.mimes[0] == COMPOSITE_MIME:
            metadata = fakes.composite(("text/plain", b"m")) + addressed(raw_address, ("text/plain", b"n"))
        data = b"%d" % stream_id * (1 + n)
        model = MODELS[kind % 4]
        size = len(metadata) + len(data)
        pieces = fragments(
            model,
            stream_id,
            metadata,
            data,
            sorted({cut % size for cut in cuts}),
            n + 1,
            COMPLETE if flags & 1 and model == REQUEST_CHANNEL else 0,
            NEXT | (COMPLETE if flags & 2 and model == REQUEST_CHANNEL else 0),
        )
        if is_multicast:
            actor.merged.add(stream_id)
        actor.send(pieces[0])
        actor.todo += pieces[1:]
        self.look()

    def go_on(self, who: int) -> None:
        """The next fragment of a request."""
        actor = self._actor(who)
        if actor is not None and actor.todo:
            actor.send(actor.todo.pop(0))
            self.look()

    def call(self, who: int, which: int, what: int, n: int) -> None:
        """A caller says something on one of its streams, open or not."""
        actor = self._actor(who)
        if actor is None or not actor.mine:
            return
        stream_id = list(actor.mine)[which % len(actor.mine)]
        fragments_to_come = any(raw[:4] == stream_id.to_bytes(4, "big") for raw in actor.todo)
        choice = what % 7
        if choice == 0:
            actor.send(frames.encode_cancel(stream_id))
        elif choice == 1:
            actor.send(frames.encode_request_n(stream_id, n % 3))  # little credit, so that items wait
        elif choice == 2:
            actor.send(frames.encode_error(stream_id, 0x201, "of the caller"))
        elif choice == 3 and not fragments_to_come:
            actor.send(frames.encode_payload(stream_id, NEXT, b"item"))
        elif choice == 4 and not fragments_to_come:
            actor.send(frames.encode_payload(stream_id, COMPLETE | (NEXT if n & 1 else 0)))
        elif choice == 5 and not fragments_to_come:
            actor.send(frames.encode_payload(stream_id, NEXT | frames.FOLLOWS, b"it"))
        elif choice == 6:
            actor.send(raw_frame(frames.EXT, frames.IGNORE, bytes(4), stream_id))
        self.look()

    def serve(self, who: int, which: int, what: int, n: int) -> None:
        """A service says something on one of its streams, open or not, asked for or not."""
        actor = self._actor(who)
        if actor is None or not actor.served:
            return
        stream_id = list(actor.served)[which % len(actor.served)]
        choice = what % 16
        if choice == 0:
            actor.send(frames.encode_error(stream_id, 0x201 + n, "of the route"))
        elif choice == 1:
            actor.send(frames.encode_cancel(stream_id))
        elif choice == 2:
            actor.send(frames.encode_request_n(stream_id, n))
        elif choice == 3:
            actor.send(frames.encode_payload(stream_id, NEXT | COMPLETE, bytes(n)))
        elif choice == 4:
            actor.send(frames.encode_payload(stream_id, COMPLETE))
        elif choice == 5:
            actor.send(frames.encode_payload(stream_id, NEXT | frames.FOLLOWS, bytes(n * 10), b"m" if n & 1 else None))
        elif choice == 6:
            for _ in range(n):
                actor.send(frames.encode_payload(stream_id, NEXT, bytes(n)))
        else:
            actor.send(frames.encode_payload(stream_id, NEXT, bytes(n)))
        self.look()

    def push(self, who: int, what: int, target: int) -> None:
        """A METADATA_PUSH: to others, or about the own route."""
        actor = self._actor(who)
        if actor is None or not actor.wire.peer.is_open:
            return
        mime = actor.wire.mimes[0]
        metadata = self._route_setup(mime, target) if what % 3 == 0 else fakes.carried(mime, self._address(target)[0])
        frame = frames.encode_metadata_push(metadata)
        actor.send(frame if what & 1 else frame[:4] + b"\x30\x00" + frame[6:])
        self.look()

    def live(self, who: int, n: int) -> None:
        """A KEEPALIVE."""
        actor = self._actor(who)
        if actor is not None:
            actor.send(frames.encode_keepalive(bytes(n), respond=bool(n & 1)))
            self.look()

    def lose(self, who: int) -> None:
        """A transport breaks, or somebody whose transport broke comes back."""
        actor = self._actor(who)
        if actor is None:
            return
        if not actor.token:
            self._leave(actor)
        elif actor.wire.is_lost:
            self._come_back(actor)
        else:
            actor.wire.lose()
        self.look()

    def _come_back(self, actor: Actor) -> None:
        """On another kind of transport; whoever was too late, or for whom too much waited, is told so and leaves."""
        actor.wire = self.world.connect(not actor.wire.peer.is_framed)
        actor.cursor = FrameCursor(actor.wire.peer.is_framed, self.world.core.settings.max_frame_bytes)
        actor.wire.send(frames.Resume(actor.token, actor.received_bytes, 0).encode())

    def wait(self, seconds: int) -> None:
        """Time passes; who was silent for too long is ended."""
        self.world.advance(float(seconds))
        self.look()

    def rubbish(self, who: int, data: bytes) -> None:
        """Any bytes."""
        actor = self._vandal(who)
        if actor is not None:
            self._go_wild(actor)
            actor.send_bytes(data)
            self.look()

    def broken(self, who: int, kind: int, stream_id: int, flags: int, rest: bytes) -> None:
        """A frame with a length that is right, and anything in it."""
        actor = self._vandal(who)
        if actor is not None:
            self._go_wild(actor)
            actor.send(raw_frame(kind & 63, flags & 0x3FF, rest, stream_id & 0x7FFFFFFF))
            self.look()

    def bent(self, who: int, kind: int, target: int, at: int, value: int, size: int) -> None:
        """A good request in which one byte differs, or that is cut off, or has more behind it."""
        actor = self._vandal(who)
        if actor is None or not actor.wire.peer.is_open:
            return
        self._go_wild(actor)
        raw_address, _ = self._address(target)
        frame = bytearray(fragments(MODELS[kind % 4], actor.next_id, addressed(raw_address), b"data", [], 3)[0])
        actor.next_id += 2
        frame[at % len(frame)] = value & 0xFF
        del frame[max(6, size % (len(frame) * 2)) :]
        actor.send(bytes(frame))
        self.look()

    # What must always hold

    def look(self) -> None:
        """Takes all that the broker wrote, and looks into its tables."""
        for actor in self.actors + self.gone:
            for frame in actor.wire.received():
                actor.note_received(frame)
        for actor in self.actors[:]:
            if actor.wire.is_closed or actor.wire.peer.is_lost:
                self._leave(actor)
        self._look_into_tables()

    def finish(self, is_stopped: bool) -> None:
        """Everybody leaves: nothing may be left, and every request was counted once."""
        if is_stopped:
            self.world.core.stop("the end", self.world.now)
            self.world.pump()
            self.look()
        for actor in self.actors[:]:
            if not actor.wire.is_lost:
                self._leave(actor)
        self.look()
        self.world.advance(self.world.core.settings.resume_ttl_s)  # whoever has no wire now does not come back
        self.look()
        assert (self.world.core.lifecycle.sessions.size(), self.world.core.lifecycle.sessions.budget.used_bytes) == (
            0,
            0,
        )
        assert self.world.left_over() == []
        assert self.world.core.peers() == []
        assert self.world.core.table.size() == 0
        assert self.world.core.take_writes() == []
        self.world.advance(5.0)
        self._take_events()
        assert self.flow_seqs == list(range(1, len(self.flow_seqs) + 1)), "a gap in the events"
        requests = sum(wire.peer.requests for wire in self.world.wires.values())
        assert self.counted == requests, "every request is counted exactly once"

    def _look_into_tables(self) -> None:
        core = self.world.core
        for wire in self.world.wires.values():
            peer = wire.peer
            begun = 0
            held = 0
            for stream_id, stream in peer.streams.items():
                if stream_id & 1:
                    begun += 1
                    assert isinstance(stream, Splice | MulticastCall | Reassembly)
                    assert stream.caller is peer
                    held += stream.held_bytes if isinstance(stream, Reassembly) else 0
                else:
                    assert isinstance(stream, Splice | Branch)
                    assert stream.server is peer
                if isinstance(stream, Splice):
                    assert stream.caller.streams[stream.caller_stream_id] is stream
                    assert stream.server.streams[stream.server_stream_id] is stream
            assert peer.begun == begun <= core.settings.max_streams_per_connection
            assert peer.gathered_bytes == held <= core.settings.max_metadata_bytes
            assert peer.pending_bytes == 0
            if peer.is_ending or peer.is_lost:
                assert not peer.streams
        for route in core.table.routes():
            assert any(actor.wire.peer is route.owner and actor.wire.peer.route is route for actor in self.actors)
        assert core.query.remembered() <= core.settings.max_lookup_cache
        check_masks(core)
        self._take_events()

    def _take_events(self) -> None:
        for event in self.world.core.take_events():
            self.flow_seqs.append(event.seq)
            if isinstance(event, FlowRecord):
                self.counted += event.requests

    # Helpers

    def _actor(self, who: int) -> Actor | None:
        return self.actors[who % len(self.actors)] if self.actors else None

    def _vandal(self, who: int) -> Actor | None:
        """One of every third connection: if all broke rules, what they get in return would prove nothing."""
        vandals = [actor for actor in self.actors if actor.wire.peer.id % 3 == 0]
        return vandals[who % len(vandals)] if vandals else None

    def _go_wild(self, actor: Actor) -> None:
        actor.is_wild = True
        self.is_anybody_wild = True

    def _leave(self, actor: Actor) -> None:
        if isinstance(actor.wire.peer.route, Route):
            self.world.routes.add(actor.wire.peer.route)
        self.actors.remove(actor)
        self.gone.append(actor)
        if actor.token and not actor.wire.is_closed and not actor.wire.is_lost:
            actor.wire.send(frames.encode_error(0, 0x101, "goodbye"))  # else it would be waited for
        actor.wire.lose()
        if actor.wire.peer.is_suspended:  # what it said stood behind half a frame of rubbish
            self.world.core.end(actor.wire.peer, "closed-by-operator", "rubbish", self.world.now)

    def _route_setup(self, mime: str, route: int) -> bytes:
        region, user = REGIONS[route // 4 % 2], str(route % 3)
        return fakes.announcement(route % 4 + 1, SERVICES[route % 3], mime, region=region, user=user)

    def _address(self, target: int) -> tuple[bytes, bool]:
        """An ADDRESS, and whether it is a multicast."""
        wrapped = b"wrapped" if target & 32 else b""
        choice = target % 8
        if choice in (0, 1):
            return address(UNICAST, wrapped=wrapped, service="orders"), False
        if choice in (2, 3, 4):
            return address(MULTICAST, wrapped=wrapped, service="orders"), True
        if choice == 5:
            return address(UNICAST, wrapped=wrapped, service="orders", region=REGIONS[target // 8 % 2]), False
        if choice == 6:
            return address(SHARD, [(SHARD_KEY, "user")], wrapped, service="orders", user=str(target // 8 % 3)), False
        return address(UNICAST, service="stock", region="mars" if target & 8 else "eu"), False


class _Numbers:
    """Numbers out of bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._data)

    def one(self) -> int:
        value = 0 if self.is_empty else self._data[self._at]
        self._at += 1
        return value

    def some(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        self._at += size
        return found


def play(data: bytes) -> None:
    """The play that these bytes tell, to its end. Raises when a rule is broken; any bytes are a play."""
    numbers = _Numbers(data)
    flags = numbers.one()
    stage = Play(is_strict=bool(flags & 1))
    for route in range(flags >> 1 & 3):
        stage.connect(1, bool(flags >> 3 & 1), flags >> 4, 0, route * 3)
    stage.connect(0, bool(flags >> 5 & 1), 0, 0, 0)
    while not numbers.is_empty:
        _act(stage, numbers)
    stage.finish(bool(flags >> 6 & 1))


def _act(stage: Play, numbers: _Numbers) -> None:
    what = numbers.one()
    choice = what % 16
    who = numbers.one()
    if choice == 0:
        stage.connect(what >> 4 & 3, bool(what >> 6), numbers.one(), numbers.one(), who)
    elif choice <= 3:
        cuts = list(numbers.some(what >> 4 & 3))
        stage.request(who, numbers.one(), numbers.one(), numbers.one() % 4, what >> 6, cuts)
    elif choice == 4:
        stage.go_on(who)
    elif choice <= 6:
        stage.call(who, numbers.one(), what >> 4, numbers.one() % 8)
    elif choice <= 9:
        stage.serve(who, numbers.one(), numbers.one(), numbers.one() % 8)
    elif choice == 10:
        stage.push(who, what >> 4, numbers.one())
    elif choice == 11:
        stage.live(who, what >> 4)
    elif choice == 12:
        if what >> 6:
            stage.wait(who % 90)
        else:
            stage.lose(who)
    elif choice == 13:
        stage.rubbish(who, numbers.some(numbers.one()))
    elif choice == 14:
        stage.broken(who, what >> 4 or 63, numbers.one() % 8, numbers.one() << 2, numbers.some(numbers.one() % 64))
    else:
        stage.bent(who, what >> 4, numbers.one(), numbers.one(), numbers.one(), numbers.one())
