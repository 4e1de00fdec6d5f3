"""Roles against a model that looks at every route and every request: nobody else is reached, and nobody is denied.

Generated worlds: roles, routes that join, change and leave, redirects, other roles for a caller, roles that are read
again, and requests of all models and routing types, by tags and by Route Id, at once or after a wait. The model knows
routes as numbers with tags, roles as patterns; nothing of bitmaps, slots, generations and what is remembered.
`WORLDS=10000` takes some minutes.
"""

from __future__ import annotations

import os
import random
from typing import Final

from broker.access.roles import Offer, Role
from broker.core import CoreSettings
from broker.forwarding.pending import PendingRequest
from rsocket_wire.rsocket.frames import METADATA_PUSH, REQUEST_FNF
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST, Address
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import LB_METHOD, SHARD_KEY, STICKY_ROUTE_KEY
from rsocket_wire.wire.tags import Tag
from tests.broker.forwarding.reach_model import KINDS, SERVICES, VALUES, Tags, entries, may, role_of
from tests.fakes import Frame, Wire, World, addressed, announcement, route_id, setup

WORLDS_N: Final = int(os.environ.get("WORLDS", "40"))
STEPS_N: Final = 40


class Asked:
    """A request, as the model knows it."""

    def __init__(self, wanted: list[tuple[str, str]], keys: set[str], routing: int, kind: int) -> None:
        self.wanted = wanted
        self.keys = keys  # of shards and sticky choices
        self.routing = routing
        self.kind = kind


