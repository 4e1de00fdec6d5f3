"""A broker on the fake wire whose events are written down, as the writer would have done it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from broker.core import CoreSettings
from broker.events import LIFECYCLE
from broker.routing.policies import Policy
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.frames import MIME_TYPE, MULTICAST, SHARD, UNICAST, RouteSetup
from rsocket_wire.wire.keys import LB_METHOD, SHARD_KEY, SHARD_METHOD, STICKY_ROUTE_KEY, Key
from rsocket_wire.wire.tags import Tag
from spark_sink.event_files.frames import Header
from tests.fakes import Wire, World, address, composite, route_id, tags_of
from tests.spark_sink.records import arrow_of, put_segments

FIRST_SERVICE = 1  # Route Ids of services begin here, those of callers at 10,000


class Recording:
    """A broker, its services and callers, and everything that it tells."""

    def __init__(self, settings: CoreSettings, seed: int = 1, number: int = 1) -> None:
        self.world = World(settings, seed=seed, number=number)
        self.services: dict[int, Wire] = {}  # by the number of the Route Id
        self.callers: list[Wire] = []
        self._rows: list[tuple[object, ...]] = []
        self._open: list[tuple[Wire, int]] = []  # caller and stream of requests that wait for an answer
        self._next_id: dict[int, int] = {}  # by peer: its next stream id
        self.sent = 0

    def join(self, number: int, service: str, **tags: Any) -> Wire:
        """A service comes, or another connection with its Route Id."""
        self.services[number] = wire = self.world.service(service, number, **tags)
        return wire

    def leave(self, number: int) -> None:
        """A service goes, with all that it has."""
        self.services.pop(number).lose()

    def caller(self, number: int = 0, zone: str = "") -> Wire:
        """A caller, with a route of its own if it has a number."""
        tags: dict[str, Any] = {"zone": zone} if zone else {}
        wire = self.world.service("callers", number, **tags) if number else self.world.caller()
        self.callers.append(wire)
        return wire

    def ask(self, caller: Wire, raw: bytes, kind: int = REQUEST_RESPONSE) -> None:
        """A request."""
        stream_id = self._next_id.get(caller.peer.id, 1)
        self._next_id[caller.peer.id] = stream_id + 2
        caller.request(kind, stream_id, raw)
        self.sent += 1
        self._open.append((caller, stream_id))

    def answer(self, rng: random.Random, *, is_error: bool = False) -> None:
        """One of the services ends one of the requests that it has."""
        for wire in sorted(self.services.values(), key=lambda _: rng.random()):
            streams = [stream_id for stream_id in wire.peer.streams if stream_id % 2 == 0]
            if streams:
                stream_id = rng.choice(streams)
                if is_error:
                    wire.fail(stream_id, 0x201, "no")
                else:
                    wire.answer(stream_id, b"yes")
                return

    def give_up(self, rng: random.Random) -> None:
        """One of the callers ends one of its requests."""
        still = [(wire, stream_id) for wire, stream_id in self._open if stream_id in wire.peer.streams]
        self._open = still
        if still:
            wire, stream_id = rng.choice(still)
            wire.cancel(stream_id)

    def finish(self) -> None:
        """All that is open is ended, and the broker stops."""
        for wire in self.callers:
            for stream_id in list(wire.peer.streams):
                wire.cancel(stream_id)
        self.world.core.stop("the test is over", self.world.now)
        self.take()

    def take(self) -> None:
        """What it has told so far."""
        core = self.world.core
        requests = core.take_requests()
        if requests is not None:
            self._rows += requests.definitions + requests.rows
        for event in core.take_events():
            self._rows.append(event.row())

    def lifecycle(self) -> list[tuple[object, ...]]:
        """The rows of lifecycle events: the record type, then `LIFECYCLE_FIELDS`."""
        self.take()
        return [row for row in self._rows if row[0] == LIFECYCLE]

    def told(self, kind: int) -> int:
        """How many lifecycle events of this kind there are."""
        return sum(row[1] == kind for row in self.lifecycle())

    def write(self, folder: Path, *, epoch: int = 1, weight: int = 1, without: tuple[str, ...] = ()) -> Path:
        """Segments of all of it; `without` some sources."""
        self.take()
        name = f"b{self.world.core.broker_id[-1]}"
        header = Header(broker_id=self.world.core.id_text, broker_name=name, epoch=epoch, weight=weight)
        found = arrow_of(msgspec.msgpack.encode(self._rows), header)
        put_segments(folder, header, {source: table for source, table in found.items() if source not in without})
        return folder


def policy(chooser: str = "round_robin", **more: Any) -> Policy:
    """A policy that ejects nobody, unless it is told to."""
    return Policy(chooser, **({"eject_after_errors": 0} | more))


def busy_day(
    settings: CoreSettings,
    requests: int,
    seed: int = 11,
    *,
    services: int = 3,
    routes: int = 5,
    shard: float = 0.2,
    multicast: float = 0.0,
    hints: tuple[str, ...] = (),
    errors: float = 0.05,
    by_caller: bool = False,
    anonymous: bool = True,
    events: Callable[[Recording, random.Random], None] | None = None,
) -> Recording:
    """Services that come and go, callers in two zones, requests that end, fail and are given up.

    `events`: what else happens now and then."""
    rng = random.Random(seed)
    day = Recording(settings, seed=seed)
    zones = ("a", "b")
    for service in range(services):
        for number in range(routes):
            join(day, rng, FIRST_SERVICE + service * 100 + number)
    for number in range(4):
        day.caller(10_000 + number, zones[number % 2])
    if anonymous:
        day.caller()
    while day.sent < requests:
        day.world.advance(rng.choice((0.0, 0.0003, 0.002)))
        for _ in range(rng.randrange(1, 5)):
            day.ask(rng.choice(day.callers), an_address(rng, services, shard, multicast, hints, by_caller), kind(rng))
        for _ in range(rng.randrange(0, 6)):
            day.answer(rng, is_error=rng.random() < errors)
        if rng.random() < 0.05:
            day.give_up(rng)
        if rng.random() < 0.01:
            number = FIRST_SERVICE + rng.randrange(services) * 100 + rng.randrange(routes + 1)
            if number in day.services and rng.random() < 0.6:
                day.leave(number)
            else:  # also while its old connection is there
                day.world.advance(0.2)  # a connection may say so ten times a second
                join(day, rng, number)
        if events is not None and rng.random() < 0.02:
            events(day, rng)
    day.finish()
    return day


def join(day: Recording, rng: random.Random, number: int) -> None:
    service = f"svc{number // 100}"
    day.join(number, service, zone=rng.choice("ab"), weight=str(rng.randrange(1, 9)), region=rng.choice(("eu", "us")))


def kind(rng: random.Random) -> int:
    return rng.choice((REQUEST_RESPONSE, REQUEST_RESPONSE, REQUEST_RESPONSE, REQUEST_STREAM, REQUEST_FNF))


def an_address(
    rng: random.Random, services: int, shard: float, multicast: float, hints: tuple[str, ...], by_caller: bool
) -> bytes:
    service = f"svc{rng.randrange(services)}" if rng.random() < 0.97 else "nobody"
    tags: dict[str, Any] = {"service": service}
    if rng.random() < 0.3:
        tags["region"] = rng.choice(("eu", "us", "mars"))
    if rng.random() < shard:
        said: list[tuple[Key, str]] = [(SHARD_KEY, "user")]
        if hints:
            said.append((SHARD_METHOD, rng.choice(("maglev", "ring", "jump", "modulo", "rendezvous"))))
        return address(SHARD, said, **tags, user=str(rng.randrange(200)))
    if rng.random() < multicast:
        return address(MULTICAST, None, **tags)
    hinted = [(LB_METHOD, rng.choice(hints))] if hints and rng.random() < 0.5 else []
    if by_caller and rng.random() < 0.3:
        return address(UNICAST, [*hinted, (STICKY_ROUTE_KEY, "user")], **tags, user=str(rng.randrange(20)))
    return address(UNICAST, hinted, **tags)


def drains(kind: str) -> Callable[[Recording, random.Random], None]:
    """A tag or a route is taken out of service, or put into it again."""

    def drain(day: Recording, rng: random.Random) -> None:
        core, now = day.world.core, day.world.now
        if kind == "tag":
            tag = Tag.of("zone", rng.choice("ab"))
            if not core.lifecycle.drains.undrain_tag(tag, now):
                core.lifecycle.drains.drain_tag(tag, 1.0, 1.0, False, now)
        else:
            number = rng.choice(sorted(day.services))
            if not core.lifecycle.drains.undrain_route(route_id(number), now):
                core.lifecycle.drains.drain_route(route_id(number), 1.0, 1.0, False, now)
        day.world.pump()

    return drain


def change_tags(day: Recording, rng: random.Random) -> None:
    """A connection says other tags of its route, or another service name."""
    number = rng.choice(sorted(day.services))
    service = f"svc{number // 100 if rng.random() < 0.8 else 0}"
    setup = RouteSetup(route_id(number), service, tags_of({"zone": rng.choice("ab"), "weight": "3"}))
    day.world.advance(0.2)
    day.services[number].push(composite((MIME_TYPE, setup.encode())))
