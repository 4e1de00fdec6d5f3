"""Methods of a contract do what other calls do: they come back, ask everybody, may run twice, are read in parts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import pytest

from client_sdk import (
    JSON,
    NO_REQUEST,
    Request,
    RetryPolicy,
    Service,
    address,
    connect,
    gather,
    idempotent,
    multicast,
    subscribe,
)
from client_sdk.testing import local_broker
from tests.client_sdk.fake_broker import FakeBroker


class Feed(Protocol):
    async def name(self) -> str: ...

    async def reset(self, to: int) -> None: ...

    @idempotent
    async def often(self) -> int: ...

    async def once(self) -> int: ...

    def lines(self, since: int) -> AsyncIterator[int]: ...


class Numbers:
    def __init__(self, name: str = "a") -> None:
        self.own_name = name
        self.made = 0
        self.asked: list[int] = []  # since which lines were asked for

    async def name(self) -> str:
        return self.own_name

    async def reset(self, to: int) -> None:
        self.made = to

    async def often(self) -> int:
        raise NotImplementedError

    async def once(self) -> int:
        raise NotImplementedError

    async def lines(self, since: int, request: Request = NO_REQUEST) -> AsyncIterator[int]:
        self.asked.append(since)
        for number in range(since + 1, since + 100):
            if request.draining.is_set():
                return
            self.made += 1
            yield number


def feed_of(numbers: Numbers, **tags: str) -> Service:
    service = Service("feed", tags=tags, codec=JSON)
    service.implement(Feed)(numbers)
    return service


async def test_what_is_made_of_a_contract_is_neither_awaited_nor_entered_nor_read(broker: FakeBroker) -> None:
    async with connect(broker.url, codec=JSON) as client:
        feed: Any = client.of(Feed, address("feed"))
        tried: list[tuple[Callable[[], object], str]] = [
            (lambda: feed.__await__(), "is not awaited: leave `await` out, and await its methods' answers"),
            (lambda: feed.__aenter__(), "has no block: write `orders = client.of(Orders, address('orders'))`"),
            (
                lambda: aiter(feed),
                "is not read: a method that gives a stream is, `async for item in orders.watch(...):`",
            ),
            (lambda: feed(1), "is not called: its methods are, `await orders.create(...)`"),
        ]
        for attempt, said in tried:
            with pytest.raises(TypeError) as caught:
                attempt()
            assert str(caught.value) == f"what client.of(...) gives {said}"
        with pytest.raises(TypeError, match=r"^JSON has no Remote: take a dataclass"):  # and no other advice
            await client.request_response(address("feed"), feed)


async def test_a_stream_of_a_contract_comes_back_from_the_last_item_on() -> None:
    numbers = Numbers()
    async with local_broker() as broker, connect(broker, codec=JSON) as client:
        serving = await connect(broker, service=feed_of(numbers))
        feed = client.of(Feed, address("feed"), initial_n=1)
        seen: list[int] = []
        lines = subscribe(feed.lines, 0, resume=lambda last: last)
        async with asyncio.timeout(10), lines:
            async for number in lines:
                seen.append(number)
                if len(seen) == 3:
                    await serving.close()
                    serving = await connect(broker, service=feed_of(numbers))
                if len(seen) == 6:
                    break
        await serving.close()
        assert (seen, numbers.asked) == ([1, 2, 3, 4, 5, 6], [0, 3])


async def test_as_many_items_are_made_as_the_caller_of_a_contract_says() -> None:
    numbers = Numbers()
    async with local_broker() as broker, connect(broker, service=feed_of(numbers), codec=JSON) as client:
        lines = client.of(Feed, address("feed"), initial_n=2).lines(0)
        assert await anext(lines) == 1
        await client.of(Feed, address("feed")).name()  # by then the service has sent what it may
        assert numbers.made <= 1 + 2 + 1  # taken, under way, made in advance


async def test_all_services_answer_a_method_of_a_contract() -> None:
    ada, bob = Numbers("ada"), Numbers("bob")
    async with (
        local_broker() as broker,
        connect(broker, service=feed_of(ada, town="bonn")),
        connect(broker, service=feed_of(bob, town="cork")),
        connect(broker, codec=JSON) as client,
    ):
        feed = client.of(Feed, multicast("feed"), timeout_s=5)
        names = await gather(feed.name, with_tags=True)
        assert sorted((each.value, (each.tags or {})["town"]) for each in names) == [("ada", "bonn"), ("bob", "cork")]
        done = await gather(feed.reset, 7)
        assert ([each.made for each in done], ada.made, bob.made) == ([None, None], 7, 7)


async def test_only_what_is_marked_runs_twice() -> None:
    async def lose(broker: Any, method: str) -> int:
        """What it answers when the connection of its service is lost the first time."""
        asked: list[str] = []
        service = Service("feed", codec=JSON)

        @service.request_response(method)
        async def answer(data: bytes) -> int:
            asked.append(method)
            if len(asked) == 1:
                broker.drop_connections()
                await asyncio.Event().wait()
            return len(asked)

        policy = RetryPolicy(attempts=50, max_delay_s=0.05)
        async with (
            connect(broker, service=service),
            connect(broker, codec=JSON, retry=policy, wait_for_reconnect=True) as client,
        ):
            feed = client.of(Feed, address("feed"), timeout_s=10)
            return await (feed.often() if method == "often" else feed.once())

    async with local_broker() as broker:
        assert await lose(broker, "often") == 2
        with pytest.raises(Exception, match=r"connection-lost|route-lost"):
            await lose(broker, "once")


async def test_what_is_no_method_of_a_contract_is_refused() -> None:
    async with local_broker() as broker, connect(broker, codec=JSON) as client:
        lines: Any = client.of(Feed, address("feed")).lines
        with pytest.raises(TypeError, match=r"subscribe takes a method of what .* gave that gives a stream"):
            subscribe(Numbers().lines, 0)
        with pytest.raises(
            TypeError, match=r"and Feed\.lines is request_stream: write `async for item in orders\.lines"
        ):
            gather(lines, 0)
        once: Any = client.of(Feed, address("feed")).once
        with pytest.raises(
            TypeError, match=r"and Feed\.once is request_response: write `await orders\.once\(\.\.\.\)`"
        ):
            subscribe(once, 0)
        with pytest.raises(
            TypeError, match=r"write gather\(orders\.once, value\); several calls .* are asyncio\.gather"
        ):
            gather(once())
        with pytest.raises(
            TypeError, match=r"without parentheses, then its value: write subscribe\(orders\.watch, value\)"
        ):
            subscribe(stream := lines(0))
        await stream.aclose()
