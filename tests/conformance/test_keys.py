"""The section "Well-known Keys": every row of its table, as a tag and as metadata, on the wire."""

import pytest

from tests.conformance import scripts
from tests.conformance.scripts import ADDRESS as ADDRESS_TYPE
from tests.conformance.scripts import REQUEST_FNF, SERVICE_NAME, SHARD_KEY, AnyTag, U, address, destination, heard, uuid
from tests.fakes import Wire, World

# The table of the specification.
KEYS = {
    "ServiceName": 0x01,
    "RouteId": 0x02,
    "InstanceName": 0x03,
    "ClusterName": 0x04,
    "Provider": 0x05,
    "Region": 0x06,
    "Zone": 0x07,
    "Device": 0x08,
    "OS": 0x09,
    "UserName": 0x0A,
    "UserId": 0x0B,
    "MajorVersion": 0x0C,
    "MinorVersion": 0x0D,
    "PatchVersion": 0x0E,
    "Version": 0x0F,
    "Environment": 0x10,
    "TestCell": 0x11,
    "DNS": 0x12,
    "IPv4": 0x13,
    "IPv6": 0x14,
    "Country": 0x15,
    "TimeZone": 0x1A,
    "ShardKey": 0x1B,
    "ShardMethod": 0x1C,
    "StickyRouteKey": 0x1D,
    "LBMethod": 0x1E,
}
NAMELESS = [0x16, 0x17, 0x18, 0x19, 0x1F, 0x40, 0x7B, 0x7D, 0x7E]


class Asker:
    """A caller that asks again and again."""

    def __init__(self, world: World) -> None:
        self.wire = scripts.caller(world)
        self._stream_id = -1

    def ask(self, raw: bytes, kind: int = scripts.REQUEST_RESPONSE) -> bytes:
        """Sends a request with this ADDRESS; the frame."""
        self._stream_id += 2
        sent = scripts.request(kind, self._stream_id, scripts.forwarding(raw))
        self.wire.send(sent)
        return sent


def bodies(wire: Wire) -> list[bytes]:
    """What was heard, without the stream ids."""
    return [raw[4:] for raw in heard(wire)]


@pytest.mark.parametrize("name", KEYS)
def test_key_is_considered_for_routing_in_tags_and_not_in_metadata(name: str) -> None:
    id = KEYS[name]
    world = World()
    mine = destination(
        world, 1, "orders", (id, "mine"), (scripts.ZONE, "z") if id != scripts.ZONE else (scripts.REGION, "z")
    )
    other = destination(world, 2, "orders", (id, "other"))
    asker = Asker(world)
    both: AnyTag = ("all", "orders") if id == SERVICE_NAME else (SERVICE_NAME, "orders")
    by_tag = asker.ask(address(U, (id, "mine")))
    assert (bodies(mine), heard(other)) == ([by_tag[4:]], [])
    for spelling in ("io.rsocket.routing.", "io.rsocket.broker."):  # D-05: both are the key with the id
        by_text = asker.ask(address(U, (spelling + name, "mine")))
        assert (bodies(mine), heard(other)) == ([by_text[4:]], [])
    asker.ask(address(U, (id, "nobody")))
    assert (heard(mine), heard(other), [raw[6:10] for raw in heard(asker.wire)]) == ([], [], [b"\x00\x00\x02\x02"])
    if id == SERVICE_NAME:
        return
    in_metadata = asker.ask(address(scripts.M, both, metadata=[(id, "nobody")]))
    assert (bodies(mine), bodies(other), heard(asker.wire)) == ([in_metadata[4:]], [in_metadata[4:]], [])


def test_service_name_in_metadata_is_not_considered_for_routing() -> None:
    world = World()
    wires = [destination(world, 1, "orders"), destination(world, 2, "stock")]
    raw = Asker(world).ask(address(U, (SERVICE_NAME, "stock"), metadata=[(SERVICE_NAME, "orders")]))
    assert [bodies(wire) for wire in wires] == [[], [raw[4:]]]


