"""Router message annotations between brokers, byte by byte: what is stamped, kept, checked and taken away."""

import pytest

from broker.core import CoreSettings
from tests.conformance import links, scripts
from tests.conformance.links import AT_MS, Broker, amqp_list, amqp_text, caller_mimes, cluster, section, value_of
from tests.conformance.scripts import MODELS, REJECTED, REQUEST_RESPONSE, caller, destination, error, heard, request
from tests.fakes import Wire
from tests.topology import LINKED_S, Net, line

ORDERS = scripts.composite(
    (scripts.FORWARDING, scripts.address(scripts.U, (scripts.SERVICE_NAME, "orders"), wrapped=b"wrapped")),
    ("a/b", b"\x00\xff"),
)
MIMES = scripts.composite((links.CALLER_MIMES, caller_mimes()))
TO = f"route:{scripts.uuid(7)}"
# A text, a null, a list of two numbers: what a later version may say.
EXTRA = amqp_text("new") + b"\x40" + amqp_list(b"\x50\x01\x50\x02", 2)
EXTRA_N = 3


def stamped(said: bytes) -> bytes:
    """The entry that stands first."""
    return scripts.composite((links.ANNOTATIONS, said))


def requests(net: Net, a: str, b: str) -> list[bytes]:
    """What `a` has sent to `b` on streams."""
    return [frame.raw for frame in net.link(a, b).seen if frame.stream_id]


def three(from_clients: str = "reject", to_clients: str = "strip") -> tuple[Net, Wire, Wire]:
    """b1 ─ b2 ─ b3, the service orders at b3, which is route 7, and a caller at b1."""
    settings = {"b1": named("b1", from_clients), "b3": named("b3", to_clients=to_clients)}
    net = Net(["b1", "b2", "b3"], [("b1", "b2"), ("b2", "b3")], make=lambda name: settings.get(name, named(name)))
    net.advance(LINKED_S)
    orders = destination(net.worlds["b3"], 7, "orders")
    net.pump()
    return net, orders, caller(net.worlds["b1"])


def say(net: Net, wire: Wire, raw: bytes) -> None:
    """One of its ends sends a frame, which goes through all brokers."""
    wire.send(raw)
    net.pump()


def named(name: str, from_clients: str = "reject", to_clients: str = "strip") -> CoreSettings:
    """A broker's settings."""
    return CoreSettings(broker_name=name, annotations_from_clients=from_clients, annotations_to_clients=to_clients)


def far(other: Broker) -> None:
    """Another broker has the service orders."""
    other.say(scripts.route_add(7, AT_MS, "orders", broker=other.id))
    heard(other.wire)


# Stamping


@pytest.mark.parametrize("kind", MODELS)
def test_every_request_between_brokers_begins_with_where_it_came_in_which_way_and_where_it_goes(kind: int) -> None:
    """And ends without it: the destination gets what the caller has sent."""
    net, orders, wire = three()
    raw = request(kind, 1, ORDERS, b"data \x00")
    say(net, wire, raw)
    flags = int(kind >= scripts.REQUEST_STREAM)
    first, second = (stamped(section(flags, TO, "b1", trace)) for trace in (["b1"], ["b1", "b2"]))
    assert requests(net, "b1", "b2") == [request(kind, 1, first + MIMES + ORDERS, b"data \x00")]
    assert requests(net, "b2", "b3") == [request(kind, 1, second + MIMES + ORDERS, b"data \x00")]
    assert heard(orders) == [scripts.on(2, raw)]


def test_a_push_begins_with_them_too() -> None:
    net, orders, wire = three()
    net.link("b1", "b2").seen.clear()
    say(net, wire, scripts.push(ORDERS))
    assert scripts.push(stamped(section(0, TO, "b1", ["b1"])) + MIMES + ORDERS) in [
        frame.raw for frame in net.link("b1", "b2").seen
    ]
    assert heard(orders) == [scripts.push(ORDERS)]


def test_a_request_in_fragments_is_streaming_and_passed_on_as_it_comes() -> None:
    net, orders, wire = three()
    say(net, wire, request(REQUEST_RESPONSE, 1, ORDERS, b"one ", flags=scripts.FOLLOWS))
    said = stamped(section(1, TO, "b1", ["b1", "b2"]))
    assert requests(net, "b2", "b3") == [
        request(REQUEST_RESPONSE, 1, said + MIMES + ORDERS, b"one ", flags=scripts.FOLLOWS)
    ]
    assert heard(orders) == [request(REQUEST_RESPONSE, 2, ORDERS, b"one ", flags=scripts.FOLLOWS)]
    say(net, wire, scripts.payload(1, scripts.NEXT, b"two"))
    assert heard(orders) == [scripts.payload(2, scripts.NEXT, b"two")]


