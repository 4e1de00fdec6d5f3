"""Options of connections, policies and credentials that can never work: each is refused at once, and told how."""

from __future__ import annotations

import errno
import math
import ssl
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from client_sdk import (
    NO_RETRY,
    Client,
    Hedging,
    NotConnected,
    Password,
    RetryBudget,
    RetryPolicy,
    Service,
    Token,
    address,
    connect,
    json_codec,
    multicast,
    offer,
    run,
    sync,
)
from client_sdk.io.dial import Target
from client_sdk.mistakes.kinds import NUMBER, check_kind
from client_sdk.reconnect import brokers
from tests.client_sdk.fake_broker import FakeBroker

URL = "tcp://127.0.0.1:7878"


def unseen(value: object) -> Any:
    """What no type checker has seen."""
    return value


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context()


async def fetch() -> Token:
    return Token("t")


SCHEME = "the scheme must be one of tcp://, tls://, ws://, wss://, unix://"
ABOVE_0 = "it must be a number of seconds above 0"
KINDS: list[tuple[Callable[[], object], str]] = [
    (lambda: connect(unseen(b"tcp://x")), "the URL is bytes, it must be str, such as tcp://127.0.0.1:7878"),
    (
        lambda: connect(unseen(("127.0.0.1", "7878"))),
        "the URL is a host and a port, it must be str: write 'tcp://127.0.0.1:7878'",
    ),
    (
        lambda: connect(unseen(("127.0.0.1", 7878))),
        "the URL is a host and a port, it must be str: write 'tcp://127.0.0.1:7878'",
    ),
    (lambda: connect(URL, retry=unseen(None)), "retry= is None: leave it out, or write retry=NO_RETRY"),
    (lambda: sync.connect(URL, retry=unseen(None)), "retry= is None: leave it out, or write retry=NO_RETRY"),
    (lambda: connect(URL, retry=unseen(3)), "retry= is int, it must be RetryPolicy(attempts=3)"),
    (lambda: connect(URL, retry=unseen(0)), "retry= is int, it must be NO_RETRY, or left out"),
    (lambda: connect(URL, retry=unseen(False)), "retry= is bool, it must be NO_RETRY, or left out"),
    (lambda: connect(URL, retry=unseen(RetryPolicy)), "retry= is the class RetryPolicy, it must be RetryPolicy()"),
    (lambda: connect(URL, retry=unseen(RetryBudget())), "retry= is RetryBudget, it must be RetryPolicy(budget=...)"),
    (lambda: connect(URL, hedging=unseen(True)), "hedging= is bool, it must be Hedging()"),
    (lambda: connect(URL, hedging=unseen(False)), "hedging= is bool, it must be left out"),
    (lambda: connect(URL, hedging=unseen(Hedging)), "hedging= is the class Hedging, it must be Hedging()"),
    (lambda: connect(URL, hedging=unseen(timedelta(0, 2))), "hedging= is timedelta, it must be Hedging(after_s=2)"),
    (lambda: RetryPolicy(budget=unseen(10)), "budget= is int, it must be RetryBudget(min_per_s=10)"),
    (lambda: RetryPolicy(budget=unseen(0.1)), "budget= is float, it must be RetryBudget(ratio=0.1)"),
    (lambda: RetryPolicy(budget=unseen(RetryBudget)), "budget= is the class RetryBudget, it must be RetryBudget()"),
    (lambda: Hedging(budget=unseen("10")), "budget= is str, it must be RetryBudget()"),
    (
        lambda: RetryPolicy(attempts=unseen("3")),
        "attempts is str, it must be a whole number; write 3, or int(...) around it",
    ),
    (lambda: RetryPolicy(attempts=unseen(3.0)), "attempts is float, it must be a whole number; write 3"),
    (
        lambda: RetryPolicy(attempts=unseen(math.inf)),
        "attempts is float, it must be a whole number: write `RetryPolicy(attempts=3)`",
    ),
    (
        lambda: RetryPolicy(first_delay_s=unseen("0.5s")),
        "first_delay_s is str, it must be a number of seconds; write 0.5",
    ),
    (
        lambda: RetryPolicy(try_timeout_s=unseen(timedelta(seconds=1.5))),
        "try_timeout_s is timedelta, it must be a number of seconds, or None; write 1.5",
    ),
    (
        lambda: RetryPolicy(attempts=unseen(timedelta(0, 2))),
        "attempts is timedelta, it must be a whole number: write `RetryPolicy(attempts=3)`",
    ),
    (
        lambda: RetryPolicy(attempts=unseen("2.5")),
        "attempts is str, it must be a whole number: write `RetryPolicy(attempts=3)`",
    ),
    (lambda: Hedging(quantile=unseen(timedelta(0, 2))), "quantile is timedelta, it must be a number"),
    (lambda: RetryBudget(unseen("0.2")), "ratio is str, it must be a number; write 0.2, or float(...) around it"),
    (lambda: RetryBudget(min_per_s=unseen(None)), "min_per_s is NoneType, it must be a number"),
    (
        lambda: Hedging(unseen("50ms")),
        "after_s is str, it must be a number of seconds, or None: write `Hedging(after_s=0.1)`",
    ),
    (
        lambda: Hedging(quantile=unseen("0.9")),
        "quantile is str, it must be a number; write 0.9, or float(...) around it",
    ),
    (
        lambda: unseen(Password)("s"),
        "Password(): missing a required argument: 'password'; write `Password('name', 'secret')`",
    ),
    (lambda: unseen(Token)(), "Token(): missing a required argument: 'token'; write `Token('...')`"),
    (lambda: unseen(Token)("a", "b"), "Token(): too many positional arguments; write `Token('...')`"),
    (
        lambda: Token(unseen(None)),
        "the token is NoneType, it must be str: is an environment variable missing?",
    ),
    (
        lambda: Password("ada", unseen(None)),
        "the password is NoneType, it must be str: is an environment variable missing?",
    ),
    (lambda: Password("ada", unseen(b"s")), "the password is bytes, it must be str; write it with .decode()"),
    (lambda: Password(unseen(7), "s"), "the name is int, it must be str"),
    (
        lambda: connect(URL, credentials=unseen(("ada", "secret"))),
        "credentials= is tuple, it must be Password(name, password) of the two",
    ),
    (
        lambda: connect(URL, credentials=unseen(("Bearer", "secret"))),
        "credentials= is tuple, it must be Token('...'), Password('name', '...') or an async function that gives one",
    ),
    (
        lambda: connect(URL, credentials=unseen(fetch())),
        "credentials= is coroutine, it must be the async function itself, without ()",
    ),
    (
        lambda: connect(URL, service="a", route_id=unseen(uuid.uuid4())),
        "route_id= is UUID, it must be text: str(...) of it",
    ),
    (
        lambda: connect(URL, service="a", route_id=unseen(7)),
        "route_id= is int, it must be a UUID as text; a name is instance=",
    ),
    (
        lambda: connect(URL, service="a", instance=unseen(3)),
        "instance= is int, it must be a name, such as 'orders-1'",
    ),
    (
        lambda: offer(URL, Service("a"), instance=unseen(3)),
        "instance= is int, it must be a name, such as 'orders-1'",
    ),
    (
        lambda: offer(URL, Service("a"), connections=unseen("2")),
        "connections is str, it must be a whole number; write 2, or int(...) around it",
    ),
    (
        lambda: connect(URL, mime_type=unseen(3)),
        "mime_type= is int, it must be left out, or 'message/x.rsocket.broker.frame.v0' for the Java broker",
    ),
    (
        lambda: connect(URL, ssl=unseen(False)),
        "ssl= is bool, it must be left out: tcp:// and ws:// are not encrypted",
    ),
    (lambda: connect(URL, resume=unseen("yes")), "resume is str, it must be True or False"),
    (lambda: connect(URL, resume=unseen(3)), "resume is int, it must be True or False"),
    (lambda: connect(URL, tracing=unseen("no")), "tracing is str, it must be True or False"),
    (lambda: connect(URL, says_deadlines=unseen(1)), "says_deadlines is int, it must be True or False"),
    (
        lambda: connect(URL, fragment_bytes=unseen("64")),
        "fragment_bytes is str, it must be a whole number; write 64, or int(...) around it",
    ),
    (lambda: connect(URL, lease=unseen(100)), "lease= is int, it must be (requests, seconds), such as (100, 1.0)"),
    (
        lambda: connect(URL, lease=unseen((100,))),
        "lease= is (100,), it must be (requests, seconds), such as (100, 1.0)",
    ),
    (
        lambda: connect(URL, keepalive_s=unseen("5")),
        "keepalive_s is str, it must be a number of seconds; write 5, or float(...) around it",
    ),
    (
        lambda: connect(URL, connect_timeout_s=unseen(timedelta(0, 3))),
        "connect_timeout_s is timedelta, it must be a number of seconds; write 3",
    ),
    (
        lambda: connect(URL, wait_for_reconnect=unseen(timedelta(0, 3))),
        "wait_for_reconnect is timedelta, it must be True, False, or a number of seconds; write 3",
    ),
    (
        lambda: connect(URL, timeout_s=unseen(timedelta(0, 3))),
        "timeout_s is timedelta, it must be a number of seconds, or None; write 3",
    ),
]
OR_ELSE = ", or leave ssl= out where the broker speaks no TLS"
VALUES: list[tuple[Callable[[], object], str]] = [
    (
        lambda: connect(URL, ssl=trusting()),
        f"ssl= needs tls:// or wss://, and {URL} is not encrypted: write tls://127.0.0.1:7878{OR_ELSE}",
    ),
    (
        lambda: connect("ws://broker.example/path", ssl=trusting()),
        "ssl= needs tls:// or wss://, and ws://broker.example/path is not encrypted: write wss://broker.example/path"
        + OR_ELSE,
    ),
    (
        lambda: connect(["tls://a.example", "tcp://b.example"], ssl=trusting()),
        "ssl= needs tls:// or wss://, and tcp://b.example is not encrypted: write tls://b.example",
    ),
    (
        lambda: sync.connect(URL, ssl=trusting()),
        f"ssl= needs tls:// or wss://, and {URL} is not encrypted: write tls://127.0.0.1:7878{OR_ELSE}",
    ),
    (
        lambda: offer(URL, Service("a"), ssl=trusting()),
        f"ssl= needs tls:// or wss://, and {URL} is not encrypted: write tls://127.0.0.1:7878{OR_ELSE}",
    ),
    (
        lambda: connect("unix:///run/broker.sock", ssl=trusting()),
        "ssl= needs tls:// or wss://; a Unix socket needs no encryption: leave ssl= out",
    ),
    (
        lambda: connect("tls://127.0.0.1", ssl=ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)),
        "ssl= is a context for servers: write ssl.create_default_context(cafile=FILE)",
    ),
    (
        lambda: connect("tcp://::1:21878"),
        "'tcp://::1:21878': an address of IPv6 stands in brackets: write tcp://[::1]:21878",
    ),
    (
        lambda: connect("ws://fe80::1/to"),
        "'ws://fe80::1/to': an address of IPv6 stands in brackets: write ws://[fe80::1]/to",
    ),
    (
        lambda: connect("tcp://::1:7878"),
        "'tcp://::1:7878': an address of IPv6 stands in brackets: write tcp://[::1]:7878 or tcp://[::1:7878]",
    ),
    (
        lambda: connect("unix://broker.sock"),
        "'unix://broker.sock': a unix URL has an absolute path: write unix:///…/broker.sock",
    ),
    (
        lambda: connect("unix:run/x.sock"),
        "'unix:run/x.sock': a unix URL has an absolute path: write unix:///…/x.sock",
    ),
    (
        lambda: connect("tcp://127.0.0.1:0"),
        "'tcp://127.0.0.1:0': the port must be a number of 1..65535; without one it is 7878, of a WebSocket 7879",
    ),
    (
        lambda: connect("tcp://127.0.0.1:7878?timeout=3"),
        "'tcp://127.0.0.1:7878?timeout=3': tcp:// has no options, leave what is behind the ? out",
    ),
    (lambda: connect(URL, connect_timeout_s=0), f"connect_timeout_s is 0, {ABOVE_0}"),
    (lambda: connect(URL, connect_timeout_s=-1), f"connect_timeout_s is -1, {ABOVE_0}"),
    (lambda: connect(URL, connect_timeout_s=math.nan), f"connect_timeout_s is nan, {ABOVE_0}"),
    (lambda: connect(URL, keepalive_s=0), f"keepalive_s is 0, {ABOVE_0}"),
    (lambda: connect(URL, lifetime_s=-3), f"lifetime_s is -3, {ABOVE_0}"),
    (
        lambda: connect(URL, keepalive_s=30),
        "keepalive_s is 30 and lifetime_s is 20.0, it must be keepalive_s <= lifetime_s; "
        "write lifetime_s=120, or a shorter keepalive_s=",
    ),
    (
        lambda: connect(URL, lifetime_s=math.inf),
        "lifetime_s is inf, it must be at most 2147483; leave it out for 20 s",
    ),
    (
        lambda: connect(URL, service="orders", route_id="orders-1"),
        "route_id= 'orders-1' is no id: a uuid, 32 hexadecimal digits or Id{uuid} is; "
        "a name is instance='orders-1', and without both it is random",
    ),
    (
        lambda: connect(URL, route_id="abc"),
        "route_id= 'abc' is no id: a uuid, 32 hexadecimal digits or Id{uuid} is; leave it out for a random one",
    ),
    (
        lambda: connect(URL, mime_type="application/json"),
        "mime_type='application/json' is a type of data, and it is that of broker frames: "
        "leave it out; codec=JSON is for JSON",
    ),
    (
        lambda: connect("tcp://a..b"),
        "'tcp://a..b': the host is no name: it must have 1..63 characters between dots",
    ),
    (lambda: RetryPolicy(attempts=0), "attempts is 0, it must be at least 1 (which means no retry)"),
    (
        lambda: RetryPolicy(first_delay_s=5),
        "first_delay_s is 5 and max_delay_s is 1.0, it must be 0 <= first <= max; "
        "lower first_delay_s=, or raise max_delay_s=",
    ),
    (
        lambda: connect(URL, keepalive_s=5000),
        "keepalive_s is 5000 and lifetime_s is 20.0, it must be keepalive_s <= lifetime_s; "
        "write lifetime_s=20000, or keepalive_s=5 for milliseconds",
    ),
    *(
        (lambda url=url: connect(url), f"{url!r}: {SCHEME}; write {meant}")
        for url, meant in {
            "./run/x.sock": "unix:///…/x.sock",
            "broker.sock": "unix:///…/broker.sock",
            "file:///run/x.sock": "unix:///run/x.sock",
            "/run/x.sock": "unix:///run/x.sock",
            "//broker:7878": "tcp://broker:7878",
            "": "tcp://127.0.0.1",
            "https://b:1": "tls://b:PORT, or wss://b:PORT for a WebSocket, with the port of the broker (usually 7878, "
            "7879); https:// is of the REST API",
        }.items()
    ),
    (lambda: connect("tcp://a b:1 "), "'tcp://a b:1 ': a blank ends the URL: write tcp://a b:1"),
    (lambda: connect("tcp://a; tcp://b "), "several URLs are a list: connect(['tcp://a', 'tcp://b'])"),
    (lambda: connect("TLS://a,b"), "several URLs are a list: connect(['tls://a', 'tls://b'])"),
    (lambda: connect("ws://a tcp://b"), "several URLs are a list: connect(['ws://a', 'tcp://b'])"),
    *(
        (lambda text=text: connect(text), f"several URLs are a list: connect({urls})")
        for text, urls in {
            "tcp://a:1,b:2": ["tcp://a:1", "tcp://b:2"],
            "a:1, b": ["tcp://a:1", "tcp://b"],
            "ws://a:1;b:2/x": ["ws://a:1/x", "ws://b:2/x"],
            "nats://a:1,nats://b:2": ["tcp://a:1", "tcp://b:2"],
            "amqps://a,b": ["tls://a", "tls://b"],
        }.items()
    ),
    (lambda: Token(""), "the token is empty: is the variable or the file empty that it comes from?"),
    (lambda: Password("", "s"), "the name is empty: is the variable or the file empty that it comes from?"),
    (lambda: Hedging(quantile=95), "quantile is 95, it must be between 0 and 1; write quantile=0.95"),
    (lambda: Token("Bearer abc"), "the token begins with the word Bearer: leave that out"),
    (lambda: Token("abc\n"), "the token has white space around it: write Token(text.strip())"),
]


