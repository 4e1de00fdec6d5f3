"""What operators may ask a feed that runs, at its socket (`client_sdk.gateways.control`).

    GET /state                                              what is posted, who has it, and where it goes
    GET /posts?folder=NAME&after=0&limit=100                a page of the posts of one folder, by number
              &path=a/b                                     of one path only
              &without=user@host                            of files that this consumer has not got

Answers are values of `broker.views.feed`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from broker.views.feed import FeedStateView, PostsView
from client_sdk.gateways.control import ControlSession, ControlSocket, answer_of, refusal_of
from spark_sink.feed.errors import PostLogError
from spark_sink.feed.program.mirrors import Mirrors
from spark_sink.feed.program.posters import MAX_PAGE, NoPosted, Posters
from spark_sink.feed.program.winnowers import Winnowers


class ControlListener(ControlSocket):
    """The socket of one feed."""

    def __init__(
        self,
        posters: Posters,
        mirrors: Mirrors,
        winnowers: Winnowers,
        path: Path,
        *,
        started_at_ms: int,
        dropped_n: Callable[[], int],
    ) -> None:
        """`dropped_n`: records for event files that are lost."""
        self._posters: Final = posters
        self._mirrors: Final = mirrors
        self._winnowers: Final = winnowers
        self._started_at_ms: Final = started_at_ms
        self._dropped_n: Final = dropped_n
        super().__init__(path, [web.get("/state", self._state), web.get("/posts", self._posts)])

    async def _state(self, request: web.Request) -> web.Response:
        try:
            posted = await self._posters.views()
        except PostLogError as error:
            return refusal_of(str(error), status=503)
        state = FeedStateView(
            started_at_ms=self._started_at_ms,
            events_dropped=self._dropped_n(),
            posted=posted,
            mirrors=self._mirrors.views(),
            winnowed=self._winnowers.views(),
        )
        return answer_of(state)

    async def _posts(self, request: web.Request) -> web.Response:
        query = request.query
        try:
            after, limit = int(query.get("after", "0")), int(query.get("limit", "100"))
        except ValueError:
            return refusal_of("after and limit must be whole numbers")
        if not 1 <= limit <= MAX_PAGE or not 0 <= after < 1 << 63:
            return refusal_of(f"limit must be 1 to {MAX_PAGE}, and after not less than 0")
        try:
            found = await self._posters.posts(
                query.get("folder", ""), after, limit, query.get("path", ""), query.get("without", "")
            )
        except NoPosted as error:
            return refusal_of(str(error), status=404)
        except PostLogError as error:
            return refusal_of(str(error), status=503)
        return answer_of(found)


class ControlClient(ControlSession):
    """Asks a feed that runs; `async with` it. NotRunning, Refusal."""

    async def state(self) -> FeedStateView:
        """See there."""
        return msgspec.json.decode(await self.ask("GET", "/state"), type=FeedStateView)

    async def posts(self, folder: str, after: int, limit: int, path: str = "", without: str = "") -> PostsView:
        """A page of them."""
        query = {"folder": folder, "after": str(after), "limit": str(limit), "path": path, "without": without}
        return msgspec.json.decode(await self.ask("GET", "/posts", params=query), type=PostsView)
