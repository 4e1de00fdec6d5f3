"""Publishing requests frame by frame: both layouts, what libsamwise does otherwise, and what empty frames stand for."""

import pytest

from client_sdk.gateways.samwise.frames import MAX_NUMBER
from client_sdk.gateways.samwise.requests import Defaults, Rules, read_request
from client_sdk.gateways.samwise.values import HEADER_PAIRS, OPTIONS, REPEATED_OPTIONS, Publish
from tests.client_sdk.gateways.samwise.scripts import (
    NO_OPTIONS,
    REDUNDANT_1_0,
    REDUNDANT_1_1,
    ROUND_ROBIN_1_0,
    ROUND_ROBIN_1_1,
    RULES,
    is_taken,
    publish_of,
    refusal_of,
    with_frames,
    with_headers,
    with_options,
)

STRICT = Rules(strict=True)


def test_round_robin_of_1_0_frame_by_frame() -> None:
    assert read_request(ROUND_ROBIN_1_0, RULES) == Publish(
        version=100,
        distribution="round robin",
        acks_n=1,
        exchange="orders",
        routing_key="new",
        options={},
        headers=(),
        payload=b"payload",
    )


def test_redundant_of_1_0_frame_by_frame() -> None:
    assert read_request(REDUNDANT_1_0, RULES) == Publish(
        version=100,
        distribution="redundant",
        acks_n=2,
        exchange="orders",
        routing_key="new",
        options={},
        headers=(),
        payload=b"payload",
    )


@pytest.mark.parametrize("version", [100, 110, 120])
def test_round_robin_of_1_1_frame_by_frame(version: int) -> None:
    """With version 100 too: there the count of frames tells the layout."""
    options = [b"text/plain", b"gzip", b"2", b"9", b"c", b"r", b"60000", b"m", b"t", b"guest", b"a", b"cl"]
    head = [b"%d" % version, b"publish", b"round robin"]
    tail = [b"2", b"k", bytes(range(256)), bytes(range(256))]
    assert read_request([*head, b"orders", b"new", b"1", b"0", b"12", *options, *tail], RULES) == Publish(
        version=version,
        distribution="round robin",
        acks_n=1,
        exchange="orders",
        routing_key="new",
        mandatory=True,
        immediate=False,
        options={
            "content_type": "text/plain",
            "content_encoding": "gzip",
            "delivery_mode": "2",
            "priority": "9",
            "correlation_id": "c",
            "reply_to": "r",
            "expiration": "60000",
            "message_id": "m",
            "type": "t",
            "user_id": "guest",
            "app_id": "a",
            "cluster_id": "cl",
        },
        headers=(("k", bytes(range(256))),),
        payload=bytes(range(256)),
    )


@pytest.mark.parametrize("version", [100, 110, 120])
def test_redundant_of_1_1_frame_by_frame(version: int) -> None:
    """With version 100, which its document prints, too."""
    head = [b"%d" % version, b"publish", b"redundant", b"3", b"orders", b"new", b"0", b"1", b"12"]
    headers = [b"4", b"b", b"1", b"a", b"2"]
    assert read_request([*head, *NO_OPTIONS, *headers, b"payload"], RULES) == Publish(
        version=version,
        distribution="redundant",
        acks_n=3,
        exchange="orders",
        routing_key="new",
        mandatory=False,
        immediate=True,
        options={},
        headers=(("b", b"1"), ("a", b"2")),
        payload=b"payload",
    )


def test_another_distribution_is_refused() -> None:
    text = "malformed publishing request: frame 2, distribution, is 'roundrobin', not round robin or redundant"
    assert refusal_of(with_frames(ROUND_ROBIN_1_0, {2: b"roundrobin"})) == ("text", text)


@pytest.mark.parametrize("acks", [b"0", b"-1", b"+1", b" 1", b"1 ", b"1x", b"01", b"1.0", b"2147483648", b"\x01\0\0\0"])
def test_min_acknowledged_is_a_number_above_0(acks: bytes) -> None:
    for frames in (REDUNDANT_1_0, REDUNDANT_1_1):
        reason, text = refusal_of(with_frames(frames, {3: acks}))
        assert reason == "number"
        assert text.startswith("malformed publishing request: frame 3, min. acknowledged, is '")
        assert text.endswith(f"', not 1 to {MAX_NUMBER}")
    assert publish_of(with_frames(REDUNDANT_1_0, {3: b"2147483647"})).acks_n == MAX_NUMBER


