"""The tables that the pipeline makes of events: their columns, where their files lie, and reading them without Spark.

    <tables>/<table>/date=2026-11-20/<source>-<batch>.parquet      one file per table, day and batch of the pipeline
    <tables>/_checkpoints/<source>/                                 what the pipeline has read; belongs to the tables

Rows of `traffic` and `callers` are partials: sums over what one batch saw of a minute, so that the same minute can
stand in many files. Whoever reads adds them up: counts and sums with +, maxima with max, histograms bucket by bucket.
A record that comes late is just one more partial, and brokers merge like batches do.
"""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds

from spark_sink.columns import TIME, Column, arrow_schema
from spark_sink.errors import BadFolder
from spark_sink.events import FLOW_COLUMNS, FLOWS, LIFECYCLE_COLUMNS, LIFECYCLES, ORIGIN_COLUMNS

TRAFFIC: Final = "traffic"
CALLERS: Final = "callers"
LIFECYCLE: Final = "lifecycle"
CHECKPOINTS: Final = "_checkpoints"

# Outcomes that the service or the broker is to blame for; a request that its caller gave up is no failure.
FAILED_OUTCOMES: Final = ("error", "rejected", "route_lost")

_FLOW: Final = {column.name: column for column in FLOW_COLUMNS}
_MINUTE: Final = Column("minute", TIME, "begin of the minute in which the flow's interval began")
_SUMS: Final = ("requests", "items_in", "items_out", "bytes_in", "bytes_out", "latency_sum_us")

_TRAFFIC_KEYS: Final = (
    _MINUTE,
    *ORIGIN_COLUMNS[:2],
    *(_FLOW[name] for name in ("service", "model", "routing", "outcome", "word")),
)
_CALLER_KEYS: Final = (
    _MINUTE,
    *ORIGIN_COLUMNS[:2],
    *(_FLOW[name] for name in ("caller_service", "caller_route", "service", "model", "outcome", "word")),
)


class Partial:
    """A table of partials: rows of flow records grouped by keys, with sums, a maximum and perhaps a histogram."""

    __slots__ = ("has_histogram", "keys", "name")

    def __init__(self, name: str, keys: tuple[Column, ...], has_histogram: bool) -> None:
        self.name: Final = name
        self.keys: Final = keys
        self.has_histogram: Final = has_histogram

    @property
    def columns(self) -> tuple[Column, ...]:
        """Keys first."""
        histogram = (_FLOW["latency_buckets"], _FLOW["latency_counts"]) if self.has_histogram else ()
        return (*self.keys, *(_FLOW[name] for name in _SUMS), _FLOW["latency_max_us"], *histogram)


PARTIALS: Final = (Partial(TRAFFIC, _TRAFFIC_KEYS, True), Partial(CALLERS, _CALLER_KEYS, False))
SUM_COLUMNS: Final = _SUMS
MAX_COLUMN: Final = "latency_max_us"

# table -> the source it is made of, its columns, the time that its day is taken from
SOURCES: Final = {TRAFFIC: FLOWS, CALLERS: FLOWS, LIFECYCLE: LIFECYCLES}
COLUMNS: Final[dict[str, tuple[Column, ...]]] = {partial.name: partial.columns for partial in PARTIALS} | {
    LIFECYCLE: LIFECYCLE_COLUMNS
}
TIMES: Final = {TRAFFIC: "minute", CALLERS: "minute", LIFECYCLE: "at"}


def table_schema(table: str) -> pa.Schema:
    """Columns of the table's files."""
    return arrow_schema(COLUMNS[table])


def date_folder(tables: Path, table: str, date: str) -> Path:
    """Where the files of one day lie; `date` is "2026-11-20"."""
    return tables / table / f"date={date}"


def has_tables(tables: Path) -> bool:
    """There is a file of a table below this folder."""
    return any(next((tables / table).glob("date=*/[!._]*.parquet"), None) is not None for table in COLUMNS)


def read_table(tables: Path, table: str) -> pa.Table:
    """All rows of a table, partials as they are; empty when the pipeline has made none. BadFolder: a file of it cannot
    be read as this table."""
    files = sorted(str(path) for path in (tables / table).glob("date=*/[!._]*.parquet"))
    schema = table_schema(table)
    if not files:
        return schema.empty_table()
    try:
        return ds.dataset(files, schema=schema, format="parquet").to_table()
    except (pa.ArrowException, OSError) as error:
        raise BadFolder(f"a file of the table {table} in {tables} cannot be read: {error}") from error
