"""The frames between brokers: BROKER_INFO, ROUTE_ADD, ROUTE_REMOVE, and what a routing table makes of them."""

import pytest

from tests.conformance import links, scripts
from tests.conformance.links import AT_MS, OURS, Broker, added, ask, cluster, kept, neighbours, ours, proof, value_of
from tests.conformance.scripts import REGION, broker_info, destination, error, forwarding, heard, push, route_add
from tests.fakes import Wire, World

# BROKER_INFO


def test_brokers_greet_with_broker_info_prove_who_they_are_and_say_who_their_neighbours_are() -> None:
    """D-46: all bytes of a handshake, as who has dialled sees it."""
    world = cluster()
    other = Broker(world).dial()
    first = heard(other.wire)
    nonce = value_of(first[0], "nonce", 16)
    assert first == [push(forwarding(ours(AT_MS, ("nonce", nonce), urls=False)))]
    other.prove(nonce)
    proved, *rest = heard(other.wire)
    accepted = proof(b"accept", OURS, other.id, other.nonce, nonce)
    assert proved == push(forwarding(ours(AT_MS, ("nonce", nonce), ("proof", accepted))))
    info = ours(AT_MS + 1, *neighbours(other.id))
    assert [content for raw in rest for _, content in links.entries(raw)][-1] == info
    assert ([link.is_up for link in world.core.cluster.links()], other.wire.is_closed) == ([True], False)


def test_broker_that_dials_greets_with_its_setup_and_proves_first() -> None:
    """D-46: the same from the other end."""
    world = cluster()
    other = Broker(world).accept("tcp://b9:7878")
    first = heard(other.wire)
    nonce = value_of(first[0], "nonce", 16)
    mimes = bytes([len(scripts.COMPOSITE)]) + scripts.COMPOSITE.encode() + b"\x18application/octet-stream"
    metadata = forwarding(ours(AT_MS, ("nonce", nonce), urls=False))
    body = scripts.u16(1) + scripts.u16(0) + (1000).to_bytes(4, "big") + (3000).to_bytes(4, "big") + mimes
    assert first == [bytes.fromhex("00000000 0500") + body + len(metadata).to_bytes(3, "big") + metadata]
    other.say(other.info(AT_MS, ("nonce", other.nonce)))
    dialled = proof(b"dial", OURS, other.id, other.nonce, nonce)
    assert heard(other.wire) == [push(forwarding(ours(AT_MS, ("nonce", nonce), ("proof", dialled))))]
    other.prove(nonce, b"accept")
    assert other.told()[0] == ours(AT_MS + 1, *neighbours(other.id))
    assert ([link.is_up for link in world.core.cluster.links()], other.wire.is_closed) == ([True], False)


@pytest.mark.parametrize("mime", [scripts.FORWARDING, scripts.FORWARDING_V0])
def test_broker_info_is_taken_in_both_mime_types(mime: str) -> None:
    """D-02."""
    world = cluster()
    other = Broker(world)
    raw = other.info(AT_MS, ("nonce", other.nonce))
    other.wire = scripts.connected(
        world, scripts.setup(scripts.COMPOSITE, scripts.composite((mime, raw)), links.OCTETS)
    )
    other.prove()
    other.wire.send(push(scripts.composite((mime, other.info(AT_MS + 1, *neighbours(OURS))))))
    assert [member.name for member in world.core.cluster.members.values() if member.is_reachable] == ["b1", "b9"]


def test_nothing_that_a_broker_says_counts_before_it_has_proved_who_it_is() -> None:
    """ "Broker B would need to send Broker A a BROKER_INFO frame before it can forward requests": one that counts."""
    world = cluster()
    other = Broker(world).dial()
    other.say(route_add(1, AT_MS, "orders", broker=other.id))
    assert (heard(ask(world)), kept(world), len(world.core.cluster.members)) == ([links.NO_ROUTE], [], 1)
    nonce = value_of(heard(other.wire)[0], "nonce", 16)
    other.prove(nonce)
    other.say(other.info(AT_MS + 1, *neighbours(OURS)), route_add(1, AT_MS, "orders", broker=other.id))
    assert kept(world) == [(scripts.ident(1), "orders", AT_MS)]


