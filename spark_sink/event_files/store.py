"""One file of records: what its footer says, and the columns that are asked for. It is a segment, a file of a table, or
the part of a log that has no segment yet.

A file that cannot be read raises BadFile; whoever asked names it and goes on without.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_sink.columns import ARROW_TYPES, TIME
from spark_sink.errors import BadFile, BadFrame, first_line
from spark_sink.event_files.batches import tables_of
from spark_sink.event_files.folder import EventFile
from spark_sink.event_files.footer import footer_of, why_copy
from spark_sink.event_files.layout import check_file, open_file
from spark_sink.event_files.wal import WalContent
from spark_sink.schema import SCHEMA_VERSION

TIMES: Final = ("at", "seen_at")


class RecordFile:
    """Rows of one source. Use as a context; `facts` are of the whole file."""

    def range_of(self, name: str) -> tuple[Any, Any] | None:
        """The smallest and the largest value of a column, times in microseconds; None: it has no values."""
        raise NotImplementedError

    def read(self, names: Sequence[str]) -> pa.Table:
        """These columns of all rows."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is asked any more."""


class ParquetRecords(RecordFile):
    """A Parquet file."""

    def __init__(self, path: Path, says: Mapping[str, str], number: int = 0) -> None:
        """`says`: what its footer must say. `number`: of the segment that it should be; 0: any. FileNotFoundError: it
        is gone. BadFile: it is none, or not that one."""
        check_file(path)
        try:
            self._file: Final = pq.ParquetFile(path)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadFile(f"it is no whole Parquet file ({first_line(error)})") from error
        footer = footer_of(self._file.metadata.metadata)
        self.broker_name: Final = footer.get("broker_name", "")
        wrong = _wrong_in(footer, says) or why_copy(footer, number)
        if wrong:
            self._file.close()
            raise BadFile(wrong)

    def range_of(self, name: str) -> tuple[Any, Any] | None:
        """From the statistics in the footer, or from the column where there are none."""
        metadata = self._file.metadata
        places = [place for place in range(metadata.num_columns) if metadata.schema.column(place).path == name]
        if not places:
            raise BadFile(f"it has no column {name}")
        low: Any = None
        high: Any = None
        for group in range(metadata.num_row_groups):
            column = metadata.row_group(group).column(places[0])
            told = column.statistics
            if told is None or not told.has_min_max or column.physical_type != "INT64":
                return self._computed_range(name)
            low = told.min_raw if low is None else min(low, told.min_raw)
            high = told.max_raw if high is None else max(high, told.max_raw)
        return None if low is None else (low, high)

    def _computed_range(self, name: str) -> tuple[Any, Any] | None:
        column = self.read([name])[name]
        if len(column) == column.null_count:
            return None
        if name in TIMES:
            times = micros(column.drop_null())
            return int(times.min()), int(times.max())
        found = pa.compute.min_max(column)
        return found["min"].as_py(), found["max"].as_py()

    def read(self, names: Sequence[str]) -> pa.Table:
        """One thread: files are small."""
        try:
            table = self._file.read(columns=list(names), use_threads=False)
            if table.num_columns != len(names):
                raise BadFile(f"it has only the columns {', '.join(table.schema.names) or 'of others'}")
            return table
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadFile(f"it cannot be read ({first_line(error)})") from error

    def close(self) -> None:
        """Of the file."""
        self._file.close()


class LogRecords(RecordFile):
    """A source in a log that has no segments yet."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows: Final = rows

    def range_of(self, name: str) -> tuple[Any, Any] | None:
        """Of the rows."""
        column = self._rows[name]
        if name in TIMES:
            column = column.cast(ARROW_TYPES[TIME]).cast(pa.int64())
        found = pa.compute.min_max(column)
        return None if found["min"].as_py() is None else (found["min"].as_py(), found["max"].as_py())

    def read(self, names: Sequence[str]) -> pa.Table:
        """Of the rows."""
        return self._rows.select(list(names))


class LogContent:
    """What a log tells that no segment has been made of yet."""

    __slots__ = ("broker_name", "sources")

    def __init__(self, path: Path, stream: str) -> None:
        """FileNotFoundError: it is gone. BadFile: it is no log, or no file, or of another broker than its name says."""
        with open_file(path) as opened:
            data = opened.read()
        try:
            content = WalContent(data)
        except BadFrame as error:
            raise BadFile(f"{error}") from error
        header = content.head.header
        if stream != f"{header.broker_id}-{header.epoch}":
            raise BadFile(f"it is a log of {header.broker_id}, epoch {header.epoch}")
        self.broker_name: Final = header.broker_name
        self.sources: Final[dict[str, pa.Table]] = tables_of(header, content.frames, content.known)


def copies_among(events: Path, files: Iterable[EventFile]) -> dict[Path, str]:
    """Segments under another number than their footers say, and why not to read each. A copy has the size of another
    one of its stream, so only those are looked into."""
    of_size: dict[tuple[str, str, int], list[EventFile]] = {}
    for file in files:
        with contextlib.suppress(OSError):  # it is gone
            if not file.is_log:
                of_size.setdefault((file.stream, file.source, (events / file.place).stat().st_size), []).append(file)
    copies = {}
    for file in [file for same in of_size.values() if len(same) > 1 for file in same]:
        with contextlib.suppress(OSError, pa.ArrowException):  # whoever reads it says so
            why = why_copy(footer_of(pq.read_metadata(events / file.place).metadata), file.number)
            if why:
                copies[events / file.place] = why
    return copies


def micros(column: Any) -> Any:
    """A column of times as an int64 array, microseconds since the epoch."""
    return column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()


def _wrong_in(footer: Mapping[str, str], says: Mapping[str, str]) -> str:
    """What is wrong with a footer that must say this; empty: nothing."""
    for key, value in says.items():
        found = footer.get(key, "nothing")
        if found != value:
            return f"its footer says {found!r} as {key} and not {value!r}"
    version = footer.get("schema_version", "0")
    if not version.isdecimal() or int(version) > SCHEMA_VERSION:
        return f"it is of schema version {version}, this program reads up to {SCHEMA_VERSION}"
    return ""
