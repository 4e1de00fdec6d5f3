"""Who is no broker of the cluster and would be one: by guessing its secret, by the wrong door, without encryption."""

import ssl

import pytest

from broker.cluster.links.admissions import MAX_STRANGERS
from broker.connections.guesses import WRONG_PER_S
from broker.connections.rate_limits import BURST_S
from broker.edge import origins
from broker.server import Server
from rsocket_wire.errors import REJECTED_RESUME, REJECTED_SETUP
from rsocket_wire.rsocket.frames import ERROR, KEEPALIVE, METADATA_PUSH, Resume
from tests.conformance import scripts
from tests.conformance.links import OCTETS, proof, value_of
from tests.conftest import MakeServer
from tests.fakes import Frame
from tests.system.support.certificates import Authority
from tests.system.support.waits import until
from tests.system.support.wires import Wire

SECRET = "correct horse battery staple"
AT_MS = 1_700_000_000_000
NONCE = bytes(16)
CLUSTER = {"cluster.secret": SECRET, "broker.name": "b1"}


def ours(server: Server, number: int, heard: Frame, role: bytes = b"dial") -> bytes:
    """The proof of a broker of this number, which knows the secret and was told this."""
    nonce = value_of(heard.raw, "nonce", 16)
    return proof(role, scripts.ident(0xA000 + number), server.core.broker_id, nonce, NONCE, secret=SECRET.encode())


def says(number: int, *more: scripts.AnyTag, at_ms: int = AT_MS) -> bytes:
    """What the attacker says of itself; each time it is another broker."""
    name = ("name", f"a{number}")
    version = ("qd.annotations-version", scripts.u32(1))
    return scripts.forwarding(scripts.broker_info(at_ms, name, version, *more, broker=scripts.ident(0xA000 + number)))


async def greet(server: Server, number: int, context: ssl.SSLContext | None = None) -> tuple[Wire, Frame]:
    """A greeting, and what comes behind it: an answer, or, where there is none yet, that of a KEEPALIVE."""
    wire = await Wire.connect((server.link_listeners or server.listeners)[0], context)
    wire.send(scripts.setup(scripts.COMPOSITE, says(number, ("nonce", NONCE)), OCTETS))
    wire.send(scripts.frame(0, KEEPALIVE, 0x80, bytes(8)))
    return wire, await wire.receive()


def prove(wire: Wire, number: int, said: bytes) -> None:
    wire.send(scripts.push(says(number, ("proof", said))))


async def guess(wire: Wire, number: int, said: bytes = bytes(32)) -> Frame:
    """A proof that is none, and the last that comes then."""
    prove(wire, number, said)
    return (await wire.rest())[-1]


def tls_options(authority: Authority, principals: str) -> dict[str, object]:
    """Of a broker whose neighbours show certificates of this authority, with one of these names."""
    files = {"tls.certificate": authority.certificate("broker"), "tls.key": authority.key("broker")}
    trusted = {"cluster.ca": authority.root, "tls.client_ca": authority.root, "cluster.auth": "tls"}
    named = {"broker.name": "b1", "cluster.principals": principals, "cluster.listen": "tls://127.0.0.1:0"}
    return files | trusted | named


def linked(server: Server) -> list[str]:
    return [link.info.name for link in server.core.cluster.links() if link.is_up and link.info is not None]


async def test_guesses_at_the_secret_are_slowed_down(make_server: MakeServer) -> None:
    """Over one connection after another, each at once when the one before was refused: 2,600 a second were judged."""
    server = await make_server(**CLUSTER)
    burst_n = int(WRONG_PER_S * BURST_S)
    for number in range(burst_n):
        wire, _ = await greet(server, number)
        assert (await guess(wire, number)).text.startswith("wrong-secret:")
    wire, answer = await greet(server, burst_n)
    assert answer.kind == KEEPALIVE  # what a guess could be made of comes a second later