@pytest.mark.parametrize("name", KEYS)
def test_id_on_the_wire_is_the_key_of_that_name(name: str) -> None:
    """The name in the table for the id, and the id for the name as a text."""
    world = World()
    destination(world, 1, "orders", (KEYS[name], "x"))
    destination(world, 2, "orders", ("io.rsocket.routing." + name, "x"))
    found = ("io.rsocket.routing." + name, "x")
    assert [row[0] for row in scripts.tags_in_table(world)] == [found, found]


def test_no_tag_present_is_no_tag() -> None:
    """Key 0x00: alone it is an empty map, among others it says nothing."""
    world = World()
    setup_tags = b"\x80\x81x" + b"\x86\x82eu" + b"\x80\x00"
    orders = scripts.connected(
        world, scripts.setup(scripts.COMPOSITE, scripts.forwarding(scripts.route_setup(1, "orders") + setup_tags))
    )
    assert scripts.tags_in_table(world) == [
        [
            ("io.rsocket.routing.Region", "eu"),
            ("io.rsocket.routing.ServiceName", "orders"),
            ("io.rsocket.routing.RouteId", uuid(1)),
        ]
    ]
    asker = Asker(world)
    head = scripts.header(ADDRESS_TYPE, U) + scripts.CALLER_ID
    for maps in (b"\x80\x00" + b"\x81\x06orders", b"\x80\x81x\x81\x06orders", b"\x80\x80\x80\x00" + b"\x81\x06orders"):
        raw = asker.ask(head + maps)
        assert bodies(orders) == [raw[4:]]
    asker.ask(head + b"\x80\x00" + b"\x80\x00")
    text = "bad-address: the ADDRESS has no tag to route by"
    assert heard(asker.wire) == [scripts.error(7, 0x204, text)]


@pytest.mark.parametrize("id", NAMELESS)
def test_id_without_a_name_is_a_key_of_its_own(id: int) -> None:
    """D-05: a broker that does not know a key can route by it all the same."""
    world = World()
    mine = destination(world, 1, "orders", (id, "x"))
    other = destination(world, 2, "orders", (0x41, "x"), (f"well-known-{id:#04x}", "x"))
    asker = Asker(world)
    raw = asker.ask(address(U, (id, "x")))
    assert (bodies(mine), heard(other)) == ([raw[4:]], [])


@pytest.mark.parametrize("base", [0x7C, 0x7F])
def test_extension_keys_have_a_number_of_16_bits(base: int) -> None:
    world = World()
    keys: list[scripts.AnyKey] = [(base, 0), (base, 1), (base, 0x7C), (base, 0xFFFF), (base ^ 3, 1)]
    wires = [destination(world, number + 1, "orders", (of, "x")) for number, of in enumerate(keys)]
    assert scripts.key(keys[3]) == bytes([0x80 | base, 0xFF, 0xFF])
    asker = Asker(world)
    for number, of in enumerate(keys):
        raw = asker.ask(address(U, (SERVICE_NAME, "orders"), (of, "x"), metadata=[((base, 9), "not a tag")]))
        assert [bodies(wire) for wire in wires] == [[raw[4:]] if at == number else [] for at in range(5)]
    asker.ask(address(U, ((base, 2), "x")))
    text = f"no-route: no route has extension-{base:#04x}-2=x"
    assert heard(asker.wire) == [scripts.error(11, scripts.REJECTED, text)]


def test_route_id_is_found_in_every_way_to_write_it() -> None:
    """D-18."""
    world = World()
    orders = destination(world, 0xAB, "orders")
    asker = Asker(world)
    for text in (uuid(0xAB), uuid(0xAB).upper(), f"Id{{{uuid(0xAB)}}}"):
        raw = asker.ask(address(U, (0x02, text)))
        assert bodies(orders) == [raw[4:]]


