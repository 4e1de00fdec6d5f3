"""Frames that wait for one peer because its transport takes no more now: by stream, handed out piece by piece.

Decides which frame is next: those of stream 0 first, then one frame of each stream in turn, so that a small answer does
not stand behind a large one. Frames of one stream stay in order, and a frame that has begun is finished before another
one begins. Does not know what the frames mean, nor who the peer is.

    stream 0    KEEPALIVE                        ◄── first
    stream 5    PAYLOAD PAYLOAD PAYLOAD PAYLOAD  ◄── then one of each in turn
    stream 7    PAYLOAD

METADATA_PUSHes of callers are a lane of their own: nobody waits for their answer, so they may be dropped.

The content of a large frame is held once, however many peers it waits for (`body`), and is not joined with other bytes
before it is written to a stream.
"""

from collections import deque
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

Piece = bytes | memoryview  # what is written to a transport

LARGE_BYTES: Final = 64 << 10  # of a frame: one as large is shared and not copied, and waits here for its writing
PIECE_BYTES: Final = 256 << 10  # of a large frame's content at a time: what a transport holds of one that does not read
PUSHES: Final = -1  # the lane of METADATA_PUSHes, in place of a stream id
# Bytes of memory that a frame, and a stream of which frames wait, cost beside the content.
WAITING_COST: Final = 96
LANE_COST: Final = 160
MAX_STALE: Final = 64  # entries of what waits no more, beyond one for each lane, before they are looked for


