"""Traces: a handler runs inside the trace that its request carries, whatever its model; without one nothing is done."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from client_sdk import Payload, Service, tracing
from client_sdk.metadata import entry_bytes
from client_sdk.services.responder import ServiceResponder
from client_sdk.tracing import TRACEPARENT, current
from tests.client_sdk.samples import gives, yields_of
from tests.client_sdk.services.asking import payloads_of, taken

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ENTRY = entry_bytes(TRACEPARENT, PARENT)


def seen() -> bytes:
    trace = current.get()
    return b"none" if trace is None else trace.traceparent.encode()


def traced_service() -> tuple[Service, list[bytes]]:
    """Every handler says which trace it is in."""
    service = Service("s")
    noted: list[bytes] = []
    service.request_response()(gives(lambda _: seen()))
    service.fire_and_forget()(gives(lambda _: noted.append(seen())))
    service.request_stream()(yields_of(lambda _: (seen() for _ in range(2))))

    @service.request_channel()
    async def channel(payloads: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
        async for _ in payloads:
            yield seen()

    return service, noted


async def asked(service: Service, metadata: bytes | None) -> list[Any]:
    one = ServiceResponder(service)
    return [
        await one.request_response(metadata, b""),
        *await taken(one.request_stream(metadata, b"")),
        *await taken(one.request_channel(metadata, b"", payloads_of(b"1", b"2"))),
    ]


async def test_handlers_of_all_models_run_in_the_trace_of_their_request() -> None:
    service, noted = traced_service()
    assert await asked(service, ENTRY) == [PARENT] * 5
    await ServiceResponder(service).fire_and_forget(ENTRY, b"")
    assert noted == [PARENT]
    assert current.get() is None


async def test_a_handler_in_a_thread_is_in_the_trace_too() -> None:
    service = Service("s")

    @service.request_response()
    def answer(data: bytes) -> bytes:
        return seen()

    @service.request_stream()
    def items(data: bytes) -> Iterator[bytes]:
        yield seen()

    one = ServiceResponder(service)
    assert await one.request_response(ENTRY, b"") == PARENT
    assert await taken(one.request_stream(ENTRY, b"")) == [PARENT]


async def test_without_a_trace_no_span_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a span was made")

    monkeypatch.setattr(tracing, "server_span", refuse)
    service, _ = traced_service()
    assert await asked(service, None) == [b"none"] * 5
    assert await asked(service, entry_bytes("x/y", b"")) == [b"none"] * 5
