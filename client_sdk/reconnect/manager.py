"""Keeps one connection to a broker: a new one when the old one is lost, or when its broker is about to leave.

    connected ── the connection ends ──► reconnecting ── SETUP accepted ──► connected
      │ ▲  └── close(), or "replaced" ───────┴──► closed (for ever)
      ▼ └──────────────────────────────────────────────────────┐
    moving: the broker is about to stop ── SETUP accepted elsewhere; the old connection is retired: what runs on it ends

Decides when to reconnect and to move. Does not know calls; connections are `engine`'s, where to `brokers`'.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from client_sdk.clock import Clock
from client_sdk.errors import (
    ClientError,
    ConnectionLost,
    DeadlineExceeded,
    Denied,
    NotConnected,
    Revoked,
    Unauthenticated,
)
from client_sdk.io.connection import Connection
from client_sdk.reconnect.backoff import Backoff
from client_sdk.reconnect.brokers import Brokers
from client_sdk.reconnect.outage import Outage
from client_sdk.reconnect.state import Change, State, StateBroadcaster
from rsocket_wire.wire.ids import id_text

RESUME_TRIES: Final = 6  # over some seconds; then the session is given up, and a connection made anew
# Why haste mends nothing: the broker knows who that is, or does not want to.
REFUSED_WORDS: Final = tuple(kind.default_word for kind in (Unauthenticated, Denied, Revoked))
REFUSED_DELAY_S: Final = 30.0  # at most, half of it at least, between attempts with credentials that were refused
MAX_RETIRED: Final = 4  # connections to brokers that it has left; beyond, the oldest is closed whatever runs on it
_log: Final = logging.getLogger("client_sdk")


class ConnectionManager:
    """One client's connections, one after the other."""

    def __init__(self, brokers: Brokers, route_id: bytes, service: str | None, backoff: Backoff, clock: Clock) -> None:
        """`service`: the name of the one that it offers; None: a caller only."""
        self.brokers: Final = brokers
        self.route_id: Final = id_text(route_id)
        self._name: Final = f"caller {self.route_id}" if service is None else f"service {service}, {self.route_id}"
        self.states: Final = StateBroadcaster()
        self.connection: Connection | None = None  # None while there is none; it may have ended, see its `reason`
        self._backoff: Final = backoff
        self._clock: Final = clock
        self._retired: Final[deque[Connection]] = deque()  # earlier ones on which something may run, oldest first
        self._reason: ClientError | None = None  # why there is none; None before the first
        self._is_closing = False
        self._closed: Final = asyncio.Event()
        self._task: asyncio.Task[None] | None = None  # None until the first connection

    async def start(self) -> None:
        """The first connection; raises SetupRejected or NotConnected."""
        self._use(await self.brokers.dial())
        _log.info("%s: connected to %s", self._name, self.brokers.url)
        self._task = asyncio.create_task(self._keep_connected(), name="rsocket client")

    async def closed(self) -> None:
        """Returns when there will be no connection any more."""
        await self._closed.wait()

    async def close(self, farewell: Callable[[], Awaitable[None]] | None = None) -> None:
        """Ends all connections, for ever; `farewell` is awaited when there will be no other one."""
        self._is_closing = True
        try:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])
            if self.brokers.renewal is not None:
                await self.brokers.renewal.close()
            if farewell is not None:
                await farewell()
            for connection in [self.connection, *self._retired]:
                if connection is not None:
                    await connection.close()
        finally:
            for connection in [self.connection, *self._retired]:
                if connection is not None:
                    connection.give_up("this client was closed")  # it is still there when this was cut short
            self._end()

    def connected(self) -> Connection:
        """The connection for what is new; NotConnected when there is none."""
        connection = self.connection
        if connection is None or connection.reason is not None:
            raise self.loss()
        return connection

    @property
    def is_connected(self) -> bool:
        """Requests can be made."""
        connection = self.connection
        return connection is not None and connection.reason is None

    @property
    def reason(self) -> ClientError | None:
        """Why there is no connection, or why the last attempt to make one failed; None while there is one."""
        if self.connection is not None:
            return self.connection.reason
        return self._reason

    @property
    def is_open(self) -> bool:
        """There was a connection, and nobody has ended it for ever."""
        return self._task is not None and not self.is_over

    @property
    def is_over(self) -> bool:
        """There will be no connection any more."""
        return self._is_closing or self._closed.is_set()

    async def wait_connected(self, timeout_s: float | None) -> Connection:
        """The connection, when there is one. DeadlineExceeded after `timeout_s`; NotConnected when closed for ever."""
        try:
            async with asyncio.timeout(timeout_s):
                async for _ in self.states.listen():
                    if self.is_connected or self.is_over:
                        break
        except TimeoutError:
            text = f"no connection within {timeout_s:g} s; the last attempt: {self._reason}"
            raise DeadlineExceeded(text) from None
        return self.connected()

    async def wait_for(self, wanted: set[State], timeout_s: float | None) -> Change:
        """The present state, or the next change, that is one of these; DeadlineExceeded, NotConnected as above."""
        change = self.states.current
        try:
            async with asyncio.timeout(timeout_s):
                async for change in self.states.listen():
                    if change.state in wanted:
                        return change
        except TimeoutError:
            names = " or ".join(sorted(wanted))
            raise DeadlineExceeded(f"the client was not {names} within {timeout_s:g} s, it is {change.state}") from None
        raise self.loss()

    def loss(self) -> NotConnected:
        """Why there is no connection."""
        reason = self._reason if self.connection is None else self.connection.reason
        if self._is_closing or reason is None:
            return NotConnected("this client was closed", word="closed")
        says_how = isinstance(reason, NotConnected) and reason.says_how
        text = f"not connected: {reason.text}"
        lost = NotConnected(text, word=reason.word, code=reason.code, says_how=says_how)
        lost.was_connected = True
        return lost

    def _use(self, connection: Connection) -> None:
        self.connection = connection
        self._show(State.CONNECTED)

    def _show(self, state: State, reason: ClientError | None = None) -> None:
        self.states.publish(Change(state, self.brokers.url, reason))

    def _end(self) -> None:
        if self.brokers.renewal is not None:
            self.brokers.renewal.stop()
        self._closed.set()
        self._show(State.CLOSED, None if self._is_closing else self._reason)

    async def _keep_connected(self) -> None:
        while True:
            connection = self.connection
            assert connection is not None  # `start`, and the end of this loop
            try:
                if await self._stay(connection):
                    continue
            except Exception as error:  # whatever it is, the client comes back
                _log.error("%s: the connection is given up", self._name, exc_info=error)
                connection = self.connection or connection
                connection.give_up(f"{type(error).__name__}: {error}")
                await connection.ended.wait()
            self._reason = reason = connection.reason or ConnectionLost("the connection ended")
            self.connection = None
            if reason.word == "replaced" and not connection.has_rival:
                # Two clients with one Route Id would replace each other for ever.
                break
            self._show(State.RECONNECTING, reason)
            lost = f"connection to {self.brokers.url} lost: {reason.word}: {reason.text}"
            _log.info("%s: %s", self._name, lost)
            await self._reconnect()
        self._end()

    async def _stay(self, connection: Connection) -> bool:
        """Until the connection has ended, or the client has moved: then True."""
        while not connection.ended.is_set():
            await connection.changed.wait()
            connection.changed.clear()
            if connection.is_suspended:
                await self._resume(connection)
            if connection.is_told_to_move and await self._move(connection):
                return True
            if connection.reason is not None:
                # What runs may end; nothing new may begin.
                if connection.reason.word != "replaced" or connection.has_rival:
                    self._show(State.RECONNECTING, connection.reason)
                await connection.ended.wait()
        return False

    async def _resume(self, connection: Connection) -> None:
        """The session goes on over another wire, or ends; calls wait meanwhile."""
        self._show(State.RECONNECTING, ConnectionLost("the connection broke, its session waits to be resumed"))
        for _ in range(RESUME_TRIES):
            await self._clock.sleep(self._backoff.next_s())
            if not connection.is_suspended:
                return  # its time is over
            try:
                await self.brokers.resume(connection)
            except ClientError as error:
                _log.info("%s: cannot resume: %s: %s", self._name, error.word, error.text)
                if error.word == "connect-failed":
                    break  # the broker is gone, and its sessions are
            else:
                self._backoff.reset()
                self._show(State.CONNECTED)
                _log.info("%s: resumed", self._name)
                return
        if connection.is_suspended:
            connection.give_up("its session could not be resumed")

    async def _move(self, connection: Connection) -> bool:
        """To a broker that the present one names, as long as that one asks for it and is there; whether it went."""
        assert connection.notice is not None  # it has asked
        self._show(State.MOVING)
        await _wait_for_turn(connection, self._backoff.part_s(connection.notice.move_within_ms / 1000))
        while True:
            if connection.is_suspended:
                await self._resume(connection)  # what runs on it may end there
                if connection.reason is None:
                    self._show(State.MOVING)
            reason = connection.reason
            is_replaced = reason is not None and reason.word == "replaced" and not connection.has_rival
            if not connection.is_told_to_move or is_replaced or connection.ended.is_set():
                if reason is None:
                    self._show(State.CONNECTED)  # it stays after all
                return False
            connection.has_rival = True
            try:
                successor = await self.brokers.dial_elsewhere()
            except ClientError as error:
                _log.info("%s: cannot move yet: %s: %s", self._name, error.word, error.text)
                await self._clock.sleep(self._backoff.next_s())
            else:
                break
        self._backoff.reset()
        self._use(successor)
        _log.info("%s: moved to %s", self._name, self.brokers.url)
        await self._retire(connection)
        return True

    async def _retire(self, connection: Connection) -> None:
        """What runs on it ends there."""
        connection.retire()
        running = [each for each in self._retired if not each.ended.is_set()]
        self._retired.clear()
        self._retired.extend([*running, connection])
        if len(self._retired) > MAX_RETIRED:
            await self._retired.popleft().close()

    def _delay_s(self) -> float:
        """Until the next attempt; long where haste mends nothing: credentials are refused, or a role."""
        if self._reason is not None and self._reason.word in REFUSED_WORDS:
            return REFUSED_DELAY_S / 2 + self._backoff.part_s(REFUSED_DELAY_S / 2)
        return self._backoff.next_s()

    async def _reconnect(self) -> None:
        outage = Outage(f"{self._name}: cannot reconnect", self._clock)
        while True:
            await self._clock.sleep(self._delay_s())
            try:
                self._use(await self.brokers.dial())
            except Exception as failure:
                error = failure if isinstance(failure, ClientError) else _unforeseen(failure)
                outage.failed(error)
                if isinstance(error, NotConnected):
                    error.was_connected = True
                self._reason = error
            else:
                self._backoff.reset()
                outage.ended(f"{self._name}: connected again to {self.brokers.url}")
                return


def _unforeseen(error: Exception) -> NotConnected:
    """Of a resolver, an SSL context, a library: it is tried again like any other failure."""
    return NotConnected(f"{type(error).__name__}: {error}", word="connect-failed")


async def _wait_for_turn(connection: Connection, delay_s: float) -> None:
    """Until the delay is over, the connection has broken or is about to end, or nobody is asked to move any more."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(delay_s):
            while connection.reason is None and connection.is_told_to_move and not connection.is_suspended:
                await connection.changed.wait()
                connection.changed.clear()
