"""Rows of a table as the bytes of its files, one for each day."""

import pyarrow as pa
import pyarrow.compute as pc

from spark_sink.columns import fitted
from spark_sink.event_files.batches import parquet_bytes
from spark_sink.schema import SCHEMA_VERSION
from spark_sink.tables import table_schema


def table_bytes(table: str, rows: pa.Table) -> memoryview:
    """The file of these rows. Columns in any order; one that is not there becomes nothing in each row."""
    rows = fitted(rows, table_schema(table))
    return parquet_bytes(rows, {"schema_version": str(SCHEMA_VERSION), "table": table})


def by_day(rows: pa.Table, time: str) -> dict[str, pa.Table]:
    """Day ("2026-11-20") -> its rows, in the order of the days; no rows have none. `time`: the column that decides."""
    days = pc.strftime(rows[time], "%Y-%m-%d")
    names = sorted(pc.unique(days).to_pylist())
    return {day: rows if len(names) == 1 else rows.filter(pc.equal(days, day)) for day in names}
