"""Who may be a neighbour: the secret or the certificate, an id, a name and a place (D-46)."""

import pytest

from broker.cluster.links.dials import REFUSED_S
from rsocket_wire.errors import CONNECTION_ERROR, REJECTED_SETUP
from tests.broker.cluster.links.test_handshakes import URL, links, refused
from tests.conformance.links import AT_MS, OURS, Broker, cluster, proof, value_of
from tests.conformance.scripts import heard, ident
from tests.topology import Net

WRONG = b"another secret of sixteen bytes"
KEY = "wrong-secret: b9 does not know the secret of this cluster (cluster.secret)"


def test_acceptor_with_another_secret_is_refused_by_who_dials() -> None:
    world = cluster()
    stranger = Broker(world, secret=WRONG).accept(URL)
    nonce = value_of(heard(stranger.wire)[0], "nonce", 16)
    stranger.say(stranger.info(AT_MS, ("nonce", stranger.nonce)))
    stranger.prove(nonce, b"accept")
    refused(stranger.wire, CONNECTION_ERROR, KEY)
    assert (links(world), world.core.cluster.refused) == ([], {"wrong-secret": 1})


@pytest.mark.parametrize("edge", [("b1", "b2"), ("b2", "b1")])
def test_brokers_with_different_secrets_never_link_and_say_why(edge: tuple[str, str]) -> None:
    net = Net(["b1", "b2"], [edge], secrets={"b2": WRONG})
    net.advance(3.0)
    dialler, acceptor = (net.worlds[name] for name in edge)
    assert (links(dialler), links(acceptor)) == ([], [])
    assert set(acceptor.core.cluster.refused) == {"wrong-secret"}
    (dial,) = dialler.core.cluster.dials.state()
    assert f"wrong-secret: {edge[0]} does not know the secret of this cluster (cluster.secret)" in dial.error
    assert dial.attempts == 1, "it goes on, and not too fast"
    before = len(net.ends)
    net.advance(10 * REFUSED_S)
    assert 18 <= len(net.ends) - before <= 22, "two ends of each attempt"


def test_nothing_that_was_made_with_the_secret_is_said_to_who_has_proved_nothing() -> None:
    """And nothing about others: neither to who dials, nor to who is found at a URL."""
    world = cluster()
    Broker(world, 0xB2).link()
    dialler, acceptor = Broker(world).dial(), Broker(world, 0xBA).accept(URL)
    for wire in (dialler.wire, acceptor.wire):
        (said,) = heard(wire)
        assert value_of(said, "nonce", 16)
        assert not [word for word in (b"proof", b"url", b"neighbour") if word in said]


def test_a_proof_is_good_for_one_connection() -> None:
    world = cluster()
    other = Broker(world).dial()
    nonce = value_of(heard(other.wire)[0], "nonce", 16)
    raw = other.info(AT_MS, ("proof", proof(b"dial", other.id, OURS, nonce, other.nonce)))
    other.say(raw)
    assert links(world) == ["b9"]
    other.wire.lose()
    again = Broker(world).dial()
    assert value_of(heard(again.wire)[0], "nonce", 16) != nonce
    again.say(raw)
    refused(again.wire, REJECTED_SETUP, KEY)


@pytest.mark.parametrize("last", [b"", b"\xff"])
def test_a_proof_counts_to_its_last_byte(last: bytes) -> None:
    world = cluster()
    other = Broker(world).dial()
    signed = proof(b"dial", other.id, OURS, value_of(heard(other.wire)[0], "nonce", 16), other.nonce)
    assert signed[-1:] not in (b"", b"\xff")
    other.say(other.info(AT_MS, ("proof", signed[:-1] + last)))
    refused(other.wire, REJECTED_SETUP, KEY)


def test_the_proof_of_the_other_end_is_none() -> None:
    """Who dials two brokers, or is dialled by one, gets no answer there that it could give here."""
    world = cluster()
    other = Broker(world).dial()
    other.prove(role=b"accept")
    refused(other.wire, REJECTED_SETUP, KEY)


