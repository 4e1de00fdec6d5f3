"""The requests of `odd_requests` at a live gateway: each is answered as the documents want it, none that was refused is
stored, and what stands between them arrives as it was given."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import zmq

from client_sdk.gateways.samwise.endpoint.server import Server, ServerSettings
from client_sdk.gateways.samwise.gateway import Gateway
from client_sdk.gateways.samwise.requests import Rules
from client_sdk.gateways.samwise.store import OS, Store
from client_sdk.gateways.samwise.values import Publish, Request, Rpc, Status
from tests.client_sdk.gateways.samwise.callers import calling
from tests.client_sdk.gateways.samwise.fake_backend import FakeBackend
from tests.client_sdk.gateways.samwise.odd_requests import ILLEGAL, LEGAL, Frames
from tests.system.support.waits import until

REFUSALS: Final = [(frames, begin) for begin, all_frames in ILLEGAL.items() for frames in all_frames]
PUBLISHED: Final = [request for _, request in LEGAL if isinstance(request, Publish)]


@asynccontextmanager
async def live(folder: Path, backend: FakeBackend) -> AsyncIterator[str]:
    """The endpoint of a whole gateway."""
    gateway = Gateway(Store(folder / "store", durability=OS), backend)
    endpoint = f"ipc://{folder}/s"
    gateway.callers = server = Server(gateway, ServerSettings(endpoints=(endpoint,), rules=Rules(), max_callers=9))
    server.bind()
    await gateway.start()
    server.start()
    try:
        yield endpoint
    finally:
        await server.close()
        await gateway.stop()


def mixed() -> list[tuple[Frames, Request | str]]:
    """All of them, those that are allowed in their order."""
    rng = random.Random(7)
    both: list[tuple[Frames, Request | str]] = [*LEGAL]
    for each in REFUSALS:
        both.insert(rng.randrange(len(both) + 1), each)
    return both


def check_answer(answer: Frames, frames: Frames, wanted: Request | str) -> None:
    """ "If <state> is 0, no further frames are expected. If <state> is -1, another frame follows"; D-80."""
    if isinstance(wanted, str):
        assert answer[:-1] == [b"-1"], (frames[:9], wanted, answer)
        assert answer[-1].decode().startswith(wanted), (frames[:9], wanted, answer)
        assert len(answer[-1]) < 300
    elif isinstance(wanted, Status):
        assert answer[:-1] == [b"0"]
    else:
        assert answer == ([b"0", b""] if wanted.version == 120 else [b"0"]), (frames[:9], wanted, answer)


def test_there_are_a_hundred_of_each() -> None:
    for table in (LEGAL, REFUSALS):
        assert len({tuple(frames) for frames, _ in table}) == len(table) >= 100


async def test_each_is_answered_as_it_should_be_and_only_what_was_taken_arrives(tmp_path: Path) -> None:
    backend = FakeBackend("a", "b", "c")
    async with live(tmp_path, backend) as endpoint, calling(endpoint) as call:
        caller = call()
        for frames, wanted in mixed():
            check_answer(await caller.ask(frames), frames, wanted)
        assert await arrivals_at(backend) == PUBLISHED


async def test_all_at_once_they_are_answered_in_their_order(tmp_path: Path) -> None:
    backend = FakeBackend("a", "b", "c")
    async with live(tmp_path, backend) as endpoint, calling(endpoint) as call:
        caller = call(zmq.DEALER)
        for frames, _ in mixed():
            await caller.send([b"", *frames])
        for frames, wanted in mixed():
            delimiter, *answer = await caller.answer()
            assert delimiter == b""
            check_answer(answer, frames, wanted)
        # Those behind a mandatory message are stored while destinations are asked whether they are there.
        arrived = sorted(await arrivals_at(backend), key=lambda each: each.mandatory)
        assert arrived == sorted(PUBLISHED, key=lambda each: each.mandatory)


async def arrivals_at(backend: FakeBackend) -> list[Publish]:
    """What has arrived, in the order in which it was stored: each at as many destinations as it wants."""
    arrivals_n = sum(min(each.acks_n, len(backend.up)) for each in PUBLISHED)
    await until(lambda: len(backend.messages) >= arrivals_n)
    assert len(backend.messages) == arrivals_n
    assert backend.rpcs == [request for _, request in LEGAL if isinstance(request, Rpc)]
    arrived = {message.id: message.publish for message in backend.messages}
    return [arrived[id] for id in sorted(arrived)]
