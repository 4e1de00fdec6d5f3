"""Columns of files and tables: a name, a kind, a meaning; from them Arrow schemas and Spark DDL.

There are few kinds on purpose. Every number is a bigint, because a reader with a wider type than the file is the one
change of a schema that Spark does not forgive. A histogram is two lists of equal length rather than a list of structs:
Spark zips them, DuckDB unnests both, and pandas gives two arrays to calculate with.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

TEXT: Final = "string"
BIGINT: Final = "bigint"
TIME: Final = "timestamp"
TAGS: Final = "map<string,string>"
BIGINTS: Final = "array<bigint>"

# kind -> Arrow type; the kind itself is Spark's spelling of the type
ARROW_TYPES: Final = {
    TEXT: pa.string(),
    BIGINT: pa.int64(),
    TIME: pa.timestamp("us", "UTC"),  # microseconds: Spark refuses nanoseconds
    TAGS: pa.map_(pa.string(), pa.string()),
    BIGINTS: pa.list_(pa.int64()),
}


class Column(NamedTuple):
    """One column."""

    name: str
    kind: str  # one of the constants above
    meaning: str  # for the document


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of these columns, in their order."""
    return pa.schema([pa.field(column.name, ARROW_TYPES[column.kind]) for column in columns])


def spark_ddl(columns: Sequence[Column]) -> str:
    """The same as a DDL text, which `DataFrameReader.schema` takes: `broker_id string, epoch bigint, …`."""
    return ", ".join(f"{column.name} {column.kind}" for column in columns)


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with the columns of the schema; one that is not there becomes nothing in each row."""
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)
