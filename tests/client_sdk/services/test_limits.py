"""Limits: how many requests a handler works on, who waits, who is refused."""

import asyncio
from typing import Any

import pytest

from client_sdk import Payload, Service
from client_sdk.errors import Refused
from client_sdk.services.limits import Limit
from client_sdk.services.responder import ServiceResponder
from rsocket_wire.errors import REJECTED
from rsocket_wire.models import REQUEST_RESPONSE
from tests.client_sdk.clocks import rest
from tests.client_sdk.samples import cancel, raises, yields_of
from tests.client_sdk.services.asking import ask, refused


class Slow:
    """A handler that works until it is let go; counts how many it works on."""

    def __init__(self, max_concurrency: int, max_waiting: int) -> None:
        self.go = asyncio.Event()
        self.began: list[bytes] = []
        self.working_n = self.most_n = 0
        self.service = Service("s")
        decorator = self.service.request_response(max_concurrency=max_concurrency, max_waiting=max_waiting)
        decorator(self.handle)
        handler = self.service.routes[REQUEST_RESPONSE].find(None)
        assert handler.limit is not None
        self.limit = handler.limit

    async def handle(self, data: bytes) -> bytes:
        self.began.append(data)
        self.working_n += 1
        self.most_n = max(self.most_n, self.working_n)
        try:
            await self.go.wait()
            return data
        finally:
            self.working_n -= 1

    def ask(self, n: int) -> list[asyncio.Task[Payload]]:
        return [asyncio.create_task(ask(self.service, b"%d" % number)) for number in range(n)]


async def test_no_more_run_at_a_time_than_allowed_and_the_first_come_first() -> None:
    slow = Slow(2, 100)
    tasks = slow.ask(10)
    await rest()
    assert (slow.began, slow.limit.working_n, len(slow.limit._waiting)) == ([b"0", b"1"], 2, 8)
    slow.go.set()
    assert [(await task).data for task in tasks] == [b"%d" % number for number in range(10)]
    assert (slow.began, slow.most_n) == ([b"%d" % number for number in range(10)], 2)
    assert (slow.limit.working_n, len(slow.limit._waiting)) == (0, 0)


async def test_one_beyond_those_that_may_wait_is_rejected_at_once() -> None:
    slow = Slow(1, 2)
    tasks = slow.ask(3)
    await rest()
    text = "over-limit: handler 'request_response' of service 's' is at its limit: 1 requests running, 2 waiting"
    text += " (max_concurrency= and max_waiting= of the handler)"
    assert await refused(ask(slow.service, b"")) == ("over-limit", REJECTED, text)
    slow.go.set()
    assert [(await task).data for task in tasks] == [b"0", b"1", b"2"]


async def test_who_waits_and_is_cancelled_leaves_and_takes_nobodys_turn() -> None:
    slow = Slow(1, 2)
    first, second, third = slow.ask(3)
    await rest()
    await cancel(second)
    assert len(slow.limit._waiting) == 1
    slow.go.set()
    assert [(await first).data, (await third).data] == [b"0", b"2"]
    assert (slow.began, slow.limit.working_n) == ([b"0", b"2"], 0)


async def test_who_is_cancelled_in_the_moment_of_its_turn_passes_it_on() -> None:
    limit = Limit(1, 5, "it")
    assert limit.try_enter()
    second, third = (asyncio.create_task(limit.wait_for_turn()) for _ in range(2))
    await rest()
    limit.leave()  # the turn of the second
    second.cancel()
    await third
    assert second.cancelled()
    assert limit.working_n == 1
    limit.leave()
    assert limit.working_n == 0


async def test_a_handler_that_fails_or_refuses_its_data_gives_its_turn_back() -> None:
    service = Service("s")
    service.request_response(max_concurrency=1)(raises(ValueError("no")))

    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            await ask(service, b"")


async def test_a_stream_has_its_turn_until_it_is_closed_and_who_waits_for_it_may_leave() -> None:
    service = Service("s")
    service.request_stream(max_concurrency=1, max_waiting=1)(yields_of(lambda data: [data, data]))

    responder = ServiceResponder(service)
    first, gone, second = (aiter(responder.request_stream(None, data)) for data in (b"1", b"0", b"2"))
    assert await anext(first) == b"1"
    leaving = asyncio.ensure_future(anext(gone))
    await rest()
    await cancel(leaving)
    await gone.aclose()  # type: ignore[attr-defined]
    waiting = asyncio.ensure_future(anext(second))
    await rest()
    third = aiter(responder.request_stream(None, b"3"))
    with pytest.raises(Refused) as caught:
        await anext(third)
    assert caught.value.word == "over-limit"
    await third.aclose()  # type: ignore[attr-defined]
    assert not waiting.done()
    await first.aclose()  # type: ignore[attr-defined]
    assert await waiting == b"2"
    await second.aclose()  # type: ignore[attr-defined]
    await second.aclose()  # type: ignore[attr-defined]
    assert responder.working_n == 0


@pytest.mark.parametrize("most", [{"max_concurrency": 0}, {"max_concurrency": 1, "max_waiting": -1}])
def test_bounds_that_make_no_sense_are_refused(most: dict[str, Any]) -> None:
    async def echo(data: bytes) -> bytes:
        return data

    with pytest.raises(ValueError, match="must be at least"):
        Service("s").request_response(**most)(echo)
