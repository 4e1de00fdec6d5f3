"""What a broker says of itself, as values."""

import pytest

from broker.cluster.links.broker_info import MAX_TRACE_NAME_BYTES, MAX_URLS, Info, fault_of_name, read_info
from rsocket_wire.errors import InvalidFrame
from rsocket_wire.wire.frames import BrokerInfo, decode_frame
from rsocket_wire.wire.keys import Key
from rsocket_wire.wire.tags import Tag
from tests.conformance.links import OURS
from tests.conformance.scripts import AnyTag, broker_info, ident, u16, u32, u64

VALUES = (
    "id", "name", "timestamp_ms", "epoch_ms", "version", "urls", "client_urls", "neighbours", "state", "nonce", "proof",
)  # fmt: skip


def said(info: Info) -> dict[str, object]:
    """All of it."""
    return {name: getattr(info, name) for name in VALUES}


def read(*metadata: AnyTag) -> Info:
    """What is read from a frame with this metadata, and a name."""
    frame = decode_frame(broker_info(5, ("name", "b9"), *metadata))
    assert isinstance(frame, BrokerInfo)
    return read_info(frame)


def whole() -> Info:
    """One that says everything."""
    info = Info(OURS, "b1", 7, 2**64 - 1, 1)
    info.urls = ["tcp://b1:7878", "tls://b1:7879"]
    info.client_urls = ["wss://b1"]
    info.neighbours = {ident(2): 10, ident(3): 65_535}
    info.state = "draining"
    info.nonce = b"n" * 16
    info.proof = b"p" * 32
    return info


def test_what_is_written_is_read_again() -> None:
    for info in (whole(), Info(OURS, "b1", 0, 0, 0)):
        frame = decode_frame(info.encode())
        assert isinstance(frame, BrokerInfo)
        assert said(read_info(frame)) == said(info)


def test_bytes_are_those_of_the_key_value_pairs() -> None:
    metadata: list[AnyTag] = [
        ("name", "b1"), ("qd.annotations-version", u32(1)), ("epoch", b"\xff" * 8), ("url", "tcp://b1:7878"),
        ("url", "tls://b1:7879"), ("client-url", "wss://b1"), ("neighbour", ident(2) + u16(10)),
        ("neighbour", ident(3) + u16(65_535)), ("state", "draining"), ("nonce", b"n" * 16), ("proof", b"p" * 32),
    ]  # fmt: skip
    assert whole().encode() == broker_info(7, *metadata, broker=OURS)


def test_what_belongs_to_one_handshake_is_never_passed_on() -> None:
    public = whole().public()
    assert said(public) == {**said(whole()), "nonce": b"", "proof": b""}


def test_unknown_keys_are_passed_over_and_absent_ones_are_empty() -> None:
    info = read(("rack", "r1"), ((0x7C, 9), b"\x00\xff"), ("state", ""))
    expected = Info(info.id, "b9", 5, 0, 0)
    assert said(info) == said(expected)


def test_so_many_urls_of_each_kind_and_no_more() -> None:
    urls: list[AnyTag] = [("url", f"tcp://b9:{number}") for number in range(MAX_URLS + 1)]
    more: list[AnyTag] = [("client-url", f"ws://b9:{number}") for number in range(MAX_URLS + 1)]
    info = read(*urls, *more)
    assert info.urls == [f"tcp://b9:{number}" for number in range(MAX_URLS)]
    assert info.client_urls == [f"ws://b9:{number}" for number in range(MAX_URLS)]
    info.urls.append("tcp://one-more:1")
    assert b"one-more" not in info.encode()


def test_a_url_that_no_value_can_hold_is_left_out() -> None:
    info = Info(OURS, "b1", 7, 0, 1)
    info.urls = ["tcp://" + "x" * 121, "tcp://" + "x" * 122, "tcp://b1:7878"]
    frame = decode_frame(info.encode())
    assert isinstance(frame, BrokerInfo)
    assert read_info(frame).urls == ["tcp://" + "x" * 121, "tcp://b1:7878"]


def test_a_neighbour_costs_one_at_least() -> None:
    assert read(("neighbour", ident(2) + u16(0))).neighbours == {ident(2): 1}


@pytest.mark.parametrize("raw", [b"", ident(2), ident(2) + b"\0", ident(2) + u16(1) + b"\0"])
def test_a_neighbour_of_another_length_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidFrame, match=f"BROKER_INFO of b9: a neighbour of {len(raw)} bytes, 18 are needed"):
        read(("neighbour", raw), ("epoch", u64(1)))


@pytest.mark.parametrize("raw", [b"", b"\0\0\1", b"\0\0\0\0\1"])
def test_a_version_of_another_length_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidFrame, match="-version: has"):
        read(("qd.annotations-version", raw), ("epoch", u64(1)))


def test_a_version_below_zero_is_none() -> None:
    assert read(("qd.annotations-version", u32(0xFFFF_FFFF))).version == 0


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("b1", ""),
        ("x" * MAX_TRACE_NAME_BYTES, ""),
        ("x" * (MAX_TRACE_NAME_BYTES + 1), "its name has 64 bytes, 63 are allowed"),
        ("ü" * 32, "its name has 64 bytes, 63 are allowed"),
        ("", "it has no name"),
        ("a b", "its name 'a b' has a space, a comma or a >, which part names"),
        ("a,b", "its name 'a,b' has a space, a comma or a >, which part names"),
        ("a>b", "its name 'a>b' has a space, a comma or a >, which part names"),
    ],
)
def test_names_can_stand_in_traces(name: str, fault: str) -> None:
    assert fault_of_name(name) == fault
    frame = BrokerInfo(OURS, 1, [Tag(Key.text("name"), name.encode())])
    if fault:
        with pytest.raises(InvalidFrame, match=f"bad-broker: BROKER_INFO of 00000000-.*: {fault[:12]}"):
            read_info(frame)
    else:
        assert read_info(frame).name == name
