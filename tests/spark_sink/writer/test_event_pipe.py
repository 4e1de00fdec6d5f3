import logging
import os
import random
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.edge import event_backlog, event_pipe
from broker.edge.event_backlog import EventBacklog
from broker.edge.event_pipe import EventPipe
from broker.events import BROKER_STARTED, LifecycleEvent
from spark_sink.event_files.frames import FrameSplitter, decode_header, decode_rows
from tests.spark_sink.records import (
    HEADER,
    NOON_MS,
    PROJECT,
    Event,
    definition,
    events,
    frames_in,
    pulled,
    request,
    requests_of,
    sealed_seqs,
)
from tests.system.support.waits import until

HEAD: dict[str, object] = {
    "broker_id": HEADER.broker_id,
    "broker_name": HEADER.broker_name,
    "epoch": HEADER.epoch,
    "version": "0.1.0",
}


class Reader:
    """The other end of a pipe that takes `room` bytes and then no more."""

    def __init__(self, room: int = 1 << 40) -> None:
        self.room = room
        self._splitter = FrameSplitter()

    def write(self, data: bytes | memoryview) -> int:
        if self.room == 0:
            raise BlockingIOError
        taken = bytes(data[: min(self.room, 1000)])
        self.room -= len(taken)
        self._splitter.add(taken)
        return len(taken)

    def rows(self) -> list[Any]:
        return [row for frame in pulled(self._splitter) for row in decode_rows(frame)]


def fields(records: Iterable[Event]) -> list[tuple[Any, ...]]:
    return [msgspec.structs.astuple(row) for row in decode_rows(msgspec.msgpack.encode([one.row() for one in records]))]


def told(row: Any) -> tuple[Any, ...]:
    """Of an EventsDropped row: sequence number, reason, requests, tags."""
    assert row.kind == 8
    return row.seq, row.reason, row.requests, dict(row.tags)


# EventBacklog: all decisions, no clock, no file descriptor


def pushed(backlog: EventBacklog, records: Iterable[Any], reader: Reader, last: bool = False) -> None:
    backlog.append(records)
    backlog.encode(NOON_MS, last=last)
    assert backlog.push(reader.write)


def test_events_arrive_in_order_and_whole() -> None:
    records = events(1, 50)
    backlog, reader = EventBacklog(), Reader()
    assert not backlog.append(records[:20])
    backlog.encode(NOON_MS)
    pushed(backlog, records[20:], reader)
    assert [msgspec.structs.astuple(row) for row in reader.rows()] == fields(records)
    assert (backlog.written, backlog.dropped, backlog.bytes, backlog.is_empty) == (50, 0, 0, True)


def test_stuck_pipe_drops_the_newest_and_tells_the_gap_when_half_is_free() -> None:
    backlog, stuck, reader = EventBacklog(max_bytes=4000), Reader(room=0), Reader()
    records = events(1, 200)
    for start in range(0, 200, 10):
        backlog.append(records[start : start + 10])
        backlog.encode(NOON_MS)
        assert not backlog.push(stuck.write)
        assert backlog.bytes <= 4000
    kept = 200 - backlog.dropped
    assert 0 < kept < 200
    assert backlog.push(reader.write)
    pushed(backlog, events(2, 1, first_seq=201), reader)
    *rows, last, gap = reader.rows()
    assert [row.seq for row in rows] == list(range(1, kept + 1))
    assert last.seq == 201
    lost = {"records": str(200 - kept), "first_seq": str(kept + 1), "last_seq": "200"}
    assert told(gap) == (200, "backlog-full", requests_of(records[kept:]), lost)
    assert gap.at_ms == NOON_MS


def test_while_less_than_half_is_free_the_gap_only_grows() -> None:
    backlog, reader = EventBacklog(max_bytes=5000), Reader(room=1500)
    for first_seq in range(1, 202, 10):
        backlog.append(events(1, 10, first_seq=first_seq))
        backlog.encode(NOON_MS)
    dropped = backlog.dropped
    backlog.push(reader.write)
    backlog.append(events(1, 1, first_seq=211))
    backlog.encode(NOON_MS)
    assert backlog.dropped == dropped + 1


def test_last_encode_tells_an_open_gap_however_full_it_is() -> None:
    backlog, reader = EventBacklog(max_bytes=10), Reader()
    pushed(backlog, events(1, 5), reader, last=True)
    [gap] = reader.rows()
    assert told(gap)[3] == {"records": "5", "first_seq": "1", "last_seq": "5"}
    assert backlog.is_empty


