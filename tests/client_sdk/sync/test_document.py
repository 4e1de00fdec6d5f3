"""The programs of docs/sdk/sync.md say what stands beneath them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from client_sdk.testing import sync_local_broker

ROOT = Path(__file__).resolve().parents[3]
WRITTEN_URL = "tcp://127.0.0.1:7000"
PROGRAMS = re.findall(
    r"^```python\n(.*?)^```$.*?^```text\n(.*?)^```$", (ROOT / "docs/sdk/sync.md").read_text(), re.MULTILINE | re.DOTALL
)
RUN_S = 60.0  # a program takes half a second; a machine that is busy with other tests takes longer


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_of_the_document_says_what_stands_beneath_it(number: int) -> None:
    program, says = PROGRAMS[number]
    path = os.pathsep.join([*(each or os.getcwd() for each in sys.path), str(ROOT)])
    with sync_local_broker() as url:
        done = subprocess.run(
            [sys.executable, "-c", program.replace(WRITTEN_URL, url)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, says, "")


def test_there_is_a_program() -> None:
    assert len(PROGRAMS) == 1
