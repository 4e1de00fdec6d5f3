"""What operators see of the feed; for units see `broker.views.schemas`.

The feed says it in these words at its socket (`spark_sink.feed.program.control`); the REST API and `rsocket-broker feed
status` pass them on. There is one feed, however many workers there are: nothing of it is merged.
"""

from __future__ import annotations

import msgspec

STANDS = "stands"  # of a post: its file is there as it was announced
GONE = "gone"  # it says that a name is gone
UP = "up"  # of a sink or source


class SinkView(msgspec.Struct, frozen=True):
    """Where posts go."""

    name: str
    state: str  # up, or why it is not
    confirmed_to: int | None  # all posts up to this number are confirmed; None: they are offered, to whoever asks
    waiting: int  # numbers of posts that are not; some of them may be superseded by later ones


class ConsumerView(msgspec.Struct, frozen=True):
    """Who reports what it has fetched."""

    name: str  # user@host
    first_report_at_ms: int
    last_report_at_ms: int
    has: int  # announced files and blocks that are there
    missing: int  # those that it has not reported to have
    failed: int  # of these, those that it has reported to be without
    missing_since_ms: int | None  # when the first of them was announced; None: none is missing


class PostedView(msgspec.Struct, frozen=True, kw_only=True):
    """A folder whose files are announced."""

    name: str
    what: str  # files or segments
    folder: str
    base_url: str
    files: int  # files, links and folders that are announced
    waiting: int  # that were found and are not announced yet
    last_post: int  # number of the last post that there ever was
    problem: str  # what cannot be announced, the last of it; empty: all can
    sinks: list[SinkView]
    consumers: list[ConsumerView]


class SourceView(msgspec.Struct, frozen=True):
    """Where posts come from."""

    name: str
    state: str  # up, or why it is not


class MirrorView(msgspec.Struct, frozen=True, kw_only=True):
    """A folder into which announced files are fetched. Counts are since the start."""

    name: str
    folder: str
    received: int  # posts
    done: int  # files that are there, links and removals too
    bytes: int  # that were fetched, or were in posts
    repeats: int  # posts of what was there already
    refused: int  # posts that may not be carried out
    failed: int  # tries that did not succeed
    given_up: int  # posts, after the last try
    retries: int  # posts that wait for another try
    reports: int  # that were sent
    problem: str  # of the disk; empty: none
    sources: list[SourceView]


class WinnowView(msgspec.Struct, frozen=True, kw_only=True):
    """What is passed on without being fetched. Counts are since the start."""

    name: str
    received: int  # posts
    passed: int
    repeats: int
    refused: int  # that cannot be read
    problem: str  # why the last post is not passed on; empty: it is
    sources: list[SourceView]


class FeedStateView(msgspec.Struct, frozen=True, kw_only=True):
    """The feed in one look, as it says itself."""

    started_at_ms: int
    events_dropped: int  # records for event files that are lost, since the start
    posted: list[PostedView]
    mirrors: list[MirrorView]
    winnowed: list[WinnowView]


class FeedView(FeedStateView, frozen=True, kw_only=True):
    """The same of the feed beside a broker."""

    pid: int
    restarts: int  # by the broker, since that was started


class ReportView(msgspec.Struct, frozen=True):
    """What a consumer has said of a post, the last time."""

    consumer: str
    code: int
    has_it: bool
    message: str
    at_ms: int


class PostView(msgspec.Struct, frozen=True, kw_only=True):
    """A post in the log of a folder."""

    number: int
    path: str
    block: int | None  # None: it is about the whole file
    topic: str
    pub_time: str
    posted_at_ms: int
    state: str  # STANDS or GONE
    reports: list[ReportView]


class PostsView(msgspec.Struct, frozen=True):
    """Posts by number; fewer than `limit`: there are no others."""

    items: list[PostView]
    folder: str  # name of the folder
    after: int  # numbers that are greater
    limit: int