@pytest.mark.parametrize("detail, requests", [("\ud800", 0), ("", 2**64)])
def test_record_that_cannot_be_encoded_costs_only_itself(detail: str, requests: int) -> None:
    stranger = LifecycleEvent(BROKER_STARTED, 3, NOON_MS, detail=detail, requests=requests)
    backlog, reader = EventBacklog(), Reader()
    pushed(backlog, [*events(1, 2), stranger, *events(1, 2, first_seq=4)], reader)
    *rows, gap = reader.rows()
    assert [row.seq for row in rows] == [1, 2, 4, 5]
    assert told(gap) == (3, "unencodable", 0, {"records": "1", "first_seq": "3", "last_seq": "3"})


def test_only_strangers_leave_only_their_gaps() -> None:
    backlog, reader = EventBacklog(), Reader()
    pushed(backlog, [LifecycleEvent(BROKER_STARTED, 1, NOON_MS, detail="\ud800")], reader)
    assert [row.kind for row in reader.rows()] == [8]


def test_many_events_ask_to_be_encoded_at_once_and_become_several_frames() -> None:
    backlog, reader = EventBacklog(), Reader()
    assert backlog.append(events(1, 1) * (event_backlog.MAX_FRAME_RECORDS * 2 + 5))
    backlog.encode(NOON_MS)
    backlog.push(reader.write)
    assert len(reader.rows()) == event_backlog.MAX_FRAME_RECORDS * 2 + 5


def test_frame_of_large_records_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_backlog, "MAX_FRAME_BYTES", 1000)
    backlog, lengths = EventBacklog(), []

    def write(data: bytes | memoryview) -> int:
        lengths.append(len(data))
        return len(data)

    backlog.append(events(1, 40))
    backlog.encode(NOON_MS)
    backlog.push(write)
    assert max(lengths) <= 1004
    assert backlog.written == 40


def test_new_reader_gets_what_the_old_one_has_not_confirmed_and_nothing_is_counted_twice() -> None:
    backlog, old, new = EventBacklog(), Reader(), Reader()
    for first_seq in (1, 11, 21):
        pushed(backlog, events(1, 10, first_seq=first_seq), old)
    backlog.confirmed(1)
    backlog.append(events(1, 5, first_seq=31))
    backlog.rewind()
    backlog.encode(NOON_MS)
    assert backlog.first_number == 2
    assert backlog.push(new.write)
    assert [row.seq for row in new.rows()] == list(range(11, 36))
    assert (backlog.written, backlog.dropped, backlog.bytes) == (35, 0, 0)


def test_confirmed_frames_are_not_kept() -> None:
    backlog = EventBacklog()
    pushed(backlog, events(1, 10), Reader())
    pushed(backlog, events(1, 10, first_seq=11), Reader())
    assert backlog.sent_bytes > 0
    backlog.confirmed(2)
    assert (backlog.sent_bytes, backlog.first_number) == (0, 3)


def test_unconfirmed_frames_beyond_the_bound_are_told_when_the_writer_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_backlog, "MAX_SENT_BYTES", 3000)
    backlog, reader = EventBacklog(), Reader()
    records = events(1, 100)
    for start in range(0, 100, 5):
        pushed(backlog, records[start : start + 5], Reader())
        assert backlog.sent_bytes <= 3000
    backlog.rewind()
    pushed(backlog, [], reader)
    *rows, gap = reader.rows()
    lost = 100 - len(rows)
    assert 0 < lost < 100
    assert [row.seq for row in rows] == list(range(lost + 1, 101))
    expected = {"records": str(lost), "first_seq": "1", "last_seq": str(lost)}
    assert told(gap) == (lost, "writer-died", requests_of(records[:lost]), expected)
    assert backlog.dropped == lost


def test_unconfirmed_frames_beyond_the_bound_that_are_confirmed_later_are_no_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_backlog, "MAX_SENT_BYTES", 1)
    backlog, reader = EventBacklog(), Reader()
    pushed(backlog, events(1, 10), Reader())
    backlog.confirmed(1)
    backlog.rewind()
    pushed(backlog, [], reader)
    assert (reader.rows(), backlog.dropped) == ([], 0)


