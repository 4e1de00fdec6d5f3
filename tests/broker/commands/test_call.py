"""`rsocket-broker call` and `offer`: what a person at a terminal sees, and a script by the exit status."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from click.testing import CliRunner, Result

from broker import exit_status
from broker.access.identities import KINDS
from broker.commands import terminal
from broker.commands.main import main
from broker.commands.offer.service import _tell
from client_sdk import (
    BadRequest,
    Change,
    ClientError,
    ConnectionLost,
    Password,
    Service,
    State,
    Unauthenticated,
    address,
    sync,
)
from client_sdk.errors import CONNECTION_ADVICE
from client_sdk.mistakes.handlers import NO_JSON
from client_sdk.testing import SyncLocalBroker, sync_local_broker
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer
from tests.client_sdk.sync.orders import Orders

ROOT = Path(__file__).resolve().parents[3]
MAIN = [sys.executable, "-m", "broker.commands.main"]
SOON_S = 5.0
RUN_S = 60.0  # a command takes half a second; a machine that is busy with other tests takes longer


@pytest.fixture
def orders() -> Orders:
    return Orders()


@pytest.fixture
def broker(orders: Orders) -> Iterator[SyncLocalBroker]:
    with sync_local_broker() as url, sync.connect(url, service=orders.service):
        yield url


def run(command: str, url: str, *arguments: str, given: str = "") -> Result:
    """In this process, which is fast."""
    return CliRunner().invoke(main, [command, url, *arguments], input=given)


def call(url: str, *arguments: str, given: str = "") -> Result:
    return run("call", url, "--service", "orders", *arguments, given=given)


def environment() -> dict[str, str]:
    """That of a process which finds the same packages."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*(each or os.getcwd() for each in sys.path), str(ROOT)])}


