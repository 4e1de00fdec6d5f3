"""Dials other brokers: the core says which URLs and when, this says how it went.

Decides nothing about brokers. A name that has to be looked up is asked for its addresses every LOOKUP_EVERY_S, and
sooner when all of them have failed: who stood behind it may have moved. What has failed for PATIENCE_S is logged once,
and again when it fails for another reason: it is tried about once a second.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from broker.config.urls import PeerUrl
from broker.edge.origins import address_of
from broker.edge.resolver import Resolver, look_up
from broker.edge.shell import Shell
from broker.edge.tcp import TcpLink
from broker.edge.websocket import DialledUpgrade
from rsocket_wire.errors import BrokerError

DIAL_EVERY_S: Final = 0.05  # how often the core is asked whom to dial
CONNECT_S: Final = 2.0  # to become a connection, TLS included
LOOKUP_EVERY_S: Final = 30.0  # how long what a name stood for is believed
RETRY_S: Final = 1.0  # between two lookups of one name, at least
MAX_DIALS: Final = 256  # at one time; one more has failed: other brokers say how many there are
PATIENCE_S: Final = 2.0  # of failures that are not logged: brokers that are started together find each other sooner
MAX_SAID: Final = 1000  # URLs that fail, for the log; at one more all are forgotten, and said again

_log: Final = logging.getLogger(__name__)


class Bounds(NamedTuple):
    """How patient a dialer is, and with how many."""

    dial_every_s: float = DIAL_EVERY_S
    connect_s: float = CONNECT_S
    retry_s: float = RETRY_S
    dials_n: int = MAX_DIALS
    patience_s: float = PATIENCE_S
    said_n: int = MAX_SAID


class Dials(Protocol):
    """What the dialer needs of the core's cluster."""

    def take_dials(self, now: float, /) -> list[str]:
        """URLs to dial now."""

    def dial_failed(self, url: str, text: str, now: float, /) -> None:
        """Nobody could be reached there."""

    def set_targets(self, source: str, urls: list[str], /) -> None:
        """What a name stands for now."""

    def know(self, address: str, /) -> None:
        """Brokers are there."""


class Source:
    """A name that stands for brokers."""

    def __init__(self, place: PeerUrl) -> None:
        self.place = place
        self.names: dict[str, str] = {}  # what it stands for: URL -> whose certificate must be there
        self.failed: set[str] = set()  # those that could not be reached since the last lookup
        self.attempts = 0  # lookups in a row that found nothing
        self.error = ""  # of the latest of them
        self.looked_at = 0.0  # when the latest lookup began, seconds, monotonic
        self.due_at = 0.0  # of the next one
        self.task: asyncio.Task[None] | None = None  # the lookup; None: none is under way


