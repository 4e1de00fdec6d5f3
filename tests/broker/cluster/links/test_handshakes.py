"""Which connections become links: each step in its time, and one link between two brokers (D-46)."""

from random import Random

import pytest

from broker.cluster.links.neighbour import GREET_S
from broker.cluster.settings import ClusterSettings
from broker.core import CoreSettings
from broker.events import LINK_DOWN, LINK_UP
from rsocket_wire.errors import CONNECTION_CLOSE, CONNECTION_ERROR, REJECTED_SETUP
from rsocket_wire.rsocket.frames import encode_keepalive
from tests.conformance.links import AT_MS, OURS, Broker, cluster, neighbours, value_of
from tests.conformance.scripts import COMPOSITE, FORWARDING, carried, composite, connected, heard, setup
from tests.fakes import Frame, Wire, World, error
from tests.topology import LINKED_S, SECRET, End, Net, line, linked

OCTETS = "application/octet-stream"
URL = "tcp://b9:7878"


def links(world: World) -> list[str]:
    """Names of those that are linked."""
    return [link.name for link in world.core.cluster.links() if link.is_up]


def refused(wire: Wire, code: int, text: str) -> None:
    """The last word on a connection, which is closed behind it."""
    assert (wire.received()[-1:], wire.is_closed) == ([error(0, code, text)], True)


# Time


def test_each_step_of_a_greeting_has_its_time() -> None:
    """Signs of life are no steps."""
    world = cluster()
    accepted, dialled = Broker(world).dial(), Broker(world, 0xBA).accept(URL)
    nonce = value_of(heard(accepted.wire)[0], "nonce", 16)
    world.advance(GREET_S / 2)
    slow = Broker(world, 0xBB).accept(URL)
    slow.say(slow.info(AT_MS, ("nonce", slow.nonce)))
    for broker in (accepted, dialled):
        broker.wire.send(encode_keepalive(b"", respond=False))
    world.advance(GREET_S / 2 - 0.01)
    assert [wire.is_closed for wire in (accepted.wire, dialled.wire, slow.wire)] == [False, False, False]
    world.advance(0.01)
    text = "bad-broker: it did not prove its identity within 3 s"
    accepted.prove(nonce)  # is not heard
    refused(accepted.wire, REJECTED_SETUP, text)
    refused(dialled.wire, CONNECTION_ERROR, text)
    slow.wire.send(encode_keepalive(b"", respond=False))
    world.advance(GREET_S / 2 - 0.01)
    assert not slow.wire.is_closed
    world.advance(0.01)
    refused(slow.wire, CONNECTION_ERROR, text)
    assert (world.core.cluster.links(), world.core.cluster.refused) == ([], {"bad-broker": 3})


def test_who_is_found_at_a_url_and_says_nothing_is_given_up() -> None:
    world = cluster()
    silent = Broker(world).accept(URL)
    world.advance(GREET_S)
    refused(silent.wire, CONNECTION_ERROR, "keepalive-timeout: nothing arrived for 3.0 s, the SETUP promised 3.0 s")


def test_a_proof_that_comes_in_time_makes_a_link() -> None:
    world = cluster()
    other = Broker(world).dial()
    world.advance(GREET_S - 0.01)
    other.prove()
    world.advance(2.0)
    assert (links(world), other.wire.is_closed) == (["b9"], False)


# Names, ids, versions


def test_a_broker_that_dials_itself_notices_and_stops() -> None:
    """The same list of peers is given to all brokers: each finds itself in it."""
    net = Net(["b1", "b2"], [("b1", "b1"), ("b1", "b2")])
    net.advance(5.0)
    assert links(net.worlds["b1"]) == ["b2"]
    assert [(dial.url, dial.is_self, dial.is_linked) for dial in net.worlds["b1"].core.cluster.dials.state()] == [
        ("tcp://b1:7878", True, False), ("tcp://b2:7878", False, True),
    ]  # fmt: skip
    assert len([end for end in net.ends if end.name == end.other.name]) == 2, "it has tried once"


