"""The same world of honest callers and services as in `history.py`, at several linked brokers.

What brokers say to each other arrives when chance lets it, link by link and in order: so tables are out of date,
decisions do not hold, credit and ends cross on the way. On top of what `history.py` watches:

    a service gets the caller's metadata as a caller that is connected beside it would have written it: no section
    no broker refuses a request for a loop, and no link ends but those that are broken on purpose
    what is kept for a second try is let go
"""

import random
from collections import deque

from broker.core import CoreSettings
from broker.forwarding.mime_translation import Mimes, passes, translate
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import ERROR, FOLLOWS, PAYLOAD
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE
from tests.broker.forwarding.brokers import caller_mimes
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import Frame, Wire, World, addressed, composite
from tests.fuzz.history import Caller, History, Member
from tests.topology import LINKED_S, End, Net

PAIRS = (
    (COMPOSITE_MIME, "text/plain"),
    (COMPOSITE_MIME, "text/plain"),
    (COMPOSITE_MIME, "application/octet-stream"),
    (MIME_TYPE, "text/plain"),
    ("application/json", "text/plain"),
)


class SlowNet(Net):
    """Brokers whose words to each other stay on the wire until they are let go, in order on each link."""

    def __init__(self, names: list[str], edges: list[tuple[str, str]], settings: dict[str, CoreSettings]) -> None:
        self.under_way: dict[End, deque[bytes | None]] = {}
        self.is_slow = False
        super().__init__(names, edges, make=lambda name: settings[name])

    def pump(self) -> None:
        if not self.is_slow:
            super().pump()
            return
        for world in self.worlds.values():
            world.now = self.now
            world.pump()
        while self.wire:
            end, raw = self.wire.popleft()
            self.under_way.setdefault(end, deque()).append(raw)

    def slow_down(self) -> None:
        """From now on nothing arrives by itself."""
        self.is_slow = True

    def let_one_go(self, rng: random.Random) -> None:
        """The oldest frame of one link arrives."""
        ends = [end for end, frames in self.under_way.items() if frames]
        if not ends:
            return
        end = rng.choice(ends)
        raw = self.under_way[end].popleft()
        if raw is None:
            self._close(end)
        else:
            self._deliver(end, raw)
        self.pump()

    def hurry(self) -> None:
        """Everything arrives, and what is said then too, until `slow_down`."""
        self.is_slow = False
        while any(self.under_way.values()):
            for end, waiting in list(self.under_way.items()):
                while waiting:
                    self.wire.append((end, waiting.popleft()))
            self.pump()
        self.pump()

    def break_link(self, a: str, b: str) -> None:
        """What is under way on it is lost."""
        for end in self.under_way:
            if {end.name, end.other.name} == {a, b}:
                self.under_way[end].clear()
        super().break_link(a, b)


class FarMember(Member):
    """A service whose route may have been at other brokers."""

    def __init__(self, wire: Wire, number: int, route: int, service: str, region: str) -> None:
        super().__init__(wire, number, service, region)
        self.route = route


