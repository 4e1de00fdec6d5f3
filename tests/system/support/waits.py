"""Waiting for what will be true, without guessing how long it takes."""

import asyncio
import contextlib
import functools
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pytest  # which programs that the tests start have no use for

WAIT_S = 30.0  # on a machine that does ten other things; a test that passes never waits so long
POLL_S = 0.005
TEST_S = 120.0  # a whole test, its fixtures not counted; a module whose tests are as long as told has its own

# What is done at the end of the test that runs, whatever became of it; only tests of `bound_tests_of` have it.
AT_END: ContextVar[contextlib.AsyncExitStack] = ContextVar("AT_END")

T = TypeVar("T")


async def until(is_true: Callable[[], object], longest_s: float = WAIT_S) -> None:
    """Returns as soon as the condition holds; AssertionError when it does not come to hold."""
    end_at = time.monotonic() + longest_s
    while not is_true():
        assert time.monotonic() < end_at, f"not true within {longest_s} s"
        await asyncio.sleep(POLL_S)


def until_now(is_true: Callable[[], object], longest_s: float = WAIT_S) -> None:
    """`until` for tests without a loop."""
    end_at = time.monotonic() + longest_s
    while not is_true():
        assert time.monotonic() < end_at, f"not true within {longest_s} s"
        time.sleep(POLL_S)


async def soon(awaitable: Awaitable[T], longest_s: float = WAIT_S) -> T:
    """The result; TimeoutError instead of a test that hangs."""
    async with asyncio.timeout(longest_s):
        return await awaitable


def bound_tests_of(conftest: str, items: "list[pytest.Item]") -> None:
    """Gives the asynchronous tests in the folder of a conftest, and below, an AT_END and the TEST_S of their module."""
    folder = str(Path(conftest).parent) + os.sep
    for item in items:  # all of the run: there are thousands
        if str(item.path).startswith(folder) and inspect.iscoroutinefunction(getattr(item, "obj", None)):
            longest_s = getattr(item.module, "TEST_S", TEST_S)  # type: ignore[attr-defined]
            item.obj = _bounded(item.obj, longest_s)  # type: ignore[attr-defined]


def _bounded(test: Callable[..., Awaitable[None]], longest_s: float) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(longest_s), contextlib.AsyncExitStack() as at_end:
            AT_END.set(at_end)
            await test(*args, **kwargs)

    return run