async def test_greetings_keep_no_broker_away(make_server: MakeServer) -> None:
    """All places are taken by who greets and proves nothing, from where the true broker is, too."""
    server = await make_server(**CLUSTER)
    for number in range(MAX_STRANGERS + 1):
        await greet(server, number)
    other = await make_server(**CLUSTER | {"broker.name": "b2", "cluster.peers": server.listeners[0]})
    await until(lambda: linked(other) == ["b1"])
    assert linked(server) == ["b2"]


async def test_what_was_overheard_proves_nothing(make_server: MakeServer) -> None:
    """Neither a proof of another connection, nor one that the broker itself would give."""
    server = await make_server(**CLUSTER)
    wire, heard = await greet(server, 1)
    assert not [word for word in (b"proof", b"url", b"neighbour") if word in heard.raw]
    overheard = ours(server, 1, heard)
    prove(wire, 1, overheard)
    await until(lambda: linked(server) == ["a1"])
    await wire.close()
    await until(lambda: linked(server) == [])
    wire, heard = await greet(server, 1)
    assert (await guess(wire, 1, overheard)).text.startswith("wrong-secret:")
    wire, heard = await greet(server, 1)
    assert (await guess(wire, 1, ours(server, 1, heard, b"accept"))).text.startswith("wrong-secret:")
    assert linked(server) == []


async def test_no_secret_is_proved_where_others_can_read(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await make_server(**CLUSTER)
    monkeypatch.setattr(origins, "is_loopback", lambda _: False)  # as another machine sees it
    _, heard = await greet(server, 1)
    assert (heard.code, heard.text.partition(":")[0]) == (REJECTED_SETUP, "no-cluster")


async def test_a_certificate_of_somebody_else_is_none_of_a_broker(
    make_server: MakeServer, authority: Authority
) -> None:
    """Of a client, and of another broker; both are of the authority that signs those of brokers."""
    authority.sign("a1", "subjectAltName=DNS:a1.example\n")
    server = await make_server(**tls_options(authority, "certificate:a1.example"))
    for name, number in (("client", 1), ("a1", 2)):
        _, heard = await greet(server, number, authority.client_context(name))
        assert heard.text.startswith("wrong-secret:")
    wire, heard = await greet(server, 1, authority.client_context("a1"))
    wire.send(scripts.push(says(1)))
    await until(lambda: linked(server) == ["a1"])


async def test_a_subject_of_which_one_attribute_reads_like_two_is_none_of_a_broker(
    make_server: MakeServer, authority: Authority
) -> None:
    """Of the same authority; attributes are compared one by one (D-66)."""
    authority.sign("forged", "subjectAltName=DNS:a1\n", "/O=Acme, commonName=broker-1")
    authority.sign("real", "subjectAltName=DNS:a1\n", "/O=Acme/CN=broker-1")
    authority.sign("comma", "subjectAltName=DNS:a2.example\n", "/O=Acme, Inc./CN=broker-2")
    principals = "organizationName=Acme, commonName=broker-1; O=Acme\\, Inc., CN=broker-2"
    server = await make_server(**tls_options(authority, principals))
    for name, number, is_let_in in (("forged", 1, False), ("real", 1, True), ("comma", 2, True)):
        _, heard = await greet(server, number, authority.client_context(name))
        assert (heard.kind, heard.data[:13] == b"wrong-secret:") == (
            (METADATA_PUSH, False) if is_let_in else (ERROR, True)
        )


async def test_a_broker_announces_so_many_routes_and_no_more(make_server: MakeServer) -> None:
    server = await make_server(**CLUSTER | {"cluster.max_routes": 5})  # two brokers, and three routes
    wire, heard = await greet(server, 1)
    prove(wire, 1, ours(server, 1, heard))
    await until(lambda: linked(server) == ["a1"])
    id = scripts.ident(0xA001)
    neighbour = ("neighbour", server.core.broker_id + scripts.u16(10))
    wire.send(scripts.push(says(1, neighbour, at_ms=AT_MS + 1)))
    for number in range(1, 40):
        wire.send(scripts.push(scripts.forwarding(scripts.route_add(number, AT_MS, "orders", broker=id))))
    await until(lambda: server.core.cluster.adverts_ignored >= 30)
    assert server.core.table.size() == 3


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
