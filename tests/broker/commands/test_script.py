"""The console script, before its commands are there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.exit_status import INTERRUPTED

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("module", ["signal", "click"])  # the first that it imports, and the last
def test_an_interruption_while_it_imports_ends_it_without_a_traceback(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt\n")
    paths = [str(tmp_path), *(each or os.getcwd() for each in sys.path), str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-c", "from broker.commands.script import main", "demo"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, b"", b"")
