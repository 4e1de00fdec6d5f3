"""A cluster of brokers in one process: a fake wire between them, a fake clock, and everything that goes wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise

from broker.cluster.settings import ClusterSettings
from broker.core import CoreSettings
from broker.forwarding.outbound import Piece
from broker.forwarding.peer import Peer
from broker.routing.table import Route
from rsocket_wire.wire.ids import id_text
from tests.fakes import Frame, Wire, World, route_id

SECRET = b"a secret of sixteen bytes or more"
STEP_S = 0.05
LINKED_S = 1.5  # until all links of a healthy cluster are up and all brokers know everything


class End(Wire):
    """One end of a connection between two brokers."""

    def __init__(self, net: Net, name: str, peer: Peer) -> None:
        super().__init__(net.worlds[name], peer)
        self.net = net
        self.name = name
        self.other: End
        self.seen: list[Frame] = []  # what this end has sent

    def take(self, pieces: list[Piece], is_ending: bool) -> None:
        for raw in map(bytes, pieces):
            self.seen.append(Frame(raw))
            self.net.wire.append((self, raw))
        if is_ending and not self.is_closed:
            self.is_closed = True
            self.net.wire.append((self, None))


class Net:
    """Brokers by name, and who dials whom."""

    def __init__(
        self,
        names: Iterable[str],
        edges: Iterable[tuple[str, str]],
        mesh: bool = False,
        secrets: dict[str, bytes] | None = None,
        costs: dict[str, int] | None = None,
        make: Callable[[str], CoreSettings] | None = None,
        numbers: dict[str, int] | None = None,
        machines: Iterable[Iterable[str]] = (),
    ) -> None:
        """`numbers`: by which brokers get their ids, if not 1, 2, 3 … `machines`: workers of one machine each."""
        self.now = 100.0
        self.names = list(names)
        self.edges = list(edges)
        self.mesh = mesh
        self.secrets = secrets or {}
        self.costs = costs or {}
        self.make = make or (lambda name: CoreSettings(broker_name=name))
        self.numbers = numbers or {name: number for number, name in enumerate(self.names, 1)}
        self.machines = [list(machine) for machine in machines]
        self.worlds: dict[str, World] = {}
        self.ends: list[End] = []
        self.wire: deque[tuple[End, bytes | None]] = deque()
        self.cut: set[tuple[str, str]] = set()  # (from, to): nothing arrives, and nobody is told
        self.drops: Callable[[str, str, Frame], bool] | None = None  # loses single frames
        self.held: list[tuple[End, bytes]] = []
        self.holds: Callable[[str, str, Frame], bool] | None = None  # keeps frames back until `release`
        self._dials_n = 0
        for name in self.names:
            self.start(name)

    def start(self, name: str, skew_s: float = 0.0) -> World:
        """A broker begins, or begins anew; its clock is ahead by so much."""
        number = self.numbers[name]
        peers = [f"tcp://{to}:7878" for who, to in self.edges if who == name]
        cluster = ClusterSettings(
            self.secrets.get(name, SECRET),
            plaintext=True,
            peers=peers,
            is_mesh=self.mesh,
            urls=[f"tcp://{name}:7878"],
            client_urls=[f"tcp://{name}.example:7878"],
            link_cost=self.costs.get(name, 10),
            mates=[
                route_id(0xB0 + self.numbers[mate])
                for machine in self.machines
                for mate in machine
                if name in machine and mate != name
            ],
        )
        settings = self.make(name)
        world = self.worlds[name] = World(settings, number, number, cluster, self.now, skew_s)
        return world

    def kill(self, name: str) -> None:
        """The process is gone; the systems at the other ends say so at once."""
        del self.worlds[name]
        for end in self.ends:
            if end.name == name:
                end.is_lost = True
                if not end.other.is_lost:
                    end.other.lose()
        self.pump()

    def part(self, *groups: Iterable[str]) -> None:
        """Nothing arrives between brokers of different groups."""
        of = {name: number for number, group in enumerate(groups) for name in group}
        self.cut = {(a, b) for a in self.names for b in self.names if of.get(a) != of.get(b)}

    def heal(self) -> None:
        """Everything arrives again."""
        self.cut = set()

    def break_link(self, a: str, b: str) -> None:
        """The connection between two brokers breaks, and both are told."""
        for end in list(self.ends):
            if {end.name, end.other.name} == {a, b} and not end.is_lost:
                end.lose()
        self.pump()

    def release(self) -> None:
        """What was held back arrives."""
        held, self.held = self.held, []
        self.holds = None
        for end, raw in held:
            self._deliver(end, raw)
        self.pump()

    def link(self, a: str, b: str) -> End:
        """The end at `a` of the link to `b`."""
        return [end for end in self.ends if end.name == a and end.other.name == b and not end.is_lost][-1]

    def advance(self, seconds: float) -> None:
        """Lets time pass everywhere."""
        until = self.now + seconds
        while self.now < until - 1e-9:
            self.now = min(until, self.now + STEP_S)
            for world in list(self.worlds.values()):
                world.now = self.now
                world.core.tick(world.now, world.at_ms)
            self.pump()

    def pump(self) -> None:
        """Until nobody has anything to say."""
        busy = True
        while busy:
            busy = False
            for name, world in list(self.worlds.items()):
                world.now = self.now
                for url in world.core.cluster.take_dials(self.now):
                    self._dial(name, url)
                    busy = True
                world.pump()
            while self.wire:
                end, raw = self.wire.popleft()
                busy = True
                if raw is None:
                    self._close(end)
                else:
                    self._carry(end, raw)

    def tables(self) -> dict[str, dict[str, str]]:
        """What each broker has in its table: Route Id -> the name of the broker that has it."""
        return {name: self.table(name) for name in self.worlds}

    def table(self, name: str) -> dict[str, str]:
        """The table of one broker."""
        world = self.worlds[name]
        return {route.id_text: self.owner(name, route) for route in world.core.table.routes()}

    def owner(self, name: str, route: Route) -> str:
        """The name of the broker that has the route, as `name` knows it."""
        owner = route.owner
        return name if isinstance(owner, Peer) else str(getattr(owner, "name", None))

    def digests(self) -> set[bytes]:
        """What the brokers know; one digest when all agree."""
        return {world.core.cluster.digest(self.now) for world in self.worlds.values()}

    def _dial(self, name: str, url: str) -> None:
        to = url.removeprefix("tcp://").removesuffix(":7878")
        world = self.worlds[name]
        if to not in self.worlds or (name, to) in self.cut or (to, name) in self.cut:
            world.core.cluster.dial_failed(url, "connection refused", self.now)
            return
        self._dials_n += 1
        other = self.worlds[to]
        ours = End(self, name, world.core.dialled(f"tcp {to}:7878", False, self.now, url))
        theirs = End(self, to, other.core.connected(f"tcp {name}:{self._dials_n}", False, self.now))
        ours.other, theirs.other = theirs, ours
        world.wires[ours.peer.id] = ours
        other.wires[theirs.peer.id] = theirs
        self.ends += [ours, theirs]

    def _carry(self, end: End, raw: bytes) -> None:
        pair = (end.name, end.other.name)
        if pair in self.cut or (self.drops is not None and self.drops(*pair, Frame(raw))):
            return
        if self.holds is not None and self.holds(*pair, Frame(raw)):
            self.held.append((end, raw))
            return
        self._deliver(end, raw)

    def _deliver(self, end: End, raw: bytes) -> None:
        other = end.other
        if other.name in self.worlds and self.worlds[other.name] is other.world and not other.is_lost:
            other.world.core.receive(other.peer, raw, self.now)

    def _close(self, end: End) -> None:
        """An end was closed in order: its own broker is told, and the other one unless nothing arrives there."""
        if not end.is_lost:
            end.lose()
        if (end.name, end.other.name) not in self.cut and not end.other.is_lost:
            end.other.lose()


def in_a_line(n: int, is_ring: bool = False) -> tuple[list[str], list[tuple[str, str]]]:
    """b1 ─ b2 ─ b3 …, the ends linked, too, in a ring: names and who dials whom."""
    names = [f"b{i + 1}" for i in range(n)]
    return names, [*pairwise(names), *([(names[-1], names[0])] if is_ring else [])]


def line(n: int) -> Net:
    return Net(*in_a_line(n))


def ring(n: int) -> Net:
    return Net(*in_a_line(n, True))


def star(n: int) -> Net:
    """b1 in the middle of the others."""
    names = [f"b{i + 1}" for i in range(n)]
    return Net(names, [(name, "b1") for name in names[1:]])


def linked(net: Net) -> Net:
    """The same, with all its links up."""
    net.advance(LINKED_S)
    return net


def route_text(number: int) -> str:
    """The id of a route as tables show it."""
    return id_text(route_id(number))
