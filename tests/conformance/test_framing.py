"""The sections "Versioning Scheme" and "Framing": every field of every frame, byte by byte."""

import pytest

from broker.config.load import load
from broker.server import Server
from rsocket_wire.errors import InvalidFrame
from rsocket_wire.wire.frames import Address, BrokerInfo, RouteAdd, RouteRemove, RouteSetup, decode_frame
from rsocket_wire.wire.keys import Key
from rsocket_wire.wire.tags import Tag
from tests.conformance import scripts
from tests.conformance.scripts import (
    ADDRESS,
    BROKER_ID,
    REJECTED_SETUP,
    REQUEST_RESPONSE,
    SERVICE_NAME,
    U,
    address,
    caller,
    destination,
    error,
    forwarding,
    header,
    heard,
    on,
    request,
    route_setup,
)
from tests.fakes import World

AT_MS = 0x0102030405060708
ORDERS = address(U, (SERVICE_NAME, "orders"))
DEFAULT_TAGS = [("io.rsocket.routing.ServiceName", "orders"), ("io.rsocket.routing.RouteId", scripts.uuid(1))]

# Each frame of the specification, with nothing optional in it.
LEAST = {
    scripts.ROUTE_SETUP: route_setup(1, "orders"),
    scripts.ROUTE_ADD: scripts.route_add(1, AT_MS, "orders"),
    scripts.ROUTE_REMOVE: scripts.route_remove(1, AT_MS),
    scripts.BROKER_INFO: scripts.broker_info(AT_MS),
    ADDRESS: scripts.short_address(U),
}


def answer_to(metadata: bytes) -> list[bytes]:
    """What the caller of one request hears; there is a destination of orders in the world, which answers nothing."""
    world = World()
    destination(world, 1, "orders")
    wire = caller(world)
    wire.send(request(REQUEST_RESPONSE, 1, forwarding(metadata)))
    return heard(wire)


def announced(raw: bytes) -> tuple[list[bytes], list[list[tuple[str, str | None]]]]:
    """What a destination hears that announces itself with these bytes, and what the table says then."""
    world = World()
    wire = scripts.connected(world, scripts.setup(scripts.COMPOSITE, forwarding(raw)))
    return heard(wire), scripts.tags_in_table(world)


# Versions


@pytest.mark.parametrize("minor", [0, 2, 0x1C00, 0xFFFF])
def test_minor_versions_of_the_same_major_version_are_compatible(minor: int) -> None:
    world = World()
    orders = scripts.connected(
        world, scripts.setup(scripts.COMPOSITE, forwarding(route_setup(1, "orders", minor=minor)))
    )
    scripts.assert_arrives(world, orders, forwarding(address(U, (SERVICE_NAME, "orders"), minor=minor)))


@pytest.mark.parametrize("major", [1, 2, 0xFFFF])
def test_other_major_versions_are_refused_in_requests_and_with_the_setup(major: int) -> None:
    refused = f"version {major}.1 is not supported, 0.1 is"
    assert answer_to(major.to_bytes(2, "big") + ORDERS[2:]) == [error(1, scripts.INVALID, f"bad-address: {refused}")]
    raw = major.to_bytes(2, "big") + route_setup(1, "orders")[2:]
    assert announced(raw) == ([error(0, REJECTED_SETUP, f"bad-route: {refused}")], [])


# The header


@pytest.mark.parametrize("kind", sorted(LEAST))
@pytest.mark.parametrize("flags", [0, 0x3FF, 0x155])
def test_header_is_two_versions_a_type_of_6_bits_and_flags_of_10(kind: int, flags: int) -> None:
    raw = header(kind, flags, minor=0x0203) + LEAST[kind][6:]
    assert raw[:4] == b"\x00\x00\x02\x03"
    found = decode_frame(raw)
    assert (found.major, found.minor, found.kind, found.flags) == (0, 0x0203, kind, flags)
    assert found.encode() == header(kind, flags) + LEAST[kind][6:]  # 0.1 is what we write


def test_reserved_flags_change_nothing_and_are_passed_on() -> None:
    world = World()
    orders = scripts.connected(
        world, scripts.setup(scripts.COMPOSITE, forwarding(route_setup(1, "orders", flags=0x3FF)))
    )
    for flags in (U | 0x200, U | 0x01F, 0x21F, scripts.E | U | 0x21F):
        scripts.assert_arrives(world, orders, forwarding(address(flags, (SERVICE_NAME, "orders"))))


