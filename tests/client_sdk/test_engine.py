"""The engine against anything that a peer may send, on a wire that is a list."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.rsocket.frames import KEEPALIVE, Setup
from client_sdk import ClientError, ConnectionLost, Payload, Service
from client_sdk.engine import Connection
from client_sdk.flows import Inflow
from client_sdk.service import ServiceResponder


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
    connection._next_id = 0x7FFFFFFF
    for _ in range(3):
        calls.append(asyncio.ensure_future(connection.request_response(b"", None)))
    await asyncio.sleep(0)
    await connection.close()  # writes what waits
    assert [int.from_bytes(sent[:4]) for sent in wire.sent[2:]] == [1, 0x7FFFFFFF, 3, 5]
    assert [type(error) for error in await asyncio.gather(*calls, return_exceptions=True)] == [ConnectionLost] * 4
