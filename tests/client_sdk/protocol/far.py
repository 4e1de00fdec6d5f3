"""The other side of a machine: a clock that a test turns, and frames as plain tuples.

Frames are written and read with arithmetic of its own, so that a mistake of the codec is not made twice.
"""

from client_sdk.protocol.machine import Machine
from client_sdk.protocol.settings import Settings
from client_sdk.protocol.stream import Stream
from rsocket_wire.rsocket.frames import Setup
from tests.client_sdk import frames

M, F, C, N = frames.METADATA, frames.FOLLOWS, frames.COMPLETE, frames.NEXT
KEEPALIVE_S, LIFETIME_S = 10.0, 30.0

Frame = tuple[int, int, int, bytes]  # kind, stream id, flags, what is behind the header


def frame(stream_id: int, kind: int, flags: int = 0, body: bytes = b"") -> bytes:
    return frames.Frame(stream_id, kind, flags, body).encode()


def parts(raw: bytes) -> Frame:
    head = int.from_bytes(raw[4:6])
    return head >> 10, int.from_bytes(raw[:4]), head & 0x3FF, raw[6:]


def error(stream_id: int, code: int, text: str) -> bytes:
    return frames.error(stream_id, code, text).encode()


class Far:
    """One machine, spoken to frame by frame."""

    def __init__(
        self,
        settings: Settings | None = None,
        setup: Setup | None = None,
        *,
        is_framed: bool = False,
        serves: bool = True,
        is_accepted: bool = True,
    ) -> None:
        self.now = 100.0
        self.is_framed = is_framed
        setup = setup or Setup("m", "d", int(KEEPALIVE_S * 1000), int(LIFETIME_S * 1000))
        self.machine = Machine(setup, is_framed, settings or Settings(), serves, self.now)
        self._rest = b""
        if is_accepted:
            self.take()
            self.send(frame(0, frames.KEEPALIVE, 0, bytes(8)))

    def send(self, *sent: bytes) -> None:
        """To the machine, at this moment."""
        if self.is_framed:
            self.machine.receive(b"".join(len(raw).to_bytes(3) + raw for raw in sent), self.now)
        else:
            for raw in sent:
                self.machine.receive(raw, self.now)

    def take_raw(self, room_bytes: int = 1 << 30) -> list[bytes]:
        """Whole frames that it has written since."""
        pieces = self.machine.take_output(room_bytes, self.now)
        if not self.is_framed:
            return pieces
        data = self._rest + b"".join(pieces)
        found = []
        while len(data) >= 3 and len(data) >= 3 + (size := int.from_bytes(data[:3])):
            found.append(data[3 : 3 + size])
            data = data[3 + size :]
        self._rest = data
        return found

    def take(self, room_bytes: int = 1 << 30) -> list[Frame]:
        return [parts(raw) for raw in self.take_raw(room_bytes)]

    def news(self) -> list[Stream]:
        return self.machine.streams.take_updated()

    def pass_time(self, seconds: float) -> None:
        """Ticks whenever the machine wants to."""
        end = self.now + seconds
        while (at := self.machine.next_deadline()) <= end:
            self.now = max(self.now, at)
            self.machine.tick(self.now)
        self.now = end

    def ask(self, data: bytes = b"", metadata: bytes | None = None, deadline: float = 0.0) -> Stream:
        return self.machine.request_response(None, data, metadata, deadline)

    def ask_items(self, n: int = 8, kind: int = frames.STREAM, data: bytes = b"", deadline: float = 0.0) -> Stream:
        return self.machine.request_items(kind, None, data, None, n, deadline)


def said(stream: Stream) -> tuple[int, str] | None:
    """Code and message of what a stream ended with."""
    return None if stream.failure is None else (stream.failure.code, stream.failure.message)
