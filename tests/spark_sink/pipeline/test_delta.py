"""Tables of Delta: the same rows as plain ones, and a log that says at each moment which files they are in."""

import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from broker import exit_status
from broker.events import BROKER_STARTED
from spark_sink.delta_log import library, open_log, table_paths
from spark_sink.errors import BadFolder, MissingPart, SinkError
from spark_sink.pipeline import DELTA, PARQUET
from spark_sink.pipeline.compaction import compact
from spark_sink.pipeline.filesystems import LocalFileSystem
from spark_sink.pipeline.folders import check_folders
from spark_sink.pipeline.formats import delta as delta_module
from spark_sink.pipeline.formats.choice import FORMAT, format_of
from spark_sink.pipeline.formats.delta import CLEANED, DeltaTables
from spark_sink.pipeline.keeping import keeping_of, remove_old
from spark_sink.pipeline.local import LocalEngine
from spark_sink.pipeline.pipeline import Pipeline
from spark_sink.report.facts import read_facts
from spark_sink.report.printers import markdown_report
from spark_sink.tables import CHECKPOINTS, COLUMNS, GAPS, LIFECYCLE, REQUESTS, TRAFFIC, read_table, table_schema
from spark_sink.time_travel.table_reader import TableReader
from spark_sink.what_if import local as what_if_local
from spark_sink.what_if.question import Question
from spark_sink.what_if.spark import SparkEngine as WhatIfOnSpark
from tests.spark_sink.disks import Killed, QuickDisk
from tests.spark_sink.pipeline import batches
from tests.spark_sink.pipeline.batches import gaps, seal_requests, told, two_days
from tests.spark_sink.pipeline.folders import (
    BEFORE_MIDNIGHT_MS,
    EventSource,
    assert_tables_tell,
    request_seqs,
    run_command,
    run_once,
    seal,
    what_is_missing,
)
from tests.spark_sink.records import HEADER, NOON_MS, events, header_with

LATER = "2023-11-18"  # a day after those of the records


@pytest.fixture(autouse=True)
def delta() -> Any:
    """The library."""
    with what_is_missing():
        return library()


filled = partial(batches.filled, table_format=DELTA, count=40, at_ms=BEFORE_MIDNIGHT_MS)  # of two days


def compacted(source: EventSource) -> int:
    return compact(LocalFileSystem(source.tables), LocalEngine(), LATER).days