class ReachWorld:
    """One broker, four routes at most, and two callers of roles of their own."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.waits = rng.random() < 0.5
        self.said = {f"CN=c{number}": entries(rng) for number in (1, 2)}
        settings = CoreSettings(
            auth_mode="required",
            auth_accept=("certificate",),
            roles=(*self.roles(), Role("services", ["*"], [Offer([("service", ["*"])])])),
            no_route="wait" if self.waits else "reject",
            no_route_timeout_s=1000.0,
        )
        self.world = World(settings, seed)
        self.callers = {name: self.world.caller(origin=("", f"certificate:{name}")) for name in self.said}
        self.routes: dict[int, Tags] = {}
        self.wires: dict[int, Wire] = {}
        self.redirects: dict[str, str] = {}
        self.waiting: list[tuple[str, int, Asked]] = []  # caller and stream id, in the order in which they came
        self.asked_n = 0

    def roles(self) -> list[Role]:
        return [role_of(name, said) for name, said in self.said.items()]

    # What happens

    def step(self) -> None:
        what = self.rng.choice((self.join, self.join, self.change, self.leave, self.turn, *[self.ask] * 8))
        what()

    def tags(self) -> dict[str, str]:
        return {key: self.rng.choice(VALUES[key]) for key in ("region", "tier") if self.rng.random() < 0.6}

    def join(self) -> None:
        """A new route, or one in the place of another connection's."""
        number, name, tags = self.rng.randrange(1, 5), self.rng.choice(SERVICES), self.tags()
        wire = self.world.connect(origin=("", "certificate:service"))
        self.know(number, name, tags)
        wire.send(setup(announcement(number, name, **tags)))
        self.wires[number] = wire
        self.settle()

    def change(self) -> None:
        if self.routes:
            number, name, tags = self.rng.choice(list(self.routes)), self.rng.choice(SERVICES), self.tags()
            self.know(number, name, tags)
            self.wires[number].announce(number, name, **tags)
            self.settle()

    def know(self, number: int, name: str, tags: dict[str, str]) -> None:
        self.routes[number] = {("service", name), ("route_id", id_text(route_id(number))), *tags.items()}

    def leave(self) -> None:
        if self.routes and self.rng.random() < 0.5:
            number = self.rng.choice(list(self.routes))
            del self.routes[number]
            self.wires.pop(number).lose()
            self.settle()

    def turn(self) -> None:
        """Another role for a caller, or a redirect."""
        if self.rng.random() < 0.5:
            self.redirects = {"stock": self.rng.choice(SERVICES[1:])} if self.rng.random() < 0.6 else {}
            self.world.core.query.set_redirects(self.redirects)
            self.world.advance(0.1)
        else:
            name = self.rng.choice(list(self.said))
            self.said[name] = entries(self.rng)
            role = next(role for role in self.roles() if role.name == name)
            self.world.core.engine.set_role(self.callers[name].peer, role, self.world.now)
            self.world.pump()
            self.settle(name)
        self.settle()

    def ask(self) -> None:
        rng = self.rng
        name, routing, kind = (
            rng.choice(list(self.callers)),
            rng.choice((UNICAST, UNICAST, MULTICAST, SHARD)),
            rng.choice(KINDS),
        )
        wanted = [("service", rng.choice(SERVICES))] if rng.random() < 0.8 else []
        wanted += [(key, rng.choice(VALUES[key])) for key in ("region", "tier") if rng.random() < 0.2]
        if not wanted or rng.random() < 0.1:
            wanted.append(("route_id", id_text(route_id(rng.randrange(1, 5)))))
        hints, keys = [], set[str]()
        if routing == SHARD or (routing == UNICAST and rng.random() < 0.3):
            keys = {"user"}
            wanted.append(("user", rng.choice("123456")))
            hints.append(Tag(SHARD_KEY if routing == SHARD else STICKY_ROUTE_KEY, b"user"))
        hints.append(Tag(LB_METHOD, rng.choice((b"random", b"round_robin", b"p2c", b"sticky"))))
        asked = Asked(wanted, keys, routing, kind)
        raw = Address(route_id(0xCA11), [Tag.of(*pair) for pair in wanted], hints, flags=routing).encode()
        self.asked_n += 1
        stream_id, caller = 2 * self.asked_n + 1, self.callers[name]
        self.forget()
        if kind == METADATA_PUSH:
            caller.push(addressed(raw))
        else:
            caller.request(kind, stream_id, raw)
        self.judge(name, stream_id, asked, self.reached(), caller.received())

    # What must be so

    def judge(self, name: str, stream_id: int, asked: Asked, reached: list[int], answers: list[Frame]) -> None:
        """What became of one request, at once or later."""
        matched = self.matched(asked)
        allowed = [number for number in matched if may(self.routes[number], self.said[name], name)]
        words = [answer.text.partition(":")[0] for answer in answers]
        if allowed:
            assert words == [], (name, asked.wanted, allowed)
            if asked.routing == MULTICAST:
                assert reached == allowed
            else:
                assert len(reached) == 1
                assert reached[0] in allowed
            return
        assert reached == [], (name, asked.wanted, matched)
        if not matched and self.waits and asked.kind != METADATA_PUSH:
            assert words == []
            self.waiting.append((name, stream_id, asked))
        else:
            has_answer = asked.kind not in (REQUEST_FNF, METADATA_PUSH)
            assert words == ([("denied" if matched else "no-route")] if has_answer else [])

    def settle(self, anew: str = "") -> None:
        """The requests that waited: those whose caller may reach a route now have got one, and no others.

        `anew`: the caller that has another role, all of whose requests are decided upon as if they came now.
        """
        self.world.advance(0.1)
        due: dict[int, int] = {}
        left: list[tuple[str, int, Asked]] = []
        for name, stream_id, asked in self.waiting:
            matched = self.matched(asked)
            allowed = [number for number in matched if may(self.routes[number], self.said[name], name)]
            is_waiting = isinstance(self.callers[name].peer.streams.get(stream_id), PendingRequest)
            if is_waiting:
                assert not allowed, (name, asked.wanted)
                assert not matched or anew != name, (name, asked.wanted)
                left.append((name, stream_id, asked))
            else:
                assert allowed or (matched and anew == name), (name, asked.wanted, matched)
                for number in allowed:
                    due[number] = due.get(number, 0) + 1
        for number, wire in self.wires.items():
            begun = [frame for frame in wire.received() if frame.kind in KINDS]
            assert len(begun) <= due.get(number, 0), (number, due)
        self.waiting = left
        self.forget()

    def matched(self, asked: Asked) -> list[int]:
        """Who carries all that is wanted, redirected; without the tags of keys where nobody does (D-22)."""
        wanted = {(key, self.redirects.get(value, value) if key == "service" else value) for key, value in asked.wanted}
        found = sorted(number for number, tags in self.routes.items() if wanted <= tags)
        others = {(key, value) for key, value in wanted if key not in asked.keys}
        return found or sorted(number for number, tags in self.routes.items() if others and others <= tags)

    def reached(self) -> list[int]:
        """Numbers of the routes that got a request since the last call."""
        return sorted(n for n, wire in self.wires.items() if any(frame.kind in KINDS for frame in wire.received()))

    def forget(self) -> None:
        """What has come of what happened before."""
        assert self.reached() == []
        for caller in self.callers.values():
            caller.received()


def test_nobody_is_reached_whom_a_role_does_not_allow_and_nobody_denied_whom_it_does() -> None:
    for seed in range(WORLDS_N):
        world = ReachWorld(seed)
        try:
            for _ in range(STEPS_N):
                world.step()
        except AssertionError as error:
            raise AssertionError(f"world {seed}") from error
