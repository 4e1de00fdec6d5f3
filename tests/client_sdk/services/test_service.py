"""Handlers: which one a request gets, and which are refused when they are written."""

import pytest

from client_sdk import Request, Service
from client_sdk.metadata import more_bytes, read_entries, route_bytes, route_of
from client_sdk.services.responder import ServiceResponder


async def test_named_handler_comes_before_the_one_without_a_name() -> None:
    service = Service("s")

    @service.request_response("a")
    async def a(request: Request) -> bytes:
        return b"a"

    @service.request_response()
    async def other(request: Request) -> bytes:
        return b"other " + request.route.encode()

    responder = ServiceResponder(service)
    assert await responder.request_response(route_bytes("a"), b"") == b"a"
    assert await responder.request_response(route_bytes("b"), b"") == b"other b"
    assert await responder.request_response(None, b"") == b"other "


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
    assert route_of(b"") == ""
