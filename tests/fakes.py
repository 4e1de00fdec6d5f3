"""A fake wire: peers that speak RSocket frames to a core, on a clock that only the test moves."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from broker.access.identities import Proof
from broker.cluster.settings import ClusterSettings
from broker.core import Core, CoreSettings
from broker.edge.origins import is_loopback
from broker.events import FlowRecord, LifecycleEvent
from broker.forwarding.outbound import Piece
from broker.forwarding.peer import Peer
from broker.routing.rng import Rng
from broker.routing.table import Route
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, encode_entry
from rsocket_wire.wire.frames import MIME_TYPE, UNICAST, Address, RouteSetup
from rsocket_wire.wire.keys import Key
from rsocket_wire.wire.tags import Tag

START_MS = 1_700_000_000_000


def route_id(number: int) -> bytes:
    """A Route Id that a test can name."""
    return number.to_bytes(16, "big")


def tags_of(tags: dict[str, str | None]) -> list[Tag]:
    """Tags by name; short names mean well-known keys."""
    return [Tag.of(key, value) for key, value in tags.items()]


def address(
    flags: int = UNICAST, hints: list[tuple[Key, str]] | None = None, wrapped: bytes = b"", **tags: str | None
) -> bytes:
    """The bytes of an ADDRESS."""
    metadata = [Tag.of(key, value) for key, value in hints or []]
    return Address(route_id(0xCA11), tags_of(tags), metadata, wrapped, flags).encode()


def composite(*entries: tuple[str, bytes]) -> bytes:
    """Composite metadata of entries with these mime types."""
    return b"".join(encode_entry(mime.encode(), content) for mime, content in entries)


def addressed(raw: bytes, *entries: tuple[str, bytes]) -> bytes:
    """Composite metadata with an ADDRESS first."""
    return composite((MIME_TYPE, raw), *entries)


def carried(metadata_mime: str, raw: bytes) -> bytes:
    """The metadata of a connection of this mime type that carries a broker frame."""
    return composite((MIME_TYPE, raw)) if metadata_mime == COMPOSITE_MIME else raw


def announcement(number: int, service: str, metadata_mime: str = COMPOSITE_MIME, **tags: str | None) -> bytes:
    """Metadata that announces a route."""
    return carried(metadata_mime, RouteSetup(route_id(number), service, tags_of(tags)).encode())


def setup(
    metadata: bytes | None = None,
    metadata_mime: str = COMPOSITE_MIME,
    data_mime: str = "text/plain",
    wants_lease: bool = False,
    token: bytes | None = None,
) -> bytes:
    """A SETUP; with a token it asks for a session."""
    times_ms, wants_resume = (20_000, 90_000), token is not None
    return frames.Setup(
        metadata_mime, data_mime, *times_ms, metadata, b"", wants_lease, wants_resume, token or b""
    ).encode()


def framed(*raws: bytes) -> bytes:
    """Frames as a stream of bytes carries them: each behind its length."""
    return b"".join(len(raw).to_bytes(3, "big") + raw for raw in raws)


def fragments(
    kind: int,
    stream_id: int,
    metadata: bytes,
    data: bytes,
    cuts: list[int],
    n: int = 8,
    flags: int = 0,
    last_flags: int = NEXT,
) -> list[bytes]:
    """A request cut into frames: `cuts` are ascending places in metadata + data; flags of the first and last frame.

    A frame behind the first has the M flag while it carries metadata: what rsocket-java and rsocket-js write.
    """
    bounds = [0, *cuts, len(metadata) + len(data)]
    border = len(metadata)
    pieces: list[bytes] = []
    for number, (begin, end) in enumerate(pairwise(bounds)):
        part = metadata[begin:end] if begin < border or not number else None
        rest = data[max(begin, border) - border : max(end, border) - border]
        is_last = number == len(cuts)
        follows = 0 if is_last else FOLLOWS
        if number == 0:
            pieces.append(frames.encode_request(kind, stream_id, rest, part, n, flags | follows))
        else:
            pieces.append(frames.encode_payload(stream_id, (last_flags if is_last else NEXT) | follows, rest, part))
    return pieces


def moved(raw: bytes, stream_id: int) -> Frame:
    """A frame as the other side must see it: the four bytes of the stream id differ, and nothing else."""
    return Frame(stream_id.to_bytes(4, "big") + raw[4:])


def error(stream_id: int, code: int, text: str) -> Frame:
    """An ERROR of the broker's own."""
    return Frame(frames.encode_error(stream_id, code, text))


