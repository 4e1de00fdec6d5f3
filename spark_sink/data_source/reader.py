"""Reads the records of one source from event files, by offsets: all that the data source does, without Spark.

    offset   {"<broker>-<epoch>": rows, …}      so many rows of the source are read of this stream

A row's place in its stream is the same in the log and in the segment that is made of it, in the archive, and after any
restart of a writer. A broker that starts again is a new stream, read from its first row. So what was read between two
offsets is read again exactly, and nothing twice.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from spark_sink.data_source.catalog import Catalog, Piece
from spark_sink.data_source.options import EARLIEST, LATEST, Offsets, Options
from spark_sink.data_source.stores import LocalStore
from spark_sink.errors import BadOptions
from spark_sink.event_files.layout import origin_of
from spark_sink.writer.retention import Reading, declare

PART_ROWS: Final = 200_000  # of one task of Spark; some half a second
PART_FILES: Final = 200  # of one task
BATCH_ROWS: Final = 65_536  # of one Arrow batch
DECLARE_S: Final = 60.0  # how often a declared reader says that it lives


class EventReader:
    """`initial_offset` once, then `latest_offset`, `parts` and `read` again and again; `commit` what is dealt with."""

    def __init__(self, options: Options) -> None:
        """Looks at nothing yet: each task of Spark makes one."""
        self._options: Final = options
        self._store: Final = options.open_store()
        self._catalog: Final = Catalog(self._store, options.source, say, fails_on_loss=options.fails_on_loss)
        self._last: Offsets | None = None  # that was given or asked for; None: not known yet
        self._ends: Offsets = {}  # of all streams, as of the last look
        self._target: Offsets | None = None  # read up to here and end; None: go on
        self._declared_at = 0.0  # monotonic

    def __reduce__(self) -> tuple[Any, ...]:
        return EventReader, (self._options,)

    @property
    def max_records(self) -> int:
        """Of one micro-batch; 0: no bound."""
        return self._options.max_records

    @property
    def ends(self) -> Offsets:
        """What could be read at the last look."""
        return dict(self._ends)

    def initial_offset(self) -> Offsets:
        """Where a new query begins. BadFolder, OSError."""
        self._catalog.refresh(has_archive=True)
        is_latest = self._options.starting == LATEST
        start = self._catalog.ends() if is_latest else self._catalog.settled_firsts() | self._options.offsets()
        self._last = start
        self._declare(start, must=True)
        return start

    def latest_offset(self, start: Offsets | None = None, max_records: int | None = None) -> Offsets:
        """Up to where to read now. `start` None: from the offset that was handled last, if it is known; `max_records`
        None: as many as the options say, 0: all. BadFolder, OSError."""
        start = self._last if start is None else start
        self._catalog.refresh(has_archive=self._target is not None)
        if any(stream not in self._catalog.streams and not self._is_kept(stream) for stream in start or ()):
            self._catalog.refresh(has_archive=True)  # all its files may have been archived since we looked there
        self._ends = ends = self._catalog.ends() if start is None else self._catalog.ends_behind(start)
        if self._target is not None:
            ends = {stream: min(end, self._target.get(stream, 0)) for stream, end in ends.items()}
        # Never backwards: a file that cannot be seen now was read all the same.
        offset = {stream: max(end, (start or {}).get(stream, 0)) for stream, end in ends.items()}
        offset |= {
            stream: rows for stream, rows in (start or {}).items() if stream not in ends and self._is_kept(stream)
        }
        most = self._options.max_records if max_records is None else max_records
        if start is not None and most:
            offset = limited(start, offset, most)
        self._last = offset = dict(sorted(offset.items()))
        self._declare(start or {})
        return offset

    def stop_at_latest(self) -> None:
        """What comes from now on is not read."""
        self._catalog.refresh(has_archive=True)
        self._target = self._catalog.ends()

    def parts(self, start: Offsets, end: Offsets) -> list[list[Piece]]:
        """What to read between two offsets, of each task. LostRows: some are not there any more; BadFolder, OSError."""
        self._last = end
        parts: list[list[Piece]] = []
        rows = PART_ROWS
        for piece in self._catalog.pieces(start, end):
            if rows >= PART_ROWS or len(parts[-1]) >= PART_FILES:
                parts.append([])
                rows = 0
            parts[-1].append(piece)
            rows += len(piece.span)
        return parts

    def whole(self) -> list[list[Piece]]:
        """All that is there now, from where the options say. BadOptions: they say, behind all."""
        if self._options.starting == LATEST:
            raise BadOptions(f'a batch that starts at "{LATEST}" reads nothing: use "{EARLIEST}" or offsets')
        self._catalog.refresh(has_archive=True)
        start = self._catalog.firsts() | self._options.offsets()
        return self.parts(start, self.latest_offset(start, 0))

    def read(self, part: list[Piece]) -> Iterator[pa.RecordBatch]:
        """The rows, as `ARROW_SCHEMAS` of the source has them. LostRows, OSError."""
        for piece in part:
            table = self._catalog.rows(piece)
            if table is not None:
                yield from table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)

    def commit(self, end: Offsets) -> None:
        """All before this offset is dealt with."""
        self._declare(end, must=True)

    def _is_kept(self, stream: str) -> bool:
        """Does a stream without files stay in the offset? Until there is one of a later start: then it was removed."""
        return not any(origin_of(other)[1] > origin_of(stream)[1] for other in self._catalog.streams)

    def _declare(self, read: Offsets, *, must: bool = False) -> None:
        """Tell retention what is read."""
        now = time.monotonic()
        if not self._options.reader or not (must or now - self._declared_at >= DECLARE_S):
            return
        assert isinstance(self._store, LocalStore)  # options_of takes a name for nothing else
        source = self._options.source
        numbers = {
            f"{source}/{stream}": self._catalog.last_number(stream, read.get(stream, 0))
            for stream in self._catalog.streams
        }
        declare(self._store.events, self._options.reader, Reading(read=numbers, sources=(source,)))
        self._declared_at = now


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """At most so many rows between the two, of each stream as many as of any other that has so many."""
    left = most
    taken = dict(end)
    waiting = sorted(end, key=lambda stream: (end[stream] - start.get(stream, 0), stream))
    for place, stream in enumerate(waiting):
        share = left // (len(waiting) - place)
        rows = min(end[stream] - start.get(stream, 0), share)
        taken[stream] = start.get(stream, 0) + rows
        left -= rows
    return taken


def say(sentence: str) -> None:
    """For people: what Spark's drivers and workers print to standard error is in Spark's log."""
    print(f"rsocket_broker: {sentence}", file=sys.stderr, flush=True)
