"""The programs of documents say what stands beneath them."""

import re

import pytest

from client_sdk.testing import sync_local_broker
from tests.client_sdk.public.docstring_runner import WRITTEN_URL
from tests.system.support.processes import ROOT, run_python


@pytest.mark.parametrize("document", ["contracts.md", "sync.md", "rsocket-py.md"])
def test_the_programs_of_a_document_say_what_stands_beneath_them(document: str) -> None:
    text = (ROOT / "docs/sdk" / document).read_text()
    programs = re.findall(r"^```python\n(.*?)^```$.*?^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(programs) == text.count("```text\n") > 0
    with sync_local_broker() as url:
        for program, says in programs:
            done = run_python("-c", program.replace(WRITTEN_URL, url))
            assert (done.returncode, done.stdout, done.stderr) == (0, says, "")
