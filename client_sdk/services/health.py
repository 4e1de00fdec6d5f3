"""Whether a service can do its work: what the program says, and what its checks find.

    reasons, by who gave them: {"set_health": "disk full", "check database": "says no"} ──► out while there is one

Decides when a service is out. Who then tells the broker is `offer`'s matter.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from client_sdk.errors import Refused

MAX_REASON_CHARACTERS: Final = 200  # of those that callers read
_log: Final = logging.getLogger("client_sdk")

Look = Callable[[], Awaitable[object]]


class Check:
    """An async function that is asked again and again whether all is well."""

    __slots__ = ("every_s", "look", "name", "timeout_s")

    def __init__(self, look: Look, every_s: float, timeout_s: float) -> None:
        """TypeError for what is no async function, ValueError for times that make no sense."""
        if not inspect.iscoroutinefunction(look):
            raise TypeError("a health check is an async function that returns True or False")
        if every_s <= 0 or timeout_s <= 0:
            raise ValueError(f"every_s {every_s} and timeout_s {timeout_s} must be more than 0")
        self.look: Final = look
        self.every_s: Final = every_s
        self.timeout_s: Final = timeout_s
        self.name: Final = f"check {getattr(look, '__name__', 'of the service')}"


class Health:
    """Of one service, for all of its connections."""

    __slots__ = ("_is_begun", "_reasons", "_service", "_tell", "_watching", "checks", "is_out")

    def __init__(self, service: str, tell: Callable[[], Awaitable[None]]) -> None:
        """`tell` is called when `is_out` has changed through a check."""
        self._service: Final = service
        self._tell: Final = tell
        self._reasons: Final[dict[str, str]] = {}  # one at most for each check, and one of the program
        self._watching: list[asyncio.Task[None]] = []  # one for each check while the service is offered
        self.checks: Final[list[Check]] = []
        self._is_begun = False
        self.is_out = False

    @property
    def reason(self) -> str:
        """Why it is out; empty while it is not."""
        return "; ".join(self._reasons.values())

    def set(self, source: str, reason: str | None) -> bool:
        """What `source` has to say against the service, None: nothing. Whether `is_out` has changed by it."""
        if reason is None:
            self._reasons.pop(source, None)
        else:
            self._reasons[source] = reason[:MAX_REASON_CHARACTERS]
        was_out, self.is_out = self.is_out, bool(self._reasons)
        if was_out != self.is_out:
            if self.is_out:
                _log.warning("service %s: out of service: %s", self._service, self.reason)
            else:
                _log.info("service %s: in service again", self._service)
        return was_out != self.is_out

    async def begin(self) -> None:
        """Looks once with every check, then goes on looking until `end`; nothing when it has begun."""
        if self._is_begun:
            return
        self._is_begun = True
        try:
            changes = await asyncio.gather(*(self._look(check) for check in self.checks))
            if any(changes):
                await self._tell()  # whoever came meanwhile
        except BaseException:
            self._is_begun = False
            raise
        if self._is_begun:
            self._watching = [asyncio.create_task(self._watch(check), name=check.name) for check in self.checks]

    async def end(self) -> None:
        """The checks end."""
        self._is_begun = False
        watching, self._watching = self._watching, []
        for task in watching:
            task.cancel()
        if watching:
            await asyncio.wait(watching)

    async def _watch(self, check: Check) -> None:
        while True:
            await asyncio.sleep(check.every_s)
            if await self._look(check):
                await self._tell()

    async def _look(self, check: Check) -> bool:
        """Whether `is_out` has changed."""
        reason: str | None = None
        try:
            async with asyncio.timeout(check.timeout_s):
                if not await check.look():
                    reason = f"{check.name} says no"
        except TimeoutError:
            reason = f"{check.name} took over {check.timeout_s:g} s"
        except Refused as error:
            reason = f"{check.name}: {error.message}"
        except Exception as error:
            reason = f"{check.name} failed: {type(error).__name__}"
            if check.name not in self._reasons:
                _log.exception("service %s: %s", self._service, reason)
        return self.set(check.name, reason)
