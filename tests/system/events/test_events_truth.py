"""A load's own count equals the records of the broker, exactly, whatever dies meanwhile."""

import asyncio
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartBroker
from tests.system.support.counted_load import CountedLoad, Key
from tests.system.support.event_numbers import has_no_gap, rows
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import until

OPTIONS = {"events__requests": "all", "events__flow_interval_s": 0.2, "events__roll_s": 0.2}
KILLS = 3  # of the writer, one in each part of the load
LAST_MOMENT_S = 1.0  # a flow interval, and patience with a busy machine
LAST_REQUESTS_S = 0.25  # the last 20 ms of single requests, and the same
IN_FLIGHT = 8  # requests that had ended for the broker when it was killed, and not for the load


def counted(records: list[dict[str, Any]]) -> Counter[Key]:
    """Requests by service, model, routing and outcome."""
    counts: Counter[Key] = Counter()
    for row in records:
        counts[row["service"], row["model"], row["routing"], row["outcome"]] += row.get("requests", 1)
    return counts


def told(broker: BrokerProcess) -> dict[str, Any]:
    """What the broker says of its event files."""
    state: dict[str, Any] = broker.view("status")["event_files"]
    return state


async def kill_the_writer(broker: BrokerProcess) -> None:
    """And wait until another one has sealed something: then the broker knows it to be well."""
    before = await asyncio.to_thread(told, broker)
    os.kill(before["pid"], signal.SIGKILL)
    while True:
        now = await asyncio.to_thread(told, broker)
        if now["pid"] not in (0, before["pid"]) and now["sealed"] > before["sealed"]:
            return
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_records_equal_what_was_sent_though_the_writer_is_killed(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    broker = start_broker("--events", str(events), "--admin", "127.0.0.1:0", **OPTIONS)
    async with CountedLoad(broker.url("tcp")) as load:
        for _ in range(KILLS):
            await load.run_while(kill_the_writer(broker))
        await load.lose_a_service()
        await load.lose_a_caller()
    broker.signal()
    assert await asyncio.to_thread(broker.wait) == 0
    assert counted(rows(events, "flows")) == load.counts
    assert counted(rows(events, "requests")) == load.counts
    assert has_no_gap(events)


@pytest.mark.slow
async def test_broker_that_is_killed_leaves_all_but_its_last_moment(start_broker: StartBroker, tmp_path: Path) -> None:
    """What ended before, its single requests and the flows of the intervals that were over, is there; its writer tells
    that it died."""
    events = tmp_path / "events"
    options = OPTIONS | {"events__roll_s": 3600}  # the writer seals at the end of its input, and not before
    broker = start_broker("--events", str(events), "--admin", "127.0.0.1:0", **options)
    async with CountedLoad(broker.url("tcp")) as load:
        await load.run(3)
        ended = Counter(load.counts)
        more = asyncio.create_task(load.run(1_000_000))
        pid = (await asyncio.to_thread(told, broker))["pid"]
        killed_at = time.monotonic() + LAST_MOMENT_S
        looks: list[tuple[float, Counter[Key]]] = []

        def look() -> bool:
            looks.append((time.monotonic(), Counter(load.counts)))
            return looks[-1][0] > killed_at

        await until(look)
        broker.process.kill()
        late = time.monotonic() - LAST_REQUESTS_S
        await asyncio.gather(more, return_exceptions=True)
        broker.wait()
        await until(lambda: not os.path.exists(f"/proc/{pid}"))
    shortly_before = [counts for when, counts in looks if when < late][-1]
    assert shortly_before.total() > ended.total()
    for source, expected in (("flows", ended), ("requests", shortly_before)):
        there = counted(rows(events, source))
        assert expected <= there, source
        assert there.total() <= load.counts.total() + IN_FLIGHT, source
    assert has_no_gap(events)
    again = start_broker("--events", str(events))
    again.signal()
    assert await asyncio.to_thread(again.wait) == 0
    happened = sorted((row["epoch"], row["seq"], row["event"]) for row in rows(events, "lifecycle"))
    assert [event for _, _, event in happened if event in ("BrokerStarted", "BrokerStopped", "BrokerDied")] == [
        "BrokerStarted",
        "BrokerDied",
        "BrokerStarted",
        "BrokerStopped",
    ]
