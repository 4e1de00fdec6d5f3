"""Docstrings as Markdown: their examples and tables are set as they stand, which plain Markdown would not do."""

import re
from collections.abc import Iterator
from typing import Any, Final

import griffe

_TABLE_ROW: Final = re.compile(r"\S {2,}\S")  # words set in columns
_NAMED: Final = re.compile(r"(\w+) {2,}(\S.*)")  # an argument and what it means
_MADE: Final = re.compile(r"\bMade by `")  # of a class: its constructor is ours
_FLAGS: Final = re.compile(r" *# doctest: .*$", re.MULTILINE)  # for who runs them


class Readable(griffe.Extension):
    """Sets blocks that begin with >>> as Python, and arguments in columns as a list, and what is drawn as it stands."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = "\n\n".join(fenced(_FLAGS.sub("", obj.docstring.value)))

    def on_class_members(self, *, cls: Any, **_: Any) -> None:
        """How an object is made that a function makes is nobody's business."""
        if cls.docstring is not None and _MADE.search(cls.docstring.value):
            cls.members.pop("__init__", None)


def fenced(text: str) -> Iterator[str]:
    """The paragraphs of a docstring, each as Markdown."""
    for paragraph in re.split(r"\n{2,}", text):
        lines = paragraph.splitlines()
        drawn_n = sum(1 for line in lines if _TABLE_ROW.search(line) or line.startswith("    "))
        at = next((n for n, line in enumerate(lines) if line.startswith(">>>")), None)
        if at is not None:
            before = "\n".join(lines[:at])
            yield (before + "\n\n" if before else "") + "```pycon\n" + "\n".join(lines[at:]) + "\n```"
        elif all(_NAMED.fullmatch(line) or line.startswith("    ") for line in lines) and _NAMED.fullmatch(lines[0]):
            yield "\n".join(_NAMED.sub(r"- `\1`: \2", line) if _NAMED.fullmatch(line) else line for line in lines)
        elif drawn_n >= 2 and drawn_n * 2 >= len(lines):
            yield f"```text\n{paragraph}\n```"
        else:
            yield paragraph
