"""One class for both sides: its methods are calls, and what does not fit it is refused where the service is made."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from client_sdk import (
    JSON,
    NO_REQUEST,
    ApplicationError,
    Request,
    Service,
    address,
    connect,
    fire_and_forget,
    gather,
    idempotent,
    subscribe,
)
from client_sdk.testing import LocalBroker, local_broker
from tests.client_sdk.services import postponed_contract


@dataclass
class Order:
    item: str
    pieces: int = 1


class Counted(Protocol):
    async def count(self) -> int: ...


class Orders(Counted, Protocol):
    async def create(self, order: Order) -> str: ...

    async def drop(self, name: str = "all") -> None: ...

    async def raw(self, data: bytes) -> bytes: ...

    @fire_and_forget
    async def note(self, line: str) -> None: ...

    def watch(self, order: Order) -> AsyncIterator[str]: ...

    def sums(self, numbers: AsyncIterator[int]) -> AsyncIterator[int]: ...


class Shop:
    """Does what Orders says, and notes what it was told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    async def count(self, request: Request = NO_REQUEST) -> int:
        return len(request.routes)

    async def create(self, order: Order, request: Request | None = None) -> str:
        if not order.pieces:
            raise ApplicationError("none is wanted", word="empty-order")
        return f"{order.pieces} {order.item} {request.route if request else ''}"

    async def drop(self, name: str = "all") -> None:
        self.told.append(name)

    async def raw(self, data: bytes) -> bytes:
        return data[::-1]

    async def note(self, line: str) -> None:
        self.told.append(line)

    async def watch(self, order: Order) -> AsyncIterator[str]:
        yield order.item
        yield "sent"

    async def sums(self, numbers: AsyncIterator[int]) -> AsyncIterator[int]:
        total = 0
        async for number in numbers:
            total += number
            yield total


async def numbers() -> AsyncIterator[int]:
    for number in (1, 2):
        yield number


@contextlib.asynccontextmanager
async def orders_at(shop: Shop) -> AsyncIterator[tuple[LocalBroker, Orders]]:
    service = Service("orders", codec=JSON)
    service.implement(Orders)(shop)
    async with local_broker() as broker, connect(broker, service=service, codec=JSON) as client:
        yield broker, client.of(Orders, address("orders"), timeout_s=5)


async def test_each_method_is_a_call_of_its_model() -> None:
    shop = Shop()
    async with orders_at(shop) as (_, orders):
        assert await orders.create(Order("pen", 2)) == "2 pen create"
        assert await orders.create(order=Order("pen")) == "1 pen create"
        assert await orders.count() == 1
        assert await orders.raw(b"\x00{") == b"{\x00"
        await orders.note("a line")
        await orders.drop("x")
        await orders.drop()
        assert [state async for state in orders.watch(Order("pen"))] == ["pen", "sent"]
        assert [total async for total in orders.sums(numbers())] == [1, 3]
        assert shop.told == ["a line", "x", "all"]
        with pytest.raises(ApplicationError, match="none is wanted"):
            await orders.create(Order("pen", 0))


async def test_a_method_in_place_of_an_address_says_how_it_is_asked() -> None:
    async with orders_at(Shop()) as (broker, orders), connect(broker, codec=JSON) as client:
        anything: Any = client
        calls: list[tuple[Callable[[], Any], str]] = [
            (lambda: anything.gather(orders.create, 1), r"write gather\(orders.create, value\) of client_sdk$"),
            (lambda: anything.gather(orders.count), r"write gather\(orders.count\) of client_sdk$"),
            (lambda: anything.gather(orders.note, "a"), r"write orders.note\(value\)$"),
            (lambda: anything.request_response(orders.create, 1), r"write orders.create\(value\)$"),
            (
                lambda: anything.subscribe(orders.watch, 1).__anext__(),
                r"write orders.watch\(value\), or subscribe\(orders.watch, value\) of client_sdk$",
            ),
        ]
        for call, text in calls:
            with pytest.raises(TypeError, match="the address is a method of a contract: " + text):
                await call()


