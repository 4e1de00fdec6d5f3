from pathlib import Path
from typing import Any

import pytest

from broker.events import FlowRecord
from spark_sink.errors import BadFrame
from spark_sink.segments import Disk
from spark_sink.writer import FIRST_RETRY_S, LAST_RETRY_S, Writer
from tests.spark_sink.records import HEADER, NOON_MS, Event, events, requests_of, rows_frame, sealed, sealed_seqs

WALL_S = NOON_MS / 1000
HOUR_S = 3600.0


class SwitchedDisk(Disk):
    """A disk that is full while `is_full`; it can write `spare` files even then."""

    def __init__(self) -> None:
        self.is_full = False
        self.spare = 0

    def write_synced(self, path: Path, data: bytes | memoryview) -> None:
        if self.is_full and self.spare == 0:
            raise OSError(28, "No space left on device")
        self.spare = max(0, self.spare - 1)
        super().write_synced(path, data)


class Bench:
    """A writer with a switched disk and a clock that starts at 0; `said` is what people read."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.disk = SwitchedDisk()
        self.said: list[str] = []
        self.writer = Writer(folder, HEADER, disk=self.disk, say=self.said.append, roll_s=1.0, **options)
        self.now = 0.0

    def take(self, records: list[Event], wall_s: float = WALL_S) -> None:
        self.writer.take(rows_frame(records), self.now, wall_s)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.writer.tick(self.now, WALL_S + self.now)

    def seqs(self) -> list[int]:
        return sealed_seqs(self.folder)


def test_batch_is_sealed_when_its_oldest_record_is_roll_s_old(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.writer.next_deadline() == float("inf")
    bench.take(events(1, 10))
    bench.pass_time(0.9)
    bench.take(events(2, 10, first_seq=11))
    assert (bench.seqs(), bench.writer.next_deadline()) == ([], 1.0)
    bench.pass_time(0.1)
    assert bench.seqs() == list(range(1, 21))
    assert bench.writer.next_deadline() == float("inf")
    assert sorted(path.name for path in tmp_path.glob("*/*")) == [
        f"{HEADER.broker_id}-{HEADER.epoch}-0000000001.parquet",
        f"{HEADER.broker_id}-{HEADER.epoch}-0000000002.parquet",
    ]


def test_batch_is_sealed_at_once_when_it_is_roll_bytes_large(tmp_path: Path) -> None:
    bench = Bench(tmp_path, roll_bytes=2000)
    bench.take(events(1, 2))
    assert bench.seqs() == []
    bench.take(events(1, 30, first_seq=3))
    assert bench.seqs() == list(range(1, 33))


def test_batch_never_reaches_over_the_hour(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take(events(1, 3), WALL_S + HOUR_S - 0.1)
    bench.take(events(1, 3, first_seq=4), WALL_S + HOUR_S)
    assert bench.seqs() == [1, 2, 3]


def test_hours_that_were_held_together_become_batches_of_their_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk.is_full = True
    bench.take(events(1, 3), WALL_S)
    bench.pass_time(1.0)
    bench.take(events(1, 3, first_seq=4), WALL_S)
    bench.take(events(1, 3, first_seq=7), WALL_S + HOUR_S)
    bench.disk.is_full = False
    bench.pass_time(LAST_RETRY_S)
    assert len(list(tmp_path.glob("flows/*"))) == 3  # the one that was tried, the rest of its hour, the next hour
    assert bench.seqs() == list(range(1, 10))


def test_full_disk_loses_nothing_that_fits_and_is_said_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk.is_full = True
    bench.take(events(1, 20))
    for first_seq in range(21, 121, 20):
        bench.pass_time(LAST_RETRY_S)
        bench.take(events(1, 20, first_seq=first_seq))
    assert len(bench.said) == 1
    assert "cannot be written ([Errno 28] No space left on device)" in bench.said[0]
    assert bench.writer.state.error == "[Errno 28] No space left on device"
    bench.disk.is_full = False
    bench.pass_time(LAST_RETRY_S)
    assert bench.seqs() == list(range(1, 121))
    assert "can be written again after 50.0 s, nothing was lost" in bench.said[1]
    assert (bench.writer.state.error, bench.writer.state.held_bytes, bench.writer.state.sealed) == ("", 0, 120)


def test_pause_between_tries_doubles_to_its_bound(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk.is_full = True
    bench.take(events(1, 2))
    pauses = []
    for _ in range(7):
        bench.pass_time(bench.writer.next_deadline() - bench.now)
        pauses.append(bench.writer.next_deadline() - bench.now)
    assert pauses == [FIRST_RETRY_S, 1.0, 2.0, 4.0, 8.0, LAST_RETRY_S, LAST_RETRY_S]


def test_table_that_was_sealed_before_the_disk_was_full_is_not_sealed_twice(tmp_path: Path) -> None:
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
    bench.disk.is_full = True
    bench.take(kept)
    bench.pass_time(1.0)
    bench.take(first_dropped)
    bench.take(also_dropped)
    bench.disk.is_full = False
    bench.pass_time(LAST_RETRY_S)
    lost_requests = requests_of([*first_dropped, *also_dropped])
    assert bench.seqs() == [*range(1, 11), 21]
    [told] = [row for row in sealed(tmp_path, "lifecycle") if row["event"] == "EventsDropped" and row["seq"] == 21]
    assert dict(told["tags"]) == {"records": "11", "first_seq": "11", "last_seq": "21"}
    assert (told["requests"], told["reason"]) == (lost_requests, "folder-unwritable")
    assert (bench.writer.state.dropped, bench.writer.state.dropped_requests) == (11, lost_requests)
    assert "11 records were dropped" in bench.said[1]


def test_after_a_told_gap_records_are_kept_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_held_bytes=1000)
    bench.take(events(1, 30))  # one frame larger than the bound
    bench.take(events(1, 2, first_seq=31))
    bench.pass_time(1.0)
    bench.take(events(1, 2, first_seq=33))
    bench.pass_time(1.0)
    assert bench.seqs() == [32, 33, 34]
    assert bench.writer.state.dropped == 32


def test_bad_frame_changes_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take(events(1, 5))
    with pytest.raises(BadFrame):
        bench.writer.take(b"garbage", bench.now, WALL_S)
    bench.pass_time(1.0)
    assert bench.seqs() == [1, 2, 3, 4, 5]


def test_empty_frame_makes_no_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take([])
    assert (bench.writer.next_deadline(), list(tmp_path.iterdir())) == (float("inf"), [])


def test_state_counts_records_and_requests_that_are_safe(tmp_path: Path) -> None:
    records = events(1, 40)
    bench = Bench(tmp_path)
    bench.take(records)
    assert (bench.writer.state.sealed, bench.writer.state.held_bytes) == (0, len(rows_frame(records)))
    bench.pass_time(1.0)
    state = bench.writer.state
    expected = sum(record.requests for record in records if isinstance(record, FlowRecord))
    assert (state.sealed, state.sealed_requests, state.sealed_seq, state.segments, state.next_number) == (
        *(40, expected, 40),
        *(2, 3),
    )


def test_second_writer_of_an_epoch_goes_on_with_the_numbers(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.take(events(1, 2))
    first.pass_time(1.0)
    second = Bench(tmp_path)
    second.take(events(1, 2, first_seq=3))
    second.pass_time(1.0)
    assert second.seqs() == [1, 2, 3, 4]


def test_events_folder_that_is_a_file_is_an_unwritable_folder(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.write_text("no folder")
    bench = Bench(folder)
    bench.take(events(1, 5))
    bench.pass_time(1.0)
    assert "cannot be written" in bench.said[0]
    folder.unlink()
    bench.pass_time(LAST_RETRY_S)
    assert bench.seqs() == [1, 2, 3, 4, 5]
