"""SIGHUP while a broker starts: it ends nobody, and is told once there is a log.

Decides what happens to one that comes before `process.heed_signals`. Imports nothing that takes time, so that whoever
starts a broker can heed it before everything else: Python needs a third of a second for all that a broker is made of.
"""

import signal
from types import FrameType
from typing import Final


class Hangups:
    """Those that this process got before it had a loop."""

    def __init__(self) -> None:
        self.early_n = 0

    def heed(self) -> None:
        """From now on SIGHUP is counted. Not ignored: the processes that this one starts would ignore it, too."""
        signal.signal(signal.SIGHUP, self._count)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.early_n += 1


HANGUPS: Final = Hangups()  # of this process
