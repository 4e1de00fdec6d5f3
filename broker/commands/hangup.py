"""SIGHUP while a broker starts: it ends nobody.

Decides what happens to one that comes before `process.heed_signals`: nothing, since no file was read yet that it could
mean. Imports nothing that takes time, so that whoever starts a broker can heed it before everything else: Python needs
a third of a second for all that a broker is made of.
"""

import signal
from types import FrameType
from typing import Final

HANGUP: Final[signal.Signals | None] = getattr(signal, "SIGHUP", None)  # not on Windows


def outlive_hangups() -> None:
    """From now on SIGHUP does nothing. Not ignored: the processes that this one starts would ignore it, too."""
    if HANGUP is not None:
        signal.signal(HANGUP, _do_nothing)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass
