"""A broker with one power each for the tests: it forwards by tags, keeps all frames, and can be made to misbehave.

Reads frames with rsocket-py's classes and plain arithmetic, so that a mistake of ours is not made twice.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from rsocket.extensions.composite_metadata import CompositeMetadata
from rsocket.frame import SetupFrame

from rsocket_wire.wire.frames import MIME_TYPES, Address, RouteSetup, decode_frame
from tests.client_sdk import frames
from tests.client_sdk.listener import Listener

REQUESTS = (frames.RESPONSE, frames.FNF, frames.STREAM, frames.CHANNEL)
REJECTED, CLOSE = 0x202, 0x102
CLIENT_MIME = "message/x.rsocket.broker.client.v0"


def header(stream_id: int, kind: int, flags: int = 0) -> bytes:
    return frames.Frame(stream_id, kind, flags).encode()


def error_frame(stream_id: int, code: int, text: str) -> bytes:
    return frames.error(stream_id, code, text).encode()


class Peer:
    """One connection to the fake broker, and every frame that came through it: (kind, stream id, flags, frame)."""

    def __init__(self, broker: "FakeBroker", writer: asyncio.StreamWriter) -> None:
        self.broker = broker
        self.writer = writer
        self.route: RouteSetup | None = None
        self.setup: SetupFrame | None = None
        self.frames: list[tuple[int, int, int, bytes]] = []
        self.next_id = 2
        self.joined: dict[int, tuple[Peer, int]] = {}  # stream id here -> (other peer, stream id there)
        self.changed = asyncio.Condition()
        self.gone = asyncio.Event()
        self.may_be_told = False
        self.has_moved = asyncio.Event()

    def send(self, frame: bytes) -> None:
        if not self.writer.is_closing():
            self.writer.write(len(frame).to_bytes(3) + frame)

    def abort(self) -> None:
        self.writer.transport.abort()

    def tell(self, *urls: str, **more: str) -> None:
        """A BROKER_INFO that names other brokers; `more` are further entries of its metadata, - written as _."""
        pairs = [("client-url", url) for url in urls] + [(key.replace("_", "-"), more[key]) for key in more]
        raw = b"\0\0\0\1\x10\0" + bytes(15) + b"B" + bytes(8)
        for number, (key, value) in enumerate(pairs):
            raw += bytes([len(key)]) + key.encode()
            raw += bytes([len(value) | (0x80 if number + 1 < len(pairs) else 0)]) + value.encode()
        mime = b"message/x.rsocket.forwarding"
        self.send(header(0, frames.PUSH, 0x100) + bytes([len(mime) - 1]) + mime + len(raw).to_bytes(3) + raw)

    async def expect(self, kind: int, count: int = 1) -> list[tuple[int, int, int, bytes]]:
        """Waits until so many frames of this kind have come."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.of(kind)) >= count)
        return self.of(kind)

    def of(self, kind: int) -> list[tuple[int, int, int, bytes]]:
        return [frame for frame in self.frames if frame[0] == kind]

    async def receive(self, frame: bytes) -> None:
        stream_id = int.from_bytes(frame[:4])
        kind = frame[4] >> 2
        flags = int.from_bytes(frame[4:6]) & 0x3FF
        async with self.changed:
            self.frames.append((kind, stream_id, flags, frame))
            self.changed.notify_all()
        if self.broker.is_silent:
            return
        if kind == frames.SETUP:
            self.receive_setup(frame)
        elif kind == frames.KEEPALIVE and flags & 0x80:
            self.send(header(0, frames.KEEPALIVE) + frame[6:])
        elif kind == frames.PUSH and entries_of(frame[6:]) == {CLIENT_MIME: b"\x01\x01"}:
            self.has_moved.set()
        elif kind in REQUESTS and kind != frames.FNF and self.broker.answer is not None:
            self.broker.answer(self, kind, stream_id, frame)
        elif kind in REQUESTS or kind == frames.PUSH:
            self.receive_request(kind, stream_id, flags, frame)
        elif kind == frames.ERROR and stream_id == 0:
            self.abort()  # nothing runs in these tests when a client says goodbye
        elif stream_id in self.joined:
            other, there = self.joined[stream_id]
            other.send(there.to_bytes(4) + frame[4:])

    def receive_setup(self, frame: bytes) -> None:
        if self.broker.refusal is not None:
            self.send(error_frame(0, *self.broker.refusal))
            return
        self.setup = SetupFrame()
        self.setup.parse(frame, 0)
        if self.setup.metadata:
            items = entries_of(bytes(self.setup.metadata))
            self.may_be_told = items.get(CLIENT_MIME, b"")[:2] == b"\x01\x02"  # and who it is
            if items.keys() & set(MIME_TYPES):
                found = broker_frame(bytes(self.setup.metadata))
                assert isinstance(found, RouteSetup)
                self.route = found

    def receive_request(self, kind: int, stream_id: int, flags: int, frame: bytes) -> None:
        at = 6 + (4 if kind in (frames.STREAM, frames.CHANNEL) else 0) + (0 if kind == frames.PUSH else 3)
        length = len(frame) - at if kind == frames.PUSH else int.from_bytes(frame[at - 3 : at])
        address = broker_frame(frame[at : at + length])
        if kind == frames.PUSH and isinstance(address, RouteSetup):
            self.route = address
            return
        assert isinstance(address, Address)
        destination = self.broker.find(address)
        if destination is None:
            if kind not in (frames.FNF, frames.PUSH):
                self.send(error_frame(stream_id, REJECTED, "no-route: nobody has these tags"))
        elif kind == frames.PUSH:
            destination.send(frame)
        else:
            there = destination.next_id
            destination.next_id += 2
            self.joined[stream_id] = (destination, there)
            destination.joined[there] = (self, stream_id)
            destination.send(there.to_bytes(4) + frame[4:])


class FakeBroker(Listener[Peer]):
    def __init__(self) -> None:
        super().__init__()
        self.refusal: tuple[int, str] | None = None  # ERROR on stream 0 instead of accepting a SETUP
        self.is_silent = False
        self.answer: Callable[[Peer, int, int, bytes], None] | None = None  # instead of passing requests on

    def find(self, address: Address) -> Peer | None:
        for peer in self.peers:
            if peer.route is None or peer.gone.is_set():
                continue
            tags = {tag.key.name: tag.value for tag in peer.route.tags}
            tags["io.rsocket.routing.ServiceName"] = peer.route.service_name
            if all(tags.get(tag.key.name) == tag.value for tag in address.tags):
                return peer
        return None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(self, writer)
        await self._add(peer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                length = int.from_bytes(await reader.readexactly(3))
                await peer.receive(await reader.readexactly(length))
        peer.gone.set()
        writer.close()


def entries_of(metadata: bytes) -> dict[str, bytes]:
    return {item.encoding.decode(): bytes(item.content or b"") for item in CompositeMetadata().parse(metadata).items}


def broker_frame(metadata: bytes) -> Any:
    items = CompositeMetadata().parse(metadata).items
    content = next(item.content for item in items if item.encoding.decode() in MIME_TYPES)
    return decode_frame(bytes(content))
