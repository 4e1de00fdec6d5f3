"""Tells of a handler that blocks its event loop, by its name and while it does: one watch for each event loop.

    event loop ── every half a second ──► beat ──► a thread: none for BLOCKED_S? ──► who stands in the loop's thread

Says nothing where no handler stands there: then the machine is busy, or the program blocks its loop by itself.
"""

import asyncio
import logging
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Final

from client_sdk.services.service import Service

BLOCKED_S: Final = 1.0
BEAT_S: Final = 0.5  # between two looks, and two signs of life of the loop
_log: Final = logging.getLogger("client_sdk")
_watches: Final[dict[asyncio.AbstractEventLoop, "LoopWatch"]] = {}  # those of loops in which a service is offered


class LoopWatch:
    """One event loop, and the services that are offered in it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the loop."""
        self._loop: Final = loop
        self._thread_id: Final = threading.get_ident()
        self._services: Final[list[Service]] = []  # one for each client that offers it
        self._beat_at = time.monotonic()
        self._beating: asyncio.TimerHandle | None = None  # None unless it is watched
        self._stop: threading.Event | None = None  # likewise
        self._is_told = False  # of the present block

    def enter(self, service: Service) -> None:
        """It is offered here."""
        self._services.append(service)
        if self._stop is None:
            self._stop = threading.Event()
            self._beat()
            threading.Thread(target=self._watch, args=[self._stop], name="rsocket watch", daemon=True).start()

    def leave(self, service: Service) -> None:
        """A client offers it no more; the last one ends the watch."""
        self._services.remove(service)
        if not self._services and self._stop is not None and self._beating is not None:
            self._stop.set()
            self._stop = None
            self._beating.cancel()
            _watches.pop(self._loop, None)

    def look(self, now: float) -> None:
        """In any thread: says who blocks the loop, once for each block. `now`: seconds, monotonic."""
        blocked_s = now - self._beat_at - BEAT_S
        if blocked_s < BLOCKED_S:
            self._is_told = False
        elif not self._is_told:
            found = self._find(sys._current_frames().get(self._thread_id))
            if found:
                self._is_told = True
                mend = "write `def` in place of `async def`, which runs in a thread, or await asyncio.to_thread(...)"
                text = "%s has blocked the event loop for %.1f s, and all other requests and keepalives wait: %s"
                _log.warning(text, found, blocked_s, mend)

    def _find(self, frame: FrameType | None) -> str:
        """The handler that stands on this stack, and the line at which it does; empty when none does."""
        names: dict[CodeType, str] = {}
        for service in self._services:
            for routes in service.routes.values():
                names |= routes.codes()
        while frame is not None:
            name = names.get(frame.f_code)
            if name is not None:
                return f"{name} ({frame.f_code.co_filename}:{frame.f_lineno})"
            frame = frame.f_back
        return ""

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
        self._beating = self._loop.call_later(BEAT_S, self._beat)

    def _watch(self, stop: threading.Event) -> None:
        while not stop.wait(BEAT_S):
            self.look(time.monotonic())


def watch_of(loop: asyncio.AbstractEventLoop) -> LoopWatch:
    """The watch of the running loop."""
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = LoopWatch(loop)
    return watch
