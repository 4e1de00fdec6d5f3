"""The whole pipeline with Spark against plain Python, on segments that the real writer sealed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from broker.events import MAX_BUCKET, bucket_low_us
from spark_sink.event_files.layout import ARCHIVE
from spark_sink.pipeline import spark as spark_module
from spark_sink.pipeline.filesystems import LocalFileSystem
from spark_sink.pipeline.progress import read_progress
from spark_sink.schema import FLOWS
from spark_sink.tables import GAPS, read_table
from tests.spark_sink.pipeline.batches import seal_requests
from tests.spark_sink.pipeline.folders import (
    BEFORE_MIDNIGHT_MS,
    EventSource,
    assert_tables_tell,
    bucket_sql,
    request_seqs,
    run_once,
    seal,
)
from tests.spark_sink.records import HEADER, PROJECT, Event, events, header_with


@pytest.mark.spark
def test_engines_take_turns_on_one_folder_and_repeat_the_batch_of_the_other(spark: Any, tmp_path: Path) -> None:
    source, records = EventSource(tmp_path / "events", tmp_path / "tables"), list[Event]()
    for turn in range(4):
        more = events(turn, 40, BEFORE_MIDNIGHT_MS, first_seq=len(records) + 1)
        seal(source.events, more, header=header_with(first_number=100 * turn + 1))
        seal_requests(source.events, range(1000 + 50 * turn, 1050 + 50 * turn))
        records += more
        if turn == 2:
            source.run_undone()
        run_once(spark if turn % 2 == 0 else None, source.events, source.tables)
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(1000, 1200))
    assert read_progress(LocalFileSystem(source.tables)).done == 4


@pytest.mark.spark
def test_tables_equal_what_the_records_say_however_often_the_pipeline_runs(spark: Any, tmp_path: Path) -> None:
    folder, tables = tmp_path / "the [events] 100%", tmp_path / "the tables"
    first = events(1, 500, BEFORE_MIDNIGHT_MS)
    seal(folder, first)
    seal_requests(folder, range(1000, 1100))
    run_once(spark, folder, tables)
    assert_tables_tell(tables, first)
    second = events(2, 300, BEFORE_MIDNIGHT_MS - 3_600_000, first_seq=501)  # late ones too
    seal(folder, second, header=header_with(first_number=100))
    run_once(spark, folder, tables)
    run_once(spark, folder, tables)
    assert_tables_tell(tables, [*first, *second])
    assert request_seqs(tables) == list(range(1000, 1100))
    assert not list((folder / FLOWS).iterdir())
    archived = list((folder / ARCHIVE).rglob("*.parquet"))
    assert len(archived) == 17
    assert {path.stat().st_mode & 0o777 for path in archived} == {0o640}
    assert (folder / ARCHIVE).stat().st_mode & 0o777 == 0o750, "and Spark makes what is below it"
    lows = spark.range(MAX_BUCKET + 1).toDF("bucket").selectExpr(bucket_sql("Spark")).collect()
    assert [row[0] for row in lows] == [bucket_low_us(bucket) for bucket in range(MAX_BUCKET + 1)]


@pytest.mark.spark
def test_queries_follow_one_another_and_bad_files_are_passed_over(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, tables = tmp_path / "events", tmp_path / "tables"
    records = events(1, 180, BEFORE_MIDNIGHT_MS)
    seal(folder, records, each=30)
    bad = folder / FLOWS / f"{HEADER.broker_id}-{HEADER.epoch}-0000000009.parquet"
    data = bytearray(next((folder / FLOWS).iterdir()).read_bytes())
    data[4:800] = b"\xff" * 796  # its footer is good
    bad.write_bytes(data)
    (folder / FLOWS / "foreign.parquet").write_text("no parquet")
    for name in ("day=1", "x=2/y=3"):  # to Spark, columns that contradict each other
        (folder / FLOWS / name).mkdir(parents=True)
        (folder / FLOWS / name / "b-1-0000000001.parquet").write_bytes(data)
    monkeypatch.setattr(spark_module, "MAX_FILES_PER_BATCH", 4)
    run_once(spark, folder, tables, roll_files=6)
    assert_tables_tell(tables, records)
    assert [row["reason"] for row in read_table(tables, GAPS).to_pylist()].count("bad-file") == 2
    assert len(list((folder / FLOWS).glob("*/**/*.parquet"))) == 2, "a folder of somebody else"
    assert read_progress(LocalFileSystem(tables)).done == 4


def driver(folder: Path, *options: str) -> subprocess.Popen[str]:
    """The real command in a group of its own, so that its Java can be killed with it."""
    command = [sys.executable, "-m", "broker.commands.main", "pipeline", "run"]
    folders = ["--events", str(folder / "events"), "--tables", str(folder / "tables"), "--master", "local[2]"]
    return subprocess.Popen(
        [*command, *folders, *options], cwd=PROJECT, start_new_session=True, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.usefixtures("short_spark")
def test_driver_killed_three_times_in_mid_batch_and_stopped_at_last_has_each_record_once(tmp_path: Path) -> None:
    """In its first batch, in one that repeats that, and in one that comes after a batch that is done."""
    records: list[Event] = []
    for kill in range(3):
        more = events(kill, 300, BEFORE_MIDNIGHT_MS, first_seq=len(records) + 1)
        seal(tmp_path / "events", more, each=50, header=header_with(first_number=len(records) + 1))
        seal_requests(tmp_path / "events", range(10_000 + 50 * kill, 10_050 + 50 * kill))
        records += more
        process = driver(tmp_path, "--every", "0 seconds")
        before = len(list((tmp_path / "tables").glob("*/date=*/*.parquet")))
        until = time.monotonic() + 240
        while len(list((tmp_path / "tables").glob("*/date=*/*.parquet"))) <= before + kill:
            assert time.monotonic() < until
            time.sleep(0.02)  # a batch takes longer; to look without a pause takes the CPU that it needs
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    seal_requests(tmp_path / "events", range(10_150, 10_200))  # so that there is a batch in any case
    process = driver(tmp_path, "--every", "0 seconds")
    assert process.stderr is not None
    for line in process.stderr:
        if " batch " in line and len(request_seqs(tmp_path / "tables")) == 200:
            break
    process.terminate()
    _, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert_tables_tell(tmp_path / "tables", records)
    assert request_seqs(tmp_path / "tables") == list(range(10_000, 10_200))
    assert not list((tmp_path / "events" / FLOWS).glob("*.parquet"))