def test_load_balancing_method_chooses_the_algorithm() -> None:
    """The default takes turns; "random" by the rng does not."""
    found: list[list[int]] = []
    for hint in ("round_robin", "random"):
        world = World(seed=3)
        wires = [destination(world, number, "orders") for number in (1, 2)]
        asker = Asker(world)
        order: list[int] = []
        for _ in range(24):
            asker.ask(address(U, (SERVICE_NAME, "orders"), metadata=[(scripts.LB_METHOD, hint)]), REQUEST_FNF)
            order.append([len(heard(wire)) for wire in wires].index(1))
        found.append(order)
    assert found[0] == [0, 1] * 12
    assert found[1] not in ([0, 1] * 12, [1, 0] * 12)
    assert 4 <= sum(found[1]) <= 20


def test_shard_key_names_the_tag_that_decides() -> None:
    """The same value of the tag goes to one route whatever the others say; other values go to others, too."""
    world = World()
    wires = [destination(world, number, "orders") for number in range(1, 6)]
    asker = Asker(world)
    owners: dict[int, set[int]] = {}
    for number in range(60):
        tags: list[AnyTag] = [(SERVICE_NAME, "orders"), (0x0B, f"{number % 20}")]
        asker.ask(address(scripts.S, *tags, metadata=[(SHARD_KEY, "io.rsocket.routing.UserId")]), REQUEST_FNF)
        owners.setdefault(number % 20, set()).add([len(heard(wire)) for wire in wires].index(1))
    assert [len(each) for each in owners.values()] == [1] * 20
    assert len(set.union(*owners.values())) > 2


@pytest.mark.parametrize("method", ["rendezvous", "maglev", "ring", "jump", "modulo"])
def test_shard_method_finds_the_same_owner_whatever_broker_is_asked(method: str) -> None:
    """Two brokers with the same routes, which joined in another order, agree on every owner (D-36)."""
    found: list[list[int]] = []
    for order in ([1, 2, 3, 4], [3, 1, 4, 2]):
        world = World(seed=order[0])
        wires = {number: destination(world, number, "orders") for number in order}
        asker = Asker(world)
        owners: list[int] = []
        for number in range(30):
            metadata: list[AnyTag] = [(SHARD_KEY, "user"), (scripts.SHARD_METHOD, method)]
            asker.ask(
                address(scripts.S, (SERVICE_NAME, "orders"), ("user", f"{number}"), metadata=metadata), REQUEST_FNF
            )
            owners += [each for each in (1, 2, 3, 4) if heard(wires[each])]
        found.append(owners)
    assert len(found[0]) == 30
    assert found[0] == found[1]


def test_sticky_route_key_names_a_tag_whose_value_keeps_its_route() -> None:
    """D-35: from any caller, among routes that do not have the tag, until nobody has asked for `sticky_ttl_s`."""
    world = World()
    wires = [destination(world, number, "orders") for number in range(1, 6)]
    askers = [Asker(world), Asker(world)]
    found: dict[str, set[int]] = {}
    for number in range(60):
        user = f"user-{number % 10}"
        raw = address(U, (SERVICE_NAME, "orders"), ("user", user), metadata=[(scripts.STICKY_ROUTE_KEY, "user")])
        askers[number % 3 % 2].ask(raw, REQUEST_FNF)
        found.setdefault(user, set()).add([len(heard(wire)) for wire in wires].index(1))
    assert [len(each) for each in found.values()] == [1] * 10
    assert len(set.union(*found.values())) > 1


@pytest.mark.parametrize("hint", [SHARD_KEY, scripts.SHARD_METHOD, scripts.STICKY_ROUTE_KEY, scripts.LB_METHOD])
def test_hints_are_tags_where_they_stand_among_the_tags(hint: int) -> None:
    """ "If they are included in a tag on the envelope, they will be considered for routing." """
    world = World()
    plain = destination(world, 1, "orders")
    tagged = destination(world, 2, "orders", (hint, "random"))
    asker = Asker(world)
    for _ in range(3):
        raw = asker.ask(address(U, (SERVICE_NAME, "orders"), (hint, "random")))
        assert (heard(plain), bodies(tagged)) == ([], [raw[4:]])
