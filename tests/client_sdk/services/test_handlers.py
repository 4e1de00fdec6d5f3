"""Handlers: what they are given, what becomes of what they give, and which are refused when they are written."""

import asyncio
import dataclasses
import functools
import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import Annotated, Any, TypedDict

import msgspec
import pytest

from client_sdk import Payload, Request, Service
from client_sdk.codecs import BYTES, JSON, Codec
from client_sdk.errors import ApplicationError, Refused
from client_sdk.metadata import OCTET_STREAM_MIME, entry_bytes, route_bytes
from client_sdk.services.responder import ServiceResponder
from client_sdk.streams import Inflow
from rsocket_wire.errors import INVALID
from tests.client_sdk.samples import cancel, gives
from tests.client_sdk.services.asking import ask, channel, data_mime, refusal, refused, stream, taken
from tests.client_sdk.services.postponed import postponed


class Book(msgspec.Struct):
    title: str
    price: int = 1


@dataclasses.dataclass
class Sold:
    title: str
    count_n: int


class Line(TypedDict):
    text: str


class Upper:
    """A codec of somebody's own."""

    mime_type = "text/upper"

    def decode(self, data: bytes, type: Any) -> str:
        if data == b"?":
            raise ValueError("a question mark is no word")
        return data.decode().lower()

    def encode(self, value: object) -> bytes:
        return str(value).upper().encode()


async def as_bytes(data: bytes) -> bytes:
    return data + data


async def as_payload(payload: Payload) -> Payload:
    return Payload(payload.data, b"m")


async def as_request(request: Request) -> dict[str, str]:
    return {request.route: request.data.decode()}


async def as_value(book: Book) -> Sold:
    return Sold(book.title, book.price)


async def as_both(book: Book, request: Request) -> list[str]:
    return [request.route, book.title]


async def as_other_way_round(request: Request, line: Line) -> list[str]:
    return [request.route, line["text"]]


async def as_whatever(value: Any) -> Any:
    return [value]


@pytest.mark.parametrize(
    ("handler", "data", "answer"),
    [
        (as_bytes, b"x", Payload(b"xx")),
        (as_payload, b"y", Payload(b"y", b"m")),
        (as_request, b"z", Payload(b'{"r":"z"}')),
        (as_value, b'{"title":"a"}', Payload(b'{"title":"a","count_n":1}')),
        (as_both, b'{"title":"b"}', Payload(b'["r","b"]')),
        (as_other_way_round, b'{"text":"c"}', Payload(b'["r","c"]')),
        (as_whatever, b"1", Payload(b"[1]")),
    ],
)
async def test_first_parameter_says_what_a_handler_is_given(handler: Any, data: bytes, answer: Payload) -> None:
    service = Service("s", codec=JSON)
    service.request_response("r")(handler)
    assert await ask(service, data, "r") == answer


async def test_data_that_does_not_fit_is_invalid_and_the_handler_is_not_asked() -> None:
    service = Service("s", codec=JSON)
    asked: list[Book] = []

    @service.request_response()
    async def sell(book: Book) -> int:
        asked.append(book)
        return book.price

    assert await refused(ask(service, b'{"title":1}')) == (
        "bad-payload",
        INVALID,
        "bad-payload: handler 'request_response' of service 's': Expected `str`, got `int` - at `$.title`",
    )
    assert asked == []
    assert await ask(service, b'{"title":"a","price":3}') == Payload(b"3")


async def test_items_of_streams_and_channels_are_values_too() -> None:
    service = Service("s", codec=JSON)

    @service.request_stream()
    async def count(book: Book) -> AsyncIterator[Sold]:
        for number in range(book.price):
            yield Sold(book.title, number)

    @service.request_channel()
    async def sums(numbers: AsyncIterator[int]) -> AsyncIterator[int]:
        total = 0
        async for number in numbers:
            total += number
            yield total

    assert await stream(service, b'{"title":"a","price":2}') == [
        b'{"title":"a","count_n":0}',
        b'{"title":"a","count_n":1}',
    ]
    assert await channel(service, b"1", b"2", b"3") == [b"1", b"3", b"6"]
    assert await refused(channel(service, b"1", b'"2"')) == (
        "bad-payload",
        INVALID,
        "bad-payload: handler 'request_channel' of service 's': Expected `int`, got `str`",
    )


