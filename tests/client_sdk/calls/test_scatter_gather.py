"""All services of a multicast answer, and each says who it is: through the broker of this project."""

import asyncio
import contextlib

import pytest

from client_sdk import Answer, ApplicationError, Client, Payload, Service, TooLarge, connect, multicast, shard
from client_sdk.calls import scatter_gather as gathering
from client_sdk.testing import local_broker
from tests.client_sdk import frames
from tests.client_sdk.calls.test_callers import Script
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.frames import payload
from tests.client_sdk.samples import Held

ALL = multicast("stock")


class Shop(Held):
    """A service that says how many it has, when the test lets it."""

    def __init__(self, left: str) -> None:
        super().__init__("stock")
        self.left = left
        self.released.set()
        self.service.request_response("count")(self.count)

    async def count(self, data: bytes) -> Payload:
        await self.hold(data)
        if self.left == "none":
            raise ApplicationError("none is left", word="sold-out")
        return Payload(self.left.encode(), b"of " + data)


class Mall:
    """Shops behind one broker, and a client."""

    def __init__(self, *lefts: str) -> None:
        self.shops = [Shop(left) for left in lefts]
        self.offered: list[Client] = []
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Client:
        url = await self._stack.enter_async_context(local_broker())
        for shop in self.shops:
            self.offered.append(await self._stack.enter_async_context(connect(url, service=shop.service)))
        return await self._stack.enter_async_context(connect(url))

    def id(self, number: int) -> str:
        return self.offered[number].route_id

    async def __aexit__(self, *_: object) -> None:
        for shop in self.shops:
            shop.released.set()
        await self._stack.aclose()


def told(answer: Answer) -> tuple[str, str, bytes, bytes | None, str]:
    word = "" if answer.error is None else answer.error.word
    return answer.route_id, answer.service, answer.data, answer.metadata, word


async def test_everybody_answers_and_says_who_it_is() -> None:
    mall = Mall("3", "5", "none")
    async with mall as client:
        gathered = client.gather(ALL, b"books", route="count", timeout_s=10)
        answers = await gathered
        assert gathered.is_complete
        assert sorted(map(told, answers)) == sorted(
            [
                (mall.id(0), "stock", b"3", b"of books", ""),
                (mall.id(1), "stock", b"5", b"of books", ""),
                (mall.id(2), "stock", b"", None, "sold-out"),
            ]
        )
        (failed,) = (each for each in answers if not each.is_ok)
        for _ in range(2):
            with pytest.raises(ApplicationError) as raised:
                print(failed.value)
        assert raised.value.__notes__ == [
            "raised by answer.value: answer.is_ok and answer.error tell it without raising"
        ]
        await mall.shops[0].service.set_tags({"region": "eu"})
        tagged = await client.gather(ALL, b"books", route="count", timeout_s=10, with_tags=True)
        assert {each.route_id: each.tags for each in tagged} == {
            mall.id(0): {"region": "eu"},
            mall.id(1): {},
            mall.id(2): {},
        }


async def test_who_is_late_is_not_there_and_gets_cancel() -> None:
    mall = Mall("3", "5")
    async with mall as client:
        mall.shops[1].released.clear()
        gathered = client.gather(ALL, route="count", timeout_s=0.2)
        assert [told(answer)[:3] for answer in await gathered] == [(mall.id(0), "stock", b"3")]
        assert not gathered.is_complete
        await mall.shops[1].cancelled.wait()


async def test_answers_can_be_read_as_they_come() -> None:
    mall = Mall("3", "5")
    async with mall as client:
        mall.shops[0].released.clear()
        seen: list[bytes] = []
        async for answer in client.gather(ALL, route="count", timeout_s=10):
            seen.append(answer.data)
            mall.shops[0].released.set()
        assert seen == [b"5", b"3"]


async def test_enough_is_enough_and_failures_do_not_count() -> None:
    mall = Mall("none", "3", "5")
    async with mall as client:
        mall.shops[2].released.clear()
        answers = await client.gather(ALL, route="count", timeout_s=10, enough_n=1)
        assert [answer.data for answer in answers if answer.is_ok] == [b"3"]
        await mall.shops[2].cancelled.wait()


async def test_a_route_that_no_service_has_is_warned_of() -> None:
    service = Service("stock")
    service.request_response("count")(Shop("3").count)
    async with local_broker() as url, connect(url, service=service), connect(url) as client:
        with pytest.warns(RuntimeWarning, match=r"^no service has answered: no-handler: .* it has 'count'"):
            (answer,) = await client.gather(ALL, b"book", route="cuont")
        assert not answer.is_ok


async def test_a_service_that_leaves_is_not_there() -> None:
    mall = Mall("3", "5")
    async with mall as client:
        mall.shops[1].released.clear()
        gathered = asyncio.ensure_future(client.gather(ALL, route="count", timeout_s=10))
        await mall.shops[1].began.get()
        await mall.offered[1].close()
        assert [answer.data for answer in await gathered] == [b"3"]


async def test_the_brokers_deadline_ends_it_like_ours(broker: FakeBroker) -> None:
    Script(broker, (0x203, "deadline: 20 ms are over"))
    async with connect(broker.url) as client:
        gathered = client.gather(ALL, timeout_s=60)
        assert await gathered == []
        assert not gathered.is_complete


async def test_a_list_has_a_bound(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MAX_ANSWERS", 2)
    Script(broker, None)
    async with connect(broker.url) as client:
        gathered = asyncio.ensure_future(client.gather(ALL, route="count", timeout_s=10))
        peer = await broker.peer(0)
        stream_id = (await peer.expect(frames.STREAM))[0].stream_id
        for _ in range(3):
            peer.send(payload(stream_id, b"x"))
        with pytest.raises(TooLarge, match="over 2 answers"):
            await gathered
        await peer.expect(frames.CANCEL)


async def test_a_gather_of_the_owner_of_a_key_is_told_that_it_asks_one(broker: FakeBroker) -> None:
    text = r"one service only, <shard service=x user=ada> is no multicast: for all write multicast\('x'\)"
    async with connect(broker.url) as client:
        with pytest.warns(RuntimeWarning, match=text):
            await client.gather(shard("x", key="user", user="ada")).aclose()


async def test_a_gather_that_is_left_sends_cancel(broker: FakeBroker) -> None:
    Script(broker, None)
    async with connect(broker.url) as client:
        gathered = client.gather(ALL)
        first = asyncio.ensure_future(anext(gathered))
        peer = await broker.peer(0)
        stream_id = (await peer.expect(frames.STREAM))[0].stream_id
        peer.send(payload(stream_id, b"x"))
        await first
        await gathered.aclose()
        await peer.expect(frames.CANCEL)


async def test_enough_must_be_one_at_least(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        with pytest.raises(ValueError, match="enough_n is 0"):
            client.gather(ALL, enough_n=0)
