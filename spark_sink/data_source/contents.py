"""What is in a segment or a log, for one source: which rows of its stream, and the rows themselves.

    rows of a stream and source      0 1 2 3 4 5 | 6 7 8 | 9 10 …
    files                            number 1    | 3     | 4 (a log that is being written)

A segment says in its footer, a log in its head, how many rows of each source came before it in this epoch. A log
becomes a segment with the same rows in the same order, so that a row's place in its stream never changes.
"""

from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spark_sink.data_source.stores import Store
from spark_sink.errors import BadFile, BadFrame, first_line
from spark_sink.event_files.batches import tables_of
from spark_sink.event_files.folder import EventFile
from spark_sink.event_files.footer import footer_of, why_copy
from spark_sink.event_files.wal import WalContent
from spark_sink.schema import ARROW_SCHEMAS

FOOTER_BYTES: Final = 1 << 16  # asked for at first; most footers have a tenth of it
_MAGIC: Final = b"PAR1"
_TRAILER: Final = 8  # length of the footer and the magic


class Span(NamedTuple):
    """The rows of a file, by their places in the stream."""

    first: int  # rows of this source and stream before this file
    rows: int

    @property
    def end(self) -> int:
        """The place after its last row."""
        return self.first + self.rows


def span_of(store: Store, file: EventFile, source: str) -> Span | None:
    """Which rows a file holds. None: a log whose head is not there yet. BadFile: it is none of ours, or torn.
    FileNotFoundError: it is gone; other OSError: it cannot be read."""
    if file.is_log:
        content = _log(store, file)
        if content is None:
            return None
        tables = (frame.flows if source == "flows" else frame.lifecycles for frame in content.frames)
        rows = sum(len(frame.singles) for frame in content.frames) if source == "requests" else sum(map(len, tables))
        return Span(content.head.before.rows.get(source, 0), rows)
    return _segment_span(file, _footer(store, file), source)


def table_of(store: Store, file: EventFile, source: str, span: Span) -> pa.Table:
    """The rows of a file that hold these places, with the columns of `ARROW_SCHEMAS`. Errors as above; BadFile also
    when it holds fewer."""
    if file.is_log:
        content = _log(store, file)
        table = None
        if content is not None:
            table = tables_of(content.head.header, content.frames, content.known).get(source)
            first = content.head.before.rows.get(source, 0)
    else:
        data = pa.py_buffer(store.read(file))
        try:
            opened = pq.ParquetFile(pa.BufferReader(data))
            first = _segment_span(file, opened.metadata, source).first
            table = opened.read()
        except (pa.ArrowException, OSError) as error:
            raise BadFile(f"{store.name}: {file.place} cannot be read: {first_line(error)}") from error
    if table is None or not first <= span.first <= span.end <= first + len(table):
        there = "none" if table is None else f"{first} to {first + len(table)}"
        raise BadFile(f"{store.name}: {file.place} should hold the rows {span.first} to {span.end} and holds {there}")
    schema = ARROW_SCHEMAS[source]
    try:
        return table.slice(span.first - first, span.rows).select(schema.names).cast(schema)
    except (pa.ArrowException, KeyError) as error:
        raise BadFile(f"{store.name}: {file.place} has other columns than events have: {first_line(error)}") from error


def _log(store: Store, file: EventFile) -> WalContent | None:
    """None: its head is not whole yet. A torn end is one that is being written."""
    data = store.read(file)
    try:
        content = WalContent(data)
    except BadFrame as error:
        if len(data) < 1 << 12:  # being made, or by a writer that was killed at that
            return None
        raise BadFile(f"{store.name}: {file.place} is no log: {error}") from error
    told = f"{content.head.header.broker_id}-{content.head.header.epoch}"
    if told != file.stream:
        raise BadFile(f"{store.name}: {file.place} is a log of {told}")
    return content


def _footer(store: Store, file: EventFile) -> pq.FileMetaData:
    """All that is needed of it lies at the end of a file."""
    end = store.read_end(file, FOOTER_BYTES)
    if len(end) < _TRAILER or end[-4:] != _MAGIC:
        raise BadFile(f"{store.name}: {file.place} does not end like a Parquet file: it is torn, or no segment")
    length = int.from_bytes(end[-_TRAILER:-4], "little") + _TRAILER
    if length > len(end):
        end = store.read_end(file, length)
    try:
        return pq.read_metadata(pa.BufferReader(end))
    except (pa.ArrowException, OSError) as error:
        raise BadFile(f"{store.name}: the footer of {file.place} cannot be read: {first_line(error)}") from error


def _segment_span(file: EventFile, footer: pq.FileMetaData, source: str) -> Span:
    said = dict.fromkeys(("source", "broker_id", "epoch", "first_row"), "") | footer_of(footer.metadata)
    if (said["source"], f"{said['broker_id']}-{said['epoch']}") != (source, file.stream):
        raise BadFile(
            f"{file.place} is a Parquet file that no writer of events has made, or not under this name: it says source "
            f"{said['source']!r}, broker {said['broker_id']!r}, epoch {said['epoch']!r}"
        )
    if why := why_copy(said, file.number):
        raise BadFile(f"{file.place}: {why}")
    if not said["first_row"].isdigit():
        raise BadFile(f"{file.place} does not say which rows it has: a version of the writer before schema 3 made it")
    return Span(int(said["first_row"]), footer.num_rows)
