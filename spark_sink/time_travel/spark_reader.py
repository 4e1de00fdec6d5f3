"""The same records with Spark, for long spans and big folders: Spark reads, the driver gets the table and the gaps.

Where an instant lies a reader without Spark finds by footers, in either kind of folder; Spark does what grows with the
span: the newest word about each route, the numbers that are missing.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, Final

import pyarrow as pa

from broker.events import EVENTS_DROPPED, ROUTE_SEEN, TABLE_DIGEST
from spark_sink.columns import spark_ddl
from spark_sink.errors import SinkError
from spark_sink.event_files.layout import SUFFIX, paths_for_spark, segment_name
from spark_sink.event_files.renamed import spark_rows
from spark_sink.history import records as history
from spark_sink.schema import COLUMNS, LIFECYCLES, SPARK_SCHEMAS
from spark_sink.session import nothing, reason_of
from spark_sink.tables import COLUMNS as TABLE_COLUMNS
from spark_sink.tables import LIFECYCLE, ROUTES
from spark_sink.time_travel.segment_reader import SegmentReader
from spark_sink.time_travel.table_reader import TableReader


class SparkReader:
    """On a session; `near` reads the same folder without Spark."""

    def __init__(self, session: Any, near: SegmentReader | TableReader) -> None:
        self.near: Final = near
        self.problems: Final = near.problems  # one list of both
        self._session: Final = session

    def records(self, run: history.Run, spot: history.Spot) -> list[history.Record]:
        """Of each route the newest word up to each stop, and the latest time, on a TableDigest, which changes no table:
        they make the same states as all records, and only they come to the driver."""
        from pyspark.sql import functions as F  # optional: the extra spark

        stops = [seq for seq, _ in spot.stops]
        rows = self._lifecycle(run).where(
            f"seq BETWEEN {spot.start.seq} AND {stops[-1]} AND kind != {EVENTS_DROPPED} "
            f"AND (kind != {ROUTE_SEEN} OR seq <= {spot.seen_until})"
        )
        stop = f"CASE {' '.join(f'WHEN seq <= {seq} THEN {number}' for number, seq in enumerate(stops))} END AS stop"
        rows = rows.selectExpr("*", f"struct({', '.join(history.RECORD_COLUMNS)}) AS record", stop)
        # Of a route that has left before the first of the stops nothing need be known.
        is_word = f"kind IN ({_listed(history.PUTS | history.TAKES | history.ENDS)})"
        newest = rows.where(is_word).groupBy("route_id", "stop").agg(F.max_by("record", "seq").alias("record"))
        newest = newest.where(f"stop > 0 OR record.kind NOT IN ({_listed(history.TAKES)})").select("record.*")
        latest = rows.groupBy("stop").agg(F.max_by("record", "event_time").alias("record")).select("record.*")
        # Its word may be an old one about a route that has left.
        latest = latest.withColumn("kind", F.lit(TABLE_DIGEST).cast("bigint"))
        return self._records(newest.unionAll(latest))

    def missing(self, run: history.Run, spot: history.Spot) -> history.Missing:
        """Each task gives the ranges of numbers that it sees."""
        if not isinstance(self.near, SegmentReader):
            return self.near.missing(run, spot)
        self._tell_bad_files(run, *spot.logs)
        dropped = self._records(self._lifecycle(run).where(f"kind = {EVENTS_DROPPED}"))
        logs = self.near.logs
        there = [source for source in COLUMNS if logs.folders(source) or logs.log_rows(run, source) is not None]
        seqs = _union(_of(self._with_logs(run, source), run).select("seq") for source in there)
        seqs = seqs.where(f"seq BETWEEN {spot.start.seq} AND {spot.end}")
        ranges = self._arrow(seqs.mapInArrow(range_batches, "first bigint, last bigint"))
        gaps = history.gaps_between([(ranges["first"], ranges["last"])], spot.start.seq, spot.end)
        return history.Missing(gaps, history.told_of(dropped, spot), True)

    def _tell_bad_files(self, run: history.Run, low: int, high: int) -> None:
        """Spark passes silently over what it cannot read: such a file gave no row."""
        assert isinstance(self.near, SegmentReader)  # whoever asks has looked
        logs = self.near.logs
        listed = {source: logs.sealed_between(run, source, low, high) for source in COLUMNS}
        names = [file.name for files in listed.values() for file in files]
        if not names:
            return
        rows = _union(
            self._segments(run, source).selectExpr(f"'{source}' AS source", "_metadata.file_name AS name")
            for source, files in listed.items()
            if files
        )
        read = self._arrow(rows.filter(rows["name"].between(min(names), max(names))).distinct()).to_pylist()
        for source, files in listed.items():
            for file in files:
                if {"source": source, "name": file.name} not in read:
                    logs.tell_bad(file, "Spark cannot read it")

    def _lifecycle(self, run: history.Run) -> Any:
        """Lifecycle events of the run, snapshots among them."""
        if isinstance(self.near, SegmentReader):
            rows = self._with_logs(run, LIFECYCLES)
        else:
            names = ["broker_id", "epoch", *history.RECORD_COLUMNS]
            seen = self._table(ROUTES).selectExpr(*(history.SEEN_SQL.get(name, name) for name in names))
            rows = self._table(LIFECYCLE).where(f"kind != {ROUTE_SEEN}").select(*names).unionByName(seen)
        return _of(rows, run).select(*history.RECORD_COLUMNS)

    def _with_logs(self, run: history.Run, source: str) -> Any:
        """A source of the run: its segments, and what is in logs without segments."""
        assert isinstance(self.near, SegmentReader)  # whoever asks has looked
        rows = self._segments(run, source)
        logs = self.near.logs.log_rows(run, source)
        return rows if logs is None else rows.unionByName(self._session.createDataFrame(logs, SPARK_SCHEMAS[source]))

    def _segments(self, run: history.Run, source: str) -> Any:
        from pyspark.sql import functions as F  # optional: the extra spark

        assert isinstance(self.near, SegmentReader)  # whoever asks has looked
        folders = self.near.logs.folders(source)
        if not folders:
            return nothing(self._session, COLUMNS[source])
        reader = self._session.read.option("pathGlobFilter", f"{run.stream}-*{SUFFIX}")
        reader = reader.option("ignoreCorruptFiles", "true")
        paths = [f"file://{path}" for folder in folders for path in paths_for_spark(folder)]
        rows = spark_rows(reader, COLUMNS[source], paths)
        # While a log is there its segments may not all be.
        half = [segment_name(run.broker_id, run.epoch, number) for number in self.near.logs.open_numbers(run)]
        return rows.filter(~F.col("_metadata.file_name").isin(half)) if half else rows

    def _table(self, table: str) -> Any:
        assert isinstance(self.near, TableReader)  # there are two kinds
        files = self.near.files(table)
        if not files:
            return nothing(self._session, TABLE_COLUMNS[table])
        reader = self._session.read.schema(spark_ddl(TABLE_COLUMNS[table])).format("parquet")
        return reader.load([f"file://{path}" for path in files])

    def _records(self, rows: Any) -> list[history.Record]:
        """In the order of their numbers."""
        return history.records_of(self._arrow(rows))

    def _arrow(self, rows: Any) -> pa.Table:
        try:
            return rows.toArrow()
        except Exception as error:  # py4j's errors have no tree of their own
            raise SinkError(f"Spark could not read the events: {reason_of(error)}") from error


def range_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The ranges of the numbers in each batch, see `ranges_of`."""
    for batch in batches:
        ranges = history.ranges_of(batch.column(0).to_numpy())
        yield pa.RecordBatch.from_arrays([pa.array(each) for each in ranges], names=["first", "last"])


def _listed(kinds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(kinds)))


def _of(rows: Any, run: history.Run) -> Any:
    return rows.filter((rows["broker_id"] == run.broker_id) & (rows["epoch"] == run.epoch))


def _union(frames: Iterable[Any]) -> Any:
    return reduce(lambda both, frame: both.unionByName(frame), frames)
