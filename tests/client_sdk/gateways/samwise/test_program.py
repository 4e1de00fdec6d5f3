"""client_sdk.gateways.samwise.program: a whole gateway beside a broker."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from client_sdk import Request, Service, connect
from client_sdk.gateways.samwise.program import serve
from client_sdk.gateways.samwise.tables import StoreError
from client_sdk.gateways.samwise.values import RESTART, STOP
from client_sdk.testing import local_broker
from rsocket_wire.errors import BrokerError
from tests.client_sdk.gateways.samwise.callers import calling, publish
from tests.client_sdk.gateways.samwise.whole import assigned, gateway
from tests.fuzz.fuzz_samwise_endpoint import run
from tests.system.support.waits import soon, until

STATUS = [b"120", b"status"]


class Orders:
    """A service, and what it was asked."""

    def __init__(self) -> None:
        self.got: list[tuple[str | None, bytes]] = []
        self.service = Service("orders")

        @self.service.request_response()
        async def take(request: Request) -> bytes:
            self.got.append((request.route, request.data))
            return b"taken"


async def test_what_is_published_arrives_at_a_service(tmp_path: Path) -> None:
    orders = Orders()
    async with (
        local_broker() as url,
        connect(url, service=orders.service),
        gateway(assigned(tmp_path, url)) as serving,
        calling(serving.endpoints[0]) as call,
    ):
        caller = call()
        for payload in (b"book", b"lamp"):
            assert await caller.ask(publish(payload)) == [b"0"]
        await until(lambda: len(orders.got) == 2)
        state, text = await caller.ask(STATUS)
        assert state == b"0"
        assert text.splitlines()[:2] == [b"callers: 1 connected, 0 turned away, 1 requests wait", b"accepted: 2"]
    assert orders.got == [("new", b"book"), ("new", b"lamp")]


async def test_what_was_stored_before_a_stop_arrives_after_the_next_start(tmp_path: Path) -> None:
    orders = Orders()
    async with gateway(assigned(tmp_path)) as serving, calling(serving.endpoints[0]) as call:
        assert await call().ask(publish(b"early")) == [b"0"]
    async with local_broker() as url, connect(url, service=orders.service), gateway(assigned(tmp_path, url)):
        await until(lambda: orders.got == [("new", b"early")])


@pytest.mark.parametrize("action", [STOP, RESTART])
async def test_a_caller_that_may_stops_it_and_is_answered(tmp_path: Path, action: str) -> None:
    async with gateway(assigned(tmp_path)) as serving, calling(serving.endpoints[0]) as call:
        assert await call().ask([b"120", action.encode()]) == [b"0", b""]
        assert await soon(serving.wish) == action
    assert sorted(each.name for each in tmp_path.iterdir()) == ["stored"]
    assert [each.name for each in (tmp_path / "stored").iterdir()] == ["messages.db"]


async def test_two_gateways_do_not_use_one_folder(tmp_path: Path) -> None:
    given = assigned(tmp_path)
    other = replace(given, options=replace(given.options, endpoints=(f"ipc://{tmp_path}/other",)))
    async with gateway(given) as serving, calling(serving.endpoints[0]) as call:
        with pytest.raises(StoreError, match="another gateway uses it"):
            await serve(other, asyncio.Event(), print)
        assert (await call().ask(STATUS))[0] == b"0"
        assert (tmp_path / "stored" / "control.sock").exists()


async def test_where_the_endpoint_is_taken_nothing_is_left(tmp_path: Path) -> None:
    given = assigned(tmp_path)
    other = replace(given, options=replace(given.options, dir=str(tmp_path / "other")))
    async with gateway(given):
        with pytest.raises(BrokerError, match="address already in use"):
            await serve(other, asyncio.Event(), print)
    assert list((tmp_path / "other").iterdir()) == []


async def test_a_power_failure_does_not_take_the_folder_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(Path(f"/proc/self/fd/{handle}").readlink()))
    given = assigned(tmp_path)
    async with gateway(replace(given, options=replace(given.options, dir=str(tmp_path / "new" / "er")))):
        assert synced == [tmp_path / "new", tmp_path, tmp_path / "new" / "er"]


async def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    given = assigned(tmp_path)
    with pytest.raises(BrokerError, match=r"samwise\.dir: .*/file/stored: not a directory"):
        await serve(
            replace(given, options=replace(given.options, dir=f"{tmp_path}/file/stored")), asyncio.Event(), print
        )


async def test_whatever_is_sent_is_answered_in_its_place_and_only_what_was_taken_is_stored(tmp_path: Path) -> None:
    assert await run(tmp_path, 2_000, seed=1) > 100
