"""Addresses as bytes, and what cannot be one."""

import pytest

from client_sdk import Address, BadAddress, address, multicast, shard
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST, decode_frame
from rsocket_wire.wire.frames import Address as AddressFrame
from rsocket_wire.wire.keys import REGION, SERVICE_NAME, Key
from rsocket_wire.wire.tags import Tag

ORIGIN = bytes(range(16))


def frame_of(built: Address) -> AddressFrame:
    frame = decode_frame(built.frame_bytes(ORIGIN))
    assert isinstance(frame, AddressFrame)
    return frame


def test_address_says_its_tags_in_one_map_so_that_java_reads_it() -> None:
    raw = address(service="orders", region="eu").frame_bytes(ORIGIN)
    assert raw.hex() == "00000001" + "1480" + ORIGIN.hex() + "81" + "86" + b"orders".hex() + "86" + "02" + b"eu".hex()


def test_names_that_the_specification_knows_are_its_keys_and_others_are_texts() -> None:
    frame = frame_of(address("orders", region="eu", color="red", tags={"io.rsocket.routing.Zone": "a", "empty": None}))
    assert [(tag.key.name, tag.value) for tag in frame.tags] == [
        ("io.rsocket.routing.ServiceName", "orders"),
        ("io.rsocket.routing.Region", "eu"),
        ("color", "red"),
        ("io.rsocket.routing.Zone", "a"),
        ("empty", None),
    ]
    assert (frame.flags, frame.origin_route_id) == (UNICAST, ORIGIN)


def test_service_may_be_given_by_position_or_by_name() -> None:
    assert address("orders") == address(service="orders")
    assert hash(address("orders")) == hash(address(service="orders"))


def test_hints_are_metadata_and_no_tags() -> None:
    frame = frame_of(address("orders", lb="round_robin", sticky=["session", "user"], session="4711", user="ada"))
    assert [repr(tag) for tag in frame.metadata] == [
        "lb_method=round_robin",
        "sticky_route_key=session",
        "sticky_route_key=user",
    ]
    assert frame.tags == [
        Tag.of(SERVICE_NAME, "orders"),
        Tag.of(Key.text("session"), "4711"),
        Tag.of(Key.text("user"), "ada"),
    ]


def test_multicast_sets_its_flag() -> None:
    assert frame_of(multicast("cache")).flags == MULTICAST


def test_a_multicast_may_exclude_its_sender() -> None:
    """D-103."""
    assert frame_of(multicast("room", exclude_self=True)).metadata == [Tag.of(Key.text("exclude_self"), "true")]
    assert frame_of(multicast("room")).metadata == []
    assert multicast("room", exclude_self=True) != multicast("room")


def test_shard_names_its_keys_in_full_in_the_metadata() -> None:
    frame = frame_of(shard("carts", key=["user", "region"], method="rendezvous", user="ada", region="eu"))
    assert frame.flags == SHARD
    assert [(tag.key.short_name, tag.value) for tag in frame.metadata] == [
        ("shard_key", "user"),
        ("shard_key", "io.rsocket.routing.Region"),
        ("shard_method", "rendezvous"),
    ]
    assert frame.tags[1:] == [Tag.of(Key.text("user"), "ada"), Tag.of(REGION, "eu")]


def test_shard_key_that_names_no_tag_is_refused() -> None:
    with pytest.raises(BadAddress, match=r"bad-shard-key.*'user'"):
        shard("carts", key="user", region="eu")
    with pytest.raises(BadAddress, match="at least one key"):
        shard("carts", key=[])


def test_address_without_tags_is_refused() -> None:
    with pytest.raises(BadAddress, match="at least one tag"):
        address()


def test_tags_that_do_not_fit_are_refused_and_not_cut() -> None:
    with pytest.raises(BadAddress):
        address("orders", color="x" * 128)
    with pytest.raises(BadAddress):
        address("orders", tags={"x" * 128: "a"})
    with pytest.raises(TypeError, match="must be str"):
        address("orders", shard=3)  # type: ignore[arg-type]


def test_address_shows_itself_as_it_was_written() -> None:
    assert repr(shard("carts", key="user", user="ada")) == "<shard service=carts user=ada>"


def test_a_url_is_no_name_of_a_service() -> None:
    with pytest.raises(BadAddress, match=r"'tcp://b:7878' is a URL, which connect\(\) takes; an address has a name"):
        address("tcp://b:7878")
