"""A poster's side of RSocket: offers its log of posts, from any number to the last one and on, and takes reports.

    PostLog ──► "posts": replayed, then live, as many as the consumer has asked for
    "report" ──► heard(body)

A consumer that is slow holds up nobody: a page of the log is read when it wants more. What a consumer has got is not
kept here; it says where it was.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from client_sdk.clock import Clock
from client_sdk.connecting import Connecting, connect
from client_sdk.errors import ApplicationError, ClientError
from client_sdk.payload import Payload
from client_sdk.services.request import Request
from client_sdk.services.service import Service
from spark_sink.feed.errors import PostLogError
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.feed.topics import matches
from spark_sink.feed.transports.asked import (
    ORIGIN,
    POSTS,
    REPORT,
    SERVICE,
    Found,
    Item,
    item_metadata,
    read_asked,
    write,
)
from spark_sink.feed.transports.broker_link import BrokerLink
from spark_sink.feed.transports.settings import BadLink, SinkSettings

MAX_STREAMS: Final = 256  # consumers that are sent posts at the same time
MAX_WAITING: Final = 64  # more of them, and reports that wait
REPORTS_N: Final = 32  # reports that are worked on at the same time; they are written together

# A report, and whether it is of a post that is here; PostLogError: try again. `Poster.heard` is one.
Heard = Callable[[bytes], Awaitable[bool]]


class PostOffer:
    """One log, offered at one broker."""

    def __init__(self, settings: SinkSettings, log: PostLog, heard: Heard, clock: Clock | None = None) -> None:
        """`log` is open from `start` to `close`. BadLink."""
        self._settings: Final = settings
        self._log: Final = log
        self._heard: Final = heard
        self._link: Final = BrokerLink(settings.name, self._connecting, clock or Clock())
        try:
            connect(settings.url, ssl=settings.tls).is_used = True  # for what is wrong with the URL
            Service(SERVICE, tags={"exchange": settings.exchange})
        except (ClientError, ValueError) as error:
            raise BadLink(f"{settings.name}: {error}") from None

    @property
    def name(self) -> str:
        """Of the configuration."""
        return self._settings.name

    def state(self) -> str:
        """UP, or one line that says why it is not."""
        return self._link.state()

    def start(self) -> None:
        """Begins to connect."""
        self._link.start()

    async def close(self) -> None:
        """Ends the connection, and all streams."""
        await self._link.close()

    def _connecting(self) -> Connecting:
        tags = {"exchange": self._settings.exchange, "origin": self._log.origin}
        service = Service(SERVICE, tags=tags)
        service.request_stream(max_concurrency=MAX_STREAMS, max_waiting=MAX_WAITING)(self._posts)
        service.request_stream(POSTS, max_concurrency=MAX_STREAMS, max_waiting=MAX_WAITING)(self._posts)
        service.request_response(ORIGIN)(self._origin)
        service.request_response(REPORT, max_concurrency=REPORTS_N, max_waiting=MAX_WAITING)(self._report)
        return connect(self._settings.url, service=service, ssl=self._settings.tls)

    async def _origin(self, data: bytes) -> bytes:
        return write(Found(self._log.origin))

    async def _report(self, body: bytes) -> bytes:
        try:
            return b"1" if await self._heard(body) else b"0"
        except PostLogError:
            raise ApplicationError("the report could not be kept", word="not-kept") from None

    async def _posts(self, request: Request) -> AsyncIterator[Payload]:
        try:
            asked = read_asked(request.data)
        except (ValueError, msgspec.MsgspecError) as error:
            raise ApplicationError(str(error), word="bad-request") from None
        log, patterns = self._log, asked.patterns
        seq = asked.since_of(log.origin)
        if seq > log.last_seq:  # the log is an older copy of itself: what it has given these numbers is not known
            seq = 0
        try:
            while True:
                await log.wait_beyond(seq)
                last_seq = log.last_seq
                page = await log.read(seq)
                for each in page:
                    seq = each.seq
                    if any(matches(pattern, each.topic) for pattern in patterns):
                        yield Payload(each.body, item_metadata(Item(log.origin, each.seq, each.topic)))
                if not page:  # the others were superseded
                    seq = max(seq, last_seq)
        except PostLogError:
            raise ApplicationError("the log of posts is closed", word="closed") from None
