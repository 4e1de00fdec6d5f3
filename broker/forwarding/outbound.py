"""Frames that wait for one peer because its transport takes no more now: by stream, handed out piece by piece.

Decides which frame is next: those of stream 0 first, then one frame of each stream in turn, so that a small answer does
not stand behind a large one. Frames of one stream stay in order, and a frame that has begun is finished before another
one begins. Does not know what the frames mean, nor who the peer is.

    stream 0    KEEPALIVE                        ◄── first
    stream 5    PAYLOAD PAYLOAD PAYLOAD PAYLOAD  ◄── then one of each in turn
    stream 7    PAYLOAD

The content of a large frame is held once, however many peers it waits for (`body`), and is not joined with other bytes
before it is written to a stream.
"""

from collections import deque
from typing import Final

from broker.rsocket.resumption import FRAME_COST

Piece = bytes | memoryview  # what is written to a transport

LARGE_BYTES: Final = 64 << 10  # of a frame: one as large is shared and not copied, and waits here for its writing
PIECE_BYTES: Final = 256 << 10  # of a large frame's content at a time: what a transport holds of one that does not read


class Total:
    """What waits for all peers of one broker."""

    __slots__ = ("_most_bytes", "limit_bytes", "over", "queues", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: Final = limit_bytes
        self.used_bytes = 0  # with FRAME_COST for each frame
        self._most_bytes = 0  # since `take_most`
        self.queues: Final[dict[int, Outbound]] = {}  # in which something waits, by the peer's id
        self.over: Final[
            list[int]
        ] = []  # ids of peers for which too much waits, by one limit or the other; for the core

    def add(self, held_bytes: int) -> None:
        """So much more waits."""
        self.used_bytes += held_bytes
        if self.used_bytes > self._most_bytes:
            self._most_bytes = self.used_bytes

    def take_most(self) -> int:
        """The most that has waited since this was asked the last time."""
        most_bytes = self._most_bytes
        self._most_bytes = self.used_bytes
        return most_bytes

    def find_largest(self) -> int:
        """The id of the peer for which most waits; 0: nothing waits."""
        most = 0
        largest = 0
        for peer_id, queue in self.queues.items():
            if queue.held_bytes > most:
                most = queue.held_bytes
                largest = peer_id
        return largest


class Waiting:
    """One frame: its bytes are `head` and then `body`, its length before it not included."""

    __slots__ = ("body", "head")

    def __init__(self, head: bytes, body: bytes) -> None:
        self.head: Final = head  # at least the frame's header
        self.body: Final = body  # content of a large frame, shared with others; else empty


class Lane:
    """The frames of one stream."""

    __slots__ = ("frames", "held_bytes", "stream_id")

    def __init__(self, stream_id: int) -> None:
        self.stream_id: Final = stream_id
        self.frames: Final[deque[Waiting]] = deque()
        self.held_bytes = 0  # with FRAME_COST for each


class Outbound:
    """What waits for one peer."""

    __slots__ = (
        "_at",
        "_begun",
        "_control",
        "_is_framed",
        "_lanes",
        "_peer_id",
        "_total",
        "_turns",
        "held_bytes",
        "wire_bytes",
    )

    def __init__(self, peer_id: int, is_framed: bool, total: Total) -> None:
        self._peer_id: Final = peer_id
        self._is_framed: Final = is_framed
        self._total: Final = total
        self._control: Final[deque[Waiting]] = deque()  # stream 0
        self._lanes: Final[dict[int, Lane]] = {}  # by stream id; bounded by bytes, FRAME_COST included
        self._turns: Final[deque[Lane]] = deque()  # whose turn it is; a lane that is not in `_lanes` was dropped
        self._begun: Waiting | None = None  # a large frame of which a part was handed out
        self._at = 0  # of its body: where the rest begins
        self.wire_bytes = 0  # as they will be written, lengths included
        self.held_bytes = 0  # with FRAME_COST for each frame

    def put(self, stream_id: int, head: bytes, body: bytes) -> None:
        """A frame goes to the end of its stream's."""
        waiting = Waiting(head, body)
        size = len(head) + len(body)
        cost = size + FRAME_COST
        if not self.held_bytes:
            self._total.queues[self._peer_id] = self
        self.wire_bytes += size + 3 if self._is_framed else size
        self.held_bytes += cost
        self._total.add(cost)
        if not stream_id:
            self._control.append(waiting)
            return
        lane = self._lanes.get(stream_id)
        if lane is None:
            lane = self._lanes[stream_id] = Lane(stream_id)
            self._turns.append(lane)
        lane.frames.append(waiting)
        lane.held_bytes += cost

    def take(self, room_bytes: int) -> list[Piece]:
        """Pieces to write next, about as many bytes as there is room for: of a stream, or one whole message each."""
        pieces: list[Piece] = []
        small: list[bytes] = []  # framed: small frames that are one piece together
        while room_bytes > 0:
            begun = self._begun
            if begun is not None:
                rest_bytes = len(begun.body) - self._at
                size = min(rest_bytes, room_bytes, PIECE_BYTES)
                pieces.append(memoryview(begun.body)[self._at : self._at + size])
                self._at += size
                self._gave(size, size)
                room_bytes -= size
                if size == rest_bytes:
                    self._begun = None
                continue
            waiting = self._next()
            if waiting is None:
                break
            size = len(waiting.head) + len(waiting.body)
            if not self._is_framed:
                pieces.append(waiting.head + waiting.body if waiting.body else waiting.head)
                self._gave(size, size + FRAME_COST)
                room_bytes -= size
                continue
            small.append(size.to_bytes(3, "big"))
            small.append(waiting.head)
            head_bytes = len(waiting.head)
            self._gave(head_bytes + 3, head_bytes + FRAME_COST)
            room_bytes -= head_bytes + 3
            if waiting.body:
                pieces.append(b"".join(small))
                small = []
                self._begun = waiting
                self._at = 0
        if small:
            pieces.append(b"".join(small))
        return pieces

    def take_frames(self, room_bytes: int) -> list[bytes]:
        """Whole frames to write next, without their lengths, about as many bytes as there is room for."""
        frames: list[bytes] = []
        while room_bytes > 0:
            waiting = self._next()
            if waiting is None:
                break
            raw = waiting.head + waiting.body if waiting.body else waiting.head
            frames.append(raw)
            self._gave(len(raw) + 3 if self._is_framed else len(raw), len(raw) + FRAME_COST)
            room_bytes -= len(raw)
        return frames

    def is_over(self, limit_bytes: int) -> bool:
        """More waits than that. One frame alone may be larger, and one that has begun does not count."""
        begun = self._begun
        waiting_bytes = self.held_bytes
        if begun is not None:
            waiting_bytes -= len(begun.body) - self._at
        if waiting_bytes <= limit_bytes:
            return False
        if self._control or len(self._lanes) != 1:
            return True
        for lane in self._lanes.values():
            return len(lane.frames) > 1
        return False

    def find_largest(self) -> int:
        """The stream of which most waits; 0: none but stream 0 has any."""
        most = 0
        largest = 0
        for stream_id, lane in self._lanes.items():
            if lane.held_bytes > most:
                most = lane.held_bytes
                largest = stream_id
        return largest

    def has(self, stream_id: int) -> bool:
        """Frames of that stream wait, of which nothing was handed out."""
        return stream_id in self._lanes

    def first_kind(self, stream_id: int) -> int:
        """The type of the first frame of that stream that waits; 0: none does."""
        lane = self._lanes.get(stream_id)
        return lane.frames[0].head[4] >> 2 if lane is not None else 0

    def drop(self, stream_id: int) -> int:
        """Forgets what waits of a stream, but for a frame that has begun; how many bytes that frees."""
        lane = self._lanes.pop(stream_id, None)
        if lane is None:
            return 0
        for waiting in lane.frames:
            size = len(waiting.head) + len(waiting.body)
            self.wire_bytes -= size + 3 if self._is_framed else size
        freed_bytes = lane.held_bytes
        lane.held_bytes = 0
        lane.frames.clear()  # its turn will come and nothing be there
        self._free(freed_bytes)
        return freed_bytes

    def drop_all(self) -> None:
        """Forgets all streams, but for a frame that has begun. What waits of stream 0 stays."""
        for stream_id in list(self._lanes):
            self.drop(stream_id)
        self._turns.clear()

    def clear(self) -> None:
        """Forgets everything: the transport is gone."""
        self._control.clear()
        self._lanes.clear()
        self._turns.clear()
        self._begun = None
        self.wire_bytes = 0
        self._free(self.held_bytes)

    def _next(self) -> Waiting | None:
        if self._control:
            return self._control.popleft()
        while self._turns:
            lane = self._turns.popleft()
            if not lane.frames:
                continue  # dropped
            waiting = lane.frames.popleft()
            lane.held_bytes -= len(waiting.head) + len(waiting.body) + FRAME_COST
            if lane.frames:
                self._turns.append(lane)
            else:
                del self._lanes[lane.stream_id]
            return waiting
        return None

    def _gave(self, wire_bytes: int, held_bytes: int) -> None:
        self.wire_bytes -= wire_bytes
        self._free(held_bytes)

    def _free(self, held_bytes: int) -> None:
        self.held_bytes -= held_bytes
        self._total.used_bytes -= held_bytes
        if not self.held_bytes:
            self._total.queues.pop(self._peer_id, None)
