"""The tables that the pipeline makes of events: their columns, where their files lie, and reading them without Spark.

    <tables>/<table>/date=2026-11-20/<generation>-<batch>.parquet    one file per table, day and batch of the pipeline
    <tables>/requests/date=2026-11-20/<segment>                      segments under their own names
    <tables>/gaps/date=2026-11-20/<broker>-<epoch>.died.parquet      a broker that ended without a word
    <tables>/_checkpoints/                                           what the pipeline has read; belongs to the tables

Rows of `traffic`, `callers`, `rejections`, `calls`, `access`, `denials` and `changes` are partials: sums of what one
batch saw of a minute, of `calls` a day, so that the same minute can stand in many files. Whoever reads adds them up:
counts and sums with +, maxima with max, histograms bucket by bucket. A record that comes late is just one more partial,
and brokers merge like batches do.

`traffic_by_hour`, `traffic_by_day` and so on are roll-ups: the same sums of an hour or a day. A batch that writes a
minute writes its hour and its day, too, so each of the three tells of the same requests and none waits for another.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_sink.columns import BIGINT, TAGS, TEXT, TIME, Column, arrow_schema
from spark_sink.delta_log import table_paths
from spark_sink.errors import BadFolder, NoFile
from spark_sink.event_files.layout import check_file
from spark_sink.schema import (
    FILE_COLUMNS,
    FLOW_COLUMNS,
    FLOW_SUMS,
    LIFECYCLE_COLUMNS,
    MESSAGE_COLUMNS,
    ORIGIN_COLUMNS,
    REQUEST_COLUMNS,
)

TRAFFIC: Final = "traffic"
CALLERS: Final = "callers"
REJECTIONS: Final = "rejections"
REQUESTS: Final = "requests"
LIFECYCLE: Final = "lifecycle"
ROUTES: Final = "routes"
SESSIONS: Final = "sessions"
MESSAGES: Final = "messages"
FILES: Final = "files"
GAPS: Final = "gaps"
ACCESS: Final = "access"
DENIALS: Final = "denials"
CALLS: Final = "calls"
CHANGES: Final = "changes"
CHECKPOINTS: Final = "_checkpoints"

# Outcomes that the service or the broker is to blame for; a request that its caller gave up is no failure.
FAILED_OUTCOMES: Final = ("error", "rejected", "route_lost")

LEFT: Final = "left"
REPLACED: Final = "replaced"
REMOVED: Final = "removed"
BROKER_DIED: Final = "broker-died"
BAD_FILE: Final = "bad-file"
DIED_SUFFIX: Final = ".died.parquet"  # of a file of `gaps` with the one row of a run that died

# Names of columns up to schema version 3, words of SQL, which none has now.
MAKES_TABLES: Final = "rsocket-broker pipeline run --events EVENTS --tables {tables} --once"  # EVENTS: a folder
OLD_NAMES: Final = {"at": "event_time", "order": "choice", "end": "ended_as"}  # old name -> new name

RETRIES: Final = 5  # compaction takes a day's files once; five times in a row somebody else takes them

T = TypeVar("T")

_FLOW: Final = {column.name: column for column in FLOW_COLUMNS}
_LIFECYCLE: Final = {column.name: column for column in LIFECYCLE_COLUMNS}
_MINUTE: Final = Column("minute", TIME, "begin of the minute in which the flow's interval began")


MINUTE: Final = "minute"
HOUR: Final = "hour"
DAY: Final = "day"
GRAINS: Final = (MINUTE, HOUR, DAY)  # what one row of a partial sums up, from the finest on


def _keys(*names: str) -> tuple[Column, ...]:
    return (_MINUTE, *ORIGIN_COLUMNS[:2], *(_FLOW[name] for name in names))


class Partial(NamedTuple):
    """A table of partials: rows of records grouped by keys, with sums, perhaps a maximum and a histogram."""

    name: str
    keys: tuple[Column, ...]  # the first is the time, named after the grain
    sums: tuple[str, ...]  # columns that are added up
    has_max: bool = True
    has_histogram: bool = False
    has_span: bool = False  # the first and the last moment

    @property
    def columns(self) -> tuple[Column, ...]:
        """Keys first."""
        largest = (MAX_COLUMN,) if self.has_max else ()
        histogram = HISTOGRAM_COLUMNS if self.has_histogram else ()
        span = SPAN_COLUMNS if self.has_span else ()
        return (*self.keys, *(_COUNTED[name] for name in (*self.sums, *largest, *histogram, *span)))

    @property
    def grain(self) -> str:
        """One of `GRAINS`, and the name of the column of the time."""
        return self.keys[0].name

    def rolled_up(self, grain: str) -> "Partial":
        """The table with the same sums of a longer time."""
        time = Column(grain, TIME, f"begin of the {grain} in which the flow's interval began")
        return self._replace(name=f"{self.name}_by_{grain}", keys=(time, *self.keys[1:]))


MAX_COLUMN: Final = "latency_max_us"
HISTOGRAM_COLUMNS: Final = ("latency_buckets", "latency_counts")
SPAN_COLUMNS: Final = ("first_at", "last_at")
_TIMES: Final = "times"
_COUNTED: Final = _FLOW | {
    _TIMES: Column(_TIMES, BIGINT, "how often; of requests their number"),
    "first_at": Column("first_at", TIME, "the first time"),
    "last_at": Column("last_at", TIME, "the last time"),
}

_TRAFFIC: Final = Partial(
    TRAFFIC, _keys("service", "route_id", "model", "routing", "outcome", "word"), FLOW_SUMS, has_histogram=True
)
_CALLERS: Final = Partial(
    CALLERS, _keys("caller_service", "caller_route", "service", "model", "outcome", "word"), FLOW_SUMS
)
_REJECTIONS: Final = Partial(
    REJECTIONS,
    _keys("service", "caller_service", "address", "routing", "word", "emptied_by"),
    ("requests",),
    has_max=False,
)
PARTIALS: Final = (_TRAFFIC, _CALLERS, _REJECTIONS)
ROLL_UPS: Final = tuple(partial.rolled_up(grain) for partial in PARTIALS for grain in GRAINS[1:])
# What identities have called, by the day alone: it is for roles, which change seldom.
_BY_MINUTE: Final = Partial(
    CALLS, _keys("principal", "service", "address", "outcome", "word"), ("requests",), has_max=False
)
IDENTIFIED: Final = _BY_MINUTE.rolled_up(DAY)._replace(name=CALLS)
_EVENT_MINUTE: Final = Column(MINUTE, TIME, "begin of the minute of the events")
# Made of lifecycle events.
JUDGED: Final = Partial(
    ACCESS,
    (
        *(_EVENT_MINUTE, *ORIGIN_COLUMNS[:2]),
        Column("event", TEXT, "`Admitted`, `AuthRefused` or `Revoked`"),
        Column("principal", TEXT, "the identity, `jwt:orders-7`, or `anonymous`; empty: it is not known"),
        Column("role", TEXT, "its role; empty: it has none, or there are no roles"),
        Column("word", TEXT, "code word of docs/errors.md; empty: it was admitted"),
        Column("reason", TEXT, "why it was refused, for operators; empty: it was admitted"),
    ),
    (_TIMES,),
    has_max=False,
    has_span=True,
)
REFUSED: Final = Partial(
    DENIALS,
    (
        *(_EVENT_MINUTE, *ORIGIN_COLUMNS[:2]),
        Column("principal", TEXT, "the identity, or `anonymous`"),
        Column("role", TEXT, "its role; empty: it has none"),
        Column("asked", TEXT, "`announce`, or `address`: requests"),
        Column("service", TEXT, "of `announce` the service; else empty"),
        Column("tag", TEXT, "of `announce` the tag that was in the way; else empty"),
        Column("tag_value", TEXT, "its value"),
        Column("reason", TEXT, "why, for operators"),
    ),
    (_TIMES,),
    has_max=False,
    has_span=True,
)
OPERATED: Final = Partial(
    CHANGES,
    (
        *(_EVENT_MINUTE, *ORIGIN_COLUMNS[:2]),
        Column("principal", TEXT, "who asked, `token:grafana`; empty: it is not known"),
        Column("role", TEXT, "the role of that; empty: it has none"),
        Column("peer", TEXT, "`admin` and the address of who asked"),
        Column("operation", TEXT, "`drain`, `undrain`, `redirect`, `unredirect`, `revoke`, `unrevoke`, `close` …"),
        Column("subject", TEXT, "what was to be changed: a Route Id, `region=eu`, a service, an identity, a number"),
        Column("word", TEXT, "code word of the refusal, see the REST API; empty: it was done"),
    ),
    (_TIMES,),
    has_max=False,
    has_span=True,
)
OTHERS: Final = (IDENTIFIED, JUDGED, REFUSED, OPERATED)  # partials without roll-ups

# Flow records are added up by all keys that any of the tables needs first, and the tables are made of these sums.
FINEST: Final = Partial(
    "finest",
    tuple({column.name: column for partial in (*PARTIALS, _BY_MINUTE) for column in partial.keys}.values()),
    FLOW_SUMS,
    has_histogram=True,
)

ROUTE_COLUMNS: Final = (
    Column("seen_at", TIME, "time of the snapshot: the rows of one broker with the same time are one routing table"),
    *ORIGIN_COLUMNS,
    *(
        _LIFECYCLE[name]
        for name in ("seq", "route_id", "service", "tags", "peer", "uptime_ms", "requests", "principal")
    ),
)
SESSION_COLUMNS: Final = (
    *ORIGIN_COLUMNS,
    _LIFECYCLE["seq"],
    Column("route_id", TEXT, "the route, uuid text"),
    Column("service", TEXT, "service name of the route"),
    Column("tags", TAGS, "tags of the route"),
    _LIFECYCLE["peer"],
    Column("is_local", BIGINT, "1: the route was at this broker; 0: it was at another broker"),
    Column("joined_at", TIME, "when it joined the broker's routing table: `left_at` minus `uptime_ms`"),
    Column("left_at", TIME, "when it left"),
    Column("uptime_ms", BIGINT, "how long it was there"),
    Column("requests", BIGINT, "requests that the route had served"),
    Column(
        "ended_as",
        TEXT,
        "`left`, `replaced` by another connection with its id, or `removed`: it was of another broker",
    ),
    Column("reason", TEXT, "reason of the event: a code word of docs/errors.md, `left` …"),
)
GAP_COLUMNS: Final = (
    Column("event_time", TIME, "time of the event; of `broker-died` the last known time of the run"),
    *ORIGIN_COLUMNS,
    Column(
        "first_seq",
        BIGINT,
        "the first missing record; of `broker-died` the one after the broker's last record; 0: unknown",
    ),
    Column("last_seq", BIGINT, "the last missing record; 0: unknown"),
    Column("records", BIGINT, "how many records are missing; 0: unknown"),
    Column("requests", BIGINT, "requests that the missing records counted; 0: none, or unknown"),
    Column("reason", TEXT, "of EventsDropped; `broker-died`; `bad-file`"),
    Column("detail", TEXT, "a sentence for people"),
)

COLUMNS: Final[dict[str, tuple[Column, ...]]] = {partial.name: partial.columns for partial in PARTIALS[:2]} | {
    REQUESTS: REQUEST_COLUMNS,
    LIFECYCLE: LIFECYCLE_COLUMNS,
    ROUTES: ROUTE_COLUMNS,
    SESSIONS: SESSION_COLUMNS,
    MESSAGES: MESSAGE_COLUMNS,
    FILES: FILE_COLUMNS,
    REJECTIONS: _REJECTIONS.columns,
    GAPS: GAP_COLUMNS,
    **{partial.name: partial.columns for partial in (*ROLL_UPS, *OTHERS)},
}
# table -> the time that its day is taken from
TIMES: Final = dict.fromkeys(COLUMNS, "event_time") | {
    **{partial.name: partial.grain for partial in (*PARTIALS, *ROLL_UPS, *OTHERS)},
    ROUTES: "seen_at",
    SESSIONS: "left_at",
}


def table_schema(table: str) -> pa.Schema:
    """Columns of the table's files."""
    return arrow_schema(COLUMNS[table])