@pytest.mark.parametrize("flags", [0, 1])
def test_the_streaming_flag_is_a_hint_and_nothing_waits_without_it(flags: int) -> None:
    world = cluster()
    orders, other = destination(world, 7, "orders"), Broker(world).link()
    front = stamped(section(flags, TO, "b9", ["b9"])) + MIMES
    other.wire.send(request(REQUEST_RESPONSE, 1, front + ORDERS, b"one ", flags=scripts.FOLLOWS))
    assert heard(orders) == [request(REQUEST_RESPONSE, 2, ORDERS, b"one ", flags=scripts.FOLLOWS)]


# What others have said


@pytest.mark.parametrize("flags", [0x00, 0x01, 0x02, 0x80, 0xFE, 0xFF])
@pytest.mark.parametrize("kind", MODELS)
def test_all_bits_of_the_flags_and_extra_fields_arrive_at_the_other_end_as_they_were_set(kind: int, flags: int) -> None:
    """Two brokers on the way, which do not know what they mean; a client that plays a broker has set them."""
    net, orders, wire = three("accept", "keep")
    sent = stamped(section(flags, TO, "test", ["test"], EXTRA, EXTRA_N))
    say(net, wire, request(kind, 1, sent + MIMES + ORDERS, b"data"))
    arrived = stamped(section(flags, TO, "test", ["test", "b1", "b2"], EXTRA, EXTRA_N))
    assert heard(orders) == [request(kind, 2, arrived + ORDERS, b"data")]


@pytest.mark.parametrize("kind", MODELS)
def test_who_is_in_the_trace_already_refuses_the_request_with_the_whole_path(kind: int) -> None:
    """A loop: ERROR REJECTED, or silence where nobody could be told; the link stays, and the next request arrives."""
    world = cluster()
    orders, other, third = destination(world, 7, "orders"), Broker(world).link(), Broker(world, 0xB3).link()
    other.told(), third.told()
    front = stamped(section(0, TO, "b3", ["b3", "b1", "b9"]))
    other.wire.send(request(kind, 1, front + MIMES + ORDERS))
    refused = [error(1, REJECTED, "loop: b3>b1>b9>b1")] if kind != scripts.REQUEST_FNF else []
    assert (heard(other.wire), heard(orders), other.wire.is_closed) == (refused, [], False)
    assert (world.core.engine.annotations.loops_refused, world.core.engine.annotations.refused) == (1, {"loop": 1})
    other.wire.send(request(kind, 3, stamped(section(0, TO, "b3", ["b3", "b9"])) + MIMES + ORDERS))
    assert heard(orders) == [request(kind, 2, ORDERS)]


def test_a_request_is_not_sent_to_who_is_in_its_trace() -> None:
    world = cluster()
    one, two = Broker(world, 0xB2).link(), Broker(world, 0xB3).link()
    far(two)
    heard(one.wire)
    one.wire.send(request(REQUEST_RESPONSE, 1, stamped(section(0, TO, "b3", ["b3", "b2"])) + MIMES + ORDERS))
    assert (heard(one.wire), heard(two.wire)) == ([error(1, REJECTED, "loop: b3>b2>b1>b3")], [])


def test_the_override_counts_and_not_what_the_address_asks_for() -> None:
    world = cluster()
    orders, stock, other = destination(world, 6, "orders"), destination(world, 7, "stock"), Broker(world).link()
    front = stamped(section(0, f"service:stock {TO}", "b9", ["b9"]))
    other.wire.send(request(REQUEST_RESPONSE, 1, front + MIMES + ORDERS))
    assert (heard(orders), heard(stock)) == ([], [request(REQUEST_RESPONSE, 2, ORDERS)])


def test_an_override_that_names_a_route_of_something_else_is_out_of_date() -> None:
    """D-62: the route was what is asked for when it was chosen."""
    world = cluster()
    orders, stock, other = destination(world, 6, "orders"), destination(world, 7, "stock"), Broker(world).link()
    other.told()
    other.wire.send(request(REQUEST_RESPONSE, 1, stamped(section(0, TO, "b9", ["b9"])) + MIMES + ORDERS))
    text = f"stale-route: the route {TO[6:]} of b1 no longer matches service=orders"
    assert (heard(orders), heard(stock), heard(other.wire)) == ([], [], [error(1, REJECTED, text)])


