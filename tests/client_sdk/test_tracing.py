"""Traces (D-58) go through a chain of services, with OpenTelemetry and without."""

import asyncio
import sys
from collections.abc import Iterator

import pytest

from client_sdk import ApplicationError, NoRoute, Payload, Request, Service, address, connect, multicast, tracing
from client_sdk.metadata import read_entries, route_bytes
from client_sdk.services.responder import ServiceResponder
from client_sdk.tracing import MAX_TRACEPARENT_BYTES, MAX_TRACESTATE_BYTES, PassedOn, Trace, current, extract, is_wanted
from tests.client_sdk import frames
from tests.client_sdk.calls.test_callers import TO, Script
from tests.client_sdk.fake_broker import REQUESTS, FakeBroker
from tests.client_sdk.samples import items_of, raises, yields
from tests.client_sdk.services.asking import taken

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def without_spans() -> Iterator[None]:
    tracing.use_spans(None)
    yield
    tracing.use_spans(None)


def test_a_trace_is_written_as_rsocket_java_writes_it_one_entry_per_header() -> None:
    entries = Trace(PARENT, "vendor=1").entries
    assert entries == b"\x0atraceparent\0\0\x37" + PARENT.encode() + b"\x09tracestate\0\0\x08vendor=1"
    assert read_entries(Trace(PARENT).entries) == [("traceparent", PARENT.encode())]


def test_what_was_written_is_read() -> None:
    found = read_entries(Trace(PARENT, "vendor=1").entries)
    assert found is not None
    trace = extract(found)
    assert trace is not None
    assert (trace.traceparent, trace.tracestate, trace.trace_id, trace.span_id, trace.is_sampled) == (
        PARENT,
        "vendor=1",
        "0af7651916cd43dd8448eb211c80319c",
        "b7ad6b7169203331",
        True,
    )


@pytest.mark.parametrize(
    "value",
    [
        "",
        "rubbish",
        PARENT.upper(),
        PARENT[:-1],
        PARENT + "-more",
        "ff" + PARENT[2:],
        "00-" + "0" * 32 + PARENT[35:],
        PARENT[:36] + "0" * 16 + "-01",
        "\u00e9" + PARENT[1:],
    ],
)
def test_a_traceparent_that_is_none_is_ignored(value: str) -> None:
    assert extract([("traceparent", value.encode())]) is None
    with pytest.raises(ValueError, match="traceparent"):
        Trace(value)


def test_a_later_version_may_say_more_up_to_a_bound() -> None:
    longest = "01" + PARENT[2:] + "-" + "x" * (MAX_TRACEPARENT_BYTES - len(PARENT) - 1)
    assert extract([("traceparent", longest.encode())]) is not None
    assert extract([("traceparent", longest.encode() + b"x")]) is None


def test_several_tracestates_are_one_list_and_one_that_is_too_long_is_left_out() -> None:
    def state_of(*states: bytes) -> str | None:
        found = extract([("traceparent", PARENT.encode()), *(("tracestate", state) for state in states)])
        return None if found is None else found.tracestate

    assert state_of(b"a=1", b"b=2") == "a=1,b=2"
    assert state_of(b"x" * MAX_TRACESTATE_BYTES) == "x" * MAX_TRACESTATE_BYTES
    assert state_of(b"x" * MAX_TRACESTATE_BYTES, b"") == ""
    assert state_of(b"a=\xff") == "a=\ufffd"  # goes out as "?", never as an error
    assert b"a=?" in Trace(PARENT, "a=\ufffd").entries


def test_two_traceparents_are_none() -> None:
    assert extract([("traceparent", PARENT.encode())] * 2) is None


def test_a_quick_look_never_misses_a_trace() -> None:
    assert is_wanted(Trace(PARENT).entries)
    assert (is_wanted(None), is_wanted(b""), is_wanted(b"application/json")) == (False, False, False)


def test_inside_a_handler_the_trace_is_the_requests_and_afterwards_what_it_was() -> None:
    outer = Trace(PARENT)
    with PassedOn(outer):
        with tracing.server_span([], "request_response", "orders", ""):
            assert current.get() is None  # the request said none: it does not belong to the outer one
        assert current.get() is outer
    assert current.get() is None


