"""`rsocket-broker samwise`: what a person at a terminal sees, and a script by the exit status."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from broker.commands.main import main
from client_sdk import Request, Service, sync
from client_sdk.gateways.samwise.values import OPTIONS
from client_sdk.testing import sync_local_broker
from tests.system.samwise.gateway_program import GatewayProgram
from tests.system.support.processes import run_python
from tests.system.support.waits import until_now


class Gateway(GatewayProgram):
    """One that runs or ran, and the commands that ask it."""

    def ask(self, command: str, *arguments: str, given: bytes = b"") -> Result:
        return run(command, "--endpoint", self.endpoint, *arguments, given=given)

    def messages(self, *arguments: str) -> Result:
        return run("messages", *arguments, "--config", str(self.config))

    def ids(self, *arguments: str) -> list[int]:
        listed = self.messages("list", "--json", *arguments)
        assert (listed.exit_code, listed.stderr) == (0, "")
        return [msgspec.json.decode(line)["id"] for line in listed.stdout.splitlines()]


def run(command: str, *arguments: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(main, ["samwise", command, *arguments], input=given)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """With nothing stored; it may be ended."""
    yield from running(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Of all tests that leave it as it is: a process takes half a second of CPU to start."""
    yield from running(tmp_path_factory.mktemp("shared"))


def running(folder: Path) -> Iterator[Gateway]:
    gateway = Gateway(folder)
    gateway.start()
    yield gateway
    gateway.process.end()


@pytest.mark.parametrize("version", ["100", "110", "120"])
def test_a_ping_says_that_it_was_answered(shared: Gateway, version: str) -> None:
    result = shared.ask("ping", "--protocol", version)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{shared.endpoint} answered after ")


def test_without_an_answer_the_status_says_so(tmp_path: Path) -> None:
    result = run("ping", "--endpoint", f"ipc://{tmp_path}/nobody", "--timeout", "0.05")
    sentence = f"rsocket-broker: no answer from ipc://{tmp_path}/nobody within 0.05 s\n"
    assert (result.exit_code, result.stderr) == (6, sentence)


def test_the_endpoint_may_come_from_a_variable(shared: Gateway) -> None:
    result = CliRunner().invoke(main, ["samwise", "ping"], env={"SAMWISE_ENDPOINT": shared.endpoint})
    assert result.exit_code == 0
    assert CliRunner().invoke(main, ["samwise", "ping"]).exit_code == 2


def test_what_is_published_is_stored_as_it_was_given(gateway: Gateway) -> None:
    given = ["-x", "orders", "-k", "new", "--option", "message_id=17", "--header", "shop=north", "--data", "-"]
    assert gateway.ask("publish", *given, given=b"a book").exit_code == 0
    (line,) = gateway.messages("list", "--json").stdout.splitlines()
    shown = msgspec.json.decode(line)
    names = ("exchange", "routing_key", "distribution", "acknowledgements", "acknowledged_by", "tries", "payload_bytes")
    assert [shown[name] for name in names] == ["orders", "new", "round robin", 1, [], 0, 6]


def test_a_redundant_message_says_how_many_it_wants(gateway: Gateway) -> None:
    stored = gateway.ask("publish", "-x", "orders", "--redundant", "3", "--json")
    assert json.loads(stored.stdout)["endpoint"] == gateway.endpoint
    assert " 0 of 3 " in gateway.messages("list").stdout


@pytest.mark.parametrize(
    "arguments, status, text",
    [
        (["publish"], 4, "malformed publishing request: frame 3, exchange, is empty and has no default"),
        (["rpc", "exchange.declare", "a", "topic"], 4, "malformed rpc request: exchange type 'topic'"),
        (["status", "--stop"], 4, "stop is not allowed here"),
        (["publish", "--option", "size=3"], 2, "--option 'size' is not one of content_type"),
        (["publish", "--option", "type"], 2, "--option 'type' is no NAME=VALUE; write --option type=VALUE"),
        (["publish", "--header", "=3"], 2, "has no name"),
        (["status", "--protocol", "120"], 2, "No such option"),
        (["publish", "--data", "@/no/such/file"], 2, "no such file or directory"),
        (["rpc", "exchange.declare", "a"], 2, "exchange.declare needs a TYPE"),
        (["rpc", "exchange.delete", "a", "direct"], 2, "exchange.delete needs no TYPE"),
        (["rpc", "exchange.bind", "a"], 2, "is not one of 'exchange.declare', 'exchange.delete'"),
        (["ping", "--key", __file__], 2, "--key needs --server-key"),
        (["ping", "--key", "/no/such/key"], 2, "'--key': File '/no/such/key' does not exist."),
        (["ping", "--server-key", "/no/such/key"], 2, "'--server-key': File '/no/such/key' does not exist."),
        (["ping", "--protocol", "130"], 2, "'130' is not one of"),
    ],
)
def test_what_is_wrong_is_told_with_its_status(shared: Gateway, arguments: list[str], status: int, text: str) -> None:
    result = shared.ask(*arguments)
    assert result.exit_code == status
    assert text in result.stderr


def test_exchanges_are_declared_and_deleted(shared: Gateway) -> None:
    assert shared.ask("rpc", "exchange.declare", "news", "fanout").exit_code == 0
    assert shared.ask("rpc", "exchange.declare", "news", "direct").exit_code == 4
    assert shared.ask("rpc", "exchange.delete", "news").exit_code == 0
    assert shared.ask("rpc", "exchange.declare", "news", "direct").exit_code == 0
    assert shared.ask("rpc", "exchange.delete", "news").exit_code == 0