def test_header_that_is_cut_is_refused() -> None:
    for size in range(6):
        text = f"header: needs 6 bytes, {size} are there"
        assert answer_to(ORDERS[:size]) == [error(1, scripts.INVALID, f"bad-address: {text}")]
        assert announced(LEAST[scripts.ROUTE_SETUP][:size])[0] == [error(0, REJECTED_SETUP, f"bad-route: {text}")]


@pytest.mark.parametrize("kind", [0x00, 0x06, 0x20, 0x21, 0x3F])
def test_reserved_and_unknown_frame_types_are_refused_wherever_they_come(kind: int) -> None:
    raw = header(kind) + LEAST[scripts.ROUTE_SETUP][6:]
    text = f"frame type {kind:#04x} is unknown, 0x01..0x05 are known"
    assert answer_to(raw) == [error(1, scripts.INVALID, f"bad-address: {text}")]
    assert announced(raw) == ([error(0, REJECTED_SETUP, f"bad-route: {text}")], [])
    world = World()
    wire = caller(world)
    wire.send(scripts.push(forwarding(raw)))
    assert (heard(wire), wire.is_closed) == ([error(0, scripts.CONNECTION_ERROR, f"bad-route: {text}")], True)


@pytest.mark.parametrize("kind", [scripts.ROUTE_ADD, scripts.ROUTE_REMOVE, scripts.BROKER_INFO])
def test_what_belongs_between_brokers_is_not_taken_from_a_request(kind: int) -> None:
    text = f"bad-address: the request carries a broker frame of kind {kind}, not an ADDRESS"
    assert answer_to(LEAST[kind]) == [error(1, scripts.INVALID, text)]


def test_an_address_in_a_setup_is_refused() -> None:
    text = "bad-route: an ADDRESS belongs to a request, a SETUP carries a ROUTE_SETUP"
    assert announced(ORDERS) == ([error(0, REJECTED_SETUP, text)], [])


# Metadata


@pytest.mark.parametrize("entry_mime", [scripts.FORWARDING, scripts.FORWARDING_V0])
def test_frame_ends_with_the_metadata_that_carries_it(entry_mime: str) -> None:
    """A broker frame has no length: in composite metadata the entry's is its end, else that of the metadata."""
    world = World()
    orders = destination(world, 1, "orders")
    before, other = ("a/b", b"before"), ("c/d", b"\x81\x05other")
    scripts.assert_arrives(world, orders, scripts.composite(before, (entry_mime, ORDERS), other))
    short = scripts.short_address(U, (SERVICE_NAME, "orders"))
    scripts.assert_arrives(world, orders, scripts.composite((entry_mime, short), other))


@pytest.mark.parametrize("mime", [scripts.COMPOSITE, scripts.FORWARDING, scripts.FORWARDING_V0])
def test_all_frames_share_the_mime_type(mime: str) -> None:
    """In a SETUP, in a METADATA_PUSH and in requests; as an entry and as all of the metadata (D-02)."""
    world = World()
    first = destination(world, 1, "orders", mime=mime)
    second = caller(world, mime)
    second.send(scripts.push(scripts.carried(mime, route_setup(2, "stock"))))
    for name, wire in (("orders", first), ("stock", second)):
        scripts.assert_arrives(world, wire, scripts.carried(mime, address(U, (SERVICE_NAME, name))), mime)


# ROUTE_SETUP


def test_route_setup_field_by_field() -> None:
    raw = bytes.fromhex(
        "0000 0001"  # 0.1
        "0400"  # ROUTE_SETUP, no flags
        "00112233445566778899aabbccddeeff"  # Route Id
        "06 6f7264657273"  # "orders"
        "86 82 6575"  # Region (0x06) = "eu", more
        "05 636f6c6f72 83 726564"  # "color" = "red", more
        "fc 1234 81 61"  # extension 0x1234 of this broker = "a", more
        "ff ffff 81 62"  # extension 0xffff of the specification = "b", more
        "96 80"  # 0x16, an id without a name, = "", more
        "87"  # Zone without a value length: null
    )
    frame = decode_frame(raw)
    assert frame == RouteSetup(
        bytes.fromhex("00112233445566778899aabbccddeeff"),
        "orders",
        [
            Tag(Key.well_known(0x06), b"eu"),
            Tag(Key.text("color"), b"red"),
            Tag(Key.extension(0x7C, 0x1234), b"a"),
            Tag(Key.extension(0x7F, 0xFFFF), b"b"),
            Tag(Key.well_known(0x16), b""),
            Tag(Key.well_known(0x07), None),
        ],
    )
    assert frame.encode() == raw
    said, table = announced(raw)
    assert (said, table[0][:6]) == (
        [],
        [
            ("io.rsocket.routing.Region", "eu"),
            ("color", "red"),
            ("extension-0x7c-4660", "a"),
            ("extension-0x7f-65535", "b"),
            ("well-known-0x16", ""),
            ("io.rsocket.routing.Zone", None),
        ],
    )


