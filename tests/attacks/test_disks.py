"""Disks that are full, and a writer of event files that takes nothing: traffic goes on, and nothing is half there."""

import errno
import os
import signal
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker import server as server_module
from broker.edge.event_backlog import EventBacklog
from broker.edge.event_pipe import EventPipe, PipeState
from broker.server import Server
from client_sdk import connect
from rsocket_wire.rsocket.frames import encode_metadata_push
from spark_sink.feed.consumer import places
from tests.attacks.brokers import running
from tests.attacks.test_feed import attacked
from tests.attacks.test_gateway import attacked as at_gateway
from tests.attacks.test_gateway import taking
from tests.client_sdk.gateways.samwise.callers import publish
from tests.fakes import announcement
from tests.system.support.waits import until
from tests.system.support.wires import Wire

FULL = 1 << 50  # bytes that nobody has: so many are to be left free


def state_of(server: Server) -> PipeState:
    state = server.event_state()
    assert state is not None  # it writes event files
    return state


async def test_event_files_that_nobody_can_write_hold_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where there is no room, nor where the writer takes nothing any more."""
    monkeypatch.setattr(server_module, "EventPipe", partial(EventPipe, backlog=EventBacklog(20_000)))
    options = {"events.dir": tmp_path / "events", "events.min_free_bytes": FULL, "limits.max_route_setups_per_s": 0}
    async with running(options) as server:
        service = await Wire.service(server.listeners[0], "orders", 1)
        service.begin_echo()
        caller = await Wire.caller(server.listeners[0])
        await until(lambda: state_of(server).error)
        assert (await caller.ask("orders", b"no room")).data == b"no room"
        pid = state_of(server).pid
        os.kill(pid, signal.SIGSTOP)
        try:
            flood = await Wire.caller(server.listeners[0])
            for number in range(1000):
                flood.send(encode_metadata_push(announcement(2, f"evil-{number}", region="x" * 100)))
            await until(lambda: state_of(server).dropped)
            assert (await caller.ask("orders", b"no writer")).data == b"no writer"
        finally:
            os.kill(pid, signal.SIGCONT)
    assert [path for path in (tmp_path / "events").rglob("*.parquet") if not path.stat().st_size] == []


async def test_a_gateway_without_room_refuses_and_delivers_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_bytes = 1 << 30

    def statvfs(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(f_blocks=1 << 30, f_frsize=1, f_bavail=free_bytes)

    monkeypatch.setattr("client_sdk.gateways.samwise.tables.os.statvfs", statvfs)
    async with at_gateway(tmp_path) as gateway:
        caller, later = gateway.call(), list[bytes]()
        assert await caller.ask([b"100", b"publish", b"round robin", b"later", b"new", b"stored"]) == [b"0"]
        free_bytes = 0
        state, text = await caller.ask(publish(bytes(5_000_000)))
        assert (state, text[:10]) == (b"-1", b"not stored")
        async with connect(gateway.url, service=taking("later", later)):
            await until(lambda: later == [b"stored"])
        free_bytes = 1 << 30
        await gateway.is_well()


async def test_a_file_for_which_there_is_no_room_never_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = places._finish

    def full(file: int, mtime_ns: int | None, mode: int | None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with attacked(tmp_path, tries=100) as mirror:
        monkeypatch.setattr(places, "_finish", full)
        mirror.post("large", bytes(100_000))
        await until(lambda: mirror.subscriber.state.failed_n)
        assert [path for path in mirror.files() if not path.startswith(".feed-")] == []
        monkeypatch.setattr(places, "_finish", finish)
        await until(lambda: mirror.files() == ["large"])
