"""The entry that says who a caller is: its layout, its bounds, and what is no such entry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_wire.errors import BrokerError, InvalidFrame
from rsocket_wire.wire.caller import MAX_CALLER_NAME_BYTES, MAX_ROLE_BYTES, Caller, decode_caller

ORDERS = Caller("jwt", "orders-7", "orders")
RAW = bytes.fromhex("00 03 6a7774 0008 6f72646572732d37 06 6f7264657273")  # written by hand from the header diagram


def test_vector_both_ways() -> None:
    assert ORDERS.encode() == RAW
    assert decode_caller(RAW) == ORDERS


@pytest.mark.parametrize("size", range(len(RAW)))
def test_every_truncation_is_refused(size: int) -> None:
    with pytest.raises(InvalidFrame):
        decode_caller(RAW[:size])


@pytest.mark.parametrize(
    "raw", [RAW + b"\0", b"\x01" + RAW[1:], b"\0\x01\xff\0\0\0"], ids=["longer", "version", "utf8"]
)
def test_anything_else_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidFrame):
        decode_caller(raw)


TEXT = st.text(st.characters(codec="utf-8"), max_size=60)


@given(TEXT.filter(bool), TEXT, TEXT)
def test_any_of_them_comes_back(kind: str, name: str, role: str) -> None:
    caller = Caller(kind, name, role)
    assert decode_caller(caller.encode()) == caller
    assert hash(decode_caller(caller.encode())) == hash(caller)


@pytest.mark.parametrize(
    "caller",
    [
        Caller("", "x", ""),
        Caller("jwt", "x" * (MAX_CALLER_NAME_BYTES + 1), ""),
        Caller("jwt", "x", "r" * (MAX_ROLE_BYTES + 1)),
        Caller("jwt", "\udc80", ""),
    ],
    ids=["kind", "name", "role", "surrogate"],
)
def test_what_it_cannot_hold_is_not_written(caller: Caller) -> None:
    with pytest.raises(BrokerError) as caught:
        caller.encode()
    assert caught.value.word == "bad-name"


def test_the_longest_one() -> None:
    longest = Caller("certificate", "x" * MAX_CALLER_NAME_BYTES, "r" * MAX_ROLE_BYTES)
    assert decode_caller(longest.encode()) == longest
