"""Files that are announced by the feed, over HTTP: those of each folder, NAME, below /feed/NAME/.

The broker's process serves them, not that of the feed: they are there while the feed is started again.
"""

import importlib
from typing import TYPE_CHECKING, Final

from aiohttp import web

from admin_api.errors import AdminError, shown
from admin_api.listener import BEING_SENT
from broker.config.options import Config
from broker.config.sections.feed_checks import SEGMENTS
from spark_sink.feed.files import Files, RootPlace
from spark_sink.feed.segments import SegmentsPlace

if TYPE_CHECKING:
    from spark_sink.feed.producer.digests import PostedDigests

MOUNT: Final = "/feed/"
DIGESTS: Final = "spark_sink.feed.producer.digests"  # has SQLite: imported where files are posted, others pay nothing


class FeedFiles:
    """The files of all posted folders."""

    def __init__(self, config: Config) -> None:
        self._config: Final = config
        self._files: Final[dict[str, Files]] = {}  # by name, those that were asked for

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The bytes of one, or a range of them."""
        name = request.match_info["folder"]
        _, _, raw_path = request.raw_path.partition("?")[0].removeprefix(MOUNT).partition("/")
        request[BEING_SENT] = True
        try:
            response = await self._of(name).answer(request, raw_path)
        finally:
            del request[BEING_SENT]
        if response.status == 404:
            raise AdminError("no-such-file", f"there is no file {shown(raw_path)} in {shown(name)}")
        return response

    def _of(self, name: str) -> Files:
        if name not in self._files:
            config = self._config
            posted = config.feed.post.get(name)
            if posted is None:
                raise AdminError("no-such-file", f"no folder {shown(name)} is posted by this broker")
            root = posted.root(config.events.dir)
            place = SegmentsPlace(root) if posted.what == SEGMENTS else RootPlace(root)
            digests: PostedDigests = importlib.import_module(DIGESTS).PostedDigests(config.feed.log_path(name))
            self._files[name] = Files(place, find_digest=digests.find)
        return self._files[name]
