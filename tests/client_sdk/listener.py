"""What the brokers of these tests have in common: a port of their own, and an end."""

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, Self, TypeVar

from aiohttp import web


class Abortable(Protocol):
    """The other end of one connection."""

    def abort(self) -> None: ...


P = TypeVar("P", bound=Abortable)


class Listener(ABC, Generic[P]):
    """Listens; what comes is served by `_serve` and `_serve_websocket`, in tasks of `_tasks`."""

    def __init__(self) -> None:
        self.peers: list[P] = []
        self.url = ""
        self._server: asyncio.Server | None = None
        self._runner: web.AppRunner | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self, port: int = 0, host: str = "127.0.0.1", **options: Any) -> Self:
        self._server = await asyncio.start_server(self._serve, host, port, **options)
        self.url = f"tcp://{host}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def start_websocket(self) -> Self:
        app = web.Application()
        app.router.add_get("/", self._serve_websocket)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"ws://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def stop(self) -> None:
        """Nobody is listening any more, and all connections end."""
        if self._server is not None:
            self._server.close()
        for peer in self.peers:
            peer.abort()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        if self._server is not None:
            await self._server.wait_closed()

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...

    @abstractmethod
    async def _serve_websocket(self, request: web.Request) -> web.WebSocketResponse: ...
