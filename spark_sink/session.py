"""A Spark session for the jobs of this room: which settings it has, and what is told when it does not start.

Knows nothing of events and tables.
"""

import contextlib
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from spark_sink.columns import Column, arrow_schema, spark_ddl
from spark_sink.errors import MissingPart, SinkError
from spark_sink.java import ensure_java

_is_java_silent: Final = threading.Event()
_INCUBATOR: Final = b"WARNING: Using incubator modules"
CAUSE: Final = "Caused by: "  # in Java's stacks, before the class and the message
WORKER: Final = "An exception was thrown from the Python worker"  # before a stack of Python's
LOGGING: Final = Path(__file__).with_name("log4j2.properties")  # Spark's own tells its life story
# What pyspark says of a query, without a stack.
_ENDED: Final = re.compile(r"terminated with exception: (?:[\w.$]+: )?(.*?)(?: SQLSTATE: \w+)?$")
# The fast compiler alone and a collector without threads. Python does what grows with records, so the second compiler
# costs more than it saves: in catching up it would take a third of all CPU.
LITTLE_WORK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

SQL_SETTINGS: Final = {  # of a session, whoever started Spark
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",  # as `work.BUCKETS`; the default of 200 makes each small batch take seconds
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Where rows are whole files: a task holds one such batch, its worker another.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    "spark.sql.streaming.stopTimeout": "2s",  # else whoever stops a query waits for its batch for ever
    # A task for many small segments: by default it is one for 32 of them.
    "spark.sql.files.openCostInBytes": "262144",
    # Of a thousand segments each would be a task otherwise, only to see that it is there.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}
CLIENT_SETTINGS: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}  # of a Spark of its own
SUBMITTED_SETTINGS: Final = {"spark.log.level": "ERROR"}  # else it shows each plan


def open_session(master: str | None, name: str = "rsocket-broker pipeline") -> Any:
    """A Spark session for a job of this room. MissingPart: no pyspark, no Java. SinkError: it did not start.

    `master`: as Spark spells it, `sc://host` of a Spark Connect server, or None when spark-submit has said it;
    `name`: what Spark shows of it."""
    try:
        from pyspark.sql import SparkSession  # optional: the extra spark
    except ImportError as error:
        raise MissingPart('this command needs pyspark: pip install "rsocket-broker[spark]"') from error
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # or it prints the stack of what we are about to tell
    logging.getLogger().addFilter(_is_not_of_py4j)  # which uses this one, too
    if master is not None and master.startswith("sc://"):  # of a Spark Connect server
        builder = SparkSession.builder.remote(master)
        settings = SQL_SETTINGS
    elif master is None:
        builder = SparkSession.builder
        settings = SQL_SETTINGS | CLIENT_SETTINGS | SUBMITTED_SETTINGS
    else:
        os.environ["JAVA_HOME"] = str(ensure_java())
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        if master.startswith("local") or not os.environ.get("PYSPARK_PYTHON"):  # else it is that of the cluster
            os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(master)
        settings = session_settings(master)
    builder = builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with java_errors():
            return builder.getOrCreate()
    except Exception as error:  # pyspark raises its own, py4j's, grpc's and RuntimeError here
        raise _not_started(master, error) from error


@contextlib.contextmanager
def java_errors() -> Iterator[None]:
    """What a Java that starts meanwhile writes to standard error, for as long as it runs, goes through this process:
    its warning of a module that Spark asks for is left out, and so is everything after `silence_java`."""
    read, write = os.pipe()
    own = os.dup(2)
    os.dup2(write, 2)  # what Java inherits
    os.close(write)
    threading.Thread(target=_forward, args=(read, own), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(own, 2)


def silence_java() -> None:
    """It and its workers are about to be interrupted, or have failed: we say so, and their stacks are left out."""
    _is_java_silent.set()


def children() -> set[int]:
    """Processes that this thread has started and that run, by their ids; on Linux, and elsewhere nothing."""
    try:
        return set(map(int, Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()))
    except OSError:
        return set()


def _forward(read: int, own: int) -> None:
    with os.fdopen(read, "rb") as lines:
        for line in lines:
            if not line.startswith(_INCUBATOR) and not _is_java_silent.is_set():
                with contextlib.suppress(OSError):  # nobody reads our standard error any more
                    os.write(own, line)
    os.close(own)


def nothing(session: Any, columns: Sequence[Column]) -> Any:
    """A DataFrame with these columns and no rows. Of an Arrow table, which the JVM reads itself: a list goes through
    Python workers, whose first start takes seconds."""
    return session.createDataFrame(arrow_schema(columns).empty_table(), spark_ddl(columns))


def is_submitted() -> bool:
    """This program was started by spark-submit, which has said the master and has started Java."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def session_settings(master: str) -> dict[str, str]:
    """Spark's settings for a job of this room that starts Spark itself."""
    settings = SQL_SETTINGS | CLIENT_SETTINGS
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings |= {"spark.driver.memory": "512m", "spark.default.parallelism": "2"}
        settings |= {"spark.sql.shuffle.partitions": "2"}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    options = f"-Dlog4j2.configurationFile={LOGGING.as_uri()} {LITTLE_WORK_JAVA}"
    settings["spark.driver.extraJavaOptions"] = options
    return settings


def _not_started(master: str | None, error: Exception) -> SinkError:
    if isinstance(error, ImportError) or type(error).__name__ == "PySparkImportError":
        return MissingPart(f'Spark Connect needs more of pyspark: pip install "pyspark[connect]" ({reason_of(error)})')
    return SinkError(f"Spark did not start{f' on {master}' if master else ''}: {reason_of(error)}")


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def reason_of(error: Exception) -> str:
    """The root cause in one line: the last that Java's stacks name, or what Spark says ended a query, else the first
    line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    is_unheard = type(error).__name__ == "Py4JError" and len(lines) == 1  # else it has the stack of Java
    if is_unheard or type(error).__name__ == "Py4JNetworkError" or isinstance(error, ConnectionError | EOFError):
        return "the Java of Spark is gone; was it killed, or short of memory?"
    if lines and lines[0].startswith(WORKER):
        return lines[-1]
    causes = [line for line in lines if line.startswith(CAUSE)]
    if causes:
        return re.sub(r"^[\w.$]+: ", "", causes[-1].removeprefix(CAUSE))
    ended = _ENDED.search(lines[0]) if lines else None
    return ended[1] if ended is not None else lines[0] if lines else type(error).__name__
