"""Files of one folder over HTTP, by a server of its own: for a feed beside which no broker serves them."""

import ssl
from pathlib import Path
from typing import Final

from aiohttp import web

from broker.config.urls import Listen, cannot_listen
from spark_sink.feed.files import ANY_PATH, Files, Place, RootPlace, no_digest
from spark_sink.feed.producer.digests import PostedDigests
from spark_sink.feed.segments import SegmentsPlace

STOP_S: Final = 1.0  # for what is being sent


class FilesListener:
    """One server, from `start` to `close`."""

    def __init__(
        self,
        root: Path,
        *,
        is_segments: bool = False,
        log: Path | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`is_segments`: the folder is one of events. `log`: of the posts of this folder, for their digests; None:
        there is none. `tls`: for https."""
        self._tls: Final = tls
        place: Place = SegmentsPlace(root) if is_segments else RootPlace(root)
        self._digests: Final = None if log is None else PostedDigests(log)
        self._files: Final = Files(place, find_digest=no_digest if self._digests is None else self._digests.find)
        app = web.Application()
        app.router.add_get(ANY_PATH, self._answer)
        self._runner: Final = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=STOP_S)

    async def start(self, listen: Listen) -> int:
        """The port, which the system chose if it was 0. BrokerError "cannot-listen", and nothing is left open."""
        await self._runner.setup()
        try:
            site = web.TCPSite(self._runner, listen.host, listen.port, ssl_context=self._tls)
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise cannot_listen(listen.address, error) from None
        port: int = self._runner.addresses[0][1]
        return port

    async def close(self) -> None:
        """What is being sent has STOP_S to end."""
        await self._runner.cleanup()
        if self._digests is not None:
            self._digests.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        return await self._files.answer(request, request.raw_path.partition("?")[0])
