"""Credentials in metadata: bytes of other programs, everything that can be wrong, and round trips."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rsocket.extensions.helpers import authenticate_bearer, authenticate_simple

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.rsocket.metadata import entries
from rsocket_wire.wire.authentication import (
    AUTHENTICATION_ID,
    AUTHENTICATION_MIME,
    BEARER,
    MAX_NAME_BYTES,
    SIMPLE,
    Credentials,
    decode_authentication,
)

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
SPRING = json.loads((VECTORS / "authentication.json").read_text())  # credentials: type, name, secret; null: refused
# The extension's tables: a type's id or name, then its payload.
SIMPLE_BYTES = bytes.fromhex("80 0003") + b"adalovelace"
BEARER_BYTES = bytes.fromhex("81") + b"token-123"


def said(credentials: Credentials) -> tuple[str, str, str]:
    return credentials.type, credentials.name, credentials.secret


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (SIMPLE_BYTES, (SIMPLE, "ada", "lovelace")),
        (BEARER_BYTES, (BEARER, "", "token-123")),
        (bytes.fromhex("06") + b"simple" + SIMPLE_BYTES[1:], (SIMPLE, "ada", "lovelace")),
        (bytes.fromhex("06") + b"bearer" + BEARER_BYTES[1:], (BEARER, "", "token-123")),
        (bytes.fromhex("80 0002 c3a4 c3b6"), (SIMPLE, "ä", "ö")),
        (bytes.fromhex("80 0001 61"), (SIMPLE, "a", "")),
    ],
)
def test_what_the_extension_draws_is_read(raw: bytes, expected: tuple[str, str, str]) -> None:
    assert said(decode_authentication(raw)) == expected


def test_what_others_send_is_read_and_written_likewise() -> None:
    """npm's rsocket-broker-client-js in a SETUP, and the helpers of rsocket-py."""
    frames = json.loads((VECTORS / "broker_frames.json").read_text())
    vector = next(each for each in frames if each["name"] == "js_setup_composite")
    raw = bytes.fromhex(vector["hex"])
    (entry,) = [each for each in entries(raw) or () if each.id == AUTHENTICATION_ID]
    assert said(decode_authentication(raw[entry.start : entry.end])) == (BEARER, "", "token-123")
    assert bytes(authenticate_simple("ada", "lovelace").serialize()) == Credentials(SIMPLE, "ada", "lovelace").encode()
    assert bytes(authenticate_bearer("token-123").serialize()) == Credentials(BEARER, "", "token-123").encode()
    assert (Credentials(SIMPLE, "ada", "lovelace").encode(), Credentials(BEARER, "", "token-123").encode()) == (
        SIMPLE_BYTES,
        BEARER_BYTES,
    )


@pytest.mark.parametrize("vector", SPRING, ids=[each["name"] for each in SPRING])
def test_what_spring_security_and_rsocket_java_send_is_read(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["hex"])
    if vector["is_setup"]:
        found = entries(raw) or []
        assert [each.mime for each in found] == [AUTHENTICATION_MIME, b"text/plain"]
        raw = raw[found[0].start : found[0].end]
    if vector["credentials"] is None:
        with pytest.raises(InvalidFrame):
            decode_authentication(raw)
        return
    credentials = Credentials(*vector["credentials"])
    assert said(decode_authentication(raw)) == said(credentials)
    if not vector["name"].endswith("by_name"):
        assert credentials.encode() == raw


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "authentication type: needs 1 bytes at offset 0, 0 are left"),
        (b"\x82secret", "authentication type: id 0x02 is unknown, 0x00 and 0x01 are known"),
        (b"\x04basic", "authentication type: a name of 4 bytes is unknown, simple and bearer are known"),
        (b"\x05plain.", "authentication type: a name of 6 bytes is unknown, simple and bearer are known"),
        (b"\x05simpl", "authentication type: needs 6 bytes at offset 1, 5 are left"),
        (b"\x06simp", "authentication type: needs 6 bytes at offset 1, 4 are left"),
        (b"\x00", "authentication type: a name of 0 bytes is unknown, simple and bearer are known"),
        (b"\x81", "token: is empty"),
        (b"\x81\xff", "token: byte 0 of 1 is not UTF-8"),
        (b"\x80\x00", "user name: needs 2 bytes at offset 1, 1 are left"),
        (b"\x80\x00\x00pw", "user name: has 0 bytes, 1 to 255 are read"),
        (b"\x80\x01\x00" + bytes(256), "user name: has 256 bytes, 1 to 255 are read"),
        (b"\x80\x00\x05ada", "user name: needs 5 bytes at offset 3, 3 are left"),
        (b"\x80\x00\x01\xffpw", "user name: byte 0 of 1 is not UTF-8"),
        (b"\x80\x00\x01a\xff", "password: byte 0 of 1 is not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_without_the_secret(raw: bytes, text: str) -> None:
    with pytest.raises(InvalidFrame) as raised:
        decode_authentication(raw)
    assert raised.value.text == text


@pytest.mark.parametrize("name", ["", "a" * (MAX_NAME_BYTES + 1), "\udc80"])
def test_a_name_that_could_not_be_read_is_not_written(name: str) -> None:
    with pytest.raises(BrokerError) as raised:
        Credentials(SIMPLE, name, "lovelace").encode()
    assert raised.value.word == "unauthenticated"


@given(st.text(min_size=1, max_size=60), st.text(max_size=99))
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read(name: str, secret: str) -> None:
    for credentials in (Credentials(SIMPLE, name, secret), Credentials(BEARER, "", secret or "t")):
        try:
            raw = credentials.encode()
        except BrokerError:
            continue
        assert said(decode_authentication(raw)) == said(credentials)


@given(st.binary(max_size=40))
@settings(max_examples=100, deadline=None)
def test_no_bytes_do_more_than_be_refused(raw: bytes) -> None:
    with contextlib.suppress(InvalidFrame):
        decode_authentication(raw)