class Recorded:
    """An OpenTelemetry of its own: nothing global is set."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        from client_sdk.spans import Spans

        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = Spans(provider)
        self.tracer = provider.get_tracer("test")

    def finished(self) -> list[tuple[str, str, str, dict[str, object]]]:
        """(name, kind, status, attributes) of each span that has ended, in this order."""
        return [
            (span.name, span.kind.name, span.status.status_code.name, dict(span.attributes or {}))
            for span in self._exporter.get_finished_spans()
        ]

    def ids(self) -> list[tuple[int, int, int | None]]:
        """(trace, span, parent) of each."""
        return [
            (span.context.trace_id, span.context.span_id, None if span.parent is None else span.parent.span_id)
            for span in self._exporter.get_finished_spans()
            if span.context is not None
        ]


def test_a_call_and_its_handler_are_one_trace() -> None:
    recorded = Recorded()
    with recorded.tracer.start_as_current_span("program"):
        call = recorded.spans.calling("request_response", "orders", "create")
    entries = read_entries(call.entries)
    assert entries is not None
    tracing.use_spans(recorded.spans)
    with tracing.server_span(entries, "request_response", "orders", "create"):
        inner = recorded.spans.calling("request_stream", "stock", "")
        assert current.get() is not None
        inner.end(None)
    call.end(None)
    labels = {"rpc.system": "rsocket", "rpc.service": "orders", "rsocket.model": "request_response"}
    assert recorded.finished() == [
        ("program", "INTERNAL", "UNSET", {}),
        ("stock", "CLIENT", "UNSET", labels | {"rpc.service": "stock", "rsocket.model": "request_stream"}),
        ("orders/create", "SERVER", "UNSET", labels | {"rpc.method": "create"}),
        ("orders/create", "CLIENT", "UNSET", labels | {"rpc.method": "create"}),
    ]
    program, second, served, called = recorded.ids()
    assert {each[0] for each in recorded.ids()} == {program[0]}
    assert (called[2], served[2], second[2]) == (program[1], called[1], served[1])


def test_a_call_that_fails_says_so_with_the_stable_word() -> None:
    recorded = Recorded()
    recorded.spans.calling("request_response", "orders", "").end(NoRoute("nobody"))
    name, kind, status, attributes = recorded.finished()[0]
    assert (name, kind, status, attributes["error.type"]) == ("orders", "CLIENT", "ERROR", "no-route")


async def test_a_handler_that_fails_is_recorded_under_its_name() -> None:
    recorded = Recorded()
    tracing.use_spans(recorded.spans)
    service = Service("orders")
    service.request_response("a")(raises(ValueError("one")))
    service.request_stream("b")(yields(b"1", then=ValueError("two")))
    responder = ServiceResponder(service)
    with pytest.raises(ValueError, match="one"):
        await responder.request_response(route_bytes("a"), b"")
    with pytest.raises(ValueError, match="two"):
        await taken(responder.request_stream(route_bytes("b"), b""))
    assert [(*told, labels["rsocket.model"]) for *told, labels in recorded.finished()] == [
        ("orders/a", "SERVER", "ERROR", "request_response"),
        ("orders/b", "SERVER", "ERROR", "request_stream"),
    ]


def test_rubbish_in_the_headers_begins_a_new_trace() -> None:
    recorded = Recorded()
    tracing.use_spans(recorded.spans)
    with tracing.server_span([("traceparent", b"\xff"), ("a/b", b"c")], "request_response", "orders", ""):
        pass
    assert recorded.ids()[0][2] is None


def test_a_program_that_has_not_set_up_opentelemetry_makes_no_spans() -> None:
    from client_sdk.spans import find_spans

    assert find_spans() is None


# Through the client


async def test_the_trace_of_a_request_goes_out_with_the_calls_of_its_handler(broker: FakeBroker) -> None:
    """Two services, one behind the other, without OpenTelemetry."""
    last, first = Service("last"), Service("first")
    seen: list[str] = []

    @last.request_response()
    async def end(request: Request) -> bytes:
        trace = current.get()
        seen.append("" if trace is None else trace.traceparent)
        return request.data

    async with connect(broker.url, service=last), connect(broker.url) as inner, connect(broker.url) as client:

        @first.request_response()
        async def pass_on(data: bytes) -> Payload:
            return await inner.request_response(address("last"), data)

        async with connect(broker.url, service=first):
            with PassedOn(Trace(PARENT, "vendor=1")):
                await client.request_response(address("first"), b"1")
            await client.request_response(address("first"), b"2")
    assert seen == [PARENT, ""]


async def test_every_model_carries_the_trace(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        with PassedOn(Trace(PARENT)):
            await client.fire_and_forget(TO)
            await client.metadata_push(TO, b"x")
            for call in (
                client.request_response(TO),
                anext(client.request_stream(TO)),
                anext(client.request_channel(TO, items_of(b"1"))),
                anext(client.gather(multicast("x"))),
            ):
                with pytest.raises(NoRoute):
                    await call
        peer = await broker.peer(0)
        requests = [each.body for each in peer.frames if each.kind in (*REQUESTS, frames.PUSH)]
        assert [frame.count(PARENT.encode()) for frame in requests] == [1] * 6


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The calls of clients that connect are recorded."""
    recorded = Recorded()
    monkeypatch.setattr(sys.modules["client_sdk.connecting"], "find_spans", lambda: recorded.spans)
    return recorded


