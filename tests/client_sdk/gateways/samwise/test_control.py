"""client_sdk.gateways.samwise.control: operators and a gateway, over its socket or with its store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, UnixConnector

from broker.views.samwise import DEAD, WAITING
from client_sdk.gateways.control import NotRunning
from client_sdk.gateways.samwise.backends.backend import NotDelivered
from client_sdk.gateways.samwise.control import ControlClient, ControlListener, StoppedGateway
from client_sdk.gateways.samwise.gateway import Gateway
from client_sdk.gateways.samwise.store import Store
from client_sdk.gateways.samwise.tables import StoreError
from tests.client_sdk.gateways.samwise.asking import handled
from tests.client_sdk.gateways.samwise.fake_backend import FakeBackend
from tests.client_sdk.gateways.samwise.messages import publish
from tests.system.support.waits import until


class Hopeless(FakeBackend):
    """Its destination takes nothing, ever."""

    async def deliver(self, message: object, to: str) -> str:
        raise NotDelivered("nobody wants it", is_hopeless=True)


@asynccontextmanager
async def running(folder: Path, backend: FakeBackend) -> AsyncIterator[Gateway]:
    gateway = Gateway(Store(folder / "m.db"), backend)
    listener = ControlListener(gateway, folder / "c")
    await gateway.start()
    await listener.start()
    try:
        yield gateway
    finally:
        await listener.close()
        await gateway.stop(0)


async def test_messages_that_wait_are_listed_by_pages_and_removed(tmp_path: Path) -> None:
    async with running(tmp_path, FakeBackend()) as gateway, ControlClient(tmp_path / "c") as client:
        for payload in (b"a", b"bb", b"ccc"):
            assert (await handled(gateway, publish(payload=payload))).is_ok
        first = (await client.page(WAITING, 0, 2)).items
        assert [each.payload_bytes for each in first] == [1, 2]
        rest = (await client.page(WAITING, first[-1].id, 2)).items
        assert [each.payload_bytes for each in rest] == [3]
        assert (await client.page(WAITING, rest[-1].id, 2)).items == []
        assert await client.remove([first[0].id, 999]) == 1
        assert [each.id for each in (await client.page(WAITING, 0, 9)).items] == [first[1].id, rest[0].id]


async def test_dead_letters_are_listed_with_the_reason_and_requeued(tmp_path: Path) -> None:
    async with running(tmp_path, Hopeless("a")) as gateway, ControlClient(tmp_path / "c") as client:
        assert (await handled(gateway, publish())).is_ok
        await until(lambda: gateway.counters.died_n == 1)
        (letter,) = (await client.page(DEAD, 0, 9)).items
        assert letter.reason == "nobody wants it"
        assert letter.dead_at_ms is not None
        assert await client.requeue([letter.id]) == 1
        await until(lambda: gateway.counters.died_n == 2)  # it was tried again


async def test_the_state_is_given_as_json(tmp_path: Path) -> None:
    async with running(tmp_path, FakeBackend("a")) as gateway:
        await handled(gateway, publish())
        async with (
            ClientSession(connector=UnixConnector(str(tmp_path / "c"))) as session,
            session.get("http://gateway/state") as response,
        ):
            state = await response.json()
    assert state["accepted"] == 1
    assert [each["name"] for each in state["destinations"]] == ["a"]


@pytest.mark.parametrize(
    "path, body, text",
    [
        ("/messages?state=gone", None, "state must be waiting or dead, limit 1 to 1000"),
        ("/messages?limit=0", None, "state must be waiting or dead, limit 1 to 1000"),
        ("/messages?after=x", None, "after and limit must be whole numbers"),
        ("/messages/remove", b"[]", "Expected `object`, got `array`"),
        ("/messages/remove", b'{"ids": []}', "ids must be 1 to 10000"),
        (f"/messages?after={2**63}", None, "after must be 0 to 9223372036854775807"),
        ("/messages/remove", b'{"ids": [-1]}', "Expected `int` >= 0 - at `$.ids[0]`"),
        ("/messages/requeue", b'{"ids": ["x"]}', "Expected `int`, got `str` - at `$.ids[0]`"),
        ("/messages/requeue", b"\xff", "JSON is malformed: invalid character (byte 0)"),
    ],
)
async def test_what_makes_no_sense_is_refused(tmp_path: Path, path: str, body: bytes | None, text: str) -> None:
    async with running(tmp_path, FakeBackend()), ClientSession(connector=UnixConnector(str(tmp_path / "c"))) as session:
        method = "GET" if body is None else "POST"
        async with session.request(method, f"http://gateway{path}", data=body) as response:
            assert (response.status, await response.text()) == (400, text)


async def test_only_the_user_of_the_gateway_may_ask_and_nothing_is_left_behind(tmp_path: Path) -> None:
    async with running(tmp_path, FakeBackend()):
        assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "c").exists()


async def test_the_socket_of_a_gateway_that_was_killed_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("")
    async with running(tmp_path, FakeBackend()), ControlClient(tmp_path / "c") as client:
        assert (await client.page(WAITING, 0, 9)).items == []


async def test_where_no_gateway_runs_its_store_is_asked(tmp_path: Path) -> None:
    async with running(tmp_path, Hopeless("a")) as gateway:
        await handled(gateway, publish())
        await until(lambda: gateway.counters.died_n == 1)
        with pytest.raises(StoreError, match="another gateway uses it"):
            async with StoppedGateway(Store(tmp_path / "m.db")):
                pass
    async with ControlClient(tmp_path / "c") as client:
        with pytest.raises(NotRunning):
            await client.page(WAITING, 0, 9)
    async with StoppedGateway(Store(tmp_path / "m.db")) as stopped:
        (letter,) = (await stopped.page(DEAD, 0, 9)).items
        assert await stopped.requeue([letter.id]) == 1
        (letter,) = (await stopped.page(WAITING, 0, 9)).items
        assert await stopped.remove([letter.id]) == 1
        assert (await stopped.page(WAITING, 0, 9)).items == []
