"""The other end of `sdk.py`: services that cost little, so that the caller is what is measured.

    python -m benchmarks.sdk_echo rsocket PORT     the route `echo` at an RSocket broker
    python -m benchmarks.sdk_echo nats PORT        the subjects `echo` and `items` at a nats-server

Each says `ready` when it can be asked. A request is answered with its own data, a stream with ITEMS_N items of it.
"""

import asyncio
import contextlib
import sys
from typing import Any

import uvloop

from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, encode_entry
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup

ITEMS_N = 4096  # of one stream


class RSocketEcho(asyncio.Protocol):
    """Answers as soon as it reads, one write for all that was read."""

    def __init__(self) -> None:
        self.cursor = FrameCursor(True)
        self.streams: dict[int, list[object]] = {}  # id -> [items left, credit, data]
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        route = encode_entry(MIME_TYPE.encode(), RouteSetup(bytes(15) + b"E", "echo", []).encode())
        setup = frames.Setup(COMPOSITE_MIME, "application/octet-stream", 60_000, 200_000, route)
        self.write([setup.encode(), frames.encode_keepalive(b"", respond=True)])

    def connection_lost(self, error: Exception | None) -> None:
        asyncio.get_running_loop().stop()

    def data_received(self, data: bytes) -> None:
        cursor = self.cursor
        cursor.feed(data, 0.0)
        out: list[bytes] = []
        while cursor.advance():
            self.receive(cursor, out)
        if out:
            self.write(out)

    def receive(self, frame: FrameCursor, out: list[bytes]) -> None:
        kind, id = frame.kind, frame.stream_id
        if kind == frames.REQUEST_RESPONSE or kind == frames.REQUEST_STREAM:
            _, at = frames.request_parts(frame.data, frame.start, frame.end, kind, frame.flags)
            data = frame.data[at : frame.end]
            if kind == frames.REQUEST_RESPONSE:
                out.append(frames.encode_payload(id, frames.NEXT | frames.COMPLETE, data))
            else:
                item = frames.encode_payload(id, frames.NEXT, data)
                self.streams[id] = [ITEMS_N, frames.initial_n(frame.data, frame.start), item]
                self.send_items(id, out)
        elif kind == frames.REQUEST_N and id in self.streams:
            stream = self.streams[id]
            assert isinstance(stream[1], int)
            stream[1] += frames.initial_n(frame.data, frame.start)
            self.send_items(id, out)
        elif kind == frames.CANCEL:
            self.streams.pop(id, None)
        elif kind == frames.KEEPALIVE:
            if frame.flags & frames.RESPOND:
                out.append(frames.encode_keepalive(b""))
            else:
                print("ready", flush=True)

    def send_items(self, id: int, out: list[bytes]) -> None:
        left, credit, item = self.streams[id]
        assert isinstance(left, int)
        assert isinstance(credit, int)
        assert isinstance(item, bytes)
        n = min(left, credit)
        out.extend([item] * n)
        if n == left:
            out.append(frames.encode_payload(id, frames.COMPLETE))
            del self.streams[id]
        else:
            self.streams[id] = [left - n, credit - n, item]

    def write(self, out: list[bytes]) -> None:
        self.transport.write(b"".join([part for frame in out for part in (len(frame).to_bytes(3), frame)]))


class NatsEcho(asyncio.Protocol):
    """`echo` answers with the data; `items` with ITEMS_N messages, or as many as the data's first word says."""

    def __init__(self) -> None:
        self.rest = b""
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB echo 1\r\nSUB items 2\r\nPING\r\n')

    def connection_lost(self, error: Exception | None) -> None:
        asyncio.get_running_loop().stop()

    def data_received(self, data: bytes) -> None:
        data = self.rest + data
        at = 0
        out: list[bytes] = []
        while (end := data.find(b"\r\n", at)) >= 0:
            line = data[at:end]
            if line.startswith(b"MSG"):
                words = line.split()
                size = int(words[-1])
                if len(data) < end + size + 4:
                    break
                body = data[end + 2 : end + 2 + size]
                if len(words) == 5:  # with somebody to answer to
                    answer = b"PUB %b %d\r\n%b\r\n" % (words[3], size, body)
                    out.append(answer * (int(body.split(b" ", 1)[0]) if words[1] == b"items" else 1))
                at = end + size + 4
                continue
            if line == b"PING":
                out.append(b"PONG\r\n")
            elif line == b"PONG":
                print("ready", flush=True)
            at = end + 2
        self.rest = data[at:]
        if out:
            self.transport.write(b"".join(out))


async def main(kind: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_connection(RSocketEcho if kind == "rsocket" else NatsEcho, "127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(RuntimeError, KeyboardInterrupt):  # the broker is gone, or nobody needs it any more
        uvloop.run(main(sys.argv[1], int(sys.argv[2])))
