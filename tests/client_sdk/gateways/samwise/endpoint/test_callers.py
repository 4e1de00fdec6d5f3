"""client_sdk.gateways.samwise.endpoint.callers: keys."""

from pathlib import Path
from typing import Any

import pytest
import zmq
from zmq.auth import create_certificates, load_certificate

from client_sdk.gateways.samwise.requests import Rules
from tests.client_sdk.gateways.samwise.callers import PING, PONG, FakeGateway, calling, serving


class Keys:
    """Of a gateway, and of callers that may know it."""

    def __init__(self, folder: Path) -> None:
        self.known = folder / "known"
        self.known.mkdir()
        self.gateway = Path(create_certificates(folder, "gateway")[1])
        create_certificates(folder, "stranger")
        create_certificates(self.known, "shop")
        self.folder = folder

    def options(self, key: Path) -> dict[int, Any]:
        """Of a caller's socket that has this key."""
        public, secret = load_certificate(key)
        return {
            zmq.CURVE_PUBLICKEY: public,
            zmq.CURVE_SECRETKEY: secret,
            zmq.CURVE_SERVERKEY: load_certificate(self.gateway)[0],
        }


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


async def test_callers_whose_keys_are_known_are_let_in_and_no_others(keys: Keys) -> None:
    settings: dict[str, Any] = {"curve_key": keys.gateway, "curve_clients": keys.known}
    async with (
        serving(FakeGateway(), "tcp://127.0.0.1:0", Rules(), **settings) as server,
        calling(server.endpoints[0]) as call,
    ):
        stranger = call(zmq.REQ, keys.options(keys.folder / "stranger.key_secret"))
        nobody = call()
        await nobody.send(PING)
        await stranger.send(PING)
        assert await call(zmq.REQ, keys.options(keys.known / "shop.key_secret")).ask(PING) == PONG
        assert await stranger.is_silent()
        assert await nobody.is_silent()


async def test_without_a_list_all_who_know_the_key_of_the_gateway_are_let_in(keys: Keys) -> None:
    settings: dict[str, Any] = {"curve_key": keys.gateway}
    async with (
        serving(FakeGateway(), "tcp://127.0.0.1:0", Rules(), **settings) as server,
        calling(server.endpoints[0]) as call,
    ):
        nobody = call()
        await nobody.send(PING)
        assert await call(zmq.REQ, keys.options(keys.folder / "stranger.key_secret")).ask(PING) == PONG
        assert await nobody.is_silent()


async def test_a_socket_in_a_file_needs_no_key_beside_one_that_does(keys: Keys) -> None:
    settings: dict[str, Any] = {"curve_key": keys.gateway, "curve_clients": keys.known}
    path = f"ipc://{keys.folder}/s"
    endpoints = ("tcp://127.0.0.1:0", path)
    async with serving(FakeGateway(), "", Rules(), endpoints=endpoints, **settings) as server:
        async with calling(path) as call:
            assert await call().ask(PING) == PONG
        async with calling(server.endpoints[0]) as call:
            assert await call(zmq.REQ, keys.options(keys.known / "shop.key_secret")).ask(PING) == PONG


async def test_callers_in_files_and_those_with_keys_have_one_limit(keys: Keys) -> None:
    settings: dict[str, Any] = {"curve_key": keys.gateway, "max_callers": 1}
    path = f"ipc://{keys.folder}/s"
    with_key = {zmq.RECONNECT_IVL: 20, **keys.options(keys.known / "shop.key_secret")}
    async with (
        serving(FakeGateway(), "", Rules(), endpoints=("tcp://127.0.0.1:0", path), **settings) as server,
        calling(path) as call,
        calling(server.endpoints[0]) as call_with_key,
    ):
        first = call()
        assert await first.ask(PING) == PONG
        second = call_with_key(zmq.REQ, with_key)
        await second.send(PING)
        assert await second.is_silent()
        first.leave()
        assert await second.answer() == PONG
        third = call(zmq.REQ, {zmq.RECONNECT_IVL: 20})
        await third.send(PING)
        assert await third.is_silent()
        second.leave()
        assert await third.answer() == PONG
