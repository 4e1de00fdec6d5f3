"""Any bytes into the core: never an exception, never an endless loop, and no rule broken (see `play`)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rsocket_wire.rsocket.frames import Setup
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import MIME_TYPE
from tests.fakes import World, address, addressed, composite, fragments
from tests.fuzz.fuzz_receive import main
from tests.fuzz.play import MODELS, Play, play

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


WHO = st.integers(0, 6)
SMALL = st.integers(0, 7)


class Broker(RuleBasedStateMachine):
    """Callers, services and vandals at one broker."""

    @initialize(is_strict=st.booleans(), services=st.integers(1, 4), framed=st.booleans())
    def begin(self, is_strict: bool, services: int, framed: bool) -> None:
        self.stage = Play(is_strict)
        for number in range(services):
            self.stage.connect(1, framed, number, 0, number * 3)
        self.stage.connect(0, not framed, 0, 0, 0)

    @rule(
        who=st.sampled_from([0, 1, 1, 3]), framed=st.booleans(), mime=SMALL, data_mime=SMALL, route=st.integers(0, 23)
    )
    def connect(self, who: int, framed: bool, mime: int, data_mime: int, route: int) -> None:
        self.stage.connect(who, framed, mime, data_mime, route)

    @rule(
        who=WHO,
        kind=st.integers(0, 3),
        to=st.integers(0, 63),
        n=st.integers(0, 3),
        flags=st.integers(0, 3),
        cuts=st.lists(st.integers(0, 250), max_size=3),
    )
    def request(self, who: int, kind: int, to: int, n: int, flags: int, cuts: list[int]) -> None:
        self.stage.request(who, kind, to, n, flags, cuts)

    @rule(who=WHO)
    def go_on(self, who: int) -> None:
        self.stage.go_on(who)

    @rule(who=WHO, which=SMALL, what=SMALL, n=SMALL)
    def call(self, who: int, which: int, what: int, n: int) -> None:
        self.stage.call(who, which, what, n)

    @rule(who=WHO, which=SMALL, what=st.integers(0, 15), n=SMALL)
    def serve(self, who: int, which: int, what: int, n: int) -> None:
        self.stage.serve(who, which, what, n)

    @rule(who=WHO, what=SMALL, to=st.integers(0, 63))
    def push(self, who: int, what: int, to: int) -> None:
        self.stage.push(who, what, to)

    @rule(who=WHO, n=SMALL)
    def live(self, who: int, n: int) -> None:
        self.stage.live(who, n)

    @rule(who=WHO)
    def lose(self, who: int) -> None:
        self.stage.lose(who)

    @rule(seconds=st.integers(0, 90))
    def wait(self, seconds: int) -> None:
        self.stage.wait(seconds)

    @rule(who=WHO, data=st.binary(max_size=200))
    def rubbish(self, who: int, data: bytes) -> None:
        self.stage.rubbish(who, data)

    @rule(
        who=WHO,
        kind=st.integers(0, 63),
        stream_id=st.integers(0, 20),
        flags=st.integers(0, 0x3FF),
        rest=st.binary(max_size=60),
    )
    def broken(self, who: int, kind: int, stream_id: int, flags: int, rest: bytes) -> None:
        self.stage.broken(who, kind, stream_id, flags, rest)

    @rule(
        who=WHO,
        kind=SMALL,
        to=st.integers(0, 63),
        at=st.integers(0, 120),
        value=st.integers(0, 255),
        size=st.integers(0, 500),
    )
    def bent(self, who: int, kind: int, to: int, at: int, value: int, size: int) -> None:
        self.stage.bent(who, kind, to, at, value, size)

    @invariant()
    def rules_hold(self) -> None:
        if hasattr(self, "stage"):
            self.stage.look()

    def teardown(self) -> None:
        if hasattr(self, "stage"):
            self.stage.finish(len(self.stage.gone) % 2 == 1)


Broker.TestCase.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestBroker = Broker.TestCase


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=400))
@example(b"")
def test_any_bytes_are_a_play_in_which_no_rule_is_broken(data: bytes) -> None:
    play(data)


@settings(max_examples=150, deadline=None)
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


def test_a_file_of_a_long_run_can_be_played_again(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    pytest_file = tmp_path / "crash-1"
    pytest_file.write_bytes(b"\x0f\x01\x00\x02")
    try:
        import atheris  # noqa: F401
    except ImportError:
        assert main(["fuzz_receive", str(pytest_file)]) == 0
        assert "no rule was broken" in capsys.readouterr().out
        assert main(["fuzz_receive"]) == 2