def test_broker_info_is_unidirectional() -> None:
    """A has ours, and we have not what says that it is our neighbour: nothing is sent to it, whatever it offers."""
    world = cluster()
    other = Broker(world).dial()
    other.prove()
    assert world.core.cluster.links()[0].is_up
    other.say(route_add(1, AT_MS, "orders", broker=other.id))
    assert (heard(ask(world)), kept(world)) == ([links.NO_ROUTE], [])
    other.say(other.info(AT_MS + 1, *neighbours(OURS)))
    assert kept(world) == [(scripts.ident(1), "orders", AT_MS)]
    other.say(other.info(AT_MS + 2))
    assert (heard(ask(world)), kept(world)) == ([links.NO_ROUTE], [])


def test_broker_info_is_shared_with_other_brokers_byte_by_byte_and_not_with_who_has_sent_it() -> None:
    """And the brokers that it tells of can then be reached."""
    world = cluster()
    one, two = Broker(world, 0xB2).link(), Broker(world, 0xB3).link()
    one.told()
    far = Broker(world, 0xB9)
    near_info = one.info(AT_MS + 5, *neighbours(OURS, far.id))
    far_info = far.info(AT_MS + 3, *neighbours(one.id), ("rack", b"\x00\xff"))
    one.say(near_info, far_info)
    assert (one.told(), two.told()) == ([], [near_info, far_info])
    members = {member.name: member for member in world.core.cluster.members.values()}
    assert [(name, member.hops_n, member.next_hop) for name, member in members.items()] == [
        ("b1", 0, ""), ("b2", 1, "b2"), ("b3", 1, "b3"), ("b9", 2, "b2"),
    ]  # fmt: skip
    one.say(far_info)
    two.say(far_info)
    assert (one.told(), two.told()) == ([], [])


@pytest.mark.parametrize(("at_ms", "is_applied"), [(AT_MS, False), (AT_MS + 1, False), (AT_MS + 2, True)])
def test_broker_info_is_applied_when_it_is_newer(at_ms: int, is_applied: bool) -> None:
    world = cluster()
    one, two = Broker(world, 0xB2).link(AT_MS + 1), Broker(world, 0xB3).link()
    info = one.info(at_ms, *neighbours(OURS), ("client-url", "tcp://new:1"))
    one.say(info)
    assert world.core.cluster.members[one.id].info.client_urls == (["tcp://new:1"] if is_applied else [])
    assert two.told() == ([info] if is_applied else [])


def test_broker_that_hears_an_old_broker_info_of_its_own_says_a_newer_one() -> None:
    """What it has said in an earlier life must not count."""
    world = cluster()
    one = Broker(world, 0xB2).link()
    one.say(ours(AT_MS + 5000, ("state", "draining")))
    assert one.told() == [ours(AT_MS + 5001, *neighbours(one.id))]


# Who is no broker


