"""Batches without Spark: each record once whatever breaks, and what is told of files that cannot be read."""

import errno
import importlib
import os
import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker.events import (
    BROKER_DIED,
    BROKER_STARTED,
    BROKER_STOPPED,
    EVENTS_DROPPED,
    MAX_BUCKET,
    ROUTE_JOINED,
    ROUTE_LEFT,
    ROUTE_REMOVED,
    ROUTE_SEEN,
    FlowRecord,
    LifecycleEvent,
    bucket_low_us,
)
from spark_sink.errors import SinkError
from spark_sink.event_files.layout import ARCHIVE, Disk
from spark_sink.pipeline import batch, runs
from spark_sink.pipeline.batch import ROLL_WORD, STOP_WORD
from spark_sink.pipeline.filesystems import LocalPlace
from spark_sink.pipeline.generations import archive_done, current_generation, next_generation
from spark_sink.pipeline.runs import MAX_RUNS, Runs
from spark_sink.pipeline.segment_files import archived
from spark_sink.schema import ARROW_SCHEMAS as SOURCE_SCHEMAS
from spark_sink.schema import FLOWS, LIFECYCLES, REQUESTS
from spark_sink.tables import COLUMNS, GAPS, LIFECYCLE, REJECTIONS, ROUTES, SESSIONS, TRAFFIC, read_table, table_schema
from tests.spark_sink.pipeline.folders import (
    BEFORE_MIDNIGHT_MS,
    ArrowReading,
    FakeSource,
    assert_tables_tell,
    bucket_sql,
    request_seqs,
    seal,
    seal_frames,
)
from tests.spark_sink.records import HEADER, NOON_MS, Event, definition, events, request

DAY_MS = 86_400_000
OTHER = msgspec.structs.replace(HEADER, broker_id="8e4b0000-0000-4000-8000-000000000002", broker_name="two")


def seal_requests(folder: Path, seqs: range, at_ms: int = NOON_MS) -> None:
    dice = random.Random(seqs.start)
    rows: list[Any] = [definition(flow) for flow in (1, 2)]
    rows += [request(dice, seq, dice.randint(1, 2), at_ms + (seq - seqs.start) * 1000) for seq in seqs]
    seal_frames(folder, [msgspec.msgpack.encode(rows)])


def told(seq: int, kind: int, at_ms: int = NOON_MS, **fields: Any) -> LifecycleEvent:
    return LifecycleEvent(kind, seq, at_ms, **fields)


def gaps(tables: Path) -> list[tuple[str, str, int, int, int]]:
    rows = read_table(tables, GAPS).to_pylist()
    return sorted((row["reason"], row["broker_id"], row["epoch"], row["first_seq"], row["records"]) for row in rows)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob("*/date=*/*"))


class StoppingDisk(Disk):
    """Its step number `stop_at` is the last thing that happens: `end` is called in its place, or after it."""

    def __init__(self, stop_at: int, end: Callable[[], None]) -> None:
        self.steps = 0
        self._stop_at = stop_at
        self._end = end

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self._stop_at:
            self._end()

    def write_synced(self, path: Path, data: bytes | memoryview) -> None:
        super().write_synced(path, data[: len(data) // 2])
        self._step()
        super().write_synced(path, data)

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)
        self._step()

    def sync_folder(self, folder: Path) -> None:
        self._step()
        super().sync_folder(folder)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)


class Killed(BaseException):
    """Nothing that is not on the disk yet will be."""


def killed(steps: int, work: Callable[[Disk], object]) -> bool:
    """Do it until this step; False: it was done before."""

    def kill() -> None:
        raise Killed

    try:
        work(StoppingDisk(steps, kill))
    except Killed:
        return True
    return False


def two_days(folder: Path) -> list[Event]:
    records = events(5, 60, BEFORE_MIDNIGHT_MS)
    seal(folder, records, each=30)
    seal_requests(folder, range(1000, 1100), BEFORE_MIDNIGHT_MS + 50_000)  # 100 s around midnight
    return records


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_step_each_record_is_there_once_after_the_repetition(tmp_path: Path, stride: int) -> None:
    steps, was_killed = 1 - stride, True
    while was_killed:
        steps += stride
        source = FakeSource(tmp_path / f"events{steps}", tmp_path / f"tables{steps}")
        records = two_days(source.events)
        batch_id = source.find()
        was_killed = killed(steps, lambda disk, s=source, b=batch_id: s.writer(disk).write(None, b))  # type: ignore[misc]
        source.writer().write(None, batch_id)
        source.commit(batch_id)
        assert_tables_tell(source.tables, records)
        assert request_seqs(source.tables) == list(range(1000, 1100))
        assert not [name for name in files(source.tables) if name.rpartition("/")[2].startswith(".") and not was_killed]
    assert steps > 45


