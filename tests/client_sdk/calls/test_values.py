"""Values go in and come out, bytes stay bytes; what does not fit is told in one sentence, and early."""

import asyncio
import queue
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from client_sdk import JSON, BadAnswer, BadRequest, Payload, Request, Service, address, connect, multicast, sync
from client_sdk.calls.values import Values
from client_sdk.codecs import BYTES
from client_sdk.mistakes.options import NOT_CALLED_BACK
from client_sdk.testing import LocalBroker, local_broker

TO = address("orders")


@dataclass
class Order:
    item: str
    pieces: int = 1


class Receipt(pydantic.BaseModel):
    text: str


def make_orders() -> Service:
    orders = Service("orders", codec=JSON)

    @orders.request_response("create")
    async def create(order: Order) -> Receipt:
        return Receipt(text=f"{order.pieces} {order.item}")

    @orders.request_response("mime")
    async def mime(request: Request) -> str:
        return request.data_mime

    @orders.request_stream("pieces")
    async def pieces(order: Order) -> AsyncIterator[object]:
        for number in range(order.pieces):
            yield number
        yield "the end"

    @orders.request_channel("sums")
    async def sums(numbers: AsyncIterator[int]) -> AsyncIterator[int]:
        total = 0
        async for number in numbers:
            total += number
            yield total

    return orders


@pytest.fixture
async def broker() -> AsyncIterator[LocalBroker]:
    async with local_broker() as broker, connect(broker, service=make_orders()):
        yield broker


async def items_of(*items: object) -> AsyncIterator[object]:
    for item in items:
        yield item


async def test_what_goes_in_is_what_comes_out(broker: LocalBroker) -> None:
    async with connect(broker, codec=JSON) as client:
        receipt = await client.request_response(TO, Order("book", 2), route="create", returns=Receipt)
        assert receipt == Receipt(text="2 book")
        raw = b'{"item":"book"}'
        assert await client.request_response(TO, raw, route="create", returns=bytes) == b'{"text":"1 book"}'
        assert (await client.request_response(TO, raw, route="create")).data == b'{"text":"1 book"}'
        assert await client.request_response(TO, {"item": "pen"}, route="create", returns=Receipt, timeout_s=5)
        channel = client.request_channel(TO, items_of(1, b"2", Payload(b"3")), route="sums", returns=int)
        assert [number async for number in channel] == [1, 3, 6]
        answers = await client.gather(multicast("orders"), Order("pen"), route="create", returns=Receipt)
        assert [answer.value for answer in answers] == [Receipt(text="1 pen")]


async def test_a_request_says_which_codec_made_its_data_and_that_of_bytes_says_nothing(broker: LocalBroker) -> None:
    async with connect(broker, codec=JSON) as client:
        assert await client.request_response(TO, 1, route="mime", returns=str) == "application/json"
        assert await client.request_response(TO, route="mime", returns=str) == "application/json"
        assert await client.request_response(TO, b"1", route="mime", returns=bytes) == b'""'


async def test_an_answer_that_does_not_fit_is_told_with_who_said_it_and_where(broker: LocalBroker) -> None:
    text = "orders create answered what is no int: Expected `int`, got `object`"
    async with connect(broker, codec=JSON) as client:
        with pytest.raises(BadAnswer) as told:
            await client.request_response(TO, Order("pen"), route="create", returns=int)
        assert (told.value.word, told.value.text) == ("bad-answer", text)
        (answer,) = await client.gather(multicast("orders"), Order("pen"), route="create", returns=int)
        with pytest.raises(BadAnswer, match="orders create"):
            print(answer.value)


async def test_an_item_that_does_not_fit_ends_the_stream(broker: LocalBroker) -> None:
    async with connect(broker, codec=JSON) as client:
        stream = client.request_stream(TO, Order("pen", 2), route="pieces", returns=int)
        taken = [await anext(stream), await anext(stream)]
        with pytest.raises(BadAnswer, match="Expected `int`, got `str`"):
            await anext(stream)
        assert taken == [0, 1]
        with pytest.warns(RuntimeWarning, match="this stream has ended, so this loop sees nothing"):
            assert [item async for item in stream] == []


async def test_data_that_the_handler_does_not_take_is_a_bad_payload(broker: LocalBroker) -> None:
    async with connect(broker, codec=JSON) as client:
        with pytest.raises(BadRequest, match=r"Expected `int`, got `str` - at `\$.pieces`") as told:
            await client.request_response(TO, {"item": "pen", "pieces": "2"}, route="create", returns=Receipt)
        assert told.value.word == "bad-payload"
        with pytest.raises(BadRequest) as told:
            await client.request_response(TO, "pen", route="create", returns=Receipt)
        text = "Expected `object`, got `str`; it takes Order, an object of JSON with item, pieces"
        assert told.value.text == f"handler 'create' of service 'orders': {text}"


