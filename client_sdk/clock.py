"""Event loops, and their time as a parameter: the event loop's in programs, the test's own in tests."""

import asyncio
from collections.abc import Callable


class Clock:
    """The running event loop's time. A base for tests that turn the hands themselves."""

    def now(self) -> float:
        """Seconds, monotonic."""
        return asyncio.get_running_loop().time()

    async def sleep(self, delay_s: float) -> None:
        """Returns when so many seconds are over."""
        await asyncio.sleep(delay_s)


def find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes loops of uvloop, which is not on every system; None: asyncio's are to be used."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def is_in_loop() -> bool:
    """This thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