def test_route_setup_may_end_with_the_service_name() -> None:
    assert announced(route_setup(1, "orders")) == ([], [DEFAULT_TAGS])


@pytest.mark.parametrize("name", ["o", "größe", "x" * 127])
def test_service_name_is_utf8_behind_a_length_of_8_bits(name: str) -> None:
    world = World()
    wire = destination(world, 1, name)
    scripts.assert_arrives(world, wire, forwarding(address(U, (SERVICE_NAME, name))))


def test_longest_service_name_has_255_bytes_and_an_empty_one_is_refused() -> None:
    """D-06: 8 bits say no 256. A name that is no tag value is no tag; its route is found by its id and other tags."""
    assert announced(route_setup(1, "x" * 255)) == ([], [[("io.rsocket.routing.RouteId", scripts.uuid(1))]])
    text = "bad-route: ROUTE_SETUP service name: is empty"
    assert announced(route_setup(1, "")) == ([error(0, REJECTED_SETUP, text)], [])


@pytest.mark.parametrize("raw", [b"\x02\xc3\x28", b"\x01o\x02\xc3\x28\x01a", b"\x01o\x01a\x02\xc3\x28"])
def test_names_keys_and_values_of_tags_are_utf8(raw: bytes) -> None:
    said, table = announced(header(scripts.ROUTE_SETUP) + scripts.ident(1) + raw)
    assert (len(said), said[0][:10], table) == (1, error(0, REJECTED_SETUP, ""), [])
    assert b"is not UTF-8" in said[0]


def test_keys_and_values_have_up_to_127_bytes() -> None:
    """D-06: 7 bits say no 128."""
    longest = "k" * 127
    world = World()
    wire = destination(world, 1, "orders", (longest, "v" * 127), ("empty", ""))
    for of, value in ((longest, "v" * 127), ("empty", "")):
        scripts.assert_arrives(world, wire, forwarding(address(U, (of, value))))
    text = "bad-route: ROUTE_SETUP tags: the key at offset 29 has no bytes"
    assert announced(route_setup(1, "orders") + b"\x00\x01a") == ([error(0, REJECTED_SETUP, text)], [])


def test_value_without_a_length_is_null_and_the_last() -> None:
    """D-07: a null value matches a null one and an empty one."""
    world = World()
    null = destination(world, 1, "orders", (scripts.ZONE, "a"), ("beta", None))
    empty = destination(world, 2, "orders", ("beta", ""), (scripts.ZONE, "b"))
    assert [row[1] for row in scripts.tags_in_table(world)[:1]] == [("beta", None)]
    for zone, wire in (("a", null), ("b", empty)):
        scripts.assert_arrives(world, wire, forwarding(address(U, (scripts.ZONE, zone), ("beta", None))))


def test_first_bit_of_the_value_length_says_whether_more_follows() -> None:
    more = b"\x86\x82eu"
    text = "bad-route: ROUTE_SETUP tags: entry 2 was announced, but the frame ends at offset 33"
    assert announced(route_setup(1, "orders") + more) == ([error(0, REJECTED_SETUP, text)], [])
    one = [("io.rsocket.routing.Region", "eu")]
    assert announced(route_setup(1, "orders") + b"\x86\x02eu") == ([], [one + DEFAULT_TAGS])
    two = [*one, ("io.rsocket.routing.Zone", "a")]
    assert announced(route_setup(1, "orders") + more + b"\x87\x01a") == ([], [two + DEFAULT_TAGS])