def garbage(world: World) -> list[tuple[bytes, str]]:
    """What claims to be a BROKER_INFO, and why it is none."""
    other = Broker(world)
    whole = other.info(AT_MS, ("nonce", other.nonce))
    name: scripts.AnyTag = ("name", "b9")
    version: scripts.AnyTag = ("qd.annotations-version", b"\0\0\0\1")
    nonce: scripts.AnyTag = ("nonce", b"n" * 16)
    short = "BROKER_INFO of 00000000-0000-0000-0000-0000000000b9"
    return [
        (whole[:20], "BROKER_INFO broker id: needs 16 bytes at offset 6, 14 are left"),
        (whole[:25], "BROKER_INFO timestamp: needs 8 bytes at offset 22, 3 are left"),
        (broker_info(AT_MS, nonce, broker=other.id), f"{short}: it has no name"),
        (broker_info(AT_MS, ("name", "a,b"), nonce, broker=other.id), f"{short}: its name 'a,b' has a space, a comma"
         " or a >, which part names"),
        (broker_info(AT_MS, ("name", "x" * 64), nonce, broker=other.id), f"{short}: its name has 64 bytes, 63 are"
         " allowed"),
        (broker_info(AT_MS, name, ("qd.annotations-version", b"1"), nonce, broker=other.id),
         "qd.annotations-version: has 1 bytes, a signed number of 4 bytes is needed"),
        (broker_info(AT_MS, name, version, broker=other.id), "its nonce has 0 bytes, it must have 16"),
        (broker_info(AT_MS, name, version, ("nonce", b"n" * 17), broker=other.id),
         "its nonce has 17 bytes, it must have 16"),
        (broker_info(AT_MS, name, version, ("neighbour", b"b1"), nonce, broker=other.id),
         "BROKER_INFO of b9: a neighbour of 2 bytes, 18 are needed"),
        (broker_info(AT_MS, name, version, nonce, broker=OURS),
         "the broker dialled itself, or another broker has its id"),
        (broker_info(AT_MS, ("name", "b1"), version, nonce, broker=other.id),
         "its name 'b1' is this broker's; names must be unique in a cluster"),
    ]  # fmt: skip


@pytest.mark.parametrize("place", range(11))
def test_garbage_in_place_of_a_broker_info_is_refused_and_disturbs_nobody(place: int) -> None:
    world = cluster()
    orders, friend = destination(world, 1, "orders"), Broker(world, 0xB2).link()
    raw, text = garbage(world)[place]
    stranger = scripts.connected(world, scripts.setup(scripts.COMPOSITE, forwarding(raw), links.OCTETS))
    assert (heard(stranger), stranger.is_closed) == ([error(0, scripts.REJECTED_SETUP, f"bad-broker: {text}")], True)
    assert len(garbage(world)) == 11
    undisturbed(world, orders, friend)
    assert world.core.cluster.refused == {"bad-broker": 1}


def undisturbed(world: World, orders: Wire, friend: Broker) -> None:
    """The only service, and the only other broker, have heard nothing; requests arrive, and the link is up."""
    assert (heard(orders), friend.told()) == ([], [])
    ask(world)
    assert [raw[:6] for raw in heard(orders)] == [bytes.fromhex("00000002 1100")]
    assert [(link.name, link.is_up) for link in world.core.cluster.links()] == [("b2", True)]


@pytest.mark.parametrize("secret", [b"another secret of sixteen bytes", b"\0"])
def test_who_does_not_know_the_secret_is_refused_and_disturbs_nobody(secret: bytes) -> None:
    world = cluster()
    orders, friend = destination(world, 1, "orders"), Broker(world, 0xB2).link()
    friend.told()
    stranger = Broker(world, secret=secret).dial()
    stranger.prove()
    text = "wrong-secret: b9 does not know the secret of this cluster (cluster.secret)"
    assert (heard(stranger.wire), stranger.wire.is_closed) == ([error(0, scripts.REJECTED_SETUP, text)], True)
    undisturbed(world, orders, friend)
    assert world.core.cluster.refused == {"wrong-secret": 1}


def test_who_proves_nothing_is_refused_in_the_end_and_disturbs_nobody() -> None:
    world = cluster()
    orders, friend = destination(world, 1, "orders"), Broker(world, 0xB2).link()
    stranger, silent = Broker(world).dial(), Broker(world, 0xBA).dial()
    heard(stranger.wire), heard(silent.wire)
    stranger.say(stranger.info(AT_MS, ("nonce", stranger.nonce)))
    text = "wrong-secret: b9 does not know the secret of this cluster (cluster.secret)"
    assert (heard(stranger.wire), stranger.wire.is_closed) == ([error(0, scripts.REJECTED_SETUP, text)], True)
    world.advance(3.0)
    text = "bad-broker: it did not prove its identity within 3 s"
    assert (heard(silent.wire), silent.wire.is_closed) == ([error(0, scripts.REJECTED_SETUP, text)], True)
    undisturbed(world, orders, friend)


