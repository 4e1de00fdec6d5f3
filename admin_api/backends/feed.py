"""The feed beside the broker, asked at its socket. What is asked there stands in `spark_sink.feed.program.control`."""

from __future__ import annotations

from typing import Final

import msgspec
from prometheus_client.metrics_core import Metric

from admin_api.backends.answer import Answer
from admin_api.backends.gateway import ANSWER_S, AskedGateway, Words
from admin_api.errors import AdminError, shown
from admin_api.numbers import FEED, FEED_RESTARTS, FEED_UP
from admin_api.processes import GatewayProcess
from broker.config.sections.feed import FeedOptions
from broker.views.feed import FeedStateView, FeedView, PostsView

WORDS: Final = Words(
    "the feed",
    "no-feed",
    "this broker has no feed: none of the tables of [feed] is configured; [feed.post.NAME] announces a folder",
    "feed-unavailable",
)


class Feed(AskedGateway):
    """One feed, or none. AdminError: "no-feed", there is none; "feed-unavailable", it does not answer."""

    def __init__(self, options: FeedOptions, process: GatewayProcess | None, answer_s: float = ANSWER_S) -> None:
        """`process`: None where none is kept running."""
        self._options: Final = options
        super().__init__(WORDS, options.control_path, process, answer_s)

    async def state(self) -> Answer[FeedView]:
        """What is announced, and who has it."""
        state = await self.ask("GET", "/state", FeedStateView)
        process = self.process
        assert process is not None  # it has answered
        return Answer(FeedView(**msgspec.structs.asdict(state), pid=process.pid, restarts=process.restarts))

    async def families(self) -> list[Metric]:
        """For Prometheus; none where there is no feed."""
        process = self.process
        if process is None:
            return []
        try:
            state, _ = await self.state()
        except AdminError:
            return [FEED_UP.family(False), FEED_RESTARTS.family(process)]
        return [FEED_UP.family(True), FEED_RESTARTS.family(process), *(number.family(state) for number in FEED)]

    async def posts(self, folder: str, after: int, limit: int, path: str, without: str) -> Answer[PostsView]:
        """Posts of a folder with greater numbers, each with its reports. AdminError "no-such-folder"."""
        if self.is_there and folder not in self._options.post:
            known = ", ".join(self._options.post)
            raise AdminError("no-such-folder", f"no folder {shown(folder)} is posted; there are {known}")
        query = {"folder": folder, "after": str(after), "limit": str(limit), "path": path, "without": without}
        return Answer(await self.ask("GET", "/posts", PostsView, query))
