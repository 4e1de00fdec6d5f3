"""Who may prove that it is a broker: strangers keep no broker away, and nobody guesses the secret fast (D-65)."""

import pytest

from broker.cluster.links.admissions import (
    MAX_GREETING,
    MAX_KNOWN,
    MAX_PER_ADDRESS,
    MAX_STRANGERS,
    Admissions,
)
from broker.connections.guesses import SLOW_S
from rsocket_wire.errors import REJECTED_SETUP
from tests.broker.cluster.links.test_authentication import WRONG
from tests.broker.cluster.links.test_handshakes import links
from tests.conformance.links import Broker, cluster, value_of
from tests.conformance.scripts import heard
from tests.fakes import Wire, World, error

PLACE = "were proving that they are brokers, the limit is"
GIVEN_UP = "this one, the oldest, was closed for a new one"
ATTACKERS = 66
RENEWED_S = 2.8  # before their time is over


def greet(world: World, number: int, address: str = "") -> Broker:
    """A connection that says it is a broker and then nothing more."""
    return Broker(world, 0x1000 + number).dial(address=address)


def open_n(brokers: list[Broker]) -> int:
    return sum(not broker.wire.is_closed for broker in brokers)


def refused(wire: Wire, text: str) -> None:
    assert (wire.received()[-1:], wire.is_closed) == ([error(0, REJECTED_SETUP, f"over-limit: {text}")], True)


@pytest.mark.parametrize("spread", [1, 7, ATTACKERS], ids=["one address", "seven addresses", "one each"])
@pytest.mark.parametrize("address", ["10.9.9.9", "10.1.1.0"], ids=["elsewhere", "where attackers are"])
def test_who_greets_and_proves_nothing_keeps_no_broker_away(spread: int, address: str) -> None:
    """As often as their time is almost over they begin again; a broker that nobody knows comes at any time between."""
    world = cluster(max_brokers=1000)
    for each in range(4):
        for number in range(ATTACKERS):
            greet(world, 100 * each + number, f"10.1.1.{number % spread}")
        assert world.core.cluster.handshakes.admissions.size() <= MAX_GREETING
        world.advance(RENEWED_S * each / 4)
        broker = Broker(world, 0xB2 + each).dial(address=address)
        broker.prove()
        assert links(world) == [f"b{2 + number}" for number in range(each + 1)]
        world.advance(RENEWED_S - RENEWED_S * each / 4)


def test_so_many_strangers_of_one_address_greet_at_once_and_the_next_one_takes_the_place_of_the_oldest() -> None:
    world = cluster()
    same = [greet(world, number, "10.1.1.1") for number in range(MAX_PER_ADDRESS)]
    other = greet(world, 100, "10.1.1.2")
    assert open_n(same) == MAX_PER_ADDRESS
    late = greet(world, 101, "10.1.1.1")
    refused(same[0].wire, f"{MAX_PER_ADDRESS} connections of 10.1.1.1 {PLACE} {MAX_PER_ADDRESS}; {GIVEN_UP}")
    assert (open_n(same[1:]), open_n([other, late])) == (MAX_PER_ADDRESS - 1, 2)
    assert world.core.cluster.refused == {"over-limit": 1}
    late.prove()
    assert links(world) == [late.name]


def test_so_many_strangers_greet_at_once_and_no_more() -> None:
    world = cluster()
    strangers = [greet(world, number, f"10.1.1.{number}") for number in range(MAX_STRANGERS)]
    assert open_n(strangers) == MAX_STRANGERS
    greet(world, 100, "10.1.2.1")
    what = "connections from addresses of which no broker is known"
    refused(strangers[0].wire, f"{MAX_STRANGERS} {what} {PLACE} {MAX_STRANGERS}; {GIVEN_UP}")
    assert open_n(strangers) == MAX_STRANGERS - 1


