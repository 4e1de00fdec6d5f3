from pathlib import Path
from typing import Any

import pytest

from spark_sink.event_files.frames import Header
from spark_sink.time_travel import TableAt, table_at
from spark_sink.time_travel.segment_reader import SegmentReader
from spark_sink.time_travel.spark_reader import SparkReader
from spark_sink.time_travel.table_reader import TableReader
from spark_sink.timestamps import moment_at
from tests.spark_sink.records import NOON_MS
from tests.spark_sink.time_travel.histories import History, random_history, write_log, write_segments
from tests.spark_sink.time_travel.tables import write_tables

pytestmark = pytest.mark.spark

MINUTE_MS = 60_000


def test_spark_gives_the_same_of_segments_logs_and_archive(tmp_path: Path, spark: Any) -> None:
    history = random_history(31, 260, snapshot_ms=60_000)
    history.drop(history.seq - 30, history.seq - 28)
    rows = [row for row in history.rows if row.seq not in (history.seq - 60, history.seq - 80)]
    number = write_segments(
        tmp_path,
        history,
        rows[:-10],
        roll_ms=20_000,
        place=lambda source, number: tmp_path / "_archive" / "x" / source if number < 3 else tmp_path / source,
    )
    write_log(tmp_path, history, rows[-10:], number)
    torn = sorted((tmp_path / "lifecycle").glob("*.parquet"))[-3]
    torn.write_bytes(torn.read_bytes()[:-20])
    at = moment_at(history.at_ms * 1000)
    with_spark, without = table_at(SparkReader(spark, SegmentReader(tmp_path)), at), table_at(tmp_path, at)
    assert plain(with_spark) == plain(without)
    assert with_spark.problems[0].split(" is passed over")[0] == without.problems[0].split(" is passed over")[0]
    assert (len(without.problems), len(without.gaps)) == (1, 3)


def test_spark_gives_the_same_of_tables(tmp_path: Path, spark: Any) -> None:
    history = random_history(32, 200, snapshot_ms=30_000)
    write_tables(tmp_path, history)
    at = moment_at((history.at_ms - 20_000) * 1000)
    assert plain(table_at(SparkReader(spark, TableReader(tmp_path)), at)) == plain(table_at(TableReader(tmp_path), at))


def test_a_route_that_joined_at_the_latest_time_and_has_left_stays_away(tmp_path: Path, spark: Any) -> None:
    history = History()
    history.at_ms = NOON_MS + 30 * MINUTE_MS
    history.join("a" * 32, "orders", [], "unix")
    history.at_ms = NOON_MS + 10 * MINUTE_MS  # the clock was put back
    history.join("b" * 32, "orders", [], "unix")
    history.leave("a" * 32)
    write_segments(tmp_path, history)
    at = moment_at((NOON_MS + 20 * MINUTE_MS) * 1000)
    with_spark, without = table_at(SparkReader(spark, SegmentReader(tmp_path)), at), table_at(tmp_path, at)
    assert [route.route_id for route in with_spark.routes] == ["b" * 32]
    assert plain(with_spark) == plain(without)


def test_a_stream_may_have_a_quote_in_its_name(tmp_path: Path, spark: Any) -> None:
    history = random_history(33, 40)
    history.header = Header(broker_id="it's", broker_name="one", epoch=1)
    number = write_segments(tmp_path, history, history.rows[:-5])
    write_log(tmp_path, history, history.rows[-5:], number)
    at = moment_at(history.at_ms * 1000)
    with_spark, without = table_at(SparkReader(spark, SegmentReader(tmp_path)), at), table_at(tmp_path, at)
    assert (with_spark.digest, with_spark.problems) == (history.digests[-1], ())
    assert plain(with_spark) == plain(without)


def plain(table: TableAt) -> dict[str, Any]:
    return table.to_json() | {"problems": len(table.problems)}