def versions(source: EventSource) -> dict[str, int]:
    return {table: open_log(source.tables / table).version() for table in COLUMNS}


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def test_tables_tell_the_same_as_plain_ones_to_everybody_who_reads_the_log(tmp_path: Path, delta: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    (plain, records), (source, _) = filled(tmp_path / "plain", table_format=PARQUET), filled(tmp_path / "delta")
    assert_tables_tell(source.tables, records)
    for table in COLUMNS:
        rows = read_table(plain.tables, table)
        assert rows_of(read_table(source.tables, table)) == rows_of(rows)
        log = delta.DeltaTable(str(source.tables / table))
        assert (log.metadata().partition_columns, log.schema().fields[-1].name) == (["date"], "date")
        assert [field.name for field in log.schema().fields[:-1]] == table_schema(table).names
        files = log.file_uris()
        if files:
            assert rows_of(pa.concat_tables(pq.ParquetFile(file).read() for file in files)) == rows_of(rows)
            assert duckdb.read_parquet(files).count("*").fetchall() == [(rows.num_rows,)]
        told = log.get_add_actions(flatten=True)
        assert sum(told.column("num_records").to_pylist()) == rows.num_rows
        sizes = dict(zip(told.column("path").to_pylist(), told.column("size_bytes").to_pylist(), strict=True))
        assert sizes == {name: (source.tables / table / name).stat().st_size for name in sizes}


def test_all_readers_take_the_files_that_the_log_names(tmp_path: Path) -> None:
    (plain, _), (source, _) = filled(tmp_path / "plain", table_format=PARQUET), filled(tmp_path / "delta")
    assert compacted(source) == compacted(plain) > 0
    assert len(list((source.tables / LIFECYCLE).glob("date=*/*"))) > len(table_paths(source.tables / LIFECYCLE))
    assert markdown_report(read_facts(source.tables)) == markdown_report(read_facts(plain.tables))
    assert TableReader(source.tables).runs() == TableReader(plain.tables).runs()
    assert [path.name for path in TableReader(source.tables).files(LIFECYCLE)] == ["compact-000001.parquet"] * 2
    engines = [
        what_if_local.LocalEngine(events=None, tables=each.tables, question=Question()) for each in (source, plain)
    ]
    assert rows_of(engines[0].records) == rows_of(engines[1].records)
    assert rows_of(engines[0].lifecycle()) == rows_of(engines[1].lifecycle())


@pytest.mark.spark
def test_spark_writes_them_the_local_engine_goes_on_and_what_if_on_spark_reads_them(spark: Any, tmp_path: Path) -> None:
    source = EventSource(tmp_path / "events", tmp_path / "tables", DELTA)
    records = two_days(source.events)
    run_once(spark, source.events, source.tables)
    more = events(7, 40, first_seq=len(records) + 1)
    seal(source.events, more, header=header_with(first_number=500))
    run_once(None, source.events, source.tables)
    assert compacted(source) > 0
    assert_tables_tell(source.tables, records + more)
    here = what_if_local.LocalEngine(events=None, tables=source.tables, question=Question())
    for tables in (str(source.tables), f"file://{source.tables}"):
        there = WhatIfOnSpark(spark, events="", tables=tables, question=Question())
        assert rows_of(there.lifecycle()) == rows_of(here.lifecycle())
        assert there.totals().num_rows == here.totals().num_rows > 0


def test_batch_that_is_repeated_is_committed_once_and_its_files_are_not_touched(tmp_path: Path) -> None:
    source = EventSource(tmp_path / "events", tmp_path / "tables", DELTA)
    records = two_days(source.events)
    source.run_undone()
    before = versions(source), {path: path.stat().st_mtime_ns for path in source.tables.glob("*/date=*/*")}
    source.run()
    assert before == (versions(source), {path: path.stat().st_mtime_ns for path in source.tables.glob("*/date=*/*")})
    assert set(before[0].values()) == {0, 1}
    assert_tables_tell(source.tables, records)


def test_batch_that_is_killed_between_two_tables_is_repeated_for_the_others_only(tmp_path: Path) -> None:
    class HalfDisk(QuickDisk):
        def sync_folder(self, folder: Path) -> None:
            if folder == source.tables / LIFECYCLE / "_delta_log":
                raise Killed

    source = EventSource(tmp_path / "events", tmp_path / "tables", DELTA)
    records = two_days(source.events)
    with pytest.raises(Killed):
        source.run(source.writer(HalfDisk()))
    done = {table for table, version in versions(source).items() if version}
    assert (LIFECYCLE in done, TRAFFIC in done, REQUESTS in done) == (True, False, False)
    source.run()
    assert set(versions(source).values()) == {0, 1}
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(1000, 1100))


def test_commit_is_on_the_disk_before_the_batch_is_done(tmp_path: Path) -> None:
    class WatchedDisk(QuickDisk):
        def sync_data(self, handle: int) -> None:
            synced.add(os.fstat(handle).st_ino)

    synced = set[int]()
    source = EventSource(tmp_path / "events", tmp_path / "tables", DELTA)
    for number in range(10):
        seal(source.events, events(1, 5, first_seq=10 * number), header=header_with(first_number=number + 1))
        source.run(source.writer(WatchedDisk()))
    log = source.tables / TRAFFIC / "_delta_log"
    names = [f"{number:020d}.json" for number in range(1, 11)]
    names += [path.name for path in log.glob("*.checkpoint.parquet")] + ["_last_checkpoint"]
    assert len(names) == 12
    assert {(log / name).stat().st_ino for name in names} <= synced


