"""What the brokers of these tests have in common: a port of their own, connections in the order in which they come."""

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, Self, TypeVar

BOUND_S = 10.0  # of one wait


class Abortable(Protocol):
    """The other end of one connection."""

    def abort(self) -> None: ...


P = TypeVar("P", bound=Abortable)


class Listener(ABC, Generic[P]):
    """Listens; what comes is served by `_serve`, in tasks of `_tasks`."""

    def __init__(self) -> None:
        self.peers: list[P] = []
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._arrived = asyncio.Condition()

    async def start(self, port: int = 0, host: str = "127.0.0.1", **options: Any) -> Self:
        self._server = await asyncio.start_server(self._accepted, host, port, **options)
        self.url = f"tcp://{host}:{self._server.sockets[0].getsockname()[1]}"
        return self

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def peer(self, number: int = 0) -> P:
        """The one that came as the `number`th, 0 first; waits for it."""
        async with asyncio.timeout(BOUND_S), self._arrived:
            await self._arrived.wait_for(lambda: len(self.peers) > number)
        return self.peers[number]

    async def stop(self) -> None:
        """Nobody is listening any more, and all connections end."""
        if self._server is not None:
            self._server.close()
        for peer in self.peers:
            peer.abort()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        if self._server is not None:
            await self._server.wait_closed()

    async def _add(self, peer: P) -> None:
        async with self._arrived:
            self.peers.append(peer)
            self._arrived.notify_all()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await self._serve(reader, writer)

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...
