"""Names, spellings and bytes of keys."""

import pytest

from rsocket_wire.errors import BrokerError
from rsocket_wire.wire import keys
from rsocket_wire.wire.keys import Key, keys_named, parse_key
from tests.conformance.test_keys import KEYS

# Each key of the specification's table.
TABLE = [(id, last) for last, id in KEYS.items()]


@pytest.mark.parametrize(("id", "last"), TABLE)
def test_well_known_key_has_its_id_and_both_spellings(id: int, last: str) -> None:
    constant = Key.well_known(id)
    assert (constant.id, constant.name, constant.wire) == (id, f"io.rsocket.routing.{last}", bytes([0x80 | id]))
    for same in (
        Key.text(f"io.rsocket.routing.{last}"),
        Key.text(f"io.rsocket.broker.{last}"),
        parse_key(f"io.rsocket.routing.{last}"),
        parse_key(f"io.rsocket.broker.{last}"),
        parse_key(last),
        parse_key(constant.short_name),
        parse_key(constant.short_name.upper()),
        parse_key(constant.short_name.replace("_", "-")),
        Key.from_text_wire(bytes([19 + len(last)]) + f"io.rsocket.routing.{last}".encode(), "x"),
    ):
        assert same == constant
        assert hash(same) == hash(constant)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("service", keys.SERVICE_NAME),
        ("serviceName", keys.SERVICE_NAME),
        ("service-name", keys.SERVICE_NAME),
        ("SERVICE_NAME", keys.SERVICE_NAME),
        ("route_id", keys.ROUTE_ID),
        ("lb_method", keys.LB_METHOD),
        ("lbMethod", keys.LB_METHOD),
        ("shardKey", keys.SHARD_KEY),
        ("sticky-route-key", keys.STICKY_ROUTE_KEY),
        ("IPv4", Key.well_known(0x13)),
        ("user", Key.text("user")),
        ("services", Key.text("services")),
        ("io.rsocket.routing.region", Key.text("io.rsocket.routing.region")),
        ("io.rsocket.Region", Key.text("io.rsocket.Region")),
        ("clé", Key.text("clé")),
    ],
)
def test_name_that_a_person_writes(name: str, key: Key) -> None:
    assert parse_key(name) == key


def test_name_of_every_key_is_read_back() -> None:
    every = [Key.well_known(id) for id in range(0x7F) if id != 0x7C]
    every += [Key.extension(0x7C, 0), Key.extension(0x7C, 1), Key.extension(0x7F, 65535), Key.text("user")]
    assert [parse_key(key.name) for key in every] == every
    assert [parse_key(key.short_name) for key in every] == every
    assert len({key.name for key in every}) == len(every)


@pytest.mark.parametrize(
    "name",
    [
        "well-known-0x1",
        "well-known-0x06",  # is Region
        "well-known-0x7c",  # is no key without a number
        "well-known-0xff",
        "well-known-0x-1",
        "well-known-0xzz",
        "well-known-0xAA",
        "extension-0x7c-",
        "extension-0x7c-65536",
        "extension-0x7c-123456",
        "extension-0x7d-1",
        "extension-0x7f--1",
        "extension-0x7f-²",
    ],
)
def test_name_that_looks_like_an_id_is_a_text(name: str) -> None:
    assert parse_key(name) == Key.text(name)


def test_bytes_and_names_of_each_kind() -> None:
    shown = [
        (key.wire.hex(), key.id, key.number, key.name)
        for key in (
            keys.NO_TAG,
            Key.well_known(0x16),
            Key.text("user"),
            Key.text("é"),
            Key.extension(0x7C, 1),
            Key.extension(0x7F, 0x0203),
        )
    ]
    assert shown == [
        ("80", 0x00, -1, "well-known-0x00"),
        ("96", 0x16, -1, "well-known-0x16"),
        ("0475736572", -1, -1, "user"),
        ("02c3a9", -1, -1, "é"),
        ("fc0001", 0x7C, 1, "extension-0x7c-1"),
        ("ff0203", 0x7F, 0x0203, "extension-0x7f-515"),
    ]


def test_unknown_ids_and_extensions_stay_distinct() -> None:
    every = {Key.well_known(0x16), Key.well_known(0x17), Key.extension(0x7C, 1), Key.extension(0x7F, 1), Key.text("a")}
    assert len(every) == 5
    assert keys.REGION != "io.rsocket.routing.Region"


def test_all_keys_that_a_person_may_mean() -> None:
    assert keys_named("region") == [keys.REGION, Key.text("region")]
    assert keys_named("io.rsocket.broker.Region") == [keys.REGION]
    assert keys_named("user") == [Key.text("user")]


def test_hints_are_the_four_keys_about_choosing() -> None:
    hints = [key for key in (Key.well_known(id) for id, _ in TABLE) if key.is_hint]
    assert hints == [keys.SHARD_KEY, keys.SHARD_METHOD, keys.STICKY_ROUTE_KEY, keys.LB_METHOD]
    assert not Key.text("user").is_hint
    assert not Key.extension(0x7C, 0x1E).is_hint


def test_longest_text_is_127_bytes() -> None:
    assert Key.text("k" * 127).wire == b"\x7f" + b"k" * 127
    for name, need in (("k" * 128, "has 128 bytes, 127 fit"), ("é" * 64, "has 128 bytes, 127 fit"), ("", "is empty")):
        with pytest.raises(BrokerError, match=need) as caught:
            Key.text(name)
        assert caught.value.word == "bad-tag"


def test_keys_that_cannot_be_are_refused() -> None:
    for id in (-1, 0x7C, 0x7F, 0x80):
        with pytest.raises(BrokerError, match="bad-tag"):
            Key.well_known(id)
    for base, number in ((0x7D, 1), (0x7C, -1), (0x7F, 65536)):
        with pytest.raises(BrokerError, match="bad-tag"):
            Key.extension(base, number)
    with pytest.raises(BrokerError, match="bad-tag"):
        Key.text("\ud800")


def test_key_is_shown_by_its_name() -> None:
    assert repr(keys.REGION) == "Key(io.rsocket.routing.Region)"