def test_log_keeps_versions_of_an_hour_and_no_more(tmp_path: Path) -> None:
    source = EventSource(tmp_path / "events", tmp_path / "tables", DELTA)
    log = source.tables / TRAFFIC / "_delta_log"
    for number in range(20):
        if number == 12:
            for path in log.iterdir():
                os.utime(path, (time.time() - 3700,) * 2)
        seal(source.events, events(1, 5, first_seq=10 * number), header=header_with(first_number=number + 1))
        source.run()
    versions_left = sorted(int(path.name[:20]) for path in log.glob("*.json"))
    assert (versions_left[0] > 1, versions_left[-1]) == (True, 20)


def test_older_version_is_readable_after_a_batch_and_a_compaction(tmp_path: Path, delta: Any) -> None:
    source, _ = filled(tmp_path)
    path = str(source.tables / TRAFFIC)
    before = {number: delta.DeltaTable(path, version=number).file_uris() for number in range(4)}
    compacted(source)
    assert [len(before[number]) for number in range(4)] == [0, 2, 4, 6]
    for number, files in before.items():
        assert delta.DeltaTable(path, version=number).file_uris() == files
        assert all(os.path.exists(file) for file in files)


def test_row_of_a_broker_that_died_moves_in_the_commit_of_the_batch(tmp_path: Path) -> None:
    source = EventSource(tmp_path / "events", tmp_path / "tables", DELTA)
    old, new = header_with(epoch=100), header_with(epoch=200)
    seal(source.events, [told(1, BROKER_STARTED)], header=old)
    seal(source.events, [told(1, BROKER_STARTED)], header=new)
    source.run()
    seal(source.events, [told(2, BROKER_STARTED)], header=header_with(epoch=100, first_number=2))  # on the same day
    source.run_undone()
    source.run()
    assert open_log(source.tables / GAPS).version() == 2
    assert gaps(source.tables) == [("broker-died", old.broker_id, 100, 3, 0)]
    assert [path.name for path in table_paths(source.tables / GAPS)] == [f"{old.broker_id}-100.2.died.parquet"]


def test_old_days_are_removed_at_once_for_readers_and_from_the_disk_when_they_have_ended(
    tmp_path: Path, delta: Any
) -> None:
    source, _ = filled(tmp_path)
    tables = LocalFileSystem(source.tables)
    now = datetime(2023, 11, 18, 1, tzinfo=UTC)
    removed = remove_old(tables, keeping_of("minute=2d,requests=1d"), now)
    assert removed == [*(f"{table}/date=2023-11-15" for table in ("callers", "rejections", "requests", "traffic"))]
    assert remove_old(tables, keeping_of("minute=2d,requests=1d"), now) == []
    assert {path.parent.name for path in table_paths(source.tables / TRAFFIC)} == {"date=2023-11-16"}
    assert request_seqs(source.tables) == []
    format_of(tables).clean()
    assert len(list(source.tables.glob("traffic/date=2023-11-15/*"))) == 3, "somebody may still read them"
    delta.DeltaTable(str(source.tables / TRAFFIC)).alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    )
    format_of(tables).clean()
    assert len(list(source.tables.glob("traffic/date=2023-11-15/*"))) == 3, "all folders are listed now and then"
    os.utime(source.tables / CHECKPOINTS / CLEANED, (0, 0))
    format_of(tables).clean()
    assert not list(source.tables.glob("traffic/date=2023-11-15/*"))
    assert len(list(source.tables.glob("requests/date=2023-11-15/*"))) == 3


