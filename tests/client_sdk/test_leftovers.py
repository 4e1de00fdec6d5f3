"""The watch over all tests of the SDK sees what it is there for."""

import asyncio
import logging

import pytest

from tests.client_sdk.leftovers import BUG, LOUD_LINES, Leftovers, sockets
from tests.client_sdk.samples import cancel
from tests.system.support.waits import until


def warnings(count: int) -> list[logging.LogRecord]:
    return [logging.LogRecord("client_sdk", logging.WARNING, "", 0, f"line {n}", None, None) for n in range(count)]


async def test_a_task_that_is_left_is_told_with_the_place_where_it_waits() -> None:
    async def stay() -> None:
        await asyncio.Event().wait()

    leftovers = Leftovers()
    task = asyncio.create_task(stay(), name="the one that stays")
    with pytest.raises(AssertionError, match=r"1 tasks are left:\n  the one that stays: .*test_leftovers.py:\d+ stay"):
        await leftovers.assert_none([])
    await cancel(task)
    await leftovers.assert_none([])


async def test_a_socket_that_is_left_open_is_told() -> None:
    leftovers = Leftovers(settled_s=0.01)
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    with pytest.raises(AssertionError, match="1 sockets are left open"):
        await leftovers.assert_none([])
    server.close()
    await server.wait_closed()
    await leftovers.assert_none([])


async def test_a_connection_of_the_jvm_of_other_tests_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setattr("tests.client_sdk.leftovers.callback_port", lambda: port)
    before = sockets()
    writers.append((await asyncio.open_connection("127.0.0.1", port))[1])
    await until(lambda: len(writers) == 2)
    assert len(sockets() - before) == 1  # the other end, which is not at that port
    for writer in writers:
        writer.close()
    server.close()
    await server.wait_closed()


async def test_an_error_that_nobody_looked_at_is_told() -> None:
    leftovers = Leftovers()
    asyncio.get_running_loop().create_future().set_exception(KeyError("unheard of"))
    with pytest.raises(AssertionError, match=r"never retrieved(.|\n)*unheard of"):
        await leftovers.assert_none([])


async def test_a_bug_of_ours_in_the_log_is_told() -> None:
    told = logging.LogRecord("client_sdk", logging.ERROR, "", 0, BUG, None, None)
    with pytest.raises(AssertionError, match=BUG):
        await Leftovers().assert_none([told])


async def test_a_flood_in_the_log_is_told() -> None:
    await Leftovers().assert_none(warnings(LOUD_LINES))
    with pytest.raises(AssertionError, match=f"{LOUD_LINES + 1} warnings"):
        await Leftovers().assert_none(warnings(LOUD_LINES + 1))
