"""The line of progress: only on a terminal, only of work that takes a while, and gone at the end."""

from __future__ import annotations

import sys
import threading

import pytest

from spark_sink import progress_line
from spark_sink.progress_line import ProgressLine


class Terminal:
    """Standard error, with what is written to it."""

    def __init__(self, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self.text = ""
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        self.text += text
        self.written.set()
        return len(text)

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_is_told_what_goes_on_and_nobody_else(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    terminal = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress_line, "QUIET_S", 0.0)
    with ProgressLine("reading") as line:
        line.say("reading\x1b[2J 7 of 9")
        if is_terminal:
            assert terminal.written.wait(5)
    assert terminal.text.count("\x1b") == (0 if not is_terminal else 2)
    assert ("7 of 9" in terminal.text or "reading" in terminal.text, terminal.text.endswith("\r\x1b[K")) == (
        is_terminal,
        is_terminal,
    )


def test_short_work_is_not_worth_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressLine("reading"):
        pass
    assert terminal.text == ""
