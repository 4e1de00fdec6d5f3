"""Who is no broker of the cluster and would be one: by guessing its secret, by the wrong door, without encryption."""

from broker.connections.guesses import WRONG_PER_S
from broker.connections.rate_limits import BURST_S
from broker.server import Server
from rsocket_wire.errors import REJECTED_RESUME, REJECTED_SETUP
from rsocket_wire.rsocket.frames import KEEPALIVE, Resume
from tests.conformance import scripts
from tests.conformance.links import OCTETS
from tests.conftest import MakeServer
from tests.fakes import Frame
from tests.system.support.waits import until
from tests.system.support.wires import Wire

SECRET = "correct horse battery staple"
AT_MS = 1_700_000_000_000
NONCE = bytes(16)
CLUSTER = {"cluster.secret": SECRET, "broker.name": "b1"}


def says(number: int, *more: scripts.AnyTag) -> bytes:
    """What the attacker says of itself; each time it is another broker."""
    name = ("name", f"a{number}")
    version = ("qd.annotations-version", scripts.u32(1))
    return scripts.forwarding(scripts.broker_info(AT_MS, name, version, *more, broker=scripts.ident(0xA000 + number)))


async def greet(server: Server, number: int) -> tuple[Wire, Frame]:
    """A greeting, and what comes behind it: an answer, or, where there is none yet, that of a KEEPALIVE."""
    wire = await Wire.connect(server.listeners[0])
    wire.send(scripts.setup(scripts.COMPOSITE, says(number, ("nonce", NONCE)), OCTETS))
    wire.send(scripts.frame(0, KEEPALIVE, 0x80, bytes(8)))
    return wire, await wire.receive()


async def guess(wire: Wire, number: int) -> Frame:
    """A proof that is none, and the last that comes then."""
    wire.send(scripts.push(says(number, ("proof", bytes(32)))))
    return (await wire.rest())[-1]


async def test_guesses_at_the_secret_are_slowed_down(make_server: MakeServer) -> None:
    """Over one connection after another, each at once when the one before was refused: 2,600 a second were judged."""
    server = await make_server(**CLUSTER)
    burst_n = int(WRONG_PER_S * BURST_S)
    for number in range(burst_n):
        wire, _ = await greet(server, number)
        assert (await guess(wire, number)).text.startswith("wrong-secret:")
    wire, answer = await greet(server, burst_n)
    assert answer.kind == KEEPALIVE  # what a guess could be made of comes a second later


async def test_listeners_for_brokers_take_nobody_else(make_server: MakeServer) -> None:
    server = await make_server(**CLUSTER, **{"cluster.listen": "tcp://127.0.0.1:0"})
    (url,) = server.link_listeners
    client = await Wire.connect(url)
    client.setup()
    (last,) = await client.rest()
    assert (last.code, last.text.partition(":")[0]) == (REJECTED_SETUP, "no-cluster")
    resuming = await Wire.connect(url)
    resuming.send(Resume(b"token", 0, 0).encode())
    (last,) = await resuming.rest()
    assert (last.code, last.text.partition(":")[0]) == (REJECTED_RESUME, "no-cluster")


async def test_listeners_for_clients_take_no_brokers_where_these_have_their_own(make_server: MakeServer) -> None:
    server = await make_server(**CLUSTER, **{"cluster.listen": "tcp://127.0.0.1:0"})
    for url in server.listeners:
        wire = await Wire.connect(url)
        wire.send(scripts.setup(scripts.COMPOSITE, says(1, ("nonce", NONCE)), OCTETS))
        (last,) = await wire.rest()
        assert (last.code, last.text.partition(":")[0]) == (REJECTED_SETUP, "no-cluster")
    (url,) = server.link_listeners
    other = await make_server(**CLUSTER | {"broker.name": "b2", "cluster.peers": url})
    await until(lambda: [link.is_up for link in other.core.cluster.links()] == [True])
    assert server.core.cluster.members[server.core.broker_id].info.urls == [url]
