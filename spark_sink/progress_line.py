"""One line on a terminal that tells what goes on, while a command works for more than a second.

Nothing is said where standard error is no terminal. The line is gone when the work ends.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from types import TracebackType
from typing import Final

from spark_sink.terminal import plain

QUIET_S: Final = 1.0  # work that is done by then is not worth a line
REDRAW_S: Final = 0.5


class ProgressLine:
    """`with ProgressLine("reading the tables") as line:`; drawn by a thread, since the work may block."""

    def __init__(self, text: str) -> None:
        """`text`: what goes on; `say` changes it."""
        self._text = text
        self._is_over: Final = threading.Event()
        self._drawing: Final = threading.Thread(target=self._draw, daemon=True)
        self._is_shown: Final = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> ProgressLine:
        if self._is_shown:
            self._drawing.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        if self._is_shown:
            self._drawing.join()

    def say(self, text: str) -> None:
        """What goes on now."""
        self._text = text

    def _draw(self) -> None:
        began_at = time.monotonic()
        wait_s = QUIET_S
        is_drawn = False
        while not self._is_over.wait(wait_s):
            line = f"{plain(self._text)} … {time.monotonic() - began_at:.0f} s"
            sys.stderr.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()
            wait_s, is_drawn = REDRAW_S, True
        if is_drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
