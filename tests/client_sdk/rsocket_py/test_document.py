"""The program of docs/sdk/rsocket-py.md says what stands beneath it."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from client_sdk.testing import sync_local_broker

DOCUMENT = Path(__file__).parents[3] / "docs/sdk/rsocket-py.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```$.*?^```text\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


def test_there_is_a_program() -> None:
    assert len(PROGRAMS) == 1


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_program_says_what_stands_beneath_it(number: int) -> None:
    program, says = PROGRAMS[number]
    said = io.StringIO()
    with sync_local_broker() as url, contextlib.redirect_stdout(said):
        exec(program.replace("tcp://127.0.0.1:7000", url), {"__name__": "__main__"})
    assert said.getvalue() == says
