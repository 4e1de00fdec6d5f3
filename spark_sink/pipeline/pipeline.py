"""The query of one events folder and one tables folder: its life and its ends.

One streaming query finds the segments of all three folders by Spark's own file source. What is in them is read, checked
and written by `batch`. Those that are done are moved into the archive every `LOOK_S`, and not by Spark, which would
follow a link among them and move the files of somebody else. No state, no watermark: a late record is one more partial
of an old minute.

The checkpoint lies inside the tables' folder, since one is worth nothing without the other. It knows the segments by
their paths, so the events folder must stay where it is.
"""

import contextlib
import errno
import math
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

from spark_sink.columns import spark_ddl
from spark_sink.errors import BadFolder, SinkError
from spark_sink.pipeline.batch import ROLL_FILES, ROLL_WORD, STOP_WORD, BatchWriter, generation_folder, say
from spark_sink.pipeline.compaction import Compacted, compact, finish_if_alone
from spark_sink.pipeline.filesystems import FileSystem, LocalFileSystem, filesystem_of, local_path, spark_text
from spark_sink.pipeline.folders import check_folders, judge_folders, locked, remove_leftovers
from spark_sink.pipeline.generations import archive_done, current_generation, next_generation
from spark_sink.schema import COLUMNS as SOURCE_COLUMNS
from spark_sink.session import open_session, reason_of

MAX_FILES_PER_BATCH: Final = 1000  # segments; what one batch sums up in the driver stays small
KEEP_FOREVER: Final = "36500d"  # Spark passes silently over files that are much older than the newest; never do
POLL_S: Final = 0.25  # how often a signal and the end of the query are looked for
LOOK_S: Final = 30.0  # how often it is looked for files that are done, or that nobody reads
HEAL_S: Final = 5.0  # before a query that ended because the disk was full is begun again
SAY_FULL_S: Final = 60.0  # how often it is told that the disk is full
STOP_S: Final = 60.0  # a batch that needs longer to end is interrupted; the next start repeats it
# One query has one schema: the columns of all sources; one that two of them have has one type.
UNION: Final = spark_ddl(
    list({column.name: column for columns in SOURCE_COLUMNS.values() for column in columns}.values())
)
_EVERY: Final = re.compile(r"0 seconds|[1-9]\d* (second|minute|hour)s?")
_FULL: Final = ("No space left on device", "Disk quota exceeded")  # in what Java says of a full disk


def is_every(text: str) -> bool:
    """`text` is an interval as Spark spells it, "5 seconds"; "0 seconds": again at once."""
    return _EVERY.fullmatch(text) is not None


