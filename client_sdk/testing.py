"""A broker for tests and examples: in this process, on a free port, gone at the end of the block.

    async with local_broker() as url, connect(url, service=orders), connect(url) as client:
        ...
    with sync_local_broker() as url, sync.connect(url, service=orders), sync.connect(url) as client:
        ...

It is the real one, on the running event loop (`sync_local_broker`: on that of the sync clients); a few milliseconds to
start, a few to stop, any number of them at a time. What they give is the URL, a str, with methods that tell what the
broker has seen. Decides how a broker is embedded; this is the only module of the SDK that knows one.
"""

import asyncio
import contextlib
import functools
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.config import ConfigErrors, load
from broker.errors import BrokerError
from broker.options import Config
from broker.server import Server
from broker.views import Part, TagFilter, connections, routes, totals
from client_sdk.background import BACKGROUND, LoopThread
from client_sdk.broker_process import BrokerProcess
from client_sdk.errors import DeadlineExceeded

__all__ = ["LocalBroker", "RouteSeen", "SyncLocalBroker", "local_broker", "sync_local_broker"]

DEFAULT_LISTEN: Final = ("tcp",)
LOOK_S: Final = 0.005  # how often it is looked whether routes have come
ALL: Final = Part(0, 1_000_000)
_ONLY_A_PROCESS_HAS: Final = ("admin.listen", "server.workers")


@dataclass(frozen=True)
class RouteSeen:
    """A route of the broker: a service that is connected.

    >>> RouteSeen("11223344-5566-7788-99aa-bbccddeeff00", "orders", {"region": "eu"}, requests=2).tags["region"]
    'eu'
    """

    route_id: str
    service: str
    tags: dict[str, str | None]  # as they were announced; well-known keys in snake case; without the service's name
    requests: int  # begun there, ever


class _Embedded:
    """A broker of this process, or its process; on one event loop."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._server: Server | None = None  # None while it does not run

    @property
    def server(self) -> Server:
        if self._server is None:
            raise RuntimeError("the broker has been stopped")
        return self._server

    @property
    def urls(self) -> list[str]:
        return list(self.server.listeners)

    async def start(self) -> None:
        server = Server(self._config)
        try:
            await server.start()
        except BrokerError as error:
            raise RuntimeError(f"the broker did not start: {error.text}") from None
        self._server = server

    async def stop(self) -> None:
        """At once: who runs a test waits for nobody."""
        server, self._server = self._server, None
        if server is not None:
            server.wish_stop()
            server.wish_stop()
            await server.stop()

    async def restart(self) -> None:
        """Where it listened before."""
        listeners = self.urls
        await self.stop()
        self._config = load(None, {}, {**_flags_of(self._config), "server.listen": tuple(listeners)})
        await self.start()
