"""What became of files: how many, after how long, which consumer has what, and what was refused or given up."""

from typing import Final

from broker.events import FAILED, MIRRORED, PASSED, POSTED, REFUSED, REPEATED, REPORTED
from spark_sink.report.percentiles import make_took
from spark_sink.report.reading import Record, TableReader
from spark_sink.tables import FILES

MAX_FEEDS: Final = 30
MAX_CONSUMERS: Final = 15
MAX_LACKING: Final = 15
MAX_TROUBLE: Final = 15
# Codes after which a consumer has the file, as of the log of posts.
HAS_IT: Final = (201, 203, 205, 304)
_FEED: Final = "broker_id, feed"


def files_of(reader: TableReader, begin_us: int) -> Record:
    """`rows`: of each feed, the busiest first. `consumers`: of each feed, those that lack most first. `lacking`: files
    that one of these lacks, the oldest first. `trouble`: what was refused and given up, by reason."""
    rows = reader.rows_of(FILES, begin_us)
    found = Record(rows=[], count=0, consumers=[], consumer_count=0, lacking=[], lacking_count=0)
    found.trouble, found.trouble_count = [], 0
    if not reader.rows(f"SELECT 1 FROM {rows} LIMIT 1"):
        return found
    found.rows, found.count = _feeds(reader, rows)
    found.consumers, found.consumer_count = _consumers(reader, rows)
    found.lacking, found.lacking_count = reader.ranked(
        "SELECT feed, path, posted_us, string_agg(consumer, ', ' ORDER BY consumer) AS consumers, "
        "count(*) OVER () AS total FROM lacking JOIN (SELECT file, path FROM standing) USING (file) "
        "GROUP BY file, feed, path, posted_us "
        f"ORDER BY posted_us, feed, path LIMIT {MAX_LACKING}"
    )
    found.trouble, found.trouble_count = reader.ranked(
        "SELECT broker_name, feed, outcome, code, reason, count(*) AS files, max(tries) AS tries, max(us) AS last_us, "
        f"count(*) OVER () AS total FROM {rows} WHERE outcome IN ('{REFUSED}', '{FAILED}') "
        "GROUP BY broker_name, feed, outcome, code, reason "
        f"ORDER BY files DESC, broker_name, feed, outcome, code, reason LIMIT {MAX_TROUBLE}"
    )
    return found


def _feeds(reader: TableReader, rows: str) -> tuple[list[Record], int]:
    took = make_took(reader, f"{rows} WHERE outcome = '{MIRRORED}'", _FEED)
    outcomes = (POSTED, MIRRORED, REPEATED, PASSED, REFUSED, FAILED)
    sums = ", ".join(
        f"coalesce(sum(files) FILTER (outcome = '{outcome}'), 0)::BIGINT AS {outcome}" for outcome in outcomes
    )
    fetched = f"coalesce(sum(bytes) FILTER (outcome = '{MIRRORED}'), 0)::BIGINT AS bytes"
    return reader.ranked(
        f"SELECT broker_name, feed, {', '.join(outcomes)}, bytes, p50_ms, p99_ms, max_ms, count(*) OVER () AS total "
        f"FROM (SELECT {_FEED}, max_by(broker_name, us) AS broker_name, {sums}, {fetched}, sum(files) AS files "
        f"FROM {rows} GROUP BY {_FEED}) LEFT JOIN ({took}) USING ({_FEED}) "
        f"ORDER BY files DESC, broker_name, {_FEED} LIMIT {MAX_FEEDS}"
    )


def _consumers(reader: TableReader, rows: str) -> tuple[list[Record], int]:
    """Those that have reported. Makes `standing`, files by number, and `lacking`, a row for each of them that one of
    the consumers that are given lacks."""
    # A file stands as long as its last post does not say that it is gone.
    reader.make(
        "standing",
        f"SELECT *, row_number() OVER () AS file FROM (SELECT {_FEED}, path, max(posted_at) AS posted_us FROM {rows} "
        f"WHERE outcome = '{POSTED}' GROUP BY {_FEED}, path HAVING max_by(operation, (posted_at, us)) <> 'remove')",
    )
    has_it = f"outcome = '{REPORTED}' AND code IN {HAS_IT}"
    # Each block of a file has a pubTime of its own, none before that of the file's row.
    reader.make(
        "had",
        f"SELECT DISTINCT {_FEED}, consumer, file FROM {rows} JOIN standing USING ({_FEED}, path) "
        f"WHERE {has_it} AND posted_at >= posted_us",
    )
    took = make_took(reader, f"{rows} WHERE {has_it}", f"{_FEED}, consumer")
    standing = f"SELECT {_FEED}, count(*) AS standing_n FROM standing GROUP BY ALL"
    had = f"SELECT {_FEED}, consumer, count(*) AS had_n FROM had GROUP BY ALL"
    reader.make(
        "consumers",
        f"SELECT *, coalesce(had_n, 0) AS has, coalesce(standing_n, 0) - has AS lacks, count(*) OVER () AS total "
        f"FROM (SELECT {_FEED}, consumer, count(*) AS reports FROM {rows} WHERE outcome = '{REPORTED}' GROUP BY ALL) "
        f"LEFT JOIN ({standing}) USING ({_FEED}) LEFT JOIN ({had}) USING ({_FEED}, consumer) "
        f"LEFT JOIN ({took}) USING ({_FEED}, consumer) ORDER BY lacks DESC, feed, consumer, broker_id "
        f"LIMIT {MAX_CONSUMERS}",
    )
    reader.make(
        "lacking",
        f"SELECT {_FEED}, consumer, file, posted_us FROM standing JOIN consumers USING ({_FEED}) "
        f"ANTI JOIN had USING ({_FEED}, consumer, file) WHERE lacks > 0",
    )
    since = f"SELECT {_FEED}, consumer, min(posted_us) AS since_us FROM lacking GROUP BY ALL"
    return reader.ranked(
        "SELECT feed, consumer, reports, has, lacks, since_us, p50_ms, p99_ms, max_ms, total "
        f"FROM consumers LEFT JOIN ({since}) USING ({_FEED}, consumer) ORDER BY lacks DESC, feed, consumer, broker_id"
    )
