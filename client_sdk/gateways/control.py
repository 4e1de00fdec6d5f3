"""Where operators ask a gateway that runs: HTTP on a Unix socket in its folder, for who may open it.

Bodies and answers are JSON, values of `broker.views`; a refusal is a sentence. Knows no gateway: each has its paths.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout, UnixConnector, web

ASK_S: Final = 30.0  # for an answer; a store may be busy
SOCKET_MODE: Final = 0o600


class NotRunning(Exception):
    """No gateway answers at that socket."""


class Refusal(Exception):
    """A gateway does not give what is asked for; the text is its sentence."""


class ControlSocket:
    """The socket, from `start` to `close`."""

    def __init__(self, path: Path, routes: Iterable[web.RouteDef]) -> None:
        """`path`: in a folder that only one process uses."""
        self._path: Final = path
        app = web.Application()
        app.add_routes(routes)
        self._runner: Final = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    async def start(self) -> None:
        """OSError. A socket that is there is of a process that is gone."""
        self._path.unlink(missing_ok=True)
        await self._runner.setup()
        before = os.umask(0o777 & ~SOCKET_MODE)
        try:
            await web.UnixSite(self._runner, str(self._path)).start()
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Also before it was started."""
        is_started = bool(self._runner.sites)
        await self._runner.cleanup()
        if is_started:
            self._path.unlink(missing_ok=True)


class ControlSession:
    """Asks a gateway that runs; `async with` it."""

    def __init__(self, path: Path) -> None:
        self._session: Final = ClientSession(
            connector=UnixConnector(str(path)), timeout=ClientTimeout(ASK_S), base_url="http://gateway"
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str, **more: Any) -> bytes:
        """The body of the answer. NotRunning, Refusal. `more`: see `aiohttp.ClientSession.request`."""
        try:
            async with self._session.request(method, path, **more) as response:
                data = await response.read()
        except (ClientError, TimeoutError) as error:
            raise NotRunning(str(error)) from None
        if response.status != 200:
            raise Refusal(data.decode(errors="replace"))
        return data


def answer_of(value: object) -> web.Response:
    """A value as JSON."""
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def refusal_of(text: str, status: int = 400) -> web.Response:
    """A sentence that says why not."""
    return web.Response(text=text, status=status)
