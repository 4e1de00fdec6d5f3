"""`rsocket-broker serve` with [samwise]: the gateway is a process beside the broker, as long as the broker runs."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from client_sdk.gateways.samwise.endpoint.client import NoAnswer, SamwiseClient
from client_sdk.gateways.samwise.values import ROUND_ROBIN, Ping, Publish, Status
from tests.conftest import StartBroker
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import until_now

StartGateway = Callable[..., BrokerProcess]


@pytest.fixture
def endpoint(socket_folder: Path) -> str:
    return f"ipc://{socket_folder}/samwise"


@pytest.fixture
def start(start_broker: StartBroker, socket_folder: Path, endpoint: str) -> StartGateway:
    """A broker with a gateway, which answers when this returns."""

    def started(*arguments: str, **options: object) -> BrokerProcess:
        broker = start_broker(
            *arguments, samwise__endpoints=endpoint, samwise__dir=str(socket_folder / "stored"), **options
        )
        until_now(lambda: answers(endpoint))
        return broker

    return started


def answers(endpoint: str) -> bool:
    with SamwiseClient(endpoint, timeout_s=0.2) as client:
        try:
            return client.ask(Ping(110)).is_ok
        except NoAnswer:
            return False


def children_of(pid: int) -> list[int]:
    """Processes that it has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_gateway_ends_in_order_with_the_broker(start: StartGateway, endpoint: str) -> None:
    broker = start()
    (gateway,) = children_of(broker.pid)
    broker.signal()
    assert broker.wait() == 0
    assert not is_there(gateway)
    assert not Path(endpoint.removeprefix("ipc://")).exists()


def test_a_gateway_that_is_killed_is_started_again_and_has_what_was_stored(start: StartGateway, endpoint: str) -> None:
    broker = start()
    message = Publish(
        version=110,
        distribution=ROUND_ROBIN,
        acks_n=1,
        exchange="nobody",
        routing_key="",
        options={},
        headers=(),
        payload=b"x",
    )
    with SamwiseClient(endpoint) as client:
        assert client.ask(message).is_ok
    (gateway,) = children_of(broker.pid)
    os.kill(gateway, signal.SIGKILL)
    until_now(lambda: not is_there(gateway) and answers(endpoint))
    with SamwiseClient(endpoint) as client:
        assert "waiting: 1 messages" in client.ask(Status(120)).text
    assert "samwise gateway: ended with -9, is started again in 0.5 s" in broker.errors


def test_a_broker_that_is_killed_leaves_no_gateway(start: StartGateway, endpoint: str) -> None:
    broker = start()
    (gateway,) = children_of(broker.pid)
    broker.signal(signal.SIGKILL)
    broker.wait()
    until_now(lambda: not is_there(gateway))


def test_a_broker_of_several_workers_has_one_gateway(start: StartGateway, endpoint: str) -> None:
    broker = start("--workers", "2", "--listen", "tcp://127.0.0.1:0")
    assert len(children_of(broker.pid)) == 3
    broker.signal()
    assert broker.wait() == 0
    assert not answers(endpoint)


def test_without_endpoints_there_is_no_gateway(broker_process: BrokerProcess) -> None:
    assert children_of(broker_process.pid) == []
