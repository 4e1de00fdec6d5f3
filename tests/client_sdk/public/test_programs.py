"""Programs with contracts, written from the documents alone, do what they should; test_typing checks their types."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from client_sdk import JSON, RetryPolicy, connect
from client_sdk.testing import local_broker
from tests.client_sdk.public.programs import chat, job_queue, price_feed

RUN_S = 20.0


async def test_a_slow_reader_gets_the_latest_prices_and_comes_back_after_the_broker() -> None:
    market = price_feed.Market()
    async with (
        local_broker() as broker,
        connect(broker, service=price_feed.offer_prices(market)),
        asyncio.timeout(RUN_S),
    ):
        reading = asyncio.create_task(price_feed.read(broker, 5, pause_s=0.02))
        moved_n = 0
        while not reading.done():
            await market.move(100.0 + moved_n)
            moved_n += 1
            if moved_n == 20:
                await broker.restart()
            await asyncio.sleep(0.001)
        numbers = [tick.number for tick in await reading]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] - numbers[0] > 4, "a tick for each move"


@pytest.mark.slow
async def test_workers_are_replaced_one_by_one_and_no_job_is_lost() -> None:
    async with local_broker() as broker, asyncio.timeout(RUN_S):
        names = ["w-1", "w-2", "w-3"]
        workers = {
            name: await connect(broker, service=job_queue.offer_work(name, "1"), instance=name) for name in names
        }
        async with connect(broker, codec=JSON, retry=RetryPolicy(), wait_for_reconnect=True) as client:
            users = [job_queue.User(client, f"user-{number}") for number in range(8)]
            is_over = asyncio.Event()

            async def give_on(user: job_queue.User) -> None:
                while not is_over.is_set():
                    await user.give()

            for user in users:
                await user.give()
            homes = [next(iter(user.done))[0] for user in users]
            async with asyncio.TaskGroup() as giving:
                for user in users:
                    giving.create_task(give_on(user))
                for name in names:
                    await workers[name].drain()
                    workers[name] = await connect(broker, service=job_queue.offer_work(name, "2"), instance=name)
                is_over.set()
            for user, home in zip(users, homes, strict=True):
                user.done.clear()
                await user.give()
                assert list(user.done) == [(home, "2")], "a user has another worker after the deployment"
        for worker in workers.values():
            await worker.close()


async def test_all_in_the_room_hear_what_is_said_and_shouted() -> None:
    async def lines() -> AsyncIterator[chat.Line]:
        yield chat.Line("ada", "hear")
        yield chat.Line("ada", "me")

    ada, bob, eve = (chat.Person(name) for name in ("ada", "bob", "eve"))
    async with (
        local_broker() as broker,
        connect(broker, service=chat.offer_megaphone()),
        connect(broker, service=chat.offer_person(bob, "lounge")),
        connect(broker, service=chat.offer_person(eve, "bar")),
        connect(broker, service=chat.offer_person(ada, "lounge"), codec=JSON) as client,
        asyncio.timeout(RUN_S),
    ):
        room = chat.Room(client, "lounge")
        await room.say(chat.Line("ada", "hi"))
        await room.shout(lines())
        assert await room.who() == ["ada", "bob"]
    assert [line.text for line in bob.heard] == ["hi", "HEAR", "ME"]
    assert (ada.heard, eve.heard) == (bob.heard, [])
