"""What a handler of rsocket-py hears of the connection of its service."""

from datetime import timedelta

import pytest
from rsocket.error_codes import ErrorCode

from client_sdk import NotConnected, connect
from client_sdk.rsocket_py import lifecycle as news
from tests.client_sdk.fake_broker import CLOSE, FakeBroker
from tests.client_sdk.frames import error as error_frame
from tests.client_sdk.rsocket_py.strangers import Listening


async def closed(handler: Listening) -> object:
    """The code of the error that its next `on_close` is told."""
    kind, error = await handler.told.get()
    assert kind == "close"
    return error.error_code


async def test_each_lost_connection_is_told_once(broker: FakeBroker) -> None:
    handler = Listening(comes_back=True)  # as programs do; the client does it itself
    async with connect(broker.url, service="theirs", handler=handler) as client:
        (await broker.peer(0)).abort()
        assert await closed(handler) is ErrorCode.CONNECTION_ERROR
        await handler.rsocket.connect()
        (await broker.peer(1)).send(error_frame(0, CLOSE, "draining: the broker stops"))
        assert await handler.told.get() == (
            "error",
            (ErrorCode.CONNECTION_ERROR_NO_RETRY, b"draining: the broker stops"),
        )
        assert await closed(handler) is ErrorCode.CONNECTION_ERROR
        await client.wait_connected()
    assert await handler.told.get() == ("close", None)
    assert handler.told.empty()


async def test_silence_is_told_before_the_end(broker: FakeBroker) -> None:
    handler = Listening()
    async with connect(broker.url, service="theirs", handler=handler, keepalive_s=0.01, lifetime_s=0.05):
        broker.is_silent = True
        assert await handler.told.get() == ("keepalive", timedelta(milliseconds=50))
        assert await closed(handler) is ErrorCode.CONNECTION_ERROR


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
    kind, error = await handler.told.get()
    assert (kind, type(error.__cause__)) == ("connection_error", NotConnected)


async def test_a_handler_that_sleeps_in_on_close_does_not_hold_up_the_end(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Listening()
    handler.may_return.clear()
    monkeypatch.setattr(news, "CALLBACK_S", 0.01)
    async with connect(broker.url, service="theirs", handler=handler):
        pass
