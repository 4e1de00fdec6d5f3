"""Requests to a service without any connection: as the engine makes them."""

from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from client_sdk import Payload, Service, multicast
from client_sdk.errors import Refused
from client_sdk.metadata import ROUTING_ID, entry_bytes, route_bytes
from client_sdk.payload import as_parts
from client_sdk.services.request import DATA_MIME
from client_sdk.services.responder import ServiceResponder
from rsocket_wire.rsocket.metadata import encode_well_known_entry
from rsocket_wire.rsocket.mimes import encode_mime

MULTICAST = entry_bytes("message/x.rsocket.forwarding", multicast("s").frame_bytes(bytes(16)))


def data_mime(mime_type: str) -> bytes:
    """The entry that says what the data is."""
    return entry_bytes(DATA_MIME, encode_mime(mime_type))


def routes_bytes(*names: str) -> bytes:
    """One routing entry with several names."""
    raw = b"".join(bytes([len(name)]) + name.encode() for name in names)
    return encode_well_known_entry(ROUTING_ID, raw)


async def ask(service: Service, data: bytes, route: str | None = None, more: bytes = b"") -> Payload:
    """One request/response."""
    metadata = (b"" if route is None else route_bytes(route)) + more
    return Payload(*as_parts(await ServiceResponder(service).request_response(metadata or None, data), "the answer"))


async def payloads_of(*items: bytes) -> AsyncIterator[Payload]:
    for item in items:
        yield Payload(item)


async def stream(service: Service, data: bytes = b"", metadata: bytes | None = None) -> list[Any]:
    """All items of a stream."""
    return await taken(ServiceResponder(service).request_stream(metadata, data))


async def channel(service: Service, *items: bytes, metadata: bytes | None = None) -> list[Any]:
    """All items that a channel gives for these."""
    return await taken(ServiceResponder(service).request_channel(metadata, items[0], payloads_of(*items)))


async def taken(items: AsyncIterator[object]) -> list[Any]:
    """As the engine's pump takes them: closed whatever happens."""
    try:
        return [item async for item in items]
    finally:
        await items.aclose()  # type: ignore[attr-defined]


async def refused(asking: Awaitable[object]) -> tuple[str, int, str]:
    """(word, code, message) of the refusal that it ends with."""
    with pytest.raises(Refused) as caught:
        await asking
    return refusal(caught)


def refusal(caught: pytest.ExceptionInfo[Refused]) -> tuple[str, int, str]:
    """(word, code, message)."""
    return caught.value.word, caught.value.code, caught.value.message
