"""Roles in a cluster against a model that looks at every route and every request, as in `test_reach_worlds`.

Generated worlds of three brokers, in a line, a ring, or with two workers of one machine. Services join, change, move,
leave and take Route Ids of others; they and their callers lose their sockets and resume; services are redirected and
routes drained; roles are read again and identities revoked while streams run. Of each request the model knows who has
it, and after each step which parts must have ended, with which word, and that all others are still there.

`WORLDS=10000` takes some ten minutes, `FIRST=2000` begins with another world than the first one.
"""

from __future__ import annotations

import os
import random
import re
from typing import Final

from broker.access.roles import Role
from broker.core import CoreSettings
from broker.forwarding.pending import PendingRequest
from rsocket_wire.rsocket.frames import (
    CANCEL,
    COMPLETE,
    ERROR,
    METADATA_PUSH,
    NEXT,
    PAYLOAD,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    Resume,
    encode_metadata_push,
    encode_request,
    has_position,
)
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST, Address
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import LB_METHOD, SHARD_KEY, STICKY_ROUTE_KEY
from rsocket_wire.wire.tags import Tag
from tests.broker.forwarding.reach_model import KINDS, Entries, Tags, entries, may, role_of
from tests.fakes import Frame, addressed, announcement, route_id, setup
from tests.topology import Net, in_a_line, linked

WORLDS_N: Final = int(os.environ.get("WORLDS", "12"))
FIRST: Final = int(os.environ.get("FIRST", "0"))
STEPS_N: Final = 30
ROUTES_N: Final = 7
NOBODY: Final = 0xCA11
BROKERS = ("b1", "b2", "b3")
CALLERS = ("CN=c1", "CN=c2", "CN=c3")
OWNERS = ("CN=s1", "CN=s2")
ASKED_FOR = ("stock", "stock", "billing")
REGIONS, TIERS = ("eu", "us"), ("a", "ab")
MARK = re.compile(rb"<(\d+)>")


class End:
    """One of our connections: a caller, or a service with its route; it comes back with its token."""

    def __init__(self, net: Net, broker: str, who: str, metadata: bytes | None, token: bytes) -> None:
        self.net = net
        self.broker = broker
        self.who = who
        self.token = token
        self.position = 0  # of what has come
        self.wire = net.worlds[broker].connect(origin=("", f"certificate:{who}"))
        self.wire.send(setup(metadata, token=token))
        self.is_asleep = False
        self.word = ""  # with which the connection was ended; empty: it is there
        self.frames: list[Frame] = []  # that have come, and that nobody has read
        self.hear()

    def hear(self) -> None:
        for frame in self.wire.received():
            if frame.stream_id and has_position(frame.kind):
                self.position += len(frame.raw)
            if not frame.stream_id and frame.kind == ERROR:
                self.word = frame.text.partition(":")[0]
            if frame.stream_id or frame.kind == METADATA_PUSH:
                self.frames.append(frame)

    def read(self) -> list[Frame]:
        self.hear()
        frames, self.frames = self.frames, []
        return frames

    def sleep(self) -> None:
        self.hear()
        self.is_asleep = True
        self.wire.lose()

    def wake(self) -> None:
        self.is_asleep = False
        self.wire = self.net.worlds[self.broker].connect(origin=("", f"certificate:{self.who}"))
        self.wire.send(Resume(self.token, self.position, 0).encode())


class Asked:
    """A request, as the model knows it."""

    def __init__(self, caller: End, stream_id: int, wanted: list[tuple[str, str]], routing: int, kind: int) -> None:
        self.caller = caller
        self.stream_id = stream_id
        self.wanted = wanted
        self.keys: set[str] = set()  # of shards and sticky choices
        self.origin = NOBODY
        self.routing = routing
        self.kind = kind
        self.has_answer = kind not in (REQUEST_FNF, METADATA_PUSH)
        self.is_waiting = False
        self.at: dict[int, End] = {}  # by Route Id: who has it, or will have it when it wakes
        self.streams: dict[int, int] = {}  # stream ids there, once it has come
        self.members: dict[int, tuple[str, Tags]] = {}  # by Route Id: behind which link, and its tags then
        self.gone: dict[int, End] = {}  # who must have been told that it is over
        self.must_end = ""  # words of which one must have come, `?`: any; empty: it must be there
        self.may_end = False
        self.ended = ""


