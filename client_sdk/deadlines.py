"""The end of a caller's patience, as an error of ours."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from client_sdk.errors import ClientError, DeadlineExceeded

T = TypeVar("T")


async def within(work: Awaitable[T], timeout_s: float | None, what: str) -> T:
    """What `work` gives; DeadlineExceeded, which names `what`, when it takes longer than `timeout_s`."""
    if timeout_s is None:
        return await work
    try:
        async with asyncio.timeout(timeout_s):
            return await work
    except TimeoutError as error:
        if isinstance(error, ClientError):
            raise
        raise DeadlineExceeded(f"{what} had {timeout_s:g} s, which are over") from None