def test_requests_come_behind_the_definition_of_their_flow_and_a_new_reader_gets_it_again() -> None:
    rng = random.Random(1)
    backlog, old, new = EventBacklog(), Reader(), Reader()
    backlog.define(definition(7))
    pushed(backlog, [request(rng, 1, 7), request(rng, 2, 7)], old)
    backlog.confirmed(1)
    backlog.rewind()
    pushed(backlog, [request(rng, 3, 7)], new)
    assert [(type(row).__name__, row.flow) for row in old.rows()] == [
        ("DefinitionRow", 7),
        ("RequestRow", 7),
        ("RequestRow", 7),
    ]
    assert [(type(row).__name__, row.flow) for row in new.rows()] == [("DefinitionRow", 7), ("RequestRow", 7)]
    assert backlog.written == 3


def test_forgotten_flow_is_defined_again_as_long_as_a_frame_of_it_is_not_confirmed() -> None:
    rng = random.Random(1)
    backlog = EventBacklog()
    backlog.define(definition(7))
    pushed(backlog, [request(rng, 1, 7)], Reader())
    backlog.forget(7)
    first, second = Reader(), Reader()
    backlog.rewind()
    backlog.push(first.write)
    pushed(backlog, events(1, 1, first_seq=2), first)
    backlog.confirmed(2)
    backlog.rewind()
    backlog.push(second.write)
    assert [type(row).__name__ for row in first.rows()] == ["DefinitionRow", "DefinitionRow", "RequestRow", "FlowRow"]
    assert second.rows() == []