# By the call: what is said of options that other clients have.
ELSEWHERE: dict[Callable[..., object], dict[str, str]] = {
    connect: {
        "ssl_cafile": "write ssl=ssl.create_default_context(cafile=FILE)",
        "ssl_keyfile": "write ssl=context, with context = ssl.create_default_context(cafile=CA), and for a certificate "
        "of the client context.load_cert_chain(CERTIFICATE, KEY)",
        "sasl_mechanism": "write credentials=Token('...'), or Password('name', '...')",
        "value_deserializer": "write codec=JSON",
        "acks": "an answer says that a request was processed: leave it out",
        "auto_offset_reset": "nothing is stored, so there are no offsets: leave it out",
        "compression": "nothing is compressed: leave it out",
        "interceptors": "there are none: put it into a function around the call, or around the handler",
        "vhost": "a broker is not divided: services differ by their names and tags",
        "prefetch_count": "handlers have limits of their own: @orders.request_response('create', max_concurrency=8)",
    },
    run: {
        "signal_handlers": "run() and serve() end by SIGTERM and SIGINT, serve(url, service, stop=asyncio.Event()) by "
        "that event, too",
        "lifespan": "write it before and behind `await serve(url, service)`, in an async function",
        "reuse_port": "it connects to the broker and listens nowhere: leave it out",
    },
    Client.subscribe: {
        "offset": "nothing is stored, so there are no offsets; resume=lambda last: ... goes on after the last item",
        "queue": "a stream has one reader, and the services of one name share the requests by themselves",
        "manual_ack": "items are not acknowledged: more are asked for as the loop takes them",
        "prefetch_count": "did you mean initial_n=?",
    },
    Client.request_stream: {
        "offset": "nothing is stored, so there are no offsets; the data of the request can say where its stream begins",
    },
    Client.gather: {"queue": "the address names it: address('orders')"},
    Service: {"group_id": "the services of one name share its requests by themselves"},
    json_codec: {
        "default": "did you mean enc_hook=?",
        "object_hook": "did you mean dec_hook=?",
        "cls": "how values are written is enc_hook=, how they are read dec_hook=",
        "indent": "JSON is written in one way, compact and in UTF-8: leave it out",
    },
}


