"""Requests frame by frame, as the documents draw them; written without the encoder."""

import pytest

from client_sdk.gateways.samwise.requests import Rules, read_request
from client_sdk.gateways.samwise.values import Publish, Refused

RULES = Rules()
NO_OPTIONS = [b""] * 12

# 1.0: exchange, routing key, payload behind frame 2 or 3.
ROUND_ROBIN_1_0 = [b"100", b"publish", b"round robin", b"orders", b"new", b"payload"]
REDUNDANT_1_0 = [b"100", b"publish", b"redundant", b"2", b"orders", b"new", b"payload"]
# 1.1: mandatory, immediate, option count, twelve options, header count in front of the payload.
TAIL_1_1 = [b"orders", b"new", b"0", b"0", b"12", *NO_OPTIONS, b"0", b"payload"]
ROUND_ROBIN_1_1 = [b"110", b"publish", b"round robin", *TAIL_1_1]
REDUNDANT_1_1 = [b"110", b"publish", b"redundant", b"2", *TAIL_1_1]
DECLARE = [b"100", b"rpc", b"rabbit-1", b"exchange.declare", b"orders", b"topic"]
DELETE = [b"100", b"rpc", b"rabbit-1", b"exchange.delete", b"orders"]


def with_frames(frames: list[bytes], changes: dict[int, bytes]) -> list[bytes]:
    """The frames with others at some places."""
    return [changes.get(at, frame) for at, frame in enumerate(frames)]


def with_options(frames: list[bytes], options: list[bytes]) -> list[bytes]:
    """A 1.1 request without headers that has these options."""
    return [*frames[:-14], *options, *frames[-2:]]


def with_headers(frames: list[bytes], count: bytes, headers: list[bytes]) -> list[bytes]:
    """A 1.1 request without headers, to which they are given."""
    return [*frames[:-2], count, *headers, frames[-1]]


def with_count(frames: list[bytes], count: int) -> list[bytes]:
    """So many of the frames; what is missing is made up."""
    return (frames + [b"more"] * count)[:count]


def is_taken(frames: list[bytes], rules: Rules = RULES) -> bool:
    try:
        read_request(frames, rules)
    except Refused:
        return False
    return True


def publish_of(frames: list[bytes], rules: Rules = RULES) -> Publish:
    request = read_request(frames, rules)
    assert isinstance(request, Publish)
    return request


def refusal_of(frames: list[bytes], rules: Rules = RULES) -> tuple[str, str]:
    """The reason and the sentence."""
    with pytest.raises(Refused) as raised:
        read_request(frames, rules)
    return raised.value.reason, raised.value.text