def day_folders(names: Callable[[str], list[str]]) -> list[str]:
    """`traffic/date=2026-11-20` and so on, sorted. `names`: of what is in a folder of the tables."""
    return [f"{table}/{name}" for table in sorted(COLUMNS) for name in sorted(names(table)) if name.startswith("date=")]


def check_names(tables: object, table: str, names: Collection[str]) -> None:
    """BadFolder: a file with the columns `names` is of an older version. `tables`: where it lies, for the sentence."""
    old = [name for name in OLD_NAMES if name in names]
    if old:
        raise BadFolder(
            f"the table {table} in {tables} was made by an older version: its column {old[0]} has another name now. "
            f"rsocket-broker pipeline upgrade --tables {tables} renames the columns of all tables"
        )


def check_tables(tables: Path) -> None:
    """BadFolder: there is no file of a table below this folder, or an older version made the tables."""
    found = {table: sorted(table_paths(tables / table)) for table in COLUMNS}
    if not any(found.values()):
        raise BadFolder(f"{tables} holds no tables: {MAKES_TABLES.format(tables=tables)} makes them")
    for table, paths in found.items():
        _check_first(tables, table, paths)


def table_files(tables: Path, table: str, first_day: str = "") -> list[str]:
    """The files of a table, sorted, of the days from `first_day` on, "2026-11-20". BadFolder: something else has the
    name of one, and whoever opened it might wait for ever; or an older version made them."""
    files = []
    for path in table_paths(tables / table):
        if path.parent.name >= f"date={first_day}":
            try:
                check_file(path, follows_links=True)  # people spread tables over disks so
            except NoFile as error:
                raise BadFolder(f"a file of the table {table} in {tables} cannot be read: {path}: {error}") from error
            except OSError:
                pass  # it is gone, which whoever opens it hears
            files.append(path)
    files.sort()
    _check_first(tables, table, files)
    return [str(path) for path in files]


