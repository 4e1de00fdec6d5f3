"""Callers and services that say anything, at brokers whose words to each other arrive late.

Whatever they say: no broker fails, no link ends, no service sees a section, and when all have gone nothing is left. The
frames of a service that it may get are watched as in `play.py`, by `Life`.
"""

import random

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import APPLICATION_ERROR, REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import COMPLETE, NEXT
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.annotations import ANNOTATIONS_MIME
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD, UNICAST
from rsocket_wire.wire.keys import DEADLINE, SHARD_KEY, STICKY_ROUTE_KEY, Key
from tests.broker.forwarding.brokers import SECTION, caller_mimes, section
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import Frame, World, address, addressed, announcement, composite, fragments, raw_frame, setup
from tests.fuzz.far_history import SlowNet
from tests.fuzz.life import Life
from tests.invariants import check_masks
from tests.topology import LINKED_S, in_a_line

PAIRS = (
    (COMPOSITE_MIME, "text/plain"),
    (COMPOSITE_MIME, "application/octet-stream"),
    (MIME_TYPE, "text/plain"),
    ("application/json", "text/plain"),
)


class Actor:
    """One connection, that may come back."""

    def __init__(self, world: World, number: int, rng: random.Random, is_service: bool) -> None:
        self.world = world
        self.number = number
        self.pair = rng.choice(PAIRS[:3] if is_service else PAIRS)
        self.token = b"%d" % number if rng.random() < 0.4 else b""
        self.route = number if is_service else 0
        self.service = rng.choice(["orders", "stock"])
        self.next_id = 1
        self.begun: list[int] = []
        self.served: dict[int, Life] = {}
        self.position = 0
        self.sent_bytes = 0
        self.wire = world.connect(framed=rng.random() < 0.7)
        self.wire.send(setup(self.announcement("eu") if is_service else None, *self.pair, token=self.token or None))

    def announcement(self, region: str) -> bytes:
        return announcement(self.route, self.service, self.pair[0], region=region)

    def send(self, raw: bytes) -> None:
        self.sent_bytes += len(raw) if frames.has_position(raw[4] >> 2) and raw[:4] != bytes(4) else 0
        self.wire.send(raw)

    def note(self, frame: Frame) -> None:
        """A frame that the broker wrote."""
        self.position += len(frame.raw) if frame.stream_id and frames.has_position(frame.kind) else 0
        if frame.kind in MODELS:
            assert frame.stream_id not in self.served, frame
            self.served[frame.stream_id] = Life(frame.kind, frame.flags, frame.n)
            assert ANNOTATIONS_MIME not in (frame.metadata or b""), frame
        elif frame.stream_id and not frame.stream_id & 1:
            assert self.served[frame.stream_id].caller_may(frame.kind, frame.flags), frame
            self.served[frame.stream_id].caller_says(frame.kind, frame.flags, frame.n)

    def come_back(self) -> None:
        self.wire = self.world.connect()
        self.wire.send(frames.Resume(self.token, self.position, 0).encode())
        for frame in self.wire.received():
            if frame.kind == frames.RESUME_OK:
                continue
            if frame.stream_id or frame.kind != frames.KEEPALIVE:
                self.note(frame)


