"""Frames that are not in the log yet: while the folder cannot be written they wait in memory, up to a bound.

Beyond it the newest are dropped; as soon as there is room one EventsDropped event tells how many records are missing.
Knows no file.
"""

from collections import deque
from typing import Final, NamedTuple

import msgspec

from broker.events import Gap, LifecycleEvent
from spark_sink.event_files.batches import FrameRows
from spark_sink.event_files.frames import decode_rows

SECONDS_PER_HOUR: Final = 3600


class BufferedFrame(NamedTuple):
    """A frame that came, and what is in it."""

    number: int
    frame: bytes
    records: int  # of the broker; 0: the writer itself tells something
    rows: FrameRows
    wall_s: float  # seconds since the epoch when it came

    @property
    def hour(self) -> int:
        """Wall clock hours since the epoch when it came."""
        return int(self.wall_s // SECONDS_PER_HOUR)


def frame_of(event: LifecycleEvent, number: int, wall_s: float) -> BufferedFrame:
    """Of an event of the writer itself; `number`: of the last frame that it stands for, 0: for none."""
    frame = msgspec.msgpack.encode([event.row()])
    return BufferedFrame(number, frame, 0, FrameRows(decode_rows(frame), {}), wall_s)


class FrameBuffer:
    """In the order in which they came."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes: Final = max_bytes
        self.frames: Final[deque[BufferedFrame]] = deque()
        self.bytes = 0  # of the frames
        self.gap = _no_gap()  # behind the frames, since the bound was reached
        self._gap_number = 0  # of the last frame in it

    def add(self, frame: BufferedFrame) -> None:
        """It is the newest. While a gap is open everything is dropped, so that one event tells one gap."""
        if self.gap.records == 0 and self.bytes + len(frame.frame) <= self._max_bytes:
            self.frames.append(frame)
            self.bytes += len(frame.frame)
            return
        self.gap.add(frame.records, frame.rows.requests, frame.rows.first_seq, frame.rows.last_seq)
        self._gap_number = frame.number

    def remove_oldest(self) -> None:
        """It is in the log."""
        self.bytes -= len(self.frames.popleft().frame)

    def told_gap(self, wall_s: float) -> BufferedFrame:
        """The event of the gap; it takes the place, and the number, of the last frame that was dropped."""
        return frame_of(self.gap.told(int(wall_s * 1000)), self._gap_number, wall_s)

    def close_gap(self) -> None:
        """It is in the log."""
        self.gap = _no_gap()

    def flow_numbers(self) -> set[int]:
        """That the frames name."""
        return {number for frame in self.frames for number in frame.rows.flow_numbers}


def _no_gap() -> Gap:
    return Gap("folder-unwritable", "did not fit into memory while the events folder could not be written")
