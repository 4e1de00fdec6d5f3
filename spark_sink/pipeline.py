"""The PySpark job: reads sealed segments as they come and makes the tables of `spark_sink.tables`, exactly once.

One streaming query per source on Spark's own Parquet file source. Each batch is grouped and handed to the driver as
Arrow, which writes one file per table and day, named after the batch. Spark repeats a batch that a crash interrupted,
with the same segments under the same number: the repetition overwrites its own files, so nothing is in a table twice.
No state, no watermark: a late record is one more partial of an old minute.

The checkpoint lies inside the tables' folder, since one is worth nothing without the other. It knows the segments by
their paths, so the events folder must stay where it is.
"""

import contextlib
import fcntl
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

from spark_sink.errors import BadFolder, SinkError
from spark_sink.events import FLOWS, LIFECYCLES, SPARK_SCHEMAS
from spark_sink.publishing import publish
from spark_sink.segments import Disk, recover
from spark_sink.session import open_session, reason_of
from spark_sink.tables import (
    CHECKPOINTS,
    COLUMNS,
    LIFECYCLE,
    MAX_COLUMN,
    PARTIALS,
    REJECTIONS,
    SOURCES,
    Partial,
    has_tables,
)

MAX_FILES_PER_BATCH: Final = 1000  # segments; what one batch sums up in the driver stays small
KEEP_FOREVER: Final = "36500d"  # Spark passes silently over files that are much older than the newest; never do
EVENTS_FOLDER: Final = "events_folder"  # file in the checkpoint: the folder that the tables are made of
POLL_S: Final = 0.5  # how often a signal and the end of the queries are looked for
_EVERY: Final = re.compile(r"[1-9]\d* (second|minute|hour)s?")


def is_every(text: str) -> bool:
    """`text` is an interval as Spark spells it, "5 seconds"."""
    return _EVERY.fullmatch(text) is not None


class Pipeline:
    """The queries of one events folder and one tables folder. `run` is all of their life."""

    def __init__(self, events: Path, tables: Path, master: str, every: str | None) -> None:
        """`every`: the trigger, "5 seconds"; None: everything that is there, once. `master`: as Spark spells it."""
        self._events: Final = events.absolute()
        self._tables: Final = tables.absolute()
        self._master: Final = master
        self.every: Final = every  # the trigger; None: once
        self._is_stopping = False

    def run(self) -> None:
        """Until everything is read (once) or a SIGINT or SIGTERM comes (every). SinkError: says why not."""
        check_folders(self._events, self._tables, is_once=self.every is None)
        with locked(self._tables):
            remove_leftovers(self._tables)
            session = open_session(self._master, is_short=self.every is None)
            try:
                with _signals(self._stop):  # after the start of Spark, which takes SIGINT for itself
                    self.run_queries(session)
            finally:
                session.stop()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stopping = True

    def run_queries(self, session: Any) -> None:
        """The queries of all sources, on this session. SinkError: one of them ended with an error."""
        writers = [BatchWriter(self._tables, source) for source in (FLOWS, LIFECYCLES)]
        queries = [self._start_query(session, writer) for writer in writers]
        try:
            while any(query.isActive for query in queries) and not self._is_stopping:
                for query in queries:
                    query.awaitTermination(POLL_S / len(queries))  # raises what ended it
            for query in queries:
                if not self._is_stopping:
                    query.awaitTermination(POLL_S)
        except Exception as error:  # py4j's errors have no tree of their own; the query is over in any case
            # Our own failure comes back wrapped in Java's stacks; the first-hand one says more.
            failures = [writer.failure for writer in writers if writer.failure is not None]
            raise SinkError(f"the pipeline ended: {reason_of((*failures, error)[0])}") from error
        finally:
            for query in queries:
                query.stop()

    def _start_query(self, session: Any, writer: "BatchWriter") -> Any:
        stream = read_segments(session, self._events, writer.source).writeStream.queryName(writer.source)
        stream = stream.option("checkpointLocation", f"file://{self._tables / CHECKPOINTS / writer.source}")
        stream = stream.foreachBatch(writer)
        if self.every is None:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=self.every).start()


