"""The SDK through the broker of this project."""

import asyncio
import contextlib

import pytest

from client_sdk import ApplicationError, NoRoute, Payload, RouteLost, address, connect, multicast
from client_sdk.testing import local_broker
from tests.client_sdk.raw_broker import Everything
from tests.client_sdk.samples import Held, echo_service, items_of, raises
from tests.system.support.waits import until


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
async def test_all_models_and_errors_pass_the_broker(scheme: str) -> None:
    everything = Everything()
    everything.service.request_response("fail")(raises(ApplicationError("no", word="own-word", code=0x301)))

    async with local_broker(listen=[scheme]) as url, connect(url, service=everything.service), connect(url) as client:
        to = address("everything")
        assert await client.request_response(to, b"abc", timeout_s=5) == Payload(b"abc")
        await client.fire_and_forget(to, b"note")
        await client.metadata_push(to, b"push")
        await until(lambda: everything.calls[1:] == [("fire_and_forget", b"note"), ("metadata_push", b"push")])
        assert len([item async for item in client.request_stream(to, b"500", initial_n=5)]) == 500
        sent = [b"%d" % number for number in range(300)]
        assert [item.data async for item in client.request_channel(to, items_of(*sent), initial_n=4)] == sent
        with pytest.raises(ApplicationError) as caught:
            await client.request_response(to, route="fail")
        assert (caught.value.word, caught.value.code) == ("own-word", 0x301)
        with pytest.raises(NoRoute, match="mars"):
            await client.request_response(address("everything", region="mars"))


async def test_route_that_leaves_in_the_middle_is_route_lost() -> None:
    stuck = Held()
    async with local_broker() as url, connect(url) as client:
        server = await connect(url, service=stuck.service)
        call = asyncio.ensure_future(client.request_response(address("held")))
        await stuck.began.get()
        await server.close()
        with pytest.raises(RouteLost):
            await call


async def test_multicast_asks_everybody_and_cancels_the_slow() -> None:
    slow = Held()
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(local_broker())
        for service in (slow.service, echo_service()):
            await stack.enter_async_context(connect(url, service=service, tags={"group": "g"}))
        client = await stack.enter_async_context(connect(url))
        assert (await client.request_response(multicast(group="g"), b"x", timeout_s=5)).data == b"x"
        await slow.cancelled.wait()


async def test_a_multicast_that_excludes_its_sender_reaches_the_others_in_all_models() -> None:
    """D-103."""
    members = [Everything() for _ in range(3)]
    to = multicast("everything", exclude_self=True)
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(local_broker())
        eve, *others = [await stack.enter_async_context(connect(url, service=member.service)) for member in members]
        await eve.fire_and_forget(to, b"note")
        await eve.metadata_push(to, b"push")
        assert await eve.request_response(to, b"abc", timeout_s=5) == Payload(b"abc")
        assert len([item async for item in eve.request_stream(to, b"5", timeout_s=5)]) == 10
        sent = [item.data async for item in eve.request_channel(to, items_of(b"1", b"2"), timeout_s=5)]
        assert sorted(sent, key=str) == [b"1", b"1", b"2", b"2"]
        assert len(await eve.gather(to, b"abc", timeout_s=5)) == 2
        await until(lambda: all(("metadata_push", b"push") in member.calls for member in members[1:]))
        assert members[0].calls == []
        for other in others:
            await other.close()
        with pytest.raises(NoRoute, match="exclude_self"):
            await eve.request_response(to, b"abc", timeout_s=5)
