"""Logins that wait for a verifier: addresses take turns, and one from which guesses come has to wait.

    login ──► the line of its origin ──► the first of each line in turn ──► at most `at_once_n` ──► verifier
                        │  ▲
                        ▼  │ HOLD_S later, or when one of it is done
                        held: its guesses have used up what an address may try (`attempts`)

Decides whose credentials are verified next. A flood from one address fills its own line: when no place is left, the
newest of the longest line is sent away, so that an address has all places only while nobody else wants them. Logins
that were right before stand in a line of their own, which is never held.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from broker.edge.admission.attempts import Attempts
from broker.edge.admission.verdicts import NotAccepted, Unavailable, Verified, Verifier
from broker.edge.link import Loop
from rsocket_wire.wire.authentication import Credentials

BEGIN_N: Final = 16  # begun in one turn of the event loop: with tokens each takes 0.2 ms of it
HOLD_S: Final = 0.05  # after which it is looked again whether a line may go on


class _Login:
    """One that waits for its turn, or has it."""

    def __init__(self, origin: str, key: bytes, was_right: bool, turn: asyncio.Future[None]) -> None:
        self.origin: Final = origin
        self.key: Final = key  # see `Attempts.key_of`
        self.was_right = was_right
        self.turn: Final = turn

    @property
    def line(self) -> tuple[str, bool]:
        """Where it waits."""
        return self.origin, self.was_right


_Line = OrderedDict[_Login, None]  # the oldest first


class LoginQueue:
    """Of one verifier."""

    def __init__(self, verifier: Verifier, attempts: Attempts, loop: Loop | None = None) -> None:
        """`loop`: None is the running one."""
        self._verifier: Final = verifier
        self._attempts: Final = attempts
        self._loop: Final[Loop] = asyncio.get_running_loop() if loop is None else loop
        self._lines: Final[OrderedDict[tuple[str, bool], _Line]] = OrderedDict()  # none is empty; whose turn is first
        self._held: Final[dict[tuple[str, bool], _Line]] = {}  # none is empty
        self._waiting_n = 0
        self._verified_n = 0  # that are being verified
        self._tried: Final[dict[str, int]] = {}  # of them, by origin, those that were not right before
        self._is_due = False  # it is looked soon who is next
        self._timer: asyncio.TimerHandle | None = None  # None: no line is held

    async def verify(self, origin: str, credentials: Credentials) -> Verified:
        """Whose they are; NotAccepted, Unavailable."""
        key = self._attempts.key_of(origin, credentials)
        login = _Login(origin, key, self._attempts.was_right(key), asyncio.get_running_loop().create_future())
        await self._wait(login)
        try:
            verified = await self._verifier.verify(credentials)
        except NotAccepted as error:
            if error.is_guess:
                self._attempts.came_wrong(origin, key, self._loop.time())
            raise
        else:
            self._attempts.came_right(key)
            return verified
        finally:
            self._leave(login)

    def stop(self) -> None:
        """Looks at held lines no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _wait(self, login: _Login) -> None:
        """Until it has its turn; Unavailable."""
        if self._waiting_n >= self._verifier.max_waiting:
            self._send_away_for(login)
        self._enter(login)
        self._look_soon()
        try:
            await login.turn
        except asyncio.CancelledError:
            if login.turn.cancelled():
                self._remove(login)
            elif login.turn.exception() is None:
                self._leave(login)
            raise

    def _send_away_for(self, login: _Login) -> None:
        """Makes a place for it; Unavailable when its own line is one of the longest."""
        lines = {**self._lines, **self._held}
        own_n = len(lines.get(login.line, ()))
        longest = max(lines.values(), key=len)
        error = Unavailable(f"{self._waiting_n} logins wait, {max(own_n, len(longest))} of one address")
        if own_n >= len(longest):
            raise error
        newest = next(reversed(longest))
        self._remove(newest)
        if not newest.turn.done():
            newest.turn.set_exception(error)

    def _enter(self, login: _Login) -> None:
        line = self._held.get(login.line)
        if line is None:
            line = self._lines.setdefault(login.line, OrderedDict())
        line[login] = None
        self._waiting_n += 1

    def _remove(self, login: _Login) -> None:
        for lines in (self._lines, self._held):
            line = lines.get(login.line)
            if line is not None and login in line:
                del line[login]
                self._waiting_n -= 1
                if not line:
                    del lines[login.line]

    def _leave(self, login: _Login) -> None:
        """Its credentials were verified, or are not to be any more."""
        self._verified_n -= 1
        if not login.was_right:
            self._tried[login.origin] -= 1
            if not self._tried[login.origin]:
                del self._tried[login.origin]
            line = self._held.pop(login.line, None)
            if line is not None:
                self._lines[login.line] = line
        self._look_soon()

    def _look_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Gives turns to those who are next."""
        self._is_due = False
        begun_n = 0
        while self._lines and self._verified_n < self._verifier.at_once_n:
            if begun_n == BEGIN_N:
                self._look_soon()
                break
            key, line = self._lines.popitem(last=False)
            begun_n += self._begin_first(key, line)
        if self._held and self._timer is None:
            self._timer = self._loop.call_at(self._loop.time() + HOLD_S, self._release)

    def _begin_first(self, key: tuple[str, bool], line: _Line) -> bool:
        """Gives a turn to the first of a line, and puts the others behind the other lines, or holds them."""
        login = next(iter(line))
        tried_n = self._tried.get(login.origin, 0)
        is_right = login.was_right and self._attempts.was_right(login.key)
        if not login.was_right and not self._attempts.may_try(login.origin, tried_n, self._loop.time()):
            self._held[key] = line
            return False
        del line[login]
        self._waiting_n -= 1
        if line:
            self._lines[key] = line
        if login.turn.done():  # cancelled, and its task does not know it yet
            return False
        if login.was_right and not is_right:
            login.was_right = False  # somebody has guessed at it meanwhile
            self._enter(login)
            return False
        if not is_right:
            self._tried[login.origin] = tried_n + 1
        self._verified_n += 1
        login.turn.set_result(None)
        return True

    def _release(self) -> None:
        self._timer = None
        self._lines.update(self._held)
        self._held.clear()
        self._look()
