"""What a broker remembers of the latest request of its links, callers and routes changes nothing but what it costs.

Two brokers between others get the same frames in the same order, while services, links, leases, names and redirects
come and go. One of them forgets all that it may forget before each step. Nobody may tell them apart: not by a byte on
any connection, nor by a counter, nor by an event.
"""

import random

import pytest

from broker.core import CoreSettings
from broker.forwarding.interbroker.remote import Remote
from broker.forwarding.peer import Peer
from broker.routing.policies import Policy
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import FOLLOWS, NEXT, REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD, UNICAST
from rsocket_wire.wire.keys import DEADLINE, SHARD_KEY
from tests.broker.forwarding.brokers import DATA_MIME, Broker, annotated, caller_mimes, section, to_route
from tests.fakes import Frame, Wire, address, addressed, announcement, carried, composite

MODELS = (REQUEST_RESPONSE, REQUEST_RESPONSE, REQUEST_STREAM, REQUEST_CHANNEL, REQUEST_FNF)
PAIRS = ((COMPOSITE_MIME, DATA_MIME), (COMPOSITE_MIME, DATA_MIME), (COMPOSITE_MIME, "text/plain"), (MIME_TYPE, "a/b"))
NEIGHBOURS = ("b1", "b1", "b3")
SETTINGS = (
    CoreSettings(policy=Policy(max_in_flight_per_route=3, eject_after_errors=2), resume_ttl_s=5.0),
    CoreSettings(annotations_to_clients="keep", annotations_from_clients="accept"),
    CoreSettings(
        annotations_from_clients="strip",
        require_annotations=False,
        multicast_on_leave="error",
        max_hops=1,
        locality="even",
        no_route="wait",
        max_metadata_bytes=300,
    ),
    CoreSettings(annotations_from_clients="accept", policy=Policy("peak_ewma"), max_streams_per_connection=9),
)
CODES = ((0x201, "broken"), (0x202, "stale-route: moved"), (0x202, "over-limit: full"), (0x203, "gone"), (0x204, "odd"))

TROUBLES = [
    "lose",
    "serve",
    "serve",
    "link",
    "lease",
    "full",
    "congest",
    "rename",
    "redirect",
    "time",
    "wrap",
    "resume",
    "say",
    "say",
]


class Twin:
    """b2, with routes of its own and of others; connections are known by their place in `wires`."""

    def __init__(self, settings: CoreSettings, forgets: bool) -> None:
        self.broker = Broker("b2", settings)
        self.forgets = forgets
        self.wires: list[Wire] = []
        self.remotes: list[Remote] = []
        self.far_n = 20

    def forget(self) -> None:
        """Nothing is remembered of any request, and ids are looked up."""
        if not self.forgets:
            return
        hops = self.broker.annotations
        hops.near = hops.latest = None
        hops.latest_entry = b""
        self.broker.core.query._decided.clear()
        hops.sections.clear()
        hops._prefixes.clear()
        hops._names_prefixes.clear()
        for route in self.broker.core.table.routes():
            route.prefix_key = -1
            route.prefix = b""
        for wire in self.wires:
            wire.peer.latest_target = wire.peer.latest_flow = None
            wire.peer.latest_metadata = b""
            wire.peer._has_wrapped = True

    def link(self, name: str, version: int) -> None:
        """A link to that broker, which has two routes that this one knows."""
        wire = self.broker.link(name, version=version)
        self.wires.append(wire)
        remote = self.broker.remote(name, wire)
        self.remotes.append(remote)
        for service in ("orders", "stock"):
            self.far_n += 1
            self.broker.far(remote, service, self.far_n)

    def unlink(self, place: int) -> None:
        """The link breaks."""
        self.wires[place].lose()
        self.tidy()

    def tidy(self) -> None:
        """What was ended goes, and no way leads over a link that is gone."""
        for wire in self.wires:
            if wire.is_closed and not wire.is_lost:
                wire.lose()
        for remote in self.remotes:
            if remote.via is not None and (remote.via.is_lost or remote.via.is_ending):
                remote.via = None

    def serve(self, number: int, service: str, pair: tuple[str, str], framed: bool, leases: bool, token: bytes) -> None:
        self.wires.append(self.broker.service(service, number, framed, *pair, leases, token or None))

    def call(self, pair: tuple[str, str]) -> None:
        self.wires.append(self.broker.caller(True, *pair))

    def resume(self, token: bytes) -> None:
        wire = self.broker.connect()
        wire.send(frames.Resume(token, 0, 0).encode())
        self.wires.append(wire)

    def told(self) -> list[tuple[int, list[Frame], bool]]:
        """What all connections got since the last call."""
        return [(place, wire.received(), wire.is_closed) for place, wire in enumerate(self.wires)]

    def state(self) -> object:
        """Everything that anybody could see or count."""
        core, hops = self.broker.core, self.broker.annotations
        return (
            [(path.ingress, path.way, path.hops_n, path.requests, path.last_at) for path in hops.paths.values()],
            (hops.hop_counts, hops.loops_refused, hops.refused, hops.retried_n, hops.stripped_n, core.engine.ignored),
            [self._of(wire.peer) for wire in self.wires],
            [
                (one.id, one.slot, one.load.requests, one.load.in_flight, one.load.awaited_n, one.load.errors_n)
                for one in core.table.routes()
            ],
            [(one.load.ejected_until, one.load.ewma_us, one.load.lease is None) for one in core.table.routes()],
            (core.engine.pending.size, core.frames_in, core.lifecycle.limits.closed.by_reason),
        )

    def _of(self, peer: Peer) -> object:
        streams = {number: type(stream).__name__ for number, stream in peer.streams.items()}
        return (
            (streams, peer.begun, peer.requests, peer.bytes_in, peer.bytes_out, peer.buffered_bytes),
            (peer._next_id, peer.waiting_bytes, peer.end_reason, peer.end_detail, sorted(peer.paused_by)),
        )

    def happened(self) -> list[tuple[object, ...]]:
        """Events and flow records, with all that they say."""
        return [tuple(event.row()) for event in self.broker.core.take_events()]


