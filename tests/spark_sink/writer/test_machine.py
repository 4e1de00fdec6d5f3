import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from broker.events import BROKER_STOPPED, ROUTE_JOINED, LifecycleEvent
from spark_sink.event_files.layout import Disk, segment_name
from spark_sink.writer.machine import ADOPT_S, FIRST_RETRY_S, LAST_RETRY_S
from spark_sink.writer.settings import Settings
from tests.spark_sink.records import (
    HEADER,
    NOON_MS,
    WALL_S,
    Event,
    begun,
    deaths,
    definition,
    events,
    request,
    requests_of,
    rows_frame,
    sealed,
    sealed_seqs,
)

HOUR_S = 3600.0
FULL = OSError(28, "No space left on device")


class SwitchedDisk(Disk):
    """A disk that is full for logs, for segments, or has `free` bytes; it can write `spare` segments even then."""

    def __init__(self) -> None:
        self.is_log_full = False
        self.is_full = False
        self.spare = 0
        self.free = 1 << 40
        self.synced = 0

    def append(self, handle: int, data: bytes) -> None:
        if self.is_log_full:
            super().append(handle, data[: len(data) // 2])
            raise FULL
        super().append(handle, data)

    def write_synced(self, path: Path, data: bytes | memoryview) -> None:
        if self.is_full and self.spare == 0:
            raise FULL
        self.spare = max(0, self.spare - 1)
        super().write_synced(path, data)

    def free_bytes(self, folder: Path) -> int:
        return self.free

    def sync_data(self, handle: int) -> None:
        self.synced += 1


class Bench:
    """A writer with a switched disk and a clock that starts at 0; `said` is what people read."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.disk = SwitchedDisk()
        self.said: list[str] = []
        self.now = 0.0
        self.writer = begun(folder, disk=self.disk, say=self.said.append, settings=Settings(**settings))

    def take(self, records: list[Event], wall_s: float = WALL_S) -> None:
        self.writer.take(rows_frame(records), self.now, wall_s)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.writer.tick(self.now, WALL_S + self.now)

    def seqs(self) -> list[int]:
        return sealed_seqs(self.folder)

    def logs(self) -> int:
        return len(list(self.folder.glob("_tmp/*")))


def test_batch_is_sealed_when_its_oldest_record_is_roll_s_old(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.writer.next_deadline() == ADOPT_S
    bench.take(events(1, 10))
    bench.pass_time(0.9)
    bench.take(events(2, 10, first_seq=11))
    assert (bench.seqs(), bench.writer.next_deadline()) == ([], 1.0)
    bench.pass_time(0.1)
    assert bench.seqs() == list(range(1, 21))
    assert bench.writer.next_deadline() == ADOPT_S


def test_segments_of_a_batch_have_the_number_of_their_log_and_the_next_log_is_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for first_seq in (1, 21):
        bench.take(events(1, 20, first_seq=first_seq))
        bench.pass_time(1.0)
    stem = f"{HEADER.broker_id}-{HEADER.epoch}"
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")) == [
        f"_tmp/{stem}-0000000003.wal",
        *(f"{source}/{stem}-{n:010d}.parquet" for source in ("flows", "lifecycle") for n in (1, 2)),
    ]


def test_numbers_go_on_after_those_of_the_same_run_of_the_broker(tmp_path: Path) -> None:
    streams = [(HEADER.broker_id, HEADER.epoch, number) for number in (41, 9)]
    streams += [(HEADER.broker_id, HEADER.epoch + 1, 90), (f"x-{HEADER.broker_id}", HEADER.epoch, 99)]
    for source, stream in zip(("requests", "flows", "flows", "flows"), streams, strict=True):
        (tmp_path / source).mkdir(exist_ok=True)
        (tmp_path / source / segment_name(*stream)).touch()
    assert Bench(tmp_path).writer.state.next_number == 42


def test_broker_that_had_not_said_that_it_stops_has_died_when_its_input_ends(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take([LifecycleEvent(ROUTE_JOINED, 1, NOON_MS), LifecycleEvent(ROUTE_JOINED, 2, NOON_MS)])
    bench.writer.tell_died(bench.now, WALL_S + 7)
    assert bench.writer.seal_all(bench.now, WALL_S + 7)
    assert (bench.seqs(), deaths(tmp_path)) == ([1, 2], [(3, NOON_MS + 7000)])
    assert (bench.writer.state.sealed, bench.writer.state.dropped) == (2, 0)


@pytest.mark.parametrize("records", [[], [LifecycleEvent(ROUTE_JOINED, 1, 0), LifecycleEvent(BROKER_STOPPED, 2, 0)]])
def test_broker_that_said_that_it_stops_or_nothing_at_all_has_not_died(tmp_path: Path, records: list[Event]) -> None:
    bench = Bench(tmp_path)
    bench.take(records)
    bench.writer.tell_died(bench.now, WALL_S)
    assert bench.writer.seal_all(bench.now, WALL_S)
    assert (bench.seqs(), deaths(tmp_path)) == ([record.seq for record in records], [])


def test_death_is_told_when_the_disk_is_free_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take([LifecycleEvent(ROUTE_JOINED, 1, NOON_MS)])
    bench.disk.is_log_full = True
    bench.writer.tell_died(bench.now, WALL_S)
    assert not bench.writer.seal_all(bench.now, WALL_S)
    bench.disk.is_log_full = False
    assert bench.writer.seal_all(bench.now, WALL_S)
    assert (bench.seqs(), deaths(tmp_path)) == ([1], [(2, NOON_MS)])


def test_stop_that_fell_into_a_gap_is_no_death(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_held_bytes=0)
    bench.disk.is_log_full = True
    bench.take([LifecycleEvent(ROUTE_JOINED, 1, NOON_MS), LifecycleEvent(BROKER_STOPPED, 2, NOON_MS)])
    bench.writer.tell_died(bench.now, WALL_S)
    bench.disk.is_log_full = False
    assert bench.writer.seal_all(bench.now, WALL_S)
    assert ([row["event"] for row in sealed(tmp_path, "lifecycle")], bench.seqs()) == (["EventsDropped"], [2])


def first_rows(folder: Path) -> list[tuple[int, int]]:
    """What each segment of lifecycle events says came before it, and how many it has."""
    files = [pq.read_metadata(path) for path in sorted((folder / "lifecycle").glob("*.parquet"))]
    return [(int(file.metadata[b"rsocket_broker.first_row"]), file.num_rows) for file in files]


def test_each_segment_says_how_many_rows_of_its_source_came_before_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take(events(1, 20))
    bench.pass_time(1.0)
    bench.disk.is_full = True
    bench.take(events(2, 30, first_seq=21))
    bench.pass_time(1.0)
    bench.take(events(3, 40, first_seq=51))
    bench.pass_time(1.0)
    bench.writer.take(rows_frame(events(4, 10, first_seq=91)), bench.now, WALL_S)
    assert first_rows(tmp_path) == [(0, 2)]
    for handle in [*(closed.handle for closed in bench.writer._closed), bench.writer._wal.handle]:  # type: ignore[union-attr]
        bench.disk.close(handle)  # it was killed
    again = Bench(tmp_path)
    again.writer._came = 4  # the broker sends what is behind that
    again.take(events(5, 10, first_seq=101))
    assert again.writer.seal_all(again.now, WALL_S)
    assert first_rows(tmp_path) == [(0, 2), (2, 3), (5, 5), (10, 1)]


def test_batch_is_sealed_when_its_log_is_roll_bytes_large(tmp_path: Path) -> None:
    bench = Bench(tmp_path, roll_bytes=2000)
    bench.take(events(1, 2))
    bench.take(events(1, 30, first_seq=3))
    assert bench.seqs() == []
    bench.take(events(1, 1, first_seq=33))
    assert bench.seqs() == list(range(1, 33))


def test_batch_never_reaches_over_the_hour(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take(events(1, 3), WALL_S + HOUR_S - 0.1)
    bench.take(events(1, 3, first_seq=4), WALL_S + HOUR_S)
    assert bench.seqs() == [1, 2, 3]


def test_segments_that_cannot_be_written_wait_in_the_log_and_not_in_memory(tmp_path: Path) -> None:
    bench = Bench(tmp_path, roll_bytes=2000)
    bench.disk.is_full = True
    for first_seq in range(1, 121, 20):
        bench.take(events(1, 20, first_seq=first_seq))
        bench.pass_time(LAST_RETRY_S)
    state = bench.writer.state
    assert (state.held_bytes, state.sealed, state.error) == (0, 0, "[Errno 28] No space left on device")
    assert state.wal_bytes == sum(path.stat().st_size for path in tmp_path.glob("_tmp/*"))
    assert state.frames == 6  # they are safe
    bench.disk.is_full = False
    bench.pass_time(LAST_RETRY_S)
    bench.pass_time(1.0)
    assert bench.seqs() == list(range(1, 121))
    assert [sentence.split(": ")[-1].split(" (")[0] for sentence in bench.said] == [
        f"{tmp_path} cannot be written",
        f"{tmp_path} can be written again after 60.0 s, nothing was lost",
    ]
    state = bench.writer.state
    assert (state.error, state.held_bytes, state.sealed) == ("", 0, 120)


def test_frames_that_the_log_does_not_take_wait_in_memory_and_the_log_has_no_half_frame(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take(events(1, 10))
    size = bench.writer.state.wal_bytes
    bench.disk.is_log_full = True
    bench.take(events(1, 10, first_seq=11))
    [log] = tmp_path.glob("_tmp/*")
    assert (log.stat().st_size, bench.writer.state.held_bytes > 0, bench.writer.state.frames) == (size, True, 1)
    bench.disk.is_log_full = False
    bench.pass_time(FIRST_RETRY_S)
    assert (bench.writer.state.held_bytes, bench.writer.state.frames) == (0, 2)
    bench.pass_time(1.0)
    assert bench.seqs() == list(range(1, 21))


def test_disk_is_left_min_free_bytes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, min_free_bytes=64 << 20)
    bench.take(events(1, 10))
    bench.disk.free = 60 << 20
    bench.take(events(1, 10, first_seq=11))
    assert bench.writer.state.error == "60 MiB are free, 64 MiB are left to others"
    bench.pass_time(1.0)  # what is in the log becomes segments, which frees more than they take
    assert bench.seqs() == list(range(1, 11))
    bench.disk.free = 80 << 20
    bench.pass_time(LAST_RETRY_S)
    bench.pass_time(1.0)
    assert (bench.seqs(), bench.writer.state.error) == (list(range(1, 21)), "")


def test_log_is_synced_as_often_as_is_wanted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, roll_s=60.0, sync_s=1.0)
    for _ in range(4):
        bench.take(events(1, 1))
        bench.pass_time(0.5)
    assert bench.disk.synced == 2
    bench.pass_time(10.0)
    assert bench.disk.synced == 2


def test_pause_between_tries_doubles_to_its_bound(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk.is_full = True
    bench.take(events(1, 2))
    bench.pass_time(1.0)
    pauses = []
    for _ in range(7):
        pauses.append(bench.writer.next_deadline() - bench.now)
        bench.pass_time(pauses[-1])
    assert pauses == [FIRST_RETRY_S, 1.0, 2.0, 4.0, 8.0, LAST_RETRY_S, LAST_RETRY_S]


def test_source_that_was_sealed_before_the_disk_was_full_is_not_sealed_twice(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk.is_full, bench.disk.spare = True, 1
    bench.take(events(1, 20))
    bench.pass_time(1.0)
    assert (len(sealed(tmp_path, "flows")), len(sealed(tmp_path, "lifecycle"))) == (18, 0)
    assert bench.writer.state.sealed == 0
    bench.disk.is_full = False
    bench.pass_time(LAST_RETRY_S)
    assert bench.seqs() == list(range(1, 21))


def test_beyond_the_memory_bound_the_newest_are_dropped_and_told(tmp_path: Path) -> None:
    kept, first_dropped, also_dropped = events(1, 10), events(2, 10, first_seq=11), events(3, 1, first_seq=21)
    bench = Bench(tmp_path, max_held_bytes=len(rows_frame(kept)) + 300)
    bench.disk.is_log_full = True
    bench.take(kept)
    bench.take(first_dropped)
    bench.take(also_dropped)
    lost_requests = requests_of([*first_dropped, *also_dropped])
    state = bench.writer.state
    assert (state.dropped, state.dropped_requests, state.frames) == (11, lost_requests, 0)
    bench.disk.is_log_full = False
    bench.pass_time(LAST_RETRY_S)
    bench.pass_time(1.0)
    assert bench.seqs() == [*range(1, 11), 21]
    [told] = [row for row in sealed(tmp_path, "lifecycle") if row["event"] == "EventsDropped" and row["seq"] == 21]
    assert dict(told["tags"]) == {"records": "11", "first_seq": "11", "last_seq": "21"}
    assert (told["requests"], told["reason"]) == (lost_requests, "folder-unwritable")
    state = bench.writer.state
    assert (state.dropped, state.dropped_requests, state.frames, state.sealed) == (11, lost_requests, 3, 10)
    assert "11 records were dropped" in bench.said[1]


def test_after_a_told_gap_records_are_kept_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_held_bytes=1000)
    bench.take(events(1, 30))  # one frame larger than the bound
    bench.take(events(1, 2, first_seq=31))
    bench.pass_time(1.0)
    assert bench.seqs() == [30, 31, 32]
    assert (bench.writer.state.dropped, bench.writer.state.frames) == (30, 2)


def test_empty_frame_makes_no_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take([])
    assert (bench.writer.next_deadline(), list(tmp_path.iterdir())) == (ADOPT_S, [])


def test_state_counts_records_and_requests_that_are_safe(tmp_path: Path) -> None:
    records = events(1, 40)
    bench = Bench(tmp_path)
    bench.take(records)
    [log] = tmp_path.glob("_tmp/*")
    state = bench.writer.state
    assert (state.sealed, state.held_bytes, state.wal_bytes, state.frames) == (0, 0, log.stat().st_size, 1)
    bench.pass_time(1.0)
    state = bench.writer.state
    assert (state.sealed, state.sealed_requests, state.sealed_seq, state.segments) == (40, requests_of(records), 40, 2)


def test_definitions_are_bounded_and_those_longest_unused_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_sink.writer.machine.MAX_DEFINITIONS", 20)
    bench, rng, seq = Bench(tmp_path, roll_s=1.0), random.Random(1), 0
    for first in range(1, 101, 10):  # ten new flows in each log, and the first one in all of them
        flows = list(range(first, first + 10))
        rows: list[object] = [definition(flow) for flow in flows]
        for flow in [1, *flows]:
            seq += 1
            rows.append(request(rng, seq, flow))
        bench.writer.take(msgspec.msgpack.encode(rows), bench.now, WALL_S)
        bench.pass_time(1.0)
    assert bench.writer.state.dropped == 0
    late = [request(rng, seq + 1, 1), request(rng, seq + 2, 100), request(rng, seq + 3, 2)]
    bench.writer.take(msgspec.msgpack.encode(late), bench.now, WALL_S)
    bench.pass_time(1.0)
    assert [row["seq"] for row in sealed(tmp_path, "requests")] == list(range(1, seq + 3))
    [gap] = sealed(tmp_path, "lifecycle")
    assert (gap["reason"], gap["seq"]) == ("unknown-flow", seq + 3)
    assert bench.writer.state.dropped == 1


def test_definitions_are_bounded_while_the_folder_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_sink.writer.machine.MAX_DEFINITIONS", 20)
    folder = tmp_path / "events"
    folder.write_text("no folder")
    bench, rng = Bench(folder, max_held_bytes=2000), random.Random(1)
    for flow in range(1, 500):
        frame = msgspec.msgpack.encode([definition(flow), request(rng, flow, flow)])
        bench.writer.take(frame, bench.now, WALL_S)
        assert len(bench.writer._known) <= 60  # 20, those that frames in memory name, and as many again
    folder.unlink()
    bench.pass_time(60.0)
    bench.pass_time(1.0)
    kept = [row["seq"] for row in sealed(folder, "requests")]
    assert kept == list(range(1, len(kept) + 1))
    assert len(kept) + bench.writer.state.dropped == 499
