"""Callers that hold every answer against what they asked: none may be lost, doubled or somebody else's."""

import asyncio
from collections import Counter

from rsocket_wire.rsocket.frames import ERROR, KEEPALIVE, PAYLOAD, encode_keepalive
from tests.system.support.waits import WAIT_S, until
from tests.system.support.wires import Wire

IN_FLIGHT = 16
FEW = 100  # answers: enough to know that they go on
MAX_FAULTS = 10  # that are told; one is too many


class Asker:
    """One connection that keeps IN_FLIGHT requests on the way to services of one name (see `crowd_process`)."""

    def __init__(self, wire: Wire, service: str, number: int) -> None:
        self.answered: Counter[str] = Counter()  # by the number of the service, or the code word of the error
        self.faults: list[str] = []
        self.asked = 0
        self.is_ending = False
        self.waiting: dict[int, bytes] = {}  # by stream id: what was asked and is not answered
        self.wire = wire
        self._service = service
        self._number = number

    async def run(self) -> None:
        """Asks until it is told to end, and then until all answers are there."""
        for _ in range(IN_FLIGHT):
            self._ask()
        while self.waiting:
            frame = await self.wire.receive(60.0)  # a stopped service answers when it goes on
            if frame.kind == KEEPALIVE:
                self.wire.send(encode_keepalive(b"", respond=False))
                continue
            asked = self.waiting.pop(frame.stream_id, None)
            by, _, data = frame.data.partition(b":")
            if asked is None:
                self._blame(f"{frame.name} on stream {frame.stream_id}, where nothing was waited for")
            elif frame.kind == ERROR:
                self.answered[frame.text.split(":")[0]] += 1
            elif frame.kind == PAYLOAD and data == asked:
                self.answered[by.decode()] += 1
            else:
                self._blame(f"{frame.name} with {frame.data!r} as the answer to {asked!r}")
            if not self.is_ending:
                self._ask()
        await self.wire.ping()  # nothing follows: what came twice would come before this answer

    def _ask(self) -> None:
        self.asked += 1
        data = b"%d-%d" % (self._number, self.asked)
        self.waiting[self.wire.request(self._service, data)] = data

    def _blame(self, fault: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(fault)


class Askers:
    """Several of them, of one service name."""

    def __init__(self, service: str) -> None:
        self._askers: list[Asker] = []
        self._service = service
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, urls: list[str]) -> None:
        """One for each URL."""
        for number, url in enumerate(urls):
            asker = Asker(await Wire.caller(url), self._service, number)
            self._askers.append(asker)
            self._tasks.append(asyncio.create_task(asker.run()))

    @property
    def answered(self) -> Counter[str]:
        """By the number of the service, or the code word of the error."""
        return sum((asker.answered for asker in self._askers), Counter())

    async def more(self, by: str, count: int = FEW) -> None:
        """Waits for that many more answers of one service."""
        before = self.answered[by]
        await until(lambda: self.answered[by] >= before + count)

    @property
    def waiting(self) -> int:
        """Requests that are not answered."""
        return sum(len(asker.waiting) for asker in self._askers)

    async def end(self) -> Counter[str]:
        """Waits for what is on the way; AssertionError with numbers unless each request was answered once."""
        for asker in self._askers:
            asker.is_ending = True
        _, late = await asyncio.wait(self._tasks, timeout=WAIT_S)
        asked, answered = sum(asker.asked for asker in self._askers), self.answered
        assert not late, f"{self.waiting} of {asked} requests to {self._service} are not answered within {WAIT_S:g} s"
        faults = [fault for asker in self._askers for fault in asker.faults]
        assert not faults, f"{len(faults)} wrong answers of {asked}: {faults[:MAX_FAULTS]}"
        for task in self._tasks:
            task.result()
        assert answered.total() == asked, f"{asked} requests to {self._service} got {answered.total()} answers"
        return answered

    async def close(self) -> None:
        """Lets everything go, whatever has happened."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for asker in self._askers:
            await asker.wire.close()
