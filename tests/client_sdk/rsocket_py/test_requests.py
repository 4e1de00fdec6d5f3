"""`client.as_rsocket()`: all five models, and what their metadata is."""

import asyncio

import pytest
from rsocket.error_codes import ErrorCode
from rsocket.exceptions import RSocketProtocolError, RSocketValueError
from rsocket.extensions.helpers import composite, metadata_item, route
from rsocket.payload import Payload
from rsocket.rsocket import RSocket

from client_sdk import ApplicationError, Client, NoRoute, Request, Service, address, connect
from client_sdk.rsocket_py.failures import OwnCode
from tests.client_sdk import frames
from tests.client_sdk.fake_broker import FakeBroker
from tests.client_sdk.rsocket_py.strangers import THINGS, Counted, Heard, offered, things
from tests.client_sdk.samples import gives

ECHO = composite(route("echo"))


async def test_it_is_an_rsocket(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        rsocket = client.as_rsocket()
        assert isinstance(rsocket, RSocket)
        assert await rsocket.connect() is rsocket


async def test_all_five_models_reach_the_service(broker: FakeBroker) -> None:
    service = things()
    seen: asyncio.Queue[bytes] = asyncio.Queue()
    service.fire_and_forget("note")(gives(seen.put_nowait))

    @service.metadata_push("note")
    async def pushed(request: Request) -> None:
        seen.put_nowait(request.entry("text/plain") or b"")

    async with offered(broker, service) as (_, rsocket):
        answer = await rsocket.request_response(Payload(b"hello", ECHO))
        assert answer == Payload(b"echo hello", None)
        await rsocket.fire_and_forget(Payload(b"noted", composite(route("note"))))
        assert await seen.get() == b"noted"
        await rsocket.metadata_push(composite(route("note"), metadata_item(b"pushed", b"text/plain")))
        assert await seen.get() == b"pushed"
        stream = Heard()
        rsocket.request_stream(Payload(b"5", composite(route("count")))).subscribe(stream)
        assert await stream.end() == [b"0", b"1", b"2", b"3", b"4"]
        channel = Heard()
        rsocket.request_channel(Payload(b"first", ECHO), Counted(2)).subscribe(channel)
        assert await channel.end() == [b"echo first", b"echo 0", b"echo 1"]


async def entries_seen(broker: FakeBroker, own: bytes | None, **how: object) -> list[tuple[str, bytes]]:
    """Mime type and content of what follows the ADDRESS in a request with this payload metadata."""
    service = Service("things")
    seen: list[list[tuple[str, bytes]]] = []

    @service.request_response()
    async def look(request: Request) -> bytes:
        seen.append(request.entries)
        return b""

    async with connect(broker.url, service=service), connect(broker.url) as client:
        await client.as_rsocket(THINGS, **how).request_response(Payload(b"", own))  # type: ignore[arg-type]
    assert seen[0][0][0] == "message/x.rsocket.forwarding"
    return seen[0][1:]


async def test_composite_metadata_of_the_payload_follows_the_address(broker: FakeBroker) -> None:
    metadata = composite(metadata_item(b"{}", b"application/json"), metadata_item(b"x", b"my/own"))
    found = await entries_seen(broker, metadata, metadata={"text/plain": b"always"})
    assert found == [("text/plain", b"always"), ("application/json", b"{}"), ("my/own", b"x")]
    assert await entries_seen(broker, None) == []


async def test_other_metadata_of_the_payload_becomes_one_entry(broker: FakeBroker) -> None:
    found = await entries_seen(broker, b"not composite", mime_type="text/plain")
    assert found == [("text/plain", b"not composite")]


async def test_metadata_that_is_not_what_was_said_is_refused(broker: FakeBroker) -> None:
    with pytest.raises(RSocketProtocolError, match="not composite metadata") as caught:
        await entries_seen(broker, b"not composite")
    assert caught.value.error_code is ErrorCode.INVALID


async def test_without_an_address_the_payload_brings_it(broker: FakeBroker) -> None:
    async with offered(broker, things()) as (client, _):
        own = client._cache.of(THINGS, "echo", None)
        assert (await client.as_rsocket().request_response(Payload(b"x", own))).data == b"echo x"


async def test_errors_are_those_of_rsocket_py(broker: FakeBroker) -> None:
    service = things()

    @service.request_response("fail")
    async def fail(request: Request) -> bytes:
        code = int(request.data)
        raise ApplicationError("only 3 are left", word="out-of-stock", code=code)

    async with offered(broker, service) as (client, rsocket):
        metadata = composite(route("fail"))
        with pytest.raises(RuntimeError, match=r"^out-of-stock: only 3 are left$") as plain:
            await rsocket.request_response(Payload(b"513", metadata))
        assert isinstance(plain.value.__cause__, ApplicationError)
        with pytest.raises(RSocketProtocolError) as own:
            await rsocket.request_response(Payload(b"769", metadata))
        assert (own.value.error_code, own.value.data) == (OwnCode(0x301), "out-of-stock: only 3 are left")
        assert str(own.value) == 'RSocket error APPLICATION_0x301(769): "out-of-stock: only 3 are left"'
        with pytest.raises(RSocketProtocolError) as nobody:
            await client.as_rsocket(address("nobody")).request_response(Payload(b""))
        assert (nobody.value.error_code, nobody.value.data) == (ErrorCode.REJECTED, "no-route: nobody has these tags")
        assert isinstance(nobody.value.__cause__, NoRoute)
        stream = Heard()
        client.as_rsocket(address("nobody")).request_stream(Payload(b"")).subscribe(stream)
        await stream.end()
        assert isinstance(stream.error, RSocketProtocolError)
        assert stream.error.error_code is ErrorCode.REJECTED


async def test_requests_without_a_connection_fail_at_once(broker: FakeBroker) -> None:
    async with connect(broker.url) as client:
        pass
    rsocket = client.as_rsocket(THINGS)
    with pytest.raises(RSocketProtocolError) as caught:
        await rsocket.request_response(Payload(b""))
    assert caught.value.error_code is ErrorCode.CONNECTION_ERROR
    with pytest.raises(RSocketProtocolError):
        await rsocket.connect()
    stream, channel, publisher, sent = Heard(), Heard(), Counted(3), asyncio.Event()
    rsocket.request_stream(Payload(b"")).subscribe(stream)
    rsocket.request_channel(Payload(b""), publisher, sent).subscribe(channel)
    for heard in (stream, channel):
        await heard.end()
        assert isinstance(heard.error, RSocketProtocolError)
    await sent.wait()
    assert publisher.cancelled.is_set()


async def test_close_closes_the_client_even_when_nobody_awaits_it(broker: FakeBroker) -> None:
    client: Client = await connect(broker.url)
    client.as_rsocket(THINGS).close()
    await client.closed()
    assert not client.is_connected


async def test_sending_done_is_set_when_the_publisher_has_ended(broker: FakeBroker) -> None:
    async with offered(broker, things()) as (_, rsocket):
        heard, sent = Heard(), asyncio.Event()
        rsocket.request_channel(Payload(b"a", ECHO), Counted(3), sent).initial_request_n(2).subscribe(heard)
        await sent.wait()
        heard.subscription.request(2)
        assert await heard.end() == [b"echo a", b"echo 0", b"echo 1", b"echo 2"]


async def test_a_failing_publisher_ends_the_channel_on_both_sides(broker: FakeBroker) -> None:
    class Failing(Counted):
        def request(self, n: int) -> None:
            self.to.on_error(RuntimeError("the disk is full"))

    async with offered(broker, things()) as (_, rsocket):
        heard = Heard()
        rsocket.request_channel(Payload(b"a", ECHO), Failing(3)).subscribe(heard)
        await heard.end()
        assert str(heard.error) == "the disk is full"
        [told] = await (await broker.peer(1)).expect(frames.ERROR)
        assert b"the disk is full" in told.data


async def test_a_channel_without_a_publisher_or_subscriber_is_one_payload(broker: FakeBroker) -> None:
    async with offered(broker, things()) as (_, rsocket):
        rsocket.request_channel(Payload(b"alone", ECHO)).subscribe(None)
        caller = await broker.peer(1)
        assert (await caller.expect(frames.CHANNEL))[0].flags & frames.COMPLETE  # COMPLETE, in the request itself
        heard, sent = Heard(), asyncio.Event()
        rsocket.request_channel(Payload(b"alone", ECHO), None, sent).initial_request_n(1).subscribe(heard)
        assert await heard.end() == [b"echo alone"]
        assert sent.is_set()
        assert caller.of(frames.PAYLOAD) == []


async def test_a_stream_that_is_subscribed_to_again_is_asked_for_again(broker: FakeBroker) -> None:
    async with offered(broker, things()) as (_, rsocket):
        stream = rsocket.request_stream(Payload(b"2", composite(route("count"))))
        for _ in range(2):
            heard = Heard()
            stream.subscribe(heard)
            assert await heard.end() == [b"0", b"1"]


async def test_what_is_no_payload_and_no_credit_is_refused(broker: FakeBroker) -> None:
    async with offered(broker, things()) as (_, rsocket):
        with pytest.raises(TypeError, match="text becomes bytes"):
            await rsocket.request_response(Payload("text", None))
        with pytest.raises(RSocketValueError):
            rsocket.request_stream(Payload(b"")).initial_request_n(0)
        heard = Heard()
        rsocket.request_stream(Payload(b"0", composite(route("count")))).subscribe(heard)
        with pytest.raises(ValueError, match="at least one"):
            heard.subscription.request(0)
        await heard.end()