async def test_a_caller_has_the_methods_of_the_contract_and_no_others() -> None:
    async with orders_at(Shop()) as (_, orders):
        anything: Any = orders
        untyped: Any = {"ack": True}
        assert repr(orders) == "<Orders at <unicast service=orders>>"
        assert dir(orders) == ["count", "create", "drop", "note", "raw", "sums", "watch"]
        with pytest.raises(AttributeError, match=r"^Orders has no method 'crate'; did you mean create\?$") as told:
            anything.crate()
        assert told.value.obj is None  # no proposal of Python's
        for call in (anything.create, lambda: anything.create(1, 2), lambda: anything.create(item=1)):
            with pytest.raises(TypeError, match=r"Orders.create\(\) takes one argument, order"):
                await call()
        with pytest.raises(TypeError, match=r"order: write create\(Order\(item=\.\.\., pieces=\.\.\.\)\)$"):
            await anything.create(item="book", pieces=2)
        with pytest.raises(TypeError, match=r"write create\(Order\(\.\.\.\)\); several values are one dataclass$"):
            await anything.create("book", 2)
        with pytest.raises(TypeError, match=r"and give metadata= to client\.of\(Orders, to, metadata=\.\.\.\)$"):
            await anything.create(Order("book"), headers={})
        with pytest.raises(TypeError, match=r"^subscribe\(\) has no argument ack=; items are not acknowledged"):
            subscribe(anything.watch, Order("book"), **untyped)
        with pytest.raises(TypeError, match=r"^gather\(\) has no argument ack=; nothing is stored"):
            gather(anything.create, Order("book"), **untyped)
        with pytest.raises(TypeError, match=r"Orders.count\(\) takes no argument"):
            await anything.count(1)


async def test_a_contract_of_bytes_needs_no_codec() -> None:
    class Echo(Protocol):
        async def echo(self, data: bytes) -> bytes: ...

        async def done(self) -> None: ...

    class Echoing:
        async def echo(self, data: bytes) -> bytes:
            return data

        async def done(self) -> None:
            pass

    service = Service("echo")
    service.implement(Echo)(Echoing())
    async with local_broker() as broker, connect(broker, service=service) as client:
        echo = client.of(Echo, address("echo"))
        assert (await echo.echo(b"x"), await echo.done()) == (b"x", None)  # type: ignore[func-returns-value]  # that


async def test_a_caller_without_the_codec_is_told_when_it_asks_for_the_object() -> None:
    async with local_broker() as broker, connect(broker) as client:
        with pytest.raises(TypeError, match=r"Orders.count: bytes cannot be decoded as int: give the client the codec"):
            client.of(Orders, address("orders"))


class NoMethods(Protocol):
    pass


class Inherits(NoMethods):
    pass


class Attribute(Protocol):
    size: int


class TwoValues(Protocol):
    async def put(self, key: str, value: str) -> None: ...


class Silent(Protocol):
    async def put(self, key: str): ...  # type: ignore[no-untyped-def]  # that is the mistake


class Untyped(Protocol):
    async def put(self, key) -> None: ...  # type: ignore[no-untyped-def]  # that is the mistake


class AwaitedStream(Protocol):
    async def watch(self, key: str) -> AsyncIterator[str]: ...


class Blocking(Protocol):
    def put(self, key: str) -> str: ...


class Collecting(Protocol):
    async def add(self, numbers: AsyncIterator[int]) -> int: ...


class ToldTwice(Protocol):
    @idempotent
    @fire_and_forget
    async def put(self, key: str) -> None: ...


class ToldAnswer(Protocol):
    @fire_and_forget  # type: ignore[type-var]  # that is the mistake
    async def put(self, key: str) -> int: ...


class OfGrpc(Protocol):
    async def put(self, request: str, context: object) -> None: ...


class NoSelf(Protocol):
    async def put(key: str) -> None: ...  # type: ignore[misc]  # that is the mistake


class NoParameter(Protocol):
    async def put() -> None: ...  # type: ignore[misc]  # that is the mistake


class Complex(Protocol):
    async def put(self, key: complex) -> None: ...