@pytest.mark.parametrize(
    "codec, data, returns, text",
    [
        (
            {},
            b"",
            Receipt,
            r"bytes cannot be decoded as Receipt: give the client the codec of the service",
        ),
        ({}, Order("pen"), None, r"data is Order, it must be bytes; values need a codec: connect\(url, codec=JSON\)"),
        ({}, "text", None, "data is str, it must be bytes; text becomes bytes with"),
        ({"codec": JSON}, b"", complex, "JSON has no complex: take a dataclass"),
        ({"codec": JSON}, 1j, None, "JSON has no complex"),
        *(
            (codec, data, None, text)
            for codec in ({}, {"codec": JSON})
            for data, text in (
                (print, rf"data is builtin.*, and {re.escape(NOT_CALLED_BACK)}; write print\(\) for what it gives"),
                (TO, "data is Address: a call takes one address, then its data"),
                (lambda last: last, r"data is function, .*; call it for what it gives"),
                (Order, r"data is the class Order: write Order\(\.\.\.\) for an object of it"),
                ((number for number in range(3)), r"data is generator: write list\(\.\.\.\) for all that it yields"),
                (items_of, r"data is function: write client\.request_channel\(to, items, route='\.\.\.'\)"),
            )
        ),
    ],
)
async def test_what_no_codec_has_is_told_before_anything_is_sent(
    broker: LocalBroker, codec: dict[str, Any], data: object, returns: Any, text: str
) -> None:
    async with connect(broker, **codec) as client:
        with pytest.raises(TypeError, match=text):
            await client.request_response(TO, data, returns=returns)
        with pytest.raises(TypeError, match=text):
            client.request_stream(TO, data, returns=returns)
        assert broker.requests("orders") == 0


@pytest.mark.parametrize("given", ["text", None, {}, 5])
async def test_a_codec_that_gives_no_bytes_is_told(broker: LocalBroker, given: object) -> None:
    class Wrong:
        mime_type = "application/x-wrong"

        def decode(self, data: bytes, type: Any) -> Any:
            return data

        def encode(self, value: Any) -> Any:
            return given

    async with connect(broker, codec=Wrong()) as client:
        text = r"Wrong\.encode\(\) gives .*, it must give bytes"
        for call in (client.request_response, client.fire_and_forget):
            with pytest.raises(TypeError, match=text):
                await call(TO, 5)
        with pytest.raises(TypeError, match=text):
            client.request_stream(TO, 5)
        with pytest.raises(TypeError, match=text):
            client.gather(multicast("orders"), 5)


async def test_a_codec_whose_name_cannot_be_sent_is_refused() -> None:
    class Nameless:
        mime_type = ""

        def decode(self, data: bytes, type: Any) -> Any:
            return data

        def encode(self, value: Any) -> bytes:
            return bytes(value)

    with pytest.raises(ValueError, match="data mime type"):
        connect("tcp://127.0.0.1:1", codec=Nameless())


async def test_the_blocking_client_has_values_too(broker: LocalBroker) -> None:
    def call(url: str) -> tuple[object, ...]:
        with sync.connect(url, codec=JSON) as client:
            return (
                client.request_response(TO, Order("pen"), route="create", returns=Receipt),
                list(client.request_channel(TO, [1, 2], route="sums", returns=int)),
                [
                    each.value
                    for each in client.gather(multicast("orders"), {"item": "a"}, route="create", returns=Receipt)
                ],
            )

    assert await asyncio.to_thread(call, str(broker)) == (Receipt(text="1 pen"), [1, 3], [Receipt(text="1 a")])


def made() -> Iterator[bytes]:
    """A generator that is no async one."""
    yield b"a"


EACH = ": write `async def items():`, in it `{}`, and give the call items()"
TAKEN = f"{EACH.format('while (item := await {}) is not None: yield item')}; a None in the queue ends them"
ONE = ": for one item and a stream as its answer call request_stream"


@pytest.mark.parametrize(
    ("items", "how"),
    [
        ([b"a"], EACH.format("for item in ...: yield item")),
        (made(), EACH.format("for item in ...: yield item")),
        (made, ": write `async def made():`, and give the call made()"),
        (items_of, ": write items_of(), with parentheses"),
        (asyncio.Queue(), TAKEN.format("queue.get()")),
        (TO, ": a call takes one address, then its items"),
        (queue.SimpleQueue(), TAKEN.format("asyncio.to_thread(queue.get)")),
        (b"a", ONE),
        ({"a": 1}, ONE),
        (None, ""),
    ],
)
def test_items_of_a_channel_that_do_not_come_one_by_one_say_what_gives_them(items: Any, how: str) -> None:
    with pytest.raises(TypeError) as told:
        Values(BYTES).items(items)
    text = "they must be an async iterable, such as what an async function with yield gives"
    assert str(told.value) == f"the items of a channel are {type(items).__name__}, {text}{how}"