def read_table(
    tables: Path, table: str, columns: Sequence[str] | None = None, since: datetime | None = None
) -> pa.Table:
    """Rows of a table, partials as they are; empty when the pipeline has made none. BadFolder: a file of it cannot be
    read as this table.

    `columns`: only these, in this order; all by default. `since`: only rows whose time (`TIMES`) is not before it; it
    needs a zone. Days before it are not even opened."""
    schema = table_schema(table)
    names = schema.names if columns is None else list(columns)
    time = schema.field(TIMES[table])
    only = None if since is None else pc.field(time.name) >= pa.scalar(since, time.type)

    def rows(files: list[str]) -> pa.Table:
        import pyarrow.dataset as ds  # it brings pandas, half a second in each process that only writes tables

        data = ds.dataset(files, schema=schema, format="parquet") if files else ds.dataset(schema.empty_table())
        return data.to_table(columns=names, filter=only)

    return read_files(tables, table, since, rows)


def read_files(tables: Path, table: str, since: datetime | None, read: Callable[[list[str]], T]) -> T:
    """What `read` makes of the files of a table, see `table_files`; it is called anew when compaction has replaced some
    meanwhile. BadFolder: one cannot be read as this table, or they vanish again and again."""
    first_day = "" if since is None else f"{since.astimezone(UTC):%Y-%m-%d}"
    for _ in range(RETRIES):
        try:
            return read(table_files(tables, table, first_day))
        except FileNotFoundError as error:
            vanished = error
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise BadFolder(f"a file of the table {table} in {tables} cannot be read: {reason}") from error
    raise BadFolder(f"files of the table {table} in {tables} vanish while they are read: {vanished}") from vanished


def _check_first(tables: Path, table: str, paths: Sequence[Path]) -> None:
    """The same as `check_names`, of the first of these files alone: the oldest day has what an older version made."""
    for path in paths[:1]:
        try:
            check_file(path, follows_links=True)
            names = pq.read_schema(path).names
        except (pa.ArrowException, OSError, NoFile):
            return  # whoever reads it says so
        check_names(tables, table, names)
