"""Signals while a command starts: SIGHUP ends no broker, and Ctrl-C ends a command at once.

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


class AtOnce:
    """`with AtOnce():` modules are imported; meanwhile Ctrl-C ends the process as it ends one of C. Python swallows an
    interruption in the middle of an import, or prints what it has interrupted, and may wait for a lock for ever."""

    def __init__(self) -> None:
        self._is_set = False

    def __enter__(self) -> None:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            try:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            except ValueError:  # a thread, which gets no signals
                return
            self._is_set = True

    def __exit__(self, *_: object) -> None:
        if self._is_set:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass
