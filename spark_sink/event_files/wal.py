"""The log that frames are written to as they come, before they are segments: what a killed writer leaves behind.

    <events>/_tmp/<broker>-<epoch>-<number>.wal        becomes the segments of the same number

     0                   1                   2                   3
    +---------------------------------------------------------------+
    |  "RSBW"                                                       |
    |  length of the payload, u32 big-endian                        |
    |  crc32 of all that follows, u32                               |
    |  number of the frame on the pipe, u64; 0: not from the pipe   |
    |  records of the broker in it, u32                             |
    +---------------------------------------------------------------+
    |  payload: of the first frame a WalHead, of every other rows   |
    +---------------------------------------------------------------+

A log stands alone: its head says who writes and what came before, and a flow is defined in it before its first use. A
reader goes up to the first byte that is no whole good frame; what follows is torn. Who writes a log holds a lock on it,
so that nobody else takes it for one that was left behind.
"""

import struct
import zlib
from typing import Any, Final

import msgspec

from broker.events import BROKER_DIED, BROKER_STOPPED, EVENTS_DROPPED
from spark_sink.errors import BadFrame
from spark_sink.event_files.batches import FrameRows
from spark_sink.event_files.frames import Header, decode_rows
from spark_sink.schema import FILES, FLOWS, LIFECYCLES, MESSAGES, REQUESTS

HEADLESS_BYTES: Final = 1 << 12  # a log that is smaller and has no whole head never had a record
ENDS: Final = (BROKER_STOPPED, BROKER_DIED)  # one of them is the last event of a run

_HEAD: Final = struct.Struct(">4sIIQI")
_MAGIC: Final = b"RSBW"
_COVERED_FROM: Final = 12  # the checksum is over what follows it


class Ledger(msgspec.Struct, frozen=True):
    """Counts since the broker's epoch began; each log begins with those of all logs before it."""

    frames: int = 0  # the highest number of a frame that is kept, or told as dropped
    records: int = 0  # kept
    requests: int = 0  # that these records count
    seq: int = 0  # the highest sequence number
    dropped: int = 0  # records that are told as dropped
    dropped_requests: int = 0
    is_over: bool = False  # it ended with BrokerStopped or BrokerDied
    rows: dict[str, int] = {}  # kept, of each source: how many lines its segments have

    def __add__(self, later: "Ledger") -> "Ledger":
        """With what came after it."""
        return Ledger(
            max(self.frames, later.frames),
            self.records + later.records,
            self.requests + later.requests,
            max(self.seq, later.seq),
            self.dropped + later.dropped,
            self.dropped_requests + later.dropped_requests,
            self.is_over or later.is_over,
            {name: self.rows.get(name, 0) + later.rows.get(name, 0) for name in {**self.rows, **later.rows}},
        )


class WalHead(msgspec.Struct):
    """The first frame of a log: who writes, and what came before it."""

    header: Header
    before: Ledger


class WalContent:
    """What a log holds up to its first torn byte."""

    def __init__(self, data: bytes) -> None:
        """BadFrame: not even its head is whole."""
        self.known: Final[dict[int, Any]] = {}  # definitions by flow number
        self.frames: Final[list[FrameRows]] = []
        self.ledger = Ledger()  # of this log alone
        first = _frame_at(data, 0)
        if first is None:
            raise BadFrame(f"of {len(data)} bytes the first are no head of a log")
        try:
            self.head: Final = msgspec.msgpack.decode(first[2], type=WalHead)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadFrame(f"the head of a log cannot be read: {error}") from error
        place = first[3]
        while (frame := _frame_at(data, place)) is not None:
            number, _, payload, end = frame
            try:
                rows = FrameRows(decode_rows(payload), self.known)
            except BadFrame:
                break  # of another version: from here on nothing is sure
            self.frames.append(rows)
            self.ledger += ledger_of(number, frame[1], rows)
            place = end
        self.torn_bytes: Final = len(data) - place


def ledger_of(number: int, records: int, rows: FrameRows) -> Ledger:
    """What a frame adds to the counts. One that is not of the broker (`records` is 0) tells a gap or that the broker
    died, or defines flows."""
    lines = {FLOWS: len(rows.flows), LIFECYCLES: len(rows.lifecycles), REQUESTS: len(rows.singles)}
    lines |= {MESSAGES: len(rows.messages), FILES: len(rows.files)}
    is_over = any(row.kind in ENDS for row in rows.lifecycles)
    if records:
        return Ledger(number, records - rows.lost, rows.requests, rows.last_seq, rows.lost, 0, is_over, lines)
    gaps = [row for row in rows.lifecycles if row.kind == EVENTS_DROPPED]
    dropped, requests = sum(int(dict(row.tags)["records"]) for row in gaps), sum(row.requests for row in gaps)
    return Ledger(number, 0, 0, rows.last_seq, dropped, requests, is_over, lines)


def encode_wal_frame(number: int, records: int, payload: bytes) -> bytes:
    """The bytes of a frame of the log."""
    head = _HEAD.pack(_MAGIC, len(payload), 0, number, records)
    crc = zlib.crc32(payload, zlib.crc32(head[_COVERED_FROM:]))
    return _HEAD.pack(_MAGIC, len(payload), crc, number, records) + payload


def _frame_at(data: bytes, place: int) -> tuple[int, int, bytes, int] | None:
    """Number, records, payload and end of the frame that begins there; None: no whole good one does."""
    begin = place + _HEAD.size
    if len(data) < begin:
        return None
    magic, length, crc, number, records = _HEAD.unpack_from(data, place)
    end = begin + length
    if magic != _MAGIC or len(data) < end or zlib.crc32(data[place + _COVERED_FROM : end]) != crc:
        return None
    return number, records, data[begin:end], end
