"""The items of an ordinary iterable, one at a time, without waiting for it in the event loop."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from client_sdk.sync.iterable_bridge import IterableBridge

SOON_S = 5.0


class Numbers:
    """A generator that says what was asked of it."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self.closed = threading.Event()

    def generate(self, to: int) -> Iterator[int]:
        try:
            for number in range(to):
                self.given.append(number)
                yield number
        finally:
            self.closed.set()


async def test_items_of_a_generator_come_in_order_and_end() -> None:
    numbers = Numbers()
    assert [item async for item in IterableBridge(numbers.generate(5))] == [0, 1, 2, 3, 4]
    assert numbers.closed.wait(SOON_S)


async def test_only_what_is_asked_for_is_taken() -> None:
    numbers = Numbers()
    fed = IterableBridge(numbers.generate(100))
    assert [await anext(fed), await anext(fed)] == [0, 1]
    assert numbers.given == [0, 1]
    await fed.aclose()
    assert numbers.closed.wait(SOON_S)
    assert numbers.given == [0, 1]


async def test_generator_that_was_never_asked_is_closed_too() -> None:
    numbers = Numbers()
    generator = numbers.generate(1)
    fed = IterableBridge(generator)
    await fed.aclose()
    assert list(generator) == []
    with pytest.raises(StopAsyncIteration):
        await anext(fed)


async def test_error_of_the_iterable_is_raised_once_and_ends_it() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    fed = IterableBridge(broken())
    assert await anext(fed) == 1
    with pytest.raises(ZeroDivisionError):
        await anext(fed)
    with pytest.raises(StopAsyncIteration):
        await anext(fed)


async def test_lists_need_no_thread() -> None:
    before = threading.active_count()
    fed = IterableBridge([1, 2])
    assert await anext(fed) == 1
    assert threading.active_count() <= before  # threads of other tests may have ended meanwhile
    assert [item async for item in fed] == [2]


async def test_loop_goes_on_while_an_item_is_waited_for() -> None:
    go = threading.Event()

    def slow() -> Iterator[int]:
        assert go.wait(SOON_S)
        yield 1

    fed = IterableBridge(slow())
    first = asyncio.ensure_future(anext(fed))
    await asyncio.sleep(0)
    assert not first.done()
    go.set()
    assert await first == 1
    await fed.aclose()


async def test_wait_for_an_item_that_never_comes_can_be_given_up() -> None:
    go = threading.Event()

    def silent() -> Iterator[int]:
        assert go.wait(SOON_S)
        yield 1

    fed = IterableBridge(silent())
    first = asyncio.ensure_future(anext(fed))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await fed.aclose()
    go.set()


@pytest.mark.parametrize("items", [b"ab", "ab", bytearray(b"ab"), 7])
def test_what_is_not_meant_as_items_is_told(items: object) -> None:
    with pytest.raises(TypeError, match=r"items are (bytes|str|bytearray|int)"):
        IterableBridge(items)  # type: ignore[arg-type]
