"""Compaction: the same sums in fewer files, each record once wherever it is killed, next to a pipeline that writes."""

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from broker.events import BROKER_STARTED, BROKER_STOPPED, LifecycleEvent
from spark_sink.cli import pipeline
from spark_sink.errors import BadFolder, SinkError
from spark_sink.event_files.layout import Disk
from spark_sink.pipeline import DELTA, FORMATS, PARQUET, compaction
from spark_sink.pipeline.compaction import Compacted, compact, finish_if_alone, publishing
from spark_sink.pipeline.filesystems import LocalFileSystem
from spark_sink.pipeline.formats import plain
from spark_sink.pipeline.local import LocalEngine
from spark_sink.tables import CALLERS, GAPS, TRAFFIC, read_table
from tests.spark_sink.disks import killed
from tests.spark_sink.pipeline.batches import filled, seal_requests
from tests.spark_sink.pipeline.folders import EventSource, assert_tables_tell, request_seqs, seal
from tests.spark_sink.records import HEADER, Event, events, header_with

LATER = "2023-11-17"  # a day after those of the records


@pytest.fixture
def can_exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the file system exchanges folders in one step; by default this one does."""
    can: bool = getattr(request, "param", True)
    if not can:
        monkeypatch.setattr(plain, "exchange", lambda _one, _other: False)
    return can


kinds = pytest.mark.parametrize(
    "can_exchange, table_format", [(True, PARQUET), (False, PARQUET), (True, DELTA)], indirect=["can_exchange"]
)


def compacted(tables: Path, disk: Disk | None = None) -> Compacted:
    return compact(LocalFileSystem(tables, disk), LocalEngine(), LATER)


def sealed_more(source: EventSource, records: list[Event]) -> None:
    """Segments of the same day that no batch has found yet."""
    records += events(77, 20, first_seq=len(records) + 1)
    seal(source.events, records[-20:], header=header_with(first_number=1000))
    seal_requests(source.events, range(1030, 1040))


def days_of_several(tables: Path) -> list[Path]:
    """Folders with more than one file."""
    return [day for day in tables.glob("*/date=*") if len(list(day.iterdir())) > 1]


def assert_whole(tables: Path, records: list[Event], batches: int = 3) -> None:
    assert_tables_tell(tables, records)
    assert request_seqs(tables) == list(range(1000, 1000 + 10 * batches))


@pytest.mark.parametrize("can_exchange", [True, False], indirect=True)
@pytest.mark.usefixtures("can_exchange")
def test_many_files_become_one_and_partials_with_the_same_keys_one_row(tmp_path: Path) -> None:
    source, records = filled(tmp_path, count=100)  # some of them with the same keys
    rows, days = read_table(source.tables, TRAFFIC).num_rows, days_of_several(source.tables)
    files = sum(len(list(day.iterdir())) for day in days)
    did = compacted(source.tables)
    assert_whole(source.tables, records)
    assert [path.name for day in days for path in day.iterdir()] == ["compact-000001.parquet"] * len(days)
    assert (did.days, did.files_before, did.files_after) == (len(days), files, len(days))
    keys = ["minute", "service", "route_id", "model", "routing", "outcome", "word"]
    assert read_table(source.tables, TRAFFIC).num_rows == len(
        {tuple(row.values()) for row in read_table(source.tables, TRAFFIC, keys).to_pylist()}
    )
    assert read_table(source.tables, TRAFFIC).num_rows < rows
    assert not (source.tables / plain.WORK).exists()
    assert compacted(source.tables).days == 0


def test_tables_of_an_older_version_keep_their_columns_and_are_refused(tmp_path: Path) -> None:
    source, _ = filled(tmp_path)
    files = sorted((source.tables / "lifecycle").glob("date=*/*"))
    for file in files:
        rows = pq.read_table(file)
        pq.write_table(
            rows.rename_columns(["at" if name == "event_time" else name for name in rows.schema.names]), file
        )
    before = [file.read_bytes() for file in files]
    with pytest.raises(BadFolder, match=f"the table lifecycle in {source.tables} .* at .* pipeline upgrade"):
        compacted(source.tables)
    assert [file.read_bytes() for file in files] == before


def test_days_that_are_not_before_the_date_are_left_alone(tmp_path: Path) -> None:
    source, _ = filled(tmp_path)
    before = sorted(source.tables.rglob("*.parquet"))
    assert compact(LocalFileSystem(source.tables), LocalEngine(), "2023-11-15").days == 0
    assert sorted(source.tables.rglob("*.parquet")) == before


@kinds
def test_killed_at_any_step_nothing_is_lost_or_twice(tmp_path: Path, can_exchange: bool, table_format: str) -> None:
    source, records = filled(tmp_path / "before", table_format, batches=2)
    steps, was_killed = -12, True
    while was_killed:
        steps += 13
        tables = shutil.copytree(source.tables, tmp_path / f"{steps}")
        was_killed = killed(steps, partial(compacted, tables))
        if can_exchange:
            assert_whole(tables, records, batches=2)  # at every moment
        finish_if_alone(LocalFileSystem(tables))
        assert_whole(tables, records, batches=2)
        compacted(tables)
        assert_whole(tables, records, batches=2)
    assert steps > 20


@kinds
@pytest.mark.usefixtures("can_exchange")
def test_batch_that_is_not_done_is_left_alone_and_repeated_once(tmp_path: Path, table_format: str) -> None:
    source, records = filled(tmp_path, table_format=table_format)
    sealed_more(source, records)
    source.run_undone()
    compacted(source.tables)
    source.run()
    assert_whole(source.tables, records, batches=4)


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("is_killed", [False, True])
def test_batch_that_comes_while_a_day_is_compacted_is_there_afterwards_once(
    tmp_path: Path, is_killed: bool, table_format: str
) -> None:
    """A whole batch, or one that is killed before it is done, and repeated."""
    source, records = filled(tmp_path, table_format=table_format)
    sealed_more(source, records)
    batches = list[int]()

    class SlowEngine(LocalEngine):
        def merged(self, *arguments: Any) -> Iterator[Any]:
            if not batches:  # the first file is made
                batches.append(1)
                source.run_undone() if is_killed else source.run()
            return super().merged(*arguments)

    compact(LocalFileSystem(source.tables), SlowEngine(), LATER)
    if is_killed:
        source.run()
    assert_whole(source.tables, records, batches=4)


@pytest.mark.parametrize("table_format", FORMATS)
def test_gap_of_a_broker_that_died_can_still_be_taken_back(tmp_path: Path, table_format: str) -> None:
    source, _ = filled(tmp_path, table_format=table_format)
    newer = header_with(epoch=HEADER.epoch + 1)
    seal(source.events, [LifecycleEvent(BROKER_STARTED, 1, 1_700_049_600_000)], header=newer)
    source.run()
    compacted(source.tables)
    assert len(list((source.tables / GAPS).glob("*/*.died.parquet"))) == 1
    seal(source.events, [LifecycleEvent(BROKER_STOPPED, 61, 1_700_049_600_000)], header=header_with(first_number=900))
    source.run()
    assert read_table(source.tables, GAPS).num_rows == 0


def test_large_files_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, records = filled(tmp_path, batches=5)
    monkeypatch.setattr(compaction, "FILE_ROWS", 20)
    compacted(source.tables)
    assert_whole(source.tables, records, batches=5)
    assert sorted(path.name for path in source.tables.glob("requests/*/*")) == [
        f"{HEADER.broker_id}-{HEADER.epoch}-{number:010d}.parquet" for number in (2, 102, 202, 302, 402)
    ]


def test_files_of_about_one_size_are_merged_when_there_are_enough(tmp_path: Path) -> None:
    source, records = filled(tmp_path, batches=5)
    assert compact(LocalFileSystem(source.tables), LocalEngine(), LATER, least=6).days == 0
    did = compact(LocalFileSystem(source.tables), LocalEngine(), LATER, least=5)
    assert_whole(source.tables, records, batches=5)
    assert did.days > 0
    assert compact(LocalFileSystem(source.tables), LocalEngine(), LATER, least=5).days == 0


def test_file_that_cannot_be_read_stops_it_and_is_named(tmp_path: Path) -> None:
    source, _ = filled(tmp_path)
    next((source.tables / CALLERS).glob("*/*")).write_text("no")
    with pytest.raises(SinkError, match=r"callers/date=.*cannot be read, so its day is not compacted"):
        compacted(source.tables)


def test_second_compaction_is_refused_and_folders_without_a_checkpoint_are(tmp_path: Path) -> None:
    source, _ = filled(tmp_path)
    with LocalFileSystem(source.tables).locked("_compacting"), pytest.raises(BadFolder, match="another"):
        compacted(source.tables)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadFolder, match="has no checkpoint"):
        compacted(tmp_path / "empty")


def test_folders_are_changed_by_one_at_a_time(tmp_path: Path) -> None:
    def second() -> None:
        with publishing(LocalFileSystem(tmp_path)):
            (tmp_path / "it").touch()

    waits = threading.Thread(target=second)
    with publishing(LocalFileSystem(tmp_path)):
        waits.start()
        waits.join(0.1)
        assert not (tmp_path / "it").exists()
    waits.join()
    assert (tmp_path / "it").exists()


def test_command_says_what_it_did_and_refuses_nonsense(tmp_path: Path) -> None:
    source, records = filled(tmp_path)
    days_n = len(days_of_several(source.tables))
    done = CliRunner().invoke(pipeline, ["compact", "--tables", str(source.tables)])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.output.startswith(f"{days_n} folders of days compacted: ")
    assert_whole(source.tables, records)
    for options in (["--tables", str(tmp_path / "no")], ["--tables", str(source.tables), "--before", "yesterday"]):
        result = CliRunner().invoke(pipeline, ["compact", *options])
        assert result.exit_code == 2
