"""Every number of the report, decided once: printers and plots only lay out."""

from datetime import datetime
from pathlib import Path
from typing import Final

from broker import events as kinds
from spark_sink.errors import BadFolder
from spark_sink.report import DEFAULT_TAG
from spark_sink.report.access.facts import access_of
from spark_sink.report.cluster.facts import cluster_of
from spark_sink.report.cluster.gaps import gaps_of
from spark_sink.report.cluster.load import BROKER_LOAD, loads_of
from spark_sink.report.cluster.runs import make_runs
from spark_sink.report.feed.facts import files_of
from spark_sink.report.messages.facts import messages_of
from spark_sink.report.reading import END_US, Record, TableReader, read_tables
from spark_sink.report.routes.lifetimes import lifetimes_of
from spark_sink.report.times import SECOND_US
from spark_sink.report.traffic.balance import balances_of
from spark_sink.report.traffic.callers import callers_of, rejections_of
from spark_sink.report.traffic.facts import traffic_of
from spark_sink.report.traffic.fanout import fanouts_of
from spark_sink.report.traffic.grains import Source, by_the_second, source_of
from spark_sink.report.traffic.instances import by_tag, instances_of
from spark_sink.report.traffic.periods import period_before
from spark_sink.tables import GAPS, LIFECYCLE, MAKES_TABLES, MESSAGES, ROUTES, SESSIONS, check_tables
from spark_sink.timestamps import micros_of, moment_at

REMOTE: Final = "broker "  # what `peer` of another broker's route begins with
_TOLD: Final = (
    *(kinds.BROKER_DIED, kinds.BROKER_JOINED, kinds.BROKER_LEFT, kinds.BROKER_STARTED, kinds.BROKER_STOPPED),
    *(kinds.LINK_DOWN, kinds.LINK_UP, kinds.ROUTE_JOINED, kinds.ROUTE_LEFT, kinds.ROUTE_REPLACED, kinds.TABLE_DIGEST),
)
_TOLD_COLUMNS: Final = "broker_id, epoch, seq, us, kind, event, route_id, service, tags, reason, detail, uptime_ms"
_RUN: Final = "broker_id, epoch, broker_name, us"


class Facts(Record):
    """All that the report tells, see `_facts`."""

    @property
    def is_empty(self) -> bool:
        return self.first is None


def read_facts(tables: Path, since: datetime | None = None, tag: str = DEFAULT_TAG) -> Facts:
    """Everything that the tables tell from `since` on, rounded down to the grain of the sums that are read. `tag`: of
    routes, by which requests are put together, too. BadFolder: there are no tables, or they cannot be read.
    MissingPart: DuckDB is not installed."""
    if not tables.is_dir():
        what = "is a file, no folder of tables" if tables.exists() else "is not there"
        raise BadFolder(f"{tables} {what}: {MAKES_TABLES.format(tables=tables)} makes tables in a folder")
    check_tables(tables)
    return read_tables(tables, lambda reader: _facts(reader, since, tag))


