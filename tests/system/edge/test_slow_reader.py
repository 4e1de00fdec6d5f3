"""A peer that asks for more than it reads costs a bounded number of bytes, then a request; others go on."""

import asyncio

import pytest

from rsocket_wire.errors import CANCELED
from rsocket_wire.rsocket.frames import COMPLETE, ERROR, FOLLOWS, NEXT, PAYLOAD, REQUEST_STREAM, encode_payload
from rsocket_wire.wire.frames import MIME_TYPE, RouteSetup
from tests.conftest import MakeServer, StartBroker
from tests.fakes import Frame, composite, route_id
from tests.system.support.waits import until
from tests.system.support.wires import Closed, Wire, url_of

MAX_PENDING_BYTES = 1 << 20
ITEM = b"\x28\x20" + bytes(60_000)  # PAYLOAD, NEXT


async def pour(service: Wire, stream_id: int) -> int:
    """Sends items until the broker cancels the stream; how many."""
    cancelled = asyncio.ensure_future(service.receive(30.0))
    sent = 0
    while not cancelled.done():
        service.send(stream_id.to_bytes(4, "big") + ITEM)
        await service.transport.flush()
        await asyncio.sleep(0)
        sent += 1
    frame = cancelled.result()
    assert (frame.name, frame.stream_id) == ("CANCEL", stream_id)
    return sent


async def read_to_error(slow: Wire, stream_id: int) -> Frame:
    """Reads what had waited, up to the ERROR of the stream."""
    while (frame := await slow.receive()).kind != ERROR:
        assert (frame.kind, frame.stream_id) == (PAYLOAD, stream_id)
    return frame


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
async def test_a_slow_reader_loses_the_request_for_which_most_waits_and_nothing_else(
    make_server: MakeServer, scheme: str
) -> None:
    server = await make_server(**{"limits.max_pending_bytes": MAX_PENDING_BYTES})
    firehose = await Wire.service(url_of(server, "tcp"), "firehose", 1)
    orders = await Wire.service(url_of(server, scheme), "orders", 2)
    orders.begin_echo()
    other = await Wire.caller(url_of(server, scheme))
    answers = 0

    async def go_on() -> None:
        nonlocal answers
        while True:
            assert (await other.ask("orders", b"hi")).data == b"hi"
            answers += 1

    going_on = asyncio.create_task(go_on())
    slow = await Wire.slow(url_of(server, scheme))
    stream_id = slow.request("firehose", kind=REQUEST_STREAM, n=0x7FFFFFFF)
    request = await firehose.receive()
    await pour(firehose, request.stream_id)
    seen = answers
    await until(lambda: answers > seen + 10)
    assert not going_on.done()
    going_on.cancel()
    await asyncio.gather(going_on, return_exceptions=True)
    ended = await read_to_error(slow, stream_id)
    assert (ended.code, ended.text.startswith("over-limit: ")) == (CANCELED, True)
    assert f"the limit is {MAX_PENDING_BYTES} (limits.max_pending_bytes)" in ended.text
    assert (await slow.ask("orders", b"still here")).data == b"still here"
    assert (server.core.lifecycle.limits.closed.by_reason, len(server.core.peers())) == ({}, 4)


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_a_process_ends_only_that_request_too(start_broker: StartBroker, scheme: str) -> None:
    """The same on the event loop that brokers run on."""
    broker = start_broker(limits__max_pending_bytes=MAX_PENDING_BYTES)
    firehose = await Wire.service(broker.url("tcp"), "firehose", 1)
    slow = await Wire.slow(broker.url(scheme))
    stream_id = slow.request("firehose", kind=REQUEST_STREAM, n=0x7FFFFFFF)
    request = await firehose.receive()
    await pour(firehose, request.stream_id)
    assert (await read_to_error(slow, stream_id)).text.startswith("over-limit: ")
    await slow.ping()


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
async def test_a_large_answer_waits_for_a_caller_that_reads_slowly(make_server: MakeServer, scheme: str) -> None:
    """20 MB without credit, of which the caller reads nothing before all of it has come; small answers overtake it."""
    server = await make_server()
    service = await Wire.service(url_of(server, "tcp"), "orders", 1)
    slow = await Wire.slow(url_of(server, scheme))
    large, small = slow.request("orders"), slow.request("orders")
    asked = [await service.receive() for _ in range(2)]
    for number in range(320):
        service.send(encode_payload(asked[0].stream_id, NEXT | (FOLLOWS if number < 319 else COMPLETE), bytes(65_000)))
    service.send(encode_payload(asked[1].stream_id, NEXT | COMPLETE, b"little"))
    await service.ping()
    order: list[int] = []
    size = 0
    while size < 320 * 65_000:
        frame = await slow.receive()
        if frame.stream_id == large:
            size += len(frame.data)
        order.append(frame.stream_id)
    assert order.index(small) < len(order) - 100
    assert server.core.lifecycle.limits.closed.by_reason == {}


async def test_a_frame_larger_than_the_limit_passes_to_a_peer_that_reads(make_server: MakeServer) -> None:
    server = await make_server(**{"limits.max_pending_bytes": 65_536})
    for scheme in ("tcp", "ws"):
        service = await Wire.service(url_of(server, scheme), "orders", 1)
        service.begin_echo()
        caller = await Wire.caller(url_of(server, scheme))
        data = bytes(3_000_000)
        assert (await caller.ask("orders", data)).data == data
        for wire in (caller, service):
            await wire.close()
        with pytest.raises(Closed):
            await caller.receive()


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
async def test_a_burst_of_large_requests_waits_for_the_service(make_server: MakeServer, scheme: str) -> None:
    """The caller is not read from while the service is behind, so nobody is ended for being slow."""
    server = await make_server(**{"limits.max_pending_bytes": 2 * MAX_PENDING_BYTES})
    url = url_of(server, scheme)
    service = await Wire.service(url, "orders", 1)
    caller = await Wire.caller(url)
    for _ in range(20):
        caller.request("orders", bytes(1_000_000), kind=0x05)
    await until(lambda: any(peer.is_paused for peer in server.core.peers()))
    for _ in range(20):
        assert len((await service.receive()).data) == 1_000_000
    await until(lambda: not any(peer.is_paused for peer in server.core.peers()))
    assert server.core.lifecycle.limits.closed.by_reason == {}


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_a_service_that_takes_nothing_is_ended_and_its_callers_are_told_and_go_on(
    make_server: MakeServer, scheme: str
) -> None:
    server = await make_server(**{"limits.stuck_s": 0.3})
    setup = composite((MIME_TYPE, RouteSetup(route_id(1), "orders", []).encode()))
    service = await Wire.slow(url_of(server, scheme), setup)
    caller = await Wire.caller(url_of(server, "tcp"))
    await until(lambda: server.core.table.size() == 1)
    caller.request("orders")
    for _ in range(40):
        caller.request("orders", bytes(200_000), kind=0x05)
    await until(lambda: server.core.lifecycle.limits.closed.by_reason.get("slow-peer", 0) == 1)
    assert server.core.lifecycle.limits.closed.latest[-1].detail.endswith(
        "unread bytes and read none for 0.3 s (limits.stuck_s)"
    )
    assert (await caller.receive()).text.startswith("route-lost:")
    await caller.ping()
    service.transport.abort()