def test_cleaning_leaves_links_to_old_segments_and_removes_what_no_log_names(tmp_path: Path) -> None:
    source = EventSource(tmp_path / "events", tmp_path / "tables", DELTA)
    seal_requests(source.events, range(1, 50))
    [segment] = (source.events / REQUESTS).iterdir()
    os.utime(segment, (0, 0))
    source.run()
    left = source.tables / TRAFFIC / "date=2023-11-15" / "batch-0000000009-0.parquet"
    left.parent.mkdir()
    left.touch()
    os.utime(left, (0, 0))
    format_of(LocalFileSystem(source.tables)).clean()
    assert (left.exists(), request_seqs(source.tables)) == (False, list(range(1, 50)))


def test_compaction_is_one_commit_a_day_that_changes_no_sum(tmp_path: Path, delta: Any) -> None:
    source, records = filled(tmp_path)
    rows, before = read_table(source.tables, TRAFFIC).num_rows, versions(source)
    assert compacted(source) > 0
    assert versions(source)[TRAFFIC] == before[TRAFFIC] + 2
    assert_tables_tell(source.tables, records)
    assert read_table(source.tables, TRAFFIC).num_rows < rows
    log = delta.DeltaTable(str(source.tables / TRAFFIC))
    assert [uri.rpartition("/")[2] for uri in log.file_uris()] == ["compact-000001.parquet"] * 2
    assert compacted(source) == 0


def test_file_that_somebody_else_takes_away_meanwhile_is_left_to_the_next_compaction(
    tmp_path: Path, delta: Any
) -> None:
    source, records = filled(tmp_path)

    class SlowEngine(LocalEngine):
        def merged(self, tables: Any, folder: str, groups: Any) -> Iterator[Any]:
            made = list(super().merged(tables, folder, groups))
            if folder.startswith(f"{TRAFFIC}/"):
                delta.DeltaTable(str(source.tables / TRAFFIC)).optimize.compact()
            return iter(made)

    before = versions(source)
    compact(LocalFileSystem(source.tables), SlowEngine(), LATER)
    assert versions(source)[TRAFFIC] == before[TRAFFIC] + 1
    assert_tables_tell(source.tables, records)


def test_commit_of_somebody_else_is_waited_for_and_one_after_another_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delta: Any
) -> None:
    source, records = filled(tmp_path)
    seal(source.events, events(5, 20, first_seq=1000), header=header_with(first_number=1000))
    calls = list[str]()

    def opened(tables: DeltaTables, table: str) -> Any:
        log = open_log(Path(tables._tables.file(table)))
        calls.append(table)
        if calls.count(table) == 1 or len(calls) > 1000:
            open_log(Path(tables._tables.file(table))).alter.set_table_description("it changes")
        return log

    monkeypatch.setattr(DeltaTables, "_open", opened)
    source.run()
    assert_tables_tell(source.tables, records + events(5, 20, first_seq=1000))
    seal(source.events, events(6, 20, first_seq=2000), header=header_with(first_number=2000))
    calls += [""] * 1000
    monkeypatch.setattr(delta_module, "COMMIT_TRIES", 2)
    with pytest.raises(SinkError, match=r"the log of the table access in .*tables changes all the time"):
        source.run()


def run(folder: Path, *options: str) -> Result:
    return run_command(folder, "--once", "--engine", "local", *options)


def test_format_is_remembered_and_another_one_refused(tmp_path: Path) -> None:
    for mine, other in ((DELTA, PARQUET), (PARQUET, DELTA)):
        folder = tmp_path / mine
        folder.mkdir()
        records = events(1, 30)
        seal(folder / "events", records)
        assert run(folder, "--format", mine).exit_code == 0
        refused = run(folder, "--format", other)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert f"tables are of the format {mine} and not {other}: leave out --format" in refused.stderr
        seal(folder / "events", events(2, 30, first_seq=31), header=header_with(first_number=2))
        assert run(folder).exit_code == 0
        assert_tables_tell(folder / "tables", records + events(2, 30, first_seq=31))
        assert (folder / "tables" / TRAFFIC / "_delta_log").exists() == (mine == DELTA)


