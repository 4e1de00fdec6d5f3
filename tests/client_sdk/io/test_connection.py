"""The connection on a wire that is a list: what waits for room, what close writes, and mistakes of our own."""

import asyncio

import pytest

from client_sdk import ConnectionLost, DeadlineExceeded, NotConnected
from client_sdk.io.connection import Connection
from client_sdk.protocol.settings import Settings
from client_sdk.streams import Inflow
from rsocket_wire.rsocket.frames import Setup
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, decode


class ListWire:
    """Gives what a test put in; keeps what the engine sends, while it hears."""

    is_framed = False

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent: list[bytes] = []
        self.hears = asyncio.Event()
        self.hears.set()

    async def opened(self, hear: object = None, settings: Settings | None = None) -> Connection:
        self.incoming.put_nowait(Frame(0, frames.KEEPALIVE, 0, bytes(8)).encode())  # the SETUP is accepted
        return await Connection(self, Setup("m", "d", 60_000, 60_000), None, hear, settings).open()  # type: ignore[arg-type]

    async def receive(self) -> bytes:
        return await self.incoming.get()

    async def send(self, sent: list[bytes]) -> None:
        await self.hears.wait()
        self.sent += sent

    async def close(self) -> None:
        pass


async def test_whoever_waits_for_room_ends_with_the_connection_or_at_its_deadline() -> None:
    """Row 14 of docs/sdk/defects.md: a fire-and-forget that was not sent yet is not forgotten."""
    wire = ListWire()
    connection = await wire.opened()
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
    connection = await wire.opened(settings=Settings(fragment_bytes=1 << 16))
    await connection.fire_and_forget(bytes(1 << 20), None)
    await connection.close()
    pieces = [decode(raw) for raw in wire.sent[2:]]
    assert sum(len(piece.body) for piece in pieces) == 1 << 20
    assert pieces[-1].flags & frames.FOLLOWS == 0


async def test_a_mistake_of_ours_ends_the_connection_and_nobody_waits_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(connection: Connection, metadata: bytes) -> bool:
        raise KeyError("mistake")

    wire = ListWire()
    connection = await wire.opened(broken)
    call = asyncio.ensure_future(connection.request_response(b"", None))
    await asyncio.sleep(0)
    wire.incoming.put_nowait(Frame(0, frames.PUSH, frames.METADATA, b"x").encode())
    with pytest.raises(ConnectionLost, match="internal"):
        await asyncio.wait_for(call, 5)
    await connection.ended.wait()
    assert [each.getMessage() for each in caplog.records] == ["the connection is closed because of a bug in the SDK"]
    caplog.clear()  # what the watch over all tests looks for
