"""Processes that are killed or stopped under load, and peers that vanish without a word.

Everybody else gets each answer once, the broker says how it is meanwhile, and afterwards it is what it was before.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from urllib.parse import urlsplit

import pytest

from broker.server import Server
from rsocket_wire.rsocket.frames import REQUEST_STREAM, Setup, encode_request
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from tests.conftest import MakeServer, StartBroker
from tests.fakes import address, addressed, composite, route_id
from tests.system.support.askers import IN_FLIGHT, Askers
from tests.system.support.crowd_process import STREAMS
from tests.system.support.processes import BrokerProcess, Python
from tests.system.support.vitals import Vitals
from tests.system.support.waits import until
from tests.system.support.wires import Wire, url_of

CALLERS = ("tcp", "tcp", "ws")  # of each service name
ADMIN = ("--admin", "127.0.0.1:0")
STOPPED_S = 1.0  # a service does nothing for so long
ANSWER_S = 2.0  # for the broker's status, on a machine that the load keeps busy
GROWN_KIB = 8 << 10  # of memory between the first time and the last: what an allocator keeps, not what peers left
WAVES = 2


class Crowd:
    """Processes of one broker's peers."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self._processes: list[Python] = []

    def launch(self, role: str, name: str, number: int, scheme: str = "tcp") -> Python:
        """Starts one; it is not waited for."""
        arguments = [role, self._broker.url(scheme), name, str(number)]
        log = self._folder / f"{len(self._processes)}.log"
        process = Python(log, "tests.system.support.crowd_process", arguments, {})
        process.launch()
        self._processes.append(process)
        return process

    async def joined(self, processes: Iterable[Python]) -> list[Python]:
        """Waits until the broker knows them."""
        everybody = list(processes)
        for each in everybody:
            await asyncio.to_thread(each.read_lines, 1)
            assert each.lines == ["joined"], each.output
        return everybody

    def end(self) -> None:
        """All that still live, stopped ones too."""
        for each in self._processes:
            if each.process.poll() is None:
                each.signal(SIGKILL)
            each.wait()
            each.end()


@asynccontextmanager
async def everybody(broker: BrokerProcess, folder: Path) -> AsyncIterator[tuple[Crowd, Askers, Askers]]:
    """Processes, callers of `orders`, who are hit, and of `other`, who are not; all are let go at the end."""
    crowd, hit, other = Crowd(broker, folder), Askers("orders"), Askers("other")
    try:
        yield crowd, hit, other
    finally:
        await hit.close()
        await other.close()
        crowd.end()


def assert_answered(vitals: Vitals) -> None:
    """The status came, and soon, all the time."""
    assert vitals.answers > 3, f"the status was answered {vitals.answers} times"
    assert vitals.slowest_s < ANSWER_S, f"the status took {vitals.slowest_s:.2f} s, the bound is {ANSWER_S:g} s"


def assert_not_grown(resident_kib: list[int]) -> None:
    """Resident memory after each wave."""
    grown = resident_kib[-1] - resident_kib[0]
    assert grown < GROWN_KIB, f"{grown} KiB more than after the first of {WAVES} waves: {resident_kib}"


