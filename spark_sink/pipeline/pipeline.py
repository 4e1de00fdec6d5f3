"""The pipeline of one events folder and one tables folder: its life and its ends.

An engine finds the segments and does the sums, `spark` on a cluster or `local` in this process; `batch` publishes what
comes of it. Both leave the same files and may take turns. No state, no watermark: a late record is one more partial of
an old minute.

The state of the pipeline lies inside the tables' folder, since one is worth nothing without the other. It knows the
segments by their paths, so the events folder must stay where it is.
"""

import contextlib
import errno
import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from types import FrameType
from typing import Any, Final

from spark_sink.errors import BadFolder, SinkError
from spark_sink.pipeline import DELTA, LOCAL, SPARK
from spark_sink.pipeline.batch import STOP_WORD, BatchWriter, never_read, say
from spark_sink.pipeline.compaction import Compacted, compact, finish_if_alone
from spark_sink.pipeline.filesystems import FileSystem, LocalFileSystem, filesystem_of, local_path
from spark_sink.pipeline.folders import check_folders, judge_folders, locked, remove_leftovers
from spark_sink.pipeline.keeping import Keeping, remove_old
from spark_sink.pipeline.local import LocalEngine, LocalQuery
from spark_sink.pipeline.spark import ROLL_WORD, SparkEngine, SparkQuery
from spark_sink.pipeline.upgrade import Upgraded, upgrade
from spark_sink.session import children, open_session, reason_of, silence_java
from spark_sink.tables import MAKES_TABLES, REQUESTS

POLL_S: Final = 0.25  # how often a signal and the end of the query are looked for
LOOK_S: Final = 30.0  # how often it is looked for files that nobody reads, and for tables to be merged or removed
MANY_FILES: Final = 32  # of about one size, in one day of a table: they are merged
MERGED_DAYS: Final = 2  # before today, in which that is looked for
HEAL_S: Final = 5.0  # before a query that ended because the disk was full is begun again
SAY_FULL_S: Final = 60.0  # how often it is told that the disk is full
STOP_S: Final = 2.0  # a batch that needs longer to end is interrupted; the next start repeats it
END_S: Final = 1.0  # Spark that needs longer to end is left alone
_EVERY: Final = re.compile(r"0 seconds|[1-9]\d* (second|minute|hour)s?")
_FULL: Final = ("No space left on device", "Disk quota exceeded")  # in what Java says of a full disk


def is_every(text: str) -> bool:
    """`text` is an interval as Spark spells it, "5 seconds"; "0 seconds": again at once."""
    return _EVERY.fullmatch(text) is not None


