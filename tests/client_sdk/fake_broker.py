"""A broker with one power each for the tests: it forwards by tags, keeps all frames, and can be made to misbehave.

Reads frames with rsocket-py's classes and plain arithmetic, so that a mistake of ours is not made twice.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from rsocket.extensions.composite_metadata import CompositeMetadata
from rsocket.frame import SetupFrame

from rsocket_wire.wire.frames import MIME_TYPES, Address, RouteSetup, decode_frame
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, decode, error
from tests.client_sdk.listener import Listener
from tests.client_sdk.raw_broker import StreamPeer

REQUESTS = (frames.RESPONSE, frames.FNF, frames.STREAM, frames.CHANNEL)
REJECTED, CLOSE = 0x202, 0x102
CLIENT_MIME = "message/x.rsocket.broker.client.v0"


class Peer(StreamPeer):
    """One connection to the fake broker."""

    def __init__(self, broker: "FakeBroker", writer: asyncio.StreamWriter) -> None:
        super().__init__(writer)
        self.broker = broker
        self.route: RouteSetup | None = None
        self.setup: SetupFrame | None = None
        self.next_id = 2
        self.joined: dict[int, tuple[Peer, int]] = {}  # stream id here -> (other peer, stream id there)
        self.may_be_told = False
        self.has_moved = asyncio.Event()
        self.renewals: asyncio.Queue[bytes] = asyncio.Queue()  # credentials with which it has logged in anew

    def tell(self, *urls: str, **more: str) -> None:
        """A BROKER_INFO that names other brokers; `more` are further entries of its metadata, - written as _."""
        pairs = [("client-url", url) for url in urls] + [(key.replace("_", "-"), more[key]) for key in more]
        raw = b"\0\0\0\1\x10\0" + bytes(15) + b"B" + bytes(8)
        for number, (key, value) in enumerate(pairs):
            raw += bytes([len(key)]) + key.encode()
            raw += bytes([len(value) | (0x80 if number + 1 < len(pairs) else 0)]) + value.encode()
        mime = b"message/x.rsocket.forwarding"
        entry = bytes([len(mime) - 1]) + mime + len(raw).to_bytes(3) + raw
        self.send(Frame(0, frames.PUSH, frames.METADATA, entry))

    async def take(self, raw: bytes) -> None:
        self.answers_pings = not self.broker.is_silent
        await super().take(raw)
        if not self.broker.is_silent:
            self.serve(decode(raw), raw)

    def serve(self, frame: Frame, raw: bytes) -> None:
        kind = frame.kind
        if kind == frames.SETUP:
            self.receive_setup(raw)
        elif kind == frames.PUSH and entries_of(frame.body) == {CLIENT_MIME: b"\x01\x01"}:
            self.has_moved.set()
        elif kind == frames.PUSH and entries_of(frame.body).get(CLIENT_MIME, b"")[:2] == b"\x01\x03":
            self.renewals.put_nowait(entries_of(frame.body)[CLIENT_MIME][2:])
        elif kind in REQUESTS and kind != frames.FNF and self.broker.answer is not None:
            self.broker.answer(self, frame)
        elif kind in REQUESTS or kind == frames.PUSH:
            self.receive_request(frame)
        elif kind == frames.ERROR and frame.stream_id == 0:
            self.abort()  # nothing runs in these tests when a client says goodbye
        elif frame.stream_id in self.joined:
            other, there = self.joined[frame.stream_id]
            other.send(frame._replace(stream_id=there))

    def receive_setup(self, raw: bytes) -> None:
        if self.broker.refusal is not None:
            self.send(error(0, *self.broker.refusal))
            return
        self.setup = SetupFrame()
        self.setup.parse(raw, 0)
        if self.setup.metadata:
            items = entries_of(bytes(self.setup.metadata))
            self.may_be_told = items.get(CLIENT_MIME, b"")[:2] == b"\x01\x02"  # and who it is
            if items.keys() & set(MIME_TYPES):
                found = broker_frame(bytes(self.setup.metadata))
                assert isinstance(found, RouteSetup)
                self.route = found

    def receive_request(self, frame: Frame) -> None:
        is_push = frame.kind == frames.PUSH
        address = broker_frame(frame.body if is_push else frame.metadata or b"")
        if is_push and isinstance(address, RouteSetup):
            self.route = address
            return
        assert isinstance(address, Address)
        destination = self.broker.find(address)
        if destination is None:
            if frame.kind not in (frames.FNF, frames.PUSH):
                self.send(error(frame.stream_id, REJECTED, "no-route: nobody has these tags"))
        elif is_push:
            destination.send(frame)
        else:
            there = destination.next_id
            destination.next_id += 2
            self.joined[frame.stream_id] = (destination, there)
            destination.joined[there] = (self, frame.stream_id)
            destination.send(frame._replace(stream_id=there))


class FakeBroker(Listener[Peer]):
    def __init__(self) -> None:
        super().__init__()
        self.refusal: tuple[int, str] | None = None  # ERROR on stream 0 instead of accepting a SETUP
        self.is_silent = False
        self.answer: Callable[[Peer, Frame], None] | None = None  # instead of passing requests on

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
        await peer.run(reader)


def entries_of(metadata: bytes) -> dict[str, bytes]:
    return {item.encoding.decode(): bytes(item.content or b"") for item in CompositeMetadata().parse(metadata).items}


def broker_frame(metadata: bytes) -> Any:
    items = CompositeMetadata().parse(metadata).items
    content = next(item.content for item in items if item.encoding.decode() in MIME_TYPES)
    return decode_frame(bytes(content))
