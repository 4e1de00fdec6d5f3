"""Mistakes of a program's first hour: each is one sentence that says what to do."""

import asyncio
import json
import re
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import broker as broker_package
import client_sdk
from client_sdk import (
    JSON,
    Hedging,
    NotConnected,
    Service,
    address,
    connect,
    fire_and_forget,
    multicast,
    offer,
    run,
    serve,
    shard,
    sync,
    testing,
)
from client_sdk.mistakes.arguments import SERVE_SEVERAL
from client_sdk.mistakes.operators import CLOSE_HOW
from client_sdk.mistakes.options import CALLED_ELSEWHERE, FUNCTIONS, NOT_CALLED_BACK
from client_sdk.services.service import HOW_SERVICE
from client_sdk.testing import local_broker
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.public.mistakes import MISTAKES, World, echo_service

CERTIFICATE = Path(__file__).parents[1] / "localhost.pem"
ERRORS = Path(__file__).parents[3] / "docs" / "errors.md"
URL = "tcp://127.0.0.1"
CODECS_HAVE = "a codec has mime_type, encode(value) and decode(data, type), as client_sdk.JSON has"
NO_CONTRACT = "no contract: it must be a class, such as class Orders(Protocol)"
INSTEAD = (
    "take a dataclass, a msgspec.Struct, a TypedDict or a model of pydantic, or say how with "
    "json_codec(enc_hook=..., dec_hook=...)"
)


class Half:
    """A codec that says no type."""

    def encode(self, value: object) -> bytes:
        return str(value).encode()

    def decode(self, data: bytes, type: object) -> object:
        return data.decode()


class Short(Half):
    """A codec that is given no type."""

    mime_type = "text/plain"

    def decode(self, data: bytes) -> object:  # type: ignore[override]
        return data.decode()


def rows() -> dict[str, str]:
    """What docs/errors.md says of each mistake."""
    section = ERRORS.read_text().partition("## What goes wrong first\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| (.+?) \| (`+) ?(.+?) ?\2 \|$", section, re.MULTILINE)
    assert len(found) == section.count("\n| ") - section.count("\n| mistake |")
    return {name: text for name, _, text in found}


def test_each_mistake_has_its_row() -> None:
    assert sorted(rows()) == sorted(MISTAKES)


@pytest.mark.parametrize(("name", "text"), rows().items(), ids=list(rows()))
async def test_the_docs_say_what_is_said(
    name: str, text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        local_broker(listen=["tcp", "ws"]) as url,
        connect(url, service=echo_service()),
        connect(url) as client,
        connect(url, codec=JSON) as values,
    ):
        try:
            said = await MISTAKES[name](World(url, client, values, tmp_path, lambda: last_line(caplog)))
        except Exception as error:
            said = str(error)
    caplog.clear()  # mistakes may fill it
    assert isinstance(said, str)
    pattern = ".*".join(map(re.escape, text.split("…")))
    assert re.fullmatch(pattern, said, re.DOTALL), said


def last_line(caplog: pytest.LogCaptureFixture) -> str:
    return caplog.text.rstrip().rpartition("\n")[2]


def unseen(value: object) -> Any:
    """What no type checker has seen."""
    return value


async def answer_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def answer_ssh(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"SSH-2.0-x\r\n\r\n")
    writer.close()


async def said_by(url: str, ssl: ssl.SSLContext | None = None) -> str:
    with pytest.raises(NotConnected) as caught:
        await connect(url, ssl=ssl)
    return caught.value.text.removeprefix(f"{url}: ")


