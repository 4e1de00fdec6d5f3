"""The same records with Spark, for long spans and big folders: Spark reads, the driver gets the table and the gaps.

Where an instant lies a reader without Spark finds by footers, in either kind of folder; Spark does what grows with the
span: the search for a snapshot, the newest word about each route, the numbers that are missing.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa

from broker.events import BROKER_STARTED, EVENTS_DROPPED, ROUTE_SEEN, TABLE_DIGEST
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

TRIED_TOGETHER: Final = 8  # snapshots; the first is whole nearly always
BUCKET: Final = 65_536  # numbers that are counted together; only where some are missing they are looked at one by one


class SparkReader(history.RecordReader):
    """On a session; `near` reads the same folder without Spark."""

    def __init__(self, session: Any, near: history.RecordReader) -> None:
        super().__init__(near.problems)  # one list of both
        self._session: Final = session
        self._near: Final = near

    @property
    def near(self) -> history.RecordReader:
        """Which run and which record is meant needs no Spark."""
        return self._near

    def start(self, run: history.Run, seq: int) -> history.Start:
        """The latest snapshot of which all routes are there, or the broker's start."""
        from pyspark.sql import functions as F  # optional: the extra spark

        rows = self._lifecycle(run)
        below = seq
        while True:
            digests = rows.filter((F.col("kind") == TABLE_DIGEST) & (F.col("seq") <= below))
            some = self._records(digests.orderBy(F.desc("seq")).limit(TRIED_TOGETHER))
            if some:
                wanted = [digest.snapshot for digest in some]
                counts = [F.count(F.when(F.col("seq").between(each.start, each.stop - 1), 1)) for each in wanted]
                seen = self._asked(rows.filter(F.col("kind") == ROUTE_SEEN).agg(*counts))
                for numbers, digest, routes in reversed(list(zip(wanted, some, seen, strict=True))):
                    if routes == len(numbers):
                        return history.Start(numbers.start, digest.at_us, True, digest)
            if not some:
                break
            below = some[0].seq - 1
        started = self._records(rows.filter((F.col("kind") == BROKER_STARTED) & (F.col("seq") <= seq)))
        return self.start_without_snapshot(run, history.Position(*started[0][:2]) if started else None)

    def states(self, run: history.Run, first: int, seen_until: int, stops: Sequence[int]) -> Iterator[history.State]:
        """The newest word about each route; only those that are there at one of the stops come to the driver."""
        from pyspark.sql import functions as F  # optional: the extra spark

        rows = self._lifecycle(run).filter(F.col("seq").between(first, stops[-1]))
        is_word = F.col("kind").isin(*history.PUTS, *history.TAKES) & (
            (F.col("kind") != ROUTE_SEEN) | (F.col("seq") <= seen_until)
        )
        words = [
            F.max_by(F.struct(*history.RECORD_COLUMNS), F.when(F.col("seq") <= stop, F.col("seq"))).alias(
                f"at_{number}"
            )
            for number, stop in enumerate(stops)
        ]
        is_there = F.lit(False)
        for number in range(len(stops)):
            is_there |= F.coalesce(F.col(f"at_{number}.kind").isin(*history.PUTS), F.lit(False))
        newest = self._arrow(rows.filter(is_word).groupBy("route_id").agg(*words).filter(is_there).drop("route_id"))
        is_told = F.col("kind") != EVENTS_DROPPED
        times = [F.max(F.when(is_told & (F.col("seq") <= stop), F.unix_micros("event_time"))) for stop in stops]
        latest = self._asked(rows.agg(*times))
        for number, latest_us in enumerate(latest):
            column = newest[f"at_{number}"].combine_chunks()
            records = history.records_of(pa.Table.from_struct_array(column.filter(column.is_valid())))
            there = {record.route_id: record for record in records if record.kind in history.PUTS}
            yield history.State(there, latest_us or 0)

    def missing(self, run: history.Run, first: int, last: int) -> history.Missing:
        """Numbers are counted in buckets; only of buckets that are not full each number is looked at."""
        from pyspark.sql import Window as Rows  # optional: the extra spark
        from pyspark.sql import functions as F

        if not isinstance(self._near, SegmentReader):
            return self._near.missing(run, first, last)
        self._tell_bad_files(run, first, last)
        dropped = self._records(self._lifecycle(run).filter(F.col("kind") == EVENTS_DROPPED))
        told = [record for record in dropped if history.overlaps(record, first, last)]
        seqs = self._seqs(run).filter(F.col("seq").between(first, last)).distinct()
        seqs = seqs.withColumn("bucket", F.floor(F.col("seq") / BUCKET))
        counted = seqs.groupBy("bucket").agg(F.count("seq"), F.min("seq"), F.max("seq"))
        there = history.Numbers()
        torn = []
        for bucket, count, low, high in self._all(counted):
            if count == high - low + 1:
                there.add(np.array([low]), np.array([high]))
            else:
                torn.append(bucket)
        if torn:
            # Each run of numbers without a gap has the same difference to its place.
            place = F.row_number().over(Rows.partitionBy("bucket").orderBy("seq"))
            islands = seqs.filter(F.col("bucket").isin(torn)).withColumn("island", F.col("seq") - place)
            for low, high in self._all(islands.groupBy("bucket", "island").agg(F.min("seq"), F.max("seq")), skip=2):
                there.add(np.array([low]), np.array([high]))
        return history.Missing(there.missing(first, last), told, True)

    def _tell_bad_files(self, run: history.Run, first: int, last: int) -> None:
        """Spark passes silently over what it cannot read: such a file gave no row."""
        assert isinstance(self._near, SegmentReader)  # whoever asks has looked
        low, high = self._near.logs_between(run, first, last)
        listed = {source: self._near.logs.sealed_between(run, source, low, high) for source in COLUMNS}
        names = [file.name for files in listed.values() for file in files]
        if not names:
            return
        found = [
            self._segments(run, source).selectExpr(f"'{source}' AS source", "_metadata.file_name AS name")
            for source, files in listed.items()
            if files
        ]
        rows = _union(found)
        read = set(self._all(rows.filter(rows["name"].between(min(names), max(names))).distinct()))
        for source, files in listed.items():
            for file in files:
                if (source, file.name) not in read:
                    self._near.logs.tell_bad(file, "Spark cannot read it")

    def _lifecycle(self, run: history.Run) -> Any:
        """Lifecycle events of the run, snapshots among them."""
        if isinstance(self._near, SegmentReader):
            rows = self._with_logs(run, LIFECYCLES)
        else:
            assert isinstance(self._near, TableReader)  # there are two kinds
            rows = self._table(LIFECYCLE).where(f"kind != {ROUTE_SEEN}")
            names = ["broker_id", "epoch", *history.RECORD_COLUMNS]
            seen = self._table(ROUTES).selectExpr(*(history.SEEN_SQL.get(name, name) for name in names))
            rows = rows.select(*names).unionByName(seen)
        return _of(rows, run).select(*history.RECORD_COLUMNS)

    def _seqs(self, run: history.Run) -> Any:
        """Numbers of all records of the run."""
        assert isinstance(self._near, SegmentReader)  # whoever asks has looked
        logs = self._near.logs
        there = [source for source in COLUMNS if logs.folders(source) or logs.log_rows(run, source) is not None]
        return _union([_of(self._with_logs(run, source), run).select("seq") for source in there])

    def _with_logs(self, run: history.Run, source: str) -> Any:
        """A source of the run: its segments, and what is in logs without segments."""
        assert isinstance(self._near, SegmentReader)  # whoever asks has looked
        rows = self._segments(run, source)
        logs = self._near.logs.log_rows(run, source)
        if logs is None:
            return rows
        return rows.unionByName(self._session.createDataFrame(logs, SPARK_SCHEMAS[source]))

    def _segments(self, run: history.Run, source: str) -> Any:
        assert isinstance(self._near, SegmentReader)  # whoever asks has looked
        folders = self._near.logs.folders(source)
        if not folders:
            return nothing(self._session, COLUMNS[source])
        reader = self._session.read.option("pathGlobFilter", f"{run.stream}-*{SUFFIX}")
        reader = reader.option("ignoreCorruptFiles", "true")
        paths = [f"file://{path}" for folder in folders for path in paths_for_spark(folder)]
        rows = spark_rows(reader, COLUMNS[source], paths)
        open_logs = [segment_name(run.broker_id, run.epoch, number) for number in self._near.logs.open_numbers(run)]
        if open_logs:  # while a log is there its segments may not all be
            from pyspark.sql import functions as F  # optional: the extra spark

            rows = rows.filter(~F.col("_metadata.file_name").isin(open_logs))
        return rows

    def _table(self, table: str) -> Any:
        assert isinstance(self._near, TableReader)  # whoever asks has looked
        files = self._near.files(table)
        if not files:
            return nothing(self._session, TABLE_COLUMNS[table])
        reader = self._session.read.schema(spark_ddl(TABLE_COLUMNS[table])).format("parquet")
        return reader.load([f"file://{path}" for path in files])

    def _records(self, rows: Any) -> list[history.Record]:
        """In the order of their numbers."""
        return history.records_of(self._arrow(rows.select(*history.RECORD_COLUMNS)))

    def _arrow(self, rows: Any) -> pa.Table:
        try:
            return rows.toArrow()
        except Exception as error:  # py4j's errors have no tree of their own
            raise SinkError(f"Spark could not read the events: {reason_of(error)}") from error

    def _all(self, rows: Any, skip: int = 0) -> list[tuple[Any, ...]]:
        try:
            return [tuple(row)[skip:] for row in rows.collect()]
        except Exception as error:  # py4j's errors have no tree of their own
            raise SinkError(f"Spark could not read the events: {reason_of(error)}") from error

    def _asked(self, rows: Any) -> tuple[Any, ...]:
        """The only row."""
        return self._all(rows)[0]


def _of(rows: Any, run: history.Run) -> Any:
    return rows.filter((rows["broker_id"] == run.broker_id) & (rows["epoch"] == run.epoch))


def _union(frames: list[Any]) -> Any:
    return reduce(lambda both, frame: both.unionByName(frame), frames)
