"""Golden files: what is said of one fixed state, each in a file of the folder `golden` beside its test.

`pytest --write-golden PATHS` writes them anew; look at the difference before you commit it. Without that a test fails
with the difference.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest

WIDTH = 118


class Golden:
    """The golden files of one folder."""

    def __init__(self, folder: Path, is_writing: bool) -> None:
        self._folder = folder
        self._is_writing = is_writing

    def check(self, name: str, text: str) -> None:
        """The text is that of this file."""
        path = self._folder / name
        if self._is_writing:
            self._folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        if text != expected:
            lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), name, "now", lineterm="")
            pytest.fail(
                "\n".join(["not as in the golden file; `pytest --write-golden` writes it", *lines]), pytrace=False
            )

    def check_json(self, name: str, value: object) -> None:
        """The same of JSON; what fits on a line stands on one."""
        self.check(name, f"{compact(value)}\n")


def compact(value: object, indent: str = "") -> str:
    """As JSON, with as few lines as fit into WIDTH."""
    text = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(text) <= WIDTH or not isinstance(value, dict | list):
        return text
    inner = f"{indent}  "
    if isinstance(value, list):
        parts = [compact(each, inner) for each in value]
    else:
        parts = [f"{json.dumps(key)}: {compact(each, inner)}" for key, each in value.items()]
    ends = "[]" if isinstance(value, list) else "{}"
    body = ",\n".join(f"{inner}{part}" for part in parts)
    return f"{ends[0]}\n{body}\n{indent}{ends[1]}"
