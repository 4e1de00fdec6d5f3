"""Single requests on their way into the pipe: in which order, how long they wait, and what a full pipe costs them."""

import asyncio
import os
import random
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.edge import event_backlog, event_pipe
from broker.edge.event_backlog import EventBacklog
from broker.forwarding.traffic.request_log import RequestRows
from spark_sink.event_files.frames import decode_rows
from tests.spark_sink.records import NOON_MS, definition, events, frames_in, request
from tests.spark_sink.writer.test_event_pipe import Reader, pushed, started
from tests.system.support.waits import until

COPY = "import os\nwith open(FILE, 'wb', 0) as file:\n    while data := os.read(0, 1 << 20): file.write(data)\n"


def requests(flow: int, seqs: Sequence[int], *, is_new: bool = True, forgotten: Sequence[int] = ()) -> RequestRows:
    """Of one flow; `is_new`: with its definition."""
    rng = random.Random(flow)
    rows: list[tuple[object, ...]] = [request(rng, seq, flow) for seq in seqs]
    return RequestRows([definition(flow)] if is_new else [], rows, list(forgotten))


def frames(path: Path) -> list[list[str]]:
    """What a writer got, but for the header: each record by the beginning of its type and its number."""
    return [[named(row) for row in decode_rows(frame)] for frame in frames_in(path)[1:]]


def named(row: Any) -> str:
    kind = type(row).__name__.removesuffix("Row").lower()
    return f"{kind} {row.flow if kind == 'definition' else row.seq}"


async def test_what_comes_in_one_turn_of_the_loop_is_one_frame_in_the_order_in_which_it_came(tmp_path: Path) -> None:
    pipe = await started(tmp_path, COPY)
    pipe.append_requests(requests(1, [1, 2]))
    pipe.append_requests(requests(2, [3], forgotten=[1]))
    pipe.append(events(1, 2, first_seq=9))  # a flow record and an event, the flow's requests before it
    await asyncio.sleep(0)
    pipe.append_requests(requests(2, [4], is_new=False))
    await asyncio.sleep(0)
    assert not await pipe.stop(60.0)  # it has sealed nothing
    assert frames(tmp_path / "got") == [
        ["definition 1", "request 1", "request 2", "definition 2", "request 3", "flow 9", "lifecycle 10"],
        ["request 4"],
    ]


async def test_a_request_is_in_the_pipe_at_the_end_of_the_turn(tmp_path: Path) -> None:
    """Who gathers them waits already: whatever waits here, too, is lost with a broker that is killed."""
    pipe = await started(tmp_path, COPY)
    pipe.append_requests(requests(1, [1, 2, 3]))
    assert pipe.state().written == 0
    await asyncio.sleep(0)
    assert (pipe.state().written, pipe.state().single_requests, pipe.state().defined_flows) == (3, 3, 1)
    await pipe.stop(60.0)


