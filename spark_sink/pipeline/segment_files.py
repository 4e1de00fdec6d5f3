"""Which files of a batch are segments that can be read, and what is wrong with the others, in a sentence.

The footer decides: without it a file is torn, with a foreign one it is foreign. It also tells the numbers and moments
of the records, so that nobody has to read them for that.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_sink.errors import NoFile, first_line
from spark_sink.event_files.footer import footer_of
from spark_sink.event_files.layout import ARCHIVE, is_segment, parts_of
from spark_sink.event_files.renamed import name_in
from spark_sink.pipeline.filesystems import FileSystem
from spark_sink.pipeline.source_log import Found
from spark_sink.schema import ARROW_SCHEMAS, COLUMNS, FLOWS, LIFECYCLES, REQUESTS, SCHEMA_VERSION

_ORIGIN: Final = ("broker_id", "broker_name", "epoch", "seq", "event_time")
# Without them a record is none, and belongs into no table or day.
NEEDED: Final = {FLOWS: (*_ORIGIN, "started_at", "requests"), LIFECYCLES: (*_ORIGIN, "kind"), REQUESTS: _ORIGIN}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class GoodFile:
    """A segment."""

    __slots__ = (
        "broker_id",
        "broker_name",
        "changed_s",
        "columns",
        "epoch",
        "file",
        "first_at",
        "first_seq",
        "is_exact",
        "last_at",
        "last_seq",
        "name",
        "rows",
        "source",
    )

    def __init__(self, found: Found, source: str, metadata: Any) -> None:
        """ValueError: the footer does not say what that of a segment says."""
        told = footer_of(metadata.metadata, "strict")
        self.file: Final = found.file
        self.name: Final = PurePosixPath(found.file).name
        self.changed_s: Final = found.changed_s
        self.source: Final = source
        self.rows: Final[int] = metadata.num_rows
        self.broker_id: Final[str] = told["broker_id"]
        self.broker_name: Final[str] = told["broker_name"]
        self.epoch: Final[int] = int(told["epoch"])
        self.columns: Final[list[str]] = metadata.schema.names
        self.is_exact: Final = metadata.schema.to_arrow_schema().equals(ARROW_SCHEMAS[source])  # no column more or less
        for name in NEEDED[source]:
            _check_nothing_missing(metadata, name)
        self.first_seq, self.last_seq = _bounds(metadata, "seq", 0)
        self.first_at, self.last_at = _bounds(metadata, "event_time", _EPOCH)


class BadFile:
    """A file that is passed over."""

    __slots__ = ("file", "why")

    def __init__(self, file: str, why: str) -> None:
        self.file: Final = file
        self.why: Final = why  # a sentence without its subject


def look_into(events: FileSystem, found: Found) -> GoodFile | BadFile:
    """What a file is. OSError: the file system does not answer; a file that is not there any more is a BadFile."""
    path = PurePosixPath(found.file)
    source = path.parent.name
    if source not in COLUMNS or str(path.parent) != str(PurePosixPath(events.file(source))):
        return BadFile(found.file, "it lies in no folder of segments: only flows, lifecycle and requests are")
    if not is_segment(path.name):
        return BadFile(found.file, "its name is not <broker>-<epoch>-<number>.parquet, so it is no segment of a broker")
    try:
        if events.exists(archived(found.file)):
            return BadFile(found.file, f"a file of this name was read before and lies in {ARCHIVE}")
        with events.open(found.file) as stream:
            metadata = pq.read_metadata(stream)
    except FileNotFoundError:
        return BadFile(
            found.file,
            "it vanished before it was read: bring it back under another number, or take its records for lost; "
            "events.keep_s and keep_bytes never remove what a pipeline has not read",
        )
    except NoFile as error:
        return BadFile(found.file, str(error))
    except (pa.ArrowException, OSError) as error:
        if is_of_disk(error):
            raise
        return BadFile(found.file, f"it is torn, or no Parquet file: {first_line(error)}")
    try:
        why = _foreign(metadata, source)
        if why:
            return BadFile(found.file, why)
        good = GoodFile(found, source, metadata)
    except (KeyError, ValueError, OverflowError, pa.ArrowException) as error:
        return BadFile(found.file, f"its footer is not that of a segment: {first_line(error)}")
    if parts_of(path.name)[0] != f"{good.broker_id}-{good.epoch}":
        return BadFile(found.file, f"its footer says that it is of the broker {good.broker_id} and epoch {good.epoch}")
    return good


def archived(file: str) -> str:
    """Where a file is put, relative to the events folder: as Spark's source does it."""
    path = file.split("://", 1)[-1]
    return f"{ARCHIVE}/{path.lstrip('/') if '://' not in file else path.split('/', 1)[-1]}"


def _foreign(metadata: Any, source: str) -> str:
    """What in the footer is not that of a segment; empty: nothing."""
    told = footer_of(metadata.metadata, "strict")
    version = int(told.get("schema_version", "0"))
    if version == 0:
        return "its footer does not say rsocket_broker.schema_version: no broker wrote it"
    if version > SCHEMA_VERSION:
        return f"it is of schema version {version} and this program knows {SCHEMA_VERSION}: install a newer one"
    if told.get("source", "") != source:
        return f"its footer says that it is of {told.get('source', '')!r}"
    schema = metadata.schema.to_arrow_schema()
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


def is_of_disk(error: Exception) -> bool:
    """The system call failed; Parquet's own complaints are OSErrors, too, but have no number."""
    return isinstance(error, OSError) and error.errno is not None