def test_a_flow_is_known_until_the_last_of_the_frames_with_its_rows_is_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So many rows wait that they become several frames, after the flow was forgotten."""
    monkeypatch.setattr(event_backlog, "MAX_FRAME_RECORDS", 4)
    rng, backlog, first, second = random.Random(1), EventBacklog(), Reader(), Reader()
    backlog.define(definition(7))
    backlog.append([request(rng, seq, 7) for seq in range(1, 10)])
    backlog.forget(7)
    assert backlog.defined == 1
    pushed(backlog, [], first)
    backlog.confirmed(2)
    backlog.rewind()
    backlog.push(second.write)
    assert [type(row).__name__ for row in second.rows()] == ["DefinitionRow", "RequestRow", "RequestRow"]
    backlog.confirmed(3)
    assert backlog.defined == 0


def test_definitions_are_not_dropped_with_the_requests_of_a_stuck_pipe() -> None:
    rng = random.Random(1)
    backlog, reader = EventBacklog(max_bytes=100), Reader()
    for number in range(1, 4):
        backlog.define(definition(number))
        backlog.append([request(rng, number * 10 + place, number) for place in range(10)])
        backlog.encode(NOON_MS)
    backlog.push(reader.write)
    pushed(backlog, [], reader)
    one, first_gap, two, three, gap = reader.rows()
    assert [row.flow for row in (one, two, three)] == [1, 2, 3]
    assert told(first_gap) == (19, "backlog-full", 0, {"records": "10", "first_seq": "10", "last_seq": "19"})
    assert told(gap) == (39, "backlog-full", 0, {"records": "20", "first_seq": "20", "last_seq": "39"})


# EventPipe: real processes


@pytest.fixture(autouse=True)
def _writers_find_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)


async def started(folder: Path, script: str = "", backlog: EventBacklog | None = None) -> EventPipe:
    """With our writer, or a program in its place; `FILE` in the script is a file that it may write."""
    command = [sys.executable, "-c", script.replace("FILE", repr(str(folder / "got")))] if script else []
    pipe = EventPipe(command, backlog)
    await pipe.start(folder, HEAD, 60.0)
    return pipe


@pytest.mark.slow
async def test_everything_appended_is_sealed_after_stop(tmp_path: Path) -> None:
    pipe = await started(tmp_path)
    records = events(1, 3000)
    for start in range(0, 3000, 100):
        pipe.append(records[start : start + 100])
    assert await pipe.stop(60.0)
    assert sealed_seqs(tmp_path) == list(range(1, 3001))
    state = pipe.state()
    assert (state.written, state.sealed, state.dropped, state.restarts, state.error) == (3000, 3000, 0, 0, "")
    assert (state.pid, state.backlog_bytes, state.held_bytes, state.segments) == (0, 0, 0, 2)


@pytest.mark.slow
async def test_killed_writer_is_replaced_and_nothing_is_lost_or_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_pipe, "FIRST_RESTART_S", 0.01)
    pipe = await started(tmp_path)
    pipe.append(events(1, 20))
    await until(lambda: pipe.state().wal_bytes > 0)  # in its log
    first = pipe.state().pid
    os.kill(first, signal.SIGSTOP)
    pipe.append(events(2, 10, first_seq=21))  # these stay in the pipe and go with it
    await until(lambda: pipe.state().written == 30)
    os.kill(first, signal.SIGKILL)
    await until(lambda: pipe.state().restarts == 1)
    pipe.append(events(3, 5, first_seq=31))
    assert await pipe.stop(60.0)
    assert sealed_seqs(tmp_path) == list(range(1, 36))
    state = pipe.state()
    assert (state.written, state.sealed, state.dropped, state.recovered) == (35, 35, 0, 20)
    assert f"the writer (pid {first}) ended with -9" in caplog.text


@pytest.mark.slow
async def test_writer_that_is_killed_while_the_broker_stops_is_replaced_once_more(tmp_path: Path) -> None:
    pipe = await started(tmp_path)
    pipe.append(events(1, 20))
    await until(lambda: pipe.state().wal_bytes > 0)
    os.kill(pipe.state().pid, signal.SIGKILL)
    pipe.append(events(1, 20, first_seq=21))
    assert await pipe.stop(60.0)
    assert sealed_seqs(tmp_path) == list(range(1, 41))
    assert (pipe.state().sealed, pipe.state().dropped) == (40, 0)


async def test_new_writer_is_given_numbers_beyond_those_of_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_pipe, "FIRST_RESTART_S", 0.001)
    script = (
        "import os\nhead = os.read(0, 1000)\nwith open(FILE, 'ab') as file: file.write(head)\n"
        "if os.path.getsize(FILE) > len(head): os.read(0, 1)\n"
        """else: print('{"sealed": 3, "sealed_seq": 3, "next_number": 8}')"""
    )
    pipe = await started(tmp_path, script)
    await until(lambda: pipe.state().restarts == 1 and pipe.state().pid > 0)
    await pipe.stop(60.0)
    headers = [decode_header(frame) for frame in frames_in(tmp_path / "got")]
    assert [header.first_number for header in headers] == [1, 1008]
    assert headers[0].version == "0.1.0"


async def test_writer_that_cannot_be_started_is_tried_again_and_nothing_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_pipe, "FIRST_RESTART_S", 0.001)
    pipe = EventPipe([str(tmp_path / "nothing")])
    await pipe.start(tmp_path, HEAD, 1.0)
    pipe.append(events(1, 10))
    await until(lambda: pipe.state().restarts >= 3)
    assert "No such file" in pipe.state().error
    assert not await pipe.stop(1.0)
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1
    assert pipe.state().written == 0


async def test_writer_that_never_reads_costs_bounded_memory_and_no_time(tmp_path: Path) -> None:
    pipe = await started(tmp_path, "import time; time.sleep(600)", EventBacklog(max_bytes=100_000))
    batch = events(1, 100)
    while not pipe.state().dropped:
        pipe.append(batch * 100)
    assert pipe.state().backlog_bytes <= 100_000
    assert not await pipe.stop(0.05)
    os.kill(pipe.state().pid, signal.SIGKILL)
    await until(lambda: pipe.state().pid == 0)


async def test_slow_writer_gets_everything_in_the_end(tmp_path: Path) -> None:
    script = "import os\nwith open(FILE, 'wb') as file:\n    while data := os.read(0, 4096): file.write(data)\n"
    pipe = await started(tmp_path, script)
    os.kill(pipe.state().pid, signal.SIGSTOP)
    batch = events(1, 1000)
    for _ in range(20):
        pipe.append(batch * 10)
    assert pipe.state().backlog_bytes > 0  # more than a pipe holds
    os.kill(pipe.state().pid, signal.SIGCONT)
    assert not await pipe.stop(60.0)  # it has sealed nothing
    assert sum(len(decode_rows(frame)) for frame in frames_in(tmp_path / "got")[1:]) == 200_000


async def test_writer_that_says_nonsense_is_said_and_survived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pipe = await started(tmp_path, "import os\nprint('nonsense', flush=True)\nwhile os.read(0, 4096): pass")
    await until(lambda: "an invalid state" in caplog.text)
    assert await pipe.stop(60.0)


async def test_events_before_start_wait_and_after_stop_are_counted(tmp_path: Path) -> None:
    pipe = EventPipe()
    pipe.append(events(1, 5))
    await pipe.start(tmp_path, HEAD, 60.0)
    assert await pipe.stop(60.0)
    pipe.append(events(1, 2, first_seq=6))
    assert sealed_seqs(tmp_path) == [1, 2, 3, 4, 5]
    assert pipe.state().dropped == 2


async def test_stop_without_start_is_no_error() -> None:
    assert await EventPipe().stop(1.0)