class Pipeline:
    """From the start of Spark to its end. `run` is all of it."""

    def __init__(
        self, events: str, tables: str, master: str | None, every: str | None, *, roll_files: int = ROLL_FILES
    ) -> None:
        """`events`, `tables`: paths, or URIs that Hadoop knows. `every`: the trigger, "5 seconds"; None: everything
        that is there, once. `master`: as Spark spells it; None: spark-submit has said it."""
        self._events_text: Final = _absolute(events)
        self._tables_text: Final = _absolute(tables)
        self._master: Final = master
        self.every: Final = every  # the trigger; None: once
        self._roll_files: Final = roll_files
        self._is_stopping = False
        self._is_done = False  # the query has read all that was there, once
        self._told: Final[set[str]] = set()  # files that are never read, and told of; bounded by what lies there
        self._said_full_s = -math.inf  # when it was told last that the disk is full
        self._writer: BatchWriter | None = None  # of the query that runs; None: it has not begun

    def run(self) -> None:
        """Until everything is read (once) or a SIGINT or SIGTERM comes (every). SinkError: says why not."""
        events, tables = local_path(self._events_text), local_path(self._tables_text)
        with locked(events, tables):
            if events is not None and tables is not None:  # before Spark starts, which takes seconds
                judge_folders(LocalFileSystem(events), LocalFileSystem(tables), is_once=self.every is None)
            session = self._open_session()
            if session is not None:
                self._run_in(session)
        if self.every is None and not self._is_done:
            raise SinkError("stopped before everything was read; start it again, nothing is lost or twice")

    def _open_session(self) -> Any:
        """None: a signal came. The first one is kept until Spark has started, or its Java prints the stack of that."""
        session = None
        try:
            with _signals(self._leave):
                session = open_session(self._master, is_short=self.every is None)
        except (_Left, KeyboardInterrupt):
            self._is_stopping = True
        except SinkError:
            if not self._is_stopping:
                raise  # else its Java had the same signal
        if self._is_stopping:
            say("stopped while Spark started; nothing was begun")
            _end(session)
            return None
        return session

    def _run_in(self, session: Any) -> None:
        try:
            with _signals(self._stop):  # once more: Spark has taken SIGINT for itself
                self.run_queries(session)
        finally:
            _end(session)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        if self._is_stopping:
            raise _Left  # somebody is in a hurry
        self._stop(number, frame)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stopping = True

    def run_queries(self, session: Any) -> None:
        """One query after another on this session, until nothing is to be done. SinkError: one ended with an error."""
        events, tables = filesystem_of(self._events_text, session), filesystem_of(self._tables_text, session)
        check_folders(events, tables, is_once=self.every is None)
        while not self._is_done and not self._is_stopping:
            self._writer = None
            try:
                self._is_done = self._run_query(session, events, tables)
            except Exception as error:  # py4j's errors have no tree of their own; the query is over in any case
                failed = (self._writer.failure if self._writer is not None else None) or error
                if self._is_stopping:
                    break  # Java had the same signal, and ended first; its batch is repeated at the next start
                if self.every is None or not _is_full(failed):
                    raise SinkError(f"the pipeline ended: {reason_of(failed)}") from error
                self._say_full(failed)
                self._pause(HEAL_S)

    def _run_query(self, session: Any, events: FileSystem, tables: FileSystem) -> bool:
        """It has read all that is there; False: another one is to follow, or none. Whatever ends it is raised."""
        if isinstance(tables, LocalFileSystem):
            remove_leftovers(Path(tables.root))
        finish_if_alone(tables)
        generation = current_generation(tables)
        self._writer = writer = BatchWriter(
            self._events_text, self._tables_text, generation, roll_files=self._roll_files
        )
        self._look(events, tables, generation)
        writer.tell_writer(events)
        has_all = False
        try:
            has_all = self._watch(self._start(session, events, tables, writer), events, tables, writer)
        except Exception as error:  # as above
            text = f"{writer.failure or ''} {error}"
            if ROLL_WORD in text:
                generation = next_generation(events, tables, generation)
                say(f"generation {generation} begins with a new checkpoint: the old one lists enough files")
                return False
            if STOP_WORD not in text:
                raise
        self._look(events, tables, generation)
        return has_all

    def _say_full(self, failed: Exception) -> None:
        if time.monotonic() - self._said_full_s > SAY_FULL_S:
            say(f"the disk is full: {reason_of(failed)}; trying again every {HEAL_S:.0f} s, nothing is lost")
            self._said_full_s = time.monotonic()

    def _start(self, session: Any, events: FileSystem, tables: FileSystem, writer: BatchWriter) -> Any:
        folders = ",".join(SOURCE_COLUMNS)
        reader = session.readStream.format("parquet").schema(UNION).option("pathGlobFilter", "*.parquet")
        reader = reader.option("maxFileAge", KEEP_FOREVER).option("maxFilesPerTrigger", MAX_FILES_PER_BATCH)
        # No columns from the names of folders: those that somebody made in here would end the query.
        reader = reader.option("recursiveFileLookup", "true")
        found = reader.load(f"{spark_text(events.root)}/{{{folders}}}")
        stream = found.writeStream.queryName(f"rsocket-broker pipeline {writer.generation}")
        checkpoint = tables.file(generation_folder(writer.generation))
        stream = stream.option("checkpointLocation", f"file://{checkpoint}" if checkpoint[0] == "/" else checkpoint)
        stream = stream.foreachBatch(writer)
        if self.every is None:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=self.every).start()

    def _watch(self, query: Any, events: FileSystem, tables: FileSystem, writer: BatchWriter) -> bool:
        """Until the query ends, or a signal comes: False; raises what ended it."""
        looked_s = time.monotonic()
        try:
            while not query.awaitTermination(POLL_S):
                if self._is_stopping:
                    writer.is_stopping = True  # a batch that runs is ended first, another one not begun
                    self._await_idle(query)
                    return False
                if time.monotonic() - looked_s > LOOK_S:
                    self._look(events, tables, writer.generation)
                    writer.tell_writer(events)
                    looked_s = time.monotonic()
            return True
        finally:
            with contextlib.suppress(Exception):  # Java may be gone; what ended the query is on its way
                query.stop()

    def _await_idle(self, query: Any) -> None:
        until_s = time.monotonic() + STOP_S
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until_s:
            query.awaitTermination(POLL_S)

    def _look(self, events: FileSystem, tables: FileSystem, generation: int) -> None:
        for text in archive_done(events, tables, generation):
            if text not in self._told:
                self._told.add(text)
                say(text)

    def _pause(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and not self._is_stopping:
            time.sleep(POLL_S)


def compact_tables(tables: str, before: str) -> Compacted:
    """`compaction.compact` on a folder as somebody typed it. SinkError: says why not."""
    path = local_path(tables)
    if path is not None and not path.is_dir():
        raise BadFolder(f"there is no folder of tables {path}")
    session = None if path is not None else open_session("local[1]", is_short=True)
    try:
        return compact(filesystem_of(_absolute(tables), session), before)
    except OSError as error:
        raise SinkError(f"the compaction ended: {error}; what it had not done is as it was") from error
    finally:
        if session is not None:
            session.stop()


class _Left(BaseException):
    """A second signal came while Spark started."""


def _end(session: Any) -> None:
    with contextlib.suppress(Exception):  # its Java may be gone, which was told, or had the same signal
        if session is not None:
            session.stop()


@contextlib.contextmanager
def _signals(stop: Any) -> Iterator[None]:
    """SIGINT and SIGTERM call `stop`, until the end of the block; SIGHUP, too, unless it is ignored (`nohup`)."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _absolute(text: str) -> str:
    path = local_path(text)
    return str(path) if path is not None else text.rstrip("/")


def _is_full(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return any(text in str(error) for text in _FULL)
