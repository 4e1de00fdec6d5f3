"""Commands of the feed as processes, files that are counted when they are asked for, and a look at what is mirrored."""

import asyncio
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

from aiohttp import web

from spark_sink.feed.files import Files, RootPlace
from tests.client_sdk.gateways.samwise.rabbitmq import HOST
from tests.system.support.processes import import_path
from tests.system.support.waits import POLL_S

MAIN: Final = "from broker.commands.script import main; main()"


class Feed:
    """A `feed` command, which can be killed and started again."""

    def __init__(self, folder: Path, *words: str) -> None:
        """`folder` is where it runs, and where its log is."""
        self._folder = folder
        self._log = folder / f"{words[0]}.log"
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None  # None until it is started

    @property
    def pid(self) -> int:
        """Of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        """What it and others of the same command in this folder have said."""
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        with self._log.open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": import_path()}
            command = [sys.executable, "-c", MAIN, "feed", *self._words]
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, env=environment)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Site:
    """Files of a folder over HTTP, for one mirror, from `serving` to its end."""

    def __init__(self, root: Path, landing: Path) -> None:
        self.port = 0  # from `serving` on
        self.asked: Final[Counter[str]] = Counter()  # by name
        self.answered: Final[Counter[str]] = Counter()  # the same, with all of it
        self.again: Final[list[str]] = []  # names that were asked for when their files were there
        self.breaks_off_each = 0  # so many requests, one answer ends in its middle; 0: none
        self.is_dead = False  # nobody gets an answer
        self._root = root
        self._landing = landing
        self._files = Files(RootPlace(root))

    @property
    def url(self) -> str:
        """Below which the files are."""
        return f"http://{HOST}:{self.port}/"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        """Until the end."""
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(application, handler_cancellation=True)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, 0).start()
            self.port = runner.addresses[0][1]
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["path"]
        assert request.transport is not None
        if self.is_dead:
            request.transport.abort()
            return web.Response()
        if (self._landing / name).exists():
            self.again.append(name)
        self.asked[name] += 1
        if self.breaks_off_each and self.asked.total() % self.breaks_off_each == 0:
            return await self._half(request, (self._root / name).read_bytes())
        answer = await self._files.answer(request, request.rel_url.raw_path)
        self.answered[name] += 1
        return answer

    async def _half(self, request: web.Request, data: bytes) -> web.StreamResponse:
        """What is wanted, up to its middle."""
        span = request.http_range
        wanted = data[span.start or 0 : span.stop]
        response = web.StreamResponse(status=206 if "Range" in request.headers else 200)
        response.content_length = len(wanted)
        if response.status == 206:
            start = span.start or 0
            response.headers["Content-Range"] = f"bytes {start}-{start + len(wanted) - 1}/{len(data)}"
        await response.prepare(request)
        await response.write(wanted[: len(wanted) // 2])
        assert request.transport is not None
        request.transport.close()
        return response


class Watch:
    """Looks all the time at what has a name in a folder, in a thread, within `with`."""

    def __init__(self, landing: Path, files: dict[str, bytes]) -> None:
        """`files`: what is to be there; the test may add others."""
        self.halves: Final[set[str]] = set()  # that were seen, and were not as they are to be
        self._landing = landing
        self._files = files
        self._seen: Final[set[str]] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(POLL_S):
            for name in names(self._landing) - self._seen:
                if (self._landing / name).read_bytes() != self._files[name]:
                    self.halves.add(name)
                self._seen.add(name)


async def started(*feeds: Feed) -> None:
    """All of them."""
    for feed in feeds:
        await asyncio.to_thread(feed.start)


def names(landing: Path) -> set[str]:
    """Of what is there, without what is fetched under hidden names."""
    return {name for name in os.listdir(landing) if not name.startswith(".")}


def contents(landing: Path) -> dict[str, bytes]:
    """What is there, by name."""
    return {name: (landing / name).read_bytes() for name in names(landing)}
