"""Who reaches a Samwise gateway beside a broker: after each attack another caller's message arrives at its service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zmq
from zmq.auth import create_certificates, load_certificate

from client_sdk import Service, connect
from client_sdk.gateways.samwise.endpoint import plain
from client_sdk.testing import local_broker
from tests.client_sdk.gateways.samwise.callers import PING, PONG, Call, calling, publish
from tests.client_sdk.gateways.samwise.endpoint.test_server import GREETING, READY
from tests.client_sdk.gateways.samwise.whole import Serving, assigned, gateway
from tests.system.support.waits import soon, until
from tests.system.support.wires import StreamTransport

GIB = 1 << 30


class Attacked:
    """A gateway that runs, and what its service got. `url`: of the broker."""

    def __init__(self, url: str, serving: Serving, call: Call, got: list[bytes]) -> None:
        self.url = url
        self.serving = serving
        self.call = call
        self._got = got

    async def is_well(self) -> None:
        """What another caller publishes arrives, and nothing else has."""
        assert await self.call().ask(publish(b"a good one")) == [b"0"]
        await until(lambda: self._got)
        assert self._got == [b"a good one"]
        self._got.clear()

    async def connect(self) -> StreamTransport:
        """A connection that has said nothing."""
        path = self.serving.endpoints[0].removeprefix("ipc://")
        return StreamTransport(*await asyncio.open_unix_connection(path))


def taking(name: str, got: list[bytes]) -> Service:
    """A service that notes what it gets."""
    service = Service(name)

    @service.request_response()
    async def take(data: bytes) -> bytes:
        got.append(data)
        return b"taken"

    return service


@asynccontextmanager
async def attacked(folder: Path, **options: Any) -> AsyncIterator[Attacked]:
    """A gateway with these options, and the service `orders`, at a broker."""
    got: list[bytes] = []
    service = taking("orders", got)
    async with local_broker() as url, connect(url, service=service):
        given = assigned(folder, url)
        given = replace(given, options=replace(given.options, **options))
        async with gateway(given) as serving, calling(serving.endpoints[0]) as call:
            yield Attacked(url, serving, call, got)


async def test_garbage_is_answered_and_reaches_nobody(tmp_path: Path) -> None:
    async with attacked(tmp_path) as gateway:
        caller = gateway.call()
        for frames in ([b""], [b"\0\xff"], [b"120"], [b"x" * 5000] * 30, [b""] * 40, publish(b"")[:-2]):
            assert (await caller.ask(frames))[0] == b"-1"
        assert await caller.ask(PING) == PONG
        http = await gateway.connect()
        http.send_bytes(b"POST / HTTP/1.1\r\nHost: here\r\n\r\n" + b"".join(publish(b"evil")))
        await soon(http.reader.read())
        await http.close()
        await gateway.is_well()


async def test_a_frame_of_a_gibibyte_and_very_many_frames_hold_nobody_up(tmp_path: Path) -> None:
    async with attacked(tmp_path, max_frames=100) as gateway:
        large = await gateway.connect()
        large.send_bytes(GREETING + READY + b"\x01\x00\x02" + GIB.to_bytes(8, "big") + b"x" * 100_000)
        await soon(large.reader.readuntil(b"malformed request: 1073741824 bytes"))
        await gateway.is_well()
        large.abort()
        assert (await gateway.call().ask([b"100", *[b""] * 1000]))[0] == b"-1"
        await gateway.is_well()


async def test_who_says_nothing_is_cut_off_and_those_beyond_the_limit_are_not_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "HANDSHAKE_S", 0.2)
    async with attacked(tmp_path, max_callers=4) as gateway:
        silent = [await gateway.connect() for _ in range(20)]
        for each in silent:
            await soon(each.reader.read())
            await each.close()
        await gateway.is_well()


async def test_a_caller_that_asks_too_fast_is_refused_and_others_are_not(tmp_path: Path) -> None:
    async with attacked(tmp_path, max_requests_per_caller_per_s=3) as gateway:
        fast = gateway.call(zmq.DEALER)
        for number in range(50):
            await fast.send([b"hop %d" % number, b"", *PING])
        answers = [(await fast.answer())[2:] for _ in range(50)]
        assert answers.count(PONG) <= 10  # unless the machine needed many seconds for them
        await gateway.is_well()


async def test_nobody_stops_it(tmp_path: Path) -> None:
    async with attacked(tmp_path, controls=("status",)) as gateway:
        for control in (b"stop", b"restart"):
            assert (await gateway.call().ask([b"120", control]))[0] == b"-1"
        await gateway.is_well()


async def test_nobody_without_a_known_key_is_answered(tmp_path: Path) -> None:
    (tmp_path / "known").mkdir()
    key = Path(create_certificates(tmp_path, "gateway")[1])
    own = {name: create_certificates(tmp_path / place, name)[1] for name, place in (("eve", ""), ("shop", "known"))}

    def options(name: str) -> dict[int, Any]:
        public, secret = load_certificate(own[name])
        server = load_certificate(key)[0]
        return {zmq.CURVE_PUBLICKEY: public, zmq.CURVE_SECRETKEY: secret, zmq.CURVE_SERVERKEY: server}

    keys = {"curve_key": str(key), "curve_clients": str(tmp_path / "known")}
    async with attacked(tmp_path, endpoints=("tcp://127.0.0.1:0",), **keys) as gateway:
        strangers = [gateway.call(), gateway.call(zmq.REQ, options("eve"))]
        for stranger in strangers:
            await stranger.send(publish(b"evil"))
        assert await gateway.call(zmq.REQ, options("shop")).ask(PING) == PONG
        assert [await stranger.is_silent(0.05) for stranger in strangers] == [True, True]


async def test_a_full_store_refuses_and_says_so(tmp_path: Path) -> None:
    async with attacked(tmp_path, max_messages=5) as gateway:
        caller = gateway.call()
        nowhere = [b"100", b"publish", b"round robin", b"nobody", b"new", b"x"]
        answers = [await caller.ask(nowhere) for _ in range(10)]
        assert answers[0] == [b"0"]
        assert {tuple(each) for each in answers[5:]} == {tuple(answers[-1])}
        assert answers[-1][1].startswith(b"buffer full")
        assert await caller.ask(PING) == PONG