class Pipeline:
    """From the start of the engine to its end. `run` is all of it."""

    def __init__(
        self,
        events: str,
        tables: str,
        master: str | None,
        every: str | None,
        *,
        engine: str = SPARK,
        keeping: Keeping | None = None,
        table_format: str | None = None,
    ) -> None:
        """`events`, `tables`: paths, or URIs that Hadoop knows. `every`: the trigger, "5 seconds"; None: everything
        that is there, once. `master`: as Spark spells it; None: spark-submit has said it. `engine`: of `ENGINES`.
        `table_format`: of `FORMATS`; None: what the tables are."""
        self._events_text: Final = _absolute(events)
        self._tables_text: Final = _absolute(tables)
        self._master: Final = master
        self.every: Final = every  # the trigger; None: once
        self._engine_name: Final = engine
        self._keeping: Final = keeping or {}
        self._format: Final = table_format
        self._is_stopping = False
        self._is_done = False  # the query has read all that was there, once
        self._told: Final[set[str]] = set()  # files that are never read, and told of; bounded by what lies there
        self._said_full_s = -math.inf  # when it was told last that the disk is full
        self._engine: SparkEngine | LocalEngine  # and the places: since `run_queries`
        self._events: FileSystem
        self._tables: FileSystem
        self.is_hanging = False  # Spark has not ended; whoever waits for its threads may wait for ever

    def run(self) -> None:
        """Until everything is read (once) or a SIGINT or SIGTERM comes (every). SinkError: says why not."""
        events, tables = local_path(self._events_text), local_path(self._tables_text)
        if self._format == DELTA and tables is None:
            raise BadFolder(f"--format {DELTA} writes to folders of this machine only, and {self._tables_text} is none")
        with locked(events, tables):
            if events is not None and tables is not None:  # before Spark starts, which takes seconds
                places = LocalFileSystem(events), LocalFileSystem(tables)
                judge_folders(*places, is_once=self.every is None, wanted=self._format)
            if self._engine_name == SPARK:
                self._run_in(self._open_session())
            elif events is None or tables is None:
                far = self._events_text if events is None else self._tables_text
                raise BadFolder(f"{far} is not on this machine: the engine {LOCAL} reads folders, use --engine {SPARK}")
            else:
                with _signals(self._stop):
                    self.run_queries(LocalEngine())
        if self.every is None and not self._is_done:
            raise SinkError("stopped before everything was read; start it again, nothing is lost or twice")

    def _open_session(self) -> Any:
        """None: nobody waits for it. The first signal is kept until Spark runs, or its Java prints the stack of it."""
        session, others = None, children()
        try:
            with _signals(self._leave):
                session = open_session(self._master)
        except (_Left, KeyboardInterrupt):
            self._is_stopping = True
            for pid in children() - others:  # its Java, which nobody else would end
                os.kill(pid, signal.SIGKILL)
        except SinkError:
            if not self._is_stopping:
                raise  # else its Java had the same signal
        return session

    def _run_in(self, session: Any) -> None:
        try:
            with _signals(self._stop):  # once more: Spark has taken SIGINT for itself
                if self._is_stopping:
                    say("stopped while Spark started; nothing was begun")
                else:
                    self.run_queries(SparkEngine(session))
        finally:
            self.is_hanging |= session is not None and not _within(END_S, session.stop)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        if self._is_stopping:
            raise _Left  # somebody is in a hurry
        self._stop(number, frame)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stopping = True
        silence_java()  # which may have had the same signal

    def run_queries(self, engine: SparkEngine | LocalEngine) -> None:
        """One query after another, until nothing is to be done. SinkError: one ended with an error."""
        self._engine = engine
        self._events = filesystem_of(self._events_text, engine.session)
        self._tables = filesystem_of(self._tables_text, engine.session)
        check_folders(self._events, self._tables, is_once=self.every is None, wanted=self._format)
        while not self._is_done and not self._is_stopping:
            writer = BatchWriter(self._events_text, self._tables_text)
            try:
                self._is_done = self._run_query(writer)
            except Exception as error:  # py4j's errors have no tree of their own; the query is over in any case
                failed = writer.failure or error
                if self._is_stopping:
                    break  # Java had the same signal, and ended first; its batch is repeated at the next start
                if self.every is None or not _is_full(failed):
                    silence_java()
                    raise SinkError(f"the pipeline ended: {reason_of(failed)}") from error
                if time.monotonic() - self._said_full_s > SAY_FULL_S:
                    text = f"the disk is full: {reason_of(failed)}"
                    say(f"{text}; trying again every {HEAL_S:.0f} s, nothing is lost")
                    self._said_full_s = time.monotonic()
                self._pause(HEAL_S)

    def _run_query(self, writer: BatchWriter) -> bool:
        """It has read all that is there; False: another one is to follow, or none. Whatever ends it is raised."""
        remove_leftovers(self._tables)
        finish_if_alone(self._tables)
        writer.tell_writer(self._events)
        writer.resume(self._engine.session, partial(self._engine.work_on, self._events))
        self._say_never_read()
        has_all = False
        try:
            has_all = self._watch(self._engine.start(self._events, writer, self.every), writer)
        except Exception as error:  # as above
            text = f"{writer.failure or ''} {error}"
            if ROLL_WORD not in text and STOP_WORD not in text:
                raise
            return False
        if not self._is_stopping:
            self._look()
        return has_all

    def _watch(self, query: SparkQuery | LocalQuery, writer: BatchWriter) -> bool:
        """Until the query ends, or a signal comes: False; raises what ended it."""
        looked_s = time.monotonic()
        try:
            while not query.wait(POLL_S):
                if self._is_stopping:
                    writer.is_stopping = True  # a batch that runs is ended first, another one not begun
                    until_s = time.monotonic() + STOP_S
                    while query.is_busy and time.monotonic() < until_s and not query.wait(POLL_S):
                        pass
                    return False
                if time.monotonic() - looked_s > LOOK_S:
                    self._look()
                    writer.tell_writer(self._events)
                    looked_s = time.monotonic()
            return True
        finally:
            self.is_hanging |= not _within(END_S, query.stop)

    def _look(self) -> None:
        """What is to be done now and then beside the batches."""
        self._say_never_read()
        now = datetime.now(UTC)
        try:
            first, last = (f"{now + timedelta(days=days):%Y-%m-%d}" for days in (-MERGED_DAYS, 1))
            # Files of requests are links to segments, and cost nothing until somebody merges them.
            compact(self._tables, self._engine, last, since=first, least=MANY_FILES, without=(REQUESTS,))
        except BadFolder:  # somebody else compacts
            return
        removed = remove_old(self._tables, self._keeping, now)
        if removed:
            say(f"{len(removed)} days of tables were removed, as --keep says: {removed[0]} to {removed[-1]}")

    def _say_never_read(self) -> None:
        for text in never_read(self._events):
            if text not in self._told:
                self._told.add(text)
                say(text)

    def _pause(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and not self._is_stopping:
            time.sleep(POLL_S)


def compact_tables(tables: str, before: str) -> Compacted:
    """`compaction.compact` on a folder as somebody typed it, with Spark where that is needed to reach it. SinkError:
    says why not."""
    with _reached(tables) as (place, engine):
        return compact(place, engine, before)


def upgrade_tables(tables: str) -> Upgraded:
    """`upgrade.upgrade` on a folder as somebody typed it. SinkError: says why not."""
    with _reached(tables) as (place, engine), locked(None, local_path(tables)):
        return upgrade(lambda events: filesystem_of(events, engine.session), place)


@contextlib.contextmanager
def _reached(tables: str) -> Iterator[tuple[FileSystem, SparkEngine | LocalEngine]]:
    path = local_path(tables)
    if path is not None and not path.is_dir():
        raise BadFolder(f"there is no folder of tables {path}; {MAKES_TABLES.format(tables=path)} makes one")
    session = None if path is not None else open_session("local[1]")
    try:
        yield filesystem_of(_absolute(tables), session), LocalEngine() if session is None else SparkEngine(session)
    except OSError as error:
        raise SinkError(f"the tables were left as they are: {error}; what was done is done") from error
    finally:
        if session is not None:
            session.stop()


class _Left(BaseException):
    """A second signal came while Spark started."""


def _within(seconds: float, call: Callable[[], Any]) -> bool:
    """Has it returned, or failed, in time? It may wait for a Java that is gone, or have had the same signal."""

    def quiet() -> None:
        with contextlib.suppress(Exception):
            call()

    thread = threading.Thread(target=quiet, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


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