def test_broker_without_a_secret_is_in_no_cluster() -> None:
    world = World()
    stranger = Broker(world).dial()
    text = "no-cluster: this broker is in no cluster: neither cluster.secret nor cluster.principals is set"
    assert (heard(stranger.wire), stranger.wire.is_closed) == ([error(0, scripts.REJECTED_SETUP, text)], True)


@pytest.mark.parametrize("place", range(3))
def test_frames_between_brokers_are_taken_from_links_only(place: int) -> None:
    """D-20: a client of a broker that has links gets as far with them as one of a broker that has none."""
    world = cluster()
    orders, friend = destination(world, 1, "orders"), Broker(world, 0xB2).link()
    raw = [route_add(1, AT_MS + 9, "stolen"), scripts.route_remove(1, AT_MS + 9), broker_info(AT_MS)][place]
    text = f"no-cluster: a broker frame of kind {raw[4] >> 2} on a connection that is no link"
    client = scripts.caller(world)
    client.send(push(forwarding(raw)))
    assert (heard(client), client.is_closed) == ([error(0, scripts.CONNECTION_ERROR, text)], True)
    if raw[4] >> 2 != scripts.BROKER_INFO:
        client = scripts.connected(world, scripts.setup(scripts.COMPOSITE, forwarding(raw)))
        assert (heard(client), client.is_closed) == ([error(0, scripts.REJECTED_SETUP, text)], True)
    undisturbed(world, orders, friend)


def test_link_that_sends_what_cannot_be_read_is_no_link_any_more() -> None:
    world = cluster()
    other = Broker(world).link()
    other.say(route_add(1, AT_MS, "orders", broker=other.id))
    other.say(scripts.header(0x02) + other.id)
    text = "bad-broker: ROUTE_ADD route id: needs 16 bytes at offset 22, 0 are left"
    assert (heard(other.wire), other.wire.is_closed) == ([error(0, scripts.CONNECTION_ERROR, text)], True)
    assert kept(world) == []


# Emitting ROUTE_ADD and ROUTE_REMOVE


def test_route_add_is_emitted_with_both_default_tags_when_a_route_joins() -> None:
    world = cluster()
    one, two = Broker(world, 0xB2).link(), Broker(world, 0xB3).link()
    one.told()
    destination(world, 1, "orders", (REGION, "eu"))
    raw = added(1, AT_MS, "orders", (REGION, "eu"))
    assert (heard(one.wire), heard(two.wire)) == ([push(forwarding(raw))],) * 2


def test_default_tags_that_are_there_are_not_added_again() -> None:
    world = cluster()
    other = Broker(world).link()
    default: list[scripts.AnyTag] = [(scripts.ROUTE_ID, scripts.uuid(1)), (scripts.SERVICE_NAME, "orders")]
    tags = [*default, ("color", "red")]
    destination(world, 1, "orders", *tags)
    assert other.told() == [route_add(1, AT_MS, "orders", *tags, broker=OURS)]


def test_route_add_is_emitted_anew_and_newer_when_a_route_changes() -> None:
    world = cluster()
    other = Broker(world).link()
    orders = destination(world, 1, "orders")
    orders.send(push(forwarding(scripts.route_setup(1, "orders", (REGION, "eu")))))
    changed = added(1, AT_MS + 1, "orders", (REGION, "eu"))
    assert other.told() == [added(1, AT_MS, "orders"), changed]


def test_route_add_is_sent_to_who_asks_what_routes_there_are() -> None:
    """A link that comes up asks for all of them."""
    world = cluster()
    destination(world, 1, "orders", (REGION, "eu"))
    destination(world, 2, "stock").lose()
    other = Broker(world).dial()
    other.prove()
    assert other.told() == [
        ours(AT_MS, ("nonce", nonce_of(world)), ("proof", proof_of(world, other))),
        ours(AT_MS + 1, *neighbours(other.id)),
        ours(AT_MS + 1, *neighbours(other.id)),
        added(1, AT_MS, "orders", (REGION, "eu")),
        scripts.route_remove(2, AT_MS + 1, broker=OURS),
    ]


