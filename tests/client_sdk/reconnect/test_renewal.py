"""Credentials are asked for again before they expire, and sent on the connection that is there (D-100)."""

import asyncio
import logging

import pytest

from client_sdk import Password, Token, connect
from client_sdk.credentials import Credentials
from client_sdk.reconnect import renewal
from client_sdk.reconnect.renewal import MAX_DELAY_S, MIN_DELAY_S, delay_s
from rsocket_wire.wire import authentication
from tests.client_sdk.clocks import FakeClock, rest
from tests.client_sdk.fake_broker import FakeBroker, Peer
from tests.system.support.waits import until

REFUSED = "unauthenticated: the credentials are not accepted"


class Source:
    """Gives tokens with numbers, the first one for the SETUP."""

    def __init__(self) -> None:
        self.given_n = 0
        self.fault: Exception | None = None  # raised instead

    async def __call__(self) -> Credentials:
        if self.fault is not None:
            raise self.fault
        self.given_n += 1
        return Token(f"token-{self.given_n}")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr("client_sdk.connecting.Clock", lambda: clock)
    monkeypatch.setattr("random.random", lambda: 0.0)
    return clock


def tell(peer: Peer, life_s: float = 0.0, login: str = "") -> None:
    """What a broker says of the login."""
    more = {"expires_in_ms": str(int(life_s * 1000))} if life_s else {}
    peer.tell(**more, **({"login": login} if login else {}))


async def slept(clock: FakeClock, n: int) -> float:
    """The latest of so many sleeps."""
    await until(lambda: len(clock.slept) >= n)
    assert len(clock.slept) == n
    return clock.slept[-1]


async def renewed(peer: Peer) -> str:
    """The token, or user, that the client has logged in with anew."""
    sent = authentication.decode_authentication(await peer.renewals.get())
    return sent.name or sent.secret


@pytest.mark.parametrize(
    ("life_s", "chance", "expected"),
    [
        (3600.0, 0.0, 2880.0),  # at 80 %
        (3600.0, 0.999, 2880.0 - 359.64),
        (20.0, 0.0, 15.0),  # 5 s before the end
        (8.0, 0.0, MIN_DELAY_S),
        (11.0, 0.0, 6.0),
    ],
)
def test_new_ones_are_asked_for_well_before_the_end(life_s: float, chance: float, expected: float) -> None:
    assert delay_s(life_s, chance) == pytest.approx(expected)


async def test_a_connection_goes_on_with_new_credentials(broker: FakeBroker, clock: FakeClock) -> None:
    async with connect(broker.url, credentials=Source()) as client:
        peer = await broker.peer(0)
        for number, life_s in ((2, 100.0), (3, 50.0)):
            tell(peer, life_s, "" if number == 2 else "renewed")
            assert await slept(clock, number - 1) == life_s * 0.8
            await clock.turn(life_s * 0.8)
            assert await renewed(peer) == f"token-{number}"
        tell(peer, 0.0, "renewed")  # these hold for ever
        await rest()
        assert (client.is_connected, len(broker.peers), len(clock.slept)) == (True, 1, 2)


async def test_a_password_is_sent_again(broker: FakeBroker, clock: FakeClock) -> None:
    """A program that the broker asks may say that one holds for an hour."""
    async with connect(broker.url, credentials=Password("ada", "lovelace")):
        peer = await broker.peer(0)
        tell(peer, 100.0)
        await slept(clock, 1)
        await clock.turn(80.0)
        assert await renewed(peer) == "ada"


async def test_what_fails_is_tried_again_until_the_end(
    broker: FakeBroker, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source()
    async with connect(broker.url, credentials=source):
        peer = await broker.peer(0)
        tell(peer, 600.0)
        await slept(clock, 1)
        source.fault = OSError("the provider is away")
        await clock.turn(480.0)
        assert await slept(clock, 2) == MIN_DELAY_S / 2
        await clock.turn(2.5)
        assert await slept(clock, 3) == MIN_DELAY_S
        source.fault = None
        await clock.turn(5.0)
        assert await renewed(peer) == "token-2"
        tell(peer, 100.0, REFUSED)
        assert await slept(clock, 4) == 2 * MIN_DELAY_S
        for n in range(5, 8):
            await clock.turn(clock.slept[-1])
            await renewed(peer)
            tell(peer, 50.0, REFUSED)
            assert await slept(clock, n) == min(MAX_DELAY_S, MIN_DELAY_S * 2 ** (n - 2)) / 2
        await clock.turn(100.0)  # they have expired, and the broker will say so
        assert peer.renewals.empty()
    text = "the credentials cannot be renewed, they hold for 120 s more: OSError: the provider is away"
    assert text in caplog.text
    assert REFUSED in caplog.text


async def test_silence_is_a_failure(broker: FakeBroker, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "ANSWER_S", 0.0)
    async with connect(broker.url, credentials=Source()):
        peer = await broker.peer(0)
        tell(peer, 100.0)
        await slept(clock, 1)
        await clock.turn(80.0)
        await slept(clock, 2)
        tell(peer, 100.0, "renewed")  # too late
        await rest()
        await clock.turn(2.5)
        await slept(clock, 3)


async def test_the_next_connection_has_a_time_of_its_own(broker: FakeBroker, clock: FakeClock) -> None:
    async with connect(broker.url, credentials=Source()) as client:
        tell(await broker.peer(0), 100.0)
        await slept(clock, 1)
        (await broker.peer(0)).abort()
        await slept(clock, 2)  # until it connects again
        await clock.turn(1.0)
        peer = await broker.peer(1)
        await client.wait_connected(timeout_s=5)
        tell(peer, 200.0)
        assert await slept(clock, 3) == 160.0
        await clock.turn(100.0)
        assert peer.renewals.empty()
        await clock.turn(60.0)
        assert await renewed(peer) == "token-3"


@pytest.mark.parametrize("life_s", [0.0, 5.0])
async def test_who_is_told_nothing_or_has_no_time_sends_nothing(
    broker: FakeBroker, clock: FakeClock, life_s: float
) -> None:
    async with connect(broker.url, credentials=Source()) as client:
        tell(await broker.peer(0), life_s)
        await until(lambda: client._manager.connected().notice is not None)
        await rest()
        assert clock.slept == []


async def test_without_credentials_nothing_is_renewed(broker: FakeBroker, clock: FakeClock) -> None:
    async with connect(broker.url) as client:
        tell(await broker.peer(0), 100.0)
        await until(lambda: client._manager.connected().notice is not None)
        assert clock.slept == []


async def test_no_log_line_has_credentials(
    broker: FakeBroker, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connect(broker.url, credentials=Source()):
        peer = await broker.peer(0)
        tell(peer, 100.0)
        await slept(clock, 1)
        await clock.turn(80.0)
        await renewed(peer)
        tell(peer, 100.0, "renewed")
        await slept(clock, 2)
    assert "they hold for 100 s" in caplog.text
    assert "token-" not in caplog.text
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "rsocket renewal"]