def test_clear_bit_ends_a_map_that_something_can_follow() -> None:
    """In an ADDRESS the map of tags and the wrapped metadata follow. In a ROUTE_SETUP only tags can (D-21)."""
    assert decode_frame(address(U, (SERVICE_NAME, "orders"), wrapped=b"\x87\x01a")) == Address(
        scripts.CALLER_ID, [Tag(Key.well_known(SERVICE_NAME), b"orders")], [], b"\x87\x01a", U
    )
    tags = [("io.rsocket.routing.Region", "eu"), ("io.rsocket.routing.Zone", "a")]
    assert announced(route_setup(1, "orders") + b"\x86\x02eu" + b"\x87\x01a") == ([], [tags + DEFAULT_TAGS])


@pytest.mark.parametrize("kind", sorted(LEAST))
def test_frame_that_is_cut_within_its_fields_is_refused(kind: int) -> None:
    whole = LEAST[kind]
    for size in range(6, len(whole)):
        with pytest.raises(InvalidFrame):
            decode_frame(whole[:size])
    assert decode_frame(whole).kind == kind


def test_map_that_is_cut_is_refused_or_ends_with_a_null_value() -> None:
    head = route_setup(1, "orders")
    tags = scripts.tag_map((scripts.REGION, "eu"), ("color", "red"))
    ends: dict[int, list[Tag]] = {
        0: [],
        1: [Tag(Key.well_known(scripts.REGION), None)],
        10: [Tag(Key.well_known(scripts.REGION), b"eu"), Tag(Key.text("color"), None)],
        14: [Tag(Key.well_known(scripts.REGION), b"eu"), Tag(Key.text("color"), b"red")],
    }
    assert len(tags) == 14
    for size in range(len(tags) + 1):
        if size in ends:
            assert decode_frame(head + tags[:size]) == RouteSetup(scripts.ident(1), "orders", ends[size])
        else:
            with pytest.raises(InvalidFrame):
                decode_frame(head + tags[:size])


# Frames between brokers


def test_broker_info_field_by_field() -> None:
    raw = bytes.fromhex(
        "0000 0001 1000"  # 0.1, BROKER_INFO
        "b40ce4b40ce4b40ce4b40ce4b40ce4b4"  # Broker Id
        "0000018bcfe56800"  # 1,700,000,000,000 ms since the epoch
        "84 82 6331"  # ClusterName = "c1", more
        "03 757269 03 00ff80"  # "uri" = three bytes that are no text
    )
    found = decode_frame(raw)
    metadata = [Tag(Key.well_known(0x04), b"c1"), Tag(Key.text("uri"), b"\x00\xff\x80")]
    assert found == BrokerInfo(BROKER_ID, 1_700_000_000_000, metadata)
    assert found.encode() == raw
    assert decode_frame(scripts.broker_info(5, ("up", None))) == BrokerInfo(BROKER_ID, 5, [Tag(Key.text("up"), None)])
    assert decode_frame(scripts.broker_info(5)) == BrokerInfo(BROKER_ID, 5, [])


def test_broker_has_an_id_of_its_own() -> None:
    """Two processes that are not told who they are differ; one that is told keeps to it."""
    ids = [Server(load(None, {}, {})).core.broker_id for _ in range(2)]
    assert [len(each) for each in ids] == [16, 16]
    assert ids[0] != ids[1]
    told = load(None, {"RSB_BROKER__ID": "b40ce4b4-0ce4-b40c-e4b4-0ce4b40ce4b4"}, {})
    assert Server(told).core.broker_id == BROKER_ID


def test_route_add_field_by_field() -> None:
    """D-01: ROUTE_ADD in the table of types, ROUTE_JOIN in the heading."""
    raw = bytes.fromhex(
        "0000 0001 0800"  # 0.1, type 0x02
        "b40ce4b40ce4b40ce4b40ce4b40ce4b4"  # Broker Id
        "00112233445566778899aabbccddeeff"  # Route Id
        "0000018bcfe56800"  # 1,700,000,000,000 ms since the epoch
        "06 6f7264657273"  # "orders"
        "86 82 6575"  # Region = "eu", more
        "05 636f6c6f72"  # "color", no value
    )
    found = decode_frame(raw)
    tags = [Tag(Key.well_known(0x06), b"eu"), Tag(Key.text("color"), None)]
    expected = RouteAdd(BROKER_ID, bytes.fromhex("00112233445566778899aabbccddeeff"), 1_700_000_000_000, "orders", tags)
    assert found == expected
    assert found.encode() == raw
    assert decode_frame(scripts.route_add(1, 5, "o")) == RouteAdd(BROKER_ID, scripts.ident(1), 5, "o", [])


