"""Which rows of each stream can be read now, and in which files they are.

Keeps what it has learnt of files, which do not change; a log, which grows, is read again when it is longer. Whoever
asks for rows that are not there any more gets LostRows, or a sentence, as the options say.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

from spark_sink.data_source.contents import span_of
from spark_sink.data_source.options import Offsets
from spark_sink.data_source.stores import Store
from spark_sink.errors import BadFile, LostRows
from spark_sink.event_files.folder import LOG, EventFile, Listing
from spark_sink.event_files.store import Span

ARCHIVE_S: Final = 60.0  # how often the archive is looked through, when nothing is missing that may be there
MAX_KNOWN: Final = 200_000  # files whose rows are remembered; a day of segments of a second twice over
MAX_TOLD: Final = 1000  # files that were named as unreadable; beyond it they are forgotten, and named again
MAX_TRIES: Final = 5  # to find out while files are moved
THREADS_N: Final = 8  # that read footers side by side: over a network each is a round trip


_Answer = TypeVar("_Answer")


class Piece(NamedTuple):
    """Rows of one file."""

    file: EventFile
    span: Span  # places in the stream


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
        self._spans: Final[dict[tuple[str, int], Span]] = {}  # of segments
        self._logs: dict[tuple[str, int], tuple[int, Span | None]] = {}  # of logs: size, rows
        self._told: Final[set[str]] = set()  # places of files that were named
        self._is_stale = False  # a file was not where it should be: sealed, archived or removed since we looked

    @property
    def streams(self) -> list[str]:
        """All that have a file, in the order of their names."""
        return self._listing.streams(self._source, LOG)

    @property
    def is_new(self) -> bool:
        """Has it never looked?"""
        return self._look_at == 0.0

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
        self._logs = {key: value for key, value in self._logs.items() if listing.find(key[0], LOG, key[1]) is not None}

    def ends(self) -> Offsets:
        """The place after the last row of each stream."""
        return self._settled(lambda: self._outermost(is_last=True))

    def firsts(self) -> Offsets:
        """The place of the first row that is there, of each stream."""
        return self._settled(lambda: self._outermost(is_last=False))

    def last_number(self, stream: str, end: int) -> int:
        """The number up to which all segments of a stream are read when the places before `end` are; 0: none is."""
        numbers = self._listing.numbers(stream, self._source)
        place = self._first_beyond(stream, numbers, end)
        return numbers[place - 1] if place else 0

    def pieces(self, start: Offsets, end: Offsets) -> list[Piece]:
        """The files that hold the rows between two offsets. LostRows: some are not there any more."""
        found = self._settled(lambda: self._pieces_of_all(start, end))
        if any(lost for _, lost in found):  # or it was archived since we looked there
            self.refresh(has_archive=True)
            found = self._settled(lambda: self._pieces_of_all(start, end))
        pieces: list[Piece] = []
        for stream, (some, lost) in zip(sorted(end), found, strict=True):
            for span in lost:
                self.lost(stream, span)
            pieces += some
        return pieces

    def lost(self, stream: str, span: Span, why: str = "") -> None:
        """Rows are not there any more. LostRows, unless the options say that it is enough to say it."""
        cause = why or "they were removed before they were read, or their files cannot be read"
        sentence = (
            f"{self._source} of {stream}: the {span.rows} rows {span.first} to {span.end - 1} are not in "
            f"{self._store.name} any more: {cause}"
        )
        if self._fails:
            raise LostRows(f"{sentence}. With failOnDataLoss=false reading continues after them")
        self._say(f"{sentence}; reading continues after them")

    def find(self, stream: str, number: int) -> EventFile | None:
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
                found[stream] = span.end if is_last else span.first
        return found

    def _pieces_of_all(self, start: Offsets, end: Offsets) -> list[tuple[list[Piece], list[Span]]]:
        return [self._pieces_of(stream, start.get(stream, 0), end[stream]) for stream in sorted(end)]

    def _pieces_of(self, stream: str, start: int, end: int) -> tuple[list[Piece], list[Span]]:
        """Rows that are there, and those that are not."""
        pieces, lost, place = [], [], start
        if start >= end:
            return [], []
        for file, span in self._from(stream, start):
            if span.first >= end:
                break
            if span.first > place:
                lost.append(Span(place, span.first - place))
            first, last = max(place, span.first), min(span.end, end)
            if last > first:
                pieces.append(Piece(file, Span(first, last - first)))
                place = last
        if place < end:
            lost.append(Span(place, end - place))
        return pieces, lost

    def _from(self, stream: str, start: int) -> Iterator[tuple[EventFile, Span]]:
        """Files from the one on that holds the place `start`, in their order."""
        numbers = self._listing.numbers(stream, self._source, LOG)
        for at in range(self._first_beyond(stream, numbers, start), len(numbers), 16 * THREADS_N):
            some = numbers[at : at + 16 * THREADS_N]
            self._learn(stream, some)
            for number in some:
                file, span = self.find(stream, number), self._span(stream, number)
                if file is not None and span is not None:
                    yield file, span

    def _first_beyond(self, stream: str, numbers: Sequence[int], place: int) -> int:
        """How many files, from the first on, end at `place` or before. Halving: a look at few of many footers."""
        low, high = 0, len(numbers)
        while low < high:
            middle = (low + high) // 2
            at, span = middle, self._span(stream, numbers[middle])
            while span is None and at > low:  # it cannot be read: the one before it decides
                at -= 1
                span = self._span(stream, numbers[at])
            if span is not None and span.end > place:
                high = at
            else:
                low = middle + 1
        return low

    def _learn(self, stream: str, numbers: Sequence[int]) -> None:
        """Read what is not known of them, side by side."""
        unknown = [number for number in numbers if (stream, number) not in self._spans]
        if len(unknown) > 1:
            with ThreadPoolExecutor(THREADS_N) as pool:
                list(pool.map(lambda number: self._span(stream, number), unknown))

    def _span(self, stream: str, number: int) -> Span | None:
        """Rows of a file; None: there are none to read yet, it is gone, or it is none of ours, which is said."""
        key, file = (stream, number), self.find(stream, number)
        if file is None:
            return None
        if key in self._spans and not file.is_log:
            return self._spans[key]
        try:
            if file.is_log:
                size = self._store.size(file)
                if key not in self._logs or self._logs[key][0] != size:
                    self._logs[key] = (size, span_of(self._store, file, self._source))
                return self._logs[key][1]
            span = span_of(self._store, file, self._source)
        except FileNotFoundError:
            self._is_stale = True
            return None
        except BadFile as error:
            self._tell(file.place, f"{self._store.name}: {file.place} is passed over: {error}")
            return None
        assert span is not None  # only a log may have no head
        if len(self._spans) >= MAX_KNOWN:
            self._spans.pop(next(iter(self._spans)))
        self._spans[key] = span
        return span

    def _tell(self, place: str, sentence: str) -> None:
        if place not in self._told:
            if len(self._told) >= MAX_TOLD:
                self._told.clear()
            self._told.add(place)
            self._say(sentence)
