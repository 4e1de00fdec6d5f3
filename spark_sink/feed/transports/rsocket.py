"""Posts over RSocket: a stream from each poster that is connected, and reports back to them.

    broker ── who offers `feed`? ──► origins ──► a stream for each, from where it was ──► source, `prefetch` at a time
                                                       acknowledged ──► Positions

Each poster has a log of posts with an origin of its own, in which posts are numbered. The place in it up to which all
is acknowledged is kept, and the next process begins behind it. A stream that is lost goes on behind the last post that
came, so what is out is not asked for twice; it is begun again as long as its poster is found. D-92
"""

import asyncio
import logging
from typing import Final, Protocol

import msgspec

from client_sdk.addresses import address, multicast
from client_sdk.client import Client
from client_sdk.clock import Clock
from client_sdk.connecting import Connecting, connect
from client_sdk.errors import ClientError, NoRoute
from spark_sink.feed.errors import NotSent, NotTaken, SendError
from spark_sink.feed.posts import Post
from spark_sink.feed.transport import UP, Arrival
from spark_sink.feed.transports.asked import ORIGIN, POSTS, REPORT, SERVICE, Asked, read_found, read_item, write
from spark_sink.feed.transports.broker_link import BrokerLink
from spark_sink.feed.transports.settings import BadLink, LinkSettings, SourceSettings

FIND_S: Final = 1.0  # between looks for posters
ANSWER_S: Final = 5.0  # for a poster to say who it is
REPORT_S: Final = 30.0  # for all posters to answer to a report
MAX_ORIGINS: Final = 1_024  # posters of one source; others are left alone, and the log says so

_log: Final = logging.getLogger("spark_sink.feed")


class Positions(Protocol):
    """Where a source was at each poster, kept over restarts."""

    async def load(self, source: str) -> dict[str, int]:
        """By origin: the number up to which all is acknowledged."""

    async def save(self, source: str, positions: dict[str, int]) -> None:
        """Keeps these beside those of other origins. An exception: another time."""


class RSocketSource:
    """A `Source`: all posters of one exchange at one broker."""

    def __init__(
        self, settings: SourceSettings, positions: Positions | None = None, clock: Clock | None = None
    ) -> None:
        """`positions` None: each process begins with all that posters have. BadLink."""
        self._settings: Final = settings
        self._positions: Final = positions
        self._clock: Final = clock or Clock()
        self._link: Final = _link(settings, self._clock)
        self._arrived: Final[asyncio.Queue[Arrival]] = asyncio.Queue()  # at most `prefetch`
        self._free: Final = asyncio.Semaphore(settings.prefetch_n)
        self._places: Final[dict[str, _Place]] = {}  # by origin
        self._streams: Final[dict[str, asyncio.Task[None]]] = {}  # the same; those that are under way
        self._has_changed: Final = asyncio.Event()  # a place has
        self._tasks: list[asyncio.Task[None]] = []  # from the first use to `close`
        self._trouble = ""  # that was told last
        self._is_crowded = False  # there were more posters than MAX_ORIGINS

    @property
    def name(self) -> str:
        """Of the configuration."""
        return self._settings.name

    async def receive(self) -> Arrival:
        """The next one; it waits over lost connections, and for posters."""
        if not self._tasks:
            self._link.start()
            self._tasks = [asyncio.create_task(self._find()), asyncio.create_task(self._keep())]
        return await self._arrived.get()

    def acknowledge(self, arrival: Arrival) -> None:
        """It will not come again, as soon as its place is kept."""
        out = arrival.token
        assert isinstance(out, _Out)
        if out.place.done(out):
            self._free.release()
            self._has_changed.set()

    async def close(self) -> None:
        """Ends the connection, after places are kept. What was not acknowledged comes again."""
        for task in (*self._tasks, *self._streams.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._streams.values(), return_exceptions=True)
        if self._tasks:
            await self._save()
        await self._link.close()

    def state(self) -> str:
        """UP, or one line that says why it is not."""
        state = self._link.state()
        if state == UP and not self._streams:
            return f"no poster of exchange {self._settings.exchange!r} is there"
        return state

    async def _find(self) -> None:
        """Begins a stream with each poster that has none."""
        await self._load()
        while True:
            client = await self._link.connected()
            try:
                asking = client.gather(
                    multicast(SERVICE, exchange=self._settings.exchange), route=ORIGIN, timeout_s=ANSWER_S
                )
                async for answer in asking:  # as they come: one that says nothing holds up no other
                    if answer.is_ok:
                        self._begin(client, read_found(answer.data).origin)
            except NoRoute:
                pass  # there is no poster yet, which `state` says
            except (ClientError, ValueError, msgspec.MsgspecError) as error:
                self._say(str(error))
            await self._clock.sleep(FIND_S)

    async def _load(self) -> None:
        while self._positions is not None:
            try:
                places = await self._positions.load(self.name)
            except Exception as error:  # whatever a store comes up with: without it, all posts would come again
                self._say(f"where it was cannot be read: {error!r}")
                await self._clock.sleep(FIND_S)
                continue
            self._places.update((origin, _Place(seq)) for origin, seq in places.items())
            return

    def _begin(self, client: Client, origin: str) -> None:
        if origin in self._streams:
            return
        if len(self._streams) >= MAX_ORIGINS:
            if not self._is_crowded:
                _log.warning("%s: there are more than %d posters: others are left alone", self.name, MAX_ORIGINS)
            self._is_crowded = True
            return
        task = self._streams[origin] = asyncio.create_task(self._follow(client, origin))
        task.add_done_callback(lambda _: self._streams.pop(origin, None))

    async def _follow(self, client: Client, origin: str) -> None:
        """One stream, until it is lost."""
        settings = self._settings
        place = self._places.setdefault(origin, _Place(0))
        asked = Asked(list(settings.patterns), place.last_seq)
        to = address(SERVICE, exchange=settings.exchange, origin=origin)
        try:
            async for payload in client.request_stream(to, write(asked), route=POSTS, initial_n=settings.prefetch_n):
                item = read_item(payload.metadata)
                await self._free.acquire()
                out = place.came(item.seq)
                self._arrived.put_nowait(Arrival(payload.data or b"", item.topic, self.name, out))
        except (ClientError, ValueError, msgspec.MsgspecError) as error:
            self._say(f"poster {origin}: {error}")

    async def _keep(self) -> None:
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            if not await self._save():
                self._has_changed.set()
                await self._clock.sleep(FIND_S)

    async def _save(self) -> bool:
        """False: it has failed."""
        new = {origin: place.kept_to for origin, place in self._places.items() if place.kept_to != place.saved_to}
        if not new or self._positions is None:
            return True
        try:
            await self._positions.save(self.name, new)
        except Exception as error:  # whatever a store comes up with: another time, and meanwhile posts are repeats
            self._say(f"where it was cannot be kept: {error!r}")
            return False
        for origin, seq in new.items():
            self._places[origin].saved_to = seq
        return True

    def _say(self, trouble: str) -> None:
        if trouble != self._trouble:
            _log.warning("%s: %s", self.name, trouble)
        self._trouble = trouble