class ClusterWorld:
    """Three brokers, seven Route Ids at most, three callers."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.waits = rng.random() < 0.5
        self.shape = rng.choice(("line", "ring", "workers"))
        self.said: dict[str, Entries] = {}
        self.who: dict[str, list[str]] = {}
        self.offered: Entries = [({"service": ["*"]}, [])]
        self.draw_roles()

        def make(name: str) -> CoreSettings:
            return CoreSettings(
                broker_name=name,
                auth_mode="required",
                auth_accept=("certificate",),
                roles=tuple(self.roles()),
                no_route="wait" if self.waits else "reject",
                no_route_timeout_s=1000.0,
            )

        machines = [["b1", "b2"]] if self.shape == "workers" else []
        self.net = linked(Net(*in_a_line(3, self.shape == "ring"), make=make, machines=machines))
        self.callers: dict[str, End] = {}
        self.services: dict[int, End] = {}
        self.routes: dict[int, Tags] = {}
        self.drained: set[tuple[str, int]] = set()
        self.redirects: dict[str, str] = {}
        self.asked: dict[int, Asked] = {}
        self.over: set[tuple[End, int]] = set()  # services, and streams of theirs that were cancelled
        self.retired: list[End] = []  # whose last frames are still to be read
        self.asked_n = 0
        self.tokens_n = 0
        self.connect()
        for number in range(1, ROUTES_N + 1):
            self.join(number)

    # Roles

    def draw_roles(self) -> None:
        self.said = {name: self.draw_entries() for name in ("r1", "r2")}
        self.who = {name: [f"certificate:{who}" for who in CALLERS if self.rng.random() < 0.75] for name in self.said}
        is_open = self.rng.random() < 0.85
        self.offered = [({"service": ["*"]}, [])] if is_open else [*entries(self.rng), ({"service": ["s*", "b*"]}, [])]

    def draw_entries(self) -> Entries:
        """Most of them allow some of the routes that a request matches, and not others."""
        rng = self.rng
        if rng.random() < 0.15:
            return entries(rng)
        wanted = {"service": ["*"]}
        key, value = rng.choice((("region", "eu"), ("region", "u*"), ("tier", "a"), ("tier", "a*"), ("service", "s*")))
        if rng.random() < 0.5:
            wanted[key] = [value]
            return [(wanted, [])]
        return [(wanted, [{key: [value]}])] if rng.random() < 0.8 else [(wanted, [])]

    def roles(self) -> list[Role]:
        found = [Role(name, self.who[name], [], role_of(name, said).address) for name, said in self.said.items()]
        announced = role_of("services", self.offered).address
        return [*found, Role("services", ["certificate:CN=s*"], announced, [])]

    def role_of(self, who: str) -> Entries | None:
        for name, whose in self.who.items():
            if f"certificate:{who}" in whose:
                return self.said[name]
        return None

    def allowed(self, asked: Asked, numbers: list[int]) -> list[int]:
        said = self.role_of(asked.caller.who) or []
        return [number for number in numbers if may(self.routes[number], said, asked.caller.who)]

    # What happens

    def step(self) -> None:
        rng = self.rng
        what = rng.choice(
            (self.join, self.join, self.change, self.leave, self.redirect, self.reload, self.reload,
             self.revoke, self.nap, self.nap, self.drain, self.answer, self.give_up, *[self.ask] * 20)
        )  # fmt: skip
        what()
        if what != self.ask:
            self.connect()

    def token(self) -> bytes:
        self.tokens_n += 1
        return b"token %d" % self.tokens_n

    def connect(self) -> None:
        """Callers that are not there come again, if they have a role."""
        for who in CALLERS:
            if who not in self.callers:
                caller = End(self.net, self.rng.choice(BROKERS), who, None, self.token())
                assert caller.word == ("" if self.role_of(who) is not None else "denied"), who
                if not caller.word:
                    self.callers[who] = caller

    def tags(self) -> dict[str, str]:
        return {key: self.rng.choice(values) for key, values in (("region", REGIONS), ("tier", TIERS))}

    def known(self, number: int, name: str, tags: dict[str, str]) -> Tags:
        return {("service", name), ("route_id", id_text(route_id(number))), *tags.items()}

    def join(self, number: int = 0) -> None:
        """A new route, or one in the place of another connection's, anywhere."""
        number, name, tags = number or self.rng.randint(1, ROUTES_N), self.rng.choice(ASKED_FOR), self.tags()
        who, broker = self.rng.choice(OWNERS), self.rng.choice(BROKERS)
        old = self.services.get(number)
        service = End(self.net, broker, who, announcement(number, name, **tags), self.token())
        if not may(self.known(number, name, tags), self.offered, who):
            assert service.word == "denied"
        elif old is not None and old.who != who:
            assert service.word == "route-taken"
        else:
            assert service.word == ""
            if old is not None:
                self.left(number, "replaced")
            self.services[number] = service
            self.routes[number] = self.known(number, name, tags)
        self.settle()

    def change(self) -> None:
        awake = [number for number, service in self.services.items() if not service.is_asleep]
        if awake:
            number, name, tags = self.rng.choice(awake), self.rng.choice(ASKED_FOR), self.tags()
            service = self.services[number]
            service.wire.announce(number, name, **tags)
            if may(self.known(number, name, tags), self.offered, service.who):
                self.routes[number] = self.known(number, name, tags)
            else:
                self.left(number, "denied")
            self.settle()

    def leave(self) -> None:
        if self.services:
            number = self.rng.choice(list(self.services))
            service = self.services[number]
            if not service.is_asleep:
                service.wire.fail(0, 0x102, "going")  # CONNECTION_CLOSE: with a session a lost socket is no end
                service.wire.lose()
                self.left(number, "")
                self.settle()

    def left(self, number: int, word: str) -> None:
        """The connection of a route ends: with that word, if it hears one."""
        service = self.services.pop(number)
        del self.routes[number]
        if word:
            self.retired.append(service)
        for broker, drained in list(self.drained):
            if drained == number:  # or it would be drained at other brokers, too, for callers of that one
                self.net.pump()  # not before the broker knows that it has left
                self.net.worlds[broker].core.lifecycle.drains.undrain_route(route_id(number), self.net.now)
                self.drained.clear()
        for asked in self.asked.values():
            if asked.at.get(number) is service:
                del asked.at[number]
                asked.streams.pop(number, None)
                if asked.has_answer and (asked.routing != MULTICAST or not asked.at):
                    asked.must_end = asked.must_end or "?"
                asked.may_end = True

    def redirect(self) -> None:
        broker = self.net.worlds[self.rng.choice(BROKERS)].core.cluster
        if self.redirects:
            self.redirects = {}
            broker.remove_redirect("stock", self.net.now)
        else:
            self.redirects = {"stock": self.rng.choice(("billing", "billing", "nobody"))}
            broker.set_redirect("stock", self.redirects["stock"], self.net.now)
        self.settle()

    def drain(self) -> None:
        if self.services and not self.drained:
            number = self.rng.choice(list(self.services))
            broker = self.services[number].broker
            drains = self.net.worlds[broker].core.lifecycle.drains
            drains.drain_route(route_id(number), 1000.0, 0.0, False, self.net.now)
            self.drained.add((broker, number))
            self.settle()

    def nap(self) -> None:
        """Somebody loses its socket, or whoever has lost it comes back."""
        asleep = [end for end in (*self.services.values(), *self.callers.values()) if end.is_asleep]
        ends = list(self.rng.choice((self.services, self.callers)).values())
        if asleep:
            asleep[0].wake()
        elif ends:
            self.settle()
            self.rng.choice(ends).sleep()
            if self.rng.random() < 0.4:
                self.settle()
                self.reload()
        self.settle()

    def reload(self) -> None:
        """Other roles, at all brokers: each open request is judged by them."""
        self.draw_roles()
        leaving = [n for n, service in self.services.items() if not may(self.routes[n], self.offered, service.who)]
        for number, asked in list(self.asked.items()):
            # Whether they are judged before these leave or after it is nobody's promise.
            if asked.is_waiting and (asked.origin in leaving or set(leaving) & set(self.matched(asked))):
                if asked.caller.is_asleep:
                    asked.caller.wake()
                self.cancel(number)
        for world in self.net.worlds.values():
            world.core.set_roles(self.roles(), self.net.now)
        for number in leaving:
            self.left(number, "denied")
        for who in list(self.callers):
            if self.role_of(who) is None:
                self.cut(who)
        for asked in self.asked.values():
            self.judge_again(asked)
        self.settle(True)

    def judge_again(self, asked: Asked) -> None:
        """What must end of an open request, since its caller has another role."""
        if asked.is_waiting or not asked.at or not asked.has_answer:
            return
        said = self.role_of(asked.caller.who) or []
        bad = {
            number
            for number, (_, tags) in asked.members.items()
            if not may(self.routes.get(number, tags), said, asked.caller.who)
        }
        links = {asked.members[number][0] for number in bad} - {""}
        for number in list(asked.at):
            if number in bad or asked.members[number][0] in links:
                asked.gone[number] = asked.at.pop(number)
        if asked.gone and not asked.at:
            asked.must_end = asked.must_end or "denied"

    def revoke(self) -> None:
        """Credentials of an identity, that of a caller or of services, in mid-stream."""
        self.settle()  # what is as old as the revocation is not older
        who = self.rng.choice((*CALLERS, *OWNERS))
        world = self.net.worlds[self.rng.choice(BROKERS)]
        world.core.cluster.set_revocation(f"certificate:{who}", world.at_ms, self.net.now)
        for number, service in list(self.services.items()):
            if service.who == who:
                self.left(number, "revoked")
        if who in self.callers:
            self.cut(who)
        self.settle()

    def cut(self, who: str) -> None:
        """The connection of a caller ends, and all that it has asked."""
        caller = self.callers.pop(who)
        self.retired.append(caller)
        self.asked = {number: asked for number, asked in self.asked.items() if asked.caller is not caller}

    def answer(self) -> None:
        """A request is answered: so it was still there."""
        self.settle()
        open_ones = [(n, a) for n, a in self.asked.items() if a.streams and not a.caller.is_asleep]
        if open_ones:
            self.let_answer(*self.rng.choice(open_ones))

    def let_answer(self, number: int, asked: Asked) -> None:
        at = next((at for at in asked.streams if at in asked.at and not asked.at[at].is_asleep), None)
        if at is None:
            return
        is_one = asked.kind == REQUEST_RESPONSE
        asked.at[at].wire.answer(asked.streams[at], b"yes", NEXT | COMPLETE if is_one else NEXT)
        self.net.pump()
        got = [(frame.stream_id, frame.data) for frame in asked.caller.read() if frame.kind == PAYLOAD]
        assert got == [(asked.stream_id, b"yes")], (number, at, got)
        if is_one:
            del self.asked[number]

    def give_up(self) -> None:
        self.settle()
        open_ones = [number for number, asked in self.asked.items() if not asked.caller.is_asleep]
        if open_ones:
            self.cancel(self.rng.choice(open_ones))
            self.settle()

    def cancel(self, number: int) -> None:
        asked = self.asked.pop(number)
        asked.caller.wire.cancel(asked.stream_id)

    def ask(self) -> None:
        rng = self.rng
        awake = [caller for caller in self.callers.values() if not caller.is_asleep]
        if not awake:
            return
        routing, kind = rng.choice((UNICAST, UNICAST, MULTICAST, MULTICAST, SHARD)), rng.choice(KINDS)
        wanted = [("service", rng.choice(ASKED_FOR))] if rng.random() < 0.7 else []
        wanted += [("region", rng.choice(REGIONS))] if rng.random() < 0.1 or not wanted else []
        if rng.random() < 0.1:
            wanted = [("route_id", id_text(route_id(rng.randint(1, ROUTES_N))))]
        self.asked_n += 1
        asked = Asked(rng.choice(awake), 2 * self.asked_n + 1, wanted, routing, kind)
        hints = [Tag(LB_METHOD, rng.choice((b"random", b"round_robin", b"p2c", b"sticky")))]
        if routing == SHARD or (routing == UNICAST and rng.random() < 0.3):
            asked.keys = {"user"}
            wanted.append(("user", rng.choice("123456")))
            hints.append(Tag(SHARD_KEY if routing == SHARD else STICKY_ROUTE_KEY, b"user"))
        if rng.random() < 0.1:
            asked.origin = rng.randint(1, ROUTES_N)
        raw = Address(route_id(asked.origin), [Tag.of(*pair) for pair in wanted], hints, flags=routing).encode()
        mark = b"<%d>" % self.asked_n
        if kind == METADATA_PUSH:
            asked.caller.wire.send(encode_metadata_push(addressed(raw, ("text/plain", mark))))
        else:
            asked.caller.wire.send(encode_request(kind, asked.stream_id, mark, addressed(raw), 8))
        self.net.pump()
        self.asked[self.asked_n] = asked
        self.decide(self.asked_n, asked, self.arrived(), False)
        self.check()

    # What must be so

    def decide(self, number: int, asked: Asked, arrived: dict[int, list[int]], is_anew: bool) -> None:
        """What became of a request, which has just come, or has waited until now. `arrived`: where, by its number."""
        matched = self.matched(asked)
        allowed = self.allowed(asked, matched)
        free = [n for n in allowed if (self.services[n].broker, n) not in self.drained]
        there = arrived.get(number, [])
        context = (number, asked.caller.who, asked.wanted, matched, allowed, free, there)
        waits = self.waits and asked.kind != METADATA_PUSH
        origin = self.services.get(asked.origin)
        asked.is_waiting = isinstance(asked.caller.wire.peer.streams.get(asked.stream_id), PendingRequest)
        if origin is not None and not asked.is_waiting:
            assert there == [], context
            asked.must_end = "denied"
        elif origin is not None and not is_anew:
            assert not free or asked.routing == SHARD, context  # it waits, and would be denied if there was a route
        elif matched and not allowed:
            assert there == [], context
            if not asked.is_waiting:
                asked.must_end = "denied"
            else:
                assert not is_anew, context
        elif not free or (asked.routing == SHARD and free != allowed and not there and not self.asleep(free)):
            assert there == [], context
            assert asked.is_waiting == waits, context
            if not waits:
                asked.must_end = "draining" if allowed else "no-route"
        else:
            assert not asked.is_waiting, context
            self.take(asked, there, free, context)
        if not asked.has_answer and not asked.is_waiting:
            asked.must_end = ""
            asked.may_end = True

    def asleep(self, numbers: list[int]) -> list[int]:
        return [number for number in numbers if self.services[number].is_asleep]

    def take(self, asked: Asked, there: list[int], free: list[int], context: object) -> None:
        """Those who may get it have got it, or will when they wake."""
        late = self.asleep(free)
        if asked.routing == MULTICAST:
            assert sorted(there + late) == free, context
            has_it = free
        else:
            assert len(there) == 1 or (there == [] and late), context
            assert set(there) <= set(free), context
            has_it = there or late
        for n in has_it:
            asked.at[n] = self.services[n]
            asked.members[n] = (self.link_to(asked, n), self.routes[n])

    def link_to(self, asked: Asked, number: int) -> str:
        """Which link a branch of a multicast goes over; empty: it is one of its own."""
        here, there = asked.caller.broker, self.services[number].broker
        if here == there or asked.routing != MULTICAST:
            return ""
        return there if self.shape == "ring" else "b2" if here != "b2" else there

    def settle(self, is_anew: bool = False) -> None:
        """After a step all is as the model says. `is_anew`: all that waits is decided upon anew."""
        self.net.pump()
        self.net.advance(0.3)
        arrived = self.arrived()
        for number, asked in self.asked.items():
            if asked.is_waiting:
                self.decide(number, asked, arrived, is_anew)
        self.check()

    def arrived(self) -> dict[int, list[int]]:
        """Requests that have come since the last look, by their number: at which routes, in order."""
        found: dict[int, list[int]] = {}
        for route, service in self.services.items():
            frames = service.read()
            assert service.word == "", (route, service.word)
            for frame in frames:
                if frame.kind in KINDS:
                    mark = MARK.search(frame.raw)
                    assert mark is not None
                    number = int(mark[1])
                    asked = self.asked.get(number)
                    if asked is None or route in asked.gone:  # it was asked when it was allowed
                        continue
                    if asked.is_waiting or (not asked.at and not asked.must_end and not asked.gone):
                        found.setdefault(number, []).append(route)
                    else:
                        assert asked.at.get(route) is service, (number, route)
                    asked.streams[route] = frame.stream_id
                elif frame.kind == CANCEL:
                    self.told(service, frame.stream_id)
        return {number: sorted(routes) for number, routes in found.items()}

    def told(self, service: End, stream_id: int) -> None:
        """A service was told that a stream of it is over: for some reason that the model has, too."""
        self.over.add((service, stream_id))
        for number, asked in self.asked.items():
            for route, there in list(asked.at.items()):
                if there is service and asked.streams.get(route) == stream_id:
                    assert asked.must_end or asked.may_end, (number, route, "is over without a reason")
                    del asked.at[route]

    def check(self) -> None:
        """What has ended, and what has not."""
        for end in self.retired:
            end.wire.received()
        self.retired = []
        for who, caller in self.callers.items():
            if caller.is_asleep:
                continue
            for frame in caller.read():
                number = (frame.stream_id - 1) // 2
                asked = self.asked.get(number)
                if frame.kind == ERROR or (frame.kind == PAYLOAD and frame.flags & COMPLETE):
                    assert asked is not None, (number, frame)
                    asked.ended = frame.text.partition(":")[0] if frame.kind == ERROR else "complete"
                if frame.kind == CANCEL:  # nobody listens to a channel any more
                    assert asked is None or asked.may_end, (number, frame)
            assert caller.word == "", (who, caller.word)
        for number, asked in list(self.asked.items()):
            if asked.caller.is_asleep:
                continue
            for route, end in asked.gone.items():
                if self.services.get(route) is end and not end.is_asleep and route in asked.streams:
                    assert (end, asked.streams[route]) in self.over, (number, route, "goes on")
            if asked.must_end:
                assert asked.ended, (number, asked.must_end, "has not ended")
                assert asked.must_end in ("?", asked.ended), (number, asked.must_end, asked.ended)
            elif asked.ended:
                assert asked.may_end, (number, asked.ended, "ended without a reason")
            if asked.ended or not (asked.has_answer or asked.is_waiting):
                del self.asked[number]

    def matched(self, asked: Asked) -> list[int]:
        """Who carries all that is wanted, redirected; without the tags of keys where nobody does (D-22)."""
        wanted = {(key, self.redirects.get(value, value) if key == "service" else value) for key, value in asked.wanted}
        found = sorted(number for number, tags in self.routes.items() if wanted <= tags)
        others = {(key, value) for key, value in wanted if key not in asked.keys}
        return found or sorted(number for number, tags in self.routes.items() if others and others <= tags)

    def finish(self) -> None:
        """All that must still be there answers, and then nothing is left."""
        for end in (*self.services.values(), *self.callers.values()):
            if end.is_asleep:
                end.wake()
        self.settle()
        for number, asked in list(self.asked.items()):
            self.let_answer(number, asked)
        for number in list(self.asked):
            self.cancel(number)
        self.net.pump()
        left = [each for world in self.net.worlds.values() for each in world.left_over()]
        assert left == []


def test_in_a_cluster_nobody_is_reached_whom_a_role_does_not_allow_and_nobody_denied_whom_it_does() -> None:
    for seed in range(FIRST, FIRST + WORLDS_N):
        world = ClusterWorld(seed)
        try:
            for _ in range(STEPS_N):
                world.step()
            world.finish()
        except AssertionError as error:
            raise AssertionError(f"world {seed}, {world.shape}") from error
