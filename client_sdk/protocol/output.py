"""What waits to be written: in which order, cut how, and kept for a resumption.

    stream 0 ──────────────► urgent ─────────────────┐ first
    frames of streams ─────► written one by one ─────┼──► take(): pieces of the byte stream, or messages
    payloads in pieces ────► a backlog per stream ───┘ last, a fragment of each stream in turn

Nothing of its stream overtakes a payload in pieces, but what ends it, and credit. Knows no sockets and no time. RSocket
protocol 1.0, "Fragmentation and Reassembly", "Framing".
"""

from collections import deque
from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be

from client_sdk.protocol.fragments import Outgoing
from client_sdk.protocol.stream import Stream
from rsocket_wire.rsocket.frames import HEADER_BYTES, METADATA, REQUEST_CHANNEL, REQUEST_STREAM, has_position
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES
from rsocket_wire.rsocket.resumption import Session

WHOLE_BYTES: Final = 64 << 10  # data of a frame that is handed over as it is, not copied to what is around it
_KEPT_BYTES: Final = 256 << 10  # of a writer's memory: a turn's output of a busy client; after more it starts anew
_LENGTH_BYTES: Final = 3


class Output:
    """The frames that wait."""

    def __init__(self, is_framed: bool, fragment_bytes: int, session: Session | None) -> None:
        """`fragment_bytes`: no frame of a payload is longer; 0: as long as a frame can be."""
        self._is_framed = is_framed
        self._max_bytes: Final = fragment_bytes or MAX_FRAME_BYTES
        self._session: Final = session
        self._writer = BytesWriter()  # of a framed connection
        self._chunks: list[bytes] = []  # what comes before it
        self._messages: list[bytes] = []  # of one that is not framed
        self._urgent: list[bytes] = []  # frames of stream 0
        self._backlogs: deque[Stream] = deque()  # in turn; each once
        self._is_shut = False  # no socket: only the session takes frames
        self.ready_bytes = 0  # of frames that wait
        self.backlog_bytes = 0  # of payloads that wait to be cut

    def urgent(self, raw: bytes) -> None:
        """A frame of stream 0."""
        if self._is_shut:
            return
        self._urgent.append(raw)
        self.ready_bytes += len(raw)

    def say(self, raw: bytes) -> None:
        """A frame of stream 0 behind all that was sent before it (but for payloads in pieces)."""
        if not self._is_shut:
            self._write(raw)

    def frame(self, raw: bytes) -> None:
        """A frame of a stream that may overtake fragments: CANCEL, ERROR, REQUEST_N."""
        session = self._session
        if session is not None and has_position(raw[4] >> 2):
            session.retain(raw)
        if not self._is_shut:
            self._write(raw)

    def content(self, stream: Stream, kind: int, flags: int, n: int, metadata: bytes | None, data: bytes) -> None:
        """A request or PAYLOAD of the stream, cut when it is too long for a frame."""
        length = -1 if metadata is None else len(metadata)
        size = HEADER_BYTES + len(data)
        if length >= 0:
            size += 3 + length
        has_n = kind == REQUEST_STREAM or kind == REQUEST_CHANNEL
        if has_n:
            size += 4
        if stream.backlog is not None or size > self._max_bytes:
            self._postpone(stream, Outgoing(stream.id, kind, flags, n, metadata, data))
            return
        if self._session is not None or not self._is_framed or self._is_shut:
            header = ((stream.id << 16) | (kind << 10) | flags | (METADATA if length >= 0 else 0)).to_bytes(6, "big")
            parts = [header]
            if has_n:
                parts.append(n.to_bytes(4, "big"))
            if metadata is not None:
                parts.append(length.to_bytes(3, "big"))
                parts.append(metadata)
            parts.append(data)
            self.frame(b"".join(parts))
            return
        writer = self._writer
        if length >= 0:
            flags |= METADATA
        # Length, stream id, type and the upper flags in one write; a signed number has room for 23 bits of length.
        write_i64_be(writer, ((size & 0x7FFFFF) << 40) | (stream.id << 8) | (kind << 2) | (flags >> 8))
        if size > 0x7FFFFF:
            writer[len(writer) - 8] = size >> 16
        writer.append(flags & 0xFF)
        if has_n:
            write_i32_be(writer, n)
        if metadata is not None:
            writer.append(length >> 16)
            writer.append((length >> 8) & 0xFF)
            writer.append(length & 0xFF)
            writer.write(metadata)
        if len(data) < WHOLE_BYTES:
            writer.write(data)
        else:
            self._seal()
            self._chunks.append(data)
        self.ready_bytes += size + _LENGTH_BYTES

    def drop(self, stream: Stream) -> bool:
        """What has not left of the stream's payloads never will; True when that is its request: nobody knows of it."""
        backlog = stream.backlog
        if backlog is None:
            return False
        stream.backlog = None
        self._backlogs.remove(stream)
        for outgoing in backlog:
            self.backlog_bytes -= outgoing.left_bytes
        return backlog[0].is_unsent_request

    def drop_rest(self, stream_id: int) -> None:
        """The same for a stream that has ended, and whose last payload has not left yet."""
        for stream in self._backlogs:
            if stream.id == stream_id:
                self.drop(stream)
                return

    def take(self, room_bytes: int) -> list[bytes]:
        """What is to be written now: pieces of the byte stream when framed, else one message each.

        Of payloads in pieces about `room_bytes`, and one fragment at least; the rest waits on.
        """
        if not self.ready_bytes and not self.backlog_bytes:
            return []
        urgent = self._urgent
        if self._is_shut:
            if not urgent:
                return []
        elif self._backlogs:
            self._cut(room_bytes)
        ahead: list[bytes] = []
        if urgent:
            self._urgent = []
            for raw in urgent:
                self.ready_bytes -= len(raw)
                if self._is_framed:
                    ahead.append(len(raw).to_bytes(3, "big") + raw)
                else:
                    ahead.append(raw)
        if not self._is_framed:
            messages = self._messages
            self._messages = []
            for raw in messages:
                self.ready_bytes -= len(raw)
            return ahead + messages if ahead else messages
        self._seal()
        chunks = self._chunks
        self._chunks = []
        for raw in chunks:
            self.ready_bytes -= len(raw)
        if ahead:
            chunks.insert(0, b"".join(ahead))
        return chunks

    def shut(self) -> None:
        """The socket is gone: what waits is forgotten here, the session has what counts."""
        self._writer = BytesWriter()
        self._chunks = []
        self._messages = []
        self._urgent = []
        self.ready_bytes = 0
        self._is_shut = True

    def begin(self, is_framed: bool, raw: bytes) -> None:
        """There is a socket again, and this frame is for it; still nothing else."""
        self._is_framed = is_framed
        self._urgent.append(raw)
        self.ready_bytes += len(raw)

    def reopen(self, frames: list[bytes]) -> None:
        """The other side lacks these frames; then all goes on."""
        self._is_shut = False
        for raw in frames:
            self._write(raw)

    def clear(self) -> None:
        """Nothing will be written any more."""
        self.shut()
        for stream in self._backlogs:
            stream.backlog = None
        self._backlogs.clear()
        self.backlog_bytes = 0

    def _postpone(self, stream: Stream, outgoing: Outgoing) -> None:
        backlog = stream.backlog
        if backlog is None:
            backlog = stream.backlog = deque()
            self._backlogs.append(stream)
        backlog.append(outgoing)
        self.backlog_bytes += outgoing.left_bytes

    def _cut(self, room_bytes: int) -> None:
        backlogs = self._backlogs
        while backlogs and room_bytes > 0:
            stream = backlogs.popleft()
            backlog = stream.backlog
            assert backlog is not None  # who has none is not in there
            outgoing = backlog[0]
            self.backlog_bytes -= outgoing.left_bytes
            raw, is_last = outgoing.next_frame(self._max_bytes)
            if is_last:
                backlog.popleft()
            else:
                self.backlog_bytes += outgoing.left_bytes
            if backlog:
                backlogs.append(stream)
            else:
                stream.backlog = None
            room_bytes -= len(raw)
            self.frame(raw)

    def _write(self, raw: bytes) -> None:
        size = len(raw)
        if not self._is_framed:
            self._messages.append(raw)
            self.ready_bytes += size
            return
        writer = self._writer
        writer.append(size >> 16)
        writer.append((size >> 8) & 0xFF)
        writer.append(size & 0xFF)
        if size < WHOLE_BYTES:
            writer.write(raw)
        else:
            self._seal()
            self._chunks.append(raw)
        self.ready_bytes += size + _LENGTH_BYTES

    def _seal(self) -> None:
        """What the writer has becomes a piece."""
        writer = self._writer
        size = len(writer)
        if not size:
            return
        self._chunks.append(writer.getvalue())
        if size <= _KEPT_BYTES:
            writer.truncate(0)
        else:
            self._writer = BytesWriter()  # truncating keeps the memory