@pytest.mark.parametrize("is_reachable", [False, True])
def test_of_two_brokers_with_one_name_that_come_at_once_one_is_refused(is_reachable: bool) -> None:
    """The link of the first is up, and there is no way over it before it has said that it is a neighbour."""
    world = cluster()
    first, second = Broker(world).dial(), Broker(world, 0xBA)
    second.name = "b9"
    second.dial()
    first.prove()
    if is_reachable:
        first.say(first.info(AT_MS + 1, *neighbours(OURS)))
    second.prove()
    text = "bad-broker: another broker, 00000000-0000-0000-0000-0000000000b9, has the name 'b9'; names must be unique"
    refused(second.wire, REJECTED_SETUP, f"{text} in a cluster")
    assert (links(world), first.wire.is_closed) == (["b9"], False)


@pytest.mark.parametrize(
    ("theirs", "ours", "agreed"), [(1, 1, 1), (2, 1, 1), (7, 1, 1), (0, 1, 0), (-1, 1, 0), (1, 0, 0), (2, 7, 2)]
)
def test_the_lower_version_is_used(theirs: int, ours: int, agreed: int) -> None:
    world = cluster(CoreSettings(broker_name="b1", require_annotations=False), version=ours)
    other = Broker(world, version=theirs).link()
    link = other.wire.peer.link
    assert link is not None
    assert (link.id, link.name, link.version) == (other.id, "b9", agreed)


# Mime types


@pytest.mark.parametrize(("metadata_mime", "data_mime"), [(FORWARDING, OCTETS), (COMPOSITE, "text/plain")])
def test_links_have_one_pair_of_mime_types(metadata_mime: str, data_mime: str) -> None:
    """What stands in front of requests is read as composite metadata, and says what data it is where it differs."""
    world = cluster()
    other = Broker(world)
    raw = other.info(AT_MS, ("nonce", other.nonce))
    wire = connected(world, setup(metadata_mime, carried(metadata_mime, raw), data_mime))
    text = f"bad-broker: a link needs the metadata MIME type {COMPOSITE} and the data MIME type {OCTETS}"
    refused(wire, REJECTED_SETUP, text)


# One link between two


def between(net: Net) -> list[tuple[str, str]]:
    """Who has dialled whom on the links that are up: as each end sees it."""
    found: list[tuple[str, str]] = []
    for name, world in net.worlds.items():
        for link in world.core.cluster.links():
            if link.is_up:
                found.append((name, link.name) if link.url else (link.name, name))
    return sorted(found)


@pytest.mark.parametrize("names", [["b1", "b2"], ["b2", "b1"]])
def test_of_two_links_that_both_dial_at_once_that_of_the_smaller_id_stays(names: list[str]) -> None:
    net = linked(Net(names, [("b1", "b2"), ("b2", "b1")]))
    assert between(net) == [(names[0], names[1])] * 2
    dials_n = len(net.ends)
    net.advance(10.0)
    assert (between(net), len(net.ends)) == ([(names[0], names[1])] * 2, dials_n), "and nobody dials again"
    assert len(net.digests()) == 1


@pytest.mark.parametrize("seed", range(40))
def test_both_ends_keep_the_same_link_however_their_frames_cross(seed: int) -> None:
    chance = Random(seed)
    net = Net(["b1", "b2"], [("b1", "b2"), ("b2", "b1")])
    net.holds = lambda _, __, ___: True
    net.pump()
    while net.held:
        end = chance.choice(net.held)[0]
        at = next(place for place, held in enumerate(net.held) if held[0] is end)
        _, raw = net.held.pop(at)  # what one connection carries keeps its order
        net._deliver(end, raw)
        net.pump()
    net.holds = None
    net.advance(LINKED_S)
    assert between(net) == [("b1", "b2")] * 2
    assert len(net.digests()) == 1


