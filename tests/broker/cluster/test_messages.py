"""Entries between brokers, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster import messages
from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire.frames import MAX_TIMESTAMP_MS

BROKER = bytes(range(16))
DIGEST_RAW = bytes.fromhex("01 00002710 1122334455667788")
ROLES_RAW = bytes.fromhex("04 1122334455667788")
REDIRECT_RAW = bytes.fromhex("03 0000018bcfe56800") + BROKER + b"\x06orders\x09orders-v2"
REVOCATION_RAW = bytes.fromhex("05 0000018bcfe56800") + BROKER + bytes.fromhex("0000018bcfe56801") + b"\x00\x07jwt:ada"
REMOVED_RAW = bytes.fromhex("03 0000018bcfe56800") + BROKER + b"\x06orders\x00"


def values(message: messages.Message) -> tuple[object, ...]:
    if isinstance(message, messages.DigestMessage):
        return (messages.DIGEST, message.entries_n, message.digest)
    if isinstance(message, messages.TableMessage):
        return (messages.TABLE, message.table)
    if isinstance(message, messages.RolesMessage):
        return (messages.ROLES, message.digest)
    if isinstance(message, messages.RevocationMessage):
        return (messages.REVOCATION, message.timestamp_ms, message.broker_id, message.principal, message.before_ms)
    return (messages.REDIRECT, message.timestamp_ms, message.broker_id, message.service, message.to)


@pytest.mark.parametrize(
    "raw, message, expected",
    [
        (DIGEST_RAW, messages.DigestMessage(10_000, DIGEST_RAW[5:]), (messages.DIGEST, 10_000, DIGEST_RAW[5:])),
        (ROLES_RAW, messages.RolesMessage(ROLES_RAW[1:]), (messages.ROLES, ROLES_RAW[1:])),
        (b"\x02", messages.TableMessage(b""), (messages.TABLE, b"")),
        (b"\x02abc", messages.TableMessage(b"abc"), (messages.TABLE, b"abc")),
        (
            REDIRECT_RAW,
            messages.RedirectMessage(1_700_000_000_000, BROKER, "orders", "orders-v2"),
            (messages.REDIRECT, 1_700_000_000_000, BROKER, "orders", "orders-v2"),
        ),
        (
            REMOVED_RAW,
            messages.RedirectMessage(1_700_000_000_000, BROKER, "orders", ""),
            (messages.REDIRECT, 1_700_000_000_000, BROKER, "orders", ""),
        ),
        (
            REVOCATION_RAW,
            messages.RevocationMessage(1_700_000_000_000, BROKER, "jwt:ada", 1_700_000_000_001),
            (messages.REVOCATION, 1_700_000_000_000, BROKER, "jwt:ada", 1_700_000_000_001),
        ),
    ],
)
def test_an_entry_is_these_bytes_and_is_read_again(
    raw: bytes, message: messages.Message, expected: tuple[object, ...]
) -> None:
    assert message.encode() == raw
    assert values(messages.decode_message(raw)) == values(message) == expected


@pytest.mark.parametrize("raw", [DIGEST_RAW, REDIRECT_RAW, REMOVED_RAW, ROLES_RAW, REVOCATION_RAW])
def test_every_truncation_and_every_byte_too_many_is_refused(raw: bytes) -> None:
    for end in range(len(raw)):
        with pytest.raises(InvalidFrame):
            messages.decode_message(raw[:end])
    with pytest.raises(InvalidFrame, match="1 more bytes follow"):
        messages.decode_message(raw + b"\x00")


@pytest.mark.parametrize(
    "raw, sentence",
    [
        (b"", "cluster entry kind: needs 1 bytes at offset 0, 0 are left"),
        (b"\x00abc", "cluster entry of kind 0 is unknown, 1..5 are known"),
        (b"\x06", "cluster entry of kind 6 is unknown, 1..5 are known"),
        (DIGEST_RAW[:-1], "DIGEST digest: needs 8 bytes at offset 5, 7 are left"),
        (b"\x03\xff" + REDIRECT_RAW[2:], f"REDIRECT timestamp: {0xFF00018BCFE56800} ms is beyond 2**63-1"),
        (REDIRECT_RAW[:25] + b"\x00\x00", "REDIRECT service: is empty"),
        (REDIRECT_RAW[:25] + b"\x01\xff\x00", "REDIRECT service: byte 0 of 1 is not UTF-8"),
        (REDIRECT_RAW[:25] + b"\x01a\x01\xff", "REDIRECT target: byte 0 of 1 is not UTF-8"),
        (REVOCATION_RAW[:33] + b"\x00\x00", "REVOCATION principal: has 0 bytes, 1..1024 are allowed"),
        (REVOCATION_RAW[:33] + b"\x04\x01", "REVOCATION principal: has 1025 bytes, 1..1024 are allowed"),
        (REDIRECT_RAW[:25] + b"\x01a\x05b", "REDIRECT target: needs 5 bytes at offset 28, 1 are left"),
    ],
)
def test_what_is_no_entry_is_refused_with_a_sentence(raw: bytes, sentence: str) -> None:
    with pytest.raises(InvalidFrame) as caught:
        messages.decode_message(raw)
    assert caught.value.text == sentence


@given(st.binary(max_size=80))
def test_any_bytes_are_an_entry_or_refused(raw: bytes) -> None:
    try:
        message = messages.decode_message(raw)
    except InvalidFrame:
        return
    assert message.encode() == raw


@pytest.mark.parametrize(
    "message, word",
    [
        (messages.DigestMessage(1 << 32, bytes(8)), "bad-frame"),
        (messages.RedirectMessage(MAX_TIMESTAMP_MS + 1, BROKER, "a", "b"), "bad-time"),
        (messages.RedirectMessage(1, b"short", "a", "b"), "bad-id"),
        (messages.RevocationMessage(1, BROKER, "a", MAX_TIMESTAMP_MS + 1), "bad-time"),
        (messages.RevocationMessage(1, BROKER, "", 1), "bad-name"),
        (messages.RevocationMessage(1, BROKER, "a" * 1025, 1), "bad-name"),
        (messages.RedirectMessage(1, BROKER, "", "b"), "bad-name"),
        (messages.RedirectMessage(1, BROKER, "a" * 256, "b"), "bad-name"),
        (messages.RedirectMessage(1, BROKER, "a", "b" * 256), "bad-name"),
        (messages.RedirectMessage(1, BROKER, "a", "\udfff"), "bad-name"),
    ],
)
def test_what_cannot_be_written_is_refused(message: messages.Message, word: str) -> None:
    with pytest.raises(BrokerError) as caught:
        message.encode()
    assert caught.value.word == word
