"""The console script, before its commands are there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from broker.commands.hangup import AtOnce
from broker.exit_status import FAILED, INTERRUPTED

ROOT = Path(__file__).resolve().parents[3]


def import_behind(folder: Path) -> subprocess.CompletedProcess[bytes]:
    """The script is imported, with modules of that folder in place of their namesakes."""
    paths = [str(folder), *(each or os.getcwd() for each in sys.path), str(ROOT)]
    return subprocess.run(
        [sys.executable, "-c", "from broker.commands.script import main", "demo"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("module", ["signal", "click"])  # the first that it imports, and the last
def test_an_interruption_while_it_imports_ends_it_without_a_traceback(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt\n")
    done = import_behind(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, b"", b"")


def test_an_interruption_while_python_ends_leaves_no_traceback() -> None:
    late = "atexit.register(lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(60)))"
    program = f"import atexit, os, signal, time\nfrom broker.commands.script import main\n{late}\nmain()"
    done = subprocess.run([sys.executable, "-c", program, "check"], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"environment: ok\n", b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
@pytest.mark.parametrize("asked", ["-h", "call -h", "check", "check --options", "shard-plan --routes 2 --join 1"])
def test_a_full_disk_for_the_output_is_one_sentence(asked: str) -> None:
    program = "from broker.commands.script import main; main()"
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-c", program, *asked.split()]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (FAILED, b"rsocket-broker: no space left on device\n")


def test_an_interruption_within_an_import_ends_the_command_at_once(tmp_path: Path) -> None:
    """Also where what is imported swallows it."""
    swallowing = (
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt:\n    pass\n"
    )
    (tmp_path / "click.py").write_text(swallowing)
    done = import_behind(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_after_the_imports_an_interruption_is_one_of_python() -> None:
    with AtOnce():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
