"""Key sets: when they are read, what is used of them, and what happens while nobody answers."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from broker.edge.admission.keys import ASK_AGAIN_S, KEYS_S, RETRY_S, Keys, fetch_keys, keys_of
from broker.edge.admission.verdicts import Unavailable
from rsocket_wire.errors import BrokerError
from tests.broker.edge.admission.signers import key_set, signer

URL = "https://id.example/jwks.json"


class Source:
    """What is at the URL, and when it was asked."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.asked_n = 0
        self.is_down = False
        self.now = 1000.0
        self.keys = Keys(URL, self.fetch, lambda: self.now)

    async def fetch(self, url: str) -> bytes:
        assert url == URL
        self.asked_n += 1
        if self.is_down:
            raise OSError("down")
        return self.raw

    async def knows(self, id: str) -> bool:
        return await self.keys.find(id, "ES256") is not None


async def test_an_unknown_key_asks_again_once_in_a_while() -> None:
    source = Source(key_set(signer()))
    assert [await source.knows("one"), await source.knows("two"), await source.knows("two")] == [True, False, False]
    assert source.asked_n == 1
    source.raw = key_set(signer(), signer("ES256", "two"))
    source.now += ASK_AGAIN_S
    assert (await source.knows("two"), await source.knows("one"), source.asked_n) == (True, True, 2)
    assert not any([await source.knows(f"made up {number}") for number in range(5)])
    assert source.asked_n == 2


async def test_keys_are_read_again_after_a_while_and_one_that_is_withdrawn_is_used_no_longer() -> None:
    source = Source(key_set(signer(), signer("ES256", "two")))
    assert await source.knows("two")
    source.raw = key_set(signer())
    source.now += KEYS_S + 1
    assert (await source.knows("two"), await source.knows("one")) == (False, True)


async def test_while_nobody_answers_the_known_keys_are_used(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(key_set(signer()))
    assert await source.knows("one")
    source.is_down = True
    source.now += KEYS_S + 1
    with caplog.at_level(logging.WARNING):
        assert await source.knows("one")
    assert caplog.messages == [f"jwt.keys: {URL} cannot be read: down"]


async def test_who_never_answered_is_unavailable() -> None:
    source = Source(b"")
    source.is_down = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            await source.knows("one")
    assert source.asked_n == 1
    source.is_down, source.raw = False, key_set(signer())
    source.now += RETRY_S
    assert await source.knows("one")


async def test_a_slow_answer_is_there_for_those_who_come_later() -> None:
    """Whoever waits has less time than it takes."""
    source = Source(key_set(signer()))
    may_answer = asyncio.Event()

    async def fetch_slowly(url: str) -> bytes:
        await may_answer.wait()
        return await source.fetch(url)

    keys = Keys(URL, fetch_slowly, lambda: source.now)
    first, second = (asyncio.ensure_future(keys.find("one", "ES256")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    may_answer.set()
    assert (await second is not None, source.asked_n) == (True, 1)
    await asyncio.wait([first])
    source.now += KEYS_S + 1
    may_answer.clear()
    third = asyncio.ensure_future(keys.find("one", "ES256"))
    await asyncio.sleep(0)
    keys.close()
    with pytest.raises(asyncio.CancelledError):
        await third


def test_only_keys_that_verify_signatures_are_used() -> None:
    document = json.loads(key_set(signer(), signer("EdDSA"), signer("RS256")))
    document["keys"] += [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
        {**signer("ES256", "two").jwk, "use": "enc"},
        {**signer("ES256", "two").jwk, "alg": "ES384"},
        {"kty": "EC", "crv": "P-521", "x": "", "y": ""},
        "nothing",
    ]
    assert [(key.id, key.algorithms) for key in keys_of(json.dumps(document).encode())] == [
        ("one", ("ES256",)),
        ("one", ("EdDSA",)),
        ("one", ("RS256", "PS256")),
    ]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"<html>", "is no JSON"),
        (b"[]", 'is no JSON Web Key Set: it has no list "keys"'),
        (b'{"keys": 5}', 'is no JSON Web Key Set: it has no list "keys"'),
        (b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}', "a key is broken: InvalidKeyError"),
        (b" " * ((1 << 20) + 1), "is longer than 1048576 bytes"),
    ],
)
def test_what_is_no_key_set_is_told(raw: bytes, text: str) -> None:
    with pytest.raises(ValueError) as raised:
        keys_of(raw)
    assert str(raised.value) == text


async def test_a_file_is_read_as_a_url_is(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(signer()))
    assert await Keys(str(path), fetch_keys).find("one", "ES256") is not None
    with pytest.raises(Unavailable):
        await Keys(str(tmp_path / "none"), fetch_keys).find("one", "ES256")


async def test_a_file_is_read_again_when_it_is_wanted_and_a_mistake_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(signer()))
    keys = Keys(str(path), fetch_keys)
    assert await keys.find("one", "ES256") is not None
    path.write_text("{")
    with pytest.raises(BrokerError, match=r"jwt.keys: \S+ is no JSON"):
        keys.prepare()
    path.write_bytes(key_set(signer("ES256", "two")))
    keys.prepare()
    assert await keys.find("one", "ES256") is not None
    keys.commit()
    assert (await keys.find("one", "ES256"), await keys.find("two", "ES256") is not None) == (None, True)


async def test_keys_of_a_url_are_fetched_again_when_it_is_wanted_and_the_known_ones_stay_until_they_come() -> None:
    source = Source(key_set(signer()))
    assert await source.knows("one")
    source.raw = key_set(signer("ES256", "two"))
    source.keys.prepare()
    source.keys.commit()
    source.is_down = True
    assert (await source.knows("one"), source.asked_n) == (True, 2)
    source.is_down = False
    source.now += RETRY_S
    assert (await source.knows("one"), await source.knows("two"), source.asked_n) == (False, True, 3)