@pytest.mark.parametrize(
    "contract, text",
    [
        (
            Shop,
            r"Shop is no contract: give the one that it implements, or, if it is to be one itself, write class "
            r"Shop\(Protocol\)",
        ),
        (
            Inherits,
            r"Inherits is no contract: give NoMethods, or, if it is to be one itself, write class "
            r"Inherits\(NoMethods, Protocol\)",
        ),
        (3, "an object of int is no contract"),
        (NoMethods, "NoMethods is no contract: it has no methods"),
        (Attribute, "Attribute.size is no method, and a contract has nothing but methods: take it out of the class"),
        (TwoValues, "TwoValues.put takes key, value: it must be one value; put several into one dataclass"),
        (
            OfGrpc,
            "OfGrpc.put takes request, context: it must be one value; leave context out, or put several into one data",
        ),
        (Silent, "Silent.put does not say what it returns"),
        (Untyped, "Untyped.put does not say what key is"),
        (AwaitedStream, "AwaitedStream.watch returns an AsyncIterator: write def without async"),
        (Blocking, "Blocking.put must be async def for one answer, or return an AsyncIterator for a stream"),
        (Collecting, "Collecting.add takes an AsyncIterator, so it must return one, too"),
        (ToldAnswer, "ToldAnswer.put is @fire_and_forget: it must be async def, take one value and return None"),
        (ToldTwice, "ToldTwice.put is @idempotent: it must give an answer or a stream"),
        (NoSelf, r"NoSelf.put has no self, and a contract has nothing but methods: write \(self, key: str\)"),
        (NoParameter, r"NoParameter.put has no self, and a contract has nothing but methods: write \(self\)"),
        (postponed_contract.Hidden, "Hidden.put: the type 'Decimal' cannot be found; define it at the top"),
    ],
)
def test_a_class_that_is_no_contract_is_refused(contract: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Service("a", codec=JSON).implement(contract)


class Puts(Protocol):
    async def put(self, key: str) -> str: ...

    def watch(self, key: str) -> AsyncIterator[str]: ...


class Good:
    async def put(self, key: str) -> str:
        return key

    async def watch(self, key: str) -> AsyncIterator[str]:
        yield key


class NoWatch:
    async def put(self, key: str) -> str:
        return key


class TakesInt(Good):
    async def put(self, key: int) -> str:  # type: ignore[override]  # that is the mistake
        return ""


class GivesInt(Good):
    async def put(self, key: str) -> int:  # type: ignore[override]  # that is the mistake
        return 1


class Waits(Good):
    def put(self, key: str) -> str:  # type: ignore[override]  # that is the mistake
        return key


class TakesTwo(Good):
    async def put(self, key: str, value: str) -> str:  # type: ignore[override]  # that is the mistake
        return key


class TakesNothing(Good):
    async def put() -> str:  # type: ignore[misc, override]  # that is the mistake
        return ""


class PutsOnly(Puts):
    async def put(self, key: str) -> str:
        return key


class ReturnsList(Good):
    async def watch(self, key: str) -> list[str]:  # type: ignore[override]  # that is the mistake
        return [key]


@pytest.mark.parametrize(
    "implementation, text",
    [
        (NoWatch(), "NoWatch has no method watch, which Puts has"),
        (PutsOnly(), "PutsOnly has no method watch, which Puts has: add it to PutsOnly"),  # type: ignore[abstract]
        (Good, r"Good is a class: implement\(Puts\) takes an object, such as Good\(\)"),
        (TakesInt(), "TakesInt.put takes int, and Puts.put takes str"),
        (GivesInt(), "GivesInt.put gives int, and Puts.put gives str"),
        (Waits(), "Waits.put must be async def, as Puts.put is"),
        (TakesTwo(), r"TakesTwo.put\(key: str, value: str\) -> str does not fit Puts.put, which gives it one argument"),
        (
            TakesNothing(),
            r"TakesNothing.put\(\) does not fit Puts.put, which gives it one argument: write \(self, key\)",
        ),
        (ReturnsList(), "ReturnsList.watch must give an AsyncIterator, as Puts.watch does"),
    ],
)
def test_an_object_that_does_not_fit_is_refused_before_any_request(implementation: Any, text: str) -> None:
    service = Service("a", codec=JSON)
    with pytest.raises(TypeError, match=text):
        service.implement(Puts)(implementation)
    assert not service.routes["request_response"]._named


def test_what_a_protocol_does_itself_is_an_implementation() -> None:
    class Counts(Protocol):
        async def count(self, item: str) -> int:
            """Of this item."""
            return 5

        async def same(self, item: str) -> str:
            return item

        @fire_and_forget
        async def note(self, line: str) -> None:
            """Nothing."""

    class Own(Counts): ...

    with pytest.raises(TypeError, match=r"^Own has no method note, which Counts has: add it to Own$"):
        Service("a", codec=JSON).implement(Counts)(Own())  # type: ignore[abstract]  # likewise

    class Notes(Own):
        async def note(self, line: str) -> None: ...

    Service("a", codec=JSON).implement(Counts)(Notes())


def test_a_contract_that_is_given_no_object_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    service = Service("a", codec=JSON)
    service.implement(Puts)(Good())
    assert not caplog.messages
    service.implement(Puts)
    text = "service 'a': implement(Puts) was given no object, so it adds no handlers: write service.implement(Puts)"
    assert caplog.messages == [f"{text}(MyPuts())"]


def test_types_that_no_codec_has_are_refused_with_the_method() -> None:
    class Does:
        async def put(self, key: complex) -> None: ...

    with pytest.raises(TypeError, match=r"Complex.put: JSON has no complex: take a dataclass"):
        Service("a", codec=JSON).implement(Complex)(Does())
    with pytest.raises(TypeError, match=r"Puts.put: bytes cannot be decoded as str; give the handler or its service a"):
        Service("a").implement(Puts)(Good())


def test_a_wider_parameter_and_a_narrower_answer_fit() -> None:
    class Wide(Good):
        async def put(self, key: object) -> str:
            return str(key)

    Service("a", codec=JSON).implement(Puts)(Wide())