class Command:
    """The command in a process of its own, with pipes."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*MAIN, *arguments],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def say(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> tuple[int, bytes, bytes]:
        """(exit status, the rest of the output, errors), when standard input has ended too."""
        output, errors = self.process.communicate(timeout=RUN_S)
        return self.process.returncode, output, errors


# One request


def test_one_answer_is_one_line(broker: SyncLocalBroker) -> None:
    result = call(broker, "--data", "tea")
    assert (result.exit_code, result.stdout_bytes, result.stderr) == (0, b"tea\n", "")


def test_data_comes_from_a_file_or_from_standard_input(broker: SyncLocalBroker, tmp_path: Path) -> None:
    (tmp_path / "tea").write_bytes(b"two\nlines")
    assert call(broker, "--data", f"@{tmp_path}/tea").stdout_bytes == b"two\nlines\n"
    assert call(broker, "--data", "-", given="typed\n").stdout_bytes == b"typed\n\n"
    assert call(broker, "--data", "@@tea").stdout_bytes == b"@tea\n"
    missing = call(broker, "--data", "@/nowhere/tea")
    assert (missing.exit_code, "no such file" in missing.stderr) == (2, True)


def test_json_is_checked_before_it_is_sent_and_shown_as_it_is(broker: SyncLocalBroker) -> None:
    result = call(broker, "--json", "--data", '{"price":1.10,"id":12345678901234567890}')
    assert result.stdout == '{\n  "price": 1.10,\n  "id": 12345678901234567890\n}\n'
    asked = broker.requests()
    wrong = call(broker, "--json", "--data", "{price}")
    assert (wrong.exit_code, "--data is no JSON" in wrong.stderr) == (2, True)
    wrong = call(broker, "--json", "--data", "{pieces:[1]}")
    assert (wrong.exit_code, """write '{"pieces":[1]}', in single quotes""" in wrong.stderr) == (2, True)
    assert broker.requests() == asked


def test_answer_that_is_no_json_is_told(broker: SyncLocalBroker) -> None:
    result = call(broker, "--json", "--route", "note", "--meta", "text/plain=tea")
    assert (result.exit_code, "an answer is no JSON" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("least_busy", ""),
        ("LeastRequest", ""),
        ("sticky:random", ""),
        ("least_bsy", "did you mean least_busy?\n"),
        (
            "fastest",
            "write round_robin, random, weighted, least_busy, power_of_two, peak_ewma, zone_first or sticky\n",
        ),
    ],
)
def test_a_method_that_brokers_do_not_know_is_sent_with_a_warning(
    broker: SyncLocalBroker, method: str, said: str
) -> None:
    result = call(str(broker), "--route", "echo", "--data", "hi", "--lb", method)
    assert (result.exit_code, result.stdout) == (0, "hi\n")
    warning = f"rsocket-broker: --lb {method}: a broker that knows no such method takes that of the service; "
    assert result.stderr == (warning + said if said else "")


def test_metadata_reaches_the_handler(broker: SyncLocalBroker, tmp_path: Path) -> None:
    (tmp_path / "note").write_bytes(b"from a file")
    assert call(broker, "--route", "note", "--meta", "text/plain=tea").stdout == "tea\n"
    assert call(broker, "--route", "note", "--meta", f"text/plain=@{tmp_path}/note").stdout == "from a file\n"
    assert call(broker, "--route", "note", "--meta", "=tea").exit_code == 2


def test_requests_without_an_answer_arrive(broker: SyncLocalBroker, orders: Orders) -> None:
    result = call(broker, "--model", "fire_and_forget", "--route", "line", "--data", "hello")
    assert (result.exit_code, result.output) == (0, "")
    assert orders.seen.get(timeout=SOON_S) == ("fire_and_forget", b"hello")
    assert call(broker, "--model", "metadata_push", "--data", "flush").exit_code == 0
    assert orders.seen.get(timeout=SOON_S) == ("metadata_push", b"flush")


def test_verbose_tells_where_and_how_long_on_standard_error(broker: SyncLocalBroker) -> None:
    result = call(broker, "-v", "--data", "tea")
    assert result.stdout == "tea\n"
    assert re.fullmatch(rf"\* connected to {broker} as [0-9a-f-]{{36}}\n\* ended after [\d.]+ ms\n", result.stderr)


def test_certificates_of_ones_own_are_trusted_when_they_are_named() -> None:
    certificate = str(ROOT / "tests/client_sdk/localhost.pem")
    options = {"tls.certificate": certificate, "tls.key": certificate}
    with sync_local_broker(listen=["tcp", "tls://127.0.0.1:0"], options=options) as broker:
        url = broker.urls["tls"].replace("127.0.0.1", "localhost")
        with sync.connect(broker, service=Orders().service):
            assert call(url, "--ca", certificate, "--data", "tea").stdout == "tea\n"
            assert call(url, "--data", "tea").exit_code == exit_status.NO_ANSWER


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "name what to call"),
        (["--service", "orders", "--all", "--shard-key", "user"], "exclude"),
        (["--service", "orders", "--gather", "--stream"], "--gather"),
        (["--service", "orders", "--tag", "=eu"], "has no name"),
        (["--service", "orders", "--tag", "region:eu"], "--tag 'region:eu' is no NAME=VALUE; write region=eu"),
        (
            ["--service", "orders", "--data", "a", "book"],
            "'book' is taken as the URL; quote what has spaces: --data 'a book'",
        ),
        (
            ["--service", "orders", "--data", "{a:", "1}"],
            "'1}' is taken as the URL; quote what has spaces: --data '{\"a\": 1}'",
        ),
        (["orders.create"], "write --service orders --route create, the data is --data"),
        (["orders.create", "book"], "'book' is taken as the URL; the service is --service, the route --route"),
        (["--service", "orders", "--route", "create", "a book"], "'a book' is taken as the URL; write --data 'a book'"),
        (["orders", "create"], "'orders' is taken as the URL; write --service orders; the route is --route"),
        (["orders", "--data", "x"], "'orders' is taken as the URL; write --service orders; the route is --route"),
        (["orders", "--service", "orders"], "'orders' is taken as the URL; leave it out, --service says that"),
        (["book", "--service", "orders", "--data", "a"], "'book' is taken as the URL; the service is --service"),
        (["--service", "orders", "--shard-key", "user=ada"], "write --shard-key user --tag user=ada"),
        (["--service", "orders", "--shard-key", "user"], "--shard-key user is the name of a tag: add --tag user=VALUE"),
        (["--service", "orders", "--service", "carts"], "--service is given twice, and takes one value"),
        (["--service", "orders", "--data", "a", "--data=b"], "--data is given twice, and takes one value"),
        (["--service", "orders", "--stream", "--model", "request_response"], "--stream and --model exclude each other"),
        (["--service", "orders", "region=eu"], "'region=eu' is taken as the URL; a tag is --tag region=eu"),
        (["--service", "orders", "tcp://127.0.0.1:2"], "one URL at most, not tcp://127.0.0.1:1 tcp://127.0.0.1:2"),
        (["--service", "orders", "--n", "0"], "x>=1; write a whole number from 1 on"),
        (["--service", "orders", "--ca", "/nowhere/ca.pem"], "--ca is for tls:// and wss://; tcp://127.0.0.1:1 is not"),
        (["--service", "orders", "--model", "metadata_push", "--meta", "a/b=c"], "--meta is for requests"),
    ],
)
def test_command_line_that_makes_no_sense_is_told(arguments: list[str], text: str) -> None:
    result = run("call", "tcp://127.0.0.1:1", *arguments)
    assert (result.exit_code, text in result.stderr) == (2, True), result.stderr


def test_a_certificate_needs_its_key() -> None:
    result = run("call", "tls://127.0.0.1:1", "--service", "orders", "--cert", "here.pem")
    assert (result.exit_code, "belong together" in result.stderr) == (2, True), result.stderr


# Exit statuses


def test_status_says_what_kind_of_error_it_was(broker: SyncLocalBroker, orders: Orders) -> None:
    assert call("unix:///nowhere/broker.sock").exit_code == exit_status.NO_ANSWER
    assert call(broker, "--tag", "region=mars").exit_code == exit_status.REFUSED
    assert call(broker, "--route", "fail").exit_code == exit_status.HANDLER_FAILED
    assert call(broker, "--route", "never", "--timeout", "0.05").exit_code == exit_status.TOO_LATE
    assert call(broker, "--model", "request_response", "--shard-key", "user").exit_code == exit_status.USAGE


def test_status_of_a_call_that_is_lost_in_the_middle() -> None:
    orders = Orders()
    with sync_local_broker() as broker, sync.connect(broker, service=orders.service) as service:
        closing = threading.Thread(target=service.close)
        orders.on_begin = closing.start
        assert call(broker, "--route", "never").exit_code == exit_status.LOST
        closing.join(SOON_S)


# Many answers


def test_stream_is_one_line_an_item(broker: SyncLocalBroker) -> None:
    assert call(broker, "--stream", "--data", "3", "--json").stdout == "0\n1\n2\n"


def test_take_stops_the_stream_at_the_service(broker: SyncLocalBroker, orders: Orders) -> None:
    result = call(broker, "--stream", "--data", "1000000", "--take", "2")
    assert (result.exit_code, result.stdout) == (0, "0\n1\n")
    assert orders.ended.get(timeout=SOON_S) == "stream"


def test_channel_sends_the_lines_of_a_file(broker: SyncLocalBroker, tmp_path: Path) -> None:
    (tmp_path / "items").write_bytes(b"1\r\n2\n\n3")
    assert call(broker, "--channel", "--data", f"@{tmp_path}/items").stdout == "1\n2\n\n3\n"
    assert call(broker, "--channel", "--data", "only one").stdout == "only one\n"
    wrong = call(broker, "--channel", "--json", "--data", f"@{tmp_path}/items")
    assert (wrong.exit_code, "is no JSON" in wrong.stderr) == (2, True)


def test_gather_says_who_answered(broker: SyncLocalBroker) -> None:
    with sync.connect(broker, service=Orders().service):
        ids = sorted(route.route_id for route in broker.routes("orders"))
        result = call(broker, "--gather", "--data", "tea")
        assert (result.exit_code, sorted(result.stdout.splitlines())) == (0, [f"orders {each}: tea" for each in ids])
        shown = call(broker, "--gather", "--json", "--data", "7").stdout.splitlines()
        assert sorted(shown) == [f'{{"service":"orders","route_id":"{each}","answer":7}}' for each in ids]
        failed = call(broker, "--gather", "--json", "--route", "fail")
        assert failed.exit_code == exit_status.HANDLER_FAILED
        told = '"error":{"word":"out-of-stock","text":"none is left"}'
        assert sorted(failed.stdout.splitlines()) == [
            f'{{"service":"orders","route_id":"{each}",{told}}}' for each in ids
        ]
        late = call(broker, "--gather", "--route", "never", "--timeout", "0.05")
        assert (late.exit_code, "not all have answered" in late.stderr) == (exit_status.TOO_LATE, True)


def test_a_gather_that_all_fail_alike_ends_with_that_status(broker: SyncLocalBroker) -> None:
    with sync.connect(broker, service=Service("bare")):
        failed = run("call", broker, "--service", "bare", "--gather", "--route", "nosuch")
    assert (failed.exit_code, failed.stdout, ": no-handler: " in failed.stderr) == (exit_status.INVALID, "", True)


def test_data_that_cannot_be_read_is_no_forgotten_connect(recwarn: pytest.WarningsRecorder) -> None:
    refused = run("call", "tcp://127.0.0.1:1", "--service", "orders", "--data", "@/nowhere")
    assert (refused.exit_code, [str(each.message) for each in recwarn]) == (exit_status.USAGE, [])


# At a terminal


def test_names_of_others_cannot_move_the_cursor() -> None:
    service = Service("x\r\x1b[2Jy", tags={"shared": "yes"})

    @service.request_response("works")
    async def works(data: bytes) -> bytes:
        return b"tea"

    with sync_local_broker() as url, sync.connect(url, service=service):
        result = run("call", url, "--tag", "shared=yes", "--gather", "--route", "works")
        assert (result.exit_code, result.stdout.startswith("x\\r\\x1b[2Jy ")) == (0, True)
        result = run("call", url, "--tag", "shared=yes", "--route", "missing")
        assert "service 'x\\r\\x1b[2Jy'" in result.stderr
        assert (result.stderr.count("\n"), "\x1b" in result.stderr, "\r" in result.stderr) == (1, False, False)


def test_items_are_written_as_they_come_and_interrupt_cancels(broker: SyncLocalBroker, orders: Orders) -> None:
    with Command("call", broker, "--service", "orders", "--route", "ticks", "--stream") as command:
        assert command.line() == b"the first\n"  # and no other will ever come
        command.process.send_signal(signal.SIGINT)
        assert command.end() == (exit_status.INTERRUPTED, b"", b"")
    assert orders.ended.get(timeout=SOON_S) == "ticks"


@pytest.mark.parametrize("status", [0, exit_status.INTERRUPTED])
def test_lines_are_sent_as_they_are_typed_until_there_are_no_more_or_it_is_interrupted(
    broker: SyncLocalBroker, orders: Orders, status: int
) -> None:
    with Command("call", broker, "--service", "orders", "--channel", "--data", "-") as command:
        for line in (b"one\n", b"two\n"):
            command.say(line)
            assert command.line() == line
        if status == exit_status.INTERRUPTED:  # it waits for another line
            command.process.send_signal(signal.SIGINT)
            command.process.wait(RUN_S)
        assert command.end() == (status, b"", b"")
    assert orders.ended.get(timeout=SOON_S) == "channel"


def test_reader_that_has_enough_ends_the_command_quietly(broker: SyncLocalBroker, orders: Orders) -> None:
    with Command("call", broker, "--service", "orders", "--stream", "--data", "100000000") as command:
        assert command.line() == b"0\n"
        assert command.process.stdout is not None
        command.process.stdout.close()
        assert command.process.wait(RUN_S) == exit_status.PIPE_CLOSED
        assert command.process.stderr is not None
        assert command.process.stderr.read() == b""
    assert orders.ended.get(timeout=SOON_S) == "stream"


# The other side


def test_offer_shows_what_is_asked_and_echoes(broker: SyncLocalBroker) -> None:
    with Command("offer", "stock", broker, "--tag", "room=a", "--items", "2", "--take", "5") as command:
        broker.wait_for_routes("stock", timeout_s=RUN_S, room="a")
        with sync.connect(broker) as client:
            to = address("stock")
            assert client.request_response(to, b"tea", route="count", timeout_s=SOON_S).data == b"tea"
            assert [item.data for item in client.request_stream(to, b"tick")] == [b"tick", b"tick"]
            assert [item.data for item in client.request_channel(to, [b"1", b"2"])] == [b"1", b"2"]
            client.fire_and_forget(to, b"bye")
        status, output, errors = command.end()
    shown = b"request_response count: tea\nrequest_stream -: tick\nrequest_channel -: 1\nrequest_channel -: 2\n"
    assert (status, output) == (0, shown + b"fire_and_forget -: bye\n")
    assert errors.startswith(b"rsocket-broker: offering 'stock' at tcp://")


def test_offer_answers_with_json_until_it_is_interrupted(broker: SyncLocalBroker) -> None:
    with Command("offer", "stock", broker, "--json", "--answer", '{"left":3}') as command:
        broker.wait_for_routes("stock", timeout_s=RUN_S)
        result = run("call", broker, "--service", "stock", "--json", "--data", '"tea"')
        assert result.stdout == '{\n  "left": 3\n}\n'
        assert command.line() == b'{"model":"request_response","route":"","data":"\\"tea\\""}\n'
        command.process.send_signal(signal.SIGINT)
        assert command.end()[0] == exit_status.INTERRUPTED
    assert run("offer", "stock", broker, "--json", "--answer", "{").exit_code == 2


async def test_offer_says_why_its_connection_has_ended_and_when_it_is_offered_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Changing:
        async def changes(self) -> AsyncIterator[Change]:
            for state, reason in (
                (State.CONNECTED, None),
                (State.MOVING, None),
                (State.CONNECTED, None),
                (State.RECONNECTING, ConnectionLost("they hold no longer", word="revoked")),
                (State.RECONNECTING, ConnectionLost("they hold no longer", word="revoked")),
                (State.CONNECTED, None),
            ):
                yield Change(state, "tcp://a:1", reason)

    await _tell(Changing(), "stock")  # type: ignore[arg-type]  # of a client it asks nothing else
    assert capsys.readouterr().err.splitlines() == [
        "rsocket-broker: the connection has ended: revoked: they hold no longer",
        "rsocket-broker: offering 'stock' again at tcp://a:1",
    ]


# What can go wrong outside of it: one line, no traceback


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["http://127.0.0.1:1"], 2, b"the scheme must be one of tcp://"),
        (["URL", "--meta", "text/pl\xe4in=1"], 2, b"ASCII characters"),
        (["URL", "--timeout", "nan"], 2, b"nan is not finite"),
        (["URL", "--channel", "--n", "99999999999", "--data", "x"], 2, b"it must be 1..2147483647"),
        (["URL", "--route", "\udcff"], 2, b"can't encode"),
        (["URL", "--channel", "--data", "@/"], 1, b"is a directory"),
    ],
)
def test_what_cannot_be_said_or_read_is_one_line_and_a_status(
    broker: SyncLocalBroker, arguments: list[str], status: int, said: bytes
) -> None:
    given = [broker if each == "URL" else each for each in arguments]
    with Command("call", *given, "--service", "orders") as command:
        seen, output, errors = command.end()
    assert (seen, output, b"Traceback" in errors, said in errors) == (status, b"", False, True), errors


def test_bytes_that_are_no_text_go_as_they_are(broker: SyncLocalBroker) -> None:
    with sync.connect(broker, service=_echo()), Command("call", broker, "--service", "echo", "--data", "\udcff") as run:
        assert run.end() == (0, b"\xff\n", b"")


def test_advice_to_programs_becomes_what_a_shell_can_do() -> None:
    def below(kind: type[ClientError]) -> Iterator[type[ClientError]]:
        yield kind
        for each in kind.__subclasses__():
            yield from below(each)

    made = [kind("why") for kind in below(ClientError) if kind.__module__ == ClientError.__module__]
    made += [ConnectionLost("why", word=word) for word in CONNECTION_ADVICE]
    made += [BadRequest(f"why{NO_JSON}")]
    made += [Unauthenticated(f"why; this broker accepts {kind}") for kind in KINDS]
    said = [terminal.said_of(error) for error in made]
    assert [text for text in said if re.search(r"(?<=\w)=|\w\(|_", text)] == []
    unused = [python for python in terminal.IN_SHELL if not any(python in str(error) for error in made)]
    at_once = ("ssl=", "give credentials=", "several URLs")
    of_dial = [python for python in terminal.IN_SHELL if python.startswith(at_once)]
    assert unused == of_dial  # the place that dials says them


@pytest.mark.parametrize("to", ["/dev/full", "closed"])
def test_output_that_cannot_be_written_is_one_line(broker: SyncLocalBroker, to: str) -> None:
    line = 'exec "$@" >&-' if to == "closed" else f'exec "$@" >{to}'
    with sync.connect(broker, service=_echo()):
        command = ["/bin/sh", "-c", line, "sh", *MAIN, "call", broker, "--service", "echo"]
        done = subprocess.run(command, env=environment(), capture_output=True, timeout=RUN_S)
    assert (done.returncode, done.stderr.count(b"\n"), done.stderr[:16]) == (1, 1, b"rsocket-broker: "), done.stderr


def _echo() -> Service:
    service = Service("echo")

    @service.request_response()
    async def echo(data: bytes) -> bytes:
        return data

    return service


# Credentials


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[SyncLocalBroker]:
    """A broker that lets in a user and who has a token."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)  # the CPU may be somebody else's
    (tmp_path / "users").write_text(f"ada:{cheap.hash('lovelace')}\n")
    (tmp_path / "keys.json").write_bytes(key_set(signer()))
    options = {
        "auth.mode": "required",
        "auth.accept": ("user", "jwt"),
        "auth.users": str(tmp_path / "users"),
        "jwt.keys": str(tmp_path / "keys.json"),
        "jwt.issuer": ISSUER,
        "jwt.audience": AUDIENCE,
    }
    with sync_local_broker(options=options) as url:
        yield url


