"""What a service refuses when it is written, and entries of metadata."""

import pytest

from client_sdk import Service
from client_sdk.metadata import more_bytes, read_entries, route_bytes


def test_second_handler_for_the_same_route_is_refused() -> None:
    service = Service("s")

    async def one(data: bytes) -> bytes:
        return data

    service.request_response("x")(one)
    with pytest.raises(ValueError, match="already"):
        service.request_response("x")(one)
    service.fire_and_forget("x")(one)


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_service_name_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"1\.\.255"):
        Service(name)


def test_entries_come_back_as_they_were_written_known_or_not() -> None:
    metadata = route_bytes("create") + more_bytes({"application/json": b"{}", "x/own": b"1"})
    assert metadata.startswith(b"\xfe\x00\x00\x07\x06create")
    assert read_entries(metadata) == [
        ("message/x.rsocket.routing.v0", b"\x06create"),
        ("application/json", b"{}"),
        ("x/own", b"1"),
    ]
    assert read_entries(b"\xab\x00\x00\x00") == [("well-known-0x2b", b"")]
    assert read_entries(metadata[:-1]) is None