class FarHistory(History):
    """The world, and what happened in it, at the brokers of a net."""

    def __init__(self, net: SlowNet, seed: str) -> None:
        super().__init__(world=net.worlds[net.names[0]])
        self.net = net
        self.rng = random.Random(seed)
        self.raws: dict[int, tuple[bytes, bytes]] = {}  # request -> its metadata, and the ADDRESS in it
        self.broken_n = 0
        self.sending: tuple[Wire, int] | None = None  # who is in the middle of an item, and on which stream
        self.cut: dict[tuple[int, int], Frame] = {}  # requests whose metadata is not whole, by member and stream
        self.regions_then: dict[tuple[int, int], set[str]] = {}  # of the member when their first frame came
        net.advance(LINKED_S)
        net.slow_down()

    @property
    def worlds(self) -> list[World]:
        return list(self.net.worlds.values())

    def join(self, service: str, region: str) -> None:
        self.members_n += 1
        number = self.members_n
        world = self.some_world()
        pair = self.rng.choice(PAIRS[:4])
        wire = world.service(service, number, number % 3 > 0, *pair, region=region)
        self.members.append(FarMember(wire, number, number, service, region))
        self.look()

    def some_world(self) -> World:
        """A broker that is there."""
        return self.net.worlds[self.rng.choice(list(self.net.worlds))]

    def reconnect(self, member: Member) -> None:
        """The service goes, and its route comes at another broker, perhaps before the old one is gone."""
        assert isinstance(member, FarMember)
        if self.rng.random() < 0.5:
            self.lose_member(member)
        world = self.some_world()
        self.members_n += 1
        wire = world.service(member.service, member.route, region=member.region)
        self.members.append(FarMember(wire, self.members_n, member.route, member.service, member.region))
        if not member.wire.is_lost:
            member.wire.lose()
            member.wire.received()
            self.lose_member(member)
        self.look()

    def move(self, member: Member, region: str) -> None:
        """What was decided before others know comes no more. D-62"""
        assert isinstance(member, FarMember)
        member.region = region
        member.regions.add(region)
        member.wire.announce(member.route, member.service, region=region)
        self.look()

    def rename(self, member: Member) -> None:
        """The same connection says another Route Id, or two: that nobody had, or somebody has or had anywhere."""
        assert isinstance(member, FarMember)
        for _ in range(self.rng.choice((1, 2))):
            member.route = self.rng.randrange(1, self.members_n + 2)
            member.wire.announce(member.route, member.service, region=member.region)
        self.look()

    def come(self) -> None:
        world = self.some_world()
        pair = self.rng.choice(PAIRS[:4])
        self.callers.append(Caller(world.caller(len(self.callers) % 2 == 0, *pair)))

    def ask(self, caller: Caller, model: int, routing: int, service: str, region: str, n: int, cuts: int) -> None:
        """A new request, whose metadata may be cut, too."""
        if caller.wire.is_paused:
            return
        ask, raw = self.begin(caller, model, routing, service, region, n)
        is_composite = caller.wire.mimes[0] == COMPOSITE_MIME
        metadata = addressed(raw, ("text/plain", b"m%d" % ask.number)) if is_composite else raw
        if is_composite and self.rng.random() < 0.2:
            metadata = composite(caller_mimes(*self.rng.choice(PAIRS))) + metadata  # what only brokers mean
        self.raws[ask.number] = metadata, raw
        data, to = ask.opening(9), len(metadata)
        named_to = to + len(b"%d" % ask.number)
        places = sorted(self.rng.sample([*range(1, to + 1), *range(named_to, to + len(data))], cuts))
        self.send_request(ask, metadata, data, places, n)

    def congest_link(self, is_congested: bool) -> None:
        """A link does not take what is written to it, or does again."""
        ends = [end for end in self.net.ends if not end.is_lost]
        if not ends:
            return
        end = self.rng.choice(ends)
        if is_congested:
            end.world.core.congested(end.peer)
        else:
            end.world.core.relieved(end.peer, self.net.now)
        self.look()

    def relieve_links(self) -> None:
        for end in self.net.ends:
            if not end.is_lost:
                end.world.core.relieved(end.peer, self.net.now)

    def break_some_link(self) -> None:
        """It is dialled again when time passes."""
        a, b = self.rng.choice(self.net.edges)
        self.net.break_link(a, b)
        self.broken_n += 1
        self.look()

    def wait(self, seconds: float) -> None:
        was_slow = self.net.is_slow
        self.relieve_links()  # or they end: no KEEPALIVE passes
        self.net.hurry()
        self.net.advance(seconds)
        self.net.is_slow = was_slow
        self.look()

    def end_broker(self, in_order: bool) -> None:
        """One stops, or is killed, with all that is connected there. It begins anew when `start_brokers` says so."""
        alive = list(self.net.worlds)
        if len(alive) < 2:
            return
        name = self.rng.choice(alive)
        world = self.net.worlds[name]
        if in_order:
            world.core.stop("a restart", self.net.now)
            self.net.pump()
        self.members = [each for each in self.members if each.wire.world is not world]
        for caller in self.callers:
            for ask in caller.asks.values():
                if caller.wire.world is world:
                    ask.end = ask.end or "lost"
        self.callers = [each for each in self.callers if each.wire.world is not world]
        self.gone = [wire for wire in self.gone if wire.world is not world]
        self.net.kill(name)
        self.broken_n += 1
        self.look()

    def start_brokers(self) -> None:
        """Those that have ended begin anew; who was connected there does not come back."""
        for name in self.net.names:
            if name not in self.net.worlds:
                self.net.start(name)
        self.look()

    def catch_up(self) -> None:
        """All that brokers have said arrives."""
        self.net.hurry()
        self.net.slow_down()
        self.look()

    def look(self) -> None:
        self.net.pump()
        while self.rng.random() < 0.6:
            self.net.let_one_go(self.rng)
        super().look()

    def relieve_all(self) -> None:
        self.start_brokers()
        self.net.hurry()
        self.relieve_links()
        for wire in self.wires:
            if not wire.is_lost:
                self.congest(wire, False)
        self.wait(1.0)  # other brokers hear that routes are no longer behind

    def check_over(self) -> None:
        super().check_over()
        wires = [wire for world in self.worlds for wire in world.wires.values()]
        assert [(wire.peer.name, wire.peer.waiting_bytes) for wire in wires if wire.peer.waiting_bytes] == []
        worlds = self.net.worlds
        between = [end for end in self.net.ends if all(each.world is worlds[each.name] for each in (end, end.other))]
        details = {end.peer.end_detail for end in between if end.is_lost}
        assert details <= {"connection reset"}, details

    def _at_member(self, member: Member, frame: Frame) -> None:
        """Puts the metadata of a request together before anybody looks at it."""
        if frame.kind == ERROR and not frame.stream_id:
            assert frame.text.startswith("replaced: "), frame  # its newer self is at another broker
            self.lose_member(member)
            return
        key = (member.number, frame.stream_id)
        first = self.cut.get(key)
        if first is None:
            if frame.kind in MODELS and frame.flags & FOLLOWS and not frame.data:
                self.cut[key] = frame
                self.regions_then[key] = set(member.regions)
            else:
                super()._at_member(member, frame)
        elif frame.kind in (frames.CANCEL, ERROR):
            del self.cut[key], self.regions_then[key]
        else:
            n = first.n + (frame.n if frame.kind == frames.REQUEST_N else 0)
            follows = frame.flags & FOLLOWS if frame.kind == PAYLOAD else FOLLOWS
            metadata = (first.metadata or b"") + (frame.metadata or b"")
            data = frame.data if frame.kind == PAYLOAD else b""
            whole = Frame(frames.encode_request(first.kind, frame.stream_id, data, metadata, n, follows))
            if data or not follows:
                del self.cut[key]
                member.regions |= self.regions_then.pop(key)
                super()._at_member(member, whole)
            else:
                self.cut[key] = whole

    def _send(self, wire: Wire, stream_id: int, text: bytes, is_cut: bool, flags: int = 0) -> None:
        self.sending = wire, stream_id
        super()._send(wire, stream_id, text, is_cut, flags)
        self.sending = None

    def _begin(self, member: Member, frame: Frame) -> None:
        if frame.kind == frames.CANCEL and self.sending == (member.wire, frame.stream_id):
            return  # between two fragments of its answer
        super()._begin(member, frame)
        if frame.kind not in MODELS:
            return
        ask = self.asks[int(frame.data.rstrip(b".").split(b" ")[0])]
        metadata, raw = self.raws[ask.number]
        said, read = Mimes(1, *ask.caller.wire.mimes), Mimes(2, *member.wire.mimes)
        expected = metadata if passes(said, read) else translate(metadata, raw, said, read, True).metadata
        assert frame.metadata == expected, f"request {ask.number}: {frame.metadata!r} in place of {expected!r}"
