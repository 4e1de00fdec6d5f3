"""Whether a file is a segment that can be read, and what is wrong with another one, in a sentence.

The footer decides: without it a file is torn, with a foreign one it is foreign. It also tells the numbers and moments
of the records, so that nobody has to read them for that. Knows the bytes of one file, and nothing of folders.
"""

import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from broker.events import BROKER_DIED, BROKER_STOPPED
from spark_sink.errors import first_line
from spark_sink.event_files.footer import footer_of
from spark_sink.event_files.layout import is_segment, parts_of
from spark_sink.event_files.renamed import name_in, renamed
from spark_sink.schema import ARROW_SCHEMAS, COLUMNS, FLOWS, LIFECYCLES, REQUESTS, SCHEMA_VERSION

_ORIGIN: Final = ("broker_id", "broker_name", "epoch", "seq", "event_time")
# Without them a record is none, and belongs into no table or day.
NEEDED: Final = {FLOWS: (*_ORIGIN, "started_at", "requests"), LIFECYCLES: (*_ORIGIN, "kind"), REQUESTS: _ORIGIN}
_TEXTS: Final = [field.name for field in ARROW_SCHEMAS[REQUESTS] if field.type == pa.string()]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class GoodFile(msgspec.Struct, tag=True):
    """A segment, as its footer describes it."""

    file: str  # the whole name
    source: str
    rows: int
    broker_id: str
    broker_name: str
    epoch: int
    columns: int  # checksum of their names
    is_exact: bool  # it has the columns that this program writes
    first_seq: int
    last_seq: int
    first_at: datetime
    last_at: datetime
    changed_s: float = 0.0  # wall time
    ends: list[tuple[str, int, int, int]] = []  # of runs, BrokerStopped or BrokerDied: broker, epoch, kind, seq

    @property
    def name(self) -> str:
        """Without its folder."""
        return PurePosixPath(self.file).name

    @property
    def is_linked(self) -> bool:
        """It has the columns of the table and records of one day, so the file itself becomes one of the table."""
        return self.source == REQUESTS and self.is_exact and self.first_at.date() == self.last_at.date()


class BadFile(msgspec.Struct, tag=True):
    """A file that is passed over."""

    file: str
    why: str  # a sentence without its subject


def read(file: str, content: pa.Buffer) -> tuple[GoodFile, pa.Table] | BadFile:
    """What the footer of a file says, which lies in the folder of its source, and its rows. `file`: the whole name.

    The rows have the columns of the source, those that an older writer did not know without values."""
    path = PurePosixPath(file)
    source = path.parent.name
    if not is_segment(path.name):
        return BadFile(file, "its name is not <broker>-<epoch>-<number>.parquet, so it is no segment of a broker")
    try:
        parquet = pq.ParquetFile(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        return BadFile(file, f"it is torn, or no Parquet file: {first_line(error)}")
    try:
        why = _foreign(parquet, source)
        if why:
            return BadFile(file, why)
        good = _good(file, source, parquet)
    except (KeyError, ValueError, OverflowError, pa.ArrowException, msgspec.MsgspecError) as error:
        return BadFile(file, f"its footer is not that of a segment: {first_line(error)}")
    if parts_of(path.name)[0] != f"{good.broker_id}-{good.epoch}":
        return BadFile(file, f"its footer says that it is of the broker {good.broker_id} and epoch {good.epoch}")
    try:
        return good, _rows_of(good, parquet, content)
    except (pa.ArrowException, OSError) as error:
        return BadFile(file, f"its footer is good and its content is not: {first_line(error)}")


def _rows_of(file: GoodFile, parquet: Any, content: pa.Buffer) -> pa.Table:
    if file.is_exact and file.source == REQUESTS:  # names repeat: as numbers of a dictionary they take half the time
        parquet = pq.ParquetFile(pa.BufferReader(content), metadata=parquet.metadata, read_dictionary=_TEXTS)
    rows = parquet.read(use_threads=False)
    if file.is_exact:
        return rows
    rows, schema = renamed(rows), ARROW_SCHEMAS[file.source]
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)


