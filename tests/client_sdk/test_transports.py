"""Every URL scheme, and the ends of WebSockets."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from client_sdk import ConnectionLost, address, connect
from tests.client_sdk.fake_broker import RESPONSE, FakeBroker
from tests.client_sdk.test_calls import Pair
from tests.client_sdk.test_failures import Stuck
from tests.client_sdk.test_loss import echo_service

# A key and a certificate for "localhost" that nothing else uses, valid until 2126.
CERTIFICATE = Path(__file__).parent / "localhost.pem"


@pytest.fixture
async def websocket_broker(no_leaked_tasks: None) -> AsyncIterator[FakeBroker]:
    fake = await FakeBroker().start_websocket()
    yield fake
    await fake.stop()


async def test_websocket_carries_calls_and_frames_of_16_megabytes(websocket_broker: FakeBroker) -> None:
    async with Pair(websocket_broker, echo_service()) as client:
        to = address("echo")
        assert (await client.request_response(to, b"hello")).data == b"hello"
        large = bytes(0xFFFFFF - 200)
        assert (await client.request_response(to, large)).data == large


async def test_empty_websocket_messages_and_texts_are_no_frames(websocket_broker: FakeBroker) -> None:
    async with Pair(websocket_broker, echo_service()) as client:
        caller = await websocket_broker.peer(1)
        for _ in range(3):
            caller.send(b"")
        assert (await client.request_response(address("echo"), b"hello")).data == b"hello"


async def test_end_of_a_websocket_is_noticed_and_the_client_comes_back(websocket_broker: FakeBroker) -> None:
    stuck = Stuck()
    async with Pair(websocket_broker, stuck.service) as client:
        call = asyncio.ensure_future(client.request_response(address("stuck")))
        caller = await websocket_broker.peer(1)
        await caller.expect(RESPONSE)
        caller.abort()
        with pytest.raises(ConnectionLost):
            await call
        await websocket_broker.peer(2)
        await client.wait_connected(timeout_s=5)


async def test_server_that_is_no_websocket_surfaces_from_connect(broker: FakeBroker) -> None:
    with pytest.raises(ConnectionLost):
        await connect(broker.url.replace("tcp:", "ws:"), connect_timeout_s=0.2)


async def test_unix_socket_carries_calls(tmp_path: Path, no_leaked_tasks: None) -> None:
    fake = await FakeBroker().start_unix(str(tmp_path / "broker"))
    async with Pair(fake, echo_service()) as client:
        assert (await client.request_response(address("echo"), b"hello")).data == b"hello"
    await fake.stop()


async def test_tls_carries_calls_and_a_stranger_is_not_trusted(no_leaked_tasks: None) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    fake = await FakeBroker().start(ssl=context)
    url = fake.url.replace("tcp://127.0.0.1", "tls://localhost")
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    async with connect(url, ssl=trusting) as client:
        assert client.is_connected
    with pytest.raises(ConnectionLost, match="CERTIFICATE_VERIFY_FAILED"):
        await connect(url)
    await fake.stop()
