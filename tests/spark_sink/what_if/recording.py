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

    def answer(self, dice: random.Random, *, is_error: bool = False) -> None:
        """One of the services ends one of the requests that it has."""
        for wire in sorted(self.services.values(), key=lambda _: dice.random()):
            streams = [stream_id for stream_id in wire.peer.streams if stream_id % 2 == 0]
            if streams:
                stream_id = dice.choice(streams)
                if is_error:
                    wire.fail(stream_id, 0x201, "no")
                else:
                    wire.answer(stream_id, b"yes")
                return

    def give_up(self, dice: random.Random) -> None:
        """One of the callers ends one of its requests."""
        still = [(wire, stream_id) for wire, stream_id in self._open if stream_id in wire.peer.streams]
        self._open = still
        if still:
            wire, stream_id = dice.choice(still)
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
    dice = random.Random(seed)
    day = Recording(settings, seed=seed)
    zones = ("a", "b")
    for service in range(services):
        for number in range(routes):
            join(day, dice, FIRST_SERVICE + service * 100 + number)
    for number in range(4):
        day.caller(10_000 + number, zones[number % 2])
    if anonymous:
        day.caller()
    while day.sent < requests:
        day.world.advance(dice.choice((0.0, 0.0003, 0.002)))
        for _ in range(dice.randrange(1, 5)):
            day.ask(
                dice.choice(day.callers), an_address(dice, services, shard, multicast, hints, by_caller), kind(dice)
            )
        for _ in range(dice.randrange(0, 6)):
            day.answer(dice, is_error=dice.random() < errors)
        if dice.random() < 0.05:
            day.give_up(dice)
        if dice.random() < 0.01:
            number = FIRST_SERVICE + dice.randrange(services) * 100 + dice.randrange(routes + 1)
            if number in day.services and dice.random() < 0.6:
                day.leave(number)
            else:  # also while its old connection is there
                day.world.advance(0.2)  # a connection may say so ten times a second
                join(day, dice, number)
        if events is not None and dice.random() < 0.02:
            events(day, dice)
    day.finish()
    return day


def join(day: Recording, dice: random.Random, number: int) -> None:
    service = f"svc{number // 100}"
    day.join(
        number, service, zone=dice.choice("ab"), weight=str(dice.randrange(1, 9)), region=dice.choice(("eu", "us"))
    )


def kind(dice: random.Random) -> int:
    return dice.choice((REQUEST_RESPONSE, REQUEST_RESPONSE, REQUEST_RESPONSE, REQUEST_STREAM, REQUEST_FNF))


def an_address(
    dice: random.Random, services: int, shard: float, multicast: float, hints: tuple[str, ...], by_caller: bool
) -> bytes:
    service = f"svc{dice.randrange(services)}" if dice.random() < 0.97 else "nobody"
    tags: dict[str, Any] = {"service": service}
    if dice.random() < 0.3:
        tags["region"] = dice.choice(("eu", "us", "mars"))
    if dice.random() < shard:
        said: list[tuple[Key, str]] = [(SHARD_KEY, "user")]
        if hints:
            said.append((SHARD_METHOD, dice.choice(("maglev", "ring", "jump", "modulo", "rendezvous"))))
        return address(SHARD, said, **tags, user=str(dice.randrange(200)))
    if dice.random() < multicast:
        return address(MULTICAST, None, **tags)
    hinted = [(LB_METHOD, dice.choice(hints))] if hints and dice.random() < 0.5 else []
    if by_caller and dice.random() < 0.3:
        return address(UNICAST, [*hinted, (STICKY_ROUTE_KEY, "user")], **tags, user=str(dice.randrange(20)))
    return address(UNICAST, hinted, **tags)


def drains(kind: str) -> Callable[[Recording, random.Random], None]:
    """A tag or a route is taken out of service, or put into it again."""

    def drain(day: Recording, dice: random.Random) -> None:
        core, now = day.world.core, day.world.now
        if kind == "tag":
            tag = Tag.of("zone", dice.choice("ab"))
            if not core.drains.undrain_tag(tag, now):
                core.drains.drain_tag(tag, 1.0, 1.0, False, now)
        else:
            number = dice.choice(sorted(day.services))
            if not core.drains.undrain_route(route_id(number), now):
                core.drains.drain_route(route_id(number), 1.0, 1.0, False, now)
        day.world.pump()

    return drain


def change_tags(day: Recording, dice: random.Random) -> None:
    """A connection says other tags of its route, or another service name."""
    number = dice.choice(sorted(day.services))
    service = f"svc{number // 100 if dice.random() < 0.8 else 0}"
    setup = RouteSetup(route_id(number), service, tags_of({"zone": dice.choice("ab"), "weight": "3"}))
    day.world.advance(0.2)
    day.services[number].push(composite((MIME_TYPE, setup.encode())))