class Story:
    """What happens to both."""

    def __init__(self, settings: CoreSettings, seed: int) -> None:
        self.rng = random.Random(seed)
        self.twins = [Twin(settings, False), Twin(settings, True)]
        self.kinds: list[str] = []  # of each connection
        self.next_ids: list[int] = []
        self.asked: list[tuple[int, int]] = []  # who may answer, and on which stream
        self.asking: list[tuple[int, int]] = []  # who has asked, on which stream
        self.latest: tuple[int, int, bytes] | None = None
        self.joined_at_once_n = 0  # requests over a link while one like them was remembered, nearly
        for name in ("b1", "b3"):
            self.link(name, 1)
        self.serve(7, PAIRS[0])
        self.call()

    def both(self, what: str, *args: object) -> None:
        for twin in self.twins:
            getattr(twin, what)(*args)

    def link(self, name: str, version: int) -> None:
        self.both("link", name, version)
        self._entered("link")

    def serve(self, number: int, pair: tuple[str, str]) -> None:
        token = b"t%d" % len(self.kinds) if self.rng.random() < 0.3 else b""
        service = self.rng.choice(["orders", "orders", "orders", "stock"]) if self.kinds else "orders"
        self.both("serve", number, service, pair, self.rng.random() < 0.7, self.rng.random() < 0.2, token)
        self._entered(f"service {token.decode()}")

    def call(self) -> None:
        self.both("call", self.rng.choice(PAIRS))
        self._entered("caller")

    def step(self) -> None:
        """One thing, and what comes of it."""
        self.both("tidy")
        self.both("forget")
        near_n = self.twins[0].broker.annotations.near_n if self.twins[0].broker.annotations.near is not None else -1
        roll = self.rng.random()
        if roll < 0.55:
            self._ask_over_link()
        elif roll < 0.63:
            self._ask_as_client()
        elif roll < 0.85:
            self._answer()
        elif roll < 0.93:
            self._go_on()
        else:
            self._trouble()
        self.joined_at_once_n += near_n >= 0 and self.twins[0].broker.annotations.near_n > near_n
        told = [twin.told() for twin in self.twins]
        assert told[0] == told[1]
        for place, came, _ in told[0]:
            self.asked += [(place, one.stream_id) for one in came if REQUEST_RESPONSE <= one.kind <= REQUEST_CHANNEL]
        states = [twin.state() for twin in self.twins]
        assert states[0] == states[1]
        happened = [twin.happened() for twin in self.twins]
        assert happened[0] == happened[1]

    def settle(self) -> None:
        """All connections break, and whoever might come back does not: every end was counted once."""
        for twin in self.twins:
            for wire in twin.wires:
                wire.lose()
            twin.broker.advance(10.0)
            assert twin.broker.left_over() == []
            assert [wire.peer.waiting_bytes for wire in twin.wires if wire.peer.waiting_bytes] == []
            assert [route.id for route in twin.broker.core.table.routes() if route.load.in_flight] == []
            assert twin.broker.core.engine.timers.take_due(1e12) is None

    def _entered(self, kind: str) -> None:
        self.kinds.append(kind)
        self.next_ids.append(1)

    def _send(self, place: int, raw: bytes) -> None:
        for twin in self.twins:
            wire = twin.wires[place]
            if not wire.is_closed and not wire.is_paused:
                wire.send(raw)
            twin.tidy()

    def _places(self, kind: str) -> list[int]:
        return [
            place
            for place, one in enumerate(self.kinds)
            if one.startswith(kind) and not self.twins[0].wires[place].is_lost
        ]

    def _section(self) -> bytes:
        rng = self.rng
        roll = rng.random()
        if roll < 0.7:
            return annotated(section(to_route(7), *(["b1"] if roll < 0.6 else ["b5", "b1"])))
        to = rng.choice([to_route(7), to_route(7), to_route(8), to_route(99), to_route(21), to_route(24), None])
        to = rng.choice([to, to, f"service:stock {to}" if to else "service:stock", "broker:b2,b3", "broker:b2", "what"])
        trace = rng.choice([["b1"], ["b1"], ["b3"], ["b5", "b1"], ["b1", "b2"], ["b1", "b6"], ["b2"]])
        extra = rng.choice([(b"", 0), (b"", 0), (b"\x40", 1), (b"\x53\x07\x41", 2)])
        ingress = rng.choice(["", "", "b5", "b2"])
        return annotated(
            section(to, *trace, ingress=ingress, flags=rng.choice([0, 0, 1, 2, 0x83]), extra=extra[0], extra_n=extra[1])
        )

    def _metadata(self) -> bytes:
        rng = self.rng
        metadata = self._section() if rng.random() < 0.97 else b""
        while rng.random() < 0.2:
            metadata += composite(caller_mimes(*rng.choice([*PAIRS, ("", ""), ("x/y", "z")])))
        routing = rng.choice([UNICAST, UNICAST, SHARD, MULTICAST])
        hints = [(SHARD_KEY, "RouteId")] if routing == SHARD else []
        raw = address(routing, hints, service=rng.choice(["orders", "orders", "stock", "none"]))
        metadata += rng.choice(
            [addressed(raw), addressed(raw, ("text/plain", b"more")), addressed(raw), b"", raw, b"\x1b"]
        )
        if rng.random() < 0.1:
            metadata += addressed(address(service=rng.choice(["orders", "stock"])))
        return metadata if rng.random() < 0.95 else metadata[: rng.randrange(len(metadata) + 1)]

    def _ask_over_link(self) -> None:
        rng = self.rng
        links = self._places("link")
        if not links:
            self.link("b1", 1)
            return
        place = rng.choice(links)
        model = rng.choice(MODELS) if rng.random() < 0.9 else rng.randrange(64)
        flags = rng.choice([0, 0, 0, 0, 0, FOLLOWS, frames.COMPLETE, frames.IGNORE, FOLLOWS | frames.COMPLETE])
        metadata = self._metadata()
        if self.latest is not None and rng.random() < 0.5:
            model, flags, metadata = self.latest
        self.latest = model, flags, metadata
        self._ask(place, model, flags, metadata)

    def _ask_as_client(self) -> None:
        rng = self.rng
        places = self._places("caller")
        if not places:
            self.call()
            return
        place = rng.choice(places)
        mime = self.twins[0].wires[place].mimes[0]
        hints = [(DEADLINE, "900")] if rng.random() < 0.3 else []
        routing = rng.choice([UNICAST, UNICAST, UNICAST, MULTICAST])
        raw = address(routing, hints, service=rng.choice(["orders", "stock", "stock"]))
        metadata = carried(mime, raw)
        if mime == COMPOSITE_MIME and rng.random() < 0.3:
            metadata = self._metadata()
        self._ask(place, rng.choice(MODELS), rng.choice([0, 0, FOLLOWS]), metadata)

    def _ask(self, place: int, model: int, flags: int, metadata: bytes) -> None:
        rng = self.rng
        stream_id = self.next_ids[place]
        if rng.random() < 0.05:
            stream_id = rng.randrange(1, stream_id + 3)
        else:
            self.next_ids[place] += 2
        n = rng.choice([8, 8, 1, 0])
        raw = bytearray(
            frames.encode_request(
                REQUEST_STREAM if model not in MODELS else model, stream_id, b"data", metadata, n, flags
            )
        )
        raw[4] = model << 2 | raw[4] & 3
        if rng.random() < 0.02:
            raw[4] &= 0xFE  # no metadata, only data that looks like it
        if rng.random() < 0.02:
            del raw[rng.randrange(6, len(raw)) :]
        self.asking.append((place, stream_id))
        self._send(place, bytes(raw))
        if model == REQUEST_FNF and rng.random() < 0.1:
            self._send(place, frames.encode_metadata_push(metadata))

    def _answer(self) -> None:
        rng = self.rng
        if not self.asked:
            return
        place, stream_id = rng.choice(self.asked[-8:])
        raw = rng.choice(
            [
                frames.encode_payload(stream_id, NEXT | frames.COMPLETE, b"answer"),
                frames.encode_payload(stream_id, NEXT | frames.COMPLETE, b"answer"),
                frames.encode_payload(stream_id, NEXT, b"item"),
                frames.encode_payload(stream_id, NEXT | FOLLOWS, b"it"),
                frames.encode_error(stream_id, *rng.choice(CODES)),
                frames.encode_request_n(stream_id, rng.choice([0, 3])),
                frames.encode_cancel(stream_id),
                stream_id.to_bytes(4, "big") + bytes([frames.EXT << 2 | 2, 0, 0, 0, 0, 9]),
            ]
        )
        self._send(place, raw)

    def _go_on(self) -> None:
        rng = self.rng
        if not self.asking:
            return
        place, stream_id = rng.choice(self.asking[-8:])
        self._send(
            place,
            rng.choice(
                [
                    frames.encode_payload(stream_id, NEXT, b"next"),
                    frames.encode_payload(stream_id, NEXT | frames.COMPLETE, b"last"),
                    frames.encode_payload(stream_id, FOLLOWS | NEXT, b"", b"\x09text/plain"),
                    frames.encode_payload(stream_id, 0, b"", b"\x00\x00\x00"),
                    frames.encode_request_n(stream_id, 2),
                    frames.encode_cancel(stream_id),
                    frames.encode_error(stream_id, 0x201, "no more"),
                ]
            ),
        )

    def _trouble(self) -> None:
        rng = self.rng
        what = rng.choice(TROUBLES)
        services = self._places("service")
        if what == "serve":
            self.serve(rng.choice([7, 7, 8]), rng.choice(PAIRS))
        elif what == "link":
            links = self._places("link")
            if links and rng.random() < 0.7:
                self.both("unlink", rng.choice(links))
            self.link(rng.choice(NEIGHBOURS), rng.choice([1, 1, 0]))
        elif what == "time":
            seconds = rng.choice([0.1, 1.0, 4.0])
            for twin in self.twins:
                twin.broker.advance(seconds)
        elif what == "rename":
            name = rng.choice(["b2", "b2", "b2", "b1", "b7"])
            for twin in self.twins:
                twin.broker.annotations.rename(name)
        elif what == "redirect":
            redirects = rng.choice([{}, {"orders": "stock"}, {"stock": "orders"}])
            for twin in self.twins:
                twin.broker.core.engine.query.set_redirects(redirects)
        elif what == "wrap":
            place = rng.randrange(len(self.kinds))
            for twin in self.twins:
                peer = twin.wires[place].peer
                peer._next_id = frames.MAX_STREAM_ID - peer.begins  # the last one before they wrap
        elif what == "resume":
            gone = [kind for place, kind in enumerate(self.kinds) if kind.startswith("service t")]
            if gone:
                self.both("resume", rng.choice(gone)[8:].encode())
                self._entered("resumed")
        elif services:
            place = rng.choice(services)
            for_lease = frames.encode_lease(5000, rng.choice([0, 1, 3]))
            is_on = rng.random() < 0.5
            if what == "lease":
                self._send(place, for_lease)
            elif what == "say":
                tags: dict[str, str | None] = {"region": "eu"} if rng.random() < 0.5 else {}
                number, service = rng.choice([7, 7, 7, 8]), rng.choice(["orders", "stock"])
                said = announcement(number, service, self.twins[0].wires[place].mimes[0], **tags)
                self._send(place, frames.encode_metadata_push(said))
            for twin in self.twins:
                wire = twin.wires[place]
                if what == "lose":
                    wire.lose()
                elif what == "full":
                    wire.fill(wire.peer.settings.max_pending_bytes // 2) if is_on else wire.unblock()
                elif what == "congest" and is_on:
                    twin.broker.core.congested(wire.peer)
                elif what == "congest":
                    twin.broker.core.relieved(wire.peer, twin.broker.now)


@pytest.mark.parametrize("settings", SETTINGS)
def test_nobody_can_tell_who_remembers_from_who_forgets(settings: CoreSettings) -> None:
    joined_at_once_n = 0
    for seed in range(3):
        story = Story(settings, seed)
        for _ in range(400):
            story.step()
        story.settle()
        joined_at_once_n += story.joined_at_once_n
    if settings.annotations_to_clients == "keep":  # then none is like the latest
        assert joined_at_once_n == 0
    else:
        assert joined_at_once_n > 10
