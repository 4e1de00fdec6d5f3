"""Payloads in pieces: one that arrives, and one that leaves.

Decides how a payload is cut: metadata first, all of it, then data; COMPLETE only on the last piece. RSocket protocol
1.0, "Fragmentation and Reassembly".
"""

from typing import Final

from rsocket_wire.rsocket.frames import (
    COMPLETE,
    FOLLOWS,
    HEADER_BYTES,
    METADATA,
    NEXT,
    PAYLOAD,
    REQUEST_CHANNEL,
    REQUEST_STREAM,
)

PIECE_BYTES: Final = 128  # of memory for a piece without any content, so that those have a bound, too
MIN_FRAGMENT_BYTES: Final = 64  # of a frame that we cut: what rsocket-java allows, and the broker does not count


class Gathered:
    """A request or PAYLOAD that is arriving in pieces."""

    __slots__ = ("data", "flags", "has_metadata", "kind", "metadata", "n", "size_bytes")

    def __init__(self, kind: int, flags: int, n: int) -> None:
        """What the first piece says; it is not added yet."""
        self.kind: Final = kind
        self.flags = flags
        self.n: Final = n
        self.has_metadata = False
        self.metadata: Final[list[bytes]] = []
        self.data: Final[list[bytes]] = []
        self.size_bytes = 0

    def add(self, flags: int, metadata: bytes | None, data: bytes) -> int:
        """One more piece; how many bytes it counts for."""
        self.flags |= flags & ~FOLLOWS
        size = len(data) + PIECE_BYTES
        if metadata is not None:
            self.has_metadata = True
            self.metadata.append(metadata)
            size += len(metadata)
        if data:
            self.data.append(data)
        self.size_bytes += size
        return size

    def whole_metadata(self) -> bytes | None:
        """All of it; None when no piece had any."""
        return b"".join(self.metadata) if self.has_metadata else None

    def whole_data(self) -> bytes:
        """All of it."""
        return b"".join(self.data)


class Outgoing:
    """A request or PAYLOAD that leaves, perhaps in several frames."""

    __slots__ = ("_data", "_data_at", "_flags", "_id", "_is_begun", "_kind", "_metadata", "_metadata_at", "_n")

    def __init__(self, id: int, kind: int, flags: int, n: int, metadata: bytes | None, data: bytes) -> None:
        """`n`: the credit of a REQUEST_STREAM or REQUEST_CHANNEL."""
        self._id: Final = id
        self._kind: Final = kind
        self._flags: Final = flags
        self._n: Final = n
        self._metadata: Final = metadata
        self._data: Final = data
        self._is_begun = False
        self._metadata_at = 0  # what is before it has left
        self._data_at = 0

    @property
    def is_unsent_request(self) -> bool:
        """It begins the stream, and no piece has left."""
        return self._kind != PAYLOAD and not self._is_begun

    @property
    def left_bytes(self) -> int:
        """Content that has not left, and one header."""
        metadata = self._metadata
        left = len(self._data) - self._data_at + HEADER_BYTES
        return left if metadata is None else left + len(metadata) - self._metadata_at

    def next_frame(self, max_bytes: int) -> tuple[bytes, bool]:
        """The next frame, of `max_bytes` at most (MIN_FRAGMENT_BYTES at least), and whether it is the last."""
        kind = PAYLOAD if self._is_begun else self._kind
        room = max_bytes - HEADER_BYTES
        credit = b""
        if kind == REQUEST_STREAM or kind == REQUEST_CHANNEL:
            credit = self._n.to_bytes(4, "big")
            room -= 4
        head = b""
        flags = 0
        metadata = self._metadata
        if metadata is not None and (self._metadata_at < len(metadata) or not self._is_begun):
            room -= 3
            piece = metadata[self._metadata_at : self._metadata_at + room]
            self._metadata_at += len(piece)
            room -= len(piece)
            head = len(piece).to_bytes(3, "big") + piece
            flags = METADATA
        body = b""
        if metadata is None or self._metadata_at == len(metadata):
            body = self._data[self._data_at : self._data_at + room]
            self._data_at += len(body)
        is_last = self._data_at == len(self._data) and (metadata is None or self._metadata_at == len(metadata))
        if is_last:
            flags |= self._flags & (NEXT | COMPLETE) if kind == self._kind else NEXT | (self._flags & COMPLETE)
        else:
            flags |= FOLLOWS | (NEXT if kind == PAYLOAD else 0)
        self._is_begun = True
        header = ((self._id << 16) | (kind << 10) | flags).to_bytes(HEADER_BYTES, "big")
        return b"".join([header, credit, head, body]), is_last
