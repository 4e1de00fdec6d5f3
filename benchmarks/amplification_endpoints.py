"""What a request to the REST API costs, endpoint by endpoint: a part of `python -m benchmarks.amplification`.

The same rule as for frames, and `admin.max_requests_per_s` bounds what exceeds it: whoever may look gets a page of a
list for a request of some hundred bytes. The API runs in this process on a core with many routes and connections, on a
wire that is only memory, and is asked over a socket for the largest page; what asks is measured with it. The longest
callback of the event loop is what held others up.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiohttp import web

from admin_api.access.gate import Gate
from admin_api.access.local_token import LocalToken
from admin_api.access.roles import ANYBODY
from admin_api.app import make_app
from admin_api.endpoints import ENDPOINTS
from admin_api.openapi import Operation
from admin_api.parameters import MAX_LIMIT, PART
from broker.core import CoreSettings
from tests.admin_api.fakes import FakeAdmin
from tests.fakes import World

FIELDS: Final = "User-Agent: curl/8.14.1\r\nAccept: */*\r\nConnection: close\r\n"
BOUND: Final = "admin.max_requests_per_s"
CONNECTIONS_N: Final = 10_000  # each with a route
SERVICES_N: Final = 2_000
TIMES: Final = 5  # each is asked; the median of what it costs counts


class Cost(NamedTuple):
    """What all inputs of one kind cost together."""

    bytes_in: int
    bytes_out: int
    log_bytes: int
    cpu_s: float
    held_s: float  # the longest of them


def crowded(connections_n: int) -> World:
    """A core with so many connections, each with a route."""
    world = World(CoreSettings(max_connections=2 * connections_n, max_connections_per_principal=0))
    for number in range(connections_n):
        world.service(f"service-{number % SERVICES_N}", number + 1, region="eu", zone=f"z{number % 7}")
    world.advance(1)
    return world


@contextmanager
def longest_callback() -> Iterator[list[float]]:
    """CPU seconds of the longest callback of the loop meanwhile, in a list of one."""
    found = [0.0]
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began_s = time.process_time()
        run(handle)
        found[0] = max(found[0], time.process_time() - began_s)

    asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]
    try:
        yield found
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


async def ask(port: int, path: str) -> Cost:
    """One request on a connection of its own."""
    said = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{FIELDS}\r\n".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began_s = time.process_time()
    with longest_callback() as longest:
        writer.write(said)
        answer = await reader.read(-1)
        cpu_s = time.process_time() - began_s
    writer.close()
    return Cost(len(said), len(answer), 0, cpu_s, longest[0])


def asked_path(operation: Operation) -> str:
    """With the largest page of what is a list."""
    return f"{operation.path}?limit={MAX_LIMIT}" if PART[0] in operation.parameters else operation.path


@asynccontextmanager
async def listening(app: web.Application) -> AsyncIterator[int]:
    """Its port."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        yield site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    finally:
        await runner.cleanup()


async def answers(connections_n: int) -> list[tuple[str, str, Cost]]:
    """Each path that has nothing to be filled in, the option that bounds how often it is asked for, and its cost."""
    admin = FakeAdmin(crowded(connections_n))
    found: list[tuple[str, str, Cost]] = []
    with tempfile.TemporaryDirectory() as folder:
        gate = Gate(lambda: None, LocalToken(str(Path(folder) / "token")))
        async with listening(make_app(admin, gate=gate)) as port:
            for endpoint in ENDPOINTS:
                operation: Any = endpoint.operation
                if "{" in operation.path:
                    continue
                path = asked_path(operation)
                some = sorted([await ask(port, path) for _ in range(TIMES)], key=lambda each: each.cpu_s)
                bound = "" if operation.role == ANYBODY else BOUND
                found.append((path, bound, some[TIMES // 2]))
    return found
