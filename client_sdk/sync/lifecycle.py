"""The asynchronous client beneath a blocking one: how it is opened, and how it ends, whoever ends it.

sync.connect ── open ──► AsyncClient, held by the thread ── close, drain ──► let go, thread left
                   └── interrupted ── close ──► whatever had been opened is closed
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from client_sdk import Client as AsyncClient
from client_sdk import Connecting
from client_sdk.sync.background import BACKGROUND, LoopThread


class ClientLifecycle:
    """One `connect` in the thread, which was entered for it. Methods that are async belong to the event loop."""

    def __init__(self, thread: LoopThread, connecting: Connecting) -> None:
        self.thread: Final = thread
        self._connecting: Final = connecting
        self._task: asyncio.Task[None] | None = None  # set when nobody waits for the end

    async def open(self) -> AsyncClient:
        """The client; the thread closes it if nobody does before the process ends."""
        client = await self._connecting
        self.thread.hold(self.close)
        return client

    async def close(self) -> None:
        """Whatever has been opened is closed; nothing the second time."""
        self.thread.let_go(self.close)
        await self._connecting.__aexit__(None, None, None)

    async def end_with(self, ending: Callable[[], Awaitable[None]]) -> None:
        """Ends in this way, and is closed then, also when whoever wanted it waits no longer."""
        try:
            await ending()
        finally:
            await self.close()

    def close_soon(self) -> None:
        """Nobody waits for it. From any thread, also while objects are collected."""
        self.thread.start_soon(self._start)

    def _start(self) -> None:
        self._task = asyncio.ensure_future(self._close_and_leave())

    async def _close_and_leave(self) -> None:
        try:
            await self.close()
        finally:
            BACKGROUND.leave(self.thread)