def check_folders(events: Path, tables: Path, *, is_once: bool) -> None:
    """Make what the queries need and refuse what would give wrong tables. BadFolder: says what to do."""
    if not events.is_dir():
        raise BadFolder(f"there is no events folder {events}: start the broker with --events {events}")
    if is_once and not any(any((events / source).glob("[!._]*.parquet")) for source in (FLOWS, LIFECYCLES)):
        raise BadFolder(f"the events folder {events} holds no segments yet: is a broker writing to it?")
    if has_tables(tables) and not (tables / CHECKPOINTS).is_dir():
        raise BadFolder(f"{tables} holds tables without their checkpoint: reading again would count twice; remove them")
    made_of = tables / CHECKPOINTS / EVENTS_FOLDER
    try:
        if made_of.exists() and made_of.read_text(encoding="utf-8") != str(events):
            raise BadFolder(f"{tables} is made of {made_of.read_text(encoding='utf-8')} and not of {events}")
        for folder in (
            events / FLOWS,
            events / LIFECYCLES,
            tables / CHECKPOINTS,
            *(tables / table for table in COLUMNS),
        ):
            folder.mkdir(parents=True, exist_ok=True)
        made_of.write_text(str(events), encoding="utf-8")
    except OSError as error:
        raise BadFolder(f"the folders of the pipeline cannot be made: {error}") from error


def remove_leftovers(tables: Path) -> None:
    """Hidden files of a pipeline that was killed; only while no other one writes these tables."""
    for table in COLUMNS:
        for day in (tables / table).glob("date=*"):
            recover(day, "", time.time(), Disk())


def read_segments(session: Any, events: Path, source: str) -> Any:
    """The segments of a source as a streaming DataFrame."""
    reader = session.readStream.schema(SPARK_SCHEMAS[source]).format("parquet")
    reader = reader.option("pathGlobFilter", "*.parquet").option("maxFileAge", KEEP_FOREVER)
    reader = reader.option("maxFilesPerTrigger", MAX_FILES_PER_BATCH)
    return reader.load(f"file://{events / source}")  # no as_uri(): Hadoop takes %20 for three characters


class BatchWriter:
    """What is done with each batch of a source: make its tables' rows and publish them."""

    def __init__(self, tables: Path, source: str) -> None:
        self._tables: Final = tables
        self.source: Final = source
        self.failure: Exception | None = None  # what ended the query, if it was raised here

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Spark's foreachBatch. Doing it again for the same batch gives the same files."""
        name = f"{self.source}-{batch_id:010d}.parquet"
        try:
            for partial in PARTIALS:
                if SOURCES[partial.name] == self.source:
                    publish(self._tables, partial.name, name, partial_rows(batch, partial).toArrow())
            if SOURCES[LIFECYCLE] == self.source:
                publish(self._tables, LIFECYCLE, name, batch.toArrow())
        except Exception as error:
            self.failure = error
            raise


def partial_rows(flows: Any, partial: Partial) -> Any:
    """A DataFrame of flow records, grouped into the rows of a table of partials."""
    from pyspark.sql import functions as F  # optional: the extra spark

    keys = [column.name for column in partial.keys]
    rows = flows.withColumn("minute", F.date_trunc("minute", "started_at"))
    if partial.name == REJECTIONS:
        rows = rows.where("outcome = 'rejected'")
    sums = [F.sum(name).alias(name) for name in partial.sums]
    if partial.has_max:
        sums.append(F.max(MAX_COLUMN).alias(MAX_COLUMN))
    names = [column.name for column in partial.columns]
    if not partial.has_histogram:
        return rows.groupBy(*keys).agg(*sums).select(*names)
    # One row per bucket; the sums of a record go with its first bucket only. Grouped by bucket, then the buckets
    # gathered: no join, and both groupings are partial on each side of the shuffle.
    pairs = F.arrays_zip("latency_buckets", "latency_counts")
    rows = rows.select("*", F.posexplode_outer(pairs).alias("place", "pair"))
    is_first = F.coalesce(F.col("place"), F.lit(0)) == 0
    by_bucket = rows.groupBy(*keys, F.col("pair.latency_buckets").alias("bucket")).agg(
        *(F.sum(F.when(is_first, F.col(name)).otherwise(0)).alias(name) for name in partial.sums),
        F.max(MAX_COLUMN).alias(MAX_COLUMN),
        F.sum("pair.latency_counts").alias("count"),
    )
    pair = F.when(F.col("bucket").isNotNull(), F.struct("bucket", "count"))  # collect_list passes over null
    gathered = by_bucket.groupBy(*keys).agg(*sums, F.sort_array(F.collect_list(pair)).alias("pairs"))
    return gathered.select(
        "*", F.col("pairs.bucket").alias("latency_buckets"), F.col("pairs.count").alias("latency_counts")
    ).select(*names)


@contextlib.contextmanager
def locked(tables: Path) -> Iterator[None]:
    """No other pipeline on this machine writes these tables meanwhile. BadFolder: one does."""
    with (tables / "_lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadFolder(f"another pipeline writes the tables in {tables}") from error
        yield


@contextlib.contextmanager
def _signals(stop: Any) -> Iterator[None]:
    """SIGINT and SIGTERM call `stop`, until the end of the block."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
