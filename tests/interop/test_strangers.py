"""Strangers with each other: rsocket-js and rsocket-py through one broker, neither knowing the other."""

import asyncio

import pytest

from broker.server import Server
from tests.fakes import address
from tests.interop.node import JsPeer, Node
from tests.interop.rsocket_py import dial, offer, payload, reading, text
from tests.system.support.waits import soon, until

pytestmark = pytest.mark.interop

SCHEMES = ["tcp", "ws"]


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_rsocket_js_calls_rsocket_py_and_back(needs_node: Node, server: Server, scheme: str) -> None:
    """The script obeys in a thread, because the broker and rsocket-py live in this one."""
    url = next(url for url in server.listeners if url.startswith(scheme))
    options = {"url": url, "name": "js", "number": 2, "tags": {"Region": "eu"}}
    js: JsPeer = await asyncio.to_thread(needs_node.start, "peer.cjs", **options)
    try:
        async with offer(url, "py", 1, region="eu") as (handler, py):
            await until(lambda: server.core.table.size() == 2)
            to_py = {"tags": {"ServiceName": "py", "Region": "eu"}}
            answer = await asyncio.to_thread(js.ask, "response", **to_py, data="hello")
            assert (answer["data"], answer["metadata"]) == ("py:hello", "answered")
            opened = await asyncio.to_thread(js.ask, "stream", **to_py, data="count 5", n=2)
            await asyncio.to_thread(js.ask, "wait", handle=opened["handle"], items=2)
            await asyncio.to_thread(js.ask, "request", handle=opened["handle"], n=8)
            done = await asyncio.to_thread(js.ask, "wait", handle=opened["handle"])
            assert (done["items"], done["completed"]) == ([f"py:{at}" for at in range(1, 6)], True)
            assert handler.streams[0].asked == [2, 8]
            opened = await asyncio.to_thread(js.ask, "channel", **to_py, data="1", n=9)
            await asyncio.to_thread(js.ask, "send", handle=opened["handle"], data="2", complete=True)
            done = await asyncio.to_thread(js.ask, "wait", handle=opened["handle"])
            assert done["items"] == ["py:1", "py:2"]

            to_js = address(service="js", region="eu")
            assert text(await soon(py.request_response(payload(to_js, "hello")))) == "js:hello"
            inbox = reading(py.request_stream(payload(to_js, "count 5")), 2)
            await inbox.has(2)
            inbox.subscription.request(3)
            assert await inbox.end() == [b"js:%d" % at for at in range(1, 6)]
            await soon(py.fire_and_forget(payload(to_js, "forget me")))
            await asyncio.to_thread(js.event, "fnf", data="forget me")
    finally:
        assert await asyncio.to_thread(js.end) == 0, js.errors


async def test_the_first_answer_of_a_mixed_multicast_wins(needs_node: Node, server: Server) -> None:
    url = server.listeners[0]
    js: JsPeer = await asyncio.to_thread(needs_node.start, "peer.cjs", url=url, name="mixed", number=2)
    try:
        async with offer(url, "mixed", 1) as (handler, _), dial(url) as caller:
            await until(lambda: server.core.table.size() == 2)
            answer = asyncio.ensure_future(caller.request_response(payload(address(0x40, service="mixed"), "hang")))
            await asyncio.to_thread(js.event, "rr", data="hang")
            await until(lambda: handler.hanging)
            handler.hanging[0].set_exception(RuntimeError("no"))  # an error counts as an answer
            with pytest.raises(RuntimeError, match="no"):
                await soon(answer)
            await asyncio.to_thread(js.event, "cancelled", data="hang")
    finally:
        assert await asyncio.to_thread(js.end) == 0, js.errors
