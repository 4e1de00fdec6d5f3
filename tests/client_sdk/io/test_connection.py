"""The engine against anything that a peer may send, on a wire that is a list."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk import ClientError, ConnectionLost, DeadlineExceeded, NotConnected, Payload, Service
from client_sdk.io.connection import Connection, Settings
from client_sdk.protocol.settings import MAX_QUEUED_BYTES
from client_sdk.services.responder import ServiceResponder
from client_sdk.streams import Inflow
from rsocket_wire.rsocket.frames import (
    CANCEL,
    COMPLETE,
    ERROR,
    FOLLOWS,
    KEEPALIVE,
    METADATA,
    METADATA_PUSH,
    NEXT,
    PAYLOAD,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_N,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    Setup,
)


class ListWire:
    """Gives what a test put in; keeps what the engine sends."""

    is_framed = False

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent: list[bytes] = []

    async def receive(self) -> bytes:
        return await self.incoming.get()

    async def send(self, frames: list[bytes]) -> None:
        self.sent += frames

    async def close(self) -> None:
        pass


def every_model() -> ServiceResponder:
    service = Service("s")

    @service.request_response()
    async def answer(data: bytes) -> bytes:
        return data

    @service.fire_and_forget()
    async def note(data: bytes) -> None:
        pass

    @service.metadata_push()
    async def push(data: bytes) -> None:
        pass

    @service.request_stream()
    async def items(data: bytes) -> AsyncIterator[bytes]:
        yield data
        yield data

    @service.request_channel()
    async def echo(payloads: AsyncIterator[Payload]) -> AsyncIterator[Payload]:
        async for payload in payloads:
            yield payload

    return ServiceResponder(service)


def frame(stream_id: int, kind: int, flags: int, body: bytes) -> bytes:
    return stream_id.to_bytes(4) + (kind << 10 | flags).to_bytes(2) + body


ACCEPTED = frame(0, KEEPALIVE, 0, bytes(8))
# Ids and lengths that mean something are drawn more often than chance would.
BODIES = st.one_of(
    st.binary(max_size=24),
    st.builds(lambda n, rest: n.to_bytes(4) + rest, st.integers(0, 0xFFFFFFFF), st.binary(max_size=12)),
    st.builds(lambda n, rest: n.to_bytes(3) + rest, st.integers(0, 8), st.binary(max_size=12)),
)
FRAMES = st.builds(
    frame, st.sampled_from([0, 1, 2, 3, 4, 5, 7, 0x7FFFFFFF]), st.integers(0, 63), st.integers(0, 0x3FF), BODIES
)


async def talk(messages: list[bytes]) -> None:
    wire = ListWire()
    wire.incoming.put_nowait(ACCEPTED)
    connection = await Connection.open(wire, Setup("m", "d", 60_000, 60_000), every_model())
    inflow = Inflow(4, 4)
    calls: list[asyncio.Future[object]] = [
        asyncio.ensure_future(connection.request_response(b"", None)),
        asyncio.ensure_future(connection.request_stream(b"", None, 4, inflow)),
    ]
    await asyncio.sleep(0)
    for message in messages:
        wire.incoming.put_nowait(message)
    wire.incoming.put_nowait(b"")
    await asyncio.wait_for(connection.ended.wait(), 5)
    assert connection.reason is not None
    assert connection.reason.word != "internal"
    for call in calls:
        with contextlib.suppress(ClientError):
            await asyncio.wait_for(call, 5)
    with contextlib.suppress(ClientError):
        while await asyncio.wait_for(inflow.take(), 5) is not None:
            pass
    assert asyncio.all_tasks() == {asyncio.current_task()}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(FRAMES, st.binary(min_size=1, max_size=40)), max_size=12))
def test_whatever_a_peer_sends_every_call_ends_and_no_task_is_left(messages: list[bytes]) -> None:
    asyncio.run(talk(messages))


async def test_ids_are_odd_and_ascend_and_wrap_around_those_in_use() -> None:
    wire = ListWire()
    wire.incoming.put_nowait(ACCEPTED)
    connection = await Connection.open(wire, Setup("m", "d", 60_000, 60_000), None)
    calls = [asyncio.ensure_future(connection.request_response(b"", None))]
    await asyncio.sleep(0)
    connection.machine._streams._next_id = 0x7FFFFFFF
    for _ in range(3):
        calls.append(asyncio.ensure_future(connection.request_response(b"", None)))
    await asyncio.sleep(0)
    await connection.close()  # writes what waits
    assert [int.from_bytes(sent[:4]) for sent in wire.sent[2:]] == [1, 0x7FFFFFFF, 3, 5]
    assert [type(error) for error in await asyncio.gather(*calls, return_exceptions=True)] == [ConnectionLost] * 4


TOO_MUCH = bytes.fromhex("0000ff") + b"metadata"  # declares 255 bytes of metadata and has 8
INVALID_CODE = bytes.fromhex("00000204")


async def opened(wire: ListWire) -> Connection:
    wire.incoming.put_nowait(ACCEPTED)
    return await Connection.open(wire, Setup("m", "d", 60_000, 60_000), every_model())


async def still_answers(connection: Connection, wire: ListWire) -> list[bytes]:
    """Proves that what was put in was read and that the connection lives; what the engine sent before that."""
    wire.incoming.put_nowait(frame(100, REQUEST_RESPONSE, 0, b"alive"))
    answer = frame(100, PAYLOAD, NEXT | COMPLETE, b"alive")
    async with asyncio.timeout(5):
        while answer not in wire.sent:
            assert not connection.ended.is_set(), connection.reason
            await asyncio.sleep(0)
    return wire.sent[2 : wire.sent.index(answer)]


@pytest.mark.parametrize(
    ("broken", "size_bytes"),
    [
        (frame(1, PAYLOAD, METADATA | NEXT, TOO_MUCH), 17),
        (frame(1, PAYLOAD, METADATA | NEXT, b"\0"), 7),
        (frame(1, REQUEST_N, 0, b"\0"), 7),
    ],
)
async def test_a_broken_frame_fails_the_call_that_it_belongs_to_and_no_other(broken: bytes, size_bytes: int) -> None:
    wire = ListWire()
    connection = await opened(wire)
    hurt, other = (asyncio.ensure_future(connection.request_response(b"", None)) for _ in range(2))
    await asyncio.sleep(0)
    wire.incoming.put_nowait(broken)
    assert (await still_answers(connection, wire))[-1] == frame(1, CANCEL, 0, b"")
    wire.incoming.put_nowait(frame(3, PAYLOAD, NEXT | COMPLETE, b"fine"))
    assert await asyncio.wait_for(other, 5) == Payload(b"fine", None)
    with pytest.raises(ClientError, match=f"bad-frame: stream 1: .* of {size_bytes} bytes") as caught:
        await hurt
    assert not isinstance(caught.value, ConnectionLost)
    await connection.close()


async def test_an_error_too_short_for_its_code_fails_its_call_and_is_not_answered() -> None:
    wire = ListWire()
    connection = await opened(wire)
    inflow = Inflow(4, 4)
    await connection.request_stream(b"", None, 4, inflow)
    wire.incoming.put_nowait(frame(1, ERROR, 0, b"\0\0"))
    assert await still_answers(connection, wire) == [frame(1, REQUEST_STREAM, 0, (4).to_bytes(4))]
    with pytest.raises(ClientError, match=r"bad-frame: stream 1: .*ERROR of 8 bytes") as caught:
        await inflow.take()
    assert not isinstance(caught.value, ConnectionLost)
    await connection.close()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (REQUEST_RESPONSE, TOO_MUCH),
        (REQUEST_STREAM, b"\0\0\0\1" + TOO_MUCH),
        (REQUEST_CHANNEL, b"\0"),
    ],
)
async def test_a_broken_request_is_answered_and_the_rest_of_its_fragments_ignored(kind: int, body: bytes) -> None:
    wire = ListWire()
    connection = await opened(wire)
    wire.incoming.put_nowait(frame(2, kind, METADATA | FOLLOWS, body))
    wire.incoming.put_nowait(frame(2, PAYLOAD, FOLLOWS | NEXT, b"more"))
    wire.incoming.put_nowait(frame(2, PAYLOAD, NEXT, b"last"))
    [answer] = await still_answers(connection, wire)
    assert answer.startswith(frame(2, ERROR, 0, INVALID_CODE + b"bad-request: stream 2: "))
    assert (connection.machine.open_streams_n, connection.machine.gathered_bytes) == (0, 0)
    await connection.close()


async def test_a_broken_fragment_ends_the_request_that_it_belongs_to() -> None:
    wire = ListWire()
    connection = await opened(wire)
    wire.incoming.put_nowait(frame(2, REQUEST_RESPONSE, FOLLOWS, b"some"))
    wire.incoming.put_nowait(frame(2, PAYLOAD, METADATA | NEXT, TOO_MUCH))
    [answer] = await still_answers(connection, wire)
    assert answer.startswith(frame(2, ERROR, 0, INVALID_CODE + b"bad-frame: stream 2: "))
    assert connection.machine.gathered_bytes == 0
    await connection.close()


async def test_a_broken_item_ends_the_channel_that_a_handler_serves() -> None:
    wire = ListWire()
    connection = await opened(wire)
    wire.incoming.put_nowait(frame(2, REQUEST_CHANNEL, 0, b"\0\0\0\0first"))
    wire.incoming.put_nowait(frame(2, PAYLOAD, METADATA | NEXT, TOO_MUCH))
    sent = await still_answers(connection, wire)
    assert [one[:10] for one in sent if one[4] >> 2 == ERROR] == [frame(2, ERROR, 0, INVALID_CODE)]
    assert connection.machine.open_streams_n == 0
    await connection.close()


async def test_what_is_broken_and_has_no_answer_is_dropped() -> None:
    wire = ListWire()
    connection = await opened(wire)
    for broken in (
        frame(2, REQUEST_FNF, METADATA, TOO_MUCH),
        frame(4, PAYLOAD, METADATA | NEXT, TOO_MUCH),  # of no stream
        frame(5, REQUEST_RESPONSE, METADATA, TOO_MUCH),  # of an id that a server may not use
    ):
        wire.incoming.put_nowait(broken)
    assert await still_answers(connection, wire) == []
    await connection.close()


class DeafWire(ListWire):
    """Takes nothing from some moment on."""

    def __init__(self) -> None:
        super().__init__()
        self.hears = asyncio.Event()
        self.hears.set()

    async def send(self, frames: list[bytes]) -> None:
        await self.hears.wait()
        self.sent += frames


async def test_a_reader_with_full_credit_that_does_not_read_costs_bounded_memory_and_then_gets_all() -> None:
    service = Service("s")
    count = 3000

    @service.request_stream()
    async def items(data: bytes) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield bytes(2000)

    wire = DeafWire()
    wire.incoming.put_nowait(ACCEPTED)
    responder = ServiceResponder(service)
    connection = await Connection.open(wire, Setup("m", "d", 60_000, 60_000), responder)
    wire.hears.clear()
    wire.incoming.put_nowait(frame(2, REQUEST_STREAM, 0, (0x7FFFFFFF).to_bytes(4)))
    for _ in range(2000):
        await asyncio.sleep(0)
    assert connection.machine.unsent_bytes < MAX_QUEUED_BYTES + 3000
    wire.hears.set()
    last = frame(2, PAYLOAD, COMPLETE, b"")
    async with asyncio.timeout(10):
        while last not in wire.sent[-2:]:
            await asyncio.sleep(0)
    assert sum(raw[4] >> 2 == PAYLOAD for raw in wire.sent) == count + 1
    await connection.close()


async def test_whoever_waits_for_room_ends_with_the_connection_or_at_its_deadline() -> None:
    wire = DeafWire()
    wire.incoming.put_nowait(ACCEPTED)
    connection = await Connection.open(wire, Setup("m", "d", 60_000, 60_000), None)
    wire.hears.clear()
    await connection.fire_and_forget(bytes(1 << 20), None)
    await asyncio.sleep(0)
    calls: list[asyncio.Future[object]] = [
        asyncio.ensure_future(connection.request_response(b"", None)),
        asyncio.ensure_future(connection.fire_and_forget(b"", None)),
        asyncio.ensure_future(connection.metadata_push(b"x")),
        asyncio.ensure_future(connection.request_stream(b"", None, 4, Inflow(4, 4))),
    ]
    for late in (connection.request_response, connection.fire_and_forget):
        with pytest.raises(DeadlineExceeded, match=r"0\.01 s"):
            await late(b"", None, 0.01)
    assert not any(call.done() for call in calls)
    wire.incoming.put_nowait(b"")
    ends = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 5)
    assert {type(end) for end in ends} == {NotConnected}
    await connection.ended.wait()


async def test_a_payload_in_pieces_is_written_to_its_end_by_close() -> None:
    wire = ListWire()
    wire.incoming.put_nowait(ACCEPTED)
    settings = Settings(fragment_bytes=1 << 16)
    connection = await Connection.open(wire, Setup("m", "d", 60_000, 60_000), None, None, settings)
    await connection.fire_and_forget(bytes(1 << 20), None)
    await connection.close()
    assert sum(len(raw) - 6 for raw in wire.sent[2:]) == 1 << 20
    assert int.from_bytes(wire.sent[-1][4:6]) & FOLLOWS == 0


async def test_a_mistake_of_ours_ends_the_connection_and_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(connection: Connection, metadata: bytes) -> bool:
        raise KeyError("mistake")

    said: list[str] = []
    monkeypatch.setattr("client_sdk.io.connection._log.error", lambda text, **_: said.append(text))
    wire = ListWire()
    wire.incoming.put_nowait(ACCEPTED)
    connection = await Connection.open(wire, Setup("m", "d", 60_000, 60_000), None, broken)
    call = asyncio.ensure_future(connection.request_response(b"", None))
    await asyncio.sleep(0)
    wire.incoming.put_nowait(frame(0, METADATA_PUSH, METADATA, b"x"))
    with pytest.raises(ConnectionLost, match="internal"):
        await asyncio.wait_for(call, 5)
    await connection.ended.wait()
    assert said == ["the connection is closed because of a bug in the SDK"]
