"""The engine on Spark: a shuffle brings each part into its order, `mapInArrow` replays it where it lies.

    rows ─ mapInArrow(totals_of) ─ the driver plans
    rows ─ mapInArrow(rows_of) ─ repartition(part) ─ sortWithinPartitions(position) ─ mapInArrow(replay_batches)

Arrow batches and not pandas frames go to Python: the replay wants columns as lists, and pandas would be a second copy.
A worker needs this package and `broker.routing`, compiled or not: both are there wherever the wheel is installed, or
with `--py-files`. The plan, which has the routing tables' history, travels to each task whole.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from spark_sink.columns import Column
from spark_sink.delta_log import LOG
from spark_sink.errors import BadFolder, SinkError
from spark_sink.event_files.folder import list_folder
from spark_sink.event_files.layout import ARCHIVE, paths_for_spark
from spark_sink.event_files.renamed import spark_rows
from spark_sink.event_files.store import copies_among
from spark_sink.history.epochs import KINDS
from spark_sink.history.records import SEEN_SQL
from spark_sink.schema import COLUMNS, FLOWS, LIFECYCLES, REQUESTS
from spark_sink.session import nothing, reason_of
from spark_sink.tables import COLUMNS as TABLE_COLUMNS
from spark_sink.tables import LIFECYCLE, ROUTES, table_files
from spark_sink.tables import REQUESTS as REQUEST_TABLE
from spark_sink.what_if.local import LIFECYCLE_NAMES
from spark_sink.what_if.parts import Plan, replay_batches
from spark_sink.what_if.question import Question
from spark_sink.what_if.records import (
    FLOW_COLUMNS,
    REQUEST_COLUMNS,
    RESULT_SCHEMA,
    ROW_ORDER,
    ROW_SCHEMA,
    flow_records,
    request_records,
    rows_of,
)
from spark_sink.what_if.totals import read_totals, summed, totals_of

MAX_TASKS: Final = 64  # of the replay
ROWS_PER_TASK: Final = 100_000  # some seconds of work; a task for each part would be too many small ones
# Of segments: rows that the name of their file tells; a copy under another name is none.
OWN: Final = "startswith(_metadata.file_name, concat(broker_id, '-', epoch, '-'))"
_KINDS: Final = ", ".join(str(kind) for kind in sorted(KINDS))


class SparkEngine:
    """Events or tables, read and replayed by a Spark session."""

    def __init__(self, session: Any, *, events: str, tables: str, question: Question) -> None:
        """One of the two folders, a path here or a URI that Spark knows; the other one empty."""
        self._session: Final = session
        self._events: Final = events
        self._tables: Final = tables
        self._until_us: Final = question.end_us
        self.problems: list[str] = []  # sentences: files that were passed over

    def lifecycle(self) -> pa.Table:
        """Lifecycle events of the kinds that a replay needs, with what `epochs_of` wants."""
        events = self._segments(LIFECYCLES) if self._events else self._table(LIFECYCLE)
        rows = events.where(f"kind IN ({_KINDS})").select(*LIFECYCLE_NAMES)
        if self._tables:
            rows = rows.unionByName(
                self._table(ROUTES).selectExpr(*(SEEN_SQL.get(name, name) for name in LIFECYCLE_NAMES))
            )
        return self._collected(rows)

    def totals(self) -> pa.Table:
        """See `totals`."""
        totals = self._mapped(partial(totals_of, until_us=self._until_us), totals_of([], 0).schema)
        return read_totals(summed(self._collected(totals)))

    def replay(self, plan: Plan) -> pa.Table:
        """The results of all parts that have rows."""
        rows = self._mapped(partial(rows_of, places=plan.places), ROW_SCHEMA)
        tasks = min(MAX_TASKS, len(plan.parts), 1 + plan.rows // ROWS_PER_TASK)
        shuffled = rows.repartition(tasks, ROW_ORDER[0]).sortWithinPartitions(*ROW_ORDER)
        return self._collected(shuffled.mapInArrow(partial(replay_batches, plan=plan), _ddl(RESULT_SCHEMA)))

    def _mapped(self, make: Callable[..., Any], schema: pa.Schema) -> Any:
        """What `make` makes of the records in each task."""
        frames = [
            rows.mapInArrow(partial(mapped, to_records=to_records, make=make), _ddl(schema))
            for rows, to_records in self._sources
        ]
        return reduce(lambda both, frame: both.unionAll(frame), frames)

    @cached_property
    def _sources(self) -> list[tuple[Any, Callable[[pa.Table], pa.Table]]]:
        """Rows of the same files in each pass, and what makes records of them."""
        if self._tables:
            return [(self._table(REQUEST_TABLE).select(*REQUEST_COLUMNS), request_records)]
        return [
            (self._segments(REQUESTS).select(*REQUEST_COLUMNS), request_records),
            (self._segments(FLOWS).select(*FLOW_COLUMNS), flow_records),
        ]

    def _segments(self, source: str) -> Any:
        """The segments of a source, also those in the archive."""
        columns = COLUMNS[source]
        if "://" not in self._events:
            root = Path(self._events).absolute()
            listing = list_folder(root, (source,))
            copies = copies_among(root, listing.files(source))
            wrong = [*listing.problems(root), *(f"{path} is passed over: {why}" for path, why in copies.items())]
            self.problems.extend(each for each in wrong if each not in self.problems)
            folders = [root / folder for folder in listing.folders(source)]
            paths = [path for folder in folders for path in paths_for_spark(folder, copies)]
            return self._read(columns, [f"file://{path}" for path in paths], OWN)
        # Other file systems do not tell what is below a folder without Spark.
        live = self._read(columns, [f"{self._events.rstrip('/')}/{source}"], OWN, is_guess=True)
        below = f"{OWN} AND _metadata.file_path LIKE '%/{source}/%'"
        archive = [f"{self._events.rstrip('/')}/{ARCHIVE}"]
        return live.unionByName(self._read(columns, archive, below, is_deep=True, is_guess=True))

    def _table(self, table: str) -> Any:
        columns = TABLE_COLUMNS[table]
        path = self._tables.removeprefix("file://")
        if "://" in path:
            return self._read(columns, [f"{path.rstrip('/')}/{table}"], is_deep=True, is_guess=True)
        folder = Path(path).absolute() / table
        files = table_files(folder.parent, table)  # or Spark waits for what is no file
        if (folder / LOG).is_dir():
            return self._read(columns, [f"file://{file}" for file in files])
        return self._read(columns, [f"file://{folder}"] if folder.is_dir() else [], is_deep=True)

    def _read(
        self,
        columns: Sequence[Column],
        paths: list[str],
        only: str = "true",
        *,
        is_deep: bool = False,
        is_guess: bool = False,
    ) -> Any:
        """`only`: rows for which this holds. `is_guess`: nobody has looked whether there is such a folder, and none is
        empty; tables in it may be of an older version, too. BadFolder: something cannot be read, or is gone."""
        from pyspark.errors import AnalysisException  # optional: the extra spark

        reader = self._session.read.option("pathGlobFilter", "*.parquet")
        reader = reader.option("recursiveFileLookup", str(is_deep).lower())
        try:
            if paths:
                return spark_rows(reader, columns, paths).where(only)
        except AnalysisException as error:
            if not is_guess or error.getCondition() != "PATH_NOT_FOUND":
                named = paths[0] if len(paths) == 1 else self._events or self._tables  # the reason names the file
                raise BadFolder(f"{named} cannot be read: {reason_of(error)}") from error
        return nothing(self._session, columns)

    def _collected(self, frame: Any) -> pa.Table:
        try:
            return frame.toArrow()
        except Exception as error:  # py4j's errors have no tree of their own
            raise SinkError(f"Spark could not replay: {reason_of(error)}") from error


def mapped(
    batches: Iterator[pa.RecordBatch],
    to_records: Callable[[pa.Table], pa.Table],
    make: Callable[[Iterator[pa.Table]], Any],
) -> Iterator[pa.RecordBatch]:
    """What a task makes of rows: records, and of these the batches of one table or some."""
    made = make(to_records(pa.Table.from_batches([batch])) for batch in batches)
    for table in [made] if isinstance(made, pa.Table) else made:
        yield from table.to_batches()


def _ddl(schema: pa.Schema) -> str:
    kinds = {pa.int64(): "bigint", pa.string(): "string", pa.binary(): "binary"}
    return ", ".join(f"{field.name} {kinds[field.type]}" for field in schema)
