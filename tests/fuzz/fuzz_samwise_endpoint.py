"""Long runs of broken requests at a whole Samwise gateway, over its socket.

    python -m tests.fuzz.fuzz_samwise_endpoint 100000    # messages; a second number is the seed

Some callers send many requests before they read an answer, some write a delimiter and some do not. Each request is
answered in its place: what the parser refuses with its sentence. What was answered 0 is stored, and nothing else is.
`tests/client_sdk/gateways/samwise/test_program.py` runs some of them.
"""

import asyncio
import random
import sys
import tempfile
from collections import deque
from pathlib import Path

import zmq

from broker.views.samwise import WAITING
from client_sdk.gateways.samwise.control import ControlClient
from client_sdk.gateways.samwise.endpoint.envelopes import envelope_n
from client_sdk.gateways.samwise.requests import read_request
from client_sdk.gateways.samwise.settings import rules_of
from client_sdk.gateways.samwise.values import Control, Publish, Refused, Request
from tests.client_sdk.gateways.samwise.callers import Caller, calling
from tests.client_sdk.gateways.samwise.whole import assigned, gateway
from tests.fuzz.fuzz_samwise import broken_request

CALLERS_N = 4
MAX_AHEAD = 50  # requests of one caller without an answer
DELIMITER: list[bytes] = [b""]


class Sender:
    """A caller, and what it waits for."""

    def __init__(self, caller: Caller, delimiter: list[bytes]) -> None:
        self.published_n = 0  # answered 0
        self._caller = caller
        self._delimiter = delimiter
        self._expected: deque[Request | str] = deque()  # what was read, or why it was refused

    async def send(self, frames: list[bytes], expected: Request | str) -> None:
        """One more request; reads an answer first where there are too many without."""
        if len(self._expected) >= MAX_AHEAD:
            await self.read()
        await self._caller.send([*self._delimiter, *frames])
        self._expected.append(expected)

    async def read(self) -> None:
        """The next answer; AssertionError when it is not that of the next request."""
        expected = self._expected.popleft()
        answer = await self._caller.answer()
        begin, answer = answer[: len(self._delimiter)], answer[len(self._delimiter) :]
        assert begin == self._delimiter, (begin, answer)
        if isinstance(expected, str):
            assert answer == [b"-1", expected.encode()], (answer, expected)
            return
        assert answer[0] in (b"0", b"-1"), (answer, expected)
        assert len(answer) == (1 if answer[0] == b"0" and expected.version < 120 else 2), (answer, expected)
        self.published_n += isinstance(expected, Publish) and answer[0] == b"0"

    async def read_all(self) -> int:
        """All answers that are still to come; how many messages were taken."""
        while self._expected:
            await self.read()
        return self.published_n


async def run(folder: Path, count: int, seed: int) -> int:
    """How many of so many messages were taken, with nobody to deliver them to."""
    assignment = assigned(folder)
    rules = rules_of(assignment.options)
    rng = random.Random(seed)
    async with gateway(assignment) as serving, calling(serving.endpoints[0]) as call:
        senders = [Sender(call(zmq.DEALER), DELIMITER if at % 2 else []) for at in range(CALLERS_N)]
        for _ in range(count):
            frames = broken_request(rng) or [b""]
            try:
                expected: Request | str = read_request(frames, rules)
            except Refused as refused:
                expected = refused.text
            if isinstance(expected, Control):
                continue  # it would end
            at = rng.randrange(CALLERS_N)
            if envelope_n([b"caller", *frames]) != 1:  # without a delimiter it would be another request
                at |= 1
            await senders[at].send(frames, expected)
        taken_n = sum([await sender.read_all() for sender in senders])
        assert await stored_n(assignment.control_path) == taken_n
    return taken_n


async def stored_n(path: Path) -> int:
    """How many messages are stored."""
    found_n = after_id = 0
    async with ControlClient(path) as client:
        while messages := (await client.page(WAITING, after_id, 1000)).items:
            found_n, after_id = found_n + len(messages), messages[-1].id
    return found_n


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]] or [100_000]
    with tempfile.TemporaryDirectory() as folder:
        taken = asyncio.run(run(Path(folder), numbers[0], numbers[1] if len(numbers) > 1 else 0))
    print(f"{numbers[0]} messages, {taken} of them taken, all answered")
