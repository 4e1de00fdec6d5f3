"""Any bytes into the core: never an exception, never an endless loop, and no rule broken (see `play`)."""

import signal
from collections.abc import Iterator
from types import FrameType

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rsocket_wire.rsocket.frames import Setup
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import World, address, addressed, composite, fragments
from tests.fuzz.play import play

ENDLESS_S = 60  # one test of this file takes a few seconds

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _no_endless_loop() -> Iterator[None]:
    if not hasattr(signal, "SIGALRM"):  # Windows: then the loop is seen by whoever waits
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still running after {ENDLESS_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(ENDLESS_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@settings(max_examples=125, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=600))
@example(b"")
def test_any_bytes_are_a_play_in_which_no_rule_is_broken(data: bytes) -> None:
    play(data)


@settings(max_examples=50, deadline=None)
@given(data=st.binary(max_size=300), framed=st.booleans(), is_set_up=st.booleans(), sizes=st.lists(st.integers(1, 40)))
def test_any_bytes_are_accepted_or_a_protocol_error(
    data: bytes, framed: bool, is_set_up: bool, sizes: list[int]
) -> None:
    world = World()
    service = world.service("orders", 1)
    wire = world.caller(framed) if is_set_up else world.connect(framed)
    at = 0
    for size in [*sizes, len(data)]:
        wire.send_bytes(data[at : at + size])
        at += size
    for frame in wire.received():
        assert frame.kind in (0x03, 0x0B) or frame.stream_id > 0, frame
    assert not service.is_closed
    wire.lose()
    assert world.left_over() == []


SETUP_FRAME = Setup(COMPOSITE_MIME, "text/plain", 20_000, 90_000, composite((MIME_TYPE, b"x" * 30))).encode()
GOOD = [fragments(kind, 1, addressed(address(service="orders")), b"data", [])[0] for kind in MODELS]


@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize("index", range(len(GOOD)))
def test_every_truncation_of_a_request_is_accepted_or_a_protocol_error(index: int, framed: bool) -> None:
    raw = GOOD[index]
    for size in range(6, len(raw)):
        world = World()
        service = world.service("orders", 1)
        wire = world.caller(framed)
        wire.send(raw[:size])
        for frame in wire.received():
            assert frame.name == "ERROR"
        assert not service.is_closed
        wire.lose()
        assert world.left_over() == []


@pytest.mark.parametrize("index", range(len(GOOD)))
def test_every_single_byte_may_be_wrong(index: int) -> None:
    raw = GOOD[index]
    for at in range(len(raw)):
        for value in (0, 0x7F, 0x80, 0xFF, raw[at] ^ 1):
            world = World()
            service = world.service("orders", 1)
            wire = world.caller()
            wire.send(raw[:at] + bytes([value]) + raw[at + 1 :])
            assert not service.is_closed
            service.lose()
            wire.lose()
            assert world.left_over() == []


def test_every_byte_of_a_setup_may_be_wrong() -> None:
    for at in range(len(SETUP_FRAME)):
        for value in (0, 0x7F, 0x80, 0xFF, SETUP_FRAME[at] ^ 1):
            wire = World().connect()
            wire.send(SETUP_FRAME[:at] + bytes([value]) + SETUP_FRAME[at + 1 :])
            assert wire.is_closed or wire.peer.is_open
