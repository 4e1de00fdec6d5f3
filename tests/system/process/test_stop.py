"""Stopping: what runs may end, what comes is refused, everybody is told, and a second signal ends the patience."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.core import COMPILED
from broker.server import EVENTS_STOP_S
from rsocket_wire.errors import CONNECTION_CLOSE, REJECTED
from rsocket_wire.rsocket.frames import ERROR, REQUEST_STREAM
from tests.conftest import MakeServer, StartBroker
from tests.system.support.certificates import Authority
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import WAIT_S, until
from tests.system.support.wires import Wire

URL_SCHEMES = ["tcp", "ws"]
LONG_S = 60  # a grace that no test waits for


def is_over(broker: BrokerProcess) -> bool:
    return broker.process.poll() is not None


async def ended(broker: BrokerProcess, longest_s: float = WAIT_S) -> None:
    """By itself, and in order."""
    await until(lambda: is_over(broker), longest_s)
    assert broker.wait() == 0


async def is_draining(caller: Wire) -> None:
    """Returns when new requests are refused."""
    while True:
        frame = await caller.ask("nobody")
        assert (frame.kind, frame.code) == (ERROR, REJECTED)
        if frame.text.startswith("draining:"):
            return
        assert frame.text.startswith("no-route:"), frame


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("scheme", URL_SCHEMES)
async def test_requests_in_flight_end_before_the_broker_does(
    start_broker: StartBroker, scheme: str, number: int
) -> None:
    broker = start_broker(server__stop_grace_s=LONG_S)
    service = await Wire.service(broker.url(scheme), "orders", 1)
    caller = await Wire.caller(broker.url(scheme))
    other = await Wire.caller(broker.url(scheme))
    caller.request("orders", b"slow")
    request = await service.receive()
    stream = caller.request("orders", b"items", kind=REQUEST_STREAM)
    items = await service.receive()

    broker.signal(number)
    await is_draining(other)  # also a request to a service that is there:
    frame = await other.ask("orders")
    assert (frame.kind, frame.code, frame.text.split(":")[0]) == (ERROR, REJECTED, "draining")
    with pytest.raises((ConnectionError, OSError)):
        await Wire.connect(broker.url("tcp"))
    assert not is_over(broker)

    service.answer(request, b"done")
    assert (await caller.receive()).data == b"done"
    service.answer(items, b"one")
    frame = await caller.receive()
    assert (frame.stream_id, frame.data) == (stream, b"one")
    for wire in (service, caller, other):
        (last,) = await wire.rest()
        assert (last.stream_id, last.code, last.text.split(":")[0]) == (0, CONNECTION_CLOSE, "broker-stopped")
    await ended(broker)


async def test_the_grace_is_not_longer_than_it_says(start_broker: StartBroker) -> None:
    broker = start_broker(server__stop_grace_s=0.3)
    service = await Wire.service(broker.url("tcp"), "orders", 1)
    caller = await Wire.caller(broker.url("tcp"))
    caller.request("orders", b"for ever")
    await service.receive()
    began_at = time.monotonic()
    broker.signal()
    frames = await caller.rest()
    assert time.monotonic() - began_at >= 0.3
    assert [frame.text.split(":")[0] for frame in frames][-1] == "broker-stopped"
    await ended(broker)
    assert ", 1 requests left unfinished\n" in broker.errors


async def test_a_second_signal_ends_the_grace(start_broker: StartBroker) -> None:
    broker = start_broker(server__stop_grace_s=LONG_S)
    service = await Wire.service(broker.url("tcp"), "orders", 1)
    caller = await Wire.caller(broker.url("ws"))
    other = await Wire.caller(broker.url("tcp"))
    caller.request("orders", b"for ever")
    await service.receive()
    broker.signal()
    await is_draining(other)
    broker.signal(signal.SIGINT)
    await ended(broker, LONG_S / 4)
    for wire in (service, caller, other):
        assert (await wire.rest())[-1].text.startswith("broker-stopped:")
        await wire.close()


async def test_a_second_wish_does_not_wait_for_those_who_do_not_read(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.server.LAST_WRITES_S", LONG_S)
    server = await make_server(**{"server.stop_grace_s": LONG_S})
    urls = {url.split(":")[0]: url for url in server.listeners}
    service = await Wire.service(urls["tcp"], "orders", 1)
    readers = [await Wire.caller(urls[scheme]) for scheme in ("tcp", "ws", "unix")]
    deaf = await Wire.slow(urls["tcp"])
    await service.flood(deaf, "orders", 60)
    await service.ping()
    server.wish_stop()
    stopping = asyncio.create_task(server.stop())
    server.wish_stop()
    for wire in readers:
        (last,) = await wire.rest()
        assert last.text.startswith("broker-stopped:")
    await until(stopping.done)
    await stopping
    deaf.transport.abort()


async def test_a_second_wish_does_not_wait_for_the_writer_of_event_files(
    make_server: MakeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = await make_server(**{"events.dir": tmp_path})
    pipe = server.event_pipe
    assert pipe is not None
    writer = pipe.state().pid
    os.kill(writer, signal.SIGSTOP)
    try:
        stopping = asyncio.create_task(server.stop())
        server.wish_stop()
        await until(lambda: server.shell.links_open() == 0)
        assert not stopping.done()
        began_at = time.monotonic()
        server.wish_stop()
        await until(stopping.done)
        assert time.monotonic() - began_at < EVENTS_STOP_S / 2
        assert "the broker stops before the writer, which seals what is left" in caplog.text
    finally:
        os.kill(writer, signal.SIGCONT)
    await until(lambda: pipe.state().pid == 0)
    assert list(tmp_path.rglob("*.parquet"))


def test_the_start_and_the_end_are_said_once(start_broker: StartBroker) -> None:
    broker = start_broker("--listen", "tcp://127.0.0.1:0", broker__name="eu-1")
    broker.signal()
    assert broker.wait() == 0
    started, *core, stopped = broker.errors.splitlines()
    assert (len(core), "the core is interpreted" in "".join(core)) == ((0, False) if COMPILED else (1, True))
    assert started.endswith(f", listening on {broker.url('tcp')}")
    subject = started.split(": started, core: ")[0].split("info    ")[1]
    assert subject.startswith("broker eu-1 (")
    assert f" info    {subject}: stopped after " in stopped
    assert stopped.endswith(" s, 0 requests left unfinished")


@pytest.mark.slow
async def test_a_client_that_takes_nothing_does_not_hold_up_the_end(start_broker: StartBroker) -> None:
    broker = start_broker(server__stop_grace_s=0.1)
    service = await Wire.service(broker.url("tcp"), "orders", 1)
    deaf = await Wire.slow(broker.url("tcp"))
    await service.flood(deaf, "orders", 40)
    await service.ping()
    broker.signal()
    await ended(broker)
    deaf.transport.abort()


async def test_an_idle_broker_stops_at_once(broker_process: BrokerProcess) -> None:
    wires = [await Wire.caller(broker_process.url(scheme)) for scheme in ("tcp", "ws", "unix")]
    broker_process.signal()
    for wire in wires:
        (last,) = await wire.rest()
        assert last.text.startswith("broker-stopped:")
        await wire.close()
    assert broker_process.wait(3.0) == 0
    assert "Traceback" not in broker_process.errors


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        (signal.SIGTERM, ()),
        (signal.SIGINT, ()),
        (signal.SIGHUP, ()),
        (signal.SIGINT, ("--workers", "2")),  # the supervisor, which heeds them by the same function
    ],
)
async def test_signals_until_the_process_is_gone_leave_its_status_at_0(
    start_broker: StartBroker, number: int, arguments: tuple[str, ...]
) -> None:
    broker = start_broker(*arguments)
    broker.signal()

    def is_over_now() -> bool:
        broker.signal(number)
        return is_over(broker)

    await until(is_over_now)
    assert (broker.wait(), "Traceback" in broker.errors) == (0, False)


async def test_a_hangup_of_a_broker_without_files_is_told(start_broker: StartBroker) -> None:
    """A closed terminal, or a habit: nobody loses a connection."""
    broker = start_broker()
    wire = await Wire.caller(broker.url("tcp"))
    broker.signal(signal.SIGHUP)
    text = "broker: SIGHUP: no option names a file that is read again, and the roles are as they were"
    await until(lambda: text in broker.errors)
    await wire.ping()
    assert (broker.errors.count("SIGHUP"), is_over(broker)) == (1, False)
    await wire.close()


async def test_a_hangup_has_all_workers_read_their_files(start_broker: StartBroker, authority: Authority) -> None:
    broker = start_broker("--workers", "2", "--listen", "tls://127.0.0.1:0", **authority.broker_options())
    wire = await Wire.caller(broker.url("tls"), authority.client_context())
    broker.signal(signal.SIGHUP)
    await until(lambda: broker.errors.count("broker: files reloaded: tls.certificate, tls.key") == 2)
    await wire.ping()
    await wire.close()


class HungUpBroker(BrokerProcess):
    """One that gets a SIGHUP while it imports what it is made of, and so does each of its workers."""

    def __init__(self, folder: Path, program: Sequence[str], arguments: Sequence[str]) -> None:
        super().__init__(folder / "b.log", ("--listen", "tcp://127.0.0.1:0", *arguments), {})
        self._command = [sys.executable, *program, *self._command[3:]]
        (folder / "early").mkdir()
        (folder / "early" / "websockets.py").write_text(HANGS_UP)
        self._environment["PYTHONPATH"] = f"{folder / 'early'}:{self._environment['PYTHONPATH']}"


HANGS_UP = """
import os, signal, sys
os.kill(os.getpid(), signal.SIGHUP)
sys.path.remove(os.path.dirname(__file__))
del sys.modules["websockets"]
import websockets
"""


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (("-m", "broker"), ()),
        (("-m", "broker"), ("--workers", "2")),
        (("-c", "from broker.commands.script import main; main()", "serve"), ()),
    ],
    ids=["one", "workers", "console script"],
)
async def test_a_hangup_ends_no_broker_that_starts(
    tmp_path: Path, program: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    broker = HungUpBroker(tmp_path, program, arguments)
    try:
        broker.start()
        broker.signal(signal.SIGTERM)
        assert broker.wait() == 0, broker.errors
        assert "started again" not in broker.errors
    finally:
        broker.end()


@pytest.mark.parametrize("arguments", [(), ("--workers", "2")], ids=["one", "workers"])
async def test_a_broker_that_a_program_has_started_for_itself_ends_with_it(
    start_broker: StartBroker, arguments: tuple[str, ...]
) -> None:
    """However that ends: the pipe to the broker's standard input ends then."""
    broker = start_broker("--stop-at-eof", *arguments)
    wire = await Wire.caller(broker.url("tcp"))
    assert broker.process.stdin is not None
    broker.process.stdin.write("not looked at")
    broker.process.stdin.flush()
    await wire.ping()
    broker.process.stdin.close()
    (last,) = await wire.rest()
    assert (last.code, last.text.split(":")[0]) == (CONNECTION_CLOSE, "broker-stopped")
    await ended(broker)
