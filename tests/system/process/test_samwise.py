"""`rsocket-broker serve` with [samwise]: the gateway is a process beside the broker, as long as the broker runs."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError

import pytest

from client_sdk.gateways.samwise.endpoint.client import NoAnswer, SamwiseClient
from client_sdk.gateways.samwise.values import Ping, Status
from tests.admin_api.contract import check_answer, ours
from tests.client_sdk.gateways.samwise.messages import publish_to
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


def publish_to_nobody(endpoint: str) -> None:
    """A message that is stored and waits."""
    with SamwiseClient(endpoint) as client:
        assert client.ask(publish_to("nobody", "", b"x")).is_ok


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
    publish_to_nobody(endpoint)
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


@pytest.mark.parametrize("workers", ["1", "2"])
def test_operators_see_the_gateway_and_its_messages(start: StartGateway, endpoint: str, workers: str) -> None:
    broker = start("--admin", "127.0.0.1:0", "--listen", "tcp://127.0.0.1:0", "--workers", workers)
    publish_to_nobody(endpoint)
    state = broker.view("samwise")
    keys = ("restarts", "backend", "endpoints", "accepted", "waiting", "dead")
    assert [state[key] for key in keys] == [0, "services", [endpoint], 1, 1, 0]
    assert state["pid"] in children_of(broker.pid)
    (message,) = broker.view("samwise/messages")["items"]
    assert (message["exchange"], message["payload_bytes"], message["acknowledged_by"]) == ("nobody", 1, [])
    assert 'samwise_stored_messages{state="waiting"} 1.0\n' in broker.ask_admin("/metrics")
    assert broker.view("openapi.json") == ours()
    paths = [each for each, methods in ours()["paths"].items() if "get" in methods and "{" not in each]
    for path in [each for each in paths if not each.startswith("/api/v1/feed")]:  # no feed runs here
        answer = broker.ask_admin(path)
        if answer.startswith("{"):
            check_answer("GET", path, json.loads(answer))
    gone = f"samwise/messages/{message['id']}"
    check_answer("DELETE", f"/api/v1/{gone}", broker.view(gone, "DELETE"))
    assert broker.view("samwise/messages")["items"] == []


def test_operators_are_told_of_a_gateway_that_hangs(start: StartGateway) -> None:
    broker = start("--admin", "127.0.0.1:0", "--listen", "tcp://127.0.0.1:0")
    pid = broker.view("samwise")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(HTTPError) as refused:
            broker.view("samwise")
        assert refused.value.code == 503
        assert "the Samwise gateway has not answered within 0.8 s" in refused.value.read().decode()
        assert "samwise_gateway_up 0.0\n" in broker.ask_admin("/metrics")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert broker.view("samwise")["pid"] == pid


def test_without_endpoints_there_is_no_gateway(broker_process: BrokerProcess) -> None:
    assert children_of(broker_process.pid) == []