@pytest.mark.parametrize(("what", "other_value"), [("id", ident(0xBA)), ("name", "b1"), ("version", 0)])
def test_who_is_somebody_else_with_the_proof_is_refused(what: str, other_value: object) -> None:
    world = cluster()
    other = Broker(world).dial()
    nonce = value_of(heard(other.wire)[0], "nonce", 16)
    signed = proof(b"dial", other.id, OURS, nonce, other.nonce)
    setattr(other, what, other_value)
    other.say(other.info(AT_MS, ("proof", signed)))
    refused(other.wire, REJECTED_SETUP, "bad-broker: its id, name or version changed during the handshake")
    assert links(world) == []


@pytest.mark.parametrize("is_dialled", [False, True])
def test_so_many_links_are_up_and_no_more(is_dialled: bool) -> None:
    world = cluster(max_links=2)
    two = [Broker(world, number).link() for number in (0xB2, 0xB3)]
    text = "over-limit: 2 links are up, cluster.max_links is 2"
    if is_dialled:
        other = Broker(world).accept(URL)
        other.say(other.info(AT_MS, ("nonce", other.nonce)))
        refused(other.wire, CONNECTION_ERROR, text)
    else:
        refused(Broker(world).dial().wire, REJECTED_SETUP, text)
    two[0].wire.lose()
    Broker(world).link()
    assert links(world) == ["b3", "b9"]


def test_a_place_that_was_taken_while_somebody_proved_is_taken() -> None:
    world = cluster(max_links=1)
    one, other = Broker(world, 0xB2).dial(), Broker(world).dial()
    one.prove()
    other.prove()
    refused(other.wire, REJECTED_SETUP, "over-limit: 1 links are up, cluster.max_links is 1")
    assert links(world) == ["b2"]


def test_so_many_brokers_are_known_and_no_more() -> None:
    """This one is one of them; one that is known comes back."""
    world = cluster(max_brokers=3)
    two = [Broker(world, number).link() for number in (0xB2, 0xB3)]
    refused(Broker(world).dial().wire, REJECTED_SETUP, "over-limit: 3 brokers are known, cluster.max_brokers is 3")
    far = Broker(world, 0xBA)
    two[0].say(far.info(AT_MS))
    assert [member.name for member in world.core.cluster.members.values()] == ["b1", "b2", "b3"]
    assert world.core.cluster.refused == {"over-limit": 2}
    two[0].wire.lose()
    Broker(world, 0xB2).link(AT_MS + 9)
    assert links(world) == ["b3", "b2"]


def test_another_broker_with_our_id_is_refused() -> None:
    world = cluster()
    other = Broker(world, 0xB1)
    other.name = "b9"
    text = "bad-broker: the broker dialled itself, or another broker has its id"
    refused(other.dial().wire, REJECTED_SETUP, text)
    other.accept(URL).say(other.info(AT_MS, ("nonce", other.nonce)))
    refused(other.wire, CONNECTION_ERROR, text)
    assert links(world) == []


def test_a_name_that_another_broker_has_is_refused_as_long_as_that_can_be_reached() -> None:
    world = cluster()
    first = Broker(world).link()
    second = Broker(world, 0xBA)
    second.name = "b9"
    text = "bad-broker: another broker, 00000000-0000-0000-0000-0000000000b9, has the name 'b9'; names must be unique"
    refused(second.dial().wire, REJECTED_SETUP, f"{text} in a cluster")
    first.wire.lose()
    second.dial()
    second.prove()
    assert [link.info.id for link in world.core.cluster.links() if link.is_up and link.info] == [second.id]


@pytest.mark.parametrize(("theirs", "ours"), [(0, 1), (1, 0), (0, 0), (-1, 1)])
def test_without_annotations_there_is_no_link_where_they_are_required(theirs: int, ours: int) -> None:
    world = cluster(version=ours)
    text = f"bad-broker: its router annotations have version {max(0, theirs)}, this broker's {ours}; both need 1"
    refused(Broker(world, version=theirs).dial().wire, REJECTED_SETUP, f"{text}, so that loops are detected")
    other = Broker(world, version=theirs).accept(URL)
    other.say(other.info(AT_MS, ("nonce", other.nonce)))
    refused(other.wire, CONNECTION_ERROR, f"{text}, so that loops are detected")