def test_known_brokers_have_the_other_half_and_what_is_free() -> None:
    """What came through a Unix socket, as from other workers, is known."""
    world = cluster(max_brokers=1000)
    world.core.cluster.know("10.2.2.2")
    places = ["", "10.2.2.2"] * (MAX_GREETING // 2)
    known = [greet(world, number, address) for number, address in enumerate(places)]
    assert open_n(known) == MAX_GREETING
    strangers = [greet(world, 100 + number, f"10.1.1.{number}") for number in range(MAX_STRANGERS)]
    assert (open_n(known), open_n(strangers)) == (MAX_GREETING - MAX_STRANGERS, MAX_STRANGERS)
    refused(known[0].wire, f"{MAX_GREETING} connections {PLACE} {MAX_GREETING}; {GIVEN_UP}")
    more = [greet(world, 200 + number, "10.2.2.2") for number in range(MAX_GREETING)]
    assert (open_n(known), open_n(strangers)) == (0, MAX_STRANGERS), "the strangers keep theirs"
    assert open_n(more) == MAX_GREETING - MAX_STRANGERS
    more[-1].prove()
    assert links(world) == [more[-1].name]


def test_links_that_are_up_and_who_is_gone_hold_no_place() -> None:
    world = cluster()
    size = world.core.cluster.handshakes.admissions.size
    first, second, third = (greet(world, number, "10.1.1.1") for number in range(3))
    assert size() == 3
    first.prove()
    second.wire.lose()
    third.secret = WRONG
    third.prove()
    assert (size(), links(world)) == (0, [first.name])


@pytest.mark.parametrize("how", ["it was dialled", "it has proved who it is", "the edge says so"])
def test_an_address_is_known(how: str) -> None:
    world = cluster()
    admissions = world.core.cluster.handshakes.admissions
    if how == "it was dialled":
        Broker(world).accept("tcp://b9:7878", address="10.2.2.2")
    elif how == "it has proved who it is":
        broker = Broker(world).dial(address="10.2.2.2")
        assert not admissions.is_known("10.2.2.2"), "a greeting is no proof"
        broker.prove()
        broker.wire.lose()
    else:
        world.core.cluster.know("10.2.2.2")
    assert (admissions.is_known("10.2.2.2"), admissions.is_known("10.2.2.3")) == (True, False)


def test_so_many_addresses_are_known_and_that_which_was_not_met_for_longest_is_forgotten() -> None:
    admissions = Admissions()
    for number in range(MAX_KNOWN):
        admissions.know(str(number))
    admissions.know("0")
    admissions.know("one more")
    assert [admissions.is_known(each) for each in ("0", "1", "2", "one more", "")] == [True, False, True, True, True]


# Wrong proofs


def guess(world: World, number: int, address: str) -> bool:
    """A wrong proof; whether it was judged at once."""
    broker = greet(world, number, address)
    if not (said := heard(broker.wire)):
        broker.wire.lose()
        return False
    broker.secret = WRONG
    broker.prove(value_of(said[0], "nonce", 16))
    assert broker.wire.is_closed
    return True


def test_wrong_proofs_slow_their_address_down() -> None:
    world = cluster()
    assert [guess(world, number, "10.1.1.1") for number in range(11)] == [True] * 10 + [False]
    assert guess(world, 20, "10.1.1.2"), "others are not"
    broker = Broker(world).dial(address="10.1.1.1")
    world.advance(SLOW_S - 0.01)
    assert heard(broker.wire) == []
    world.advance(0.01)
    broker.prove()
    assert links(world) == ["b9"], "a broker behind the same address waits and is linked"


def test_one_wrong_proof_a_second_slows_nobody_down() -> None:
    world = cluster()
    for number in range(30):
        assert guess(world, number, "10.1.1.1")
        world.advance(1.0)


def test_a_slow_address_is_fast_again_when_no_wrong_proofs_come() -> None:
    world = cluster()
    while guess(world, 1, "10.1.1.1"):
        pass
    world.advance(1.1)
    assert guess(world, 2, "10.1.1.1")
    assert not guess(world, 3, "10.1.1.1"), "it has one a second"
    world.advance(12.0)
    assert guess(world, 4, "10.1.1.1")


def test_who_answers_a_nonce_that_it_was_not_told_yet_is_refused() -> None:
    world = cluster()
    while guess(world, 1, "10.1.1.1"):
        pass
    broker = Broker(world).dial(address="10.1.1.1")
    broker.prove(bytes(16))
    assert (broker.wire.is_closed, links(world)) == (True, [])


def test_a_certificate_of_somebody_else_takes_no_place() -> None:
    """It is known with the connection, and nothing has to be waited for."""
    world = cluster(auth="tls", principals=["CN=b9"])
    stranger = Broker(world, 0xBA).dial(principal="CN=evil", address="10.1.1.1")
    (said,) = stranger.wire.received()
    assert said.text.startswith("wrong-secret: the principal of its certificate is 'CN=evil', which is not among")
    assert (stranger.wire.is_closed, world.core.cluster.handshakes.admissions.size()) == (True, 0)
