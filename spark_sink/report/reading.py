"""Rows of tables for the report: only the days, columns and rows that it needs."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from spark_sink.tables import COLUMNS, is_since, read_files, table_schema

BATCH_ROWS: Final = 1 << 17  # rows that `scan` holds at a time

NAMES: Final = pa.dictionary(pa.int32(), pa.string())

T = TypeVar("T")


class TableReader:
    """Reads the tables of one folder, from a moment on."""

    def __init__(self, tables: Path, since: datetime | None) -> None:
        self._tables: Final = tables
        self._since: Final = since  # None: all there is

    def table(self, table: str, columns: Sequence[str], where: Any = None) -> pa.Table:
        """These columns of the rows that `where` (a pyarrow expression) holds for. BadFolder: a file cannot be read."""
        only = self._only(table, where)
        return self._read(table, lambda data: data.to_table(columns=list(columns), filter=only))

    def scan(self, table: str, columns: Sequence[str], take: Callable[[Iterator[pa.Table]], T]) -> T:
        """What `take` makes of the rows, which it gets a piece at a time; for a table that may be too large to hold.
        It is called anew when files were exchanged meanwhile."""
        only = self._only(table, None)

        def pieces(data: Any) -> Iterator[pa.Table]:
            options = {"batch_size": BATCH_ROWS, "batch_readahead": 2, "fragment_readahead": 2}
            for batch in data.to_batches(columns=list(columns), filter=only, **options):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])

        return self._read(table, lambda data: take(pieces(data)))

    def _only(self, table: str, where: Any) -> Any:
        recent = is_since(table, self._since)
        return where if recent is None else recent if where is None else recent & where

    def _read(self, table: str, read: Callable[[Any], T]) -> T:
        schema = row_schema(table)

        def of_files(files: list[str]) -> T:
            return read(ds.dataset(files, schema=schema, format=_FORMAT) if files else ds.dataset(schema.empty_table()))

        return read_files(self._tables, table, self._since, of_files)


def row_schema(table: str) -> pa.Schema:
    """Of the rows that a Reader gives: texts are numbers of a dictionary, as they lie in the files, since names repeat.
    Each chunk may have a dictionary of its own."""
    schema = table_schema(table)
    return pa.schema([pa.field(one.name, NAMES if one.type == pa.string() else one.type) for one in schema])


_TEXTS: Final = {field.name for table in COLUMNS for field in table_schema(table) if field.type == pa.string()}
_FORMAT: Final = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=_TEXTS))
