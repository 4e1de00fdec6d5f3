"""Whether a service can do its work: what the program says, and what its checks find.

    reasons, by their source: {"set_health": "disk full", "check database": "returned False"} ──► out while there is one

Decides when a service is out. Does not tell the broker: see `advertisement`.
"""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from client_sdk.errors import Refused
from client_sdk.mistakes.arguments import takes

MAX_REASON_CHARACTERS: Final = 200  # of those that callers read
_log: Final = logging.getLogger("client_sdk")

Look = Callable[[], Awaitable[object]]


class Check:
    """An async function that is asked again and again whether all is well."""

    def __init__(self, look: Look, every_s: float, timeout_s: float) -> None:
        """TypeError for what is no async function, ValueError for times that make no sense."""
        if not inspect.iscoroutinefunction(look):
            raise TypeError("a health check is an async function: write async def, and return True or False")
        if not takes(look, 0):
            text = f"a health check is given nothing, and this one wants {inspect.signature(look)}"
            raise TypeError(f"{text}: write () in its place")
        if every_s <= 0 or timeout_s <= 0:
            raise ValueError(f"every_s {every_s} and timeout_s {timeout_s} must be more than 0")
        self.look: Final = look
        self.every_s: Final = every_s
        self.timeout_s: Final = timeout_s
        self.name: Final = f"check {getattr(look, '__name__', 'of the service')}"


class Health:
    """Of one service, for all of its connections."""

    def __init__(self, service: str, tell: Callable[[], Awaitable[None]]) -> None:
        """`tell` is called when `is_out` has changed through a check."""
        self._service: Final = service
        self._tell: Final = tell
        # By who gave them: the program by its name, each check by itself, since two functions may have one name.
        self._reasons: Final[dict[str | Check, str]] = {}
        self._watching: list[asyncio.Task[None]] = []  # one for each check while the service is offered
        self.checks: Final[list[Check]] = []
        self._is_begun = False
        self._loop: asyncio.AbstractEventLoop | None = None  # where the checks are asked; set while they are
        self.is_out = False

    @property
    def reason(self) -> str:
        """Why it is out; empty while it is not."""
        return "; ".join(self._reasons.values())

    def set(self, source: str | Check, reason: str | None) -> bool:
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
            self._loop = asyncio.get_running_loop()
            self._watching = [self._watched(check, check.every_s) for check in self.checks]

    async def end(self) -> None:
        """The checks end."""
        self._is_begun = False
        self._loop = None
        watching, self._watching = self._watching, []
        for task in watching:
            task.cancel()
        if watching:
            await asyncio.wait(watching)

    def add(self, check: Check) -> None:
        """Asked from the next `begin` on; at once while the service is offered. From any thread."""
        self.checks.append(check)
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # closed meanwhile: the next `begin` asks it
                loop.call_soon_threadsafe(self._watch_too, check)

    def _watch_too(self, check: Check) -> None:
        if self._loop is not None:
            self._watching.append(self._watched(check, 0.0))

    def _watched(self, check: Check, in_s: float) -> asyncio.Task[None]:
        return asyncio.create_task(self._watch(check, in_s), name=check.name)

    async def _watch(self, check: Check, in_s: float) -> None:
        while True:
            await asyncio.sleep(in_s)
            in_s = check.every_s
            if await self._look(check):
                await self._tell()

    async def _look(self, check: Check) -> bool:
        """Whether `is_out` has changed."""
        reason: str | None = None
        task = asyncio.current_task()
        cancels_n = 0 if task is None else task.cancelling()
        clock = asyncio.timeout(check.timeout_s)
        try:
            async with clock:
                found = await check.look()
                if found is None:
                    reason = f"{check.name} returned nothing: it must return True or False"
                elif not found:
                    reason = f"{check.name} returned False"
        except Refused as error:
            reason = f"{check.name}: {error.message}"
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > cancels_n:
                raise  # we are meant; else something that the check waited for was cancelled
            reason = f"{check.name} failed: {type(error).__name__}"
            if clock.expired():
                reason = f"{check.name} took over {check.timeout_s:g} s"
            elif check not in self._reasons:
                _log.exception("service %s: %s", self._service, reason)
        return self.set(check, reason)
