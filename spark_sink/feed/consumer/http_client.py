"""Gets files over HTTP/1.1, by connections that stay open: bytes come from the socket right where they are wanted.

    get ──► a free connection, or a new one ──► request ──► head ──► Answer ──► some bytes, some more … ──► free again

By hand: with the client of aiohttp a mirrored file of 4 KiB costs half as much CPU again, and a large one is copied
three times on its way.
"""

import asyncio
import ssl
from collections.abc import Callable, Collection, Mapping
from typing import Final, cast

from spark_sink.errors import SinkError
from spark_sink.feed.consumer.heads import HEAD_END, Address, BadHead, Head, Url, read_chunk, read_head, read_url

CONNECT_S: Final = 10.0
SILENT_S: Final = 60.0  # of a server, after which the request has failed
IDLE_S: Final = 15.0  # that a connection is kept which nobody uses
LOOK_S: Final = 1.0  # between two looks at both
HURRY_S: Final = 2.0  # of a silent server, and of one that does not accept, where another one has the same
GATHER_S: Final = 0.005  # for which an answer waits for others, where several are waited for
MAX_CONNECTIONS: Final = 256  # of all hosts, that are in use; with more, none is kept that nobody uses
BUFFER_BYTES: Final = 16 << 10  # of a connection: the head of an answer, and what follows it meanwhile


class NotFetched(SinkError):
    """It was not fetched; the text says why.

    `is_final`: another try would have the same end. `is_host`: nothing can be had from this host.
    """

    def __init__(self, text: str, *, is_final: bool = False, is_host: bool = False) -> None:
        super().__init__(text)
        self.is_final: Final = is_final
        self.is_host: Final = is_host


class BrokeOff(NotFetched):
    """In the middle of it."""


