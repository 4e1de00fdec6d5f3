"""What an address asks for: routing, tags, hints, and the keys that say who owns a shard request."""

import pytest

from broker.routing.policies import Policies, Policy
from broker.routing.sharding.hashes import key_hash
from broker.routing.table import Table
from broker.routing.targets import MAX_LABEL, label_of
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST, Address
from rsocket_wire.wire.keys import LB_METHOD, SHARD_KEY, SHARD_METHOD, STICKY_ROUTE_KEY, Key
from rsocket_wire.wire.tags import Tag
from tests.broker.routing.made import address, chosen, found, hinted, joined, query_of, resolve, route_id, zoo


@pytest.mark.parametrize("raw", [None, b"", b"\xff" * 127, b"x" * 127, b"\x00"])
def test_shard_key_that_no_key_can_have_is_refused(raw: bytes | None) -> None:
    """Hints are any bytes: what cannot be a key's name is an answer and no exception."""
    sent = Address(route_id(9), [Tag.of("service", "orders")], [Tag(SHARD_KEY, raw)], b"w", SHARD)
    if raw is None:
        sent = Address(route_id(9), [Tag.of("service", "orders"), Tag(SHARD_KEY, None)], flags=SHARD)
    message = str(found(query_of(zoo()), sent.encode()))
    assert message.startswith("bad-shard-key: ShardKey '")
    assert message.endswith("' names no tag of the ADDRESS")


def test_shard_key_beyond_127_bytes_of_the_js_client_is_refused() -> None:
    """D-21: its values have up to 255 bytes."""
    raw = b"\x00\x00\x1c\x01\x14\x20" + route_id(9) + b"\x1b\xff" + b"k" * 255 + b"\x01\x06orders"
    assert str(found(query_of(zoo()), raw)).startswith("bad-shard-key: ShardKey 'kkk")


@pytest.mark.parametrize("name", ["region", "Region", "io.rsocket.routing.Region", "io.rsocket.broker.Region"])
def test_shard_key_may_be_spelt_in_any_way(name: str) -> None:
    query = query_of(zoo())
    target = resolve(query, address(SHARD, [(SHARD_KEY, name)], service="orders", region="eu"))
    assert target.refusal is None
    assert (target.shard_hash, target.label) == (key_hash([b"eu"]), "service=orders")


def test_shard_key_finds_a_text_tag_of_a_well_known_name() -> None:
    text_region = Tag(Key.text("region"), b"eu")
    sent = Address(route_id(9), [Tag.of("service", "orders"), text_region], [Tag(SHARD_KEY, b"region")], b"", SHARD)
    target = resolve(query_of(zoo()), sent.encode())
    assert (target.shard_hash, target.label) == (key_hash([b"eu"]), "service=orders")


def test_several_shard_keys_hash_in_their_order() -> None:
    query = query_of(zoo())
    one = address(SHARD, [(SHARD_KEY, "user"), (SHARD_KEY, "item")], service="orders", user="7", item="9")
    other = address(SHARD, [(SHARD_KEY, "item"), (SHARD_KEY, "user")], service="orders", user="7", item="9")
    assert resolve(query, one).shard_hash == key_hash([b"7", b"9"])
    assert resolve(query, other).shard_hash == key_hash([b"9", b"7"])
    assert resolve(query, one).label == "service=orders"


def test_order_of_the_tags_does_not_change_the_shard() -> None:
    query = query_of(zoo())
    one = address(SHARD, [(SHARD_KEY, "user")], service="orders", user="7")
    other = address(SHARD, [(SHARD_KEY, "user")], user="7", service="orders")
    assert resolve(query, one).shard_hash == resolve(query, other).shard_hash


def test_shard_key_named_again_counts_once_however_it_is_spelt() -> None:
    """The work is bounded by the tags, not by the tags times the hints."""
    tags = [Tag.of("user", str(number)) for number in range(127)] + [Tag.of("service", "orders")]
    spelt = [Tag(SHARD_KEY, name.encode()) for name in ("user", "user", "service", "Service", "serv-ice", "serv_ice")]
    target = resolve(query_of(zoo()), Address(route_id(9), tags, spelt, b"", SHARD).encode())
    assert target.shard_hash == key_hash([str(number).encode() for number in range(127)] + [b"orders"])
    assert target.selectors == []


def test_shard_key_with_a_null_value_hashes_as_empty() -> None:
    sent = Address(route_id(9), [Tag.of("service", "orders"), Tag.of("user", None)], [Tag(SHARD_KEY, b"user")], b"")
    raw = sent.encode()
    target = resolve(query_of(zoo()), raw[:4] + b"\x14\x20" + raw[6:])
    assert target.shard_hash == key_hash([b""])


