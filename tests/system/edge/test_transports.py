"""Requests from every transport to every other, and the largest frame that RSocket can say."""

import asyncio
import contextlib

import aiohttp
import pytest

from broker.edge.tcp import TcpLink
from broker.edge.websocket import WebSocketLink
from broker.server import Server
from rsocket_wire.rsocket.frames import PAYLOAD, REQUEST_RESPONSE, encode_request
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES
from tests.fakes import address, addressed
from tests.system.support.processes import BrokerProcess
from tests.system.support.shells import FakeTransport
from tests.system.support.waits import soon
from tests.system.support.wires import Wire

SCHEMES = ("tcp", "ws", "unix")


async def test_requests_pass_from_every_transport_to_every_other(broker_process: BrokerProcess) -> None:
    wires = [await Wire.service(broker_process.url(scheme), scheme, at + 1) for at, scheme in enumerate(SCHEMES)]
    for caller in wires:
        for service, name in zip(wires, SCHEMES, strict=True):
            stream_id = caller.request(name, b"hello")
            request = await service.receive()
            service.answer(request, b"hello yourself")
            answer = await soon(caller.receive())
            assert (answer.stream_id, answer.data) == (stream_id, b"hello yourself")


@pytest.mark.parametrize("schemes", ["tcp-ws", "ws-tcp"])
async def test_a_frame_of_all_that_24_bits_can_say_passes(broker_process: BrokerProcess, schemes: str) -> None:
    from_scheme, to_scheme = schemes.split("-")
    service = await Wire.service(broker_process.url(to_scheme), "orders", 1)
    caller = await Wire.caller(broker_process.url(from_scheme))
    metadata = addressed(address(service="orders"))
    empty = encode_request(REQUEST_RESPONSE, 1, b"", metadata)
    whole = encode_request(REQUEST_RESPONSE, 1, bytes(MAX_FRAME_BYTES - len(empty)), metadata)
    assert len(whole) == MAX_FRAME_BYTES
    caller.send(whole)
    request = await service.receive()
    assert request.raw[4:] == whole[4:]
    service.answer(request, b"got it all")
    assert (await caller.receive()).data == b"got it all"


async def test_a_websocket_message_beyond_that_costs_its_sender_the_connection(broker_process: BrokerProcess) -> None:
    bystander = await Wire.caller(broker_process.url("ws"))
    wire = await Wire.caller(broker_process.url("ws"))
    with contextlib.suppress(ConnectionError, aiohttp.ClientError):  # the broker may close before it is all sent
        await wire.messages.ws.send_bytes(bytes(MAX_FRAME_BYTES + 1))
    (frame,) = await wire.rest()
    assert frame.text == f"bad-frame: a frame of {MAX_FRAME_BYTES + 1} bytes, the limit is {MAX_FRAME_BYTES}"
    await wire.close()
    await bystander.ping()
    assert "Traceback" not in broker_process.errors


async def test_frames_arrive_in_the_order_in_which_they_were_sent(broker_process: BrokerProcess) -> None:
    for scheme in SCHEMES:
        service = await Wire.service(broker_process.url(scheme), f"ordered-{scheme}", 1)
        caller = await Wire.caller(broker_process.url(scheme))
        ids = [caller.request(f"ordered-{scheme}", str(at).encode(), kind=0x06) for at in range(300)]
        requests = [await service.receive() for _ in ids]
        assert [request.data for request in requests] == [str(at).encode() for at in range(300)]
        for request in requests:
            service.send(request.raw[:4] + (PAYLOAD << 10 | 0x20).to_bytes(2, "big") + request.data)
        answers = [await caller.receive() for _ in ids]
        assert [(answer.stream_id, answer.data) for answer in answers] == [
            (stream_id, str(at).encode()) for at, stream_id in enumerate(ids)
        ]
        await asyncio.gather(caller.close(), service.close())


class Failing(FakeTransport):
    """As uvloop's: the first write finds that the other end is gone, and the loop tells it later."""

    def is_closing(self) -> bool:
        return len(self.written) > 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.written:
            raise RuntimeError("the handler is closed")
        super().write(data)


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_nothing_is_written_to_a_transport_that_has_failed_in_this_turn(server: Server, scheme: str) -> None:
    transport = Failing()
    link: TcpLink | WebSocketLink
    if scheme == "tcp":
        link = TcpLink(server.shell, scheme)
        link.connection_made(transport)
    else:
        link = WebSocketLink(server.shell, transport, is_from_client=True)
        link.begin("ws", "", b"")
    link.write([b"one", memoryview(bytes(100_000)), b"two"])
    link.write([b"three"])
    link.resume()
    assert len(transport.written) == 1
    link.connection_lost(None)


@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_transport_that_encrypts_holds_a_quarter(server: Server, is_tls: bool) -> None:
    """It holds a copy of its own, also of a frame that goes to many."""
    transport = FakeTransport()
    transport.get_extra_info = {"sslcontext": is_tls or None}.get  # type: ignore[assignment]
    link = TcpLink(server.shell, "tls")
    link.connection_made(transport)
    assert transport.limits == ((256 << 10, 64 << 10) if is_tls else (1 << 20, 256 << 10))
    link.connection_lost(None)
