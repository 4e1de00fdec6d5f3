"""The admin port: how many connections it has, how long one may do nothing, and what is said of what cannot be read.

    accepted ──► asks ──► is answered ──► quiet ──► asks … ──QUIET_S without a whole request──► closed
                              └── reads nothing of its answer for STALLED_S ──► closed
    one too many ──► closed for it is who has been quiet for longest: asks nothing, or its request has not come whole;
                     else who has taken nothing of its answer for longest; it is itself when all are worked for
    one too many of an address ──► the same, among those of that address

Decides that; what is answered is the application's. aiohttp would keep half a request for an hour, as many of them as
there are file descriptors, and writes a traceback for each that it cannot read.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from admin_api.errors import Handler, shown
from broker.edge.descriptors import DESCRIPTORS, Descriptors, Entrance
from broker.edge.origins import peer_address
from broker.limited_log import STRANGERS

STOP_S: Final = 1.0  # for answers in flight when the broker ends; all of them are short
MAX_CONNECTIONS: Final = 128  # readers of event files included, who are many where Spark is a cluster
ADDRESS_PART: Final = 2  # one address has at most such a part of them: a half
QUIET_S: Final = 30.0  # from its beginning, or from an answer, until a request is whole; Prometheus asks every 15 s
STALLED_S: Final = 30.0  # an answer that waits and is not read
LOOK_S: Final = 1.0  # between two looks who does not read
BACKLOG: Final = 128  # connections that the system accepts for us while the loop is busy
CONNECTION: Final = "AdminConnection"  # kinds of lines
REQUEST: Final = "AdminRequest"
BEING_SENT: Final = web.RequestKey("BEING_SENT", bool)  # in a request while its answer is a file that the kernel sends


class Bounds(NamedTuple):
    """How much one port bears."""

    connections_n: int = MAX_CONNECTIONS
    address_part: int = ADDRESS_PART
    quiet_s: float = QUIET_S
    stalled_s: float = STALLED_S
    look_s: float = LOOK_S


@dataclass(slots=True)
class Caller:
    """One connection."""

    address: str
    progress_at: float  # when it last took some of its answer
    request: web.Request | None = None  # the latest one; None before its head has come
    has_handler: bool = False  # a handler has begun with that, and has not ended
    waiting_bytes: int = 0  # of its answer, at the last look

    @property
    def is_worked_for(self) -> bool:
        """Its request is whole, and its answer is being made, or is a file that is being sent.

        Half a body costs nothing to send: who waits for the other half keeps no place from others.
        """
        if self.request is None:
            return False
        if self.has_handler:
            return self.request.content.is_eof()
        return BEING_SENT in self.request

    def look(self, waiting_bytes: int, now: float) -> None:
        """So much of its answer waits now."""
        if not waiting_bytes or waiting_bytes < self.waiting_bytes:
            self.progress_at = now
        self.waiting_bytes = waiting_bytes


class AdminListener:
    """One application at one port."""

    def __init__(self, app: web.Application, bounds: Bounds = Bounds()) -> None:  # noqa: B008 -- immutable
        """`app`: not used yet."""
        self._bounds: Final = bounds
        app.middlewares.insert(0, self._count)
        self._runner: Final = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=STOP_S,
            keepalive_timeout=bounds.quiet_s,
            logger=Unreadable("admin_api.unreadable"),
        )
        self._callers: Final[dict[asyncio.Transport, Caller]] = {}  # the one that came or asked first, first
        self._server: asyncio.Server | None = None  # None until it listens
        self._timer: asyncio.TimerHandle | None = None  # None while nobody looks

    async def listen(self, host: str, port: int) -> int:
        """Begins; the port, which the system chose if `port` is 0. OSError, and nothing is left open."""
        DESCRIPTORS.measure()
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Entrance(self.arrived), host, port, backlog=BACKLOG, reuse_address=True
            )
        except (OSError, asyncio.CancelledError):
            await self._runner.cleanup()
            raise
        self._timer = loop.call_later(self._bounds.look_s, self._look)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def cleanup(self) -> None:
        """Ends: answers in flight may end within STOP_S."""
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    def arrived(self, transport: asyncio.Transport) -> web.RequestHandler | None:
        """A connection was accepted: aiohttp's protocol for it, None when it is one too many."""
        self._forget_gone()
        address = peer_address(transport) or "unix"
        now = asyncio.get_running_loop().time()
        among, limit_n, of_whom = list(self._callers), places_n(self._bounds.connections_n, DESCRIPTORS), ""
        own = [each for each in among if self._callers[each].address == address]
        share_n = -(-limit_n // self._bounds.address_part)  # rounded up
        if share_n <= len(own) and share_n < limit_n:
            among, limit_n, of_whom = own, share_n, " of this address"
        if len(among) >= limit_n:
            text = f"{len(among)} connections{of_whom} are open, the limit is {limit_n}"
            least = self._find_least(among, now)
            if least is None:
                self._say(address, f"closed at once: {text}, and all are being answered")
                return None
            self._say(self._callers.pop(least).address, f"closed for another one: {text}")
            least.abort()
        assert self._runner.server is not None  # `listen` has set it up
        self._callers[transport] = Caller(address, now)
        return self._runner.server()

    def size(self) -> int:
        """Connections that are open."""
        self._forget_gone()
        return len(self._callers)

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        transport = request.transport
        caller = self._callers.pop(transport, None) if transport is not None else None
        if transport is None or caller is None:
            return await handler(request)
        self._callers[transport] = caller  # who has just asked comes last
        caller.request, caller.has_handler = request, True
        try:
            return await handler(request)
        finally:
            caller.has_handler = False

    def _find_least(self, among: list[asyncio.Transport], now: float) -> asyncio.Transport | None:
        """Which of these would lose least when it is closed; None when all are worked for."""
        stalled: list[asyncio.Transport] = []
        for transport in among:
            caller, waiting = self._callers[transport], transport.get_write_buffer_size()
            caller.look(waiting, now)
            if waiting:
                stalled.append(transport)
            elif not caller.is_worked_for:
                return transport
        return min(stalled, key=lambda each: self._callers[each].progress_at, default=None)

    def _look(self) -> None:
        """Closes those that do not read their answers."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._bounds.look_s, self._look)
        self._forget_gone()
        now = loop.time()
        for transport, caller in list(self._callers.items()):
            waiting = transport.get_write_buffer_size()
            caller.look(waiting, now)
            if now - caller.progress_at >= self._bounds.stalled_s:
                text = f"closed: it has {waiting} unread bytes and read none for {self._bounds.stalled_s:g} s"
                self._say(caller.address, text)
                transport.abort()

    def _forget_gone(self) -> None:
        for transport in [each for each in self._callers if each.is_closing()]:
            del self._callers[transport]

    def _say(self, address: str, text: str) -> None:
        STRANGERS.say(f"{CONNECTION} (closed)", address, logging.INFO, f"admin {address}: {text}")


def places_n(most: int, descriptors: Descriptors) -> int:
    """Connections that there may be: only a part of the descriptors that are kept, or files and dials had none."""
    return max(1, min(most, descriptors.admin_n))


class Unreadable(logging.Logger):
    """Where aiohttp says what it could not read, or answer: one line of ours, and a traceback only for our mistakes."""

    def debug(self, msg: object, *args: object, **more: Any) -> None:
        if more.get("exc_info") is not None:  # what is no HTTP at all; the rest is chatter
            self.exception(msg, *args, **more)

    def exception(self, msg: object, *args: object, exc_info: Any = None, **more: Any) -> None:
        address = str(args[0]) if args else "somebody"
        if isinstance(exc_info, HttpProcessingError | web.RequestPayloadError):
            what = shown(" ".join(str(getattr(exc_info, "message", exc_info)).split()))
            if "HTTPS traffic" in what:
                what = "it is TLS, this port speaks http: write http:// in its URL"
            self._say("unreadable", address, f"a request cannot be read: {what}")
        elif isinstance(exc_info, ConnectionError):
            self._say("broken off", address, "a request was broken off")
        elif STRANGERS.admits(f"{REQUEST} (failed)", address, logging.ERROR):
            _log.error("admin %s: a request could not be answered", address, exc_info=exc_info)

    def _say(self, kind: str, address: str, text: str) -> None:
        STRANGERS.say(f"{REQUEST} ({kind})", address, logging.INFO, f"admin {address}: {text}")


_log: Final = logging.getLogger(__name__)