def test_route_remove_field_by_field() -> None:
    """Its list of fields names a Key Length, its diagram has none: the diagram is followed."""
    raw = bytes.fromhex(
        "0000 0001 0c00"  # 0.1, ROUTE_REMOVE
        "b40ce4b40ce4b40ce4b40ce4b40ce4b4"  # Broker Id
        "00112233445566778899aabbccddeeff"  # Route Id
        "0000018bcfe56800"  # 1,700,000,000,000 ms since the epoch
    )
    found = decode_frame(raw)
    assert found == RouteRemove(BROKER_ID, bytes.fromhex("00112233445566778899aabbccddeeff"), 1_700_000_000_000)
    assert found.encode() == raw
    with pytest.raises(InvalidFrame):
        decode_frame(raw + b"\x81")


@pytest.mark.parametrize("kind", [scripts.ROUTE_ADD, scripts.ROUTE_REMOVE, scripts.BROKER_INFO])
def test_timestamps_have_63_bits(kind: int) -> None:
    """D-08: milliseconds; the highest of the 64 bits is no time that anybody could mean."""
    at = {scripts.ROUTE_ADD: 38, scripts.ROUTE_REMOVE: 38, scripts.BROKER_INFO: 22}[kind]
    raw = LEAST[kind]
    assert raw[at : at + 8] == scripts.u64(AT_MS)
    latest = raw[:at] + scripts.u64(2**63 - 1) + raw[at + 8 :]
    assert decode_frame(latest).encode() == latest
    with pytest.raises(InvalidFrame):
        decode_frame(raw[:at] + scripts.u64(2**63) + raw[at + 8 :])


@pytest.mark.parametrize("kind", [scripts.ROUTE_ADD, scripts.ROUTE_REMOVE, scripts.BROKER_INFO])
@pytest.mark.parametrize("mime", [scripts.COMPOSITE, scripts.FORWARDING])
def test_frames_between_brokers_are_taken_from_brokers_only(kind: int, mime: str) -> None:
    """D-20: in a SETUP and in a METADATA_PUSH they end a connection that is no broker, and change nothing."""
    world = World()
    orders = destination(world, 1, "orders")
    text = f"no-cluster: a broker frame of kind {kind} on a connection that is no link"
    first = scripts.connected(world, scripts.setup(mime, scripts.carried(mime, LEAST[kind])))
    asks = "no-cluster: this broker is in no cluster: neither cluster.secret nor cluster.principals is set"
    said = asks if kind == scripts.BROKER_INFO else text
    assert (heard(first), first.is_closed) == ([error(0, REJECTED_SETUP, said)], True)
    second = caller(world, mime)
    second.send(scripts.push(scripts.carried(mime, LEAST[kind])))
    assert (heard(second), second.is_closed) == ([error(0, scripts.CONNECTION_ERROR, text)], True)
    assert (scripts.tags_in_table(world), heard(orders), orders.is_closed) == ([DEFAULT_TAGS], [], False)


# ADDRESS


def test_address_field_by_field() -> None:
    raw = bytes.fromhex(
        "0000 0001"  # 0.1
        "1580"  # ADDRESS (000101), 0 E=1 U=1 M=0 S=0, the rest 0
        "ca11e4ca11e4ca11e4ca11e4ca11e4ca"  # Origin Route Id
        "9e 86 72616e646f6d"  # metadata: LBMethod = "random", more
        "05 7472616365 02 00ff"  # metadata: "trace" = two bytes that are no text
        "81 86 6f7264657273"  # tag: ServiceName = "orders", more
        "05 636f6c6f72 03 726564"  # tag: "color" = "red"
        "77726170706564 00 ff"  # wrapped metadata: what remains
    )
    found = decode_frame(raw)
    assert found == Address(
        scripts.CALLER_ID,
        [Tag(Key.well_known(SERVICE_NAME), b"orders"), Tag(Key.text("color"), b"red")],
        [Tag(Key.well_known(scripts.LB_METHOD), b"random"), Tag(Key.text("trace"), b"\x00\xff")],
        b"wrapped\x00\xff",
        scripts.E | U,
    )
    assert found.encode() == raw
    world = World()
    orders = destination(world, 1, "orders", ("color", "red"))
    scripts.assert_arrives(world, orders, forwarding(raw))