def run_password(name: str, password: str) -> Result:
    return CliRunner().invoke(main, ["password", name], input=f"{password}\n")


def test_a_user_or_a_token_calls_and_who_has_neither_does_not(
    guarded: SyncLocalBroker, orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{signer().sign()}\n")
    with sync.connect(guarded, service=orders.service, credentials=Password("ada", "lovelace")):
        refused = call(guarded, "--data", "tea")
        assert (refused.exit_code, "unauthenticated: " in refused.output) == (exit_status.REFUSED, True)
        for name, value, *arguments in (
            ("", "", "--token-file", str(token)),
            (terminal.TOKEN_VARIABLE, signer().sign()),
            (terminal.PASSWORD_VARIABLE, "lovelace", "--user", "ada"),
        ):
            with monkeypatch.context() as patch:
                if name:
                    patch.setenv(name, value)
                result = call(guarded, "--data", "tea", *arguments)
            assert (result.exit_code, result.stdout_bytes) == (0, b"tea\n")


def test_a_user_without_a_password_is_told_how_to_give_one() -> None:
    result = call("tcp://127.0.0.1:1", "--user", "ada")
    assert (result.exit_code, "RSOCKET_BROKER_PASSWORD" in result.output) == (2, True)
    result = call("tcp://127.0.0.1:1", "--user", "ada", "--token-file", "x")
    assert "exclude each other" in result.output


@pytest.mark.parametrize(
    ("name", "password", "text"),
    [
        ("a:b", "x", "'a:b' has a colon, which ends a name in the file: take a name without one"),
        ("", "x", "'' is no name of a user: that is printable, does not begin with a space, and has 1 to 255 bytes"),
        ("ada", "", "no password came: type it, or give it on standard input, as one line"),
    ],
)
def test_what_can_be_no_user_gets_no_line(name: str, password: str, text: str) -> None:
    result = run_password(name, password)
    assert (result.exit_code, result.output) == (2, f"rsocket-broker password: {text}\n")
