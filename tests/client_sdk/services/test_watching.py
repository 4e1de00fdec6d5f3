"""A handler that blocks the event loop is named while it does, once for each time."""

import asyncio
import re
import time
from collections.abc import AsyncIterator

import pytest

from client_sdk import Service, connect
from client_sdk.services import watching
from client_sdk.services.watching import BEAT_S, BLOCKED_S, LoopWatch, watch_of
from tests.client_sdk.fake_broker import FakeBroker


class Blocker:
    """Its handlers are looked at as if they had blocked for so long."""

    def __init__(self) -> None:
        self.service = Service("slow")
        self.watch = LoopWatch(asyncio.get_running_loop())
        self.watch._services.append(self.service)
        self.service.request_response("sleep")(self.sleep)
        self.service.request_stream("items")(self.items)

    def block(self, blocked_s: float) -> None:
        self.watch.look(time.monotonic() + BEAT_S + blocked_s)

    async def sleep(self, data: bytes) -> bytes:
        self.block(BLOCKED_S / 2)
        for _ in range(3):
            self.block(BLOCKED_S + 0.25)
        return data

    async def items(self, data: bytes) -> AsyncIterator[bytes]:
        self.block(2 * BLOCKED_S)
        yield data


async def test_a_handler_that_blocks_is_named_once_for_each_time(caplog: pytest.LogCaptureFixture) -> None:
    blocker = Blocker()
    await blocker.sleep(b"")
    async for _ in blocker.items(b""):
        blocker.block(0.0)
    blocker.block(5.0)  # no handler stands there
    await blocker.sleep(b"")
    said = [re.sub(r"\(.*?/test_watching\.py:\d+\)", "(here)", text.partition(",")[0]) for text in caplog.messages]
    said = [re.sub(r"1\.\d s", "1.x s", text) for text in said]
    first = "handler 'sleep' of service 'slow' (here) has blocked the event loop for 1.x s"
    assert said == [first, first]
    assert "asyncio.to_thread" in caplog.text


async def test_a_loop_is_watched_as_long_as_a_service_is_offered_in_it(broker: FakeBroker) -> None:
    loop = asyncio.get_running_loop()
    service = Service("s")
    assert loop not in watching._watches
    async with connect(broker.url, service=service), connect(broker.url, service=service):
        assert watch_of(loop)._services == [service, service]
    assert loop not in watching._watches
