"""The tables of one folder, added up by DuckDB: out of core, so that their rows are never all in memory.

Names that come from strangers are values, never text of SQL; files are parameters.
"""

import glob
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeAlias, TypeVar

from spark_sink.columns import BIGINT, BIGINTS, TAGS, TEXT, TIME
from spark_sink.errors import BadFolder, MissingPart
from spark_sink.tables import COLUMNS, RETRIES, TIMES, table_files
from spark_sink.timestamps import moment_at

MEMORY: Final = "512MB"  # of DuckDB; what needs more lies on disk
THREADS: Final = 2  # each holds a piece of a file
END_US: Final = 253_402_300_800_000_000  # the year 10000

Row: TypeAlias = tuple[Any, ...]
T = TypeVar("T")


class Record(SimpleNamespace):
    """Facts that belong together: a row of an answer, named as the columns of its query, or a few of those. The names
    are those of `--json`."""

    def pick(self, names: str) -> list[Any]:
        """The values of these, separated by spaces."""
        return [getattr(self, name) for name in names.split()]


# kind of a column -> DuckDB's type, and what the report takes of it: no text and no number is null, times are µs
_KINDS: Final = {
    TEXT: ("VARCHAR", "concat({0})"),  # of null it is empty; coalesce would look at each row, not at each name
    BIGINT: ("BIGINT", "coalesce({0}, 0)"),
    TIME: ("TIMESTAMPTZ", "epoch_us({0})"),
    TAGS: ("MAP(VARCHAR, VARCHAR)", "{0}"),
    BIGINTS: ("BIGINT[]", "{0}"),
}
_SETTINGS: Final = {
    "memory_limit": MEMORY,
    "threads": THREADS,
    "preserve_insertion_order": False,
    "enable_external_file_cache": False,  # it would hold 50 KB of each file
    "autoinstall_known_extensions": False,  # they would come from the network
    "autoload_known_extensions": False,
}


