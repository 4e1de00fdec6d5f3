"""A process without a process: a fake wire's core, and what an admin API wants to know besides."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from broker.config.options import Config
from broker.config.sections.process import BrokerOptions
from broker.config.sections.samwise import SamwiseOptions
from broker.core import Core, CoreSettings
from broker.edge.event_pipe import PipeState
from broker.views.schemas import DialView, EdgeView, Moment
from rsocket_wire.rsocket.frames import REQUEST_FNF, REQUEST_RESPONSE
from rsocket_wire.wire.annotations import Annotations
from tests.admin_api.feed import FakeFeed
from tests.admin_api.gateway import FakeGateway
from tests.fakes import World, address
from tests.topology import Net

T = TypeVar("T")
PIPE_STATE = PipeState(
    pid=42,
    backlog_bytes=10,
    held_bytes=20,
    written=100,
    sealed=90,
    dropped=5,
    segments=3,
    restarts=1,
    error="disk full",
    wal_bytes=30,
    recovered=7,
    torn_bytes=2,
    free_bytes=1 << 30,
    removed=4,
    unread_bytes=50,
    silent_readers=1,
    single_requests=60,
    defined_flows=8,
)


class FakeAdmin:
    """An `admin_api.processes.BrokerProcess` on a World."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.config = Config(broker=BrokerOptions(name="eu-1"))
        self.listeners = ["tcp://127.0.0.1:7878", "ws://127.0.0.1:7879"]
        self.is_ready = True
        self.is_stopping = False
        self.files: PipeState | None = None
        self.unknown: list[DialView] = []
        self.gateway: FakeGateway | None = None
        self.feed: FakeFeed | None = None
        self.seen = EdgeView({("PeerClosed", True): 10, ("PeerClosed", False): 1481}, 3, 2)

    @property
    def core(self) -> Core:
        return self.world.core

    def moment(self) -> Moment:
        return Moment(self.world.now, self.world.at_ms)

    def keep(self, gateway: FakeGateway | None) -> None:
        """Has this Samwise gateway from now on; None: none."""
        self.gateway = gateway
        self.config = replace(self.config, samwise=gateway.options if gateway is not None else SamwiseOptions())

    def keep_feed(self, feed: FakeFeed) -> None:
        """Has this feed from now on."""
        self.feed = feed
        self.config = replace(self.config, feed=feed.options)

    def event_state(self) -> PipeState | None:
        return self.files

    def edge(self) -> EdgeView:
        return self.seen

    def lookups(self) -> list[DialView]:
        return self.unknown

    def change(self, change: Callable[[Core, float], T]) -> T:
        changed = change(self.core, self.world.now)
        self.world.pump()
        return changed


def shop() -> World:
    """Two routes of orders, one of billing, and a caller; 7 seconds later. Nothing was asked yet."""
    world = World()
    world.service("orders", 1, region="eu", zone="a")
    world.service("orders", 2, region="us", zone="a")
    world.service("billing", 3, framed=False, region="eu", canary=None)
    world.caller()
    world.advance(7)
    return world


def shop_with_traffic() -> World:
    """In the shop: an answer after 3 ms and one that is being waited for from orders in eu, one fire-and-forget to
    billing, and one request for what nobody offers. Counted."""
    world = shop()
    orders, caller = world.wires[1], world.wires[4]
    caller.request(REQUEST_RESPONSE, 1, address(service="orders", region="eu"), b"a book")
    world.now += 0.003
    orders.answer(orders.one().stream_id, b"yes")
    caller.request(REQUEST_FNF, 3, address(service="billing"))
    caller.request(REQUEST_RESPONSE, 5, address(service="shipping"))
    caller.request(REQUEST_RESPONSE, 7, address(service="orders", region="eu"))
    world.advance(1)
    return world


def islands() -> Net:
    """Brokers b1, b2 and b3 in a line; orders at b1 and b3, billing at b2. b2 also calls b9, which does not exist."""
    edges = [("b1", "b2"), ("b2", "b3"), ("b2", "b9")]
    net = Net(["b1", "b2", "b3"], edges, make=lambda name: CoreSettings(broker_name=name, max_hops=30))
    net.worlds["b1"].service("orders", 1, region="eu")
    net.worlds["b2"].service("billing", 2)
    net.worlds["b3"].service("orders", 3, region="us")
    net.advance(3)  # they have compared what they know
    dial = next(each for each in net.worlds["b2"].core.cluster.dials.state() if each.url == "tcp://b9:7878")
    dial.attempts, dial.error, dial.next_at = 4, "connection refused", net.now + 0.25
    return net


def came(world: World, *trace: str, times: int = 1) -> None:
    """Requests came by way of these brokers."""
    hops = world.core.engine.annotations
    section = hops.read(Annotations(0, None, trace[0], list(trace)).encode())
    for _ in range(times):
        section.path.requests += 1
        section.path.last_at = world.now
        hops.arrived(section.hops_n)