@pytest.mark.parametrize("to", [None, "service:orders"])
def test_without_an_override_the_address_decides(to: str | None) -> None:
    world = cluster()
    orders, stock, other = destination(world, 6, "orders"), destination(world, 7, "stock"), Broker(world).link()
    other.wire.send(request(REQUEST_RESPONSE, 1, stamped(section(0, to, "b9", ["b9"])) + MIMES + ORDERS))
    assert (heard(orders), heard(stock)) == ([request(REQUEST_RESPONSE, 2, ORDERS)], [])


def test_a_request_that_begins_with_something_else_is_refused_on_a_link() -> None:
    world = cluster()
    orders, other = destination(world, 7, "orders"), Broker(world).link()
    other.told()
    front = stamped(section(0, TO, "b9", ["b9"]))
    text = "bad-annotations: missing: a request between brokers begins with them"
    for stream_id, metadata in ((1, ORDERS), (3, ORDERS + front)):
        other.wire.send(request(REQUEST_RESPONSE, stream_id, metadata))
        assert heard(other.wire) == [error(stream_id, REJECTED, text)]
    assert (heard(orders), other.wire.is_closed) == ([], False)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        *(
            ("ffffffff00002000", code, f"descriptor: 0x{code} is there, 0xffffffff00002000 is needed")
            for code in ("ffffffff00002001", "0000000100002000")
        ),
        ("a1026239", "b1000000026239", "ingress-router: str32 (0xb1) is there, a str8 (0xa1) is needed"),
        ("5000", "5200", "flags: smalluint (0x52) is there, a ubyte (0x50) is needed"),
    ],
)
def test_a_section_that_is_not_as_the_definition_says_is_refused(old: str, new: str, text: str) -> None:
    world = cluster()
    other = Broker(world).link()
    other.told()
    said = section(0, None, "b9", ["b9"])
    grown = (len(new) - len(old)) // 2
    raw = bytearray.fromhex(said.hex().replace(old, new, 1))
    raw[11] += grown
    other.wire.send(request(REQUEST_RESPONSE, 1, stamped(bytes(raw)) + ORDERS))
    assert (heard(other.wire), other.wire.is_closed) == ([error(1, REJECTED, f"bad-annotations: {text}")], False)


@pytest.mark.parametrize("name", ["a31a", "b30000001a"], ids=["sym8", "sym32"])
def test_a_section_that_is_described_by_its_name_is_taken(name: str) -> None:
    """Two brokers on the way, which write the code in its place."""
    said = section(0, TO, "test", ["test"], EXTRA, EXTRA_N).removeprefix(bytes.fromhex("0080ffffffff00002000"))
    named_so = bytes.fromhex(f"00{name}") + b"skupper:router-annotations" + said
    net, orders, wire = three("accept", "keep")
    say(net, wire, request(REQUEST_RESPONSE, 1, stamped(named_so) + MIMES + ORDERS))
    arrived = stamped(section(0, TO, "test", ["test", "b1", "b2"], EXTRA, EXTRA_N))
    assert heard(orders) == [request(REQUEST_RESPONSE, 2, arrived + ORDERS)]


# Versions


@pytest.mark.parametrize(("theirs", "agreed"), [(0, 0), (1, 1), (2, 1), (7, 1), (-1, 0)])
@pytest.mark.parametrize("is_dialled", [False, True])
def test_the_lower_version_of_both_ends_is_used(theirs: int, agreed: int, is_dialled: bool) -> None:
    """Ours is 1, and said in every BROKER_INFO; below 1 nothing stands in front of a request."""
    world = cluster(CoreSettings(broker_name="b1", require_annotations=False))
    other = Broker(world, version=theirs)
    if is_dialled:
        other.accept("tcp://b9:7878")
        (raw,) = heard(other.wire)
        other.say(other.info(AT_MS, ("nonce", other.nonce)))
    else:
        (raw,) = heard(other.dial().wire)
    other.prove(value_of(raw, "nonce", 16), b"accept" if is_dialled else b"dial")
    other.say(other.info(AT_MS + 1, ("neighbour", world.core.broker_id + b"\0\x0a")))
    assert value_of(raw, "qd.annotations-version", 4) == scripts.u32(1)
    far(other)
    caller(world, data_mime="application/octet-stream").send(request(REQUEST_RESPONSE, 1, ORDERS))
    front = stamped(section(0, TO, "b1", ["b1"])) if agreed else b""
    assert heard(other.wire) == [request(REQUEST_RESPONSE, 1 if is_dialled else 2, front + ORDERS)]