@pytest.mark.parametrize(
    ("at", "frame", "text"),
    [
        (5, b"2", "frame 5, mandatory, is '2', not 0 or 1"),
        (5, b"true", "frame 5, mandatory, is 'true', not 0 or 1"),
        (6, b"01", "frame 6, immediate, is '01', not 0 or 1"),
        (7, b"11", "frame 7, option count, is '11', not 12"),
        (7, b"", "frame 7, option count, is '', not 12"),
        (20, b"-1", f"frame 20, header count, is '-1', not 0 to {MAX_NUMBER}"),
        (20, b"x", f"frame 20, header count, is 'x', not 0 to {MAX_NUMBER}"),
    ],
)
def test_numbers_of_1_1_are_numbers(at: int, frame: bytes, text: str) -> None:
    found = refusal_of(with_frames(ROUND_ROBIN_1_1, {at: frame}))
    assert found == ("number", f"malformed publishing request: {text}")


@pytest.mark.parametrize("frames", [ROUND_ROBIN_1_1, REDUNDANT_1_1])
def test_a_header_count_and_the_frames_behind_it_are_the_same_number(frames: list[bytes]) -> None:
    headers = [b"%d" % at for at in range(40)]
    for count in range(41):
        for there in range(41):
            request = with_headers(frames, b"%d" % count, headers[:there])
            assert is_taken(request, STRICT) == (there == count and count % 2 == 0), (count, there)
            assert is_taken(request) == ((there == count and count % 2 == 0) or there == 2 * count), (count, there)


def test_headers_are_pairs_of_frames() -> None:
    text = "malformed publishing request: frame 20, header count, is 3, but headers are pairs of frames"
    assert refusal_of(with_headers(ROUND_ROBIN_1_1, b"3", [b"a", b"1", b"b"])) == ("number", text)


def test_headers_are_as_many_as_their_count_says() -> None:
    text = "malformed publishing request: 25 frames, with a header count of 4 it has 26"
    assert refusal_of(with_headers(ROUND_ROBIN_1_1, b"4", [b"a", b"1", b"b"])) == ("frames", text)
    text = "malformed publishing request: 24 frames, with a header count of 2147483647 it has 2147483669"
    assert refusal_of(with_headers(ROUND_ROBIN_1_1, b"2147483647", [b"a", b"1"])) == ("frames", text)


def test_a_header_that_stands_twice_is_refused() -> None:
    text = "malformed publishing request: frame 23, header key, is 'a' again"
    assert refusal_of(with_headers(ROUND_ROBIN_1_1, b"4", [b"a", b"1", b"a", b"2"])) == ("text", text)


# What libsamwise does


def test_a_header_count_of_pairs_is_recognised_and_noted() -> None:
    publish = publish_of(with_headers(ROUND_ROBIN_1_1, b"2", [b"a", b"1", b"b", b"2"]))
    assert (publish.headers, publish.payload, publish.quirks) == (
        (("a", b"1"), ("b", b"2")),
        b"payload",
        (HEADER_PAIRS,),
    )
    assert publish_of(with_headers(ROUND_ROBIN_1_1, b"2", [b"a", b"1"])).quirks == ()


def test_twelve_times_the_same_option_is_a_content_type_and_noted() -> None:
    frames = with_options(ROUND_ROBIN_1_1, [b"text/plain"] * 12)
    rules = Rules(defaults=Defaults(options={"content_type": "text/html", "priority": "4"}))
    publish = publish_of(frames, rules)
    assert publish.options == {"content_type": "text/plain", "priority": "4"}
    assert publish.quirks == (REPEATED_OPTIONS,)
    eleven = publish_of(with_options(ROUND_ROBIN_1_1, [b"1"] * 11 + [b""]))
    assert eleven.options == dict.fromkeys(OPTIONS[:11], "1")
    assert eleven.quirks == ()