def test_a_second_link_of_the_same_end_is_refused_and_the_first_goes_on() -> None:
    world = cluster()
    first = Broker(world).link()
    second = Broker(world).dial()
    second.prove()
    refused(second.wire, CONNECTION_CLOSE, "duplicate-link: there is a link to b9 already")
    assert (links(world), first.wire.is_closed) == (["b9"], False)


def test_a_broker_that_has_begun_anew_is_linked_while_its_old_link_seems_alive() -> None:
    net = linked(line(2))
    net.worlds["b1"].service("orders", 1)
    net.pump()
    old = net.link("b2", "b1")
    net.advance(0.5)
    del net.worlds["b1"]  # and the system at the other end says nothing
    net.start("b1")
    net.advance(0.5)
    assert (between(net), net.table("b2")) == ([("b1", "b2")] * 2, {})
    assert old.seen[-1] == error(0, CONNECTION_CLOSE, "duplicate-link: the broker has restarted")
    net.advance(5.0)
    assert between(net) == [("b1", "b2")] * 2
    assert len(net.digests()) == 1


def test_links_that_come_and_go_are_told() -> None:
    world = cluster()
    world.events()
    other = Broker(world).link()
    world.advance(2.0)
    other.wire.lose()
    said = [(event.kind, event.peer, event.reason, event.detail, event.uptime_ms) for event in world.events()]
    assert [each for each in said if each[0] in (LINK_UP, LINK_DOWN)] == [
        (LINK_UP, other.wire.peer.name, "", "b9", 0),
        (LINK_DOWN, other.wire.peer.name, "left", "b9: connection reset", 2000),
    ]


def test_a_link_that_says_nothing_is_lost_after_its_lifetime() -> None:
    net = linked(Net(["b1", "b2"], [("b1", "b2")]))
    ends: list[End] = [net.link("b1", "b2"), net.link("b2", "b1")]
    net.part(["b1"], ["b2"])
    net.advance(1.95)  # it was heard a second ago at most
    assert between(net) == [("b1", "b2")] * 2
    net.advance(1.1)
    assert between(net) == []
    assert [Frame(end.seen[-1].raw).text.split(":")[0] for end in ends] == ["keepalive-timeout"] * 2
    assert SECRET not in b"".join(frame.raw for end in ends for frame in end.seen)


@pytest.mark.parametrize("what", ["resume", "lease"])
def test_links_are_not_resumed_and_grant_nothing(what: str) -> None:
    """A session would keep a silent broker for minutes."""
    world = World(CoreSettings(resume_ttl_s=60.0), cluster=ClusterSettings(SECRET))
    other = Broker(world)
    metadata = composite((FORWARDING, other.info(AT_MS, ("nonce", other.nonce))))
    token = b"token" if what == "resume" else None
    wire = world.caller(data_mime=OCTETS, token=token, metadata=metadata, wants_lease=what == "lease")
    text = "links support neither resumption nor LEASE"
    refused(wire, REJECTED_SETUP, f"bad-broker: {text}")


def test_of_two_neighbours_with_one_id_the_younger_stays_linked() -> None:
    """Else they would throw each other out for ever."""
    world = cluster()
    younger = Broker(world)
    younger.epoch_ms = AT_MS + 1
    younger.link()
    older = Broker(world)
    older.epoch_ms = AT_MS
    older.dial()
    older.prove()
    text = "another broker with its id, b9, started later and is linked; ids must be unique in a cluster"
    refused(older.wire, REJECTED_SETUP, f"bad-broker: {text}")
    assert (links(world), younger.wire.is_closed) == (["b9"], False)


def test_a_broker_that_comes_back_is_not_seen_to_come_and_go() -> None:
    net = linked(Net(["b1", "b2"], [("b1", "b2")]))
    net.kill("b2")
    net.advance(0.5)
    net.worlds["b1"].events()
    net.start("b2")
    net.advance(LINKED_S)
    seen = [event.name for event in net.worlds["b1"].events() if event.name.startswith("Broker")]
    assert seen == ["BrokerJoined"]
