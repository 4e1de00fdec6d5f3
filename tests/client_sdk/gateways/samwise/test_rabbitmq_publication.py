import asyncio
from typing import Any

import pytest
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.frame import unmarshal
from pamqp.header import ContentHeader

from client_sdk.gateways.samwise.backends.backend import NotDelivered
from client_sdk.gateways.samwise.backends.rabbitmq_publication import Publication, check
from client_sdk.gateways.samwise.values import OPTIONS, Publish, Refused
from tests.client_sdk.gateways.samwise.messages import publish_to, stored

USERS = {"rabbit-1": "guest", "rabbit-2": "guest"}
MARK = "malformed publishing request: "


async def frames_of(what: Publish, frame_bytes: int = 131_072) -> list[Any]:
    """The frames on the wire, read by pamqp."""
    publication = Publication(stored(what), asyncio.get_running_loop().create_future(), "rabbit-1")
    return [unmarshal(raw)[2] for frame in publication.frames(frame_bytes) for raw in split(frame)]


def split(raw: bytes) -> list[bytes]:
    found = []
    while raw:
        size = int.from_bytes(raw[3:7]) + 8
        found.append(raw[:size])
        raw = raw[size:]
    return found


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"immediate": True}, "immediate is set, which RabbitMQ does not implement"),
        ({"options": {"cluster_id": "c"}}, "cluster_id is reserved by AMQP 0-9-1, it must be empty"),
        ({"options": {"delivery_mode": "3"}}, "delivery_mode is '3', it must be 1 (transient) or 2 (persistent)"),
        ({"options": {"delivery_mode": "01"}}, "delivery_mode is '01', it must be 1 (transient) or 2 (persistent)"),
        ({"options": {"priority": "256"}}, "priority is '256', it must be 0..255"),
        ({"options": {"priority": "-1"}}, "priority is '-1', it must be 0..255"),
        ({"options": {"priority": "high"}}, "priority is 'high', it must be 0..255"),
        ({"options": {"priority": "٣"}}, "priority is '٣', it must be 0..255"),
        ({"options": {"expiration": "5s"}}, "expiration is '5s', it must be 0..315360000000 milliseconds"),
        ({"options": {"expiration": "-1"}}, "expiration is '-1', it must be 0..315360000000 milliseconds"),
        (
            {"options": {"expiration": "315360000001"}},
            "expiration is '315360000001', it must be 0..315360000000 milliseconds",
        ),
        (
            {"options": {"expiration": "0" * 19}},
            "expiration is '0000000000000000000', it must be 0..315360000000 milliseconds",
        ),
        ({"options": {"user_id": "bob"}}, "user_id is 'bob', the gateway's user at rabbit-1 is 'guest'"),
        (
            {"options": {"reply_to": "amq.rabbitmq.reply-to"}},
            "reply_to is amq.rabbitmq.reply-to, and the gateway takes no replies",
        ),
        ({"options": {"app_id": "ü" * 128}}, "app_id has 256 bytes, at most 255 can be sent"),
        ({"routing_key": "k" * 256}, "routing key has 256 bytes, at most 255 can be sent"),
        (
            {"exchange": "e\n"},
            "exchange 'e\\n' has a line feed or a carriage return, which RabbitMQ leaves out of names",
        ),
        ({"exchange": "e" * 256}, "exchange has 256 bytes, at most 255 can be sent"),
        ({"headers": (("k" * 129, b""),)}, f"the name of header '{'k' * 40}' has 129 bytes of 128"),
        ({"headers": (("a", b"1"), ("a", b"2"))}, "header 'a' is given twice"),
        ({"headers": (("CC", b"x"),)}, "header 'CC' has to be a list for RabbitMQ, which a request cannot say"),
        ({"headers": (("x-samwise-id", b"x"),)}, "header 'x-samwise-id' is the gateway's own"),
        (
            {"headers": (("a", bytes(130_990)),), "options": {"type": "12"}},
            "options and headers have 131076 bytes, at most 131072 can be sent",
        ),
    ],
)
def test_what_would_close_the_channel_or_arrive_differently_is_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(Refused) as refused:
        check(publish_to(**fields), USERS)
    assert refused.value.text == MARK + fault


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"mandatory": True},
        {"exchange": "System.List`1[[A, B]]", "routing_key": "k" * 255},
        {"exchange": "é" * 127},
        {"options": {"delivery_mode": "1", "priority": "255", "expiration": "0", "user_id": "guest"}},
        {"options": {"delivery_mode": "2", "priority": "0", "expiration": "012"}},
        {"options": {"expiration": "315360000000"}},
        {"headers": (("k" * 128, b"\xff" * 100_000), ("", b""))},
        {"options": {"reply_to": "amq.rabbitmq.reply-to.g1h2"}},
    ],
)
async def test_what_rabbitmq_takes_is_not_refused(fields: dict[str, Any]) -> None:
    check(publish_to(**fields), USERS)
    await frames_of(publish_to(**fields))