def nonce_of(world: World) -> bytes:
    return world.core.cluster.links()[-1].nonce


def proof_of(world: World, other: Broker) -> bytes:
    return proof(b"accept", OURS, other.id, other.nonce, nonce_of(world))


def test_route_remove_is_emitted_when_a_destination_disconnects() -> None:
    world = cluster()
    one, two = Broker(world, 0xB2).link(), Broker(world, 0xB3).link()
    orders = destination(world, 1, "orders")
    assert one.told()[-1] == two.told()[-1] == added(1, AT_MS, "orders")
    world.advance(0.5)
    orders.lose()
    raw = push(forwarding(scripts.route_remove(1, AT_MS + 500, broker=OURS)))
    assert [[each for each in heard(link.wire) if each[4] >> 2 == 0x0C] for link in (one, two)] == [[raw], [raw]]


def test_route_remove_is_newer_than_the_route_add_even_when_the_clock_went_back() -> None:
    """D-08."""
    world = cluster()
    other = Broker(world).link()
    orders = destination(world, 1, "orders")
    world.core.tick(world.now, AT_MS - 60_000)
    orders.lose()
    assert other.told() == [added(1, AT_MS, "orders"), scripts.route_remove(1, AT_MS + 1, broker=OURS)]


def test_what_other_brokers_say_of_routes_is_passed_on_byte_by_byte_and_not_to_who_has_said_it() -> None:
    """ "This information may not arrive from the broker where the routable destination connected"."""
    world = cluster()
    one, two = Broker(world, 0xB2).link(), Broker(world, 0xB3).link()
    one.told()
    raw = (
        scripts.header(0x02, 0x155, minor=9)
        + route_add(7, AT_MS, "orders", (REGION, "eu"), ("odd", None), broker=one.id)[6:]
    )
    gone = scripts.route_remove(7, AT_MS + 1, broker=one.id)
    one.say(raw)
    assert (one.told(), two.told()) == ([], [raw])
    one.say(raw, gone, gone)
    assert (one.told(), two.told()) == ([], [gone])
    two.say(raw, gone)
    assert (one.told(), two.told(), kept(world)) == ([], [], [])


# Additional tags


def test_state_of_a_route_is_told_in_a_tag_of_the_route_add() -> None:
    """D-63: "A Broker MAY chose to add additional tags": one, while there is something to say. The
    timestamp stays about that of the connection: a newer one at another broker must win (D-09)."""
    world = cluster()
    other = Broker(world).link()
    orders = destination(world, 1, "orders")
    raw = [added(1, AT_MS, "orders")]
    world.core.congested(orders.peer)
    world.advance(0.25)
    tags: list[scripts.AnyTag] = [(scripts.SERVICE_NAME, "orders"), (scripts.ROUTE_ID, scripts.uuid(1))]
    raw.append(route_add(1, AT_MS + 1, "orders", *tags, ((0x7C, 1), "cw"), broker=OURS))
    world.core.relieved(orders.peer, world.now)
    world.advance(0.25)
    raw.append(added(1, AT_MS + 2, "orders"))
    assert other.told() == raw


def test_state_of_a_route_of_another_broker_is_no_tag_of_it() -> None:
    """D-63: it decides who gets requests."""
    world = cluster()
    other = Broker(world).link()
    other.say(route_add(1, AT_MS, "orders", ((0x7C, 1), "d"), broker=other.id))
    names = [("io.rsocket.routing.ServiceName", "orders"), ("io.rsocket.routing.RouteId", scripts.uuid(1))]
    said = heard(ask(world))
    assert (said, scripts.tags_in_table(world)) == (
        [error(1, scripts.REJECTED, "draining: of 1 routes with service=orders: 1 are draining")],
        [names],
    )
