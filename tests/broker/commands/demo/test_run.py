"""The demo keeps to its own folder and its own broker, its counts are those of the report, and it may be interrupted;
with Spark it runs in CI."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.commands.demo.command import demo
from broker.commands.demo.run import MARKER, RECORDED, broker_process, clear
from broker.exit_status import INTERRUPTED, USAGE
from rsocket_wire.errors import BrokerError
from tests.system.support.waits import until_now

ROOT = Path(__file__).resolve().parents[4]
RUN_S = 180.0  # it takes some seconds, and on a machine that is busy with much else a minute


def fill(folder: Path) -> Path:
    """Event files and tables of somebody."""
    for name in ("events/flows/1.parquet", "tables/traffic/1.parquet"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("records")
    return folder


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_folder_of_somebody_else_is_refused_in_one_sentence_and_stays_as_it_is(tmp_path: Path) -> None:
    result = CliRunner().invoke(demo, ["--dir", str(fill(tmp_path))])
    text = "holds files that no demo wrote; --dir takes a new or empty folder, or one of an earlier demo"
    assert (result.exit_code, result.output) == (USAGE, f"rsocket-broker demo: {tmp_path} {text}\n")
    assert files(tmp_path) == ["events/flows/1.parquet", "tables/traffic/1.parquet"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(demo, ["--dir", str(tmp_path / "file")])
    text = f"rsocket-broker demo: {tmp_path / 'file'} cannot be the folder of a demo: not a directory\n"
    assert (result.exit_code, result.output) == (USAGE, text)


@pytest.mark.parametrize("name", ["new/below", "."])
def test_a_new_or_empty_folder_becomes_the_demos_own(tmp_path: Path, name: str) -> None:
    clear(tmp_path / name)
    assert files(tmp_path / name) == [MARKER]


def test_what_an_earlier_demo_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    clear(tmp_path)
    fill(tmp_path)
    for name in ("notes", "report.md", "report.html"):
        (tmp_path / name).touch()
    clear(tmp_path)
    assert files(tmp_path) == [MARKER, "notes"]


def test_a_link_in_the_folder_leads_to_no_removal_elsewhere(tmp_path: Path) -> None:
    mine = fill(tmp_path / "mine")
    clear(tmp_path / "demo")
    (tmp_path / "demo" / "events").symlink_to(mine / "events")
    with pytest.raises(BrokerError, match="bad-folder"):
        clear(tmp_path / "demo")
    assert files(mine) == ["events/flows/1.parquet", "tables/traffic/1.parquet"]


async def test_the_demos_broker_does_not_listen_to_variables_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RSB_SERVER__NO_SUCH_OPTION", "1")  # a broker that sees it does not start
    async with broker_process(tmp_path / "events", RECORDED) as urls:
        assert sorted(urls) == ["http", "tcp", "ws"]


def start_without_spark(folder: Path) -> "subprocess.Popen[bytes]":
    """The demo with little traffic, where pyspark cannot be imported."""
    (folder / "early").mkdir()
    (folder / "early" / "pyspark.py").write_text('raise ImportError("not here")')
    paths = [str(folder / "early"), *(each or os.getcwd() for each in sys.path), str(ROOT)]
    return subprocess.Popen(
        [sys.executable, "-m", "broker.commands.main", "demo", "--dir", str(folder / "demo"), "--seconds", "0.5"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def test_every_request_is_in_the_report_and_without_spark_the_engine_local_makes_the_tables(tmp_path: Path) -> None:
    with start_without_spark(tmp_path) as process:
        output, errors = process.communicate(timeout=RUN_S)
    said = output.decode()
    assert (process.returncode, errors) == (0, b""), said
    reason = 'no Spark: this command needs pyspark: pip install "rsocket-broker[spark]"'
    assert said.count(f"   {reason}; the engine local makes the tables\n") == 1
    assert [said.count(f"core: {core}") for core in ("compiled", "interpreted")] in ([1, 0], [0, 1])
    assert "every request is in the report" in said
    assert (tmp_path / "demo" / "report.md").exists()


@pytest.mark.parametrize("said", [b"1  a broker runs", b"rise", b"8  the pipeline"])
def test_an_interruption_ends_it_and_its_processes_without_a_traceback(tmp_path: Path, said: bytes) -> None:
    with start_without_spark(tmp_path) as process:
        assert process.stdout is not None
        output = b""
        while said not in output:
            output += (more := os.read(process.stdout.fileno(), 1 << 16))
            assert more, output
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, errors = process.communicate(timeout=RUN_S)
    assert (process.returncode, errors) == (INTERRUPTED, b"")
    until_now(lambda: is_gone(process.pid))
    listened = re.search(rb"tcp://127\.0\.0\.1:(\d+)", output)
    assert listened is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(listened[1])))


def is_gone(group: int) -> bool:
    """Nobody is left, and whoever ended was looked after, which a busy system does later."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False
