"""A clock whose hands the test turns."""

import asyncio

from client_sdk.clock import Clock


class FakeClock(Clock):
    def __init__(self) -> None:
        self.at = 1000.0
        self.slept: list[float] = []  # every sleep that was asked for
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self.at

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self.at + delay_s, future))
        await future

    async def turn(self, seconds: float) -> None:
        """So much time passes; who slept no longer than that runs."""
        self.at += seconds
        waiting, self._waiting = self._waiting, []
        for end_at, future in waiting:
            if end_at > self.at:
                self._waiting.append((end_at, future))
            elif not future.done():
                future.set_result(None)
        await rest()


async def rest() -> None:
    """Until everybody has done what can be done at once."""
    for _ in range(10):
        await asyncio.sleep(0)