class RSocketSink:
    """A `Sink` of reports: to the posters of one exchange at one broker. Posts are offered, not sent (`offering`)."""

    def __init__(self, settings: LinkSettings, clock: Clock | None = None) -> None:
        """BadLink."""
        self._settings: Final = settings
        self._link: Final = _link(settings, clock or Clock())

    @property
    def name(self) -> str:
        """Of the configuration."""
        return self._settings.name

    async def send(self, post: Post, prefix: str) -> None:
        """Returns when all posters that are there have answered, and whose post it is has kept it. NotSent; NotTaken:
        none of them has kept it, as when its poster is away; SendError: it is no report."""
        if not post.is_report:
            raise SendError(f"{self.name}: a post is not sent over RSocket, but offered by its poster")
        self._link.start()
        await self._link.settled()
        client = self._link.client
        if client is None:
            raise NotSent(f"{self.name}: {self._link.state()}")
        to = multicast(SERVICE, exchange=self._settings.exchange)
        is_kept = False
        fault = ""  # of one that has not answered, and whose it may be
        try:
            asking = client.gather(to, post.encode(), route=REPORT, timeout_s=REPORT_S)
            async for answer in asking:
                is_kept = is_kept or (answer.is_ok and answer.data == b"1")
                fault = fault if answer.error is None else answer.error.text
        except ClientError as error:
            raise NotSent(f"{self.name}: {error}") from None
        if not is_kept:
            silence = "" if asking.is_complete else f"no answer within {REPORT_S:g} s"
            raise NotTaken(f"{self.name}: {fault or silence or 'no poster that is there has announced this'}")

    async def close(self) -> None:
        """Ends the connection."""
        await self._link.close()

    def state(self) -> str:
        """UP, or one line that says why it is not."""
        return self._link.state()


class _Out:
    """A post that is not acknowledged; equal to itself only."""

    __slots__ = ("place", "seq")

    def __init__(self, place: "_Place", seq: int) -> None:
        self.place: Final = place
        self.seq: Final = seq


class _Place:
    """Where a source is in one log."""

    def __init__(self, seq: int) -> None:
        """All up to this number is acknowledged."""
        self.last_seq = seq  # that has come
        self.saved_to = seq
        self._out: Final[dict[_Out, None]] = {}  # in the order in which they came

    @property
    def kept_to(self) -> int:
        """All up to this number is acknowledged."""
        first = next(iter(self._out), None)
        return self.last_seq if first is None else first.seq - 1

    def came(self, seq: int) -> _Out:
        """The next one."""
        out = _Out(self, seq)
        self._out[out] = None
        self.last_seq = seq
        return out

    def done(self, out: _Out) -> bool:
        """It is acknowledged; False: it was before."""
        if out not in self._out:
            return False
        del self._out[out]
        return True


def _link(settings: LinkSettings, clock: Clock) -> BrokerLink:
    def make() -> Connecting:
        return connect(settings.url, ssl=settings.tls)

    try:
        make().is_used = True  # for what is wrong with the URL
        multicast(SERVICE, exchange=settings.exchange)
    except (ClientError, ValueError) as error:
        raise BadLink(f"{settings.name}: {error}") from None
    return BrokerLink(settings.name, make, clock)
