"""How a broker process is: what its REST status says, how fast it says so, and what it holds of the system."""

import asyncio
import os
import time
from pathlib import Path
from types import TracebackType

from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import POLL_S, WAIT_S

COUNTED = ("connections", "routes", "services", "tags", "streams")
ASK_S = 0.05  # between two questions


class Vitals:
    """Asks a broker that was started with `--admin` all the time, within `async with`."""

    def __init__(self, broker: BrokerProcess) -> None:
        assert broker.admin_url
        self.answers = 0
        self.slowest_s = 0.0
        self._broker = broker
        self._pid = broker.pid
        self._watching: asyncio.Task[None] | None = None  # None outside of `async with`

    async def __aenter__(self) -> "Vitals":
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._watching is not None
        self._watching.cancel()
        (result,) = await asyncio.gather(self._watching, return_exceptions=True)
        if error is None and not isinstance(result, asyncio.CancelledError):
            raise AssertionError(f"the broker's status was answered {self.answers} times, then: {result!r}")

    async def counts(self) -> dict[str, int]:
        """The numbers that come and go with peers, and files that are open. One question's own file is among them."""
        status = await asyncio.to_thread(self._broker.view, "status")
        return {name: status[name] for name in COUNTED} | {"files": len(os.listdir(f"/proc/{self._pid}/fd"))}

    async def returned(self, before: dict[str, int]) -> None:
        """Waits until the counts are what they were; AssertionError with both. A file more or less is the admin's."""
        end_at = time.monotonic() + WAIT_S
        while True:
            now = await self.counts()
            if {**now, "files": 0} == {**before, "files": 0} and now["files"] <= before["files"] + 1:
                return
            assert time.monotonic() < end_at, f"after {WAIT_S:g} s it has {now}, before it had {before}"
            await asyncio.sleep(POLL_S)

    def resident_kib(self) -> int:
        """Memory."""
        return resident_kib(self._pid)

    async def _watch(self) -> None:
        while True:
            began_at = time.monotonic()
            await asyncio.to_thread(self._broker.view, "status")
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_at)
            self.answers += 1
            await asyncio.sleep(ASK_S)


def resident_kib(pid: int) -> int:
    """Memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(f"the process {pid} is gone")
