"""Runs of brokers: one per broker and epoch, when they were heard of last and how they ended.

A run that said BrokerStopped has stopped; one of which BrokerDied was told, or that was followed by a later one without
saying so, has died. Of others only their neighbours know more: a broker that the others lost for good, and that never
lost them, has died. A cut between two living brokers is told by both, so whoever told it too is no dead one. No clocks
are compared.
"""

from typing import Final

from broker.events import BROKER_DIED, BROKER_JOINED, BROKER_LEFT, BROKER_STARTED, BROKER_STOPPED, TABLE_DIGEST
from spark_sink.history.records import DIED, RUNNING, STOPPED
from spark_sink.report.reading import TableReader

STOPPING_US: Final = 10_000_000  # before its end a broker that stops leaves the others: they are not lost

_ID: Final = r"\(([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\)"  # `eu-1 (e43dbbbe-…)`


def tag(name: str, of: str = "tags") -> str:
    """SQL: the value of a tag, null where it is missing."""
    return f"map_extract({of}, '{name}')[1]"


def make_runs(reader: TableReader) -> None:
    """The tables `runs` and, of each broker, `last_runs`. Of the tables `heard`, runs of which any table tells, and
    `told`. `started_us` is null if it is not recorded, at least not in this time; `routes` and `local` are of the last
    complete snapshot of the table, or null."""
    first, last = (f"max_by(tags, seq) FILTER (kind = {kind})" for kind in (BROKER_STARTED, TABLE_DIGEST))
    moments = ", ".join(
        f"max_by(us, seq) FILTER (kind = {kind}) AS {name}"
        for kind, name in ((BROKER_STARTED, "started_us"), (BROKER_STOPPED, "stopped_us"), (BROKER_DIED, "died_us"))
    )
    said = f"SELECT broker_id, epoch, {moments}, {first} AS first, {last} AS last FROM told GROUP BY broker_id, epoch"
    reader.make(
        "runs",
        "SELECT broker_id, broker_name AS name, epoch, last_us, started_us, "
        f"coalesce({tag('version', 'first')}, '') AS version, coalesce({tag('core', 'first')}, '') AS core, "
        f"try_cast({tag('routes', 'last')} AS BIGINT) AS routes, try_cast({tag('local', 'last')} AS BIGINT) AS local, "
        f"CASE WHEN stopped_us IS NOT NULL THEN '{STOPPED}' WHEN died_us >= last_us "
        f"OR lead(epoch) OVER (PARTITION BY broker_id ORDER BY epoch) IS NOT NULL THEN '{DIED}' ELSE '{RUNNING}' END "
        f"AS state FROM heard LEFT JOIN ({said}) USING (broker_id, epoch)",
    )
    # who told last of whom that it left
    reader.make(
        "lost",
        "FROM (SELECT broker_id AS teller_id, epoch, seq, us, kind, "
        f"regexp_extract(detail, '{_ID}', 1) AS lost_id FROM told WHERE kind IN ({BROKER_JOINED}, {BROKER_LEFT})) "
        "WHERE lost_id <> '' QUALIFY row_number() OVER (PARTITION BY teller_id, lost_id ORDER BY epoch DESC, seq DESC) "
        f"= 1 AND kind = {BROKER_LEFT}",
    )
    last_runs = "FROM runs QUALIFY row_number() OVER (PARTITION BY broker_id ORDER BY epoch DESC) = 1"
    reader.rows(
        f"UPDATE runs SET state = '{DIED}' WHERE state = '{RUNNING}' AND broker_id IN (SELECT lost_id FROM lost "
        f"JOIN ({last_runs}) AS teller ON teller_id = broker_id AND lost.epoch = teller.epoch "
        f"WHERE NOT (state = '{STOPPED}' AND last_us - us < {STOPPING_US}) "
        "AND NOT EXISTS (FROM lost AS other WHERE other.teller_id = lost.lost_id AND other.lost_id = lost.teller_id))"
    )
    reader.make("last_runs", last_runs)
