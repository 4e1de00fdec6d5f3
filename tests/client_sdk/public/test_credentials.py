"""Credentials of the SDK: what is sent, to whom, how often, and what it does when they are refused."""

from __future__ import annotations

import asyncio

import pytest

from client_sdk import NotConnected, Password, Token, Unauthenticated, connect
from client_sdk.credentials import may_carry_credentials
from client_sdk.io.dial import Target
from client_sdk.reconnect import manager
from client_sdk.testing import local_broker
from rsocket_wire.rsocket.metadata import entries
from rsocket_wire.wire.authentication import AUTHENTICATION_ID, decode_authentication
from tests.client_sdk.fake_broker import FakeBroker, Peer


@pytest.mark.parametrize(
    ("url", "is_private"),
    [
        ("tls://broker.example", True),
        ("wss://10.0.0.4", True),
        ("unix:///run/broker.sock", True),
        ("tcp://127.0.0.1", True),
        ("ws://[::1]:7879", True),
        ("tcp://localhost", True),
        ("tcp://broker.example", False),
        ("ws://10.0.0.4", False),
        ("tcp://localhost.example", False),
    ],
)
def test_credentials_go_nowhere_in_the_clear(url: str, is_private: bool) -> None:
    assert may_carry_credentials(Target(url)) == is_private
    if is_private:
        connect(url, credentials=Token("t")).is_used = True
    else:
        with pytest.raises(ValueError, match="everybody on the way could read them"):
            connect(["tls://broker.example", url], credentials=Token("t"))
    connect(url).is_used = True


def test_no_text_shows_a_secret() -> None:
    assert repr([Token("a-secret"), Password("ada", "a-secret")]) == "[Token(), Password(name='ada')]"


def secret_in(peer: Peer) -> str:
    """What its SETUP, which was accepted, says."""
    assert peer.setup is not None
    raw = bytes(peer.setup.metadata)
    (entry,) = [each for each in entries(raw) or () if each.id == AUTHENTICATION_ID]
    return decode_authentication(raw[entry.start : entry.end]).secret


async def test_they_are_asked_for_at_each_attempt_and_slowly_when_they_are_refused(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "REFUSED_DELAY_S", 0.02)
    given: list[str] = []

    async def credentials() -> Password:
        given.append(f"word {len(given)}")
        return Password("ada", given[-1])

    async with connect(broker.url, credentials=credentials) as client:
        broker.refusal = (0x003, "unauthenticated: the credentials are not accepted")
        broker.peers[0].abort()
        while not isinstance(client.reason, Unauthenticated):
            await asyncio.sleep(0)
        broker.refusal = None
        await client.wait_connected(5)
    assert [secret_in(broker.peers[number]) for number in (0, -1)] == [given[0], given[-1]]
    assert len(given) == len(broker.peers) >= 3


async def test_what_the_function_raises_is_what_connect_raises() -> None:
    async def credentials() -> Token:
        raise KeyError("no vault")

    async with local_broker() as url:
        with pytest.raises(KeyError, match="no vault"):
            await connect(url, credentials=credentials)
        with pytest.raises(NotConnected, match="1 to 255 can be sent"):
            await connect(url, credentials=Password("a" * 256, "x"))
