"""A user's own file may be called as the broker's package is: client and pytest work beside it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
USER_FILE = "raise AssertionError('the file of the user was imported')\n"
PROGRAM = """
from client_sdk import *
from client_sdk import sync

try:
    with sync.connect("tcp://127.0.0.1:1", service=Service("orders")) as client:
        client.request_response(address("orders"))
except NotConnected:
    print("not connected")
"""


def run(folder: Path, *arguments: str) -> str:
    """What Python says, started where the file is; it finds that before our packages."""
    (folder / "broker.py").write_text(USER_FILE)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{ROOT}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_client_calls_beside_a_file_called_broker(tmp_path: Path) -> None:
    assert run(tmp_path, "-c", PROGRAM) == "not connected\n"


def test_pytest_runs_beside_a_file_called_broker(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("def test_mine() -> None:\n    pass\n")
    assert "1 passed" in run(tmp_path, "-m", "pytest", "-p", "client_sdk.pytest_plugin", "test_mine.py")
