"""A subscription comes back after a loss, says where it was, and ends when there is nothing to come back to."""

import asyncio
import logging

import pytest

from client_sdk import (
    ApplicationError,
    BadRequest,
    ClientError,
    ConnectionLost,
    NotConnected,
    RouteLost,
    address,
    connect,
    errors,
)
from client_sdk.calls.subscription import Subscription
from client_sdk.reconnect.backoff import Backoff
from client_sdk.streams import Flow
from tests.client_sdk.calls.test_callers import Script
from tests.client_sdk.clocks import FakeClock, rest
from tests.client_sdk.fake_broker import FakeBroker

Part = int | ClientError  # an item, or how the stream ends


class Stream(Flow[int]):
    """Items of a script; then its error, or COMPLETE."""

    def __init__(self, script: list[Part]) -> None:
        self.script = script
        self.is_closed = False

    async def __anext__(self) -> int:
        if not self.script:
            raise StopAsyncIteration
        part = self.script.pop(0)
        if isinstance(part, ClientError):
            raise part
        return part

    def take_waiting(self) -> list[int]:
        items = [part for part in self.script if isinstance(part, int)]
        self.script = self.script[len(items) :]
        return items

    async def aclose(self) -> None:
        self.is_closed = True

    def __del__(self) -> None:
        pass


class Feed:
    """A service that answers one request after the other."""

    def __init__(
        self, *scripts: list[Part], is_endless: bool = False, resumes: bool = True, waits: bool = True
    ) -> None:
        self.scripts = list(scripts)
        self.asked: list[object] = []  # data of the requests
        self.streams: list[Stream] = []
        self.clock = FakeClock()
        resume = (lambda last: f"since {last}") if resumes else None
        backoff = Backoff(lambda: 0.999)
        self.subscription = Subscription(
            self.ask, "all", resume, is_endless, "subscription", backoff, self.clock, waits
        )
        self.items: list[int] = []

    def ask(self, data: object) -> Flow[int]:
        self.asked.append(data)
        self.streams.append(Stream(self.scripts.pop(0)))
        return self.streams[-1]

    async def read(self) -> list[int]:
        async def take() -> None:
            async for item in self.subscription:
                self.items.append(item)

        task = asyncio.create_task(take())
        await rest()
        while not task.done():
            await self.clock.turn(2)
        await task
        return self.items


async def test_it_comes_back_and_says_where_it_was(caplog: pytest.LogCaptureFixture) -> None:
    feed = Feed([1, 2, ConnectionLost("broken")], [NotConnected("not yet")], [3, RouteLost("gone")], [4])
    with caplog.at_level(logging.INFO, "client_sdk"):
        assert await feed.read() == [1, 2, 3, 4]
    assert feed.asked == ["all", "since 2", "since 2", "since 3"]
    assert [round(each, 1) for each in feed.clock.slept] == [0.1, 0.2, 0.1]  # the first again after an item
    assert [record.message for record in caplog.records] == [
        "subscription waits and asks again: connection-lost: broken",
        "subscription waits and asks again: not-connected: not yet",
        "subscription: back after 4.0 s",
        "subscription waits and asks again: route-lost: gone",
        "subscription: back after 2.0 s",
    ]


async def test_one_that_has_never_found_its_service_says_how_not_to_wait(caplog: pytest.LogCaptureFixture) -> None:
    assert await Feed([errors.NoRoute("nobody")], [1, errors.NoRoute("gone")], [2]).read() == [1, 2]
    assert [record.message for record in caplog.records if "asks" in record.message] == [
        "subscription waits and asks again (wait_for_service=False ends it): no-route: nobody",
        "subscription waits and asks again: no-route: gone",
    ]


async def test_the_next_request_is_one_of_its_own_on_the_wire(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client_sdk.reconnect.backoff.FIRST_DELAY_S", 0.0)
    script = Script(broker, (0x202, "no-route: nobody"), b"7")
    async with connect(broker.url) as client:
        items = client.subscribe(address("feed"), b"all", route="lines", returns=bytes)
        assert [item async for item in items] == [b"7"]
    assert script.asked_n == 2


async def test_without_resume_and_before_the_first_item_the_request_is_the_same() -> None:
    feed = Feed([errors.NoRoute("nobody")], [1, errors.Draining("stops")], [1], resumes=False)
    assert await feed.read() == [1, 1]
    assert feed.asked == ["all", "all", "all"]


async def test_delays_have_a_bound() -> None:
    refusals: list[list[Part]] = [[errors.NoRoute("nobody")] for _ in range(9)]
    feed = Feed(*refusals, [1])
    assert await feed.read() == [1]
    assert max(feed.clock.slept) <= 1.5


@pytest.mark.parametrize(
    "error",
    [
        ApplicationError("no"),
        BadRequest("no"),
        errors.NotAllowed("no"),
        errors.BadAnswer("no"),
        NotConnected("no", word="closed"),
        ConnectionLost("no", word="replaced"),
    ],
)
async def test_what_the_next_request_would_meet_too_ends_it(error: ClientError) -> None:
    feed = Feed([1, error])
    with pytest.raises(type(error)):
        await feed.read()
    assert (feed.items, feed.asked, feed.streams[0].is_closed) == ([1], ["all"], True)
    with pytest.raises(StopAsyncIteration):
        await anext(feed.subscription)


async def test_it_need_not_wait_for_a_service_that_does_not_exist() -> None:
    feed = Feed([NotConnected("not yet")], [errors.NoRoute("nobody")], waits=False)
    with pytest.raises(errors.NoRoute):
        await feed.read()
    assert (feed.items, feed.asked) == ([], ["all", "all"])


@pytest.mark.parametrize("lost", [[1, RouteLost("gone")], [ConnectionLost("broken")], [errors.Draining("stops")]])
async def test_a_service_that_was_there_is_waited_for_in_any_case(lost: list[Part]) -> None:
    feed = Feed(lost, [errors.NoRoute("nobody")], [2], waits=False)
    assert (await feed.read())[-1:] == [2]


async def test_a_subscription_to_nobody_says_so_at_once(broker: FakeBroker) -> None:
    script = Script(broker, (0x202, "no-route: nobody"))
    async with connect(broker.url) as client:
        with pytest.raises(errors.NoRoute):
            await anext(client.subscribe(address("feed"), wait_for_service=False))
    assert script.asked_n == 1


async def test_an_endless_one_comes_back_when_it_is_completed_too() -> None:
    feed = Feed([1], [2, ApplicationError("the end")], is_endless=True)
    with pytest.raises(ApplicationError):
        await feed.read()
    assert (feed.items, feed.asked) == ([1, 2], ["all", "since 1"])


async def test_items_that_are_taken_together_count_for_resume() -> None:
    feed = Feed([1, 2, 3, RouteLost("gone")], [4])
    assert await anext(feed.subscription) == 1
    assert feed.subscription.take_waiting() == [2, 3]
    assert await feed.read() == [4]
    assert feed.asked == ["all", "since 3"]


async def test_a_wait_that_is_cancelled_ends_it() -> None:
    feed = Feed([RouteLost("gone")])
    task = asyncio.ensure_future(anext(feed.subscription))
    await rest()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert feed.subscription.take_waiting() == []
    with pytest.raises(StopAsyncIteration):
        await anext(feed.subscription)


async def test_closing_it_cancels_the_stream() -> None:
    feed = Feed([1, 2])
    async with feed.subscription as items:
        assert await anext(items) == 1
    assert feed.streams[0].is_closed
    assert feed.asked == ["all"]