def test_with_tls_the_certificate_proves_who_it_is_and_no_secret_is_needed() -> None:
    world = cluster(auth="tls", principals=["CN=b9", "CN=b10"])
    dialler = Broker(world).dial(principal="CN=b9")
    dialler.say(dialler.info(AT_MS))
    acceptor = Broker(world, 0xBA).accept(URL, "CN=b10")
    acceptor.say(acceptor.info(AT_MS))
    acceptor.say(acceptor.info(AT_MS))
    assert links(world) == ["b9", "b10"]
    assert not [raw for broker in (dialler, acceptor) for raw in heard(broker.wire) if b"proof" in raw]


@pytest.mark.parametrize(
    ("principal", "why"),
    [
        ("", "none, it must be one of"),
        ("CN=b1", "'CN=b1', which is not among"),
        ("cn=b9", "'cn=b9', which is not among"),
    ],
)
def test_with_tls_who_has_another_certificate_or_none_is_refused_even_with_the_secret(principal: str, why: str) -> None:
    world = cluster(auth="tls", principals=["CN=b9"])
    text = f"wrong-secret: the principal of its certificate is {why} cluster.principals"
    dialler = Broker(world).dial(principal=principal)
    refused(dialler.wire, REJECTED_SETUP, text)
    acceptor = Broker(world).accept(URL, principal)
    nonce = value_of(heard(acceptor.wire)[0], "nonce", 16)
    acceptor.say(acceptor.info(AT_MS, ("nonce", acceptor.nonce)))
    acceptor.prove(nonce, b"accept")
    refused(acceptor.wire, CONNECTION_ERROR, text)
    assert links(world) == []


@pytest.mark.parametrize(
    ("name", "certificate", "is_link"),
    [
        ("b9", "b9", True),
        ("b9", "b9.brokers.example", True),
        ("b9.2", "b9", True),  # a worker
        ("b9", "b8", False),
        ("b9", "b99", False),
        ("b9", "x.b9", False),
        ("b9.x", "b9", False),
    ],
)
def test_with_tls_a_certificate_is_good_for_the_broker_of_its_name_alone(
    name: str, certificate: str, is_link: bool
) -> None:
    world = cluster(auth="tls", principals=["CN=b9"])
    dialler = Broker(world)
    dialler.name = name
    dialler.dial(principal="CN=b9", certificate=certificate)
    if is_link:
        dialler.say(dialler.info(AT_MS))
        assert links(world) == [name]
        return
    text = f"it says that its name is {name!r}, the subject alternative names of its certificate are {certificate!r}"
    refused(dialler.wire, REJECTED_SETUP, f"wrong-secret: {text}")
    acceptor = Broker(world, 0xBA)
    acceptor.name = name
    acceptor.accept(URL, "CN=b9", certificate=certificate)
    acceptor.say(acceptor.info(AT_MS))
    acceptor.say(acceptor.info(AT_MS))
    refused(acceptor.wire, CONNECTION_ERROR, f"wrong-secret: {text}")


IN_CLEAR = (
    "no-cluster: brokers of two machines link by tls or wss; cluster.plaintext = true allows what is not encrypted"
)


@pytest.mark.parametrize("address", ["10.0.0.4", "2001:db8::/64"])
def test_no_secret_is_proved_to_another_machine_in_the_clear(address: str) -> None:
    world = cluster(plaintext=False)
    refused(Broker(world).dial(address=address).wire, REJECTED_SETUP, IN_CLEAR)
    acceptor = Broker(world, 0xBA).accept(URL, address=address)
    acceptor.say(acceptor.info(AT_MS, ("nonce", acceptor.nonce)))
    refused(acceptor.wire, CONNECTION_ERROR, IN_CLEAR)
    assert not [raw for raw in heard(acceptor.wire) if b"proof" in raw]


@pytest.mark.parametrize("address", ["", "127.0.0.1", "::/64"])
def test_on_one_machine_a_secret_is_proved_in_the_clear(address: str) -> None:
    world = cluster(plaintext=False)
    dialler = Broker(world).dial(address=address)
    dialler.prove()
    assert links(world) == ["b9"]


def test_with_tls_and_nobody_named_there_is_no_cluster() -> None:
    world = cluster(auth="tls")
    text = "this broker is in no cluster: neither cluster.secret nor cluster.principals is set"
    refused(Broker(world).dial(principal="CN=b9").wire, REJECTED_SETUP, f"no-cluster: {text}")