def raised(mistake: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        mistake()
    return str(caught.value)


@pytest.mark.parametrize(("mistake", "text"), KINDS, ids=[text for _, text in KINDS])
async def test_what_is_of_a_wrong_kind_is_told(mistake: Callable[[], object], text: str) -> None:
    assert raised(mistake, TypeError) == text


@pytest.mark.parametrize(("mistake", "text"), VALUES, ids=[text for _, text in VALUES])
async def test_what_can_never_work_is_told(mistake: Callable[[], object], text: str) -> None:
    assert raised(mistake, ValueError) == text


@pytest.mark.parametrize(
    ("function", "name", "text"), [(each, *said) for each, options in ELSEWHERE.items() for said in options.items()]
)
def test_what_other_clients_call_an_option_says_how_it_is_done(
    function: Callable[..., object], name: str, text: str
) -> None:
    given: tuple[object, ...] = (unseen(None), address("a"))
    if function in (connect, json_codec):
        given = (URL,) if function is connect else ()
    elif function is run:
        given = (URL, Service("a"))
    assert raised(lambda: function(*given, **{name: 1}), TypeError).partition(f"has no argument {name}=; ")[2] == text


def test_an_encrypted_broker_beside_one_of_this_machine_is_right() -> None:
    for other in ("unix:///run/broker.sock", "tcp://127.0.0.1", "wss://b.example"):
        connect(["tls://a.example", other], ssl=trusting()).is_used = True


def test_no_retry_and_long_times_are_right() -> None:
    connect(f" {URL}\n").is_used = True  # as a file has it
    connect(URL, retry=NO_RETRY, connect_timeout_s=math.inf, wait_for_reconnect=5, hedging=None).is_used = True
    check_kind("x", 3, NUMBER)


async def test_a_call_that_is_idempotent_in_words_is_refused(broker: FakeBroker) -> None:
    async with connect(broker.url, retry=RetryPolicy()) as client:
        to, text = address("x"), "idempotent is str, it must be True or False"
        with pytest.raises(TypeError, match=text):
            await client.request_response(to, idempotent=unseen("no"))
        with pytest.raises(TypeError, match=text):
            await anext(client.request_stream(to, idempotent=unseen("no")))


async def test_options_of_flows_are_true_or_false(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        to = address("x")
        for name in ("endless", "wait_for_service"):
            with pytest.raises(TypeError, match=f"{name} is int, it must be True or False"):
                client.subscribe(to, **unseen({name: 5}))
        with pytest.raises(TypeError, match="with_tags is str, it must be True or False"):
            client.gather(to, with_tags=unseen("region"))
    with pytest.raises(TypeError, match="exclude_self is str, it must be True or False"):
        multicast("x", exclude_self=unseen("no"))


async def test_who_gave_no_port_is_told_which_one_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(target: Target, *_: object) -> NoReturn:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")

    monkeypatch.setattr(brokers, "dial", refused)
    for url, port in (("tcp://127.0.0.1", 7878), ("wss://127.0.0.1/to", 7879)):
        with pytest.raises(NotConnected) as caught:
            await connect(url)
        assert caught.value.text == f"{url} (port {port}, as the URL has none): connection refused"


@pytest.mark.parametrize(
    ("call", "option", "advice"),
    [
        ("fire_and_forget", "returns", "nobody answers it, and request_response has an answer"),
        ("fire_and_forget", "hedging", "nobody answers it, and it is never sent twice: leave it out"),
        ("gather", "return_exceptions", "an answer has its service's error, answer.error: leave it out"),
        ("gather", "max_answers", "did you mean enough_n=?"),
        ("request_channel", "data", "did you mean items=?"),
        ("request_response", "correlation_id", "an answer finds its call by itself: leave it out"),
        ("request_stream", "shard_key", "the address has it: shard('carts', key='user', user='ada')"),
    ],
)
async def test_options_of_other_calls_are_told_what_they_are_here(
    broker: FakeBroker, call: str, option: str, advice: str
) -> None:
    async with connect(broker.url) as client:
        with pytest.raises(TypeError) as told:
            await unseen(getattr(client, call))(multicast("x"), **{option: 1})
    assert str(told.value) == f"Client.{call}() has no argument {option}=; {advice}"


async def test_parts_of_the_data_that_are_given_by_name_become_one_value(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        for call in (client.request_response, client.fire_and_forget, client.request_stream, client.subscribe):
            with pytest.raises(TypeError, match=r"=; data= is one value: make a dataclass of item, pieces, and write "):
                await unseen(call)(address("x"), route="create", item="a", pieces=2)
            with pytest.raises(TypeError, match="has no argument payload=; did you mean data="):
                await unseen(call)(address("x"), payload=b"", content_type="text/plain")
