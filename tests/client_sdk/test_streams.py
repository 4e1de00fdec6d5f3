"""Credit, item by item."""

import asyncio
import warnings

import pytest

from client_sdk import JSON, NO_RETRY, NoRoute, RetryPolicy, address, connect, multicast
from client_sdk.payload import Payload
from client_sdk.streams import Flow, Inflow
from tests.client_sdk.fake_broker import FakeBroker


class Ledger:
    """The engine's side of an Inflow."""

    def __init__(self, inflow: Inflow) -> None:
        self.granted: list[int] = []
        self.stopped = 0
        inflow.attach(self.granted.append, self.stop)

    def stop(self) -> None:
        self.stopped += 1


async def test_credit_is_given_back_half_a_window_at_a_time() -> None:
    inflow = Inflow(8, 8)
    ledger = Ledger(inflow)
    for _ in range(8):
        assert inflow.item(Payload(b""))
    for _ in range(4):
        await inflow.take()
    assert ledger.granted == []
    await inflow.take()
    assert ledger.granted == [4]


async def test_item_that_is_being_worked_on_earns_no_credit() -> None:
    inflow = Inflow(1, 1)
    ledger = Ledger(inflow)
    inflow.item(Payload(b"1"))
    await inflow.take()
    assert ledger.granted == []
    second = asyncio.ensure_future(inflow.take())
    await asyncio.sleep(0)
    assert ledger.granted == [1]
    inflow.item(Payload(b"2"))
    assert await second == Payload(b"2")


async def test_item_that_was_not_asked_for_is_refused() -> None:
    inflow = Inflow(2, 2)
    assert [inflow.item(Payload(b"")) for _ in range(3)] == [True, True, False]


async def test_first_item_of_a_channel_needs_no_credit_and_reading_asks_for_more() -> None:
    inflow = Inflow(4, 0)
    ledger = Ledger(inflow)
    inflow.preload(Payload(b"first"))
    assert ledger.granted == []
    assert await inflow.take() == Payload(b"first")
    assert ledger.granted == [3]


async def test_cancel_stops_once_and_only_a_stream_that_lives() -> None:
    inflow = Inflow(2, 2)
    ledger = Ledger(inflow)
    inflow.cancel()
    inflow.cancel()
    assert ledger.stopped == 1
    over = Inflow(2, 2)
    late = Ledger(over)
    over.ended(None)
    over.cancel()
    assert late.stopped == 0


async def test_two_readers_are_refused() -> None:
    inflow = Inflow(1, 1)
    first = asyncio.ensure_future(inflow.take())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="another request"):
        await inflow.take()
    inflow.ended(None)
    assert await first is None


async def test_flow_that_was_closed_before_its_first_item_sends_nothing() -> None:
    async def never(inflow: Inflow) -> None:
        raise AssertionError

    flow = Flow(never, 1, None, "request_stream")
    await flow.aclose()
    assert [item async for item in flow] == []


async def test_items_that_wait_are_taken_up_to_half_a_window_and_earn_credit_with_the_next() -> None:
    inflow = Inflow(8, 8)
    ledger = Ledger(inflow)
    for number in range(8):
        inflow.item(Payload(b"%d" % number))
    assert await inflow.take() == Payload(b"0")
    assert [item.data for item in inflow.take_waiting()] == [b"1", b"2", b"3"]
    assert (inflow.take_waiting(), ledger.granted) == ([], [])
    assert await inflow.take() == Payload(b"4")
    assert ledger.granted == [4]


async def test_items_that_wait_are_none_in_a_window_of_one_and_all_at_the_end() -> None:
    inflow = Inflow(1, 1)
    Ledger(inflow)
    inflow.item(Payload(b"0"))
    assert inflow.take_waiting() == []
    assert await inflow.take() == Payload(b"0")
    ending = Inflow(4, 4)
    for number in range(4):
        ending.item(Payload(b"%d" % number))
    ending.ended(None)
    assert len(ending.take_waiting()) == 4
    assert await ending.take() is None


@pytest.mark.parametrize("retry", [NO_RETRY, RetryPolicy(attempts=2, first_delay_s=0.001)])
async def test_a_stream_that_was_read_closed_or_outlived_its_client_is_not_warned_of(
    broker: FakeBroker, retry: RetryPolicy
) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        async with connect(broker.url, retry=retry) as client:
            closed = client.request_stream(address("x"))
            await closed.aclose()
            async with client.request_stream(address("x")):
                pass
            with pytest.raises(NoRoute):
                await anext(client.request_stream(address("x")))
            late = client.request_stream(address("x"))
            assert warned == []
            client.request_stream(address("x"))
            assert [str(each.message).partition(":")[0] for each in warned] == [
                "request_stream was never read, and so never sent"
            ]
        del closed, late
    assert len(warned) == 1


@pytest.mark.parametrize("retry", [NO_RETRY, RetryPolicy(attempts=2, first_delay_s=0.001)])
async def test_what_is_never_read_is_named_as_the_program_has_asked_for_it(
    broker: FakeBroker, retry: RetryPolicy
) -> None:
    stream = "never read, and so never sent: write `async for item in stream:`, or `await anext(stream)` for one item"
    gather = "never read, and so never sent: write `await client.gather(...)`, or `async for` for one by one"
    async with connect(broker.url, retry=retry, codec=JSON) as client:
        for ask, text in (
            (lambda: client.gather(multicast("x")), f"gather was {gather}"),
            (lambda: client.subscribe(address("x"), returns=int), f"subscribe was {stream}"),
            (lambda: client.request_stream(address("x"), returns=int), f"request_stream was {stream}"),
        ):
            with pytest.warns(RuntimeWarning) as warned:
                ask()
            assert [str(each.message) for each in warned] == [text]
