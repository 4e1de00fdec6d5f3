"""What the log says while there is no broker, and when there is one."""

import logging

import pytest

from client_sdk import NotConnected, connect
from client_sdk.reconnect.outage import SAID_EVERY_S, Outage
from tests.client_sdk.clocks import FakeClock
from tests.client_sdk.fake_broker import FakeBroker


def failure(text: str) -> NotConnected:
    return NotConnected(text, word="connect-failed")


async def test_each_reason_is_said_at_once_and_then_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    outage = Outage("orders: cannot reconnect", clock)
    for _ in range(121):
        outage.failed(failure("refused"))
        await clock.turn(1.0)
    outage.failed(failure("no such host"))
    assert SAID_EVERY_S == 60.0
    assert caplog.messages == [
        "orders: cannot reconnect: connect-failed: refused",
        "orders: cannot reconnect for 60 s (61 attempts): connect-failed: refused",
        "orders: cannot reconnect for 120 s (121 attempts): connect-failed: refused",
        "orders: cannot reconnect: connect-failed: no such host",
    ]
    assert outage.lasted_s == 121.0


async def test_the_end_is_said_as_loudly_as_the_trouble(caplog: pytest.LogCaptureFixture) -> None:
    """By default nothing but warnings is seen: who has read that there is no broker reads that there is one."""
    caplog.set_level(logging.INFO, "client_sdk")
    clock = FakeClock()
    told, short = Outage("orders: cannot reconnect", clock), Outage("stock: cannot reconnect", clock)
    told.failed(failure("refused"))
    await clock.turn(2.0)
    told.ended("orders: connected again")
    short.ended("stock: connected again")
    assert [(record.levelname, record.message) for record in caplog.records[1:]] == [
        ("WARNING", "orders: connected again after 2.0 s"),
        ("INFO", "stock: connected again after 2.0 s"),
    ]


async def test_a_client_tells_of_each_connection(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "client_sdk")
    async with connect(broker.url) as client:
        changes = client.changes()
        (await broker.peer(0)).abort()
        for _ in range(3):
            await anext(changes)
        while "again" not in caplog.text:
            await client.wait_connected()
    route = f"caller {client.route_id}: "
    connected, lost, again = caplog.messages
    assert connected == f"{route}connected to {broker.url}"
    assert lost.startswith(f"{route}connection to {broker.url} lost: connection-lost: ")
    assert again.startswith(f"{route}connected again to {broker.url} after 0.")
