"""Entries between brokers, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.messages import (
    CLUSTER_MIME,
    DIGEST,
    REDIRECT,
    TABLE,
    DigestNote,
    Note,
    RedirectNote,
    TableNote,
    decode_note,
)
from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire.frames import MAX_TIMESTAMP_MS

BROKER = bytes(range(16))
DIGEST_RAW = bytes.fromhex("01 00002710 1122334455667788")
REDIRECT_RAW = bytes.fromhex("03 0000018bcfe56800") + BROKER + b"\x06orders\x09orders-v2"
REMOVED_RAW = bytes.fromhex("03 0000018bcfe56800") + BROKER + b"\x06orders\x00"


def values(note: Note) -> tuple[object, ...]:
    if isinstance(note, DigestNote):
        return (note.kind, note.entries_n, note.digest)
    if isinstance(note, TableNote):
        return (note.kind, note.table)
    assert isinstance(note, RedirectNote)
    return (note.kind, note.timestamp_ms, note.broker_id, note.service, note.to)


def test_the_mime_type_is_our_own() -> None:
    assert CLUSTER_MIME == b"message/x.rsocket.broker.cluster.v0"


@pytest.mark.parametrize(
    "raw, note, expected",
    [
        (DIGEST_RAW, DigestNote(10_000, DIGEST_RAW[5:]), (DIGEST, 10_000, DIGEST_RAW[5:])),
        (b"\x02", TableNote(b""), (TABLE, b"")),
        (b"\x02abc", TableNote(b"abc"), (TABLE, b"abc")),
        (
            REDIRECT_RAW,
            RedirectNote(1_700_000_000_000, BROKER, "orders", "orders-v2"),
            (REDIRECT, 1_700_000_000_000, BROKER, "orders", "orders-v2"),
        ),
        (
            REMOVED_RAW,
            RedirectNote(1_700_000_000_000, BROKER, "orders", ""),
            (REDIRECT, 1_700_000_000_000, BROKER, "orders", ""),
        ),
    ],
)
def test_an_entry_is_these_bytes_and_is_read_again(raw: bytes, note: Note, expected: tuple[object, ...]) -> None:
    assert note.encode() == raw
    assert values(decode_note(raw)) == values(note) == expected


@pytest.mark.parametrize("raw", [DIGEST_RAW, REDIRECT_RAW, REMOVED_RAW])
def test_every_truncation_and_every_byte_too_many_is_refused(raw: bytes) -> None:
    for end in range(len(raw)):
        with pytest.raises(InvalidFrame):
            decode_note(raw[:end])
    with pytest.raises(InvalidFrame, match="1 more bytes follow"):
        decode_note(raw + b"\x00")


@pytest.mark.parametrize(
    "raw, sentence",
    [
        (b"", "cluster entry kind: needs 1 bytes at offset 0, 0 are left"),
        (b"\x00abc", "cluster entry of kind 0 is unknown, 1..3 are known"),
        (b"\x04", "cluster entry of kind 4 is unknown, 1..3 are known"),
        (DIGEST_RAW[:-1], "DIGEST digest: needs 8 bytes at offset 5, 7 are left"),
        (b"\x03\xff" + REDIRECT_RAW[2:], f"REDIRECT timestamp: {0xFF00018BCFE56800} ms is beyond 2**63-1"),
        (REDIRECT_RAW[:25] + b"\x00\x00", "REDIRECT service: is empty"),
        (REDIRECT_RAW[:25] + b"\x01\xff\x00", "REDIRECT service: byte 0 of 1 is not UTF-8"),
        (REDIRECT_RAW[:25] + b"\x01a\x01\xff", "REDIRECT target: byte 0 of 1 is not UTF-8"),
        (REDIRECT_RAW[:25] + b"\x01a\x05b", "REDIRECT target: needs 5 bytes at offset 28, 1 are left"),
    ],
)
def test_what_is_no_entry_is_refused_with_a_sentence(raw: bytes, sentence: str) -> None:
    with pytest.raises(InvalidFrame) as caught:
        decode_note(raw)
    assert caught.value.text == sentence


@given(st.binary(max_size=80))
def test_any_bytes_are_an_entry_or_refused(raw: bytes) -> None:
    try:
        note = decode_note(raw)
    except InvalidFrame:
        return
    assert note.encode() == raw


@pytest.mark.parametrize(
    "note, word",
    [
        (DigestNote(1 << 32, bytes(8)), "bad-frame"),
        (RedirectNote(MAX_TIMESTAMP_MS + 1, BROKER, "a", "b"), "bad-time"),
        (RedirectNote(1, b"short", "a", "b"), "bad-id"),
        (RedirectNote(1, BROKER, "", "b"), "bad-name"),
        (RedirectNote(1, BROKER, "a" * 256, "b"), "bad-name"),
        (RedirectNote(1, BROKER, "a", "b" * 256), "bad-name"),
        (RedirectNote(1, BROKER, "a", "\udfff"), "bad-name"),
    ],
)
def test_what_cannot_be_written_is_refused(note: Note, word: str) -> None:
    with pytest.raises(BrokerError) as caught:
        note.encode()
    assert caught.value.word == word