async def test_every_call_is_a_span_and_says_how_it_ended(broker: FakeBroker, recorded: Recorded) -> None:
    Script(broker, b"1", (0x202, "no-route: nobody"), b"item", b"item", (0x201, "sold-out: none"))
    async with connect(broker.url) as client:
        await client.request_response(TO, route="find")
        with pytest.raises(NoRoute):
            await client.request_response(TO)
        assert [item.data async for item in client.request_stream(TO)] == [b"item"]
        await anext(aiter(client.gather(multicast("x"))))
        with pytest.raises(ApplicationError):
            await anext(client.request_channel(TO, items_of(b"1")))
        await client.fire_and_forget(TO)
        await client.metadata_push(TO, b"x")
        ended = [
            (name, kind, status, labels["rsocket.model"], labels.get("error.type"))
            for name, kind, status, labels in recorded.finished()
        ]
        assert ended == [
            ("x/find", "CLIENT", "UNSET", "request_response", None),
            ("x", "CLIENT", "ERROR", "request_response", "no-route"),
            ("x", "CLIENT", "UNSET", "request_stream", None),
            ("x", "CLIENT", "UNSET", "request_stream", None),
            ("x", "CLIENT", "ERROR", "request_channel", "sold-out"),
            ("x", "CLIENT", "UNSET", "fire_and_forget", None),
            ("x", "CLIENT", "UNSET", "metadata_push", None),
        ]
        frame = (await broker.peer(0)).of(frames.RESPONSE)[0]
        trace, span, _ = recorded.ids()[0]
        assert f"00-{trace:032x}-{span:016x}-".encode() in frame.body


async def test_a_call_that_is_cancelled_ends_its_span(broker: FakeBroker, recorded: Recorded) -> None:
    Script(broker, None, None)
    async with connect(broker.url) as client:
        call = asyncio.ensure_future(client.request_response(TO))
        stream = asyncio.ensure_future(anext(client.request_stream(TO)))
        await (await broker.peer(0)).expect(frames.STREAM)
        for each in (call, stream):
            each.cancel()
            with pytest.raises(asyncio.CancelledError):
                await each
        assert [labels["error.type"] for *_, labels in recorded.finished()] == ["CancelledError"] * 2


async def test_who_wants_no_spans_has_none(broker: FakeBroker, recorded: Recorded) -> None:
    Script(broker, b"1")
    async with connect(broker.url, tracing=False) as client:
        await client.request_response(TO)
        assert recorded.finished() == []