class Dialer:
    """Started when the shell is, stopped before it."""

    def __init__(
        self,
        shell: Shell,
        dials: Dials,
        sources: Sequence[PeerUrl] = (),
        context: ssl.SSLContext | None = None,
        resolver: Resolver | None = None,
        bounds: Bounds = Bounds(),  # noqa: B008 -- immutable
    ) -> None:
        """`sources`: names to look up. `context`: for tls and wss; None trusts whom the system trusts."""
        self.bounds = bounds
        self._shell = shell
        self._dials = dials
        self._sources = [Source(place) for place in sources]
        self.context = context if context is not None else ssl.create_default_context()  # of dials from now on
        self._resolver = resolver if resolver is not None else Resolver()
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by URL; bounded by MAX_DIALS
        # Of a URL that fails: since when, and what was logged of it; bounded by MAX_SAID.
        self._said: dict[str, tuple[float, str]] = {}
        self._timer: asyncio.TimerHandle | None = None  # None before `start` and after `stop`

    def start(self) -> None:
        """Begins to dial."""
        self._look()

    async def stop(self) -> None:
        """Dials no more, and gives up what is under way; connections that are there stay."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lookups = [source.task for source in self._sources if source.task is not None]
        tasks = [*self._tasks.values(), *lookups]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def failed_lookups(self) -> list[Source]:
        """Returns names for which nothing was found the last time."""
        return [source for source in self._sources if source.attempts]

    def _look(self) -> None:
        """Looks names up that are due, and dials whom the core wants to be dialled."""
        loop = asyncio.get_running_loop()
        now = time.monotonic()
        for source in self._sources:
            if source.task is None and source.due_at <= now:
                source.task = loop.create_task(self._look_up(source))
        for url in self._dials.take_dials(now):
            if len(self._tasks) >= self.bounds.dials_n or url in self._tasks:
                self._fail(url, f"{len(self._tasks)} URLs are being dialled already")
            else:
                self._tasks[url] = loop.create_task(self._dial(url))
        self._timer = loop.call_later(self.bounds.dial_every_s, self._look)

    async def _dial(self, url: str) -> None:
        try:
            async with asyncio.timeout(self.bounds.connect_s):
                await self._connect(url)
            self._said.pop(url, None)
        except TimeoutError:
            self._fail(url, f"no connection within {self.bounds.connect_s:g} s")
        except BrokerError as error:
            self._fail(url, error.text)
        except (OSError, ValueError) as error:  # ValueError: a host that is no name
            self._fail(url, _reason(error))
        finally:
            del self._tasks[url]

    async def _connect(self, url: str) -> None:
        """Returns when the shell has it."""
        place = PeerUrl.parse(url)
        if place.finder:
            raise BrokerError("bad-config", f"{url} needs a DNS lookup, which only cluster.peers supports")
        self._dials.know(address_of(place.host))  # whether it can be reached or not; a name is none, and harmless
        loop = asyncio.get_running_loop()
        context = self.context if place.is_tls else None
        if place.scheme in ("ws", "wss"):
            dialled = DialledUpgrade(self._shell, url)
            name = place.host if context is not None else None
            await loop.create_connection(lambda: dialled, place.host, place.port, ssl=context, server_hostname=name)
            await dialled.opened()
            return
        link = TcpLink(self._shell, place.scheme, url)
        try:
            if place.scheme == "unix":
                await loop.create_unix_connection(lambda: link, place.path)
                return
            name = self._name_of(url, place.host) if context is not None else None
            await loop.create_connection(lambda: link, place.host, place.port, ssl=context, server_hostname=name)
        except BaseException:
            link.give_up()
            raise

    def _fail(self, url: str, text: str) -> None:
        now = time.monotonic()
        self._say(url, text)
        self._dials.dial_failed(url, text, now)
        self._shell.wake()
        for source in self._sources:
            if url in source.names:
                source.failed.add(url)
                if len(source.failed) == len(source.names):
                    source.due_at = min(source.due_at, source.looked_at + self.bounds.retry_s)

    async def _look_up(self, source: Source) -> None:
        now = time.monotonic()
        source.looked_at = now
        source.failed.clear()
        found: dict[str, str] = {}  # none: what it stood for until now stays
        error = "the name has no address"
        try:
            found = await look_up(source.place, self._resolver)
        except TimeoutError:
            error = "no answer in time"
        except (OSError, ValueError) as raised:  # ValueError: what is no name
            error = _reason(raised)
        finally:
            source.task = None
        if not found:
            source.attempts += 1
            source.error = error
            self._say(str(source.place), error)
        else:
            source.attempts = 0
            self._said.pop(str(source.place), None)
            source.names = found
            self._dials.set_targets(str(source.place), list(found))
        source.due_at = now + (LOOKUP_EVERY_S if found else self.bounds.retry_s)

    def _say(self, url: str, text: str) -> None:
        """Logs it, unless it has only begun to fail or that was the last word on it."""
        now = time.monotonic()
        since_at, said = self._said.get(url, (now, ""))
        if url not in self._said and len(self._said) >= self.bounds.said_n:
            self._said.clear()
        if now - since_at >= self.bounds.patience_s and said != text:
            _log.warning("broker at %s: cannot be reached: %s", url, text)
            said = text
        self._said[url] = since_at, said

    def _name_of(self, url: str, host: str) -> str:
        """Returns whose certificate must be shown: the name that led there, or the host of the URL."""
        return next((source.names[url] for source in self._sources if url in source.names), host)


def _reason(error: Exception) -> str:
    if isinstance(error, socket.gaierror):  # its number is none of the system's
        return (error.strerror or "the name is unknown").lower()
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
