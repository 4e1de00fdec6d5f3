"""Columns that had another name in segments up to schema version 3: `at` and `order` are words of SQL.

Every reader of segments asks for the new names. With pyarrow it finds a column by `name_in`, or renames all of them
(`renamed`); Spark reads both names of each such column (`spark_rows`), because one query reads files of all versions.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

import pyarrow as pa

from spark_sink.columns import Column, spark_ddl

OLD_NAMES: Final = {"event_time": "at", "choice": "order"}  # new name -> old name
_NEW_NAMES: Final = {old: new for new, old in OLD_NAMES.items()}


def name_in(names: Collection[str], name: str) -> str:
    """The name of this column in a segment that has the columns `names`."""
    old = OLD_NAMES.get(name, name)
    return old if old in names and name not in names else name


def renamed(segment: pa.Table) -> pa.Table:
    """The same rows under the new names."""
    return segment.rename_columns([_NEW_NAMES.get(name, name) for name in segment.schema.names])


def spark_rows(reader: Any, columns: Sequence[Column], paths: Sequence[str]) -> Any:
    """The rows of segments, as a DataFrame with these columns. `reader`: a DataFrameReader with all options but the
    schema."""
    old = [Column(OLD_NAMES[each.name], each.kind, each.meaning) for each in columns if each.name in OLD_NAMES]
    wanted = [
        f"coalesce({each.name}, `{OLD_NAMES[each.name]}`) AS {each.name}" if each.name in OLD_NAMES else each.name
        for each in columns
    ]
    return reader.schema(spark_ddl([*columns, *old])).parquet(*paths).selectExpr(*wanted)
