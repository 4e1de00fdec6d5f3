"""What is in one file of events: which rows of its stream, and the columns that are asked for.

    rows of a stream and source      0 1 2 3 4 5 | 6 7 8 | 9 10 …
    files                            number 1    | 3     | 4 (a log that has no segments yet)

A segment says in its footer, a log in its head, how many rows of each source came before it in this epoch. A log
becomes segments with the same rows in the same order, so that a row's place in its stream never changes.

A file that cannot be read raises BadFile, a sentence without its subject; whoever asked names it and goes on without.
"""

import contextlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_sink.errors import BadFile, BadFrame, first_line
from spark_sink.event_files.batches import tables_of
from spark_sink.event_files.folder import EventFile, Listing
from spark_sink.event_files.footer import footer_of, why_copy, why_other
from spark_sink.event_files.layout import check_file, open_file
from spark_sink.event_files.renamed import name_in
from spark_sink.event_files.wal import WalContent
from spark_sink.schema import ARROW_SCHEMAS


class SegmentFile:
    """A segment."""

    def __init__(self, data: Path | pa.BufferReader, file: EventFile) -> None:
        """`data`: where it is, or its bytes; those of its end are enough for what its footer says. FileNotFoundError:
        it is gone. BadFile: it is none, or not the one that it is called."""
        self.file: Final = file
        if isinstance(data, Path):
            check_file(data)
        try:
            self._parquet: Final = pq.ParquetFile(data)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadFile(f"it is no whole Parquet file ({first_line(error)})") from error
        self._footer: Final = footer_of(self._parquet.metadata.metadata)
        if why := why_other(self._footer, file):
            self.close()
            raise BadFile(why)

    @property
    def broker_name(self) -> str:
        """As its footer says it."""
        return self._footer.get("broker_name", "")

    def span(self, _source: str) -> range:
        """Which rows it has, by their places in the stream. BadFile: it does not say."""
        first_row = self._footer.get("first_row", "")
        if not first_row.isdigit():
            raise BadFile("it has no row numbers: a writer before schema version 3 made it")
        return range(int(first_row), int(first_row) + self._parquet.metadata.num_rows)

    @cached_property
    def _paths(self) -> list[str]:
        """Of its columns: the name, and of a list or map what is below it."""
        schema = self._parquet.metadata.schema
        return [schema.column(place).path for place in range(self._parquet.metadata.num_columns)]

    def range_of(self, name: str) -> tuple[Any, Any] | None:
        """The smallest and the largest value of a column, times in microseconds; None: it has no values. From the
        statistics in the footer, or from the column where there are none."""
        metadata, stored = self._parquet.metadata, name_in(self._paths, name)
        if stored not in self._paths:
            raise BadFile(f"it has no column {name}")
        place = self._paths.index(stored)
        columns = [metadata.row_group(group).column(place) for group in range(metadata.num_row_groups)]
        told = [column.statistics for column in columns if column.physical_type == "INT64"]
        if len(told) < len(columns) or not all(each is not None and each.has_min_max for each in told):
            return range_of(self.read([name])[name])
        return (min(each.min_raw for each in told), max(each.max_raw for each in told)) if told else None

    def read(self, names: Sequence[str]) -> pa.Table:
        """These columns of all rows. One thread: files are small."""
        stored = [name_in(self._paths, name) for name in names]
        try:
            table = self._parquet.read(columns=stored, use_threads=False)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadFile(f"it cannot be read ({first_line(error)})") from error
        missing = [name for name, there in zip(names, stored, strict=True) if there not in table.schema.names]
        if missing:
            raise BadFile(f"it has no column {', '.join(missing)}")
        return table.select(stored).rename_columns(list(names))

    def rows(self, source: str) -> pa.Table:
        """All, with the columns of `ARROW_SCHEMAS`. BadFile; ArrowException: one has another type."""
        schema = ARROW_SCHEMAS[source]
        return self.read(schema.names).cast(schema)

    def close(self) -> None:
        """Nothing is asked any more."""
        self._parquet.close()


class LogFile:
    """A log that segments have not been made of yet, up to its first torn byte."""

    def __init__(self, data: bytes, file: EventFile) -> None:
        """BadFile: it is no log, or of another broker than its name says."""
        try:
            self._content: Final = WalContent(data)
        except BadFrame as error:
            raise BadFile(f"{error}") from error
        header = self._content.head.header
        if file.stream != header.stream:
            raise BadFile(f"it is a log of {header.broker_id}, epoch {header.epoch}")
        self.broker_name: Final = header.broker_name

    def span(self, source: str) -> range:
        """Which rows of a source it has, by their places in the stream."""
        first = self._content.head.before.rows.get(source, 0)
        return range(first, first + self._content.ledger.rows.get(source, 0))

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """Source -> its rows; sources without rows are absent."""
        return tables_of(self._content.head.header, self._content.frames, self._content.known)

    def rows(self, source: str) -> pa.Table:
        """All, with the columns of `ARROW_SCHEMAS`."""
        schema = ARROW_SCHEMAS[source]
        return self.tables.get(source, schema.empty_table()).cast(schema)


def read_file(path: Path) -> bytes:
    """All of a file of ours. NoFile: it is something else. OSError."""
    with open_file(path) as opened:
        return opened.read()


def read_segments(events: Path, listing: Listing, source: str, problems: list[str]) -> pa.Table:
    """The rows of all segments of a source. What is none is passed over and named in `problems`, once."""
    tables, wrong = [ARROW_SCHEMAS[source].empty_table()], listing.problems(events)
    for file in listing.files(source):
        try:
            with contextlib.closing(SegmentFile(events / file.place, file)) as segment:
                tables.append(segment.rows(source))
        except (BadFile, OSError, pa.ArrowException) as error:
            wrong.append(f"{events / file.place} is passed over: {first_line(error)}")
    problems += [each for each in wrong if each not in problems]
    return pa.concat_tables(tables)


def copies_among(events: Path, files: Iterable[EventFile]) -> dict[Path, str]:
    """Segments under another number than their footers say, and why not to read each. A copy has the size of another
    one of its stream, so only those are looked into."""
    of_size: dict[tuple[str, str, int], list[EventFile]] = {}
    for file in files:
        with contextlib.suppress(OSError):  # it is gone
            of_size.setdefault((file.stream, file.source, (events / file.place).stat().st_size), []).append(file)
    copies = {}
    for file in [file for same in of_size.values() if len(same) > 1 for file in same]:
        with contextlib.suppress(OSError, pa.ArrowException):  # whoever reads it says so
            why = why_copy(footer_of(pq.read_metadata(events / file.place).metadata), file)
            if why:
                copies[events / file.place] = why
    return copies


def range_of(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """The smallest and the largest value, times in microseconds; None: it has no values."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    found = pc.min_max(column)
    return None if found["min"].as_py() is None else (found["min"].as_py(), found["max"].as_py())


def micros(column: Any) -> Any:
    """A column of times as an int64 array, microseconds since the epoch."""
    return column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