def test_column_that_a_newer_version_adds_is_there_for_who_reads_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delta: Any
) -> None:
    duckdb = pytest.importorskip("duckdb")
    with monkeypatch.context() as older:
        older.setattr(delta_module, "table_schema", lambda table: table_schema(table).remove(1))
        source, records = filled(tmp_path, batches=1)
    added = {table: table_schema(table).names[1] for table in COLUMNS}
    for _start in (1, 2):
        check_folders(*source.places, is_once=False)
        assert set(versions(source).values()) == {1, 2}, "only once"
    records += events(7, 40, first_seq=len(records) + 1)
    seal(source.events, records[-40:], header=header_with(first_number=500))
    source.run()
    assert_tables_tell(source.tables, records)
    for table, name in added.items():
        log = delta.DeltaTable(str(source.tables / table))
        assert name in [field.name for field in log.schema().fields]
    rows = delta.DeltaTable(str(source.tables / TRAFFIC)).to_pyarrow_table(columns=[added[TRAFFIC]])
    assert rows.num_rows == read_table(source.tables, TRAFFIC).num_rows
    assert duckdb.from_arrow(rows).distinct().fetchall() == [(HEADER.broker_id,)]


def test_tables_from_before_there_was_delta_are_plain_ones(tmp_path: Path) -> None:
    source, _ = filled(tmp_path, table_format=PARQUET)
    (source.tables / CHECKPOINTS / FORMAT).unlink()
    with pytest.raises(BadFolder, match="of the format parquet and not delta"):
        check_folders(*source.places, is_once=False, wanted=DELTA)
    check_folders(*source.places, is_once=False)
    (source.tables / CHECKPOINTS / FORMAT).write_text("iceberg")
    with pytest.raises(BadFolder, match="of the format iceberg, which this version does not know"):
        check_folders(*source.places, is_once=False)


def test_folders_in_which_there_can_be_no_delta_are_refused(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    with pytest.raises(BadFolder, match="--format delta writes to folders of this machine only, and s3a://b/t is none"):
        Pipeline(str(tmp_path / "events"), "s3a://b/t", None, None, table_format=DELTA).run()
    with pytest.raises(BadFolder, match="only, and hdfs://h/t is none"):
        DeltaTables.check(type("Far", (), {"root": "hdfs://h/t"})())
    with pytest.raises(BadFolder, match="the library takes no % in a path"):
        EventSource(tmp_path / "events", tmp_path / "a%20b", DELTA)
    source = EventSource(tmp_path / "events", tmp_path / "a b#[1]é", DELTA)
    seal(source.events, events(1, 30))
    source.run()
    assert_tables_tell(source.tables, events(1, 30))


def test_without_the_library_the_command_to_type_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = filled(tmp_path)
    seal(tmp_path / "events", events(5, 20, NOON_MS, 1000), header=header_with(first_number=1000))
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingPart, match=r'need deltalake: pip install "rsocket-broker\[delta\]"'):
        read_table(source.tables, TRAFFIC)
    refused = run(tmp_path)
    assert (refused.exit_code, "rsocket-broker[delta]" in refused.stderr) == (exit_status.NOT_INSTALLED, True)


def test_log_that_nobody_can_read_is_named(tmp_path: Path) -> None:
    source, _ = filled(tmp_path, batches=1)
    log = source.tables / TRAFFIC / "_delta_log"
    (log / f"{7:020d}.json").write_text("no")
    with pytest.raises(BadFolder, match=rf"the log {log} cannot be read"):
        read_table(source.tables, TRAFFIC)
    for file in log.iterdir():
        file.unlink()
    assert read_table(source.tables, TRAFFIC).num_rows == 0
    with pytest.raises(BadFolder, match=r"the table traffic in .* has lost its log"):
        compacted(source)