def test_a_status_shows_what_waits(gateway: Gateway) -> None:
    gateway.ask("publish", "-x", "orders")
    result = gateway.ask("status")
    assert result.exit_code == 0
    assert "accepted: 1" in result.stdout.splitlines()


def test_messages_are_listed_and_removed_whether_the_gateway_runs_or_not(gateway: Gateway) -> None:
    for exchange in ("a", "b", "c"):
        gateway.ask("publish", "-x", exchange)
    first, second, third = gateway.ids()
    assert gateway.ids("--limit", "2") == [first, second]
    assert gateway.messages("remove", str(first)).stdout == "removed 1\n"
    gateway.process.signal()
    assert gateway.process.wait() == 0
    assert gateway.ids() == [second, third]
    result = gateway.messages("remove", str(second), "999")
    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "removed 1\n",
        "rsocket-broker: 1 of 2 ids are of no message\n",
    )
    assert gateway.ids() == [third]
    assert gateway.messages("list", "--dead").stdout == "none\n"


def test_dead_letters_are_requeued_by_id_and_all(tmp_path: Path) -> None:
    failing = Service("orders")

    @failing.request_response()
    async def fail(request: Request) -> bytes:
        raise ValueError("sold out")

    with sync_local_broker() as url, sync.connect(url, service=failing):
        gateway = Gateway(tmp_path, f'brokers = ["{url}"]', "[samwise.retry]", "tries = 1")
        gateway.start()
        try:
            for _ in range(2):
                assert gateway.ask("publish", "-x", "orders").exit_code == 0
            until_now(lambda: len(gateway.ids("--dead")) == 2)
            letters = gateway.messages("list", "--dead", "--json").stdout.splitlines()
            assert [msgspec.json.decode(line)["reason"][:6] for line in letters] == ["orders"] * 2
            assert gateway.messages("requeue", str(gateway.ids("--dead")[0])).stdout == "requeued 1\n"
            until_now(lambda: len(gateway.ids("--dead")) == 2)
            assert gateway.messages("requeue", "--all").stdout == "requeued 2\n"
            result = gateway.messages("requeue", "999")
            assert (result.exit_code, result.stdout) == (1, "requeued 0\n")
            assert result.stderr == "rsocket-broker: 1 of 1 ids are of no dead letter\n"
            assert gateway.messages("requeue").exit_code == 2
            assert gateway.messages("requeue", "--all", "1").exit_code == 2
            until_now(lambda: len(gateway.ids("--dead")) == 2)
            assert gateway.messages("remove").exit_code == 2
            assert gateway.messages("remove", "--dead", "1").exit_code == 2
            assert gateway.ask("publish", "-x", "nobody").exit_code == 0
            assert gateway.messages("remove", "--dead").stdout == "removed 2\n"
            assert (len(gateway.ids()), gateway.ids("--dead")) == (1, [])
        finally:
            gateway.process.end()


def test_a_folder_without_messages_is_told(tmp_path: Path) -> None:
    result = run("messages", "list", "--dir", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: {tmp_path} holds no messages: there is no messages.db in it"


def test_without_a_folder_it_is_said_how_to_give_one(tmp_path: Path) -> None:
    result = run("messages", "list")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "Error: where are the messages? Give --dir, --config or RSB_SAMWISE__DIR"


def test_the_gateway_ends_by_sigterm_with_0_and_leaves_no_socket(gateway: Gateway) -> None:
    gateway.process.signal(signal.SIGTERM)
    assert gateway.process.wait() == 0
    assert sorted(path.name for path in (gateway.folder / "stored").iterdir()) == ["messages.db"]
    assert not (gateway.folder / "s").exists()


def test_an_endpoint_that_is_taken_is_one_sentence_and_status_1(shared: Gateway, tmp_path: Path) -> None:
    arguments = ["--endpoint", shared.endpoint, "--dir", str(tmp_path / "other"), "--config", str(shared.config)]
    result = run_python("-m", "broker.commands.main", "samwise", "serve", *arguments)
    sentence = f"rsocket-broker: samwise: {shared.endpoint}: address already in use\n"
    assert (result.returncode, result.stdout, result.stderr) == (1, "", sentence)
    assert shared.ask("ping").exit_code == 0


def test_a_folder_that_is_used_is_one_sentence_and_status_1(shared: Gateway, tmp_path: Path) -> None:
    arguments = ["--endpoint", f"ipc://{tmp_path}/other", "--config", str(shared.config)]
    result = run_python("-m", "broker.commands.main", "samwise", "serve", *arguments)
    assert result.returncode == 1
    assert result.stderr.endswith("messages.db: another gateway uses it\n")
    assert len(result.stderr.splitlines()) == 1
    assert shared.ask("ping").exit_code == 0


def test_without_an_endpoint_there_is_nothing_to_serve() -> None:
    result = run("serve")
    assert result.exit_code == 2
    assert "samwise.endpoints is empty: there is nothing to listen on" in result.stderr


def test_all_mistakes_of_a_configuration_are_told_together(tmp_path: Path) -> None:
    file = tmp_path / "g.toml"
    file.write_text('[samwise]\nendpoints = ["ipc:///a"]\nbackend = "x"\n[samwise.retry]\ntries = -1\n')
    result = run("serve", "--config", str(file))
    assert result.exit_code == 2
    assert [line.partition(": must")[0] for line in result.stderr.splitlines()] == [
        f"{file}:3: samwise.backend",
        f"{file}:5: samwise.retry.tries",
        f"{file}:2: samwise.endpoints: needs samwise.dir, where messages are stored",
    ]


def test_help_names_the_options_of_a_message() -> None:
    text = run("publish", "--help").stdout
    assert all(name in text for name in OPTIONS)
