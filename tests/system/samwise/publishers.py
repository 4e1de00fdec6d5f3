"""Callers that publish one message after the other, and what they were told of each."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Final

from tests.client_sdk.gateways.samwise.callers import Call, Caller, calling

PATIENCE_S: Final = 0.5  # for an answer; then the caller gives up and hands the next message over
Arrival = tuple[bytes, str]  # payload and x-samwise-id


class Publishers:
    """What is known of all messages, by payload."""

    def __init__(self, request: Callable[[bytes], list[bytes]], acks_n: Callable[[bytes], int]) -> None:
        """`request`: the frames that publish this payload; `acks_n`: how many destinations they want."""
        self.asked: Final[set[bytes]] = set()
        self.taken: Final[set[bytes]] = set()  # answered 0
        self.refused: Final[dict[bytes, str]] = {}  # answered -1, with the text
        self.longest_s = 0.0  # that a caller waited for an answer
        self._request: Final = request
        self._acks_n: Final = acks_n

    @property
    def unanswered(self) -> set[bytes]:
        """Nobody knows what became of them."""
        return self.asked - self.taken - self.refused.keys()

    async def publish(self, call: Call, name: bytes) -> None:
        """One caller, until it is cancelled."""
        caller = call()
        number = 0
        while True:
            payload = b"%s-%d" % (name, number)
            number += 1
            if not await self._hand_over(caller, payload):
                caller.leave()
                caller = call()

    async def _hand_over(self, caller: Caller, payload: bytes) -> bool:
        """Whether there was an answer."""
        loop = asyncio.get_running_loop()
        self.asked.add(payload)
        began_at = loop.time()
        await caller.send(self._request(payload))
        if not await caller.socket.poll(PATIENCE_S * 1000):
            return False
        state, *text = await caller.answer()
        self.longest_s = max(self.longest_s, loop.time() - began_at)
        if state == b"0":
            self.taken.add(payload)
        else:
            self.refused[payload] = b"".join(text).decode()
        return True

    def are_there(self, *destinations: Sequence[Arrival]) -> bool:
        """Whether each message that was answered 0 is at as many of these as it wants."""
        places = Counter(payload for each in destinations for payload in {payload for payload, _ in each})
        return all(places[payload] >= self._acks_n(payload) for payload in self.taken)

    def duplicates_n(self, *destinations: Sequence[Arrival]) -> int:
        """How many arrivals there were beyond those that messages want, each with the id that its message had before.
        AssertionError when one that was answered 0 is missing, one has two ids, or one that was refused is there."""
        ids: dict[bytes, set[str]] = {}
        for payload, uid in chain(*destinations):
            ids.setdefault(payload, set()).add(uid)
        assert self.are_there(*destinations)
        assert {payload for payload, found in ids.items() if len(found) > 1} == set()
        assert ids.keys() & self.refused.keys() == set()
        assert ids.keys() <= self.asked
        return sum(map(len, destinations)) - sum(map(self._acks_n, ids))


@asynccontextmanager
async def publishing(
    endpoint: str,
    callers_n: int,
    request: Callable[[bytes], list[bytes]],
    acks_n: Callable[[bytes], int] = lambda payload: 1,
) -> AsyncIterator[Publishers]:
    """So many callers at this endpoint, to the end of the block."""
    publishers = Publishers(request, acks_n)
    async with calling(endpoint) as call:
        tasks = [asyncio.create_task(publishers.publish(call, b"%d" % number)) for number in range(callers_n)]
        try:
            yield publishers
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