def _facts(reader: TableReader, since: datetime | None, tag: str) -> Facts:
    source = source_of(reader, 0 if since is None else micros_of(since))
    begin_us = source.begin_us
    lifecycle = reader.rows_of(LIFECYCLE, begin_us)
    reader.make("told", f"SELECT {_TOLD_COLUMNS} FROM {lifecycle} WHERE kind IN {_TOLD} OR event = '{BROKER_LOAD}'")
    reader.make("left_routes", f"FROM {reader.rows_of(SESSIONS, begin_us)} WHERE is_local = 1")
    _make_snapshots(reader, begin_us)
    seen = " UNION ALL ".join(f"SELECT {_RUN} FROM {table}" for table in (lifecycle, "left_routes", "snapshots"))
    run = "broker_id, epoch, max_by(broker_name, us) AS broker_name, max(us) AS last_us"
    is_broker = " AND ".join(f"NOT starts_with(broker_id, '{each}')" for each in kinds.GATEWAYS)
    reader.make("heard", f"SELECT {run} FROM ({seen}) WHERE {is_broker} GROUP BY broker_id, epoch")
    make_runs(reader)
    events = reader.records(
        "SELECT event, count(*) AS count, min(us) AS first_us, max(us) AS last_us "
        f"FROM {lifecycle} GROUP BY event ORDER BY event"
    )
    place = {name: number for number, name in kinds.KIND_NAMES.items()}
    events.sort(key=lambda one: place.get(one.event, len(place) + 1))
    shown = by_the_second(reader, source)
    first_us, last_us = _span(reader, shown)
    traffic = traffic_of(reader, shown)
    cluster = cluster_of(reader)
    return Facts(
        since=None if since is None else moment_at(begin_us),  # what was asked for; None: all there is
        first=None if first_us is None else moment_at(first_us),  # of all records; None: there are none
        last=None if last_us is None else moment_at(last_us),
        traffic=traffic,
        before=period_before(reader, source, traffic.latencies.model),  # the same length of time before, or None
        instances=instances_of(reader),
        by_tag=by_tag(reader, tag),
        balances=balances_of(reader),
        fanouts=fanouts_of(reader, begin_us),
        lifetimes=lifetimes_of(reader),
        callers=callers_of(reader, begin_us),
        rejections=rejections_of(reader, begin_us),
        access=access_of(reader, begin_us),
        cluster=cluster,
        loads=loads_of(reader, cluster.brokers),
        messages=messages_of(reader, begin_us),
        files=files_of(reader, begin_us),
        events=events,
        gaps=gaps_of(reader, begin_us),
    )


def _make_snapshots(reader: TableReader, begin_us: int) -> None:
    """The tables `snapshots`, of each run the rows of its last whole snapshot of the routing table and of later ones,
    which were cut; and `there`, the routes that were there at any time, for whoever left after a snapshot is in
    `left_routes`. A whole snapshot ends with a TableDigest of the same moment; without any the last one counts."""
    digests = f"SELECT broker_id, epoch, max(us) AS digest_us FROM told WHERE kind = {kinds.TABLE_DIGEST} GROUP BY ALL"
    last = f"SELECT broker_id, epoch, max(us) AS us FROM {reader.rows_of(ROUTES, begin_us)} GROUP BY broker_id, epoch"
    whole = "broker_id, epoch, coalesce(digest_us, us) AS whole_us"
    reader.make("seen_runs", f"SELECT {whole} FROM ({last}) LEFT JOIN ({digests}) USING (broker_id, epoch)")
    [(oldest_us,)] = reader.rows(f"SELECT coalesce(min(whole_us), {END_US - 1}) FROM seen_runs")
    reader.make(
        "snapshots",
        f"SELECT *, us = whole_us AS is_last, NOT starts_with(peer, '{REMOTE}') AS is_local "
        f"FROM {reader.rows_of(ROUTES, oldest_us)} JOIN seen_runs USING (broker_id, epoch) WHERE us >= whole_us",
    )
    joined = f"(FROM told WHERE kind = {kinds.ROUTE_JOINED})"
    parts = [f"SELECT service, route_id FROM {part}" for part in ("snapshots", "left_routes", joined)]
    reader.make("there", f"SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)})")


def _span(reader: TableReader, source: Source) -> tuple[int | None, int | None]:
    """The first and the last moment of the tables. A piece of traffic in which a broker's first known run began does so
    with that run."""
    told = [reader.rows_of(table, source.begin_us) for table in (LIFECYCLE, MESSAGES, GAPS)]
    moments = (*told, "left_routes", "(SELECT last_us AS us FROM heard)")
    spans = [f"SELECT min(us) AS low, max(us) AS high FROM {rows}" for rows in moments]
    size_us = source.grain_s * SECOND_US
    runs = (
        "SELECT broker_id, started_us FROM runs QUALIFY row_number() OVER (PARTITION BY broker_id ORDER BY epoch) = 1"
    )
    pieces = f"SELECT broker_id, min(us) AS first_us, max(us) AS last_us FROM {source.rows} GROUP BY broker_id"
    spans.append(
        f"SELECT CASE WHEN started_us // {size_us} * {size_us} = first_us THEN started_us ELSE first_us END AS low, "
        f"greatest(low, last_us) FROM ({pieces}) LEFT JOIN ({runs}) USING (broker_id)"
    )
    [(first_us, last_us)] = reader.rows(f"SELECT min(low), max(high) FROM ({' UNION ALL '.join(spans)})")
    return first_us, last_us
