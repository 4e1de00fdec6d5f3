"""First frames of a connection: what is a SETUP and what is refused."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.errors import CONNECTION_ERROR, INVALID_SETUP, REJECTED_RESUME
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from tests.broker.resuming import NO_SESSION
from tests.fakes import World, address, addressed, error, framed, moved, raw_frame, route_id, routes_in, setup

ORDERS = address(service="orders")
PLAIN_SETUP = setup()


RESUME = frames.Resume(b"token", 0, 0).encode()
REFUSED = [
    (
        raw_frame(frames.REQUEST_RESPONSE, 0, b"x", 1),
        INVALID_SETUP,
        "bad-setup: the first frame is REQUEST_RESPONSE on stream 1, it must be SETUP on 0",
    ),
    (RESUME, REJECTED_RESUME, NO_SESSION),
]


@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize(("raw", "code", "text"), REFUSED)
def test_what_is_no_setup_is_refused_and_the_connection_closed(framed: bool, raw: bytes, code: int, text: str) -> None:
    world = World()
    wire = world.connect(framed)
    wire.send(raw)
    wire.send(PLAIN_SETUP)  # too late
    assert wire.received() == [error(0, code, text)]
    assert wire.is_closed


def test_a_second_setup_is_ignored() -> None:
    world = World()
    service = world.service("orders", 1)
    service.send(frames.Setup(MIME_TYPE, "a/b", 5, 5, RouteSetup(route_id(9), "stock", []).encode()).encode())
    assert (service.received(), service.is_closed, routes_in(world)) == ([], False, [["orders"]])


def test_a_resume_behind_the_setup_ends_the_connection() -> None:
    """ "A Server that receives a RESUME frame after a SETUP frame, SHOULD send an ERROR[CONNECTION_ERROR]."."""
    world = World()
    service = world.service("orders", 1)
    service.send(RESUME)
    text = "bad-frame: RESUME must be the first frame of a connection"
    assert (service.received(), service.is_closed, routes_in(world)) == ([error(0, CONNECTION_ERROR, text)], True, [])


@pytest.mark.parametrize("size", [1, 1000])
def test_bytes_may_arrive_one_by_one_and_requests_with_the_setup(size: int) -> None:
    world = World()
    service = world.service("orders", 1)
    wire = world.connect()
    request = frames.encode_request(frames.REQUEST_RESPONSE, 1, b"hi", addressed(ORDERS))
    data = framed(PLAIN_SETUP, request)
    for at in range(0, len(data), size):
        wire.send_bytes(data[at : at + size])
    assert (service.received(), wire.received()) == ([moved(request, 2)], [])


def test_requests_behind_a_refused_setup_are_not_looked_at() -> None:
    world = World()
    service = world.service("orders", 1)
    wire = world.connect()
    request = frames.encode_request(frames.REQUEST_FNF, 1, b"hi", addressed(ORDERS))
    refused = frames.Setup(COMPOSITE_MIME, "a/b", 0, 1).encode()
    wire.send_bytes(framed(refused, request))
    assert service.received() == []


@pytest.mark.parametrize(
    ("framed", "data", "text"),
    [
        (True, b"\x00\x00\x05abcde", "bad-frame: a frame of 5 bytes, a header has 6"),
        (True, b"\x00\x10\x01", "bad-frame: a frame of 4097 bytes, the limit is 4096"),
        (False, b"abcde", "bad-frame: a frame of 5 bytes, a header has 6"),
        (False, b"", "bad-frame: a frame of 0 bytes, a header has 6"),
        (False, bytes(4097), "bad-frame: a frame of 4097 bytes, the limit is 4096"),
    ],
)
def test_bytes_that_are_no_frame_end_the_connection(framed: bool, data: bytes, text: str) -> None:
    world = World(CoreSettings(max_frame_bytes=4096))
    wire = world.caller(framed)
    wire.send_bytes(data)
    assert wire.received() == [error(0, CONNECTION_ERROR, text)]
    assert wire.is_closed