async def test_a_scheme_that_the_other_side_does_not_speak() -> None:
    async with await asyncio.start_server(answer_http, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await said_by(f"tls://127.0.0.1:{port}") == (
            "the other side does not speak TLS: use tcp://, or ws:// for a WebSocket, in place of tls://"
        )
        assert await said_by(f"tcp://127.0.0.1:{port}") == (
            "the other side speaks HTTP: use ws:// for a WebSocket; at the REST port, the port of the broker (7878)"
        )


async def test_what_is_said_to_who_talks_plainly_to_tls_or_does_not_trust_it() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    async with await asyncio.start_server(answer_http, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        assert await said_by(f"tcp://127.0.0.1:{port}") == (
            "the other side closed the connection before it said anything; if it speaks TLS, use tls://"
        )
        assert await said_by(f"ws://127.0.0.1:{port}") == (
            "WebSocket: the other side closed the connection and answered nothing; if it is no WebSocket, use tcp://, "
            "and if it speaks TLS, use wss://"
        )
        assert await said_by(f"tls://127.0.0.1:{port}") == (
            "the certificate is not trusted: self-signed certificate; ssl=ssl.create_default_context(cafile=FILE) "
            "trusts its CA in FILE, as --ca FILE does for commands"
        )


async def test_behind_tls_the_scheme_that_is_advised_is_encrypted_too() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    trusting.check_hostname = False
    async with (
        await asyncio.start_server(answer_http, "127.0.0.1", 0, ssl=context) as http,
        await asyncio.start_server(answer_ssh, "127.0.0.1", 0, ssl=context) as other,
    ):
        assert await said_by(f"tls://127.0.0.1:{http.sockets[0].getsockname()[1]}", trusting) == (
            "the other side speaks HTTP: use wss:// for a WebSocket; at the REST port, the port of the broker (7878)"
        )
        assert await said_by(f"wss://127.0.0.1:{other.sockets[0].getsockname()[1]}", trusting) == (
            "WebSocket: the other side does not speak HTTP; if it is no WebSocket, use tls://"
        )


async def test_connect_without_async_with_says_how(broker: FakeBroker) -> None:
    connecting = connect(broker.url)
    with pytest.raises(AttributeError, match="no client yet, so it has no request_response: write `async with"):
        connecting.request_response  # noqa: B018
    with pytest.raises(AttributeError, match="'Connecting' object has no attribute 'foo'"):
        connecting.foo  # noqa: B018
    with pytest.raises(TypeError, match="write `async with"):
        connecting.__enter__()
    assert "async with" in repr(connecting)


async def test_run_where_a_loop_runs_says_what_to_use() -> None:
    with pytest.raises(RuntimeError, match=r"use `await serve\(\.\.\.\)`"):
        run("tcp://127.0.0.1", Service("s"))


async def test_a_client_of_another_loop_is_refused(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:

        async def ask() -> None:
            await client.request_response(address("x"))

        with pytest.raises(RuntimeError, match=r"belongs to another event loop.*run_coroutine_threadsafe"):
            await asyncio.to_thread(asyncio.run, ask())


async def test_clients_show_what_they_are(broker: FakeBroker) -> None:
    async with connect(broker.url, service="ledger") as client:
        assert repr(client) == f"<Client of ledger connected: {broker.url}, route {client.route_id}>"
    assert repr(client).startswith("<Client of ledger closed: ")
    assert client_sdk.__version__ == broker_package.VERSION


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: connect(unseen(None)), "the URL is NoneType, it must be str, such as tcp://127.0.0.1:7878"),
    (
        lambda: connect(URL, service=unseen(Service)),
        f"service= is the class Service, it must be a name or a Service: {HOW_SERVICE}",
    ),
    (
        lambda: offer(URL, unseen(print)),
        f"service= is builtin_function_or_method, it must be a name or a Service: {HOW_SERVICE}",
    ),
    (lambda: run(URL, unseen("orders")), f"service= is str, it must be a Service: {HOW_SERVICE}"),
    (lambda: unseen(run)(URL), "run(): missing a required argument: 'service'; write `run(url, service)`"),
    (lambda: connect(URL, **unseen({"timeout": 3})), "connect() has no argument timeout=; did you mean timeout_s=?"),
    (
        lambda: unseen(connect)(URL, "orders"),
        "connect(): too many positional arguments; write `connect(url, service=...)`",
    ),
    (lambda: unseen(run)(URL, Service("a"), drain=3), "run() has no argument drain=; did you mean drain_s=?"),
    (
        lambda: unseen(sync.connect)(URL, connect_timeout=3),
        "connect() has no argument connect_timeout=; did you mean connect_timeout_s=?",
    ),
    (
        lambda: unseen(Service("a")).request_response("b", limits=3),
        "@….request_response() has no argument limits=; it has codec=, codecs=, max_concurrency=, max_waiting=",
    ),
    (
        lambda: unseen(Service)("a", {"region": "eu"}),
        "Service(): too many positional arguments; write `Service('orders', tags={'region': 'eu'})`",
    ),
    (
        lambda: unseen(shard)("carts"),
        "shard(): missing a required argument: 'key'; write `shard('carts', key='user', user='ada')`",
    ),
    (
        lambda: connect(URL, service="a", tags=unseen(["b"])),
        "tags= is list, it must be a dict, such as {'region': 'eu'}",
    ),
    (lambda: connect(URL, ssl=unseen("ca.pem")), "ssl= is str, it must be ssl.create_default_context(cafile=FILE)"),
    (
        lambda: connect(URL, credentials=unseen("abc")),
        "credentials= is str, it must be Token('...'), Password('name', '...') or an async function that gives one",
    ),
    (lambda: connect(URL, retry=unseen(True)), "retry= is bool, it must be RetryPolicy()"),
    (lambda: connect(URL, hedging=unseen(0.1)), "hedging= is float, it must be Hedging(after_s=0.1)"),
    (lambda: connect(URL, codec=unseen("json")), "codec= is str, it must be a Codec, such as client_sdk.JSON"),
    (lambda: Service("a", codec=unseen(Half())), f"codec= is Half, which has no text as mime_type; {CODECS_HAVE}"),
    (
        lambda: connect(URL, codec=unseen(Short())),
        f"codec= is Short, whose decode takes other arguments; {CODECS_HAVE}",
    ),
    (
        lambda: Service("a", codec=unseen(Short)),
        "codec= is the class Short, it must be a Codec, such as client_sdk.JSON: write Short(...) for an object of it",
    ),
    (
        lambda: Service("a", codec=unseen(msgspec.msgpack.Encoder())),
        f"codec= is Encoder, which has no text as mime_type and no decode; {CODECS_HAVE}",
    ),
    (lambda: connect(URL, codec=unseen(json)), "codec= is module, it must be a Codec, such as client_sdk.JSON"),
    (lambda: Service(unseen(3)), "the name of a service is int, it must be str: Service('orders')"),
    (lambda: Service("a", tags=unseen(["b"])), "tags= is list, it must be a dict, such as {'region': 'eu'}"),
    (
        lambda: address("a", region=unseen(["eu", "us", "ap"])),
        "the value of tag region is list, it must be str or None; a tag has one value: "
        "make one address, or service, with region='eu' and one with region='us'",
    ),
    (
        lambda: unseen(address)("orders", "billing"),
        "address(): too many positional arguments; a route is route= of the call, and another service has an address "
        "of its own; write `address('orders', region='eu')`",
    ),
    (
        lambda: unseen(multicast)("orders", "billing"),
        "multicast(): too many positional arguments; a route is route= of the call, and several services have a tag in "
        "common, multicast(kind='store'); write `multicast('cache', region='eu')`",
    ),
    (
        lambda: unseen(shard)("orders", "user", "ada"),
        "shard(): too many positional arguments; key= names the tag by whose value the route is chosen; "
        "write `shard('carts', key='user', user='ada')`",
    ),
    (lambda: address("a", version=unseen(3)), "the value of tag version is int, it must be str or None; write str(3)"),
    (
        lambda: unseen(Service)("a", initial_n=3),
        "Service() has no argument initial_n=; initial_n= is of Client.request_stream(), Client.subscribe() and "
        "Client.request_channel()",
    ),
    (
        lambda: unseen(connect)("127.0.0.1", 7878),
        "connect(): too many positional arguments; write `connect('tcp://127.0.0.1:7878')`",
    ),
    (
        lambda: unseen(connect)(URL, max_reconnect_attempts=3),
        "connect() has no argument max_reconnect_attempts=; a client comes back by itself when its connection is lost, "
        "until it is closed: leave it out",
    ),
    (
        lambda: connect(URL, service=unseen([Service("a")])),
        "service= is list, it must be one of them: connect(url, service=...) for each",
    ),
    (
        lambda: unseen(connect)(URL, route="create"),
        "connect() has no argument route=; it is of calls: "
        "client.request_response(address('orders'), b'', route='create')",
    ),
    (
        lambda: unseen(connect)(URL, group_id="orders"),
        "connect() has no argument group_id=; the services of one name share its requests by themselves",
    ),
    (
        lambda: unseen(connect)(URL, pool_size=3),
        "connect() has no argument pool_size=; one connection carries all calls at the same time: leave it out",
    ),
    *(
        (
            lambda handler=handler: connect(URL, service="orders", handler=unseen(handler)),
            "handler= takes a class of rsocket-py, or a function without parameters that makes an object of one; "
            f"a function of your own is for a Service: {HOW_SERVICE}",
        )
        for handler in (answer_http, unseen)
    ),
    (
        lambda: unseen(connect)(servers=[URL]),
        "connect() has no argument servers=; the URLs come first: "
        "connect(['tcp://127.0.0.1:7878', 'tcp://127.0.0.1:7880'])",
    ),
    (
        lambda: unseen(Service)("a", handlers=[]),
        "Service() has no argument handlers=; decorate functions: @orders.request_response('create')",
    ),
    *(
        (lambda each=each: unseen(Service)("a", **{each: 1}), f"Service() has no argument {each}=; {how}")
        for each, how in (
            ("lifespan", "write it before and behind `await serve(url, service)`, in an async function"),
            ("dependencies", "nothing is injected: make it before the functions that use it"),
            ("middleware", "there are none: put it into a function around the call, or around the handler"),
            ("prefix", "the route has it: @orders.request_response('v1/create')"),
            ("version", "it is a tag: tags={'version': '1'}"),
            ("credentials", "it is of run(url, service), or connect(url, service=service)"),
        )
    ),
    (
        lambda: unseen(Service("a")).request_response("b", model="request_stream"),
        "@….request_response() has no argument model=; the decorator says it: @orders.request_stream('watch')",
    ),
    (
        lambda: unseen(Hedging)(jitter=1),
        "Hedging() has no argument jitter=; it has after_s=, budget=, quantile=: write `Hedging(after_s=0.1)`",
    ),
    (
        lambda: unseen(fire_and_forget)("note"),
        "@fire_and_forget is for functions, not for 'note': write @fire_and_forget before a method of a contract, "
        "without parentheses; a handler is decorated with @service.fire_and_forget('name')",
    ),
    (
        lambda: address("a", exclude_self=unseen(True)),
        "exclude_self= is of multicast('room', exclude_self=True); a tag of this name is given by "
        "tags={'exclude_self': ...}",
    ),
    (
        lambda: multicast("a", lb="random"),
        "lb= is of address('orders', lb='round_robin'); a tag of this name is given by tags={'lb': ...}",
    ),
    (
        lambda: address(unseen({"region": "eu"})),
        "the name of a service is dict, it must be str: address('orders')",
    ),
    (
        lambda: unseen(client_sdk.idempotent)(),
        "idempotent(): missing a required argument: 'method'; write `@idempotent`",
    ),
    (lambda: Service("a").implement(unseen(3)), f"an object of int is {NO_CONTRACT}"),
    (
        lambda: Service("a").request_response("b")(unseen(None)),
        "a handler is a function, not NoneType: write @….request_response('name') before `async def`",
    ),
    (
        lambda: unseen(Service("a")).drain(drain_s=3),
        "Service.drain() has no argument drain_s=; it has timeout_s=: write `await service.drain(timeout_s=10)`",
    ),
    (
        lambda: unseen(Service("a")).request_response("b", name="b"),
        "@….request_response() has no argument name=; the route stands first: @orders.request_response('create')",
    ),
    (
        lambda: unseen(Service("a")).request_response("b", queue="b"),
        "@….request_response() has no argument queue=; the services of one name share its requests by themselves",
    ),
    (
        lambda: unseen(Service("a")).health_check(interval=5),
        "Service.health_check() has no argument interval=; did you mean every_s=?",
    ),
    (
        lambda: unseen(run)(URL, Service("a"), reload=True),
        "run() has no argument reload=; end the program, and start it again",
    ),
    (
        lambda: unseen(Service)("a", url=URL),
        "Service() has no argument url=; it is of run(url, service), or connect(url, service=service)",
    ),
    (lambda: Service("a").set_tags(unseen(None)), "tags= is NoneType, it must be a dict: {} for no tags"),
    (lambda: setattr(Service("a"), "tags", {}), "write `await service.set_tags({'region': 'us'})`"),
    (
        lambda: unseen(Service("a").tags).update(region="us"),
        "tags are changed by `await service.set_tags({**service.tags, 'region': 'us'})`",
    ),
    (lambda: unseen(run)(URL, Service("a"), Service("b")), f"run() takes one Service: {SERVE_SEVERAL}"),
    (lambda: unseen(run)(URL, [Service("a")]), f"service= is list, it must be one Service: {SERVE_SEVERAL}"),
    (lambda: serve(URL, Service("a"), stop=unseen(True)), "stop= is builtins.bool, it must be asyncio.Event()"),
    (lambda: offer(unseen(Service("a")), unseen(URL)), "the URL comes first: write `offer(url, service)`"),
    (
        lambda: unseen(offer(URL, Service("a"))).__enter__(),
        "not `with offer(...)`: write `async with offer(...) as group:`, or `group = await offer(...)`",
    ),
    (
        lambda: unseen(client_sdk.ApplicationError)("sold-out", "none is left"),
        "ApplicationError(): too many positional arguments; write `ApplicationError('none is left', word='sold-out')`",
    ),
    (
        lambda: client_sdk.ApplicationError("x", code=unseen("404")),
        "code= is '404', it must be 0x201 or 0x301..0xfffffffe: leave it out, and name the failure by a word, such as "
        "word='not-found'",
    ),
    (
        lambda: unseen(client_sdk.ApplicationError)("no order 42", status_code=404),
        "ApplicationError() has no argument status_code=; a word names the failure: ApplicationError('no order 42', "
        "word='not-found')",
    ),
    (
        lambda: unseen(client_sdk.ApplicationError)("no order 42", details={}),
        "ApplicationError() has no argument details=; callers get the text, the word and the code, nothing else: put "
        "it into the text",
    ),
    (
        lambda: unseen(client_sdk.ApplicationError)(404),
        "the text is int, it must be str: write ApplicationError('none is left', word='sold-out')",
    ),
    (lambda: address("a", lb=unseen(1)), "lb is int, it must be str: the name of a method (docs/choosing.md)"),
    (lambda: JSON.encode(object()), f"JSON has no object: {INSTEAD}"),
]


@pytest.mark.parametrize(("mistake", "text"), WRONG, ids=[text for _, text in WRONG])
async def test_what_is_no_argument_is_named(mistake: Callable[[], object], text: str) -> None:
    async def make() -> None:
        given = mistake()
        if isinstance(given, Awaitable):
            await given

    with pytest.raises(TypeError) as caught:
        await make()
    assert str(caught.value) == text


def test_what_is_proposed_for_the_names_of_others_is_an_option_and_they_are_none_beside_it() -> None:
    for how, names in CALLED_ELSEWHERE.items():
        having = [known for known in FUNCTIONS.values() if how.partition("=")[0] in known]
        assert having
        assert how.partition("=")[0] not in names


@pytest.mark.parametrize("timeout_s", [-1, 0, float("nan")])
async def test_a_deadline_that_is_over_before_the_call_is_refused_and_nothing_sent(
    broker: FakeBroker, timeout_s: float
) -> None:
    text = f"timeout_s is {timeout_s}, it must be a number of seconds above 0; math.inf: no deadline"
    with pytest.raises(ValueError, match=text):
        connect(broker.url, timeout_s=timeout_s)
    async with connect(broker.url) as client:
        for call in (client.request_response, client.fire_and_forget):
            with pytest.raises(ValueError, match=text):
                await call(address("x"), timeout_s=timeout_s)


async def test_what_is_no_argument_of_a_call_is_named(broker: FakeBroker) -> None:
    async with connect(broker.url, codec=JSON) as client:
        to = address("x")
        calls: list[tuple[Callable[[], Awaitable[object]], str]] = [
            (
                lambda: client.request_response(unseen("x")),
                "the address is str: write address('x')",
            ),
            (
                lambda: client.request_response(unseen("orders.create")),
                "the address is str: write address('orders'), and route='create' in the call, or "
                "address('orders.create') where that is the service's name",
            ),
            (
                lambda: client.request_response(unseen("orders.*")),
                "the address is str: write address('orders'), which takes no wildcards",
            ),
            (
                lambda: client.request_response(unseen("tcp://x")),
                "the address is str; a URL is of connect(url), and the address names the service: address('orders')",
            ),
            (lambda: client.gather(unseen("x")), "the address is str: write multicast('x')"),
            (
                lambda: client.metadata_push(to, unseen({"a": 1})),
                "metadata is dict, it must be bytes; write json.dumps(value).encode(), and "
                "mime_type='application/json'",
            ),
            (
                lambda: unseen(client).request_response(to="orders", route="create"),
                "Client.request_response() has no argument to=; the address comes first: write "
                "`client.request_response(address('orders'), b'...', route='create')`",
            ),
            (
                lambda: unseen(client).fire_and_forget(subject="orders"),
                "Client.fire_and_forget() has no argument subject=; the address comes first: write "
                "`client.fire_and_forget(address('orders'), b'...', route='create')`",
            ),
            (
                lambda: unseen(client).gather(service="orders"),
                "Client.gather() has no argument service=; the address comes first: write "
                "`client.gather(multicast('stock'), b'book', route='count')`",
            ),
            (
                lambda: unseen(client).request_response(route="create"),
                "the address is missing: it comes first, as address('orders')",
            ),
            (
                lambda: client.request_response(to, route=unseen(3)),
                "route= is int, it must be str: the name of a handler",
            ),
            (
                lambda: client.request_response(to, timeout_s=unseen("3")),
                "timeout_s is str, it must be a number of seconds, or None; write 3, or float(...) around it",
            ),
            (
                lambda: unseen(client).request_response(to, headers={"x-request-id": "7"}),
                "Client.request_response() has no argument headers=; write metadata={'text/plain': b'...'}",
            ),
            (
                lambda: unseen(client).metadata_push(to, headers={}),
                "Client.metadata_push() has no argument headers=; "
                "metadata= are bytes, and mime_type= says of what kind",
            ),
            (
                lambda: unseen(client).request_response(to, callback=print),
                f"Client.request_response() has no argument callback=; {NOT_CALLED_BACK}",
            ),
            (
                lambda: unseen(client).fire_and_forget(to, cb=print),
                "Client.fire_and_forget() has no argument cb=; nobody answers it, and request_response has an answer",
            ),
            (
                lambda: unseen(client).gather(to, cb=print),
                "Client.gather() has no argument cb=; nobody is called back: it gives all answers",
            ),
            (
                lambda: anext(client.subscribe(to, resume=unseen(5))),
                "resume= is int, it must be a function of the last item, such as lambda last: last "
                "(of a Payload: last.data)",
            ),
            (
                lambda: anext(client.subscribe(to, resume=unseen(True))),
                "resume= is bool, it must be a function of the last item, such as lambda last: last "
                "(of a Payload: last.data); leave it out to send the same each time; "
                "sessions are resumed by connect(url, resume=True)",
            ),
            (
                lambda: client.request_response(to, returns=unseen("Order")),
                "returns= is the text 'Order', it must be the type itself, without quotes",
            ),
            (
                lambda: anext(client.request_channel(to, unseen([b"a"]))),
                "the items of a channel are list, they must be an async iterable, such as what an async function "
                "with yield gives: write `async def items():`, in it `for item in ...: yield item`, and give the call "
                "items()",
            ),
            (
                lambda: unseen(client).request_response(to, 1, 2),
                "Client.request_response() takes the address and the data, then names only; write request_response(to, "
                "data) with one value as data, such as a dataclass of several, and names behind it (route='...')",
            ),
            (
                lambda: unseen(client).request_response(to, b"x", "sum"),
                "Client.request_response() takes the address and the data, then names only; "
                "write request_response(to, data, route='sum')",
            ),
            (
                lambda: client.request_response(to, **unseen({"timeout": 3})),
                "Client.request_response() has no argument timeout=; did you mean timeout_s=?",
            ),
            (
                lambda: unseen(client).fire_and_forget(to, b"x", "line"),
                "Client.fire_and_forget() takes the address and the data, then names only; "
                "write fire_and_forget(to, data, route='line')",
            ),
            (
                lambda: client.fire_and_forget(to, **unseen({"rout": "a"})),
                "Client.fire_and_forget() has no argument rout=; did you mean route=?",
            ),
            (
                lambda: client.metadata_push(to, b"", **unseen({"timeout": 3})),
                "Client.metadata_push() has no argument timeout=; did you mean timeout_s=?",
            ),
            (
                lambda: anext(client.request_stream(to, **unseen({"limit": 3}))),
                "Client.request_stream() has no argument limit=; leave the loop by break; initial_n= says how many the "
                "service may send before the first is read",
            ),
            (
                lambda: anext(client.subscribe(to, **unseen({"cb": print}))),
                "Client.subscribe() has no argument cb=; nobody is called back: write `async for item in ...:`, "
                "in a task of its own where other work goes on; without async `for`, in a thread",
            ),
            (
                lambda: anext(client.request_stream(to, **unseen({"colour": 3}))),
                "Client.request_stream() has no argument colour=; it has address=, data=, idempotent=, initial_n=, "
                "metadata=, retry=, returns=, route=, timeout_s=, wait_for_reconnect=: write "
                "`client.request_stream(address('clock'), b'', route='ticks')`",
            ),
            (
                lambda: unseen(client).set_tags(version="2"),
                "Client.set_tags() has no argument version=; it has tags=: "
                "write `await client.set_tags({'region': 'us'})`",
            ),
            (lambda: client.request_response(to, object()), f"JSON has no object: {INSTEAD}"),
        ]
        for call, text in calls:
            with pytest.raises(TypeError) as caught:
                await call()
            assert str(caught.value) == text


async def test_what_is_awaited_looped_over_or_entered_wrongly_says_how(broker: FakeBroker) -> None:
    async with connect(broker.url, service=Service("x")) as client:
        stream, gathering = unseen(client.request_stream(address("x"))), unseen(client.gather(multicast("x")))
        how = "write `async for item in stream:`, or `await anext(stream)` for one item"
        tried: list[tuple[Callable[[], object], str]] = [
            (lambda: stream.__await__(), f"a stream is not awaited: {how}"),
            (
                lambda: list(stream),
                f"a stream is read in an event loop: {how}; without async use client_sdk.sync",
            ),
            (lambda: stream.__enter__(), "a stream is closed in an event loop: write `async with`, not `with`"),
            (
                lambda: list(gathering),
                "answers are awaited: write `await client.gather(...)`, or `async for` for one by one",
            ),
            (lambda: unseen(client).__aenter__(), f"this client is connected already: {CLOSE_HOW}"),
            (lambda: unseen(client).__enter__(), f"this client is connected already: {CLOSE_HOW}"),
            (
                lambda: aiter(unseen(client)),
                "a client is not read: a stream is, or `async for change in client.changes():`",
            ),
        ]
        for attempt, text in tried:
            with pytest.raises(TypeError) as caught:
                attempt()
            assert str(caught.value) == text
        with pytest.raises(TypeError) as caught:
            await stream
        assert str(caught.value) == f"a stream is not awaited: {how}"


async def test_a_client_that_nobody_holds_and_nobody_closed_is_told_of(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect(broker.url)
    text, manager = f"unclosed {client!r}: {CLOSE_HOW}", client._manager
    with pytest.warns(ResourceWarning) as warned:
        del client
    assert [str(each.message) for each in warned] == [text]
    assert [record.getMessage() for record in caplog.records] == [text]
    await manager.close()


def test_what_modules_beside_the_sdk_have_not_is_told() -> None:
    for module, name, text in (
        (sync, "serve", "write `run(url, service)`, with `from client_sdk import run`"),
        (sync, "gather", "a client has it: client.gather(multicast('stock'), route='count')"),
        (sync, "local_broker", "write `from client_sdk.testing import sync_local_broker`"),
        (testing, "Broker", "write `async with local_broker() as url:`"),
        (testing, "connect", "write `from client_sdk import connect`"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(module, name)
        assert str(caught.value) == f"module {module.__name__!r} has no attribute {name!r}: {text}"


async def test_a_route_that_no_caller_can_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"route 'rrr.*' has 300 bytes, it must have at most 255"):
        Service("a").request_response("r" * 300)


async def test_what_groups_and_offerings_have_not_is_told(broker: FakeBroker) -> None:
    offering = unseen(offer(broker.url, Service("a"), connections=1))
    with pytest.raises(AttributeError, match=r"it is no group yet: write `async with offer\(...\) as group:`"):
        offering.clients  # noqa: B018
    async with offering as group:
        with pytest.raises(AttributeError, match=r"its clients have it: group.clients\[0\]"):
            group.request_response  # noqa: B018