class Total:
    """What waits for all peers of one broker."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: Final = limit_bytes
        self.used_bytes = 0  # as `Outbound.held_bytes`
        self._most_bytes = 0  # since `take_most`
        self.queues: Final[dict[int, Outbound]] = {}  # in which something waits, by the peer's id
        # Ids of peers for which too much waits, by one limit or the other; for the core.
        self.over: Final[list[int]] = []

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
        """The id of the peer for which most waits, frames that have begun left out; 0: nothing waits but those."""
        most = 0
        largest = 0
        for peer_id, queue in self.queues.items():
            waiting_bytes = queue.waiting_bytes
            if waiting_bytes > most:
                most = waiting_bytes
                largest = peer_id
        return largest

    def find_fullest(self) -> int:
        """The id of the peer for which most is held, the frame that has begun included; 0: nothing is."""
        return max(self.queues, key=lambda each: self.queues[each].held_bytes, default=0)


class Waiting:
    """One frame: its bytes are `head` and then `body`, its length before it not included."""

    __slots__ = ("body", "head", "next")

    def __init__(self, head: bytes, body: bytes) -> None:
        self.head: Final = head  # at least the frame's header
        self.body: Final = body  # content of a large frame, shared with others; else empty
        self.next: Waiting | None = None  # of its lane

    @property
    def cost(self) -> int:
        """Bytes of memory."""
        return len(self.head) + len(self.body) + WAITING_COST


class Lane:
    """The frames of one stream, the first of them and the last: a deque for each would cost 600 bytes."""

    __slots__ = ("first", "held_bytes", "last", "stream_id")

    def __init__(self, stream_id: int) -> None:
        self.stream_id: Final = stream_id  # or PUSHES
        self.first: Waiting | None = None  # None: dropped
        self.last: Waiting | None = None
        self.held_bytes = LANE_COST  # with the cost of each

    def put(self, waiting: Waiting) -> None:
        """A frame goes to the end."""
        if self.last is not None:
            self.last.next = waiting
        else:
            self.first = waiting
        self.last = waiting
        self.held_bytes += waiting.cost

    def take(self) -> Waiting | None:
        """The first frame leaves."""
        waiting = self.first
        if waiting is not None:
            self.first = waiting.next
            if self.first is None:
                self.last = None
            self.held_bytes -= waiting.cost
        return waiting


class Outbound:
    """What waits for one peer."""

    def __init__(self, peer_id: int, is_framed: bool, total: Total) -> None:
        self._peer_id: Final = peer_id
        self._is_framed: Final = is_framed
        self._total: Final = total
        self._control: Final[deque[Waiting]] = deque()  # stream 0
        self._lanes: Final[dict[int, Lane]] = {}  # by stream id or PUSHES; bounded by bytes, LANE_COST included
        self._turns: deque[Lane] = deque()  # whose turn it is; a lane without a frame was dropped, MAX_STALE of them
        # A heap of (-bytes, stream id) from the first time that somebody looks for the largest lane; empty before. A
        # lane has an entry with at least what it holds, others are out of date; MAX_STALE of them and some.
        self._largest: list[tuple[int, int]] = []
        self._begun: Waiting | None = None  # a large frame of which a part was handed out
        self._at = 0  # of its body: where the rest begins
        self.wire_bytes = 0  # as they will be written, lengths included
        self.held_bytes = 0  # with WAITING_COST for each frame and LANE_COST for each lane

    @property
    def waiting_bytes(self) -> int:
        """Of `held_bytes`, what can still be dropped or is the broker's own: all but a frame that has begun."""
        begun = self._begun
        return self.held_bytes if begun is None else self.held_bytes - len(begun.body) + self._at

    @property
    def has_begun(self) -> bool:
        """A part of a frame was handed out, and not the rest."""
        return self._begun is not None

    def put(self, stream_id: int, head: bytes, body: bytes) -> None:
        """A frame goes to the end of its stream's."""
        waiting = Waiting(head, body)
        size = len(head) + len(body)
        cost = size + WAITING_COST
        if not self.held_bytes:
            self._total.queues[self._peer_id] = self
        self.wire_bytes += size + 3 if self._is_framed else size
        if not stream_id:
            self._control.append(waiting)
        else:
            lane = self._lanes.get(stream_id)
            if lane is None:
                lane = self._lanes[stream_id] = Lane(stream_id)
                self._turns.append(lane)
                cost += LANE_COST
            lane.put(waiting)
            if self._largest:
                self._note_grown(lane)
        self.held_bytes += cost
        self._total.add(cost)

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
                self._gave(size, size + WAITING_COST)
                room_bytes -= size
                continue
            small.append(size.to_bytes(3, "big"))
            small.append(waiting.head)
            head_bytes = len(waiting.head)
            self._gave(head_bytes + 3, head_bytes + WAITING_COST)
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
            self._gave(len(raw) + 3 if self._is_framed else len(raw), len(raw) + WAITING_COST)
            room_bytes -= len(raw)
        return frames

    def is_over(self, limit_bytes: int) -> bool:
        """More waits than that. One frame alone may be larger, and one that has begun does not count."""
        if self.waiting_bytes <= limit_bytes:
            return False
        if self._control or len(self._lanes) != 1:
            return True
        for lane in self._lanes.values():
            return lane.first is not lane.last
        return False

    def find_largest(self) -> int:
        """The lane, a stream's or PUSHES, of which most waits; 0: none but stream 0 has any."""
        heap = self._largest
        if not heap:
            heap = [(-lane.held_bytes, stream_id) for stream_id, lane in self._lanes.items()]
            heapify(heap)
            self._largest = heap
        while heap:
            held_bytes, stream_id = heap[0]
            lane = self._lanes.get(stream_id)
            if lane is None:
                heappop(heap)
            elif lane.held_bytes == -held_bytes:
                return stream_id
            else:
                heapreplace(heap, (-lane.held_bytes, stream_id))
        return 0

    def held_of(self, stream_id: int) -> int:
        """What waits of a lane, with what it costs."""
        lane = self._lanes.get(stream_id)
        return lane.held_bytes if lane is not None else 0

    def first_kind(self, stream_id: int) -> int:
        """The type of the first frame of that stream that waits; 0: none does."""
        lane = self._lanes.get(stream_id)
        first = lane.first if lane is not None else None
        return first.head[4] >> 2 if first is not None else 0

    def drop(self, stream_id: int) -> int:
        """Forgets what waits of a stream, but for a frame that has begun; how many bytes that frees."""
        lane = self._lanes.pop(stream_id, None)
        if lane is None:
            return 0
        waiting = lane.first
        while waiting is not None:
            self.wire_bytes -= self._wire_bytes_of(waiting)
            waiting = waiting.next
        lane.first = None  # its turn will come and nothing be there
        lane.last = None
        if len(self._turns) > 2 * len(self._lanes) + MAX_STALE:
            self._turns = deque([each for each in self._turns if each.first is not None])
        self._free(lane.held_bytes)
        return lane.held_bytes

    def drop_push(self) -> None:
        """Forgets the METADATA_PUSH that has waited longest."""
        lane = self._lanes.get(PUSHES)
        if lane is None:
            return
        if lane.first is lane.last:
            self.drop(PUSHES)
            return
        waiting = lane.take()
        assert waiting is not None  # or the lane would not be there
        self._gave(self._wire_bytes_of(waiting), waiting.cost)

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
            waiting = lane.take()
            if waiting is None:
                continue  # dropped
            if lane.first is not None:
                self._turns.append(lane)
            else:
                del self._lanes[lane.stream_id]
                self._free(LANE_COST)
            return waiting
        return None

    def _wire_bytes_of(self, waiting: Waiting) -> int:
        size = len(waiting.head) + len(waiting.body)
        return size + 3 if self._is_framed else size

    def _gave(self, wire_bytes: int, held_bytes: int) -> None:
        self.wire_bytes -= wire_bytes
        self._free(held_bytes)

    def _free(self, held_bytes: int) -> None:
        self.held_bytes -= held_bytes
        self._total.used_bytes -= held_bytes
        if not self.held_bytes:
            self._largest = []
            self._total.queues.pop(self._peer_id, None)

    def _note_grown(self, lane: Lane) -> None:
        if len(self._largest) > 2 * len(self._lanes) + MAX_STALE:
            self._largest = []  # it is made anew when somebody asks
        else:
            heappush(self._largest, (-lane.held_bytes, lane.stream_id))
