"""Frames that are not in the log yet: while the folder cannot be written they wait in memory, up to a bound.

Beyond it the newest are dropped; as soon as there is room one EventsDropped event tells how many records are missing.
Knows no file.
"""

from collections import deque
from typing import Final

import msgspec

from broker.events import events_dropped
from spark_sink.event_files.batches import FrameRows
from spark_sink.event_files.frames import decode_rows

SECONDS_PER_HOUR: Final = 3600


class BufferedFrame:
    """A frame that came, and what is in it."""

    def __init__(self, number: int, frame: bytes, records: int, rows: FrameRows, wall_s: float) -> None:
        self.number: Final = number
        self.frame: Final = frame
        self.records: Final = records  # of the broker; 0: it tells a gap
        self.rows: Final = rows
        self.hour: Final = int(wall_s // SECONDS_PER_HOUR)  # wall clock hours since the epoch when it came


class Gap:
    """Records that were dropped and not told yet."""

    def __init__(self, first_seq: int) -> None:
        self.records = 0
        self.requests = 0
        self.first_seq: Final = first_seq
        self.last_seq = first_seq
        self.last_number = 0

    def add(self, dropped: BufferedFrame) -> None:
        """One more frame of them."""
        self.records += dropped.records
        self.requests += dropped.rows.requests
        self.last_seq = max(self.last_seq, dropped.rows.last_seq)
        self.last_number = dropped.number

    def told(self, wall_s: float) -> BufferedFrame:
        """One EventsDropped event in a frame; it takes the place, and the number, of the last record that it tells."""
        event = events_dropped(
            int(wall_s * 1000),
            self.records,
            self.requests,
            self.first_seq,
            self.last_seq,
            "folder-unwritable",
            "did not fit into memory while the events folder could not be written",
        )
        frame = msgspec.msgpack.encode([event.row()])
        return BufferedFrame(self.last_number, frame, 0, FrameRows(decode_rows(frame), {}), wall_s)


class FrameBuffer:
    """In the order in which they came."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes: Final = max_bytes
        self._frames: Final[deque[BufferedFrame]] = deque()
        self.bytes = 0  # of the frames
        self.gap: Gap | None = None  # behind the frames, since the bound was reached; None: nothing was dropped

    def add(self, frame: BufferedFrame) -> None:
        """It is the newest. While a gap is open everything is dropped, so that one event tells one gap."""
        if self.gap is None and self.bytes + len(frame.frame) <= self._max_bytes:
            self._frames.append(frame)
            self.bytes += len(frame.frame)
            return
        if self.gap is None:
            self.gap = Gap(frame.rows.first_seq)
        self.gap.add(frame)

    def oldest(self) -> BufferedFrame | None:
        """The one that goes into the log next."""
        return self._frames[0] if self._frames else None

    def remove_oldest(self) -> None:
        """It is in the log."""
        self.bytes -= len(self._frames.popleft().frame)

    def flow_numbers(self) -> set[int]:
        """That the frames name."""
        return {number for frame in self._frames for number in frame.rows.flow_numbers}
