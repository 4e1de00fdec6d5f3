"""client_sdk.gateways.samwise.endpoint.client: a program that asks, and does not wait for ever."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio
from zmq.auth import create_certificates

from client_sdk.gateways.samwise.endpoint.client import NoAnswer, SamwiseClient
from client_sdk.gateways.samwise.requests import Rules
from client_sdk.gateways.samwise.values import Ping, Reply, Status
from tests.client_sdk.gateways.samwise.callers import FakeGateway, serving


@pytest.mark.parametrize("version", [100, 110, 120])
async def test_a_request_has_an_answer(tmp_path: Path, version: int) -> None:
    gateway = FakeGateway()

    def ask() -> list[Reply]:
        with SamwiseClient(f"ipc://{tmp_path}/s") as client:
            return [client.ask(Ping(version)), client.ask(Status(version))]

    async with serving(gateway, f"ipc://{tmp_path}/s"):
        pong, status = await asyncio.to_thread(ask)
    assert pong == Reply(True)
    assert status.is_ok == (version == 120)


async def test_without_an_answer_it_is_given_up_and_the_next_request_goes_out(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/s"
    with SamwiseClient(endpoint, timeout_s=1.0) as client, zmq.asyncio.Context() as context:
        router = context.socket(zmq.ROUTER)
        router.bind(endpoint)
        with pytest.raises(NoAnswer, match=f"no answer from {endpoint} within 1 s"):
            await asyncio.to_thread(client.ask, Ping(110))
        asking = asyncio.create_task(asyncio.to_thread(client.ask, Ping(120)))
        while (request := await router.recv_multipart())[2] != b"120":
            pass  # the one that was given up
        await router.send_multipart([*request[:2], b"0", b"late but there"])
        assert await asking == Reply(True, "late but there")
        router.close(0)


def test_a_gateway_that_is_not_there_does_not_answer(tmp_path: Path) -> None:
    with SamwiseClient(f"ipc://{tmp_path}/nobody", timeout_s=0.05) as client, pytest.raises(NoAnswer):
        client.ask(Ping(110))


@pytest.mark.parametrize("endpoint", ["", "orders", "tcp://", "tcp://127.0.0.1", "udp://127.0.0.1:1"])
def test_what_is_no_endpoint_is_told_at_once(endpoint: str) -> None:
    with pytest.raises(ValueError, match=f"^'{endpoint}': .*; an endpoint is ipc://PATH or tcp://HOST:PORT$"):
        SamwiseClient(endpoint)


async def test_with_keys_it_is_let_in(tmp_path: Path) -> None:
    public, secret = (Path(each) for each in create_certificates(tmp_path, "gateway"))
    known = tmp_path / "known"
    known.mkdir()
    create_certificates(known, "shop")
    settings: dict[str, Any] = {"curve_key": secret, "curve_clients": known}
    async with serving(FakeGateway(), "tcp://127.0.0.1:0", Rules(), **settings) as server:

        def ask(key: Path | None) -> Reply:
            with SamwiseClient(server.endpoints[0], timeout_s=0.5, server_key=public, key=key) as client:
                return client.ask(Ping(110))

        assert await asyncio.to_thread(ask, known / "shop.key_secret") == Reply(True)
        with pytest.raises(NoAnswer):
            await asyncio.to_thread(ask, None)
        with pytest.raises(ValueError, match="holds no secret key"):
            await asyncio.to_thread(ask, known / "shop.key")
