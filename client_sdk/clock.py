"""Time, as a parameter: the event loop's in programs, the test's own in tests."""

import asyncio


class Clock:
    """The running event loop's time. A base for tests that turn the hands themselves."""

    def now(self) -> float:
        """Seconds, monotonic."""
        return asyncio.get_running_loop().time()

    async def sleep(self, delay_s: float) -> None:
        """Returns when so many seconds are over."""
        await asyncio.sleep(delay_s)