def ends_of(events: pa.Table) -> list[tuple[str, int, int, int]]:
    """`GoodFile.ends` of lifecycle events."""
    wanted = pa.compute.is_in(events["kind"], pa.array([BROKER_STOPPED, BROKER_DIED], pa.int64()))
    rows = events.filter(wanted).select(["broker_id", "epoch", "kind", "seq"]).to_pylist()
    return [tuple(row.values()) for row in rows]


def source_of(file: str, root: str) -> str:
    """The source in whose folder a file lies; empty: it lies somewhere else. `root`: of the events folder."""
    path = PurePosixPath(file)
    source = path.parent.name
    return source if source in COLUMNS and str(path.parent) == str(PurePosixPath(f"{root}/{source}")) else ""


def _good(file: str, source: str, parquet: Any) -> GoodFile:
    """ValueError: the footer does not say what that of a segment says."""
    metadata = parquet.metadata
    told = footer_of(metadata.metadata, "strict")
    for name in NEEDED[source]:
        _check_nothing_missing(metadata, name)
    first_seq, last_seq = _bounds(metadata, "seq", 0)
    first_at, last_at = _bounds(metadata, "event_time", _EPOCH)
    return GoodFile(
        file=file,
        source=source,
        rows=metadata.num_rows,
        broker_id=told["broker_id"],
        broker_name=told["broker_name"],
        epoch=int(told["epoch"]),
        columns=zlib.crc32(" ".join(metadata.schema.names).encode()),
        is_exact=parquet.schema_arrow.equals(ARROW_SCHEMAS[source]),
        first_seq=first_seq,
        last_seq=last_seq,
        first_at=first_at,
        last_at=last_at,
    )


def _foreign(parquet: Any, source: str) -> str:
    """What in the footer is not that of a segment; empty: nothing."""
    told = footer_of(parquet.metadata.metadata, "strict")
    version = int(told.get("schema_version", "0"))
    if version == 0:
        return "its footer does not say rsocket_broker.schema_version: no broker wrote it"
    if version > SCHEMA_VERSION:
        return f"it is of schema version {version} and this program knows {SCHEMA_VERSION}: install a newer one"
    if told.get("source", "") != source:
        return f"its footer says that it is of {told.get('source', '')!r}"
    schema = parquet.schema_arrow
    for field in ARROW_SCHEMAS[source]:
        place = schema.get_field_index(name_in(schema.names, field.name))
        if place < 0 and field.name in NEEDED[source]:
            return f"it has no column {field.name}"
        if place >= 0 and not _is_same(schema.field(place).type, field.type):
            return f"its column {field.name} is {schema.field(place).type} and not {field.type}"
    return ""


def _is_same(told: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_map(wanted):
        return bool(pa.types.is_map(told) and told.key_type == wanted.key_type and told.item_type == wanted.item_type)
    return bool(told == wanted)


def _statistics(metadata: Any, name: str) -> Iterator[Any]:
    """What the footer says of a column, per group of rows; None: nothing."""
    stored = name_in(metadata.schema.names, name)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows > 0:
            place = [group.column(index).path_in_schema for index in range(group.num_columns)].index(stored)
            yield group.column(place).statistics


def _check_nothing_missing(metadata: Any, name: str) -> None:
    """ValueError: a row has no value in this column, or the footer does not say."""
    for statistics in _statistics(metadata, name):
        if statistics is None or not statistics.has_null_count or statistics.null_count > 0:
            raise ValueError(f"it has rows without {name}, or no statistics of it")


def _bounds(metadata: Any, name: str, none: Any) -> tuple[Any, Any]:
    """The smallest and largest value of a column, from the footer. ValueError: it does not say."""
    first, last = [], []
    for statistics in _statistics(metadata, name):
        if statistics is None or not statistics.has_min_max:
            raise ValueError(f"it has no statistics of {name}")
        first.append(statistics.min)
        last.append(statistics.max)
    return min(first, default=none), max(last, default=none)
