"""Events in, bytes for the pipe to the writer out: what waits, what is dropped, what is sent once more.

Decides all that and knows neither clock nor file descriptor. Beyond `MAX_BACKLOG_BYTES` the newest records are dropped,
and as soon as there is room an EventsDropped event tells the gap. A frame that the pipe took is kept until the writer
has confirmed it, and given to the next writer if it never does. The definition of a flow is kept as long as the flow is
in use or a frame is here that names it; what came and went while everything was dropped leaves nothing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from broker.events import DEFINITION, FileRecord, FlowRecord, Gap, LifecycleEvent, MessageRecord

Event = LifecycleEvent | FlowRecord | MessageRecord | FileRecord
Row = tuple[object, ...]  # what `row()` of an event gives; a request is one from the beginning

MAX_BACKLOG_BYTES: Final = 64 << 20
MAX_SENT_BYTES: Final = 64 << 20  # of frames that the pipe took and the writer has not confirmed
MAX_FRAME_RECORDS: Final = 10_000  # so many are encoded at once, without waiting: some 2 MiB, 10 ms
MAX_FRAME_BYTES: Final = 8 << 20  # a larger frame is split; the writer takes 64 MiB

# What msgspec raises for a text that is no Unicode, a number beyond 64 bits, a value of a foreign type.
ENCODE_ERRORS: Final = (msgspec.MsgspecError, ValueError, OverflowError, TypeError)


@dataclass(slots=True)
class _Frame:
    """Encoded records and what is in them."""

    number: int  # 1, 2, 3 … over the frames with records; 0: definitions alone
    data: bytes
    records: int = 0
    requests: int = 0
    first_seq: int = 0
    last_seq: int = 0
    is_counted: bool = False  # among `written`


class EventBacklog:
    """Events in, bytes out; bounded. `write(data) -> int` takes some of the bytes or raises BlockingIOError."""

    def __init__(self, max_bytes: int = MAX_BACKLOG_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        self._pending: list[Event | Row] = []  # until the next encode
        self._frames: Final[deque[_Frame]] = deque()
        self._next_number = 1
        self._sent: Final[deque[_Frame]] = deque()  # taken by the pipe, not confirmed by the writer
        self._unkept: Gap | None = None  # of those, what there was no room to keep
        self._unkept_number = 0  # of the last frame among them
        # By flow number: of flows that are in use, and those that are not and that frames name which are here.
        self._definitions: Final[dict[int, Row]] = {}
        self._withheld: Final[dict[int, Row]] = {}  # of these, what came while everything was dropped: in no frame yet
        self._forgetting: Final[list[int]] = []  # flow numbers; their last rows may not be encoded yet
        self._forgotten: Final[deque[tuple[int, int]]] = deque()  # flow number, and the frame that may be its last
        self.sent_bytes = 0  # of `_sent`
        self._sent_bytes = 0  # of the first frame
        self._full: Gap | None = None  # open: everything is dropped until half of the room is free
        self._gaps: Final[list[Gap]] = []  # closed, to be told with the next encode
        self.bytes = 0  # of the frames
        self.written = 0  # records handed over whole
        self.dropped = 0

    @property
    def defined(self) -> int:
        """Flow numbers whose definitions are held, for the next writer."""
        return len(self._definitions)

    @property
    def is_empty(self) -> bool:
        """Tells that nothing waits, to be encoded or to be written."""
        return not (self._pending or self._frames or self._gaps or self._full)

    @property
    def is_done(self) -> bool:
        """Tells that all is confirmed as well."""
        return self.is_empty and not self._sent and self._unkept is None

    def append(self, records: Iterable[Event | Row]) -> bool:
        """Take events, or rows of single requests, whose flows are defined. True: so many wait that they should be
        encoded at once."""
        self._pending.extend(records)
        return len(self._pending) >= MAX_FRAME_RECORDS

    def define(self, definition: Row) -> None:
        """Takes the row that says what a flow number means, before its first use. No other flow gets the number."""
        flow = definition[1]
        assert isinstance(flow, int)  # our own row
        self._definitions[flow] = definition
        self._pending.append(definition)

    def forget(self, flow: int) -> None:
        """Forgets a flow of which no request comes any more."""
        self._forgetting.append(flow)

    @property
    def first_number(self) -> int:
        """Of the first frame with records that will be pushed."""
        return next((frame.number for frame in self._frames if frame.number), self._next_number)

    def encode(self, at_ms: int, *, last: bool = False) -> None:
        """Make frames of what was appended, or drop it when there is no room; tell gaps when there is. `last`: tell an
        open gap in any case, for nothing comes after it. `at_ms` is wall time."""
        if self._full is not None and self.bytes <= self._max_bytes // 2:
            self._close_gap(self._full)
        events, self._pending = self._pending, []
        for start in range(0, len(events), MAX_FRAME_RECORDS):
            self._encode_some(events[start : start + MAX_FRAME_RECORDS])
        for flow in self._forgetting:
            if self._withheld.pop(flow, None) is not None:
                del self._definitions[flow]  # no frame names it
            else:
                self._forgotten.append((flow, self._next_number - 1))
        self._forgetting.clear()
        if self._full is not None and last:
            self._close_gap(self._full)
        if self._gaps:
            events_of_gaps = [gap.told(at_ms) for gap in self._gaps]
            self._gaps.clear()
            self._add(framed(_rows(events_of_gaps)), events_of_gaps)

    def push(self, write: Callable[[bytes | memoryview], int]) -> bool:
        """Write frames until none is left (True) or the pipe is full (False). OSError of `write` passes through."""
        while self._frames:
            frame = self._frames[0]
            try:
                self._sent_bytes += write(memoryview(frame.data)[self._sent_bytes :])
            except BlockingIOError:
                return False
            if self._sent_bytes == len(frame.data):
                self._frames.popleft()
                self._sent_bytes = 0
                self.bytes -= len(frame.data)
                if not frame.is_counted:
                    self.written += frame.records
                    frame.is_counted = True
                if frame.number:
                    self._keep(frame)
        return True

    def confirmed(self, number: int) -> None:
        """Lets go of all frames up to this one: the writer has them where they survive it."""
        while self._sent and self._sent[0].number <= number:
            self.sent_bytes -= len(self._sent.popleft().data)
        if self._unkept is not None and self._unkept_number <= number:
            self._unkept = None
        self._let_go(number)

    def rewind(self) -> None:
        """Begins anew for another reader: it gets all definitions, then all that the old one has not confirmed."""
        self._sent_bytes = 0
        if self._unkept is not None:
            self._gaps.append(self._unkept)
            self.dropped += self._unkept.records
            self._unkept = None
        while self._sent:
            frame = self._sent.pop()
            self._frames.appendleft(frame)
            self.bytes += len(frame.data)
        self.sent_bytes = 0
        while self._frames and not self._frames[0].number:
            self.bytes -= len(self._frames.popleft().data)
        for frame in _defining(self._definitions):
            self._frames.appendleft(frame)
            self.bytes += len(frame.data)

    def _keep(self, frame: _Frame) -> None:
        self._sent.append(frame)
        self.sent_bytes += len(frame.data)
        while self.sent_bytes > MAX_SENT_BYTES:
            oldest = self._sent.popleft()
            self.sent_bytes -= len(oldest.data)
            if self._unkept is None:
                detail = "are missing: the writer ended before it had confirmed them; some may be in the files"
                self._unkept = Gap("writer-died", detail)
            self._unkept.add(oldest.records, oldest.requests, oldest.first_seq, oldest.last_seq)
            self._unkept_number = oldest.number
            self._let_go(oldest.number)

    def _let_go(self, number: int) -> None:
        """Lets go of all frames up to this one: none will be sent once more."""
        while self._forgotten and self._forgotten[0][1] <= number:
            self._definitions.pop(self._forgotten.popleft()[0], None)

    def _close_gap(self, gap: Gap) -> None:
        self._gaps.append(gap)
        self._full = None
        for frame in _defining(self._withheld):  # what comes after the gap needs them
            self._frames.append(frame)
            self.bytes += len(frame.data)
        self._withheld.clear()

    def _encode_some(self, events: Sequence[Event | Row]) -> None:
        try:
            data = framed(_rows(events))
        except ENCODE_ERRORS:
            events = self._without_strangers(events)
            data = framed(_rows(events))
        if not events:
            return
        if len(data) > MAX_FRAME_BYTES and len(events) > 1:
            half = len(events) // 2
            self._encode_some(events[:half])
            self._encode_some(events[half:])
            return
        seqs = _seqs(events) if self._full is not None or self.bytes + len(data) > self._max_bytes else []
        if self._full is None and seqs:
            detail = f"are missing: the writer does not read its pipe, and {self._max_bytes >> 20} MiB wait for it"
            self._full = Gap("backlog-full", detail)
        if self._full is None:
            self._add(data, events)
            return
        if seqs:
            self._full.add(len(seqs), _requests(events), min(seqs), max(seqs))
            self.dropped += len(seqs)
        for event in events:
            if type(event) is tuple and event[0] == DEFINITION:
                self._withheld[event[1]] = event  # type: ignore[index]  # our own row

    def _add(self, data: bytes, events: Sequence[Event | Row]) -> None:
        seqs = _seqs(events)
        number = self._next_number if seqs else 0
        if seqs:
            self._next_number += 1
        requests, first_seq, last_seq = _requests(events), min(seqs, default=0), max(seqs, default=0)
        self._frames.append(_Frame(number, data, len(seqs), requests, first_seq, last_seq))
        self.bytes += len(data)

    def _without_strangers(self, events: Sequence[Event | Row]) -> Sequence[Event | Row]:
        """Returns those that can be encoded: one that cannot must not cost the others."""
        kept = []
        for event in events:
            try:
                framed(_rows([event]))
            except ENCODE_ERRORS as error:
                for seq in _seqs([event]):  # a definition has none: the writer tells of the requests that need it
                    gap = Gap("unencodable", f"are missing: a record cannot be encoded ({type(error).__name__})")
                    gap.add(1, _requests([event]), seq, seq)
                    self._gaps.append(gap)
                    self.dropped += 1
            else:
                kept.append(event)
        return kept


def framed(value: object) -> bytes:
    """Encodes a value as it goes over the pipe: its length, then MessagePack."""
    data = msgspec.msgpack.encode(value)
    return len(data).to_bytes(4, "big") + data


def _defining(definitions: Mapping[int, Row]) -> list[_Frame]:
    """Frames of definitions alone."""
    rows = list(definitions.values())
    parts = [framed(rows[start : start + MAX_FRAME_RECORDS]) for start in range(0, len(rows), MAX_FRAME_RECORDS)]
    return [_Frame(0, part) for part in parts]


def _rows(events: Sequence[Event | Row]) -> list[Row]:
    # Most are requests: asking for the type in place saves a call for each, a tenth of a microsecond (measured).
    return [event if type(event) is tuple else event.row() for event in events]  # type: ignore[union-attr]


def _seqs(events: Sequence[Event | Row]) -> list[int]:
    """Of all but definitions, which have none."""
    return [
        event[1] if type(event) is tuple else event.seq  # type: ignore[union-attr,misc]
        for event in events
        if type(event) is not tuple or event[0] != DEFINITION
    ]


def _requests(events: Sequence[Event | Row]) -> int:
    """That the flow records among them count: a single request is in one of these, too."""
    return sum([event.requests for event in events if type(event) is FlowRecord])