def test_flags_of_an_address_stand_where_the_diagram_has_them() -> None:
    """The six bits of the type, then 0, E, U, M, S."""
    assert [
        f"{header(ADDRESS, flag)[4]:08b} {header(ADDRESS, flag)[5]:08b}"
        for flag in (scripts.E, U, scripts.M, scripts.S)
    ] == [
        "00010101 00000000",
        "00010100 10000000",
        "00010100 01000000",
        "00010100 00100000",
    ]
    for flags in (scripts.E, U, scripts.M, scripts.S, scripts.E | scripts.M):
        found = decode_frame(address(flags, (SERVICE_NAME, "orders")))
        assert isinstance(found, Address)
        assert (found.kind, found.flags) == (ADDRESS, flags)


@pytest.mark.parametrize(
    "raw",
    [
        scripts.short_address(U, (SERVICE_NAME, "orders")),
        scripts.short_address(U, (SERVICE_NAME, "orders"), ("beta", None)),
        address(U, (SERVICE_NAME, "orders")),
        address(U, (SERVICE_NAME, "orders"), ("beta", None)),
        address(U, (SERVICE_NAME, "orders"), wrapped=b"\x81\x05stock"),
        address(U, (SERVICE_NAME, "orders"), metadata=[(scripts.LB_METHOD, "random")]),
        address(
            U, (SERVICE_NAME, "orders"), metadata=[("any", b"\xff\x00"), (scripts.LB_METHOD, "random")], wrapped=b"\x00"
        ),
        address(U, ("größe", "groß"), (SERVICE_NAME, "orders"), ("k" * 127, "v" * 127)),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("mime", [scripts.COMPOSITE, scripts.FORWARDING, scripts.FORWARDING_V0])
def test_every_layout_of_an_address_is_routed_and_passed_on_as_it_is(raw: bytes, mime: str) -> None:
    """D-03: with and without metadata, tags without a value, wrapped metadata."""
    world = World()
    tags = (("beta", ""), ("größe", "groß"), ("k" * 127, "v" * 127))
    orders = destination(world, 1, "orders", *tags, mime=mime)
    scripts.assert_arrives(world, orders, scripts.carried(mime, raw), mime)


def test_value_of_metadata_is_any_bytes_and_that_of_a_tag_is_not() -> None:
    assert answer_to(address(U, (SERVICE_NAME, "orders"), metadata=[("any", b"\xc3\x28")])) == []
    for raw in (address(U, ("any", b"\xc3\x28")), scripts.short_address(U, ("any", b"\xc3\x28"))):
        (said,) = answer_to(raw)
        assert said[:10] == error(1, scripts.INVALID, "")
        assert b"is not UTF-8" in said


def test_metadata_of_an_address_is_not_used_for_routing() -> None:
    """The same pair that keeps a request away as a tag says nothing as metadata."""
    elsewhere: list[scripts.AnyTag] = [(scripts.REGION, "mars"), ("color", "red")]
    assert answer_to(address(U, (SERVICE_NAME, "orders"), metadata=elsewhere)) == []
    text = "no-route: no route has region=mars"
    assert answer_to(address(U, (SERVICE_NAME, "orders"), *elsewhere)) == [error(1, scripts.REJECTED, text)]


def test_keys_of_texts_ids_and_extensions_are_three_things() -> None:
    written: list[scripts.AnyKey] = [scripts.REGION, "\x06", (0x7C, 6), (0x7F, 6), 0x16]
    keys = [scripts.key(of) for of in written]
    assert [each.hex() for each in keys] == ["86", "0106", "fc0006", "ff0006", "96"]
    world = World()
    wires = [destination(world, number + 1, "orders", (of, "x")) for number, of in enumerate(written)]
    one = caller(world)
    for number, of in enumerate(keys):
        raw = header(ADDRESS, U) + scripts.CALLER_ID + of + b"\x01x"
        sent = request(REQUEST_RESPONSE, 2 * number + 1, forwarding(raw))
        one.send(sent)
        assert [heard(wire) for wire in wires] == [[on(2, sent)] if at == number else [] for at in range(5)]