async def test_requests_that_a_full_pipe_does_not_take_wait_and_those_beyond_the_bound_are_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the writer after the one that did not read knows every flow of what it gets."""
    monkeypatch.setattr(event_pipe, "FIRST_RESTART_S", 0.001)
    monkeypatch.setattr(event_pipe, "PIPE_BYTES", 4096)
    script = "import os, time\nif not os.path.exists(FILE):\n    open(FILE, 'w').close()\n    time.sleep(600)\n" + COPY
    pipe = await started(tmp_path, script, EventBacklog(max_bytes=100_000))
    await until((tmp_path / "got").exists)
    came = 0
    for flow in range(1, 1000):
        pipe.append_requests(requests(flow, range(came + 1, came + 51), forgotten=[flow - 1] if flow > 1 else []))
        came += 50
        await asyncio.sleep(0)
        if pipe.state().dropped > 500:
            break
    state = pipe.state()
    assert 50_000 < state.backlog_bytes <= 110_000  # the definitions of what was dropped are in it, too
    assert state.dropped > 500
    assert state.single_requests == came
    os.kill(state.pid, signal.SIGKILL)
    await until(lambda: pipe.state().restarts == 1 and pipe.state().pid > 0 and pipe.state().backlog_bytes == 0)
    await pipe.stop(60.0)
    got = [name for frame in frames(tmp_path / "got") for name in frame]
    kept = came - state.dropped
    assert [name for name in got if name.startswith("request")] == [f"request {seq}" for seq in range(1, kept + 1)]
    assert [name for name in got if name.startswith("lifecycle")] == [f"lifecycle {came}"]  # one gap, its last number
    known: set[int] = set()
    for name in got:
        kind, number = name.split()
        if kind == "definition":
            known.add(int(number))
        assert kind != "request" or (int(number) - 1) // 50 + 1 in known


async def test_requests_after_the_stop_are_counted_and_hold_nothing(tmp_path: Path) -> None:
    pipe = await started(tmp_path, COPY)
    assert await pipe.stop(60.0)
    pipe.append_requests(requests(1, [1, 2]))
    assert (pipe.state().dropped, pipe.state().defined_flows) == (2, 0)


def intervals(backlog: EventBacklog, count: int, between: Callable[[], object]) -> None:
    """So many, each with ten flows of one request that are forgotten with it."""
    rng = random.Random(1)
    for interval in range(count):
        flows = range(1 + 10 * interval, 11 + 10 * interval)
        for flow in flows:
            backlog.define(definition(flow))
        backlog.append([request(rng, flow, flow) for flow in flows])
        for flow in flows:
            backlog.forget(flow)
        backlog.encode(NOON_MS)
        between()


def test_flows_that_come_and_go_while_the_pipe_is_stuck_hold_no_memory() -> None:
    backlog, reader = EventBacklog(max_bytes=10_000), Reader()
    intervals(backlog, 500, lambda: None)
    assert backlog.bytes < 10_000
    assert backlog.defined < 100
    backlog.push(reader.write)
    backlog.define(definition(9000))
    pushed(backlog, [request(random.Random(1), 9000, 9000)], reader)
    assert [named(row) for row in reader.rows()[-3:]] == ["definition 9000", "request 9000", "lifecycle 5000"]


def test_a_flow_that_began_while_the_pipe_was_stuck_and_goes_on_is_known_behind_the_gap() -> None:
    backlog, reader, rng = EventBacklog(max_bytes=10_000), Reader(), random.Random(1)
    backlog.define(definition(8000))
    backlog.append([request(rng, 1, 8000)])
    intervals(backlog, 100, lambda: None)
    backlog.define(definition(9000))
    pushed(backlog, [request(rng, 9000, 9000)], reader)
    pushed(backlog, [request(rng, 9001, 9000), request(rng, 9002, 8000)], reader)
    assert [named(row) for row in reader.rows()[-4:]] == [
        *("definition 9000", "request 9001", "request 9002", "lifecycle 9000")
    ]


def test_flows_of_frames_that_are_not_kept_for_the_next_writer_are_not_kept_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A writer whose folder cannot be written takes frames for hours and confirms none."""
    monkeypatch.setattr(event_backlog, "MAX_SENT_BYTES", 10_000)
    backlog, reader = EventBacklog(), Reader()
    intervals(backlog, 500, lambda: backlog.push(reader.write))
    assert backlog.sent_bytes <= 10_000
    assert backlog.defined < 100


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_each_request_that_arrives_finds_its_flow_and_the_others_are_told(seed: int) -> None:
    """A pipe that is stuck now and then, writers that die, and confirm late."""
    rng = random.Random(seed)
    backlog, reader = EventBacklog(max_bytes=6000), Reader()
    seq = flow = 0
    there: set[int] = set()  # sequence numbers
    gaps: dict[int, int] = {}  # records, by sequence number: what a writer has not confirmed the next one gets again
    live: list[int] = []
    known: set[int] = set()  # of the reader that reads now

    def read() -> None:
        for row in reader.rows():
            kind, number = named(row).split()
            if kind == "definition":
                known.add(int(number))
            elif kind == "request":
                assert row.flow in known
                there.add(int(number))
            else:
                gaps[row.seq] = int(dict(row.tags)["records"])

    for _ in range(600):
        for _ in range(rng.randrange(4)):
            flow += 1
            live.append(flow)
            backlog.define(definition(flow))
        rows = [request(rng, seq + number, rng.choice(live)) for number in range(1, rng.randrange(1, 9)) if live]
        seq += len(rows)
        backlog.append(rows)
        while live and rng.random() < 0.4:
            backlog.forget(live.pop(rng.randrange(len(live))))
        backlog.encode(NOON_MS)
        if rng.random() < 0.3:
            reader.room = rng.choice([0, 500, 1 << 40])
        backlog.push(reader.write)
        read()
        if rng.random() < 0.2:
            backlog.confirmed(backlog.first_number - 1 - rng.randrange(3))
        if rng.random() < 0.02:
            reader, known = Reader(), set()
            backlog.rewind()
    reader.room = 1 << 40
    backlog.push(reader.write)
    pushed(backlog, [], reader, last=True)
    read()
    assert gaps
    assert len(there) + sum(gaps.values()) == seq
    backlog.confirmed(backlog.first_number - 1)
    assert backlog.defined <= len(live) + 10  # those that were forgotten last wait for one frame more