class HttpClient:
    """All connections, until `close`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: for https; None: with the certificates of the system."""
        self._slots: Final = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: Final[dict[Address, list[_Connection]]] = {}  # the one that was used last at the end
        self._open: Final[set[_Connection]] = set()
        self._connecting: Final[set[_Attempt]] = set()
        self._looking: asyncio.TimerHandle | None = None  # while there are connections
        self._asking_n = 0  # answers that are waited for
        self._answered: Final[list[_Connection]] = []  # since the last time that those who wait were told
        self._tls = tls  # from the first encrypted connection on it is there

    async def get(self, url: str, headers: Mapping[str, str]) -> "Answer":
        """What the server answers; `Answer.end` has to follow. NotFetched; BrokeOff: it went away instead."""
        try:
            where = read_url(url)
        except ValueError as error:
            raise NotFetched(f"{url}: it is no URL: {error}", is_final=True) from None
        await self._slots.acquire()
        try:
            return await self._ask(url, where, where.request(headers))
        except BaseException:
            self._slots.release()
            raise

    def hurry(self, urls: Collection[str]) -> None:
        """What is asked for there can be had elsewhere: it has failed where nothing has come for HURRY_S."""
        now = asyncio.get_running_loop().time()
        for attempt in [each for each in self._connecting if each.url in urls and each.began_at <= now - HURRY_S]:
            attempt.give_up(now)
        long_ago = now + SILENT_S - HURRY_S
        for connection in self._open if urls else ():
            if connection.is_waited_for and connection.deadline_at <= long_ago and connection.url in urls:
                connection.end(is_silent=True, is_hurried=True)

    def close(self) -> None:
        """Ends them."""
        for connection in list(self._open):
            connection.end()
        if self._looking is not None:
            self._looking.cancel()

    async def _ask(self, url: str, where: Url, request: bytes) -> "Answer":
        while True:
            connection = self._find_idle(where.address)
            is_fresh = connection is None
            if connection is None:
                connection = await self._connect(url, where.address)
            self._asking_n += 1
            try:
                head = await connection.ask(url, request)
                return Answer(self, where.address, connection, head)
            except BrokeOff:
                connection.end()
                # RFC 9112 9.3.1: servers close connections that nobody uses, and may do so right now.
                if is_fresh or connection.has_heard:
                    raise
            except BaseException:
                connection.end()
                raise
            finally:
                self._asking_n -= 1

    def _find_idle(self, address: Address) -> "_Connection | None":
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if not connection.is_lost:
                return connection
        self._idle.pop(address, None)
        return None

    async def _connect(self, url: str, address: Address) -> "_Connection":
        loop = asyncio.get_running_loop()
        tls = None
        if address.scheme == "https":
            tls = self._tls = self._tls or await asyncio.to_thread(ssl.create_default_context)
        connection = _Connection(loop, self.answered)
        attempt = _Attempt(url, loop.time())
        self._connecting.add(attempt)
        try:
            async with attempt.timeout:
                await loop.create_connection(lambda: connection, address.host, address.port, ssl=tls)
        except TimeoutError:
            raise NotFetched(f"{url}: no answer", is_host=not attempt.is_hurried) from None
        except (OSError, UnicodeError) as error:  # of TLS, too, and a name that no host can have
            raise NotFetched(f"{url}: {_line_of(error)}", is_host=True) from None
        finally:
            self._connecting.discard(attempt)
        self._open.add(connection)
        if self._looking is None:
            self._looking = loop.call_later(LOOK_S, self._look)
        return connection

    def _look(self) -> None:
        """Ends what is silent for too long, and what nobody needs."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [each for each in self._open if each.is_lost or each.deadline_at <= now]:
            connection.end(is_silent=True)
            self._open.discard(connection)
        for address, idle in list(self._idle.items()):
            self._idle[address] = [each for each in idle if each in self._open]
            if not self._idle[address]:
                del self._idle[address]
        self._looking = loop.call_later(LOOK_S, self._look) if self._open else None

    def answered(self, connection: "_Connection") -> None:
        """Something of its answer is there. Those that come at nearly the same time are told together: what follows is
        done for all of them by code that is in the caches of the processor, written in one turn, and committed once."""
        self._answered.append(connection)
        if len(self._answered) >= self._asking_n:
            self._tell()
        elif len(self._answered) == 1:
            asyncio.get_running_loop().call_later(GATHER_S, self._tell)

    def _tell(self) -> None:
        for connection in self._answered:
            connection.wake()
        self._answered.clear()

    def ended(self, address: Address, connection: "_Connection", *, is_free: bool) -> None:
        """Of an answer: the next one may have its place, and its connection where that is free."""
        self._slots.release()
        if is_free and connection.is_clean and len(self._open) <= MAX_CONNECTIONS:
            connection.rest()
            self._idle.setdefault(address, []).append(connection)
        else:
            connection.end()
            self._open.discard(connection)


class _Attempt:
    """To connect."""

    def __init__(self, url: str, now: float) -> None:
        """`now`: monotonic."""
        self.url: Final = url  # that will be asked for
        self.began_at: Final = now
        self.timeout: Final = asyncio.timeout_at(now + CONNECT_S)
        self.is_hurried = False  # it was given up, as somebody else has what is asked for

    def give_up(self, now: float) -> None:
        """It has taken too long, unless it ends just now."""
        if not self.timeout.expired() and not self.is_hurried:
            self.is_hurried = True
            self.timeout.reschedule(now)


class Answer:
    """To one request, until `end`."""

    def __init__(self, client: HttpClient, address: Address, connection: "_Connection", head: Head) -> None:
        self.head: Final = head
        self._client: Final = client
        self._address: Final = address
        self._connection: Final = connection
        self._left: int | None = 0 if head.is_chunked else head.length  # of the body or the chunk; None: not known
        self._is_whole = head.length == 0
        self._is_in_chunks = False  # one has come

    async def some(self, view: memoryview) -> int:
        """At least one byte of what follows, into `view`; how many. 0: there is no more. BrokeOff, NotFetched."""
        if self._is_whole:
            return 0
        if self._left == 0:
            await self._next_chunk()
            if self._is_whole:
                return 0
        came_n = await self._connection.some(view if self._left is None else view[: self._left])
        if self._left is None:
            self._is_whole = not came_n
        elif not came_n:
            raise self._connection.broke_off()
        else:
            self._left -= came_n
            self._is_whole = not self._left and not self.head.is_chunked
        return came_n

    async def read(self, size: int) -> bytes:
        """So many bytes, or fewer if it has not more. BrokeOff, NotFetched."""
        view, at = memoryview(bytearray(size)), 0
        while at < size and (came_n := await self.some(view[at:])):
            at += came_n
        return bytes(view[:at])

    def end(self) -> None:
        """Nobody wants more of it."""
        self._client.ended(self._address, self._connection, is_free=self._is_whole and self.head.stays)

    async def _next_chunk(self) -> None:
        try:
            if self._is_in_chunks:
                await self._connection.up_to(b"\r\n")
            self._is_in_chunks = True
            self._left = read_chunk(await self._connection.up_to(b"\r\n"))
            if not self._left:
                while await self._connection.up_to(b"\r\n"):
                    pass  # trailers
                self._is_whole = True
        except BadHead as error:
            raise self._connection.broke_off(str(error)) from None


class _Connection(asyncio.BufferedProtocol):
    """One request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answered: "Callable[[_Connection], None]") -> None:
        self._answered: Final = answered  # is to be called when an answer begins
        self._is_asking = False  # it has not begun
        self.is_lost = False
        self.has_heard = False  # since the last request
        self.deadline_at = loop.time() + SILENT_S  # monotonic: when it is ended, as nothing comes
        self._loop: Final = loop
        self.url = ""  # that is asked for
        self._transport: asyncio.Transport | None = None  # once it is connected
        self._why = ""  # it was lost; empty: by its regular end
        self._is_silent = False  # that is why
        self._is_hurried = False  # and somebody else has what is asked for
        self._buffer: Final = bytearray(BUFFER_BYTES)  # from `_start` to `_end` that nobody has taken
        self._view: Final = memoryview(self._buffer)
        self._start = self._end = 0
        self._target: memoryview | None = None  # where bytes go instead, while somebody waits for them
        self._filled = 0  # of that
        self._waiting: asyncio.Future[None] | None = None  # for more
        self._is_paused = False
        self._is_resting = False  # nobody has asked for anything

    @property
    def is_clean(self) -> bool:
        """Whether it may be used again."""
        return not self.is_lost and self._start == self._end

    @property
    def is_waited_for(self) -> bool:
        """Until more comes."""
        return self._waiting is not None

    async def ask(self, url: str, request: bytes) -> Head:
        """BrokeOff, NotFetched."""
        assert self._transport is not None  # it is connected
        self.url, self._is_resting, self._is_asking, self.has_heard = url, False, True, False
        self._transport.write(request)
        try:
            while True:
                head = read_head(await self.up_to(HEAD_END))
                if head.status >= 200:
                    return head
        except BadHead as error:
            raise NotFetched(f"{url}: {error}") from None

    async def up_to(self, mark: bytes) -> bytes:
        """What comes before it. BadHead: that is too long. BrokeOff, NotFetched."""
        while (end := self._buffer.find(mark, self._start, self._end)) < 0:
            if self._start:
                self._buffer[: self._end - self._start] = self._buffer[self._start : self._end]
                self._start, self._end = 0, self._end - self._start
            if self._end == BUFFER_BYTES:
                raise BadHead(f"more than {BUFFER_BYTES} bytes without an end")
            if self.is_lost:
                raise self.broke_off()
            await self._more()
        taken = bytes(self._view[self._start : end])
        self._start = end + len(mark)
        return taken

    async def some(self, view: memoryview) -> int:
        """At least one byte, or 0 at its end. BrokeOff, NotFetched: it is no regular one."""
        came_n = min(len(view), self._end - self._start)
        if came_n:
            view[:came_n] = self._view[self._start : self._start + came_n]
            self._start += came_n
            return came_n
        if self.is_lost:
            if self._why:
                raise self.broke_off()
            return 0
        self._target, self._filled = view, 0
        try:
            await self._more()
            return self._filled or await self.some(view)
        finally:
            self._target = None

    def broke_off(self, why: str = "") -> NotFetched:
        """The error of who waits for more."""
        if self._is_silent:
            return NotFetched(f"{self.url}: no answer", is_host=not self._is_hurried)
        return BrokeOff(f"{self.url}: {why or self._why or 'the connection ended'}")

    def rest(self) -> None:
        """Nobody uses it."""
        self._is_resting = True
        self.deadline_at = self._loop.time() + IDLE_S

    def end(self, *, is_silent: bool = False, is_hurried: bool = False) -> None:
        """Now. `is_silent`: because nothing has come. `is_hurried`: and somebody else has it."""
        self._is_silent = is_silent and self._waiting is not None
        self._is_hurried = is_hurried
        if self._transport is not None:
            self._transport.abort()

    async def _more(self) -> None:
        """Returns when there is more, or no more will be."""
        assert self._transport is not None  # it is connected
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        self._waiting = self._loop.create_future()
        self.deadline_at = self._loop.time() + SILENT_S
        try:
            await self._waiting
        finally:
            self._waiting = None
            self.deadline_at = float("inf")  # it is us who is waited for

    def wake(self) -> None:
        """Who waits for more goes on."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # which that of uvloop does not say it is

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._target is not None and self._filled < len(self._target):
            return self._target[self._filled :]
        if self._start == self._end:
            self._start = self._end = 0
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self.has_heard = True
        if self._is_resting:  # nobody has asked for that
            self.end()
        elif self._target is not None and self._filled < len(self._target):
            self._filled += nbytes
        else:
            self._end += nbytes
            if self._end == BUFFER_BYTES:
                assert self._transport is not None  # it has sent this
                self._is_paused = True
                self._transport.pause_reading()
        if self._is_asking:
            self._is_asking = False
            self._answered(self)
        else:
            self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if exc is not None:
            self._why = _line_of(exc)
        self.wake()


def _line_of(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
