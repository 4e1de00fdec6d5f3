"""`serve --workers`: several processes on one port, which are one broker to clients and operators (D-53)."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.commands.workers.plan import worker_id
from rsocket_wire.rsocket.frames import ERROR
from spark_sink.event_files.folder import SOURCES
from tests.conftest import StartBroker
from tests.system.support.certificates import Authority
from tests.system.support.event_numbers import has_no_gap, numbers, rows
from tests.system.support.processes import BrokerProcess, Python
from tests.system.support.waits import soon, until, until_now
from tests.system.support.wires import Wire

MAX_TRIES = 64  # connections until each of two workers has one: the system chooses, 2^-63 that it is always the same
FORGOTTEN_S = 3.0  # routes of a worker that is gone
BROKER_ID = "6f1c7a52-5d1e-4f0b-9a55-0f6f0a3f0c11"
TCP = ("--listen", "tcp://127.0.0.1:0")
JSON = dict[str, Any]

pytestmark = pytest.mark.slow


class Workers:
    """A broker process with workers, and what its REST API says."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self.url = process.url("tcp")
        self.get = process.view

    def metric(self, name: str) -> float:
        """One sample."""
        lines = self.process.ask_admin("/metrics").splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))

    def states(self) -> list[JSON]:
        """The workers."""
        found: list[JSON] = self.get("status")["workers"]
        return found

    def pids(self) -> list[int]:
        """Of the workers."""
        return [each["pid"] for each in self.states()]

    def are_linked(self) -> bool:
        """Each worker knows of the other."""
        links = self.get("links")["items"]
        return sorted(link["worker"] for link in links if link["state"] == "up") == [1, 2]

    async def reach(self, worker: int, service: str = "", number: int = 0) -> Wire:
        """A connection to that worker: a caller, or a service that has joined."""
        for _ in range(MAX_TRIES):
            wire = await (Wire.service(self.url, service, number) if service else Wire.caller(self.url))
            if self._worker_of(wire) == worker:
                return wire
            await wire.close()
        raise AssertionError(f"{MAX_TRIES} connections, none of worker {worker}")

    def _worker_of(self, wire: Wire) -> int:
        """The worker that has accepted it."""
        host, port = wire.stream.writer.get_extra_info("sockname")
        found = {each["peer"]: each["worker"] for each in self.get("connections?limit=1000")["items"]}
        return int(found[f"tcp {host}:{port}"])


@pytest.fixture
async def workers(start_broker: StartBroker) -> Workers:
    """Two of them, linked."""
    made = Workers(start_broker(*TCP, "--workers", "2", "--admin", "127.0.0.1:0", broker__name="eu"))
    await until(made.are_linked)
    return made


@pytest.fixture(scope="module")
def shared_workers() -> Iterator[Workers]:
    """Two of them, linked, on a Unix socket, a WebSocket and TCP, for tests that leave them as they are."""
    with tempfile.TemporaryDirectory(prefix="rsb-") as folder:
        listen = ("--listen", f"unix://{folder}/b.sock", "--listen", "ws://127.0.0.1:0", *TCP)
        process = BrokerProcess(Path(folder, "b.log"), (*listen, "--workers", "2", "--admin", "127.0.0.1:0"), {})
        try:
            process.start()
            made = Workers(process)
            until_now(made.are_linked)
            yield made
        finally:
            process.end()


async def answered(caller: Wire, service: str) -> bytes:
    """The first answer that is no error: what a table does not know yet, it knows soon."""
    while (frame := await caller.ask(service)).kind == ERROR:
        assert frame.text.startswith("no-route:")
    return frame.data


async def forgotten(caller: Wire, service: str) -> None:
    """Returns when a table has no route of it any more; until then a request may get lost on the way."""
    while not (frame := await caller.ask(service)).text.startswith("no-route:"):
        assert frame.text.startswith("route-lost:")


