"""Starting: what is wrong is said in one clear sentence, with the exit status that says who can mend it."""

import socket
from pathlib import Path

import pytest

from broker.core import COMPILED
from tests.conftest import StartBroker
from tests.system.support.processes import BrokerProcess, run_python
from tests.system.support.wires import Wire

CANNOT_START = 1
TAKEN = "; end the program that listens there, or listen elsewhere"
BAD_CONFIG = 2


def refused(tmp_path: Path, *arguments: str, **options: object) -> tuple[int, list[str]]:
    """Exit status and what was said, of a broker that cannot start."""
    return BrokerProcess(tmp_path / "broker.log", arguments, options).fails()


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_a_taken_port_is_one_sentence_and_status_1(tmp_path: Path, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        url = f"{scheme}://127.0.0.1:{holder.getsockname()[1]}"
        status, said = refused(tmp_path, "--listen", "tcp://127.0.0.1:0", "--listen", url)
    assert status == CANNOT_START
    assert said == [f"rsocket-broker: {url}: address already in use{TAKEN}"]


def test_a_taken_admin_port_is_one_sentence_and_status_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        place = f"127.0.0.1:{holder.getsockname()[1]}"
        status, said = refused(tmp_path, "--listen", "tcp://127.0.0.1:0", "--admin", place)
    assert status == CANNOT_START
    sentences = [line for line in said if line.startswith("rsocket-broker: ")]
    assert len(sentences) == 1, said
    assert place in sentences[0]
    assert "address already in use" in sentences[0]
    assert not any("Traceback" in line for line in said)


def test_an_address_that_this_machine_does_not_have_is_one_sentence(tmp_path: Path) -> None:
    status, said = refused(tmp_path, "--listen", "tcp://203.0.113.7:7878", auth__mode="off")  # TEST-NET-3
    assert (status, said[1:]) == (
        CANNOT_START,
        ["rsocket-broker: tcp://203.0.113.7:7878: cannot assign requested address"],
    )
    assert said[0].endswith(
        ' warning configuration: command line: --listen: "tcp://203.0.113.7:7878" is reachable from other machines'
        " and not encrypted; use tls or wss"
    )


def test_an_address_that_other_machines_reach_needs_a_word_on_who_is_let_in(tmp_path: Path) -> None:
    status, (said,) = refused(tmp_path, "--listen", "tcp://0.0.0.0:0")
    assert status == BAD_CONFIG
    assert said.startswith('command line: --listen: "tcp://0.0.0.0:0" is reachable from other machines, and nothing')


def test_a_host_name_that_does_not_exist_is_one_sentence(tmp_path: Path) -> None:
    status, said = refused(
        tmp_path, "--listen", "tcp://no-such-host.invalid:7878", log__level="error", auth__mode="off"
    )
    assert status == CANNOT_START
    assert len(said) == 1, said
    assert said[0].startswith("rsocket-broker: tcp://no-such-host.invalid:7878: ")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_no_socket_stays_and_is_told(socket_folder: Path, tmp_path: Path, kind: str) -> None:
    path = socket_folder / "some.sock"
    path.touch() if kind == "file" else path.mkdir()
    status, said = refused(tmp_path, "--listen", f"unix://{path}")
    assert (status, said) == (CANNOT_START, [f"rsocket-broker: unix://{path}: there is a {kind} that is no socket"])
    assert path.exists()


def test_check_warns_on_standard_error_and_says_ok(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text('[admin]\nlisten = "0.0.0.0:7070"\n')
    checked = run_python("-m", "broker.commands.main", "check", str(path))
    assert (checked.returncode, checked.stdout) == (0, f"{path}: ok\n")
    text = f'{path}:2: admin.listen: "0.0.0.0:7070" is reachable from other machines without authentication'
    assert checked.stderr == f"warning: {text}\n"


def test_all_mistakes_of_a_configuration_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text('[server]\nlisten = ["tpc://0.0.0.0:7878"]\n\n[limits]\nmax_conections = 5\nmax_frame_bytes = 1\n')
    status, said = refused(tmp_path, "--config", str(path), log__level="loud")
    assert status == BAD_CONFIG
    assert [line.split(": ")[:2] for line in said] == [
        [f"{path}:2", "server.listen"],
        [f"{path}:5", "limits.max_conections"],
        [f"{path}:6", "limits.max_frame_bytes"],
        ["environment", "RSB_LOG__LEVEL"],
    ]


def test_an_events_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, said = refused(tmp_path, "--listen", "tcp://127.0.0.1:0", "--events", str(tmp_path / "file" / "events"))
    folder = tmp_path / "file" / "events"
    assert (status, said) == (CANNOT_START, [f"rsocket-broker: events.dir: {folder}: not a directory"])


async def test_a_stale_unix_socket_is_replaced_and_a_live_one_is_not(
    socket_folder: Path, start_broker: StartBroker
) -> None:
    path = socket_folder / "broker.sock"
    url = f"unix://{path}"
    first = start_broker("--listen", url)
    assert refused(socket_folder, "--listen", url) == (
        CANNOT_START,
        [f"rsocket-broker: {url}: address already in use{TAKEN}"],
    )
    wire = await Wire.caller(url)  # the first one's socket still works
    await wire.close()

    first.process.kill()
    first.wait()
    assert path.exists()
    third = start_broker("--listen", url)
    wire = await Wire.caller(url)
    await wire.close()
    third.signal()
    assert third.wait() == 0
    assert not path.exists()


def test_a_broker_process_runs_the_core_that_the_tests_run(broker_process: BrokerProcess) -> None:
    assert f"core: {'compiled' if COMPILED else 'interpreted'}, listening on " in broker_process.errors


def test_it_can_run_as_a_module_and_tell_its_options() -> None:
    told = run_python("-m", "broker", "--help")
    assert (told.returncode, "--listen" in told.stdout) == (0, True)