class TableReader:
    """Sums of the tables as their files were when it was made."""

    def __init__(self, tables: Path, spilled: str, *, is_mixed: bool) -> None:
        """`spilled`: a folder for what memory does not hold. `is_mixed`: columns of files differ, so the footers of all
        are read first. MissingPart: DuckDB is not installed."""
        try:
            import duckdb  # optional: the extra report
        except ImportError as error:
            raise MissingPart('the report needs duckdb: pip install "rsocket-broker[report]"') from error
        self.error: Final[type[Exception]] = duckdb.Error
        self._files: Final = {table: table_files(tables, table) for table in COLUMNS}
        self._is_mixed: Final = is_mixed
        self._views: Final[dict[Row, int]] = {}  # table, first and last day of a view -> its number
        self._table: str = ""  # that was opened last
        self._connection: Final = duckdb.connect(config=_SETTINGS | {"temp_directory": spilled})

    def close(self) -> None:
        self._connection.close()

    def days(self, table: str, first_us: int) -> list[str]:
        """Of which there are files, `date=2026-11-20`, ascending, from the day of `first_us` on."""
        return sorted({day for file in self._files[table] if (day := Path(file).parent.name) >= _day(first_us)})

    def rows_of(self, table: str, begin_us: int = 0, end_us: int = END_US) -> str:
        """A subquery: rows whose time (`TIMES`), which is there as `us`, is from `begin_us` to before `end_us`. Other
        days are not opened."""
        view = self._view(table, _day(begin_us), _day(end_us - 1))
        columns = [f"{_KINDS[one.kind][1].format(one.name)} AS {one.name}" for one in COLUMNS[table]]
        time = TIMES[table]
        return (
            f"(SELECT epoch_us({time}) AS us, {', '.join(columns)} FROM {view} "
            f"WHERE {time} >= make_timestamptz({begin_us}) AND {time} < make_timestamptz({end_us}))"
        )

    def _view(self, table: str, first: str, last: str) -> str:
        """The columns of the table, of its files of these days; those that a file lacks are null."""
        self._table = table
        known = table, first, last
        if known not in self._views:
            self._views[known] = number = len(self._views)
            types = ", ".join(f"{one.name} {_KINDS[one.kind][0]}" for one in COLUMNS[table])
            self._connection.execute(f"CREATE TEMP TABLE empty_{number} ({types})")
            # The first file says which columns there are: another that lacks one is an error, unless they are mixed.
            paths = [glob.escape(file) for file in self._files[table] if first <= Path(file).parent.name <= last]
            more = ""
            if paths:
                read = self._connection.read_parquet(paths, hive_partitioning=False, union_by_name=self._is_mixed)
                if not self._is_mixed and not {one.name for one in COLUMNS[table]} <= set(read.columns):
                    read = self._connection.read_parquet(paths, hive_partitioning=False, union_by_name=True)
                read.create_view(f"files_{number}")
                more = f" UNION ALL BY NAME SELECT * FROM files_{number}"
            self._connection.execute(f"CREATE TEMP VIEW rows_{number} AS SELECT * FROM empty_{number}{more}")
        return f"rows_{self._views[known]}"

    def make(self, name: str, query: str, values: Sequence[Any] = ()) -> None:
        """Keeps the answer as a table of this name. `values`: of the query's `?`."""
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}", values)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Row]:
        """A short answer."""
        return self._connection.execute(query, values).fetchall()  # type: ignore[no-any-return]

    def records(self, query: str, values: Sequence[Any] = ()) -> list[Record]:
        """The same with the names of its columns, also within lists of structs."""
        answer = self._connection.execute(query, values)
        names = [column[0] for column in answer.description]
        return [Record(**dict(zip(names, map(_named, row), strict=True))) for row in answer.fetchall()]

    def ranked(self, query: str, values: Sequence[Any] = ()) -> tuple[list[Record], int]:
        """The first records of many, and how many there are: the query's column `total`, which is not kept."""
        records = self.records(query, values)
        return records, max((vars(record).pop("total") for record in records), default=0)

    def top(self, name: str, keys: str, source: str, limit: int, more: str = "", values: Sequence[Any] = ()) -> Record:
        """The groups with the most requests that are not 0, equals by key: keys, requests and `more`, named sums; how
        many groups there are, and the requests of all. The rows are kept as a table of this name, with their `place`,
        0, 1, 2 …"""
        order = f"requests DESC, {keys}"
        self.make(
            name,
            f"SELECT *, row_number() OVER (ORDER BY {order}) - 1 AS place FROM ("
            "SELECT *, count(*) OVER () AS total, (sum(requests) OVER ())::BIGINT AS of_all FROM ("
            f"SELECT {keys}, sum(requests)::BIGINT AS requests{more} FROM {source} GROUP BY {keys}) "
            f"WHERE requests > 0 ORDER BY {order} LIMIT {limit})",
            values,
        )
        rows, count = self.ranked(f"SELECT * EXCLUDE place FROM {name} ORDER BY place")
        requests = max((vars(row).pop("of_all") for row in rows), default=0)
        return Record(rows=rows, count=count, requests=requests)

    def has_lost_files(self) -> bool:
        """Compaction has replaced some since the beginning."""
        return any(not Path(file).exists() for files in self._files.values() for file in files)

    def blamed(self, reason: str) -> str:
        """The table that an error speaks of."""
        named = (table for table, files in self._files.items() if any(file in reason for file in files))
        return next(named, self._table)


def read_tables(tables: Path, read: Callable[[TableReader], T]) -> T:
    """What `read` makes of them; it is called anew when compaction has replaced files meanwhile. BadFolder: a file
    cannot be read as its table, or they vanish again and again."""
    is_mixed, reason = False, ""
    for _ in range(RETRIES):
        with tempfile.TemporaryDirectory(prefix="report-", ignore_cleanup_errors=True) as spilled:
            reader = TableReader(tables, spilled, is_mixed=is_mixed)
            try:
                return read(reader)
            except reader.error as error:
                reason = " ".join(str(error).split())
                if not reader.has_lost_files():
                    if is_mixed:
                        table = reader.blamed(reason)
                        text = f"a file of the table {table} in {tables} cannot be read: {reason}"
                        raise BadFolder(text) from error
                    is_mixed = True
            finally:
                reader.close()
    raise BadFolder(f"files of the tables in {tables} vanish while they are read: {reason}")


def _day(us: int) -> str:
    """The name of its folder."""
    return f"date={moment_at(us):%Y-%m-%d}"


def _named(value: Any) -> Any:
    """Structs of DuckDB as records."""
    if isinstance(value, list):
        return list(map(_named, value))
    return Record(**value) if isinstance(value, dict) else value
