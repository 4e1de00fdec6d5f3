"""The posters of one feed: each made of its options, and what operators see of it."""

from collections.abc import Sequence
from typing import Final

from broker.config.sections.feed import FeedOptions, PostOptions
from broker.config.sections.feed_checks import SEGMENTS
from broker.views.feed import GONE, STANDS, ConsumerView, PostedView, PostsView, PostView, ReportView, SinkView
from spark_sink.feed.producer import posting
from spark_sink.feed.producer.folders import Folder, SegmentsFolder, Watched
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.feed.producer.post_tables import ConsumerRow, PostRow, ReportRow
from spark_sink.feed.producer.poster import Poster
from spark_sink.feed.producer.readers import ReportedReaders, Required
from spark_sink.feed.program.assignment import Assignment
from spark_sink.feed.program.links import offers_of, reports_of, sinks_of
from spark_sink.feed.program.patterns import accepts_of
from spark_sink.feed.records import FileRecords, Tell
from spark_sink.feed.transport import Sink, Source

MAX_PAGE: Final = 1000  # posts of one answer


class NoPosted(Exception):
    """There is no posted folder of this name; the text says so."""


class Posters:
    """Those of one assignment, from `start` to `stop`."""

    def __init__(self, assignment: Assignment, tell: Tell | None) -> None:
        """Opens nothing yet. `tell`: what becomes of files. BadLink: a broker of messages cannot be spoken to."""
        self._assignment: Final = assignment
        self._posters: Final = {
            name: make_poster(assignment, name, sinks_of(assignment, name), reports_of(assignment, name), tell)
            for name in assignment.options.post
        }
        self._offers: Final = {name: offers_of(assignment, name, each) for name, each in self._posters.items()}
        self._started: Final[list[Poster]] = []

    async def start(self) -> None:
        """PostLogError, OSError: one cannot start; then `stop` ends the others."""
        for name, poster in self._posters.items():
            self._started.append(poster)
            await poster.start()
            for offer in self._offers[name]:
                offer.start()

    async def stop(self) -> None:
        """What is under way is found, or sent, after the next start."""
        for offers in self._offers.values():
            for offer in offers:
                await offer.close()
        for poster in self._started:
            await poster.stop()

    async def views(self) -> list[PostedView]:
        """All of them. PostLogError."""
        return [await self._view(name, poster) for name, poster in self._posters.items()]

    async def posts(self, folder: str, after: int, limit: int, path: str, without: str) -> PostsView:
        """Posts of one folder with greater numbers: of one path, or those whose files a consumer has not got, where
        these are given. NoPosted, PostLogError."""
        poster = self._posters.get(folder)
        if poster is None:
            raise NoPosted(f"no folder {folder!r} is posted; there are {', '.join(self._posters) or 'none'}")
        rows = await poster.log.posts(after, limit, path, without)
        return PostsView([_post_view(row, reports) for row, reports in rows], folder, after, limit)

    async def _view(self, name: str, poster: Poster) -> PostedView:
        assignment = self._assignment
        return PostedView(
            name=name,
            what=assignment.options.post[name].what,
            folder=str(assignment.root(name)),
            base_url=assignment.base_url(name),
            files=poster.files_n,
            waiting=poster.waiting_n,
            last_post=poster.log.last_seq,
            problem=poster.problem,
            sinks=[
                *(_sink_view(poster, each.sink, each.trouble) for each in poster.sendings),
                *(SinkView(each.name, each.state(), None, 0) for each in self._offers[name]),
            ],
            consumers=[_consumer_view(row) for row in await poster.log.consumers()],
        )


def make_poster(
    assignment: Assignment,
    name: str,
    sinks: Sequence[Sink] = (),
    reports: Sequence[Source] = (),
    tell: Tell | None = None,
) -> Poster:
    """The poster of one folder; opens nothing yet."""
    posted = assignment.options.post[name]
    log = make_log(assignment, name, sinks)
    root, accepts = assignment.root(name), accepts_of(posted.accept, posted.reject)
    readers: ReportedReaders | None = None
    watched: Watched
    if posted.what == SEGMENTS:
        segments = watched = SegmentsFolder(root, accepts=accepts, interval_s=posted.interval)
        required = [_required(each) for each in posted.required]
        readers = ReportedReaders(root, log, required, lambda: segments.left_out)
    else:
        watched = Folder(root, accepts=accepts, interval_s=posted.interval)
    return Poster(
        watched,
        log,
        post_options_of(posted, assignment.base_url(name)),
        sinks=sinks,
        reports=reports,
        readers=readers,
        records=FileRecords(name, tell),
        settle_s=posted.settle,
    )


def make_log(assignment: Assignment, name: str, sinks: Sequence[Sink] = ()) -> PostLog:
    """The log of one folder; opens nothing yet."""
    options: FeedOptions = assignment.options
    return PostLog(
        assignment.log_path(name),
        prefix=options.post[name].prefix,
        sinks=[sink.name for sink in sinks],
        required=[_required(each).name for each in options.post[name].required],
        keep_n=options.keep_posts,
        keep_s=options.keep,
    )


def post_options_of(posted: PostOptions, base_url: str) -> posting.PostOptions:
    """What its posts say."""
    return posting.PostOptions(
        base_url=base_url,
        identity=posted.identity,
        inline_bytes=posted.inline_bytes,
        block_bytes=posted.block_bytes,
        source=posted.source,
        from_cluster=posted.from_cluster,
        to_clusters=posted.to_clusters,
        has_removals=posted.removals,
    )


def _required(text: str) -> Required:
    """Of an item of feed.post.NAME.required."""
    name, _, pattern = text.partition(" ")
    return Required(name, accepts_of([pattern] if pattern else [], []))


def _sink_view(poster: Poster, sink: Sink, trouble: str) -> SinkView:
    confirmed_to, _ = poster.log.confirmed(sink.name)
    return SinkView(sink.name, trouble or sink.state(), confirmed_to, poster.log.last_seq - confirmed_to)


def _consumer_view(row: ConsumerRow) -> ConsumerView:
    return ConsumerView(
        row.name, row.first_at_ms, row.last_at_ms, row.has_n, row.missing_n, row.failed_n, row.missing_since_ms
    )


def _post_view(row: PostRow, reports: Sequence[ReportRow]) -> PostView:
    return PostView(
        number=row.seq,
        path=row.rel_path,
        block=row.number if row.number >= 0 else None,
        topic=row.topic,
        pub_time=row.pub_time,
        posted_at_ms=row.at_ms,
        state=STANDS if row.stands else GONE,
        reports=[ReportView(*each) for each in reports],
    )