def test_a_link_without_annotations_is_refused_unless_that_is_allowed() -> None:
    world = cluster()
    other = Broker(world, version=0).dial()
    assert (len(heard(other.wire)), other.wire.is_closed, world.core.cluster.links()) == (1, True, [])


# Clients


def of_client(policy: str, kind: int, raw: bytes) -> tuple[list[bytes], list[bytes], Net]:
    """What a client hears, and what the service gets, when a request says what brokers alone may say."""
    net, orders, wire = three(policy)
    say(net, wire, request(kind, 1, raw, b"data"))
    return heard(wire), heard(orders), net


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("kind", MODELS)
def test_a_section_from_a_client_is_rejected(kind: int, place: int) -> None:
    """In front of the ADDRESS or behind it."""
    front = stamped(section(0, TO, "b3", ["b3"]))
    said, got, net = of_client("reject", kind, [front + ORDERS, ORDERS + front][place])
    text = "bad-annotations: router annotations are not accepted from clients"
    assert (said, got) == ([error(1, REJECTED, text)] if kind != scripts.REQUEST_FNF else [], [])
    assert net.worlds["b1"].core.engine.annotations.refused == {"from-client": 1}


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("kind", MODELS)
def test_a_section_from_a_client_is_taken_out_where_that_is_configured(kind: int, place: int) -> None:
    front = stamped(section(0, f"route:{scripts.uuid(9)}", "b3", ["b3"]))
    said, got, net = of_client("strip", kind, [front + ORDERS, ORDERS + front][place])
    assert (said, got) == ([], [request(kind, 2, ORDERS, b"data")])
    assert net.worlds["b1"].core.engine.annotations.stripped_n == 1
    (raw,) = requests(net, "b1", "b2")
    flags = int(kind >= scripts.REQUEST_STREAM)
    assert raw == request(kind, 1, stamped(section(flags, TO, "b1", ["b1"])) + MIMES + ORDERS, b"data")


@pytest.mark.parametrize("kind", MODELS)
def test_a_section_from_a_client_counts_where_that_is_configured(kind: int) -> None:
    said, got, net = of_client("accept", kind, stamped(section(0x10, TO, "test", ["test"])) + MIMES + ORDERS)
    assert (said, got) == ([], [request(kind, 2, ORDERS, b"data")])
    (raw,) = requests(net, "b1", "b2")
    assert raw == request(kind, 1, stamped(section(0x10, TO, "test", ["test", "b1"])) + MIMES + ORDERS, b"data")


@pytest.mark.parametrize("kind", MODELS)
def test_a_service_gets_the_section_where_that_is_configured(kind: int) -> None:
    net, orders, wire = three(to_clients="keep")
    say(net, wire, request(kind, 1, ORDERS, b"data"))
    kept = stamped(section(int(kind >= scripts.REQUEST_STREAM), TO, "b1", ["b1", "b2"]))
    assert heard(orders) == [request(kind, 2, kept + ORDERS, b"data")]


@pytest.mark.parametrize("kind", scripts.ANSWERED)
def test_answers_have_nothing_in_front(kind: int) -> None:
    """They go back over the streams of their request; annotations are of requests."""
    net, orders, wire = three()
    say(net, wire, request(kind, 1, ORDERS))
    heard(orders)
    say(net, orders, scripts.payload(2, scripts.NEXT | 0x40, b"answer", b"metadata"))
    answer = [scripts.payload(1, scripts.NEXT | 0x40, b"answer", b"metadata")]
    assert requests(net, "b3", "b2") == requests(net, "b2", "b1") == heard(wire) == answer


def test_names_of_brokers_stand_in_the_trace_of_every_length_of_way() -> None:
    net = line(5)
    net.advance(LINKED_S)
    orders = destination(net.worlds["b5"], 7, "orders")
    net.pump()
    caller(net.worlds["b1"]).send(request(REQUEST_RESPONSE, 1, ORDERS))
    net.pump()
    assert heard(orders) == [request(REQUEST_RESPONSE, 2, ORDERS)]
    hops = net.worlds["b5"].core.engine.annotations
    assert ([path.way for path in hops.paths.values()], hops.hop_counts) == (["b1>b2>b3>b4>b5"], [0, 0, 0, 0, 1])
    front = stamped(section(0, TO, "b1", ["b1", "b2", "b3", "b4"]))
    assert requests(net, "b4", "b5") == [request(REQUEST_RESPONSE, 1, front + MIMES + ORDERS)]
