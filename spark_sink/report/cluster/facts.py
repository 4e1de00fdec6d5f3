"""The brokers, what they did, the links between them, and how many routes each knew over time.

A link is told by both of its ends; each end's record counts. Whether it is up is asked of the last run of a broker:
as many LinkUp as LinkDown, and it is down. Brokers with one name, and one that came back with another id, are told
apart by their ids; an event of a link has only the neighbour's name, and means the one that started last.
"""

from typing import Final

from broker.events import LINK_DOWN, LINK_UP, TABLE_DIGEST
from spark_sink.history.records import RUNNING
from spark_sink.report.cluster.runs import tag
from spark_sink.report.reading import Record, TableReader
from spark_sink.report.texts import NO_NAME
from spark_sink.report.times import SECOND_US, bins_of
from spark_sink.terminal import SHORT_ID

MAX_BROKERS: Final = 40  # of a picture and a table
MAX_LINKS: Final = 100  # rows

# Each broker over all its runs in this time, and what came to it from callers of its own. Those that no record tells of
# but their sums have one run. The name is that of the last run, with a piece of the id where several have it.
_BROKERS: Final = f"""
SELECT broker_id, CASE WHEN count(*) OVER (PARTITION BY own) = 1 THEN own
    ELSE own || ' (' || coalesce(nullif(left(broker_id, {SHORT_ID}), ''), '{NO_NAME}') || ')' END AS name,
    coalesce(runs, 1) AS runs, coalesce(state, '{RUNNING}') AS state, coalesce(version, '') AS version,
    coalesce(core, '') AS core, coalesce(requests, 0) AS requests, coalesce(errors, 0) AS errors, routes, local
FROM (SELECT *, coalesce(name, broker_name) AS own FROM last_runs
    JOIN (SELECT broker_id, count(*) AS runs FROM runs GROUP BY broker_id) USING (broker_id)
    FULL JOIN (SELECT broker_id, max(broker_name) AS broker_name, sum(requests)::BIGINT AS requests,
        sum(errors)::BIGINT AS errors FROM sums GROUP BY broker_id) USING (broker_id))
"""
# The events of links with the known name with which their detail begins, or all before its first colon. `height`: links
# that are up, if the broker still runs; a LinkDown without a LinkUp before it counts for none.
_STEPS: Final = f"""
SELECT *, sum(step) OVER (PARTITION BY broker_id, neighbour ORDER BY epoch, seq) AS height FROM (
    SELECT told.*, kind = {LINK_UP} AS is_up,
        CASE WHEN state <> '{RUNNING}' THEN 0 WHEN is_up THEN 1 ELSE -1 END AS step,
        coalesce((SELECT max_by(name, length(name)) FROM named
            WHERE detail = name OR starts_with(detail, name || ': ')), split_part(detail, ': ', 1)) AS neighbour
    FROM told JOIN runs USING (broker_id, epoch) WHERE kind IN ({LINK_UP}, {LINK_DOWN})
)"""
# What one broker told of its links to another, whose id is empty if it has no records. `up_ms`: how long those that
# ended had been up, together; `reason`: of the last LinkDown, or empty.
_LINKS: Final = f"""
SELECT told.broker_id, brokers.name AS broker, coalesce(named.broker_id, '') AS neighbour_id,
    coalesce(other.name, told.neighbour) AS neighbour, ups, downs, is_up, up_ms, reason, count(*) OVER () AS total
FROM (SELECT broker_id, neighbour, count(*) FILTER (is_up) AS ups, count(*) FILTER (NOT is_up) AS downs,
        sum(step) > least(0, min(height)) AS is_up, coalesce(sum(uptime_ms) FILTER (NOT is_up), 0)::BIGINT AS up_ms,
        coalesce(max_by(reason, (epoch, seq)) FILTER (NOT is_up), '') AS reason
    FROM ({_STEPS}) GROUP BY broker_id, neighbour) AS told
JOIN brokers ON brokers.broker_id = told.broker_id LEFT JOIN named ON named.name = neighbour
LEFT JOIN brokers AS other ON other.broker_id = named.broker_id
ORDER BY is_up DESC, broker, neighbour LIMIT {MAX_LINKS}
"""


def cluster_of(reader: TableReader) -> Record:
    """Brokers with the most requests, and their links, those that are up first. Of the tables `runs`, `last_runs`,
    `sums` and `told`. `bins`: of the brokers' `routes_over_time`, their own routes in the last snapshot in each; None:
    there is none."""
    reader.make("brokers", _BROKERS)
    brokers, count = reader.ranked(
        f"SELECT *, count(*) OVER () AS total FROM brokers ORDER BY requests DESC, broker_id LIMIT {MAX_BROKERS}"
    )
    digests = f"(FROM told WHERE kind = {TABLE_DIGEST})"
    second = f"us // {SECOND_US} * {SECOND_US}"
    [(low_us, high_us)] = reader.rows(f"SELECT min({second}), max({second}) FROM {digests}")
    bins = bins_of(low_us, high_us, grain_s=1)
    local = f"max_by(try_cast({tag('local')} AS BIGINT), us)"
    lines = bins.lines(
        reader.rows(f"SELECT broker_id, {bins.of('us')} AS number, {local} FROM {digests} GROUP BY broker_id, number")
    )
    for broker in brokers:
        broker.routes_over_time = lines[broker.broker_id]
    # by name: the broker that started last
    reader.make("named", "SELECT name, max_by(broker_id, (epoch, broker_id)) AS broker_id FROM runs GROUP BY name")
    links, link_count = reader.ranked(_LINKS)
    return Record(brokers=brokers, broker_count=count, links=links, link_count=link_count, bins=bins)
