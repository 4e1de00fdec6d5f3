"""Frames of a message as pamqp, which others use, writes and reads them."""

from typing import Any

import pytest
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.frame import marshal, unmarshal
from pamqp.header import ContentHeader

from client_sdk.gateways.samwise.backends.rabbitmq_frames import body_frames, header_frame, method_frame
from client_sdk.gateways.samwise.values import OPTIONS

NUMBERS = ("delivery_mode", "priority")
VALUES = {name: "2" if name in NUMBERS else f"the {name} ü" for name in OPTIONS}


def by_pamqp(body_bytes: int, options: dict[str, str], headers: dict[str, str | bytearray]) -> bytes:
    given: dict[str, Any] = {"message_type" if name == "type" else name: value for name, value in options.items()}
    given |= {name: int(options[name]) for name in NUMBERS if name in options}
    properties = Basic.Properties(headers=dict(headers))
    for name, value in given.items():  # the constructor refuses a cluster_id
        setattr(properties, name, value)
    return marshal(ContentHeader(body_size=body_bytes, properties=properties), 1)


@pytest.mark.parametrize("mandatory", [False, True])
@pytest.mark.parametrize(("exchange", "key"), [("", ""), ("amq.direct", "k"), ("e" * 127, "ü" * 127)])
def test_a_method_is_that_of_pamqp(exchange: str, key: str, mandatory: bool) -> None:
    expected = marshal(Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory), 1)
    assert method_frame(exchange, key, mandatory=mandatory) == expected


@pytest.mark.parametrize("options", [{}, VALUES, *({name: value} for name, value in VALUES.items())], ids=", ".join)
def test_a_header_is_that_of_pamqp(options: dict[str, str]) -> None:
    headers = (("a", b"1"), ("b", "ü".encode()), ("c", b"\xff\x00"), ("d", b""))
    expected = by_pamqp(1 << 33, options, {"a": "1", "b": "ü", "c": bytearray(b"\xff\x00"), "d": ""})
    assert header_frame(1 << 33, options, headers) == expected


def test_a_text_that_is_too_long_is_not_written() -> None:
    with pytest.raises(ValueError, match="bytes must be in range"):
        method_frame("e", "k" * 256, mandatory=False)
    with pytest.raises(ValueError, match="bytes must be in range"):
        header_frame(0, {"app_id": "k" * 256}, ())


@pytest.mark.parametrize("frame_max", [0, 9, 12, 108])
def test_bodies_are_cut_to_frames(frame_max: int) -> None:
    body = bytes(range(100))
    parts: list[bytes] = []
    for frame in body_frames(body, frame_max):
        assert len(frame) <= (frame_max or 108)
        content = unmarshal(frame)[2]
        assert isinstance(content, ContentBody)
        parts.append(content.value)
    assert b"".join(parts) == body
    assert len(parts) == -(-100 // ((frame_max or 108) - 8))
    assert list(body_frames(b"", frame_max)) == []
