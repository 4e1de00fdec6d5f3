import asyncio
import functools
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.client_sdk.fake_broker import FakeBroker

TEST_S = 15.0  # no await of a test here may take longer: nothing hangs is what they are about


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        if Path(item.path).parent == Path(__file__).parent and inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.obj = _bounded(item.obj)


def _bounded(test: Any) -> Any:
    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(TEST_S):
            await test(*args, **kwargs)

    return run


@pytest.fixture(autouse=True)
async def no_leaked_tasks() -> AsyncIterator[None]:
    """Whatever a test did, when its clients and brokers are closed no task is left."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - before if task is not asyncio.current_task()}
    assert not left


@pytest.fixture
async def broker(no_leaked_tasks: None) -> AsyncIterator[FakeBroker]:
    fake = await FakeBroker().start()
    yield fake
    await fake.stop()
