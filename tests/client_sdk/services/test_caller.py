"""`request.caller`: who the broker says that the caller is."""

import pytest

from client_sdk import Caller, Request
from client_sdk.errors import Refused
from client_sdk.metadata import entry_bytes, route_bytes
from client_sdk.services.caller import CALLER_MIME
from rsocket_wire.wire.caller import Caller as Said

RAW = Said("jwt", "orders-7", "orders").encode()


def request(metadata: bytes | None) -> Request:
    return Request("request_response", b"", metadata)


def test_the_entry_is_read_wherever_it_stands() -> None:
    entry = entry_bytes(CALLER_MIME, RAW)
    expected = Caller("jwt", "orders-7", "orders")
    for metadata in (entry, entry + route_bytes("pay"), route_bytes("pay") + entry):
        assert request(metadata).caller == expected
    assert (expected.identity, Caller("anonymous").identity) == ("jwt:orders-7", "anonymous")


def test_without_an_entry_nobody_was_to_be_told() -> None:
    assert request(None).caller is None
    assert request(route_bytes("pay")).caller is None


@pytest.mark.parametrize("raw", [b"", RAW[:-1], b"\x01" + RAW[1:]])
def test_what_cannot_be_read_is_refused_and_nobody_at_all(raw: bytes) -> None:
    with pytest.raises(Refused):
        _ = request(entry_bytes(CALLER_MIME, raw)).caller
