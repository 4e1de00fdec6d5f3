"""Which candidate owns the key of a shard request: the keys that it names, and the tags that select."""

import pytest

from broker.routing.sharding.hashes import key_hash
from rsocket_wire.wire.frames import SHARD, Address
from rsocket_wire.wire.keys import SHARD_KEY, Key
from rsocket_wire.wire.tags import Tag
from tests.broker.routing.made import (
    address,
    found,
    hinted,
    query_of,
    resolve,
    route_id,
    zoo,
)


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
