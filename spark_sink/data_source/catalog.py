"""Which rows of each stream can be read now, in which files they are, and the rows themselves.

Keeps what it has learnt of files, which do not change; a log, which grows, is read again when it is longer. Whoever
asks for rows that are not there any more gets LostRows, or a sentence, as the options say.

A writer seals its segments in order, so what is missing in its folder is gone. A mirror gets them in any order: what is
missing there may come, and is waited for until what is behind it has been there for GAP_S.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa

from spark_sink.data_source.options import Offsets
from spark_sink.data_source.stores import Store
from spark_sink.errors import BadFile, LostRows, first_line
from spark_sink.event_files.folder import LOG, EventFile, Listing
from spark_sink.event_files.store import LogFile, SegmentFile
from spark_sink.event_files.wal import HEADLESS_BYTES

GAP_S: Final = 3600.0  # that rows of a mirror may come later than those behind them: all its tries take 43 minutes
ARCHIVE_S: Final = 60.0  # how often the archive is looked through, when nothing is missing that may be there
MAX_KNOWN: Final = 200_000  # files whose rows are remembered; a day of segments of a second twice over
MAX_TOLD: Final = 1000  # files that were named as unreadable; beyond it they are forgotten, and named again
MAX_TRIES: Final = 5  # to find out while files are moved
THREADS_N: Final = 8  # that read footers side by side: over a network each is a round trip
FOOTER_BYTES: Final = 1 << 16  # asked for at first; most footers have a tenth of it
_MAGIC: Final = b"PAR1"
_TRAILER: Final = 8  # length of the footer and the magic


_Answer = TypeVar("_Answer")


class Piece(NamedTuple):
    """Rows of one file."""

    file: EventFile
    span: range  # places in the stream


class Catalog:
    """The streams of one source in one store."""

    def __init__(self, store: Store, source: str, say: Callable[[str], None], *, fails_on_loss: bool) -> None:
        """`say` takes sentences for people."""
        self._store: Final = store
        self._source: Final = source
        self._say: Final = say
        self._fails: Final = fails_on_loss
        self._listing = Listing()  # with the archive as of the last look into it
        self._look_at = 0.0  # monotonic; when to look into the archive again
        # By stream and number: the size of a log, -1 of a segment, and the rows; None: a log has no head yet.
        self._spans: Final[dict[tuple[str, int], tuple[int, range | None]]] = {}
        self._arrivals: Final[dict[tuple[str, int], float]] = {}  # at a mirror, by stream and number: epoch seconds
        self._told: Final[set[str]] = set()  # places of files, and gaps, that were named
        self._is_stale = False  # a file was not where it should be: sealed, archived or removed since we looked

    @property
    def streams(self) -> list[str]:
        """All that have a file, in the order of their names."""
        return self._listing.streams(self._source, LOG)

    def refresh(self, *, has_archive: bool = False) -> None:
        """Look again. `has_archive`: also into the archive now. BadFolder, OSError: it cannot be done."""
        now = time.monotonic()
        has_archive = has_archive or now >= self._look_at
        listing = self._store.list(self._source, has_archive=has_archive)
        if has_archive:
            self._look_at = now + ARCHIVE_S
        else:
            listing.add_archive(self._listing)
        self._listing = listing
        for place in listing.foreign:
            self._tell(place, f"{self._store.name}: {place} is no event file and is passed over")

    def ends(self) -> Offsets:
        """The place after the last row of each stream."""
        return self._settled(lambda: self._outermost(is_last=True))

    def ends_behind(self, start: Offsets) -> Offsets:
        """The same for who has read up to `start`: before rows that are missing and may come."""
        if not self._store.is_mirror():
            return self.ends()
        return self._settled(
            lambda: {
                stream: end for stream in self.streams if (end := self._end_behind(stream, start.get(stream, 0))) > 0
            }
        )

    def firsts(self) -> Offsets:
        """The place of the first row that is there, of each stream."""
        return self._settled(lambda: self._outermost(is_last=False))

    def settled_firsts(self) -> Offsets:
        """The same of streams whose first row is known: none before it may come."""
        firsts = self.firsts()
        if not self._store.is_mirror():
            return firsts
        return {stream: first for stream, first in firsts.items() if first == 0 or not self._may_come(stream, first)}

    def last_number(self, stream: str, end: int) -> int:
        """The number up to which all segments of a stream are read when the places before `end` are; 0: none is."""
        numbers = self._listing.numbers(stream, self._source)
        place = self._first_beyond(stream, numbers, end)
        return numbers[place - 1] if place else 0

    def pieces(self, start: Offsets, end: Offsets) -> list[Piece]:
        """The files that hold the rows between two offsets. LostRows: some are not there any more."""
        if self._look_at == 0.0:  # after a restart of the query
            self.refresh()
        for has_looked in (False, True):
            found = self._settled(
                lambda: [
                    (stream, *self._pieces_of(stream, start.get(stream, 0), end[stream])) for stream in sorted(end)
                ]
            )
            if has_looked or not any(lost for _, _, lost in found):
                break
            self.refresh(has_archive=True)  # it may have been archived since we looked there
        for stream, _, lost in found:
            for span in lost:
                if span.start == 0 and start.get(stream, 0) == 0 and self._store.is_mirror():
                    self._say(f"{self._source} of {stream}: {self._store.name} begins with the row {span.stop}")
                else:
                    self.lost(stream, span)
        return [piece for _, pieces, _ in found for piece in pieces]

    def lost(self, stream: str, span: range, why: str = "") -> None:
        """Rows are not there any more. LostRows, unless the options say that it is enough to say it."""
        cause = why or "they were removed before they were read, or their files cannot be read"
        sentence = (
            f"{self._source} of {stream}: the {len(span)} rows {span.start} to {span.stop - 1} are not in "
            f"{self._store.name} any more: {cause}"
        )
        if self._fails:
            raise LostRows(f"{sentence}. With failOnDataLoss=false reading continues after them")
        self._say(f"{sentence}; reading continues after them")

    def rows(self, piece: Piece) -> pa.Table | None:
        """With the columns of `ARROW_SCHEMAS`. None: they are lost, which is said. LostRows, OSError."""
        stream, number = piece.file.stream, piece.file.number
        file: EventFile | None = piece.file
        why = ""
        for _ in range(MAX_TRIES):
            if file is None:
                break
            try:
                return self._rows_of(file, piece.span)
            except FileNotFoundError:
                self.refresh(has_archive=True)  # it was sealed or archived since it was planned
                file = self._find(stream, number)
            except BadFile as error:
                why = f"{file.place}: {error}"
                break
        self.lost(stream, piece.span, why)
        return None

    def _find(self, stream: str, number: int) -> EventFile | None:
        """Where a file is now, a segment rather than its log; None: nowhere."""
        listing = self._listing
        return listing.find(stream, self._source, number) or listing.find(stream, LOG, number)

    def _settled(self, ask: Callable[[], _Answer]) -> _Answer:
        """The answer, asked again when files went away while it was found."""
        for _ in range(MAX_TRIES):
            self._is_stale = False
            answer = ask()
            if not self._is_stale:
                break
            self.refresh(has_archive=True)
        return answer

    def _outermost(self, *, is_last: bool) -> Offsets:
        found = {}
        for stream in self.streams:
            numbers = self._listing.numbers(stream, self._source, LOG)
            spans = (self._span(stream, number) for number in (reversed(numbers) if is_last else numbers))
            span = next((span for span in spans if span is not None), None)
            if span is not None:
                found[stream] = span.stop if is_last else span.start
        return found

    def _end_behind(self, stream: str, start: int) -> int:
        """Up to where there is no gap behind `start` in which rows may come."""
        place = start
        for file, span in self._from(stream, start):
            if span.start > place and self._may_come(stream, place):
                missing = f"{self._source} of {stream}: the rows {place} to {span.start - 1}"
                self._tell(
                    f"{file.place} {place}", f"{missing} are not in {self._store.name} yet, those behind them are"
                )
                break
            place = max(place, span.stop)
        return place

    def _may_come(self, stream: str, place: int) -> bool:
        """May rows that are missing from this place on come to a mirror? All that is behind them has come lately."""
        numbers = self._listing.numbers(stream, self._source, LOG)
        oldest = time.time() - GAP_S
        behind = numbers[self._first_beyond(stream, numbers, place) :]
        return all(self._arrival(stream, number) > oldest for number in behind)

    def _arrival(self, stream: str, number: int) -> float:
        """When a segment came, epoch seconds."""
        key, file = (stream, number), self._find(stream, number)
        if key not in self._arrivals and file is not None:
            try:
                arrived_at = self._store.arrived_at(file)
            except FileNotFoundError:
                self._is_stale = True
                return time.time()
            if len(self._arrivals) >= MAX_KNOWN:
                self._arrivals.pop(next(iter(self._arrivals)))
            self._arrivals[key] = arrived_at
        return self._arrivals.get(key, 0.0)

    def _pieces_of(self, stream: str, start: int, end: int) -> tuple[list[Piece], list[range]]:
        """Rows that are there, and those that are not."""
        pieces, lost, place = [], [], start
        for file, span in self._from(stream, start) if start < end else ():
            if span.start >= end:
                break
            if span.start > place:
                lost.append(range(place, span.start))
            first, last = max(place, span.start), min(span.stop, end)
            if last > first:
                pieces.append(Piece(file, range(first, last)))
                place = last
        if place < end:
            lost.append(range(place, end))
        return pieces, lost

    def _from(self, stream: str, start: int) -> Iterator[tuple[EventFile, range]]:
        """Files from the one on that holds the place `start`, in their order."""
        numbers = self._listing.numbers(stream, self._source, LOG)
        for at in range(self._first_beyond(stream, numbers, start), len(numbers), 16 * THREADS_N):
            some = numbers[at : at + 16 * THREADS_N]
            unknown = [number for number in some if (stream, number) not in self._spans]
            if len(unknown) > 1:
                with ThreadPoolExecutor(THREADS_N) as pool:
                    list(pool.map(lambda number: self._span(stream, number), unknown))
            for number in some:
                file, span = self._find(stream, number), self._span(stream, number)
                if file is not None and span is not None:
                    yield file, span

    def _first_beyond(self, stream: str, numbers: Sequence[int], place: int) -> int:
        """How many files, from the first on, end at `place` or before. Halving: a look at few of many footers."""

        def end_of(at: int) -> int:
            """Of one that cannot be read: the end of the one before it."""
            spans = (self._span(stream, numbers[at]) for at in range(at, -1, -1))
            return next((span.stop for span in spans if span is not None), 0)

        return bisect_right(range(len(numbers)), place, key=end_of)

    def _span(self, stream: str, number: int) -> range | None:
        """Rows of a file; None: there are none to read yet, it is gone, or it is none of ours, which is said."""
        key, file = (stream, number), self._find(stream, number)
        if file is None:
            return None
        try:
            size = self._store.size(file) if file.is_log else -1
            if key not in self._spans or self._spans[key][0] != size:
                found = self._opened(file, is_whole=False)
                if len(self._spans) >= MAX_KNOWN:
                    self._spans.pop(next(iter(self._spans)))
                self._spans[key] = size, found.span(self._source) if found is not None else None
            return self._spans[key][1]
        except FileNotFoundError:
            self._is_stale = True
        except BadFile as error:
            self._tell(file.place, f"{self._store.name}: {file.place} is passed over: {error}")
        return None

    def _rows_of(self, file: EventFile, wanted: range) -> pa.Table:
        """The rows at these places. FileNotFoundError: it is gone. BadFile: it is none of ours, or holds fewer."""
        found = self._opened(file, is_whole=True)
        span = found.span(self._source) if found is not None else range(0)
        if found is None or not span.start <= wanted.start <= wanted.stop <= span.stop:
            there = f"{span.start} to {span.stop}" if span else "none"
            raise BadFile(f"it should hold the rows {wanted.start} to {wanted.stop} and holds {there}")
        try:
            return found.rows(self._source).slice(wanted.start - span.start, len(wanted))
        except pa.ArrowException as error:
            raise BadFile(f"it has other columns than events have: {first_line(error)}") from error

    def _opened(self, file: EventFile, *, is_whole: bool) -> SegmentFile | LogFile | None:
        """None: a log whose head is not whole yet; a torn end is one that is being written. `is_whole`: its rows are
        wanted. Errors as of `_rows_of`."""
        if file.is_log:
            data = self._store.read(file)
            try:
                return LogFile(data, file)
            except BadFile:
                if len(data) < HEADLESS_BYTES:
                    return None
                raise
        data = self._store.read(file, None if is_whole else FOOTER_BYTES)
        if not is_whole and data[-4:] == _MAGIC:
            length = int.from_bytes(data[-_TRAILER:-4], "little") + _TRAILER
            if length > len(data):
                data = self._store.read(file, length)
        return SegmentFile(pa.BufferReader(data), file)

    def _tell(self, place: str, sentence: str) -> None:
        if place not in self._told:
            if len(self._told) >= MAX_TOLD:
                self._told.clear()
            self._told.add(place)
            self._say(sentence)