@pytest.mark.long
async def test_killed_services_cost_the_requests_that_they_had_and_no_others(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = start_broker(*ADMIN)
    urls = [broker.url(scheme) for scheme in CALLERS]
    vitals = Vitals(broker)
    resident_kib = []
    async with everybody(broker, tmp_path) as (crowd, hit, other), vitals:
        one, _, _ = await crowd.joined(
            crowd.launch("service", name, at) for at, name in enumerate(("orders", "orders", "other"), 1)
        )
        alone = await vitals.counts()
        await hit.begin(urls)
        await other.begin(urls)
        for _ in range(WAVES):
            await hit.more("1")
            await hit.more("2")
            one.signal(SIGKILL)
            await hit.more("2")
            await other.more("3")
            (one,) = await crowd.joined([crowd.launch("service", "orders", 1)])
            resident_kib.append(vitals.resident_kib())
        await hit.more("1")
        answered, undisturbed = await hit.end(), await other.end()
        assert set(undisturbed) == {"3"}, undisturbed
        assert set(answered) <= {"1", "2", "route-lost"}, answered
        most = WAVES * len(urls) * IN_FLIGHT  # what can be on the way at once, each time
        assert answered["route-lost"] <= most, f"{answered['route-lost']} were lost, {most} can have been on the way"
        await hit.close()
        await other.close()
        await vitals.returned(alone)
        assert_answered(vitals)
        assert_not_grown(resident_kib)


@pytest.mark.long
async def test_killed_callers_leave_nothing_at_the_broker_nor_at_the_service(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = start_broker(*ADMIN)
    vitals = Vitals(broker)
    resident_kib = []
    async with everybody(broker, tmp_path) as (crowd, hit, _), vitals:
        await crowd.joined([crowd.launch("service", "orders", 1)])
        asking = await Wire.caller(broker.url("tcp"))
        alone = await vitals.counts()
        await hit.begin([broker.url(scheme) for scheme in CALLERS])
        for _ in range(WAVES):
            callers = await crowd.joined(crowd.launch("caller", "orders", 60_000, scheme) for scheme in ("tcp", "ws"))
            await hit.more("1")
            for caller in callers:
                caller.signal(SIGKILL)
            await hit.more("1")
            resident_kib.append(vitals.resident_kib())
        answered = await hit.end()
        assert set(answered) == {"1"}, answered
        await hit.close()
        await vitals.returned(alone)
        left = (await asking.ask("orders", STREAMS)).text
        assert left == "1:0", f"the service has {left.removeprefix('1:')} streams of callers that are gone"
        assert_answered(vitals)
        assert_not_grown(resident_kib)
        await asking.close()


@pytest.mark.long
async def test_a_stopped_service_answers_late_and_nobody_else_does(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker(*ADMIN)
    urls = [broker.url(scheme) for scheme in CALLERS]
    vitals = Vitals(broker)
    async with everybody(broker, tmp_path) as (crowd, hit, other), vitals:
        stopped, _ = await crowd.joined(
            crowd.launch("service", name, at) for at, name in enumerate(("orders", "other"), 1)
        )
        alone = await vitals.counts()
        await hit.begin(urls)
        await other.begin(urls)
        await hit.more("1")
        stopped.signal(SIGSTOP)
        stopped_at = time.monotonic()
        before = hit.answered
        await other.more("2")
        while hit.answered != before:  # what it had sent before
            before = hit.answered
            await other.more("2")
        await until(lambda: time.monotonic() > stopped_at + STOPPED_S)
        assert hit.answered == before, f"{hit.answered} of a stopped service, {before} before"
        assert (await vitals.counts())["streams"] >= len(urls) * IN_FLIGHT
        stopped.signal(SIGCONT)
        await hit.more("1")
        answered, undisturbed = await hit.end(), await other.end()
        assert (set(answered), set(undisturbed)) == ({"1"}, {"2"}), (answered, undisturbed)
        await hit.close()
        await other.close()
        await vitals.returned(alone)
        assert_answered(vitals)


@pytest.mark.long
async def test_a_stopped_service_that_is_sent_too_much_is_ended_and_its_memory_given_back(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    """Several times over: what waits for it is megabytes, what stays is not."""
    broker = start_broker(*ADMIN, limits__stuck_s=0.5)
    vitals = Vitals(broker)
    resident_kib = []
    async with everybody(broker, tmp_path) as (crowd, _, other), vitals:
        await crowd.joined([crowd.launch("service", "other", 9)])
        alone = await vitals.counts()
        await other.begin([broker.url(scheme) for scheme in CALLERS])
        for _ in range(WAVES + 1):
            (stopped,) = await crowd.joined([crowd.launch("service", "orders", 1)])
            stopped.signal(SIGSTOP)
            caller = await Wire.caller(broker.url("tcp"))
            sent = {caller.request("orders", bytes(500_000)) for _ in range(40)}
            told = [await caller.receive() for _ in sent]
            assert {frame.stream_id for frame in told} == sent
            # Those that it was sent before it was ended, and those that the broker read afterwards.
            assert {frame.text.split(":")[0] for frame in told} <= {"route-lost", "no-route"}
            await caller.close()
            stopped.signal(SIGKILL)
            await other.more("9")
            resident_kib.append(vitals.resident_kib())
        undisturbed = await other.end()
        assert set(undisturbed) == {"9"}, undisturbed
        await other.close()
        await vitals.returned(alone)
        assert_answered(vitals)
        # How much waits is a matter of chance: the first waves show what the heap of the process needs for it.
        assert_not_grown([max(resident_kib[:WAVES]), *resident_kib[WAVES:]])


@pytest.mark.long
async def test_stopped_callers_are_ended_when_their_lifetime_is_over(start_broker: StartBroker, tmp_path: Path) -> None:
    """Their system still answers for them, they do not: half-open for all that the broker can see."""
    broker = start_broker(*ADMIN)
    vitals = Vitals(broker)
    async with everybody(broker, tmp_path) as (crowd, _, other), vitals:
        await crowd.joined(crowd.launch("service", name, at) for at, name in enumerate(("orders", "other"), 1))
        asking = await Wire.caller(broker.url("tcp"))
        alone = await vitals.counts()
        await other.begin([broker.url(scheme) for scheme in CALLERS])
        callers = await crowd.joined(crowd.launch("caller", "orders", 1000, scheme) for scheme in ("tcp", "ws"))
        for caller in callers:
            caller.signal(SIGSTOP)
        await until(lambda: broker.errors.count("keepalive-timeout") == len(callers))
        await other.more("2")
        undisturbed = await other.end()
        assert set(undisturbed) == {"2"}, undisturbed
        await other.close()
        await vitals.returned(alone)
        left = (await asking.ask("orders", STREAMS)).text
        assert left == "1:0", f"the service has {left.removeprefix('1:')} streams of callers that are gone"
        assert_answered(vitals)
        await asking.close()


class Mute:
    """A socket that said who it is and does nothing more: it reads nothing, sends nothing and does not close."""

    def __init__(self, url: str, frames: list[bytes]) -> None:
        port = urlsplit(url).port
        assert port is not None
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(b"".join(len(frame).to_bytes(3, "big") + frame for frame in frames))


def mute_setup(lifetime_ms: int, metadata: bytes | None = None) -> bytes:
    return Setup(COMPOSITE_MIME, "text/plain", lifetime_ms, lifetime_ms, metadata).encode()


def as_before(server: Server, tasks: set["asyncio.Task[None]"], peers: int) -> Callable[[], bool]:
    """Whether the broker in this process has that many peers, and no task, link, route or stream of others."""

    def is_it() -> bool:
        extra = asyncio.all_tasks() - tasks
        return not extra and len(server.core.peers()) == peers == server.shell.links_open()

    return is_it


@pytest.mark.long
async def test_half_open_callers_and_services_end_with_their_lifetime_and_leave_no_task(
    make_server: MakeServer,
) -> None:
    server = await make_server()
    url = url_of(server, "tcp")
    service, caller = await Wire.service(url, "orders", 1), await Wire.caller(url)
    service.begin_echo()
    tasks = asyncio.all_tasks()
    request = encode_request(REQUEST_STREAM, 1, b"", addressed(address(service="mute")), 1000)
    route = [composite((MIME_TYPE, RouteSetup(route_id(100 + at), "mute", []).encode())) for at in range(10)]
    mutes = [Mute(url, [mute_setup(500, metadata)]) for metadata in route]
    try:
        await until(lambda: server.core.table.size() == 11)
        mutes += [Mute(url, [mute_setup(500), request]) for _ in range(20)]
        await until(lambda: server.core.lifecycle.limits.closed.by_reason.get("keepalive-timeout", 0) == len(mutes))
        assert (await caller.ask("orders")).text == "hi"
        assert server.core.lifecycle.limits.closed.by_reason == {"keepalive-timeout": 30}
        assert server.core.table.size() == 1
        # They took the broker's last words without reading them, so that the system closes at once.
        await until(as_before(server, tasks, 2))
    finally:
        for mute in mutes:
            mute.socket.close()
