"""What is in a file of a store, for one source: which rows of its stream, and the rows themselves."""

from typing import Final

import pyarrow as pa

from spark_sink.data_source.stores import Store
from spark_sink.errors import BadFile, first_line
from spark_sink.event_files.folder import EventFile
from spark_sink.event_files.store import LogFile, SegmentFile, Span
from spark_sink.event_files.wal import HEADLESS_BYTES
from spark_sink.schema import ARROW_SCHEMAS

FOOTER_BYTES: Final = 1 << 16  # asked for at first; most footers have a tenth of it
_MAGIC: Final = b"PAR1"
_TRAILER: Final = 8  # length of the footer and the magic


def span_of(store: Store, file: EventFile, source: str) -> Span | None:
    """Which rows a file holds. None: a log whose head is not there yet. BadFile: it is none of ours, or torn.
    FileNotFoundError: it is gone; other OSError: it cannot be read."""
    if file.is_log:
        log = _log(store, file)
        return log.span(source) if log is not None else None
    return SegmentFile(pa.BufferReader(_footer_bytes(store, file)), file).span


def table_of(store: Store, file: EventFile, source: str, span: Span) -> pa.Table:
    """The rows of a file that hold these places, with the columns of `ARROW_SCHEMAS`. Errors as above; BadFile also
    when it holds fewer."""
    schema = ARROW_SCHEMAS[source]
    table = None
    if not file.is_log:
        segment = SegmentFile(pa.BufferReader(store.read(file)), file)
        first, table = segment.span.first, segment.read(schema.names)
    elif (log := _log(store, file)) is not None:
        first, table = log.span(source).first, log.tables.get(source)
    if table is None or not first <= span.first <= span.end <= first + len(table):
        there = "none" if table is None else f"{first} to {first + len(table)}"
        raise BadFile(f"it should hold the rows {span.first} to {span.end} and holds {there}")
    try:
        return table.slice(span.first - first, span.rows).select(schema.names).cast(schema)
    except pa.ArrowException as error:
        raise BadFile(f"it has other columns than events have: {first_line(error)}") from error


def _log(store: Store, file: EventFile) -> LogFile | None:
    """None: its head is not whole yet. A torn end is one that is being written."""
    data = store.read(file)
    try:
        return LogFile(data, file)
    except BadFile:
        if len(data) < HEADLESS_BYTES:
            return None
        raise


def _footer_bytes(store: Store, file: EventFile) -> bytes:
    """All that is needed of it lies at the end of a file."""
    end = store.read_end(file, FOOTER_BYTES)
    if len(end) >= _TRAILER and end[-4:] == _MAGIC:
        length = int.from_bytes(end[-_TRAILER:-4], "little") + _TRAILER
        if length > len(end):
            end = store.read_end(file, length)
    return end
