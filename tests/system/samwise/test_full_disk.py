"""A disk that is full, and free again: what was answered 0 arrives, what was answered -1 does not, and it goes on."""

from typing import Final

import pytest

from tests.client_sdk.gateways.samwise.callers import PING, PONG, Caller, calling, publish
from tests.conftest import StartBroker
from tests.system.samwise.conftest import StartGateway
from tests.system.samwise.receivers import a_service

DISK_BYTES: Final = 8_000_000
MESSAGE_BYTES: Final = 20_000
FULL: Final = b"not stored: the disk is full"

pytestmark = pytest.mark.long


def body(n: int) -> bytes:
    """A long one that is told from the others."""
    return b"%d" % n + bytes(MESSAGE_BYTES)


async def is_taken(caller: Caller, payload: bytes) -> bool:
    """Whether the answer is 0; it is that the disk is full otherwise."""
    state, *text = await caller.ask(publish(payload))
    assert (state, text) == (b"0", []) or (state, text[0][: len(FULL)]) == (b"-1", FULL), text
    return state == b"0"


async def fill(caller: Caller) -> list[bytes]:
    """Publishes until several in a row are refused; those that were answered 0."""
    taken: list[bytes] = []
    n = refused_n = 0
    while refused_n < 10:
        if await is_taken(caller, body(n)):
            taken.append(body(n))
            refused_n = 0
        else:
            refused_n += 1
        n += 1
        assert n * MESSAGE_BYTES < 2 * DISK_BYTES
    assert len(taken) * MESSAGE_BYTES > DISK_BYTES // 8
    return taken


async def test_a_full_disk_refuses_what_comes_and_delivers_what_it_has(
    start_gateway: StartGateway, start_broker: StartBroker
) -> None:
    url = start_broker().url("unix")
    gateway = start_gateway(broker=url, disk_bytes=DISK_BYTES)
    async with calling(gateway.endpoint) as call:
        caller = call()
        taken = await fill(caller)
        assert await caller.ask(PING) == PONG
        async with a_service(url) as arrivals:
            await gateway.nothing_waits()
            taken.append(b"there is room again")
            assert await is_taken(caller, taken[-1])
            await gateway.nothing_waits()
    assert sorted(payload for payload, _ in arrivals) == sorted(taken)


async def test_a_disk_that_others_free_takes_messages_again(
    start_gateway: StartGateway, start_broker: StartBroker
) -> None:
    """Also by a gateway that was killed meanwhile."""
    url = start_broker().url("unix")
    gateway = start_gateway(broker=url, disk_bytes=DISK_BYTES)
    async with calling(gateway.endpoint) as call:
        taken = await fill(call())
        gateway.kill()
        gateway.start_again()
        assert not await is_taken(call(), body(0))
        gateway.free_disk()
        taken += [body(n) for n in range(1000, 1010)]
        caller = call()
        assert [await is_taken(caller, each) for each in taken[-10:]] == [True] * 10
        async with a_service(url) as arrivals:
            await gateway.nothing_waits()
    assert sorted(payload for payload, _ in arrivals) == sorted(taken)