def test_a_user_of_one_broker_only_is_refused() -> None:
    with pytest.raises(Refused, match="the gateway's user at rabbit-2 is 'samwise'"):
        check(publish_to(options={"user_id": "guest"}), {"rabbit-1": "guest", "rabbit-2": "samwise"})


async def test_all_options_and_headers_are_in_the_frames() -> None:
    texts = {name: f"the {name}" for name in OPTIONS if name not in ("delivery_mode", "priority", "cluster_id")}
    options = {**texts, "delivery_mode": "2", "priority": "7"}
    what = publish_to("amq.direct", "key", b"body", options=options, headers=(("n", b"\xc3\xbc"), ("b", b"\xff\x00")))
    method, header, body = await frames_of(what)
    assert isinstance(method, Basic.Publish)
    assert dict(method) == {
        "ticket": 0,
        "exchange": "amq.direct",
        "routing_key": "key",
        "mandatory": False,
        "immediate": False,
    }
    assert isinstance(header, ContentHeader)
    found = dict(header.properties)
    headers: Any = found.pop("headers")
    assert len(headers.pop("x-samwise-id")) == 32
    assert headers == {"n": "ü", "b": bytearray(b"\xff\x00")}
    texts["message_type"] = texts.pop("type")
    assert found == {**texts, "delivery_mode": 2, "priority": 7, "timestamp": None, "cluster_id": ""}
    assert isinstance(body, ContentBody)
    assert body.value == b"body"


async def test_what_was_not_given_is_not_sent() -> None:
    _, header = await frames_of(publish_to("amq.direct"))
    assert isinstance(header, ContentHeader)
    said = {name for name, value in header.properties if value not in (None, "")}
    assert said == {"headers"}
    assert list(header.properties.headers or {}) == ["x-samwise-id"]
    assert header.body_size == 0


async def test_mandatory_is_said() -> None:
    method, _ = await frames_of(publish_to("amq.direct", mandatory=True))
    assert method.mandatory


async def test_the_size_of_headers_is_told_as_the_wire_has_it() -> None:
    """Just as long as the longest frame; one byte more is refused."""
    what = publish_to(headers=(("a", bytes(130_989)),), options={"type": "12"})
    with pytest.raises(Refused, match="131075 bytes"):
        check(what, USERS)
    fitting = publish_to(headers=(("a", bytes(130_986)),), options={"type": "12"})
    check(fitting, USERS)
    publication = Publication(stored(fitting), asyncio.get_running_loop().create_future(), "rabbit-1")
    assert publication.longest_bytes == 131_072
    assert [len(frame) for frame in publication.frames(131_072)[1:]] == [131_072]


@pytest.mark.parametrize("size", [0, 1, 4087, 4088, 4089, 8176, 10_000])
async def test_a_long_body_is_cut_into_frames_of_the_connection(size: int) -> None:
    payload = bytes(number % 251 for number in range(size))
    _, header, *bodies = await frames_of(publish_to("e", payload=payload), 4096)
    assert isinstance(header, ContentHeader)
    assert header.body_size == size
    assert b"".join(body.value for body in bodies) == payload
    assert all(1 <= len(body.value) <= 4088 for body in bodies)


async def test_a_connection_without_a_longest_frame_gets_one() -> None:
    _, _, body = await frames_of(publish_to("e", payload=bytes(1_000_000)), 0)
    assert len(body.value) == 1_000_000


async def test_what_cannot_be_written_is_hopeless() -> None:
    """As a message that another version has stored."""
    with pytest.raises(NotDelivered, match="rabbit-1: cannot be written") as failed:
        await frames_of(publish_to(options={"app_id": "a" * 256}))
    assert failed.value.is_hopeless
