"""rsocket-py, unmodified, through the broker: as caller and as service, over TCP and WebSocket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from typing import NamedTuple

import aiohttp
import pytest
from rsocket.error_codes import ErrorCode
from rsocket.exceptions import RSocketProtocolError
from rsocket.extensions.helpers import composite, metadata_item
from rsocket.payload import Payload
from rsocket.routing.request_router import RequestRouter
from rsocket.routing.routing_request_handler import RoutingRequestHandler
from rsocket.rsocket_client import RSocketClient

from broker.server import Server
from rsocket_wire.wire.frames import MIME_TYPE, MIME_TYPE_V0, MULTICAST, SHARD, UNICAST, RouteSetup
from tests.fakes import address, route_id, tags_of
from tests.interop.rsocket_py import (
    COMPOSITE,
    Handler,
    Items,
    code_and_text,
    dial,
    entry_mimes,
    offer,
    payload,
    reading,
    request_metadata,
    text,
)
from tests.system.support.waits import soon, until
from tests.system.support.wires import Wire, url_of

pytestmark = pytest.mark.interop

ORDERS = address(service="orders", region="eu")


async def joined(server: Server, count: int) -> None:
    """So many routes are in the table."""
    await until(lambda: server.core.table.size() == count)


async def error_of(answer: Awaitable[object]) -> tuple[ErrorCode, str]:
    """What the request fails with: RSocket code and text."""
    with pytest.raises((RSocketProtocolError, RuntimeError)) as caught:
        await soon(answer)
    return code_and_text(caught.value)


class Pair(NamedTuple):
    """A caller and one service, `orders` in region `eu`."""

    caller: RSocketClient
    handler: Handler
    service: RSocketClient


@pytest.fixture(params=["tcp-tcp", "tcp-ws", "ws-tcp", "ws-ws", "unix-unix"])
async def pair(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[Pair]:
    from_scheme, to_scheme = request.param.split("-")
    async with (
        offer(url_of(server, to_scheme), "orders", 1, region="eu") as (handler, service),
        dial(url_of(server, from_scheme)) as caller,
    ):
        await joined(server, 1)
        yield Pair(caller, handler, service)


async def test_request_response_passes_data_and_metadata_both_ways(pair: Pair) -> None:
    answer = await soon(pair.caller.request_response(payload(ORDERS, "a book", name="create")))
    assert (text(answer), bytes(answer.metadata)) == ("orders:a book", b"answered")
    assert pair.handler.heard == [("response", "a book")]
    assert pair.handler.metadata == [request_metadata(ORDERS, name="create")]


async def test_fire_and_forget_arrives(pair: Pair) -> None:
    await soon(pair.caller.fire_and_forget(payload(ORDERS, "forget me")))
    await until(lambda: pair.handler.heard == [("fnf", "forget me")])


async def test_metadata_push_arrives(pair: Pair) -> None:
    metadata = request_metadata(ORDERS, name="news")
    await soon(pair.caller.metadata_push(metadata))
    await until(lambda: pair.handler.heard == [("push", "")])
    assert pair.handler.metadata == [metadata]


async def test_stream_sends_what_was_asked_for_and_no_more(pair: Pair) -> None:
    inbox = reading(pair.caller.request_stream(payload(ORDERS, "count 7")), 2)
    assert await inbox.has(2) == [b"orders:1", b"orders:2"]
    await soon(pair.caller.request_response(payload(ORDERS, "is there more?")))  # what was behind them would be here
    assert inbox.data == [b"orders:1", b"orders:2"]
    inbox.subscription.request(3)
    await inbox.has(5)
    inbox.subscription.request(10)
    assert await inbox.end() == [b"orders:%d" % at for at in range(1, 8)]
    assert pair.handler.streams[0].asked == [2, 3, 10]


async def test_cancel_of_a_stream_reaches_the_service(pair: Pair) -> None:
    inbox = reading(pair.caller.request_stream(payload(ORDERS, "count 100")), 3)
    await inbox.has(3)
    inbox.subscription.cancel()
    await until(lambda: pair.handler.streams[0].is_cancelled)


async def test_cancel_of_a_request_response_reaches_the_service(pair: Pair) -> None:
    answer = pair.caller.request_response(payload(ORDERS, "hang"))
    await until(lambda: pair.handler.hanging)
    answer.cancel()
    await until(lambda: pair.handler.hanging[0].cancelled())


async def test_channel_runs_both_ways_with_credit_on_each(pair: Pair) -> None:
    mine = Items(["2", "3", "4"])
    inbox = reading(pair.caller.request_channel(payload(ORDERS, "1"), mine), 2)
    assert await inbox.has(2) == [b"orders:1", b"orders:2"]
    await soon(pair.caller.request_response(payload(ORDERS, "is there more?")))
    assert (inbox.data, mine.left) == ([b"orders:1", b"orders:2"], ["4"])  # two were asked for, one more is under way
    inbox.subscription.request(9)
    assert await inbox.end() == [b"orders:1", b"orders:2", b"orders:3", b"orders:4"]
    assert (inbox.error, mine.asked[:2], pair.handler.channels[0].asked) == (None, [1, 1], [2, 9])


async def test_channel_that_its_caller_opens_and_closes_in_one_frame(pair: Pair) -> None:
    inbox = reading(pair.caller.request_channel(payload(ORDERS, "all")), 5)
    await until(lambda: pair.handler.channels)
    pair.handler.channels[0].on_complete()  # rsocket-py overlooks the C flag of a REQUEST_CHANNEL
    assert await inbox.end() == [b"orders:all"]


async def test_an_error_of_a_channels_caller_reaches_the_service(pair: Pair) -> None:
    reading(pair.caller.request_channel(payload(ORDERS, "1"), Items(["2"], breaks=True)), 5)
    await until(lambda: pair.handler.channels and pair.handler.channels[0].error is not None)
    assert "broke in the middle" in str(pair.handler.channels[0].error)


async def test_errors_of_a_service_arrive_as_they_were(pair: Pair) -> None:
    answer = pair.caller.request_response(payload(ORDERS, "fail"))
    assert await error_of(answer) == (ErrorCode.APPLICATION_ERROR, "asked to fail")
    inbox = reading(pair.caller.request_stream(payload(ORDERS, "break 2")), 5)
    assert await inbox.end() == [b"orders:1", b"orders:2"]
    assert code_and_text(inbox.error) == (ErrorCode.APPLICATION_ERROR, "broke in the middle")


async def test_refusals_of_the_broker_begin_with_their_code_word(pair: Pair) -> None:
    async def refused(raw: bytes) -> tuple[ErrorCode, str]:
        code, said = await error_of(pair.caller.request_response(payload(raw, "hi")))
        return code, said.split(":")[0]

    assert await refused(address(service="nobody")) == (ErrorCode.REJECTED, "no-route")
    assert await refused(address(service="orders", region="mars")) == (ErrorCode.REJECTED, "no-route")
    assert await refused(address(UNICAST | SHARD, service="orders")) == (ErrorCode.INVALID, "bad-address")
    assert await refused(address(SHARD, service="orders")) == (ErrorCode.INVALID, "bad-shard-key")
    assert await refused(b"nonsense") == (ErrorCode.INVALID, "bad-address")
    assert pair.handler.heard == []


async def test_a_service_that_leaves_in_the_middle_is_told_to_its_callers(pair: Pair) -> None:
    answer = pair.caller.request_response(payload(ORDERS, "hang"))
    inbox = reading(pair.caller.request_stream(payload(ORDERS, "count 100")), 2)
    await inbox.has(2)
    await until(lambda: pair.handler.hanging)
    await pair.service.close()
    code, said = await error_of(answer)
    assert (code, said.split(":")[0]) == (ErrorCode.CANCELED, "route-lost")
    await inbox.end()
    code, said = code_and_text(inbox.error)
    assert (code, said.split(":")[0]) == (ErrorCode.CANCELED, "route-lost")
    code, said = await error_of(pair.caller.request_response(payload(ORDERS, "still there?")))
    assert (code, said.split(":")[0]) == (ErrorCode.REJECTED, "no-route")


async def test_a_caller_that_leaves_cancels_what_it_began(pair: Pair) -> None:
    inbox = reading(pair.caller.request_stream(payload(ORDERS, "count 100")), 2)
    waiting = asyncio.ensure_future(pair.caller.request_response(payload(ORDERS, "hang")))
    await inbox.has(2)
    await until(lambda: pair.handler.hanging)
    await pair.caller.close()
    await until(lambda: pair.handler.streams[0].is_cancelled and pair.handler.hanging[0].cancelled())
    waiting.cancel()


async def test_large_payloads_pass_whole(pair: Pair) -> None:
    data = "0123456789abcdef" * 100_000  # 1.6 MB
    answer = await soon(pair.caller.request_response(payload(ORDERS, data)))
    assert text(answer) == f"orders:{data}"


@pytest.mark.parametrize("service_mime", [COMPOSITE, MIME_TYPE, MIME_TYPE_V0])
@pytest.mark.parametrize("caller_mime", [COMPOSITE, MIME_TYPE, MIME_TYPE_V0])
@pytest.mark.parametrize("frame_mime", [MIME_TYPE, MIME_TYPE_V0])
async def test_both_mime_types_in_composite_and_plain_metadata(
    server: Server, caller_mime: str, service_mime: str, frame_mime: str
) -> None:
    """`frame_mime` is of the entries in composite metadata, of callers and services."""
    url = url_of(server, "tcp")
    async with (
        offer(url, "orders", 1, service_mime, frame_mime, region="eu") as (handler, _),
        dial(url, mime=caller_mime) as caller,
    ):
        await joined(server, 1)
        how = {"mime": caller_mime, "frame_mime": frame_mime}
        answer = await soon(caller.request_response(payload(ORDERS, "hello", **how)))
        assert text(answer) == "orders:hello"
        inbox = reading(caller.request_stream(payload(ORDERS, "count 3", **how)), 9)
        assert await inbox.end() == [b"orders:1", b"orders:2", b"orders:3"]
    for metadata in handler.metadata:
        assert metadata is not None
        if service_mime == COMPOSITE:
            assert entry_mimes(metadata) == [frame_mime if caller_mime == COMPOSITE else caller_mime]
        else:
            assert metadata == ORDERS


async def test_other_entries_reach_a_service_with_plain_metadata_wrapped_in_the_address(server: Server) -> None:
    url = url_of(server, "tcp")
    async with offer(url, "orders", 1, MIME_TYPE, region="eu") as (handler, _), dial(url) as caller:
        await joined(server, 1)
        await soon(caller.request_response(payload(ORDERS, "hello", name="create")))
    wrapped = request_metadata(ORDERS, name="create").removeprefix(request_metadata(ORDERS))
    assert handler.metadata == [address(service="orders", region="eu", wrapped=wrapped)]


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_a_route_may_be_announced_after_the_setup_and_changed(server: Server, scheme: str) -> None:
    handler = Handler("late")

    def announcement(**tags: str) -> bytes:
        return request_metadata(RouteSetup(route_id(9), "late", tags_of(dict(tags))).encode())

    async with dial(url_of(server, scheme), handler) as late:
        await soon(late.metadata_push(announcement(zone="a")))
        answer = await soon(late.request_response(payload(address(service="late", zone="a"), "me?")))
        assert text(answer) == "late:me?"
        await soon(late.metadata_push(announcement(zone="b")))
        answer = await soon(late.request_response(payload(address(service="late", zone="b"), "me?")))
        assert text(answer) == "late:me?"
        code, _ = await error_of(late.request_response(payload(address(service="late", zone="a"), "me?")))
        assert code == ErrorCode.REJECTED


class Fleet(NamedTuple):
    """A caller and three services `many`, on TCP, WebSocket and a Unix socket."""

    caller: RSocketClient
    handlers: list[Handler]


@pytest.fixture
async def fleet(server: Server) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        handlers = []
        for at, scheme in enumerate(["tcp", "ws", "unix"]):
            handler, _ = await stack.enter_async_context(offer(url_of(server, scheme), "many", 20 + at))
            handlers.append(handler)
        caller = await stack.enter_async_context(dial(url_of(server, "tcp")))
        await joined(server, 3)
        yield Fleet(caller, handlers)


async def test_multicast_fire_and_forget_and_push_reach_all(fleet: Fleet) -> None:
    await soon(fleet.caller.fire_and_forget(payload(address(MULTICAST, service="many"), "to all")))
    await soon(fleet.caller.metadata_push(request_metadata(address(MULTICAST, service="many"))))
    await until(lambda: [handler.heard for handler in fleet.handlers] == [[("fnf", "to all"), ("push", "")]] * 3)


async def test_multicast_channel_gives_each_item_to_all(fleet: Fleet) -> None:
    mine = Items(["2", "3"])
    inbox = reading(fleet.caller.request_channel(payload(address(MULTICAST, service="many"), "1"), mine), 50)
    assert sorted(await inbox.end()) == sorted([b"many:1", b"many:2", b"many:3"] * 3)


async def test_a_router_of_rsocket_py_finds_its_handler(server: Server) -> None:
    """The routing entry beside the ADDRESS arrives, so that RequestRouter works behind the broker."""
    router = RequestRouter()

    @router.response("create")  # type: ignore[untyped-decorator]  # rsocket-py's
    async def create(payload: Payload) -> Payload:
        return Payload(b"created " + bytes(payload.data))

    url = url_of(server, "tcp")
    setup = composite(
        metadata_item(RouteSetup(route_id(5), "orders", tags_of({"region": "eu"})).encode(), MIME_TYPE.encode())
    )
    async with dial(url, RoutingRequestHandler(router), setup=bytes(setup)), dial(url) as caller:
        await joined(server, 1)
        answer = await soon(caller.request_response(payload(ORDERS, "a book", name="create")))
        assert text(answer) == "created a book"


async def test_the_broker_answers_keepalives_of_rsocket_py(server: Server) -> None:
    """It sends one every half second and counts silence as death."""
    async with dial(url_of(server, "tcp")) as caller:
        seen = caller._last_server_keepalive
        await until(lambda: caller._last_server_keepalive > seen)


async def test_a_stopping_broker_says_so(server: Server) -> None:
    handler = Handler("caller")
    async with dial(url_of(server, "tcp"), handler) as caller:
        await until(lambda: any(peer.is_open for peer in server.core.peers()))
        answer = caller.request_response(payload(ORDERS, "hi"))
        assert (await error_of(answer))[0] == ErrorCode.REJECTED
        server.wish_stop()
        await server.stop()
        await until(lambda: handler.errors)
    assert handler.errors[0].startswith("broker-stopped:")


async def test_messages_beyond_4_mib_pass_only_on_a_websocket_that_the_program_opens(server: Server) -> None:
    """rsocket-py leaves aiohttp's bound on a message as it is."""
    url = url_of(server, "ws")
    service = await Wire.service(url_of(server, "tcp"), "orders", 1)
    large = bytes(5 << 20)

    async def answer() -> None:
        service.answer(await service.receive(), large)

    asked = payload(address(service="orders"), "a large one")
    async with dial(url) as caller:
        asking = asyncio.ensure_future(caller.request_response(asked))
        await answer()
        await until(lambda: len(server.core.peers()) == 1)  # it has closed its connection
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, max_msg_size=0) as websocket,
        dial(url, websocket=websocket) as caller,
    ):
        asking = asyncio.ensure_future(caller.request_response(asked))
        await answer()
        assert len((await soon(asking)).data) == len(large)
    await service.close()