def test_full_disk_ends_the_batch_and_the_repetition_has_each_record_once(tmp_path: Path) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = two_days(source.events)
    batch_id = source.find()
    for stop_at in (1, 7, 20, 33):
        with pytest.raises(OSError, match="No space left"):
            source.writer(StoppingDisk(stop_at, full)).write(None, batch_id)
    source.writer().write(None, batch_id)
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(1000, 1100))


def test_repetition_leaves_no_file_of_a_day_that_only_the_first_try_had(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    today, tomorrow = events(1, 20), events(2, 20, NOON_MS + DAY_MS, first_seq=21)
    seal(source.events, today)
    seal(source.events, tomorrow, header=msgspec.structs.replace(HEADER, first_number=2))
    batch_id = source.find()
    source.writer().write(None, batch_id)
    assert {path.parent.name for path in source.tables.glob("traffic/*/*")} == {"date=2023-11-15", "date=2023-11-16"}
    [gone] = (source.events / FLOWS).glob("*2.parquet")
    gone.unlink()
    source.writer().write(None, batch_id)
    assert {path.parent.name for path in source.tables.glob("traffic/*/*")} == {"date=2023-11-15"}
    [gap] = [row for row in read_table(source.tables, GAPS).to_pylist() if row["reason"] == "bad-file"]
    assert "it vanished before it was read" in gap["detail"]


def test_requests_are_links_to_their_segments_and_one_of_two_days_is_split(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    seal_requests(source.events, range(1, 50))
    [segment] = (source.events / REQUESTS).iterdir()
    seal_requests(source.events, range(50, 250), BEFORE_MIDNIGHT_MS)
    source.run()
    [link] = (source.tables / "requests" / "date=2023-11-15").glob("*0001.parquet")
    assert link.samefile(segment)
    split = sorted(path.parent.name for path in source.tables.glob("requests/*/*0002.parquet"))
    assert split == ["date=2023-11-15", "date=2023-11-16"]
    assert request_seqs(source.tables) == list(range(1, 250))


def test_requests_are_copied_where_no_links_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*_: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    seal_requests(source.events, range(1, 50))
    source.run()
    assert request_seqs(source.tables) == list(range(1, 50))
    files = [path for path in source.tables.rglob("*.parquet") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o640}, "as those that they tell the same as"


def test_brokers_in_one_folder_and_clocks_that_differ_by_hours_add_up(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    seal(source.events, events(1, 100))
    seal(source.events, events(2, 100, NOON_MS - 7 * 3_600_000), header=OTHER)
    source.run()
    seal(source.events, events(3, 100, NOON_MS - DAY_MS, 101), header=msgspec.structs.replace(HEADER, first_number=9))
    source.run()
    rows = read_table(source.tables, TRAFFIC, ["broker_name", "requests"]).group_by("broker_name")
    sums = {row["broker_name"]: row["requests_sum"] for row in rows.aggregate([("requests", "sum")]).to_pylist()}
    expected = {"one": [*events(1, 100), *events(3, 100, NOON_MS - DAY_MS, 101)], "two": events(2, 100)}
    assert sums == {name: sum(one.requests for one in of if one.seq % 10) for name, of in expected.items()}


def test_events_become_routes_sessions_and_gaps(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    route: dict[str, Any] = {"route_id": "r", "service": "orders", "tags": [("zone", "a")], "peer": "tcp 1"}
    lost = [("records", "3"), ("first_seq", "7"), ("last_seq", "9")]
    told_events = [
        told(1, ROUTE_JOINED, **route),
        told(2, ROUTE_SEEN, **route, uptime_ms=10, requests=4, detail="0"),
        told(3, ROUTE_LEFT, NOON_MS + 5000, **route, uptime_ms=5000, requests=9, reason="keepalive-timeout"),
        told(4, ROUTE_REMOVED, NOON_MS + 7000, **route, uptime_ms=1000, requests=0, reason="broker-left"),
        told(9, EVENTS_DROPPED, tags=lost, reason="backlog-full", detail="3 records are missing", requests=5),
    ]
    seal(source.events, told_events)
    source.run()
    assert sorted(read_table(source.tables, LIFECYCLE)["seq"].to_pylist()) == [1, 3, 4, 9]
    [seen] = read_table(source.tables, ROUTES).to_pylist()
    assert (seen["seq"], seen["route_id"], dict(seen["tags"]), seen["requests"]) == (2, "r", {"zone": "a"}, 4)
    noon = datetime.fromtimestamp(NOON_MS / 1000, UTC)
    assert [
        (
            row["end"],
            row["is_local"],
            row["joined_at"],
            row["left_at"],
            row["uptime_ms"],
            row["requests"],
            row["reason"],
        )
        for row in sorted(read_table(source.tables, SESSIONS).to_pylist(), key=lambda row: row["seq"])
    ] == [
        ("left", 1, noon, noon + timedelta(seconds=5), 5000, 9, "keepalive-timeout"),
        ("removed", 0, noon + timedelta(seconds=6), noon + timedelta(seconds=7), 1000, 0, "broker-left"),
    ]
    assert gaps(source.tables) == [("backlog-full", HEADER.broker_id, HEADER.epoch, 7, 3)]


def test_rejections_count_what_the_broker_refused(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = events(4, 200)
    seal(source.events, records)
    source.run()
    rejected = sum(one.requests for one in records if getattr(one, "outcome", "") == "rejected")
    table = read_table(source.tables, REJECTIONS)
    assert sum(table["requests"].to_pylist()) == rejected > 0
    assert set(table["word"].to_pylist()) == {"no-route"}


# Runs


def test_epoch_after_one_without_brokerstopped_is_a_gap_and_one_after_a_stop_is_none(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    runs = [msgspec.structs.replace(HEADER, epoch=epoch) for epoch in (100, 200, 300)]
    seal(source.events, [told(1, BROKER_STARTED), told(2, BROKER_STOPPED)], header=runs[0])
    seal(source.events, [told(1, BROKER_STARTED), told(2, ROUTE_JOINED)], header=runs[1])
    source.run()
    assert gaps(source.tables) == []
    seal(source.events, [told(1, BROKER_STARTED, NOON_MS - 3_600_000)], header=runs[2])  # its clock went back
    source.run()
    assert gaps(source.tables) == [("broker-died", HEADER.broker_id, 200, 3, 0)]


def test_records_and_a_stop_that_come_after_the_next_epoch_change_the_gap(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    old, new = (msgspec.structs.replace(HEADER, epoch=epoch) for epoch in (100, 200))
    seal(source.events, [told(1, BROKER_STARTED)], header=old)
    seal(source.events, [told(1, BROKER_STARTED)], header=new)
    source.run()
    seal(source.events, [told(2, ROUTE_JOINED, NOON_MS + DAY_MS)], header=msgspec.structs.replace(old, first_number=2))
    source.run()
    assert gaps(source.tables) == [("broker-died", HEADER.broker_id, 100, 3, 0)]
    assert [path.parent.name for path in source.tables.glob("gaps/*/*")] == ["date=2023-11-16"]
    seal(source.events, [told(3, BROKER_STOPPED)], header=msgspec.structs.replace(old, first_number=3))
    source.run()
    assert gaps(source.tables) == []


def test_broker_whose_writer_says_that_it_died_is_a_gap_though_it_never_begins_again(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    seal(source.events, [told(1, BROKER_STARTED), told(2, ROUTE_JOINED), told(3, BROKER_DIED)])
    source.run()
    assert gaps(source.tables) == [("broker-died", HEADER.broker_id, HEADER.epoch, 3, 0)]
    assert "its last record is 2," in read_table(source.tables, GAPS)["detail"][0].as_py()
    again = msgspec.structs.replace(HEADER, epoch=HEADER.epoch + 1)
    seal(source.events, [told(1, BROKER_STARTED)], header=again)  # it does after all: that changes nothing
    source.run()
    assert gaps(source.tables) == [("broker-died", HEADER.broker_id, HEADER.epoch, 3, 0)]


def test_broker_that_was_said_to_be_dead_and_tells_more_is_no_gap(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    seal(source.events, [told(1, BROKER_STARTED), told(2, BROKER_DIED)])
    source.run()
    assert len(gaps(source.tables)) == 1
    seal(
        source.events,
        [told(2, ROUTE_JOINED), told(3, ROUTE_JOINED)],
        header=msgspec.structs.replace(HEADER, first_number=2),
    )
    source.run()
    assert gaps(source.tables) == []


def test_runs_of_a_broker_that_starts_again_and_again_are_forgotten_and_their_gaps_stay(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    for epoch in range(1, MAX_RUNS + 4):
        seal(source.events, [told(1, BROKER_STARTED)], header=msgspec.structs.replace(HEADER, epoch=epoch))
    source.run()
    assert [gap[2] for gap in gaps(source.tables)] == list(range(1, MAX_RUNS + 3))
    assert len(vars(Runs(LocalPlace(source.tables)))["_brokers"][HEADER.broker_id].runs) == MAX_RUNS


def test_records_of_a_run_that_is_forgotten_tell_no_death(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    for epoch in range(1, MAX_RUNS + 4):
        header = msgspec.structs.replace(HEADER, epoch=epoch)
        seal(source.events, [told(1, BROKER_STARTED), told(2, BROKER_STOPPED)], header=header)
    source.run()
    late = msgspec.structs.replace(HEADER, epoch=2, first_number=2)
    seal(source.events, [told(3, ROUTE_JOINED, NOON_MS + DAY_MS)], header=late)
    source.run()
    assert gaps(source.tables) == []


def test_runs_that_nobody_can_read_are_told(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    seal(source.events, [told(1, BROKER_STARTED)])
    (source.tables / "_checkpoints" / "runs.json").write_text("[]")
    with pytest.raises(SinkError, match=r"runs.json cannot be read: .*; remove it"):
        source.run()


# Bad files


def segment_like(path: Path, table: pa.Table, **metadata: str) -> None:
    told = {"schema_version": "3", "source": path.parent.name, "broker_id": "b", "broker_name": "b", "epoch": "1"}
    pairs = {f"rsocket_broker.{key}": value for key, value in (told | metadata).items()}
    pq.write_table(table.replace_schema_metadata(pairs), path)


def test_files_that_are_no_segments_are_named_counted_and_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = events(8, 20)
    seal(source.events, records)
    seal_requests(source.events, range(100, 110))
    flows = source.events / FLOWS
    good = pq.read_table(next(flows.iterdir()))
    (flows / "foreign.parquet").write_text("no parquet")
    (flows / "b-1-0000000001.parquet").write_bytes(next(flows.glob("7f3a*")).read_bytes()[:-10])
    (flows / "b-1-0000000002.parquet").touch()
    pq.write_table(pa.table({"a": [1]}), flows / "b-1-0000000003.parquet")
    segment_like(flows / "b-1-0000000004.parquet", good, schema_version="99")
    segment_like(flows / "b-1-0000000005.parquet", good, source=LIFECYCLES)
    place = good.schema.get_field_index("requests")
    texts = good.set_column(place, "requests", good["requests"].cast(pa.string()))
    segment_like(flows / "b-1-0000000006.parquet", texts)
    segment_like(flows / "b-1-0000000007.parquet", good.drop_columns(["seq"]))
    segment_like(flows / "c-1-0000000008.parquet", good)
    (source.events / "requests" / "b-1-0000000009.parquet").write_bytes(os.urandom(5000))
    broken = bytearray(next(flows.glob("7f3a*")).read_bytes())
    broken[-400:-8] = b"\xff" * 392  # the footer's end is good, and not what is before it
    (flows / "b-1-0000000010.parquet").write_bytes(broken)
    writer = source.writer()
    source.run(writer)
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(100, 110))
    whys = {
        row["detail"].partition(": ")[0].rpartition("/")[2]: row["detail"].partition(": ")[2]
        for row in read_table(source.tables, GAPS).to_pylist()
        if row["reason"] == "bad-file"
    }
    assert {name: why[:34] for name, why in sorted(whys.items())} == {
        "b-1-0000000001.parquet": "it is torn, or no Parquet file: Pa",
        "b-1-0000000002.parquet": "it is torn, or no Parquet file: Pa",
        "b-1-0000000003.parquet": "its footer does not say rsocket_br",
        "b-1-0000000004.parquet": "it is of schema version 99 and thi",
        "b-1-0000000005.parquet": "its footer says that it is of 'lif",
        "b-1-0000000006.parquet": "its column requests is string and ",
        "b-1-0000000007.parquet": "it has no column seq",
        "b-1-0000000009.parquet": "it is torn, or no Parquet file: Pa",
        "b-1-0000000010.parquet": "it is torn, or no Parquet file: Co",
        "c-1-0000000008.parquet": "its footer says that it is of the ",
        "foreign.parquet": "its name is not <broker>-<epoch>-<",
    }
    assert writer.bad_files == 11
    lines = capsys.readouterr().err.splitlines()
    assert sum("is passed over: " in line for line in lines) == 11
    assert "11 bad files so far" in lines[-1]


def test_file_with_a_good_footer_and_bad_pages_is_found_when_reading_fails(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = events(8, 40)
    seal(source.events, records[:20])
    seal(source.events, records[20:], header=msgspec.structs.replace(HEADER, first_number=2))
    bad = source.events / FLOWS / f"{HEADER.broker_id}-{HEADER.epoch}-0000000002.parquet"
    data = bytearray(bad.read_bytes())
    data[4:800] = b"\xff" * 796
    bad.write_bytes(data)
    source.run()
    [gap] = [row for row in read_table(source.tables, GAPS).to_pylist() if row["reason"] == "bad-file"]
    assert "its footer is good and its content is not" in gap["detail"]
    kept = [record for record in records if record.seq <= 20 or record.seq % 10 == 0]
    assert_tables_tell(source.tables, kept)


def test_requests_with_a_good_footer_and_bad_pages_are_no_part_of_the_table(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    seal_requests(source.events, range(1, 50))
    seal_requests(source.events, range(50, 90))
    bad = max((source.events / REQUESTS).iterdir())
    data = bytearray(bad.read_bytes())
    data[4:800] = b"\xff" * 796
    bad.write_bytes(data)
    source.run()
    [gap] = read_table(source.tables, GAPS).to_pylist()
    assert gap["detail"].startswith(f"{bad}: its footer is good and its content is not: ")
    assert request_seqs(source.tables) == list(range(1, 50))


def test_requests_with_other_columns_get_those_of_the_table(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    seal_requests(source.events, range(1, 50))
    folder = source.events / REQUESTS
    [path] = folder.iterdir()
    table = pq.read_table(path)
    path.unlink()
    older, newer = table.drop_columns(["branches", "emptied_by"]), table.append_column("more", table["seq"])
    segment_like(folder / "b-1-0000000001.parquet", older, schema_version="2")
    segment_like(folder / "b-1-0000000002.parquet", newer)
    source.run()
    for file in source.tables.glob("requests/*/*.parquet"):
        assert pq.read_schema(file).remove_metadata() == table_schema("requests")
    assert request_seqs(source.tables) == sorted([*range(1, 50), *range(1, 50)])


def test_rows_without_what_every_record_has_are_told_and_the_others_go_on(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = events(8, 20)
    seal(source.events, records)
    for folder, name in ((FLOWS, "started_at"), (LIFECYCLES, "kind")):
        good = pq.read_table(next((source.events / folder).glob("7f3a*")))
        place = good.schema.get_field_index(name)
        nothing = good.set_column(place, name, pa.nulls(good.num_rows, good.schema.field(name).type))
        segment_like(source.events / folder / "b-1-0000000001.parquet", nothing)
        segment_like(source.events / folder / "b-1-0000000002.parquet", good.drop_columns([name]))
    source.run()
    assert_tables_tell(source.tables, records)
    whys = [row["detail"].partition(": ")[2] for row in read_table(source.tables, GAPS).to_pylist()]
    assert sorted(why for why in whys if why.startswith("it")) == [
        "it has no column kind",
        "it has no column started_at",
        "its footer is not that of a segment: there are rows without kind, or it does not say",
        "its footer is not that of a segment: there are rows without started_at, or it does not say",
    ]


def test_empty_segments_are_files_without_rows(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    for folder in SOURCE_SCHEMAS:
        (source.events / folder).mkdir(exist_ok=True)
        segment_like(source.events / folder / "b-1-0000000001.parquet", SOURCE_SCHEMAS[folder].empty_table())
    source.run()
    assert gaps(source.tables) == []
    assert all(read_table(source.tables, table).num_rows == 0 for table in COLUMNS)


def test_segment_that_comes_back_from_the_archive_is_not_counted_again(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = events(8, 20)
    seal(source.events, records)
    source.run()
    places = LocalPlace(source.events), LocalPlace(source.tables)
    assert archive_done(*places, 1) == []
    for path in list((source.events / ARCHIVE).rglob("*.parquet")):
        (source.events / path.parent.name / path.name).write_bytes(path.read_bytes())
    assert [text.partition(" is never read: ")[2] for text in archive_done(*places, 1)] == [
        "a file of this name was read before"
    ] * 2
    assert next_generation(*places, 1) == 2  # a new checkpoint does not know them
    FakeSource(source.events, source.tables, 2).run()
    assert_tables_tell(source.tables, records)
    assert [gap[0] for gap in gaps(source.tables) if gap[0] == "bad-file"] == ["bad-file"] * 2


# Copies (D-71)


def copied(folder: Path, number: int, to: int) -> list[Path]:
    """A segment of each source under another number."""
    copies = []
    for path in sorted(folder.glob(f"*/*-{number:010d}.parquet")):
        copies.append(path.with_name(path.name.replace(f"-{number:010d}", f"-{to:010d}")))
        shutil.copy(path, copies[-1])
    return copies


def filled(tmp_path: Path) -> tuple[FakeSource, list[Event]]:
    """Flows and lifecycle in number 1, requests in number 2."""
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = events(8, 40)
    seal(source.events, records)
    seal_requests(source.events, range(1000, 1050))
    return source, records


@pytest.mark.parametrize("when", ["same batch", "later batch", "later generation", "archive gone"])
def test_copy_of_a_segment_under_another_number_is_not_counted_again(tmp_path: Path, when: str) -> None:
    source, records = filled(tmp_path)
    numbers = {int(path.stem[-10:]) for path in source.events.glob("*/*.parquet")}
    if when != "same batch":
        source.run()
    copies = [(number, copied(source.events, number, 9000 + number)) for number in numbers]
    places = LocalPlace(source.events), LocalPlace(source.tables)
    if when in ("later generation", "archive gone"):
        next_generation(*places, 1)
        if when == "archive gone":  # retention has removed it
            shutil.rmtree(source.events / ARCHIVE)
        source = FakeSource(source.events, source.tables, 2)
    source.run()
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(1000, 1050))
    told = [row["detail"] for row in read_table(source.tables, GAPS).to_pylist() if row["reason"] == "bad-file"]
    assert sorted(told) == sorted(
        f"{path}: its records are those of number {number}, which is read: it is a copy, and counts nothing"
        for number, paths in copies
        for path in paths
    )


def test_vanished_segment_is_read_when_it_comes_back_under_another_number_and_its_copy_is_not(tmp_path: Path) -> None:
    source, records = filled(tmp_path)
    [path] = source.events.glob(f"{FLOWS}/*.parquet")
    batch_id = source.find()
    path.rename(tmp_path / "away")
    source.writer().write(None, batch_id)
    source.commit(batch_id)
    shutil.copy(tmp_path / "away", path.with_name(path.name.replace("-0000000001", "-0000000007")))
    source.run()
    assert_tables_tell(source.tables, records)
    shutil.copy(tmp_path / "away", path.with_name(path.name.replace("-0000000001", "-0000000008")))
    source.run()
    assert_tables_tell(source.tables, records)


def test_batch_that_is_repeated_takes_its_own_segments_for_no_copies(tmp_path: Path) -> None:
    source, records = filled(tmp_path)
    copied(source.events, 1, 9001)
    batch_id = source.find()
    source.writer().write(None, batch_id)  # killed before the commit
    source.writer().write(None, batch_id)
    source.commit(batch_id)
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(1000, 1050))


def test_segments_with_the_same_numbers_of_records_of_other_runs_and_brokers_are_no_copies(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = events(8, 40)
    again = msgspec.structs.replace(HEADER, epoch=HEADER.epoch + 1)
    for header in (HEADER, OTHER, again):
        seal(source.events, records, header=header)
    source.run()
    rows = read_table(source.tables, LIFECYCLE).to_pylist()
    assert len(rows) == 3 * sum(isinstance(record, LifecycleEvent) for record in records)


def test_segment_with_more_records_behind_the_same_first_one_is_no_copy(tmp_path: Path) -> None:
    """A writer that took frames again which another one had: better some twice than the others never."""
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = [told(seq, ROUTE_JOINED) for seq in (1, 2, 3)]
    seal(source.events, records[:2])
    source.run()
    seal(source.events, records, header=msgspec.structs.replace(HEADER, first_number=1002))
    source.run()
    assert sorted(read_table(source.tables, LIFECYCLE)["seq"].to_pylist()) == [1, 1, 2, 2, 3]


def test_torn_memory_of_segments_ends_the_pipeline_in_a_sentence(tmp_path: Path) -> None:
    source, records = filled(tmp_path)
    source.run()
    for path in source.tables.glob("_checkpoints/known/*"):
        path.write_bytes(b"torn")
    copied(source.events, 1, 9001)
    batch_id = source.find()
    with pytest.raises(SinkError, match=r"_checkpoints/known/2023-11-15T12 cannot be read: .*; remove it, and copies"):
        source.writer().write(None, batch_id)
    assert_tables_tell(source.tables, records)


def test_names_that_spark_never_finds_are_told(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    for name in (
        "_b-1-0000000001.parquet",
        "b-1-0000000001.json",
        ".hidden",
        os.fsdecode(b"\xff-1-0000000001.parquet"),
    ):
        (source.events / FLOWS / name).touch()
    texts = archive_done(LocalPlace(source.events), LocalPlace(source.tables), 1)
    assert [text.partition(" is never read")[0].rpartition("/")[2] for text in texts] == [
        "_b-1-0000000001.parquet",
        "b-1-0000000001.json",
        "\\udcff-1-0000000001.parquet",
    ]


# Generations


def run_until_full(source: FakeSource, records: list[Event]) -> None:
    while True:
        more = events(len(records), 30, first_seq=len(records) + 1)
        seal(source.events, more, header=msgspec.structs.replace(HEADER, first_number=len(records) + 1))
        records += more
        batch_id = source.find()
        try:
            source.writer(roll_files=4).write(None, batch_id)
        except SinkError as error:
            if ROLL_WORD in str(error) and batch_id > 0:
                return
            raise
        source.commit(batch_id)


def test_checkpoint_that_knows_enough_files_gives_way_to_a_new_one_and_nothing_is_read_twice(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    places = LocalPlace(source.events), LocalPlace(source.tables)
    records: list[Event] = []
    for generation in (1, 2, 3):
        assert current_generation(places[1]) == generation
        source = FakeSource(source.events, source.tables, generation)
        run_until_full(source, records)
        assert next_generation(*places, generation) == generation + 1
        assert not source.folder.exists()
    FakeSource(source.events, source.tables, 4).run()
    assert_tables_tell(source.tables, records)


def test_generation_that_ends_in_a_broken_batch_takes_its_files_along(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = events(1, 30)
    seal(source.events, records)
    source.writer().write(None, source.find())  # killed before the commit
    places = LocalPlace(source.events), LocalPlace(source.tables)
    next_generation(*places, 1)
    assert not [name for name in files(source.tables) if "/000001-" in name]
    FakeSource(source.events, source.tables, 2).run()
    assert_tables_tell(source.tables, records)


def test_generation_that_ends_in_a_broken_batch_keeps_requests_of_a_segment_that_came_back(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    places = LocalPlace(source.events), LocalPlace(source.tables)
    seal_requests(source.events, range(1, 50))
    source.run()
    archive_done(*places, 1)
    [path] = (source.events / ARCHIVE).rglob("*.parquet")
    (source.events / REQUESTS / path.name).write_bytes(path.read_bytes())
    assert next_generation(*places, 1) == 2  # a new checkpoint does not know it
    source = FakeSource(source.events, source.tables, 2)
    source.writer().write(None, source.find())
    next_generation(*places, 2)
    assert request_seqs(source.tables) == list(range(1, 50))


def test_killed_at_any_step_between_two_generations_nothing_is_lost_or_twice(tmp_path: Path) -> None:
    steps, was_killed = 0, True
    while was_killed:
        steps += 1
        source = FakeSource(tmp_path / f"events{steps}", tmp_path / f"tables{steps}")
        records = events(1, 40)
        seal(source.events, records[:20])
        source.run()
        seal(source.events, records[20:], header=msgspec.structs.replace(HEADER, first_number=2))
        source.writer().write(None, source.find())
        events_place = source.events
        was_killed = killed(
            steps,
            lambda disk, s=source: next_generation(LocalPlace(s.events, disk), LocalPlace(s.tables, disk), 1),  # type: ignore[misc]
        )
        generation = current_generation(LocalPlace(source.tables))
        if generation == 1:
            generation = next_generation(LocalPlace(events_place), LocalPlace(source.tables), 1)
        FakeSource(source.events, source.tables, generation).run()
        assert_tables_tell(source.tables, records)
    assert steps > 5


def test_no_new_batch_is_begun_when_the_pipeline_is_to_stop(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    seal(source.events, events(1, 30))
    writer = source.writer()
    writer.is_stopping = True
    with pytest.raises(SinkError, match=STOP_WORD):
        writer.write(None, source.find())
    assert files(source.tables) == []


def test_writer_of_events_is_told_that_the_pipeline_archives(tmp_path: Path) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    seal(source.events, events(1, 30))
    source.run()
    [reader] = (source.events / "_readers").iterdir()
    assert msgspec.json.decode(reader.read_bytes())["archives"] is True


def test_archive_is_where_spark_puts_files() -> None:
    assert archived("/data/events/flows/x.parquet") == f"{ARCHIVE}/data/events/flows/x.parquet"
    assert archived("hdfs://host:8020/data/x.parquet") == f"{ARCHIVE}/data/x.parquet"
    assert archived("hdfs:///data/x.parquet") == f"{ARCHIVE}/data/x.parquet"


def test_bounds_of_the_document_are_those_of_the_code() -> None:
    text = (Path(__file__).parents[3] / "docs" / "limits.md").read_text()
    section = text.partition("## Bounds of the pipeline")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    said = {cells[0].strip("`"): int(cells[1].replace(",", "")) for cells in rows}
    limits = (*("batch.ROLL_FILES", "batch.CHUNK_ROWS", "runs.MAX_RUNS", "runs.MAX_BROKERS"), "compaction.FILE_ROWS")
    assert set(said) == {*limits, "pipeline.MAX_FILES_PER_BATCH"}
    for name, value in said.items():
        module, _, constant = name.partition(".")
        assert getattr(importlib.import_module(f"spark_sink.pipeline.{module}"), constant) == value


def test_many_records_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = events(1, 300)
    seal(source.events, records, each=50)
    monkeypatch.setattr(batch, "CHUNK_ROWS", 100)
    reading, parts = ArrowReading.flows, list[int]()

    def counted(self: ArrowReading, files: list[str]) -> pa.Table:
        parts.append(len(files))
        return reading(self, files)

    monkeypatch.setattr(ArrowReading, "flows", counted)
    source.run()
    assert parts == [2, 2, 2]
    assert_tables_tell(source.tables, records)


def test_brokers_beyond_the_bound_are_forgotten_the_silent_ones_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    seal(source.events, [told(1, BROKER_STARTED, NOON_MS)])
    seal(source.events, [told(1, BROKER_STARTED, NOON_MS - DAY_MS)], header=OTHER)
    monkeypatch.setattr(runs, "MAX_BROKERS", 1)
    source.run()
    assert list(vars(Runs(LocalPlace(source.tables)))["_brokers"]) == [HEADER.broker_id]


# Other readers


def test_duckdb_says_the_range_of_a_bucket_as_the_document_shows() -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = duckdb.sql(f"SELECT {bucket_sql('DuckDB')} FROM range({MAX_BUCKET + 1}) AS buckets(bucket)").fetchall()
    assert [low for (low,) in rows] == [bucket_low_us(bucket) for bucket in range(MAX_BUCKET + 1)]


def test_duckdb_and_pandas_read_what_the_document_shows(tmp_path: Path) -> None:
    duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    source = FakeSource(tmp_path / "events", tmp_path / "tables")
    records = events(1, 200, BEFORE_MIDNIGHT_MS)
    seal(source.events, records)
    seal_requests(source.events, range(1000, 1050))
    source.run()
    expected: dict[str, int] = {}
    for record in records:
        if isinstance(record, FlowRecord):
            expected[record.service] = expected.get(record.service, 0) + record.requests
    files = f"{source.tables}/traffic/*/*.parquet"
    text = f"SELECT service, sum(requests)::BIGINT AS n FROM parquet_scan('{files}') GROUP BY service"
    assert dict(duckdb.sql(text).fetchall()) == expected
    frame = pandas.read_parquet(source.tables / "traffic")
    assert frame.groupby("service").requests.sum().to_dict() == expected
    for table in COLUMNS:
        if list(source.tables.glob(f"{table}/*/*.parquet")):
            count = read_table(source.tables, table).num_rows
            assert len(pandas.read_parquet(source.tables / table)) == count
            [(told_count,)] = duckdb.sql(f"SELECT count(*) FROM '{source.tables}/{table}/*/*.parquet'").fetchall()
            assert told_count == count
