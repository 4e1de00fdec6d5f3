"""What happened is in sealed files: after an orderly stop, and after a death of the broker."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from rsocket_wire.rsocket.frames import REQUEST_FNF
from spark_sink.writer.retention import Reading, declare
from tests.conftest import MakeServer, StartBroker
from tests.system.support.event_numbers import has_no_gap, rows
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import soon, until
from tests.system.support.wires import Wire

# Who came and what they asked: see `live`.
INTERVAL_S = 0.1  # of flows
EXPECTED_REQUESTS = {
    ("request_response", "completed"): 5,
    ("request_response", "rejected"): 2,
    ("fire_and_forget", "completed"): 3,
}


def requests(folder: Path) -> dict[tuple[str, str], int]:
    """Requests by model and outcome."""
    counts: dict[tuple[str, str], int] = {}
    for row in rows(folder, "flows"):
        key = row["model"], row["outcome"]
        counts[key] = counts.get(key, 0) + row["requests"]
    return counts


def happened(folder: Path) -> list[str]:
    return [row["event"] for row in rows(folder, "lifecycle")]


async def live(broker: BrokerProcess) -> list[Wire]:
    """A service and a caller; their requests have ended when this returns."""
    service = await Wire.service(broker.url("tcp"), "orders", 1, region="eu")
    caller = await Wire.caller(broker.url("ws"))
    for _ in range(5):
        caller.request("orders")
        service.answer(await service.receive(), b"done")
        await caller.receive()
    for _ in range(2):
        await caller.ask("nobody")
    for _ in range(3):
        caller.request("orders", kind=REQUEST_FNF)
        await service.receive()
    return [service, caller]


async def test_all_is_in_sealed_files_after_a_stop(start_broker: StartBroker, tmp_path: Path) -> None:
    events = tmp_path / "made" / "by the broker"
    broker = start_broker("--events", str(events), events__flow_interval_s=0.1, events__roll_s=0.1, broker__name="eu-1")
    service, caller = await live(broker)
    await service.close()
    broker.signal()
    assert (await caller.rest())[-1].text.startswith("broker-stopped:")
    await caller.close()
    assert await asyncio.to_thread(broker.wait) == 0

    assert requests(events) == EXPECTED_REQUESTS
    assert has_no_gap(events)
    lifecycle = rows(events, "lifecycle")
    assert [row["event"] for row in lifecycle] == [
        "BrokerStarted",
        "PeerConnected",
        "RouteJoined",
        "PeerConnected",
        "RouteLeft",
        "PeerClosed",
        "PeerClosed",
        "BrokerStopped",
    ]
    joined, left = lifecycle[2], lifecycle[4]
    assert (joined["service"], dict(joined["tags"])["io.rsocket.routing.Region"]) == ("orders", "eu")
    assert (left["route_id"], left["reason"], left["requests"]) == (joined["route_id"], "left", 8)
    assert lifecycle[6]["reason"] == "broker-stopped"
    assert {row["broker_name"] for row in lifecycle} == {"eu-1"}
    assert not list(events.rglob(".*")), "nothing half-written is left"


@pytest.mark.parametrize("frames", ["", "orders"])
async def test_the_load_is_measured_where_event_files_are_written_and_nowhere_else(
    make_server: MakeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    frames: str,
) -> None:
    """Here with each tick; by a broker that logs frames, too."""
    monkeypatch.setattr("broker.load_meter.LOAD_S", 0.0)
    caplog.set_level("DEBUG", "broker")
    without = await make_server(**{"log.frames": frames})
    await until(lambda: without.core.lag.number > 3)
    assert "load: " not in caplog.text
    await make_server(**{"log.frames": frames, "events.dir": tmp_path, "events.roll_s": 0.1})
    await until(lambda: "BrokerLoad" in happened(tmp_path))
    assert "load: cpu_permille=" in caplog.text


async def test_every_single_request_is_in_sealed_files_and_equals_the_flows(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    options = {"events__flow_interval_s": 0.1, "events__roll_s": 0.1, "events__requests": "all"}
    broker = start_broker("--events", str(events), **options, events__snapshot_s=0.1)
    service, caller = await live(broker)
    await until(lambda: "TableDigest" in happened(events))
    broker.signal()
    await caller.rest()
    await caller.close()
    await service.close()
    assert await asyncio.to_thread(broker.wait) == 0
    single: dict[tuple[str, str], int] = {}
    for row in rows(events, "requests"):
        key = row["model"], row["outcome"]
        single[key] = single.get(key, 0) + row["weight"]
    assert single == requests(events) == EXPECTED_REQUESTS
    assert [row["choice"] for row in rows(events, "requests") if row["choice"]] == list(range(1, 9))
    assert {"RouteSeen", "TableDigest"} <= set(happened(events))
    assert {row["emptied_by"] for row in rows(events, "requests")} == {"", "service=nobody"}


@pytest.mark.slow
async def test_all_that_was_handed_over_is_in_sealed_files_after_a_kill(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    """The writer is a process of its own: it seals what it has when the broker is gone, and goes too."""
    events = tmp_path / "events"
    options = {"events__flow_interval_s": INTERVAL_S, "events__roll_s": 3600}  # not a file before the end
    broker = start_broker("--events", str(events), "--admin", "127.0.0.1:0", **options)
    wires = await live(broker)
    # BrokerStarted, two PeerConnected, RouteJoined, and three flows; more where an interval has ended between requests.
    told, same_since = {"written": 0}, time.monotonic()
    while told["written"] < 7 or time.monotonic() - same_since < 3 * INTERVAL_S:
        await asyncio.sleep(0.01)
        before, told = told, (await asyncio.to_thread(broker.view, "status"))["event_files"]
        if told["written"] != before["written"]:
            same_since = time.monotonic()
    assert rows(events, "flows") == []
    broker.process.kill()
    broker.wait()
    await until(lambda: not os.path.exists(f"/proc/{told['pid']}"))
    assert requests(events) == EXPECTED_REQUESTS
    assert happened(events) == [
        *("BrokerStarted", "PeerConnected", "RouteJoined", "PeerConnected"),
        "BrokerDied",  # its writer tells it
    ]
    assert has_no_gap(events)
    for wire in wires:
        await wire.close()

    again = start_broker("--events", str(events))
    again.signal()
    assert await soon(asyncio.to_thread(again.wait)) == 0
    assert happened(events)[5:] == ["BrokerStarted", "BrokerStopped"]  # a new epoch, behind the old one
    assert has_no_gap(events)


def modes(folder: Path) -> dict[str, set[int]]:
    """Of all that is below: of folders, and of files by how their names end."""
    found: dict[str, set[int]] = {}
    for path in [folder, *folder.rglob("*")]:
        kind = "folder" if path.is_dir() else path.suffix
        found.setdefault(kind, set()).add(path.stat().st_mode & 0o777)
    return found


async def test_event_files_are_for_the_user_and_the_group_of_the_broker(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    """Whatever the umask is: they tell who asks for what."""
    folder = tmp_path / "some" / "events"
    before = os.umask(0)
    try:
        broker = start_broker("--events", str(folder), events__roll_s=600)
    finally:
        os.umask(before)
    for wire in await live(broker):
        await wire.close()
    declare(folder, "reader", Reading(archives=True))
    await until(lambda: list(folder.rglob("*.wal")))
    assert modes(folder) == {"folder": {0o750}, ".wal": {0o640}, ".json": {0o640}}
    broker.signal()
    assert broker.wait() == 0
    assert modes(folder) == {"folder": {0o750}, ".parquet": {0o640}, ".json": {0o640}}
