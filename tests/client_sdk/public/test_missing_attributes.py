import copy
import inspect
import json
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from client_sdk import JSON, Answer, Client, Flow, NoRoute, Payload, Service, address, connect, sync
from client_sdk.payload import Received
from tests.client_sdk.fake_broker import FakeBroker


def test_a_missing_name_is_said_with_what_there_is() -> None:
    with pytest.raises(
        AttributeError, match=r"'Answer' object has no attribute 'readable'; an Answer has is_ok, value"
    ) as told:
        Answer(b"3", None, "", "stock", None).readable()  # type: ignore[attr-defined]
    assert (told.value.name, told.value.obj) == ("readable", None)  # no proposal of Python's
    with pytest.raises(AttributeError, match=r"'request_respons'; did you mean request_response\?$"):
        Service("orders").request_respons()  # type: ignore[attr-defined]


def test_what_an_address_has_not_is_said_with_the_code_to_write() -> None:
    to: Any = address("orders")
    for _ in range(2):
        with pytest.raises(AttributeError, match=r"'with_lb'; write address\('orders', lb='round_robin'\)$"):
            to.with_lb("random")
    with pytest.raises(AttributeError, match=r"'name'; write address\.service$"):
        to.name = "billing"
    assert not hasattr(to, "key")
    assert copy.copy(to) == to


def test_what_asks_for_attributes_finds_none() -> None:
    answer = Answer(b"3", None, "", "stock", None)
    assert pickle.loads(pickle.dumps(answer)).data == copy.copy(answer).data == b"3"
    assert not hasattr(answer, "decode")
    with pytest.raises(AttributeError, match=r"has no attribute '_none'$"):
        answer._none  # type: ignore[attr-defined]  # noqa: B018


def test_a_payload_that_has_arrived_is_one_of_rsocket_py() -> None:
    received = Received(b"3", b"left")
    assert isinstance(received, Payload)
    assert received == Payload(b"3", b"left") == received
    assert received != Payload(b"3", None)
    for other in (pickle.loads(pickle.dumps(received)), copy.copy(received), copy.deepcopy(received)):
        assert (type(other), other) == (Payload, received)
    assert str(received) == repr(received) == repr(Payload(b"3", b"left"))
    assert not hasattr(received, "decode")
    assert dict(inspect.getmembers(received))["data"] == b"3"
    with pytest.raises(TypeError, match=r"a Payload is no bytes and no text: write payload\.data"):
        len(received)  # type: ignore[arg-type]


def test_what_a_payload_is_taken_for_is_said_with_the_type_to_ask_for() -> None:
    received: Any = Received(b"3", None)
    with pytest.raises(TypeError, match=r"no int: write payload\.data, which is bytes, or give the call returns=int"):
        received + 1
    with pytest.raises(TypeError, match="no dict: give the call returns=dict, with connect"):
        received["id"]


async def test_what_other_streams_have_is_said_as_it_is_written_here() -> None:
    streams: list[Any] = [Client.__new__(Client), sync.Items.__new__(sync.Items), Flow.__new__(Flow)]
    told = []
    for stream, name in zip(streams, ("publish", "to_list", "next"), strict=True):
        with pytest.raises(AttributeError) as refused:
            getattr(stream, name)
        told.append(str(refused.value).partition("; ")[2])
    assert told == [
        "write client.fire_and_forget(address('orders'), b'...', route='create'), to all of them with "
        "multicast('orders')",
        "write list(stream)",
        "write `async for item in stream:`, or `await anext(stream)` for one item",
    ]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: unseen(Client)("tcp://127.0.0.1"), "a Client is made by `async with connect(url) as client:`"),
        (
            lambda: unseen(Client).from_url("tcp://127.0.0.1"),
            "type object 'Client' has no attribute 'from_url'; "
            "a Client is made by `async with connect(url) as client:`",
        ),
        (lambda: unseen(sync.Client)(), "a Client is made by `with sync.connect(url) as client:`"),
        (
            lambda: unseen(sync.Client).connect(),
            "type object 'Client' has no attribute 'connect'; a Client is made by `with sync.connect(url) as client:`",
        ),
        (lambda: unseen(Client).colour, "type object 'Client' has no attribute 'colour'"),
        (
            lambda: unseen(Received(b"{}", None)).get("id"),
            "'Payload' object has no attribute 'get'; write json.loads(payload.data), or give the call returns=dict, "
            "with connect(url, codec=JSON)",
        ),
        (
            lambda: unseen(Received(b"", None)).status_code,
            "'Payload' object has no attribute 'status_code'; write nothing in its place: a call that fails raises a "
            "ClientError",
        ),
        (
            lambda: unseen(Answer(b"3", None, "", "stock", None))["count"],
            "an Answer is not the value itself: write answer.value",
        ),
        (
            lambda: bytes(unseen(Answer(b"3", None, "", "stock", None))),
            "an Answer is not the value itself: write answer.value",
        ),
        (
            lambda: unseen(Answer(b"3", None, "", "stock", None)).raise_for_status(),
            "'Answer' object has no attribute 'raise_for_status'; write answer.value, which raises answer.error if it "
            "has one",
        ),
        (
            lambda: unseen(Service("a")).errorhandler(KeyError),
            "'Service' object has no attribute 'errorhandler'; a handler raises ApplicationError('no order 42', "
            "word='not-found') for its caller",
        ),
        (lambda: unseen(NoRoute("x")).detail, "'NoRoute' object has no attribute 'detail'; write error.text"),
        (lambda: unseen(NoRoute("x")).status_code, "'NoRoute' object has no attribute 'status_code'; write error.word"),
        (
            lambda: JSON.check(json.loads),
            "loads is no type: it must be one, such as list[int]",
        ),
    ],
)
def test_what_is_taken_for_something_else_says_how_it_is_made_or_read(wrong: Callable[[], object], text: str) -> None:
    with pytest.raises((AttributeError, TypeError)) as told:
        wrong()
    assert str(told.value) == text


async def test_what_is_set_on_a_client_and_does_nothing_is_warned_of(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        for name, text in (
            ("on_disconnect", "the log says what becomes of the connection, and client.changes() tells a program"),
            ("timeout_s", "write connect(url, timeout_s=...)"),
        ):
            with pytest.warns(RuntimeWarning) as warned:
                setattr(client, name, None)
            assert [str(each.message) for each in warned] == [f"client.{name} = ... does nothing: {text}"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            unseen(client).mine = 1  # of the program itself


def unseen(value: object) -> Any:
    """What no type checker has seen."""
    return value