def test_both_habits_of_libsamwise_in_one_message() -> None:
    frames = with_headers(with_options(ROUND_ROBIN_1_1, [b"x"] * 12), b"1", [b"a", b"1"])
    assert publish_of(frames).quirks == (REPEATED_OPTIONS, HEADER_PAIRS)


def test_where_it_is_strict_what_only_libsamwise_writes_is_refused() -> None:
    begin, end = "malformed publishing request:", "and this gateway is strict"
    pairs = with_headers(ROUND_ROBIN_1_1, b"1", [b"a", b"1"])
    text = f"{begin} frame 20, header count, is 1, which is the number of pairs, {end}"
    assert refusal_of(pairs, STRICT) == ("strict", text)
    repeated = with_options(ROUND_ROBIN_1_1, [b"x"] * 12)
    text = f"{begin} frames 8 to 19, options, are all 'x', {end}"
    assert refusal_of(repeated, STRICT) == ("strict", text)


# Empty frames

DEFAULTS = Defaults(
    distribution="round robin", acks_n=2, exchange="events", routing_key="all", options={"delivery_mode": "2"}
)


def test_empty_frames_have_the_values_of_the_configuration() -> None:
    frames = with_frames(ROUND_ROBIN_1_1, dict.fromkeys((2, 3, 4, 5, 6), b""))
    assert read_request(frames, Rules(defaults=DEFAULTS)) == Publish(
        version=110,
        distribution="round robin",
        acks_n=1,
        exchange="events",
        routing_key="all",
        options={"delivery_mode": "2"},
        headers=(),
        payload=b"payload",
    )
    redundant = with_frames(REDUNDANT_1_0, dict.fromkeys((3, 4, 5), b""))
    publish = publish_of(redundant, Rules(defaults=DEFAULTS))
    assert (publish.acks_n, publish.exchange, publish.routing_key) == (2, "events", "all")


def test_frames_that_are_not_empty_keep_what_they_say() -> None:
    frames = with_options(REDUNDANT_1_1, [b"", b"", b"1", *[b""] * 9])
    publish = publish_of(with_frames(frames, {3: b"5"}), Rules(defaults=DEFAULTS))
    assert (publish.acks_n, publish.exchange, publish.routing_key) == (5, "orders", "new")
    assert publish.options == {"delivery_mode": "1"}


def test_default_options_are_those_of_1_0_too() -> None:
    """1.0 has no frames for them, so none of them was given."""
    assert publish_of(ROUND_ROBIN_1_0, Rules(defaults=DEFAULTS)).options == {"delivery_mode": "2"}


@pytest.mark.parametrize("frames", [ROUND_ROBIN_1_0, REDUNDANT_1_0, ROUND_ROBIN_1_1, REDUNDANT_1_1])
def test_payload_and_routing_key_may_be_empty(frames: list[bytes]) -> None:
    at = frames.index(b"new")
    publish = publish_of(with_frames(frames, {at: b"", len(frames) - 1: b""}))
    assert (publish.routing_key, publish.payload) == ("", b"")


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        (with_frames(ROUND_ROBIN_1_0, {2: b""}), "frame 2, distribution, is empty and has no default"),
        (with_frames(REDUNDANT_1_0, {3: b""}), "frame 3, min. acknowledged, is empty and has no default"),
        (with_frames(ROUND_ROBIN_1_0, {3: b""}), "frame 3, exchange, is empty and has no default"),
        (with_frames(REDUNDANT_1_1, {4: b""}), "frame 4, exchange, is empty and has no default"),
        (with_frames(ROUND_ROBIN_1_1, {20: b""}), "frame 20, header count, is empty and has no default"),
        (
            with_headers(ROUND_ROBIN_1_1, b"2", [b"", b"1"]),
            "frame 21, header key, is empty and has no default",
        ),
    ],
)
def test_what_is_empty_and_needed_is_refused(frames: list[bytes], text: str) -> None:
    assert refusal_of(frames) == ("empty", f"malformed publishing request: {text}")


def test_redundant_by_default_needs_a_default_of_min_acknowledged() -> None:
    rules = Rules(defaults=Defaults(distribution="redundant"))
    text = "malformed publishing request: min. acknowledged is missing and has no default"
    assert refusal_of(with_frames(ROUND_ROBIN_1_0, {2: b""}), rules) == ("empty", text)