def test_shard_tag_that_no_route_has_does_not_select() -> None:
    """D-22: a shard key is usually no route's tag."""
    query = query_of(zoo())
    for raw in hinted(SHARD, [(SHARD_KEY, "user")], service="orders", user="42"):
        assert found(query, raw) == [1, 2, 3]


def test_strict_hints_shard_among_routes_that_have_all_tags() -> None:
    """D-22 is ours; with strict hints it is the specification's AND and no other."""
    query = query_of(zoo(), strict_hints=True)
    raw = address(SHARD, [(SHARD_KEY, "user")], service="orders", user="42")
    assert found(query, raw) == "no-route: no route has user=42"


@pytest.mark.parametrize("flags, name", [(0, "unicast"), (UNICAST, "unicast"), (MULTICAST, "multicast")])
def test_routing_is_what_the_flag_says(flags: int, name: str) -> None:
    target = resolve(query_of(zoo()), address(flags, service="orders", region="eu"))
    assert (target.routing, target.routing_name, target.refusal) == (flags, name, None)
    assert (target.service, target.label) == ("orders", "service=orders region=eu")


def test_address_without_tags_is_refused() -> None:
    message = "bad-address: the ADDRESS has no tag to route by"
    query = query_of(zoo())
    assert found(query, address()) == message
    assert found(query, address(hints=[(LB_METHOD, "random")])) == message
    assert found(query, Address(route_id(1), [Tag(LB_METHOD, b"random")]).encode()) == message


def test_address_cut_anywhere_is_refused_and_what_it_lacks_is_right() -> None:
    query = query_of(zoo())
    raw = address(hints=[(LB_METHOD, "random")], service="orders", region="eu")
    for size in range(len(raw)):
        message = found(query, raw[:size])
        if size < 6:
            assert message == f"bad-address: header: needs 6 bytes, {size} are there"
        elif size < 22:
            needs = f"ADDRESS origin route id: needs 16 bytes at offset 6, {size - 6} are left"
            assert message == f"bad-address: {needs}"
        else:  # the metadata alone would be the tags, and a key alone has a null value
            assert str(message).startswith(("bad-address: ADDRESS ", "bad-address: the ADDRESS has no", "no-route: "))
    assert found(query, raw) == [1, 3]


def test_hints_are_read_from_either_map_and_do_not_take_part_in_the_and() -> None:
    """D-12."""
    table = Table(Policies(Policy(chooser="random"), {}))
    for number in (1, 3, 4):
        joined(table, number, region="eu")
    query = query_of(table)
    for raw in hinted(hints=[(LB_METHOD, "round-robin"), (STICKY_ROUTE_KEY, "x"), (SHARD_METHOD, "y")], region="eu"):
        assert found(query, raw) == [1, 3, 4]
        picks = chosen(query, raw, 6)
        assert sorted(picks[:3]) == [1, 3, 4]
        assert picks[3:] == picks[:3]
    assert query.unknown_methods == 0


def test_strict_hints_among_the_tags_take_part_in_the_and() -> None:
    """D-12: then they are still hints, and tags like any other as well."""
    table = zoo()
    joined(table, 5, "orders", lb_method="random")
    query = query_of(table, strict_hints=True)
    in_metadata, in_tags = hinted(hints=[(LB_METHOD, "random")], service="orders")
    assert found(query, in_metadata) == [1, 2, 3, 5]
    assert found(query, in_tags) == [5]
    shard = Address(route_id(9), [Tag.of("service", "orders"), Tag(SHARD_KEY, b"service")], flags=SHARD).encode()
    assert found(query, shard) == "no-route: no route has shard_key=service"


def test_hints_among_the_tags_are_tags_where_a_metadata_map_is_there() -> None:
    """D-12: whoever writes the specification's layout could have said them in the metadata, were it empty."""
    head = Address(route_id(9), []).encode()
    tags = Address(route_id(9), [Tag(LB_METHOD, b"random"), Tag.of("service", "orders")]).encode()[22:]
    assert found(query_of(zoo()), head + tags) == [1, 2, 3]
    assert found(query_of(zoo()), head + b"\x80\x00" + tags) == "no-route: no route has lb_method=random"


def test_label_of_many_tags_is_cut() -> None:
    tags = [Tag.of("region", "us"), *[Tag.of(f"key-{number}", "v" * 100) for number in range(100)]]
    label = resolve(query_of(zoo()), Address(route_id(1), tags).encode()).label
    assert len(label) == MAX_LABEL
    assert label.startswith("region=us key-0=vvv")
    assert label.endswith("…")


def test_label_is_made_of_short_names() -> None:
    assert label_of([Tag.of("service", "orders"), Tag.of("user", ""), Tag.of("zone", None)]) == (
        "service=orders user= zone"
    )
    assert label_of([]) == ""
