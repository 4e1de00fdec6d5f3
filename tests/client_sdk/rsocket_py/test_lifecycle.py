"""What a handler of rsocket-py hears of the connection of its service."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from rsocket.error_codes import ErrorCode
from rsocket.request_handler import BaseRequestHandler

from client_sdk import NotConnected, connect
from client_sdk.rsocket_py import lifecycle as news
from tests.client_sdk.fake_broker import CLOSE, FakeBroker
from tests.client_sdk.frames import error


class Listening(BaseRequestHandler):  # type: ignore[misc]
    def __init__(self) -> None:
        self.told: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.rsocket: Any = None

    async def on_close(self, rsocket: Any, exception: Exception | None = None) -> None:
        self.rsocket = rsocket
        self.told.put_nowait(("close", None if exception is None else getattr(exception, "error_code", exception)))
        await rsocket.reconnect()  # as programs do; the client does it itself

    async def on_connection_error(self, rsocket: Any, exception: Exception) -> None:
        self.told.put_nowait(("connection_error", type(exception.__cause__)))

    async def on_keepalive_timeout(self, time_since_last_keepalive: timedelta, rsocket: Any) -> None:
        self.told.put_nowait(("keepalive", time_since_last_keepalive))

    async def on_error(self, error_code: Any, payload: Any) -> None:
        self.told.put_nowait(("error", (error_code, payload.data)))


async def test_each_lost_connection_is_told_once(broker: FakeBroker) -> None:
    handler = Listening()
    async with connect(broker.url, service="theirs", handler=handler) as client:
        (await broker.peer(0)).abort()
        assert await handler.told.get() == ("close", ErrorCode.CONNECTION_ERROR)
        await handler.rsocket.connect()
        (await broker.peer(1)).send(error(0, CLOSE, "draining: the broker stops"))
        assert await handler.told.get() == (
            "error",
            (ErrorCode.CONNECTION_ERROR_NO_RETRY, b"draining: the broker stops"),
        )
        assert await handler.told.get() == ("close", ErrorCode.CONNECTION_ERROR)
        await client.wait_connected()
    assert await handler.told.get() == ("close", None)
    assert handler.told.empty()


async def test_silence_is_told_before_the_end(broker: FakeBroker) -> None:
    handler = Listening()
    async with connect(broker.url, service="theirs", handler=handler, keepalive_s=0.01, lifetime_s=0.05):
        broker.is_silent = True
        assert await handler.told.get() == ("keepalive", timedelta(milliseconds=50))
        assert await handler.told.get() == ("close", ErrorCode.CONNECTION_ERROR)


async def test_who_is_closed_while_it_is_not_connected_hears_nothing_more(broker: FakeBroker) -> None:
    handler = Listening()
    async with connect(broker.url, service="theirs", handler=handler):
        await broker.peer(0)
        await broker.stop()
        assert (await handler.told.get())[0] == "close"
    assert handler.told.empty()


async def test_without_a_first_connection_the_handler_hears_it_and_connect_raises(broker: FakeBroker) -> None:
    await broker.stop()
    handler = Listening()
    with pytest.raises(NotConnected):
        async with connect(broker.url, service="theirs", handler=handler):
            pass
    assert await handler.told.get() == ("connection_error", NotConnected)


async def test_a_handler_that_sleeps_in_on_close_does_not_hold_up_the_end(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sleepy(BaseRequestHandler):  # type: ignore[misc]
        async def on_close(self, rsocket: Any, exception: Exception | None = None) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(news, "CALLBACK_S", 0.01)
    async with connect(broker.url, service="theirs", handler=Sleepy):
        pass
