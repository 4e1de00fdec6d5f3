"""Whether a file is a segment that can be read, and what is wrong with another one, in a sentence.

The footer decides: without it a file is torn, with a foreign one it is foreign. Knows the bytes of one file, and
nothing of folders.
"""

import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from broker.events import BROKER_DIED, BROKER_STOPPED
from spark_sink.columns import fitted
from spark_sink.errors import first_line
from spark_sink.event_files.footer import footer_of
from spark_sink.event_files.layout import parts_of
from spark_sink.event_files.renamed import name_in, renamed
from spark_sink.schema import ARROW_SCHEMAS, COLUMNS, FILES, FLOWS, LIFECYCLES, MESSAGES, REQUESTS, SCHEMA_VERSION

_ORIGIN: Final = ("broker_id", "broker_name", "epoch", "seq", "event_time")
# Without them a record is none, and belongs into no table or day.
NEEDED: Final = dict.fromkeys((REQUESTS, MESSAGES, FILES), _ORIGIN) | {
    FLOWS: (*_ORIGIN, "started_at", "requests"),
    LIFECYCLES: (*_ORIGIN, "kind"),
}
_TEXTS: Final = [field.name for field in ARROW_SCHEMAS[REQUESTS] if field.type == pa.string()]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class GoodFile(msgspec.Struct, tag=True):
    """A segment, as its footer and its rows describe it."""

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
    if parts_of(path.name) == ("", 0):
        return BadFile(file, "its name is not <broker>-<epoch>-<number>.parquet, so it is no segment of a broker")
    try:
        parquet = pq.ParquetFile(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        return BadFile(file, f"it is torn, or no Parquet file: {first_line(error)}")
    try:
        told = footer_of(parquet.metadata.metadata, "strict")
        why = _foreign(told, parquet.schema_arrow, source)
        if why:
            return BadFile(file, why)
        origin = told["broker_id"], told["broker_name"], int(told["epoch"])
    except (KeyError, ValueError, pa.ArrowException) as error:
        return BadFile(file, f"its footer is not that of a segment: {first_line(error)}")
    if parts_of(path.name)[0] != f"{origin[0]}-{origin[2]}":
        return BadFile(file, f"its footer says that it is of the broker {origin[0]} and epoch {origin[2]}")
    names, is_exact = parquet.schema.names, parquet.schema_arrow.equals(ARROW_SCHEMAS[source])
    try:
        rows = _rows_of(source, is_exact, parquet, content)
        for name in NEEDED[source]:
            if rows[name].null_count:
                return BadFile(file, f"it has rows without {name}")
        seqs, times = (_bounds(rows[name], none) for name, none in (("seq", 0), ("event_time", _EPOCH)))
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        return BadFile(file, f"its footer is good and its content is not: {first_line(error)}")
    columns = zlib.crc32(" ".join(names).encode())
    return GoodFile(file, source, rows.num_rows, *origin, columns, is_exact, *seqs, *times), rows


def _rows_of(source: str, is_exact: bool, parquet: Any, content: pa.Buffer) -> pa.Table:
    if is_exact and source == REQUESTS:  # names repeat: as numbers of a dictionary they take half the time
        parquet = pq.ParquetFile(pa.BufferReader(content), metadata=parquet.metadata, read_dictionary=_TEXTS)
    rows = parquet.read(use_threads=False)
    return rows if is_exact else fitted(renamed(rows), ARROW_SCHEMAS[source])


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


def _foreign(told: Mapping[str, str], schema: pa.Schema, source: str) -> str:
    """What in the footer is not that of a segment; empty: nothing. ValueError: the version is no number."""
    version = int(told.get("schema_version", "0"))
    if version == 0:
        return "its footer does not say rsocket_broker.schema_version: no broker wrote it"
    if version > SCHEMA_VERSION:
        return f"it is of schema version {version} and this program knows {SCHEMA_VERSION}: install a newer one"
    if told.get("source", "") != source:
        return f"its footer says that it is of {told.get('source', '')!r}"
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


def _bounds(column: pa.ChunkedArray, none: Any) -> tuple[Any, Any]:
    """Its smallest and largest value; twice `none` where there is no row."""
    least, largest = pa.compute.min_max(column).as_py().values()
    return (none, none) if least is None else (least, largest)
