"""The programs of documents say what stands beneath them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from client_sdk.testing import sync_local_broker

ROOT = Path(__file__).resolve().parents[3]
WRITTEN_URL = "tcp://127.0.0.1:7000"
RUN_S = 60.0  # a program takes half a second; a machine that is busy with other tests takes longer


@pytest.mark.parametrize("document", ["sync.md", "rsocket-py.md"])
def test_the_program_of_a_document_says_what_stands_beneath_it(document: str) -> None:
    text = (ROOT / "docs/sdk" / document).read_text()
    [(program, says)] = re.findall(r"^```python\n(.*?)^```$.*?^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
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
