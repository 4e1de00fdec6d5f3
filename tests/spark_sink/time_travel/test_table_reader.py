import random
from pathlib import Path

import pytest

from spark_sink.errors import BadFolder
from spark_sink.time_travel import Gap, table_at
from spark_sink.time_travel.table_reader import TableReader
from spark_sink.timestamps import moment_at
from tests.spark_sink.time_travel.histories import random_history, write_segments
from tests.spark_sink.time_travel.tables import write_gap, write_tables


def test_tables_and_segments_give_the_same_table(tmp_path: Path) -> None:
    rng = random.Random(2)
    first = random_history(21, 500, snapshot_ms=30_000)
    second = random_history(22, 200, epoch=first.header.epoch + 1, at_ms=first.at_ms + 90_000)
    for history in (first, second):
        write_segments(tmp_path / "events", history, roll_ms=10_000)
    write_tables(tmp_path / "tables", first, second)
    reader = TableReader(tmp_path / "tables")
    for _ in range(25):
        at = moment_at(rng.randint(first.rows[0].at_ms, second.at_ms + 5000) * 1000)
        made, expected = table_at(reader, at), table_at(tmp_path / "events", at)
        assert (made.routes, made.digest, made.checks) == (expected.routes, expected.digest, expected.checks)
        assert (made.epoch, made.start, made.is_complete) == (expected.epoch, expected.start, True)
        assert made.notes[-1] == (
            "tables do not hold the numbers of all records: gaps are those that the broker or the pipeline told of"
        )


def test_dropped_records_and_files_that_the_pipeline_could_not_read_are_told(tmp_path: Path) -> None:
    history = random_history(23, 60)
    history.drop(20, 24)
    write_tables(tmp_path, history)
    write_gap(tmp_path, history, "bad-file", "x.parquet is torn")
    table = table_at(TableReader(tmp_path), moment_at(history.at_ms * 1000))
    assert table.gaps == (Gap(20, 24, 5, "not-taken", "lost"),)
    assert (table.problems, table.is_complete) == (("the pipeline could not read a file: x.parquet is torn",), False)


def test_snapshot_of_which_a_route_is_lost_is_no_start(tmp_path: Path) -> None:
    history = random_history(24, 200, snapshot_ms=30_000)
    history.snapshot()
    history.rows = [row for row in history.rows if row.seq != history.seq - 1]
    write_tables(tmp_path, history)
    table = table_at(TableReader(tmp_path), moment_at(history.at_ms * 1000))
    assert table.start_at < moment_at(history.at_ms * 1000)
    assert table.digest == history.digests[-1]


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    history = random_history(25, 200)
    write_tables(tmp_path, history, batch_rows=50)
    bad = sorted((tmp_path / "lifecycle").rglob("*.parquet"))[1]
    bad.write_bytes(b"PAR1PAR1PAR1")
    table = table_at(TableReader(tmp_path), moment_at(history.at_ms * 1000))
    assert [problem.split(" is passed over")[0] for problem in table.problems] == [str(bad)]
    assert not table.is_complete


def test_folder_without_tables_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadFolder, match="holds no tables"):
        TableReader(tmp_path)