class Stage:
    """Everybody, and what they do."""

    def __init__(self, rng: random.Random, brokers_n: int, is_ring: bool) -> None:
        self.rng = rng
        names, edges = in_a_line(brokers_n, is_ring)
        self.net = SlowNet(names, edges, {name: self.settings(name) for name in names})
        self.net.advance(LINKED_S)
        self.net.slow_down()
        self.actors: list[Actor] = []
        self.made_n = 0
        for at in range(7):
            self.come(at < 4)

    def settings(self, name: str) -> CoreSettings:
        rng = self.rng
        return CoreSettings(
            broker_name=name,
            annotations_from_clients=rng.choice(["reject", "strip", "accept"]),
            no_route=rng.choice(["reject", "wait"]),
            no_route_timeout_s=1.0,
            locality=rng.choice(["local", "even", "even"]),
            multicast_on_leave=rng.choice(["ignore", "error"]),
            max_waiting_bytes=rng.choice([300, 4 << 20]),
            max_streams_per_connection=30,
            max_metadata_bytes=rng.choice([300, 4 << 20]),
            multicast_prefetch_n=rng.choice([1, 3]),
            max_frame_bytes=3000,
            resume_ttl_s=5.0,
            resume_buffer_bytes=rng.choice([500, 10_000]),
        )

    def come(self, is_service: bool) -> None:
        self.made_n += 1
        world = self.net.worlds[self.rng.choice(self.net.names)]
        self.actors.append(Actor(world, self.made_n, self.rng, is_service))
        self.look()

    def address(self) -> bytes:
        rng = self.rng
        kind = rng.choice([UNICAST, UNICAST, MULTICAST, SHARD])
        hints: list[tuple[Key, str]] = [(SHARD_KEY, "customer")] if kind == SHARD else []
        if kind == UNICAST and rng.random() < 0.2:
            hints.append((STICKY_ROUTE_KEY, "yes"))
        if rng.random() < 0.2:
            hints.append((DEADLINE, rng.choice(["50", "900"])))
        service = rng.choice(["orders", "stock", "moved", "nobody"])
        wrapped = rng.choice([b"", b"", b"wrapped"])
        if kind == SHARD:
            return address(kind, hints, wrapped, service=service, customer=str(rng.randrange(9)))
        return address(kind, hints, wrapped, service=service)

    def metadata(self, actor: Actor) -> bytes:
        rng = self.rng
        raw = self.address()
        if actor.pair[0] != COMPOSITE_MIME:
            return raw
        found = addressed(raw, ("text/plain", b"more"))
        if rng.random() < 0.1:
            to = rng.choice([None, "service:orders", "broker:b1,b2", "broker:b3", "route:" + "0" * 8 + "-0000-" * 2])
            way = rng.choice([["b1"], ["x"], ["b2", "b1"], list("abcdefghij")])
            found = composite((SECTION, section(to, *way))) + found
        if rng.random() < 0.1:
            found = (
                composite(caller_mimes(rng.choice(["", "a/b", "x" * 200, MIME_TYPE]), rng.choice(["", "c/d"]))) + found
            )
        if rng.random() < 0.1:
            at = rng.randrange(len(found))
            found = found[:at] + rng.choice([b"", bytes([rng.randrange(256)]) + found[at + 1 :]])
        return found

    def begin(self, actor: Actor) -> None:
        rng = self.rng
        stream_id = actor.next_id
        actor.next_id += 2
        actor.begun.append(stream_id)
        kind, metadata, n = rng.choice(MODELS), self.metadata(actor), rng.randrange(1, 9)
        data = bytes(rng.choice([0, 9, 9, 2800]))
        size = len(metadata) + len(data)
        cuts = sorted(rng.sample(range(1, size), min(size - 1, rng.choice([0, 0, 1, 2, 4])))) if size > 1 else []
        frames = fragments(kind, stream_id, metadata, data, cuts, n, rng.choice([0, 0, COMPLETE if kind == 7 else 0]))
        for raw in frames[: rng.choice([len(frames)] * 3 + [1])]:
            if len(raw) <= 3000:
                actor.send(raw)
                self.look()

    def frame_on(self, stream_id: int) -> bytes:
        """Anything that a stream may carry."""
        pieces = [
            frames.encode_payload(stream_id, flags, b"item") for flags in (NEXT, NEXT | COMPLETE, NEXT | frames.FOLLOWS)
        ]
        pieces += [frames.encode_request_n(stream_id, n) for n in (1, 3, 0x7FFFFFFF)]
        pieces += [frames.encode_payload(stream_id, NEXT, bytes(50))] * 4
        pieces += [frames.encode_cancel(stream_id), frames.encode_payload(stream_id, COMPLETE)]
        pieces += [
            frames.encode_error(stream_id, REJECTED, f"{word}: x") for word in ("stale-route", "no-lease", "other")
        ]
        pieces += [frames.encode_error(stream_id, APPLICATION_ERROR, "text")]
        pieces += [raw_frame(frames.EXT, frames.IGNORE, bytes(4), stream_id)]
        return self.rng.choice(pieces)

    def go_on(self, actor: Actor) -> None:
        open_ids = list(actor.wire.peer.streams)
        if open_ids and self.rng.random() < 0.8:
            stream_id = self.rng.choice(open_ids)
        elif actor.begun:
            stream_id = self.rng.choice(actor.begun)
        else:
            return
        raw = self.frame_on(stream_id)
        life = actor.served.get(stream_id)
        if life is not None and not life.is_over:
            life.route_says(raw[4] >> 2, ((raw[4] & 3) << 8) | raw[5])
        actor.send(raw)

    def happen(self) -> None:
        rng = self.rng
        roll = rng.random()
        if roll < 0.02 or not self.actors:
            self.come(rng.random() < 0.5)
            return
        actor = rng.choice(self.actors)
        if actor.wire.is_lost:
            if rng.random() < 0.3:
                actor.come_back()
                self.look()
        elif roll < 0.4:
            self.begin(actor)
        elif roll < 0.43:
            actor.send(frames.encode_metadata_push(self.metadata(actor)))
        elif roll < 0.45 and actor.route:
            actor.send(frames.encode_metadata_push(actor.announcement(rng.choice(["eu", "us"]))))
        elif roll < 0.46:
            actor.wire.lose()
        elif roll < 0.48:
            for end in self.net.ends:
                if not end.is_lost:
                    end.world.core.relieved(end.peer, self.net.now)  # or it ends: no KEEPALIVE passes
            self.net.hurry()
            self.net.advance(rng.choice([0.1, 1.0]))
            self.net.slow_down()
        elif roll < 0.49:
            cluster = self.net.worlds[rng.choice(self.net.names)].core.cluster
            cluster.set_redirect("moved", rng.choice(["orders", "stock", "nobody"]), self.net.now)
        elif roll < 0.5:
            self.congest(rng.random() < 0.4)
        else:
            self.go_on(actor)
        self.look()

    def congest(self, is_congested: bool) -> None:
        world = self.net.worlds[self.rng.choice(self.net.names)]
        wires = [wire for wire in world.wires.values() if not wire.is_lost]
        if not wires:
            return
        peer = self.rng.choice(wires).peer
        if is_congested:
            world.core.congested(peer)
        else:
            world.core.relieved(peer, self.net.now)

    def look(self) -> None:
        self.net.pump()
        while self.rng.random() < 0.6:
            self.net.let_one_go(self.rng)
        for world in self.net.worlds.values():
            check_masks(world.core)
        for actor in list(self.actors):
            for frame in actor.wire.received():
                actor.note(frame)
            if actor.wire.is_closed or (actor.wire.is_lost and not actor.wire.peer.is_suspended):
                self.actors.remove(actor)
                actor.wire.lose()

    def finish(self) -> None:
        """All go; nothing may be left of them."""
        self.net.hurry()
        ended = [end.peer.end_detail for end in self.net.ends if end.is_lost]
        assert ended == [], ended
        for actor in self.actors:
            actor.wire.lose()
        self.net.hurry()
        self.net.advance(7.0)
        for name, world in self.net.worlds.items():
            assert world.left_over() == [], name
            assert world.core.engine.pending.size == 0
            assert world.core.engine.timers.take_due(1e12) is None
            assert [peer.name for peer in world.core.peers() if peer.link is None] == []
            assert sum(wire.peer.waiting_bytes for wire in world.wires.values()) == 0
            assert world.core.lifecycle.sessions.budget.used_bytes == 0
        assert len({tuple(table.items()) for table in self.net.tables().values()}) == 1


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("brokers_n", "is_ring"), [(2, False), (3, False), (3, True)])
def test_nothing_is_left_of_anything_that_is_said_at_several_brokers(brokers_n: int, is_ring: bool, seed: int) -> None:
    stage = Stage(random.Random(f"{brokers_n} {is_ring} {seed}"), brokers_n, is_ring)
    for _ in range(300):
        stage.happen()
    stage.finish()