def cancelled(stream_id: int) -> Frame:
    """A CANCEL."""
    return Frame(frames.encode_cancel(stream_id))


def completed(stream_id: int) -> Frame:
    """A PAYLOAD that only completes."""
    return Frame(frames.encode_payload(stream_id, COMPLETE))


def asked(stream_id: int, n: int) -> Frame:
    """A REQUEST_N."""
    return Frame(frames.encode_request_n(stream_id, n))


def raw_frame(kind: int, flags: int = 0, rest: bytes = b"", stream_id: int = 0) -> bytes:
    return stream_id.to_bytes(4, "big") + ((kind << 10) | flags).to_bytes(2, "big") + rest


class Frame:
    """A frame that the broker wrote, taken apart for assertions; equal when all of it is equal."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.stream_id = int.from_bytes(raw[:4], "big")
        self.kind = raw[4] >> 2
        self.flags = ((raw[4] & 3) << 8) | raw[5]
        self.n = 0
        self.code = 0
        self.metadata: bytes | None = None
        self.data = raw[6:]
        if self.kind == frames.ERROR:
            self.code = int.from_bytes(raw[6:10], "big")
            self.data = raw[10:]
        elif REQUEST_RESPONSE <= self.kind <= REQUEST_CHANNEL or self.kind == 0x0A:
            at, to = frames.request_parts(raw, 0, len(raw), self.kind, self.flags)
            self.metadata = raw[at:to] if self.flags & frames.METADATA else None
            self.data = raw[to:]
        if self.kind in (REQUEST_STREAM, REQUEST_CHANNEL, frames.REQUEST_N):
            self.n = int.from_bytes(raw[6:10], "big")

    @property
    def name(self) -> str:
        return frames.KIND_NAMES[self.kind]

    @property
    def text(self) -> str:
        return self.data.decode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        more = f" n={self.n}" if self.n else f" code=0x{self.code:x}" if self.code else ""
        return f"<{self.name} {self.stream_id} flags=0x{self.flags:03x}{more} {self.data!r}>"


class World:
    """One broker, a clock, and any number of wires."""

    def __init__(
        self,
        settings: CoreSettings | None = None,
        seed: int = 1,
        number: int = 1,
        cluster: ClusterSettings | None = None,
        now: float = 100.0,
        skew_s: float = 0.0,
    ) -> None:
        """`skew_s`: how much its wall clock is ahead of the right time."""
        self.now = now
        self.skew_s = skew_s
        broker_id = route_id(0xB0 + number)
        entropy = broker_id * 2
        self.core = Core(settings or CoreSettings(), broker_id, Rng(seed), now, self.at_ms, cluster, entropy)
        self.wires: dict[int, Wire] = {}
        self.routes: set[Route] = set()  # all that ever were

    @property
    def at_ms(self) -> int:
        return START_MS + int((self.now - 100.0 + self.skew_s) * 1000)

    def connect(
        self,
        framed: bool = True,
        name: str = "tcp 127.0.0.1:1",
        origin: tuple[Any, ...] = ("", ""),
        is_private: bool | None = None,
    ) -> Wire:
        """A connection that has said nothing yet. `origin`: its address, who its transport says it is, its Arrival.

        `is_private`: None means that it is not encrypted, so whether it is depends on its address.
        """
        address, principal, *arrival = origin
        proof = Proof(principal, is_private=not address or is_loopback(address) if is_private is None else is_private)
        wire = Wire(self, self.core.connected(name, framed, self.now, address, proof, *arrival))
        self.wires[wire.peer.id] = wire
        self.pump()
        return wire

    def caller(
        self,
        framed: bool = True,
        metadata_mime: str = COMPOSITE_MIME,
        data_mime: str = "text/plain",
        token: bytes | None = None,
        metadata: bytes | None = None,
        wants_lease: bool = False,
        origin: tuple[str, str] = ("", ""),
    ) -> Wire:
        """A connection with a SETUP and without a route. `origin`: its address and principal."""
        wire = self.connect(framed, origin=origin)
        wire.send(setup(metadata, metadata_mime, data_mime, wants_lease, token))
        return wire

    def service(
        self,
        name: str,
        number: int,
        framed: bool = True,
        metadata_mime: str = COMPOSITE_MIME,
        data_mime: str = "text/plain",
        wants_lease: bool = False,
        token: bytes | None = None,
        **tags: str | None,
    ) -> Wire:
        """A connection with a SETUP that announces a route."""
        metadata = announcement(number, name, metadata_mime, **tags)
        wire = self.connect(framed)
        wire.send(setup(metadata, metadata_mime, data_mime, wants_lease, token))
        return wire

    def advance(self, seconds: float) -> None:
        """Moves the clock, ticking at every deadline on the way."""
        until = self.now + seconds
        while self.core.next_deadline() <= until:
            self.now = max(self.now, self.core.next_deadline())
            self.core.tick(self.now, self.at_ms)
            self.pump()
        self.now = until
        self.core.tick(self.now, self.at_ms)
        self.pump()

    def pump(self) -> None:
        """Carries what the core wants written to the wires, and what it wants to read no more."""
        self.move()
        while self.core.has_work():
            self.core.work(self.now)
        self.turn()
        for peer in self.core.take_writes():
            if not peer.is_blocked or peer.is_ending:
                self.wires[peer.id].take(peer.take_output(), peer.is_ending)
                if peer.is_congested and not peer.is_lost:
                    self.core.relieved(peer, self.now)  # all that waited was taken
            if isinstance(peer.route, Route):
                self.routes.add(peer.route)
        self.turn()
        if self.core.has_writes():  # of those that waited for one that was relieved
            self.pump()

    def turn(self) -> None:
        """Reads from the wires from which the core wants to read."""
        for peer in self.core.take_read_changes():
            self.wires[peer.id].is_paused = peer.is_paused

    def move(self) -> None:
        """Gives wires to the peers that were resumed on them, and breaks those that peers have lost."""
        for move in self.core.take_moves():
            self.wires[move.peer.id].is_lost = True
            if move.newcomer is not None:
                wire = self.wires.pop(move.newcomer.id)
                wire.peer = move.peer
                wire.is_paused = move.peer.is_paused
                self.wires[move.peer.id] = wire
                if move.has_frames:
                    wire.work_off()

    def events(self) -> list[LifecycleEvent]:
        """Lifecycle events since the last call; flow records are dropped."""
        return [event for event in self.core.take_events() if isinstance(event, LifecycleEvent)]

    def flows(self) -> list[FlowRecord]:
        """Flow records of everything since the last call, and the tick that ends their interval; no other events."""
        self.advance(max(0.0, self.core.settings.flow_interval_s))
        return [event for event in self.core.take_events() if isinstance(event, FlowRecord)]

    def left_over(self) -> list[str]:
        """What streams have left behind in any table; empty when all of them have ended without a trace."""
        found: list[str] = []
        for wire in self.wires.values():
            peer = wire.peer
            for name, value in (
                ("streams", len(peer.streams)),
                ("begun", peer.begun),
                ("gathered_bytes", peer.gathered_bytes),
                ("waiting_bytes", peer.waiting_bytes),
                ("merging_bytes", peer.merging_bytes),
                ("merging_n", peer.merging_n),
            ):
                if value:
                    found.append(f"{name}={value} at peer {peer.id}")
            if isinstance(peer.route, Route):
                self.routes.add(peer.route)
        engine = self.core.engine
        users = Counter(peer.mimes for peer in self.core.peers() if peer.mimes >= 0)
        users.update([engine.ingress.link_mimes, *engine.ingress.mimes_by_raw.values()])
        counted = {number: mimes.users_n for number, mimes in engine.mimes.items()}
        if counted != users:
            found.append(f"users of pairs of mime types: {counted}, there are {users}")
        found += [
            f"in_flight={route.load.in_flight} of {route.id_text}"
            for route in self.routes
            if route.load.in_flight or route.load.awaited_n
        ]
        return found


class Wire:
    """The other end of one connection."""

    def __init__(self, world: World, peer: Peer) -> None:
        self.world = world
        self.peer = peer
        self.frames: list[Frame] = []
        self.is_closed = False
        self.is_paused = False  # the core does not want to read from it
        self.is_lost = False
        self._rest = b""

    @property
    def mimes(self) -> tuple[str, str]:
        """The mime types of metadata and data in its SETUP."""
        said = self.peer.connection.setup
        assert said is not None
        return said.metadata_mime, said.data_mime

    def send(self, *frames: bytes) -> None:
        """Sends whole frames, then carries what the core answers."""
        for raw in frames:
            if self.is_lost:
                return
            self._receive(framed(raw) if self.peer.is_framed else raw)
        self.world.pump()

    def send_bytes(self, data: bytes) -> None:
        """Sends any bytes."""
        self._receive(data)
        self.world.pump()

    def _receive(self, data: bytes) -> None:
        if self.world.core.receive(self.peer, data, self.world.now):
            self.work_off()

    def work_off(self) -> None:
        """What the core has received and not looked at."""
        core = self.world.core
        while not self.peer.login.is_asked and core.go_on(self.peer, self.world.now):
            core.work(self.world.now)

    def block(self) -> None:
        """Its transport takes nothing more for now."""
        self.world.core.congested(self.peer)

    def fill(self, waiting_bytes: int) -> None:
        """As `block`, when so many bytes wait: of frames that mean nothing."""
        self.block()
        while waiting_bytes > 0:
            self.peer.send(frames.encode_cancel(frames.MAX_STREAM_ID - 1) + bytes(min(waiting_bytes, 8 << 20)))
            waiting_bytes -= 8 << 20

    def unblock(self) -> None:
        """Its transport takes all again."""
        self.world.core.relieved(self.peer, self.world.now)
        self.world.pump()

    def lose(self) -> None:
        """The transport breaks."""
        if self.is_lost:
            return
        self.is_lost = True
        self.world.core.lost(self.peer, "connection reset", self.world.now)
        self.world.pump()

    def take(self, pieces: list[Piece], is_ending: bool) -> None:
        assert not (pieces and self.is_lost), "nothing is written to a transport that is gone"
        assert not (pieces and self.is_closed), "nothing is written behind the last frame of a connection"
        had_n = len(self.frames)
        if self.peer.is_framed:
            self._rest += b"".join(pieces)
            while len(self._rest) >= 3:
                size = int.from_bytes(self._rest[:3], "big")
                assert len(self._rest) >= 3 + size, "the core writes whole frames"
                self.frames.append(Frame(self._rest[3 : 3 + size]))
                self._rest = self._rest[3 + size :]
        else:
            self.frames += [Frame(bytes(piece)) for piece in pieces]
        for frame in self.frames[had_n:]:
            is_told = frame.kind == frames.ERROR and any(
                wire.peer.name.encode() in frame.data for wire in self.world.wires.values()
            )
            assert not is_told, f"no ERROR says where anybody is connected: {frame.data!r}"
        self.is_closed = self.is_closed or is_ending

    def received(self) -> list[Frame]:
        """Frames since the last call."""
        frames, self.frames = self.frames, []
        return frames

    def one(self) -> Frame:
        """The only frame since the last call."""
        frames = self.received()
        assert len(frames) == 1, frames
        return frames[0]

    def request(
        self, kind: int, stream_id: int, raw_address: bytes, data: bytes = b"hi", n: int = 8, flags: int = 0
    ) -> bytes:
        """Sends a request with an ADDRESS as the connection's metadata mime type wants it; the frame that was sent."""
        raw = frames.encode_request(kind, stream_id, data, carried(self.mimes[0], raw_address), n, flags)
        self.send(raw)
        return raw

    def answer(self, stream_id: int, data: bytes, flags: int = NEXT | COMPLETE) -> None:
        self.send(frames.encode_payload(stream_id, flags, data))

    def fail(self, stream_id: int, code: int, text: str) -> None:
        self.send(frames.encode_error(stream_id, code, text))

    def cancel(self, stream_id: int) -> None:
        self.send(frames.encode_cancel(stream_id))

    def ask(self, stream_id: int, n: int) -> None:
        self.send(frames.encode_request_n(stream_id, n))

    def push(self, metadata: bytes) -> None:
        self.send(frames.encode_metadata_push(metadata))

    def announce(self, number: int, service: str, **tags: str | None) -> None:
        """Sends a ROUTE_SETUP in a METADATA_PUSH."""
        self.push(announcement(number, service, self.mimes[0], **tags))


def orders(settings: CoreSettings | None = None) -> tuple[World, Wire, Wire]:
    """A broker, its service `orders`, and a caller."""
    world = World(settings)
    return world, world.service("orders", 1), world.caller()


def ask(caller: Wire, count: int = 1, kind: int = frames.REQUEST_FNF, raw: bytes | None = None) -> None:
    """So many requests of a client on new streams; `raw`: their ADDRESS, that of the service `orders` if None."""
    for _ in range(count):
        caller.request(kind, caller.peer.requests * 2 + 1, raw if raw is not None else address(service="orders"))


def routes_in(world: World) -> list[list[str]]:
    """The routes in the table: their service and, behind it, the values of their own tags."""
    return [
        [route.service, *[tag.value or "" for tag in route.tags if tag.key.short_name not in ("service", "route_id")]]
        for route in world.core.table.routes()
    ]