async def test_channel_items_are_bytes_payloads_or_values_as_the_parameter_says() -> None:
    service = Service("s")
    seen: list[Any] = []

    @service.request_channel("bytes")
    async def as_bytes(items: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        seen.extend([item async for item in items])
        yield b"1"

    @service.request_channel("payloads")
    async def as_payloads(request: Request, items: AsyncIterator[Payload]) -> AsyncIterator[bytes]:
        seen.extend([request.model, *[item async for item in items]])
        yield b"2"

    @service.request_channel("request behind", codec=Upper())
    async def request_behind(items: AsyncIterator[str], request: Request) -> AsyncIterator[str]:
        seen.extend([request.model, *[item async for item in items]])
        yield "three"

    given = [
        await channel(service, b"A", b"B", metadata=route_bytes(route))
        for route in ("bytes", "payloads", "request behind")
    ]
    assert seen == [b"A", b"B", "request_channel", Payload(b"A"), Payload(b"B"), "request_channel", "a", "b"]
    assert given == [[b"1"], [b"2"], [b"THREE"]]


def twice_in(codecs: list[Codec], own: Codec | None = None) -> Service:
    """A service whose only handler doubles what its codec gives it."""
    service = Service("s", codecs=codecs)

    @service.request_response(codec=own)
    async def twice(value: Any) -> Any:
        return value + value

    return service


TWO: list[Codec] = [JSON, Upper()]
OCTETS = "application/octet-stream"


@pytest.mark.parametrize(
    ("service", "mime", "data", "answer"),
    [
        (twice_in(TWO), None, b'"ab"', b'"abab"'),  # the first one is meant where nothing is said
        (twice_in(TWO), OCTETS, b'"ab"', b'"abab"'),
        (twice_in(TWO), "application/json", b'"ab"', b'"abab"'),
        (twice_in(TWO), "text/upper", b"AB", b"ABAB"),
        (twice_in([JSON, BYTES]), OCTETS, b'"\xff"', b'"\xff""\xff"'),  # the bytes, where they are among the codecs
        (twice_in([JSON]), "text/css", b'"ab"', b'"abab"'),  # one alone, whatever the request says
        (twice_in([JSON], Upper()), None, b"ABC", b"ABCABC"),  # that of the handler comes before those of its service
    ],
)
async def test_the_codec_is_that_of_the_handler_or_of_the_mime_type_of_the_request(
    service: Service, mime: str | None, data: bytes, answer: bytes
) -> None:
    assert await ask(service, data, more=data_mime(mime) if mime else b"") == Payload(answer)


@pytest.mark.parametrize(
    ("mime", "data", "text"),
    [
        ("text/upper", b"?", "a question mark is no word"),
        ("text/css", b"AB", "data of text/css is not supported; send application/json, text/upper"),
    ],
)
async def test_data_that_no_codec_takes_is_refused(mime: str, data: bytes, text: str) -> None:
    assert await refused(ask(twice_in(TWO), data, more=data_mime(mime))) == (
        "bad-payload",
        INVALID,
        f"bad-payload: handler 'request_response' of service 's': {text}",
    )


async def test_values_that_the_codec_cannot_say_fail_as_any_mistake_of_a_handler_does() -> None:
    service = Service("s", codec=JSON)
    service.request_response()(gives(lambda _: 1j))
    service.request_response("bytes", codec=BYTES)(gives(lambda _: None))

    with pytest.raises(TypeError, match="complex"):
        await ask(service, b"")
    with pytest.raises(TypeError, match="what handler 'bytes' of service 's' returned is None"):
        await ask(service, b"", "bytes")


async def test_fire_and_forget_and_pushes_are_typed_and_give_nothing() -> None:
    service = Service("s", codec=JSON)
    seen: list[Book] = []

    @service.fire_and_forget()
    async def note(book: Book) -> None:
        seen.append(book)

    @service.metadata_push()
    async def pushed(book: Book) -> None:
        seen.append(book)

    responder = ServiceResponder(service)
    await responder.fire_and_forget(None, b'{"title":"a"}')
    await responder.metadata_push(entry_bytes(OCTET_STREAM_MIME, b'{"title":"b"}'))
    assert seen == [Book("a"), Book("b")]


async def test_objects_partials_and_methods_are_handlers_too() -> None:
    class Echo:
        async def __call__(self, data: bytes) -> bytes:
            return b"object " + data

        async def method(self, data: bytes) -> bytes:
            return b"method " + data

    async def named(name: bytes, data: bytes) -> bytes:
        return name + data

    service = Service("s")
    service.request_response("object")(Echo())
    service.request_response("method")(Echo().method)
    service.request_response("partial")(functools.partial(named, b"partial "))
    answers = [await ask(service, b"x", route) for route in ("object", "method", "partial")]
    assert answers == [Payload(b"object x"), Payload(b"method x"), Payload(b"partial x")]


async def test_parameters_with_a_default_are_the_programs_own() -> None:
    service = Service("s")
    for name in ("a", "b"):

        @service.request_response(name)
        async def answer(data: bytes, name: str = name, *rest: object, **more: object) -> bytes:
            return data + name.encode()

    assert [await ask(service, b"x", "a"), await ask(service, b"x", "b")] == [Payload(b"xa"), Payload(b"xb")]


async def test_functions_that_are_not_async_run_in_a_thread() -> None:
    service = Service("s", codec=JSON)
    here = threading.get_ident()

    @service.request_response("one")
    def one(number: int) -> list[Any]:
        return [number, threading.get_ident() != here]

    @service.request_stream("many")
    def many(number: int) -> Iterator[list[Any]]:
        for each in range(number):
            yield [each, threading.get_ident() != here]

    assert await ask(service, b"7", "one") == Payload(b"[7,true]")
    assert await stream(service, b"2", route_bytes("many")) == [b"[0,true]", b"[1,true]"]


async def test_async_function_that_does_not_look_so_is_awaited_and_keeps_its_turn_until_it_ends() -> None:
    service = Service("s")
    go = asyncio.Event()
    began: asyncio.Queue[bytes] = asyncio.Queue()

    async def work(data: bytes) -> bytes:
        began.put_nowait(data)
        await go.wait()
        return data

    @service.request_response(max_concurrency=1, max_waiting=0)
    @functools.wraps(work)
    def call(data: bytes) -> Any:
        return work(data)

    async with asyncio.timeout(5):
        first = asyncio.create_task(ask(service, b"1"))
        assert await began.get() == b"1"
        with pytest.raises(Refused, match="over-limit"):
            await ask(service, b"2")
        go.set()
        assert await first == Payload(b"1")
        assert await ask(service, b"3") == Payload(b"3")
        go.clear()
        last = asyncio.create_task(ask(service, b"4"))
        assert [await began.get(), await began.get()] == [b"3", b"4"]
        await cancel(last)
        go.set()
        assert await ask(service, b"5") == Payload(b"5")


def test_handlers_that_could_never_work_are_refused_when_they_are_written() -> None:
    service = Service("s")

    answer, items, channel = service.request_response(), service.request_stream(), service.request_channel()
    wrong: list[tuple[Any, str, str]] = [
        (answer, "def handle(request): yield", "write return in place of yield"),
        (answer, "async def handle(request): yield", "write return in place of yield"),
        (channel, "def handle(request): yield", "write async def, with yield"),
        (channel, "async def handle(request): pass", "with yield, not with return"),
        (items, "async def handle(request): pass", "with yield, not with return"),
        (service.fire_and_forget(), "async def handle(): pass", "1 or 2 parameters"),
        (answer, "async def handle(data: bytes, *, more: bytes): pass", "1 or 2 parameters"),
        (answer, "async def handle(book: Book): pass", "bytes cannot be decoded as Book"),
        (answer, "async def handle(text: str): pass", "bytes cannot be decoded as str"),
        (answer, "async def handle(one: bytes, two: bytes): pass", "beside it the request"),
        (
            answer,
            "async def handle(request, context): pass",
            "takes no context: leave it out, or put several values into one",
        ),
        (answer, "async def handle(request, response): pass", "takes no response: leave it out"),
        (answer, "async def handle(self, one, two): pass", "takes no self: leave it out"),
        (answer, "async def handle(one: bytes, two: Request, three: bytes): pass", "1 or 2 parameters"),
        (service.request_response(codec=JSON), "async def handle(v: list[int] | set[int]): pass", "one array-like"),
        (service.request_response(codec=JSON), "async def handle(v: 'Unknown'): pass", "the type 'Unknown' cannot be"),
    ]
    for decorator, source, text in wrong:
        names = dict(globals())
        exec(source, names)
        with pytest.raises(TypeError, match=text):
            decorator(names["handle"])
    with pytest.raises(TypeError, match="with parentheses"):
        service.request_response(as_bytes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not both"):
        service.request_response(codec=JSON, codecs=[JSON])
    with pytest.raises(ValueError, match="at least one codec"):
        Service("s", codecs=[])


async def test_stream_handler_that_yields_nothing_is_a_mistake_that_is_told() -> None:
    service = Service("s")

    @service.request_stream()
    def rows(request: Request) -> Any:
        return [b"1", b"2"]

    with pytest.raises(TypeError, match="gave list, it must yield its items"):
        await stream(service)


async def test_annotations_are_read_one_by_one_though_some_are_for_type_checkers_only() -> None:
    assert await ask(postponed, b'{"name":"a book"}', "price") == Payload(b"0.5")
    assert await channel(postponed, b"1", b"2", metadata=route_bytes("double")) == [b"2", b"4"]


def test_items_of_a_type_that_is_not_known_are_refused_when_the_handler_is_written() -> None:
    async def handle(items: "AsyncIterator[Nowhere]") -> AsyncIterator[bytes]:  # type: ignore[name-defined]  # noqa: F821
        async for _ in items:
            yield b""

    with pytest.raises(TypeError, match=re.escape("AsyncIterator[Nowhere]")):
        Service("s", codec=JSON).request_channel()(handle)


async def test_what_a_type_is_annotated_with_is_checked_and_means_nothing_for_bytes() -> None:
    service = Service("s", codec=JSON)

    @service.request_response("few")
    async def few(numbers: list[Annotated[int, msgspec.Meta(gt=0)]]) -> int:
        return len(numbers)

    @service.request_response("raw")
    async def raw(data: Annotated[bytes, "as it came"]) -> bytes:
        return data

    assert await ask(service, b"[1,2]", "few") == Payload(b"2")
    with pytest.raises(Refused, match="Expected `int` >= 1") as caught:
        await ask(service, b"[1,0]", "few")
    assert refusal(caught)[:2] == ("bad-payload", INVALID)
    assert await ask(service, b"{", "raw") == Payload(b"{")


def test_a_function_in_a_class_is_refused_with_what_to_write() -> None:
    service = Service("s")
    how = "after `obj = Shop()` write `service.request_response('...')(obj.sell)`, and no decorator in the class"
    with pytest.raises(TypeError, match=re.escape(how)):

        class Shop:
            @service.request_response()
            async def sell(self, request: Request) -> bytes:
                return request.data


async def test_a_handler_that_takes_the_request_for_bytes_is_told_of_in_its_failure() -> None:
    service = Service("s")

    @service.request_response("many", max_concurrency=2)
    @service.request_response("plain")
    async def length(body: Any) -> bytes:
        return b"%d" % len(body)

    @service.request_stream("items")
    async def items(body):  # type: ignore[no-untyped-def]  # the mistake
        yield body.decode()

    @service.fire_and_forget()
    async def note(body):  # type: ignore[no-untyped-def]  # the mistake
        json.loads(body)

    @service.request_response("own")
    async def own(body: Request) -> bytes:
        raise TypeError("a mistake of another kind")

    @service.request_response("answers")
    async def answers(body):  # type: ignore[no-untyped-def]  # the mistake
        await body.respond(b"")

    @service.request_response("item")
    async def item(body):  # type: ignore[no-untyped-def]  # the mistake
        return body["item"]

    async def notes_of(asking: Awaitable[object]) -> list[str]:
        with pytest.raises((TypeError, AttributeError)) as caught:
            await asking
        return [note for note in getattr(caught.value, "__notes__", []) if not note.startswith("handler ")]

    text = ["body is the Request: write `body: bytes` to be given its bytes, or body.data"]
    assert await notes_of(ask(service, b"", "plain")) == text
    assert await notes_of(ask(service, b"", "many")) == text
    assert await notes_of(stream(service, metadata=route_bytes("items"))) == text
    assert await notes_of(ServiceResponder(service).fire_and_forget(None, b"")) == text
    assert await notes_of(ask(service, b"", "own")) == []
    assert await notes_of(ask(service, b"", "answers")) == []
    value = "; for a value give it a type, as `body: dict[str, str]`, and its service codec=JSON"
    assert await notes_of(ask(service, b"", "item")) == [text[0] + value]


async def test_the_log_of_a_failure_names_the_handler() -> None:
    service = Service("s")

    @service.request_response("fails")
    async def fails(data: bytes) -> bytes:
        raise KeyError(data)

    @service.request_response("refuses")
    async def refuses(data: bytes) -> bytes:
        raise ApplicationError("none is left")

    for route, notes in (("fails", ["handler 'fails' of service 's'"]), ("refuses", [])):
        with pytest.raises((KeyError, ApplicationError)) as caught:
            await ask(service, b"", route)
        assert getattr(caught.value, "__notes__", []) == notes


class SoldOut(ApplicationError): ...


class Asleep(ApplicationError):
    default_word = "asleep"


async def test_a_class_that_its_callers_do_not_get_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    service = Service("s")

    @service.request_response("sell")
    async def sell(data: bytes) -> bytes:
        raise SoldOut("none is left")

    @service.request_response("wake")
    async def wake(data: bytes) -> bytes:
        raise Asleep("until 8")

    for route, kind in (("sell", SoldOut), ("sell", SoldOut), ("wake", Asleep)):
        with pytest.raises(kind):
            await ask(service, b"", route)
    assert caplog.messages == [
        "SoldOut reaches its callers as an ApplicationError: they know it by error.word, so write in the class "
        "default_word = 'sold-out'"
    ]


def test_what_a_handler_without_answer_returns_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    service = Service("s")

    @service.fire_and_forget("none")
    async def none(data: bytes) -> None: ...

    @service.fire_and_forget("any")
    async def untyped(data: bytes) -> Any: ...

    assert not caplog.messages

    @service.fire_and_forget("note")
    @service.request_response("note")
    async def note(data: bytes) -> dict[str, int]:
        return {}

    assert caplog.messages == [
        "handler 'note' of service 's' returns dict[str, int], which is dropped: a caller of fire_and_forget gets no "
        "answer; write -> None, or @….request_response()"
    ]


def test_a_context_that_is_the_data_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    @Service("s").request_response("note")
    async def note(request: Request, context):  # type: ignore[no-untyped-def]  # the mistake
        return b""

    @Service("s").request_response("typed")
    async def typed(request: Request, context: bytes) -> bytes:
        return context

    assert caplog.messages == [
        "context of a request_response handler is given the data: there is no context, so leave it out; if it is "
        "meant, give it a type"
    ]


@pytest.mark.parametrize("read", [iter, next, lambda items: items[0], lambda items: items.__await__()])
async def test_items_of_a_channel_are_not_read_at_once(read: Callable[[Any], object]) -> None:
    service = Service("s")

    @service.request_channel("payloads")
    async def payloads(items):  # type: ignore[no-untyped-def]  # the mistake
        yield read(items)

    @service.request_channel("data")
    async def of_bytes(items: AsyncIterator[bytes]) -> AsyncIterator[object]:
        yield read(items)

    for route in ("payloads", "data"):
        with pytest.raises(TypeError, match="come one by one: write `async for item in items:`"):
            await taken(ServiceResponder(service).request_channel(route_bytes(route), b"", Inflow(1, 0)))


class Depends:
    """As web frameworks have it."""


class Query:
    __module__ = "fastapi.params"


async def depends(data: bytes, db: Any = Depends()) -> bytes:  # noqa: B008
    return data


async def annotated(data: bytes, db: Annotated[int, Depends()]) -> bytes:
    return data


async def asks(data: bytes, page: Any = Query()) -> bytes:  # noqa: B008
    return data


def test_parameters_that_a_web_framework_would_give_are_refused_unless_a_decorator_may_give_them() -> None:
    depending = "nothing is injected as by Depends(); make it before the function, and leave the parameter out"
    for handler, text in (
        (depends, f"a request_response handler is given no db: {depending}"),
        (annotated, f"a request_response handler is given no db: {depending}"),
        (asks, "a request_response handler is given no page: nothing is injected as by Query(); put it into the data"),
    ):
        with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
            Service("s").request_response()(handler)
    given = functools.wraps(depends)(functools.partial(depends, db=None))
    Service("s").request_response()(given)


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        ((b"no such order", 404), "if 404 is its status, raise ApplicationError('...', word='not-found') in its place"),
        (
            (HTTPStatus.CONFLICT, b""),
            "if 409 is its status, raise ApplicationError('...', word='conflict') in its place",
        ),
        ({"status": 400}, "if 400 is its status, raise ApplicationError('...', word='bad-request') in its place"),
        (HTTPStatus.GONE, "if 410 is its status, raise ApplicationError('...', word='gone') in its place"),
        ((b"ok", 200, {}), "if 200 is its status, return its bytes alone"),
        ((b"ok", 3), ""),
        ((404, 200), ""),
        (404, ""),
    ],
)
async def test_an_answer_with_a_status_is_told_of(answer: object, advice: str) -> None:
    service = Service("s")

    @service.request_response()
    async def find(data: bytes) -> Any:
        return answer

    with pytest.raises(TypeError) as told:
        await ask(service, b"")
    codec = "other values need a codec, such as codec=JSON"
    assert str(told.value).partition("it must be bytes; ")[2] == "; ".join(filter(None, (advice, codec)))


async def test_an_answer_without_a_return_is_told_of() -> None:
    service = Service("s")

    @service.request_response()
    async def find(data: bytes) -> Any:
        answer = data  # noqa: F841

    with pytest.raises(TypeError, match=r"is None, it must be bytes or Payload: a return is missing, and b'' is an"):
        await ask(service, b"")


@pytest.mark.parametrize(
    ("route", "mend"),
    [
        ("items/{item}", "leave {item} out, and put it into the data"),
        ("/items/<int:item>", "leave <int:item> out, and put it into the data"),
        ("items/:item/parts", "leave :item out, and put it into the data"),
        ("orders.*", "a handler of all routes that have no other is @….request_stream()"),
        ("orders/#", "a handler of all routes that have no other is @….request_stream()"),
        ("orders:create", ""),
        ("/orders/create.v1", ""),
        ("a->b", ""),
    ],
)
def test_a_route_that_looks_like_a_pattern_is_told_of(route: str, mend: str, caplog: pytest.LogCaptureFixture) -> None:
    Service("s").request_stream(route)
    told = f"service 's': the route {route!r} is a name, callers write it as it stands: {mend}"
    assert caplog.messages == [told] * bool(mend)
