"""docs/sdk/cookbook.md: its blocks are cells of one session, and what they assert holds."""

import ast
import inspect
import re
from typing import Any

from client_sdk.testing import local_broker
from tests.client_sdk.public.docstring_runner import WRITTEN_URL
from tests.system.support.processes import ROOT

PAGE = (ROOT / "docs/sdk/cookbook.md").read_text()
CELLS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
QUESTIONS_N = 27  # at least


async def test_each_answer_does_what_it_says() -> None:
    names: dict[str, Any] = {"__name__": "cookbook"}
    async with local_broker() as url:
        for at, cell in enumerate(CELLS):
            text = cell.replace(WRITTEN_URL, url)
            code = compile(text, f"cell {at}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            running = eval(code, names)
            if inspect.iscoroutine(running):
                await running


def test_there_is_an_answer_to_each_question() -> None:
    assert len(re.findall(r"^## .*\?$", PAGE, re.MULTILINE)) == PAGE.count("\n## ")
    assert len(CELLS) >= QUESTIONS_N