def is_running(pid: int) -> bool:
    """A process that nobody has reaped yet does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_service_of_one_worker_is_reached_from_all(shared_workers: Workers) -> None:
    for there, here in ((1, 2), (2, 1)):
        service = await shared_workers.reach(there, f"mail-{there}", 10 + there)
        service.begin_echo()
        for caller in (await shared_workers.reach(here), await shared_workers.reach(there)):
            assert await soon(answered(caller, f"mail-{there}")) == b"hi"


async def test_to_which_worker_a_service_came_makes_no_difference(shared_workers: Workers) -> None:
    """D-64: of two at one worker and one at the other each gets a third of the requests of every caller."""
    services = [await shared_workers.reach(worker, "orders", number) for number, worker in enumerate((1, 1, 2), 1)]
    names = [b"1", b"2", b"3"]
    for wire, name in zip(services, names, strict=True):
        wire.begin_echo(lambda _, name=name: name)  # type: ignore[misc]
    for worker in (1, 2):
        caller = await shared_workers.reach(worker)
        latest: list[bytes] = []
        while sorted(latest[-3:]) != names:  # until its table has all of them
            latest.append(await soon(answered(caller, "orders")))
        found = Counter([await soon(answered(caller, "orders")) for _ in range(30)])
        assert found == dict.fromkeys(names, 10)


async def test_a_worker_that_is_killed_is_replaced_and_its_routes_are_forgotten(workers: Workers) -> None:
    service, caller = await workers.reach(1, "orders", 1), await workers.reach(2)
    echo = service.begin_echo()
    await soon(answered(caller, "orders"))
    accepted = workers.metric("broker_connections_accepted_total")
    pids = workers.pids()
    os.kill(pids[0], signal.SIGKILL)
    await soon(echo)  # the service sees that its broker is gone
    await soon(forgotten(caller, "orders"), FORGOTTEN_S)
    await until(
        lambda: [(each["state"], each["restarts"]) for each in workers.states()] == [("ready", 1), ("ready", 0)]
    )
    assert (workers.pids()[0] not in pids, workers.pids()[1]) == (True, pids[1])
    again = await workers.reach(1, "orders", 1)
    again.begin_echo()
    assert await soon(answered(caller, "orders")) == b"hi"
    assert workers.metric("broker_connections_accepted_total") > accepted


async def test_operators_see_one_broker(workers: Workers) -> None:
    services = [await workers.reach(number, "orders", number) for number in (1, 2)]
    await until(lambda: workers.get("services/orders")["service"]["routes"] == 2)
    routes = workers.get("routes")["items"]
    assert [(each["worker"], each["broker"], each["is_local"]) for each in routes] == [
        (1, "eu.1", True),
        (2, "eu.2", True),
    ]
    status = workers.get("status")
    assert (status["name"], status["routes"], status["cluster"]["remote_routes"]) == ("eu", 2, 0)
    assert [each["name"] for each in status["workers"]] == ["eu.1", "eu.2"]
    closed = workers.get(f"connections/{routes[1]['connection_id']}", "DELETE")
    assert (closed["worker"], closed["reason"]) == (2, "closed-by-operator")
    assert [frame.text.partition(":")[0] for frame in await services[1].rest()] == ["closed-by-operator"]
    await until(lambda: workers.get("routes")["total"] == 1)
    workers.get("drains/broker", "PUT")
    for _ in range(8):  # whichever worker it comes to
        late = await Wire.connect(workers.url)
        late.setup()
        assert (await late.receive()).text.startswith("draining:")


async def test_sigterm_ends_all_workers_and_leaves_nothing(workers: Workers) -> None:
    pids = workers.pids()
    folders = {each["peer"].removeprefix("unix ").rpartition("/")[0] for each in workers.get("links")["items"]}
    workers.process.signal(signal.SIGTERM)
    assert workers.process.wait() == 0
    assert [pid for pid in pids if is_running(pid)] == []
    assert (len(folders), [folder for folder in folders if os.path.exists(folder)]) == (1, [])


async def test_requests_that_run_may_end_and_a_second_signal_ends_them_at_once(workers: Workers) -> None:
    service, caller = await workers.reach(1, "orders", 1), await workers.reach(2)
    await until(lambda: workers.get("status")["routes"] == 1)
    caller.request("orders")
    await service.receive()  # and it does not answer
    workers.process.signal(signal.SIGTERM)
    await until(lambda: {each["state"] for each in workers.states()} == {"stopping"})
    assert all(is_running(pid) for pid in workers.pids())
    workers.process.signal(signal.SIGTERM)
    assert workers.process.wait(5.0) == 0  # server.stop_grace_s is 10


async def test_workers_end_when_their_supervisor_is_killed(workers: Workers) -> None:
    pids = workers.pids()
    workers.process.signal(signal.SIGKILL)
    workers.process.wait()
    await until(lambda: not any(is_running(pid) for pid in pids))


def test_a_port_on_which_other_workers_accept_is_taken(shared_workers: Workers, tmp_path: Path) -> None:
    url = shared_workers.url
    other = BrokerProcess(tmp_path / "other.log", ("--listen", url, "--workers", "2"), {})
    assert other.fails() == (
        1,
        [f"rsocket-broker: {url}: address already in use; end the program that listens there, or listen elsewhere"],
    )


def test_workers_that_cannot_start_say_why_and_none_is_left(socket_folder: Path, tmp_path: Path) -> None:
    url = f"unix://{socket_folder}/b.sock"
    (socket_folder / "b.sock").touch()
    process = BrokerProcess(tmp_path / "b.log", (*TCP, "--listen", url, "--workers", "2"), {})
    status, said = process.fails()
    assert status == 1
    told = [line for line in said if line.startswith("rsocket-broker: ")]
    assert told == [f"rsocket-broker: {url}: there is a file that is no socket"]


async def test_a_unix_socket_is_the_first_workers(shared_workers: Workers) -> None:
    url = shared_workers.process.urls[0]
    assert url.startswith("unix://")
    wire = await Wire.caller(url)
    path = url.removeprefix("unix://")
    mine = [each for each in shared_workers.get("connections?limit=1000")["items"] if path in each["peer"]]
    assert [each["worker"] for each in mine] == [1]
    await wire.close()


async def test_workers_are_brokers_of_a_larger_cluster(start_broker: StartBroker) -> None:
    options = {"cluster__secret": "a secret of sixteen bytes or more"}
    far = start_broker(*TCP, "--admin", "127.0.0.1:0", broker__name="far", **options)
    workers = ("--workers", "2", "--admin", "127.0.0.1:0")
    made = Workers(start_broker(*TCP, *workers, broker__name="eu", cluster__peers=far.url("tcp"), **options))
    own = [(1, "eu.2"), (1, "far"), (2, "eu.1"), (2, "far")]
    await until(lambda: sorted((each["worker"], each["name"]) for each in made.get("links")["items"]) == own)
    there, here = await Wire.service(far.url("tcp"), "far-away", 1), await made.reach(2, "nearby", 2)
    for wire in (there, here):
        wire.begin_echo()
    for worker in (1, 2):
        assert await soon(answered(await made.reach(worker), "far-away")) == b"hi"
    assert await soon(answered(await Wire.caller(far.url("tcp")), "nearby")) == b"hi"
    routes = [(each["service"], each["broker"], each["worker"]) for each in made.get("routes")["items"]]
    assert routes == [("nearby", "eu.2", 2), ("far-away", "far", None)]


async def test_workers_that_know_brokers_by_certificates_know_each_other_by_their_user(
    start_broker: StartBroker, authority: Authority
) -> None:
    made = Workers(
        start_broker(
            *("--listen", "tls://127.0.0.1:0", *TCP, "--workers", "2", "--admin", "127.0.0.1:0"),
            **authority.broker_options(),
            tls__client_ca=authority.root,
            broker__name="b1",
            cluster__auth="tls",
            cluster__principals="commonName=broker",
        )
    )
    await until(made.are_linked)


async def test_websockets_are_shared_too(shared_workers: Workers) -> None:
    for _ in range(8):
        wire = await Wire.caller(shared_workers.process.url("ws"))
        await wire.close()


def test_one_worker_is_no_worker_and_as_many_as_cores_are_counted(start_broker: StartBroker, tmp_path: Path) -> None:
    process = start_broker(*TCP, "--workers", "1")
    assert "worker" not in process.errors
    process = start_broker(*TCP, "--workers", "0")
    cores = len(os.sched_getaffinity(0))
    until_now(lambda: process.errors.count(": started, core") == cores)


def test_a_worker_without_a_supervisor_does_nothing(tmp_path: Path) -> None:
    worker = Python(tmp_path / "w.log", "broker.commands.workers", (), {})
    worker.launch()
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    assert (worker.wait(), worker.output) == (1, "\n")


async def test_each_worker_tells_what_happened_to_it_under_an_id_of_its_own(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    """All write into one folder. One that takes the place of another is the same broker in another epoch."""
    events = tmp_path / "events"
    options = {"events__requests": "all", "events__flow_interval_s": 0.1, "events__roll_s": 0.1}
    flags = ("--workers", "2", "--admin", "127.0.0.1:0", "--events", str(events))
    made = Workers(start_broker(*TCP, *flags, broker__id=BROKER_ID, broker__name="eu", **options))
    await until(made.are_linked)
    ids = [worker_id(BROKER_ID, number) for number in (1, 2)]

    async def ask(worker: int, times: int) -> None:
        caller = await made.reach(worker)
        for _ in range(times):
            await caller.ask("nobody")
        await caller.close()

    def asked() -> list[int]:
        found = Counter(row["broker_id"] for row in rows(events, "requests"))
        return [found[each] for each in ids]

    await ask(1, 3)
    await ask(2, 5)
    await until(lambda: asked() == [3, 5])
    os.kill(made.pids()[0], signal.SIGKILL)
    await until(lambda: [(each["state"], each["restarts"]) for each in made.states()] == [("ready", 1), ("ready", 0)])
    await ask(1, 2)
    made.process.signal()
    assert await asyncio.to_thread(made.process.wait) == 0
    assert asked() == [5, 5]
    told = {(row["broker_id"], row["broker_name"]) for source in SOURCES for row in rows(events, source)}
    assert told == {(ids[0], "eu.1"), (ids[1], "eu.2")}
    assert sorted(broker_id for broker_id, _ in numbers(events)) == sorted([ids[0], *ids])
    assert has_no_gap(events)
