"""The head of a request's metadata: built once, and says how long the caller waits."""

import math

import pytest

from client_sdk import address, multicast, shard
from client_sdk.addresses import Address
from client_sdk.calls.metadata_cache import MAX_HEADS, MetadataCache
from client_sdk.metadata import read_entries
from rsocket_wire.wire.frames import MIME_TYPE, decode_frame
from rsocket_wire.wire.frames import Address as AddressFrame
from rsocket_wire.wire.keys import MAX_DEADLINE_MS

ORIGIN = bytes(range(16))


def said(head: bytes) -> tuple[list[str], list[str]]:
    """Hints and tags of the ADDRESS in a head."""
    found = read_entries(head)
    assert found is not None
    assert found[0][0] == MIME_TYPE
    frame = decode_frame(found[0][1])
    assert isinstance(frame, AddressFrame)
    assert frame.origin_route_id == ORIGIN
    return [repr(tag) for tag in frame.metadata], [repr(tag) for tag in frame.tags]


@pytest.mark.parametrize(
    ("timeout_s", "hints"),
    [
        (None, []),
        (1.5, ["deadline_ms=1500"]),
        (0.0001, ["deadline_ms=1"]),
        (0.0501, ["deadline_ms=51"]),  # the broker never gives up before the caller
        (MAX_DEADLINE_MS / 1000, []),
    ],
)
def test_the_deadline_is_a_hint_among_the_others(timeout_s: float | None, hints: list[str]) -> None:
    cache = MetadataCache(MIME_TYPE, ORIGIN, True)
    assert said(cache.of(address("orders"), None, timeout_s)) == (hints, ["service=orders"])
    sharded = shard("carts", key="user", user="ada")
    assert said(cache.of(sharded, None, timeout_s)) == (["shard_key=user", *hints], ["service=carts", "user=ada"])


@pytest.mark.parametrize("says_deadlines", [True, False])
@pytest.mark.parametrize("nonsense_s", [math.nan, -math.inf, -1, 0])
def test_a_deadline_that_is_no_time_is_refused(says_deadlines: bool, nonsense_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s is"):
        MetadataCache(MIME_TYPE, ORIGIN, says_deadlines).of(address("orders"), None, nonsense_s)


def test_hints_that_are_written_as_tags_stay_hints() -> None:
    """Beside a map of metadata a broker would take them for tags."""
    odd = address("orders", tags={"io.rsocket.routing.LBMethod": "random"})
    assert said(MetadataCache(MIME_TYPE, ORIGIN, True).of(odd, None, 1.5)) == (
        [],
        ["service=orders", "lb_method=random"],
    )


def test_a_head_is_built_once() -> None:
    cache = MetadataCache(MIME_TYPE, ORIGIN, True)
    first = cache.of(address("orders", region="eu"), "create", 1.0)
    assert cache.of(address("orders", region="eu"), "create", 1.0) is first
    others = [
        cache.of(multicast("orders", region="eu"), "create", 1.0),
        cache.of(address("orders", region="eu"), None, 1.0),
        cache.of(address("orders", region="eu"), "create", None),
        cache.of(address("orders", region="eu"), "create", 2.0),
    ]
    assert len({first, *others}) == 5
    found = read_entries(first)
    assert found is not None
    assert found[1] == ("message/x.rsocket.routing.v0", b"\x06create")


def test_no_more_heads_are_kept_than_it_may() -> None:
    cache = MetadataCache(MIME_TYPE, ORIGIN, True)
    first = cache.of(address("s0"), None, None)
    for number in range(1, MAX_HEADS):
        cache.of(address(f"s{number}"), None, None)
    assert cache.of(address("s0"), None, None) is first
    cache.of(address("one more"), None, None)
    again = cache.of(address("s0"), None, None)
    assert again == first
    assert again is not first


@pytest.mark.parametrize("left_s", [0.0011, 0.013, 0.5, 0.51, 0.999, 1.0, 3.3, 59.0])
def test_what_is_left_is_rounded_up_by_an_eighth_at_most(left_s: float) -> None:
    ((hint,), _) = said(MetadataCache(MIME_TYPE, ORIGIN, True).of_rest(address("s"), None, left_s))
    said_s = int(hint.removeprefix("deadline_ms=")) / 1000
    assert left_s <= said_s <= max(left_s * 1.125, left_s + 0.001)


def test_what_is_left_makes_few_heads() -> None:
    cache = MetadataCache(MIME_TYPE, ORIGIN, True)
    assert len({cache.of_rest(address("s"), None, number / 1000) for number in range(1000, 2000)}) == 9


def test_what_is_no_address_is_refused() -> None:
    cache = MetadataCache(MIME_TYPE, ORIGIN, True)
    with pytest.raises(TypeError, match="the address is list: make a call for each; multicast"):
        cache.of([address("a")], None, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the address is str: write address"):
        cache.of("orders", None, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="route"):
        cache.of(address("orders"), "", None)


def test_an_address_that_a_service_received_may_be_called() -> None:
    frame = decode_frame(address("orders", lb="random").frame_bytes(bytes(16)))
    assert isinstance(frame, AddressFrame)
    assert said(MetadataCache(MIME_TYPE, ORIGIN, True).of(Address(frame), None, 1.0)) == (
        ["lb_method=random", "deadline_ms=1000"],
        ["service=orders"],
    )
