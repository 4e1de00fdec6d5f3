"""One RSocket connection in the client's role, on asyncio: from its SETUP to its end.

    program ──► request_*() ──► _streams[id] ──► _send ──► _write task ──► wire
    program ◄── future, Inflow ◄── _streams[id] ◄── _receive ◄── _read task ◄── wire
    handlers (a task each) ◄── Responder ◄─┘                 _keep_alive task: sends, and notices silence

Everything that waits ends: every stream ends with an answer, an error that it can name, or `ConnectionLost` at the
moment when the connection is lost. When a stream has ended is decided in `streams`, the bytes of frames are
`broker.rsocket`'s. Does not know addresses, routes or services, and never reconnects: a connection has one life.
RSocket protocol 1.0, "Stream Sequences and Lifetimes", "Flow Control", "Fragmentation and Reassembly".
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, Protocol

from broker.errors import (
    CONNECTION_CLOSE,
    INVALID,
    INVALID_SETUP,
    REJECTED,
    REJECTED_RESUME,
    REJECTED_SETUP,
    UNSUPPORTED_SETUP,
)
from broker.rsocket import frames
from broker.rsocket.framing import FrameCursor
from broker.rsocket.notices import HAS_MOVED_ENTRY, Notice
from client_sdk.answers import check_size, error_frame, error_parts
from client_sdk.errors import (
    ApplicationError,
    ClientError,
    ConnectionLost,
    NotConnected,
    Refused,
    SetupRejected,
    error_of,
    split_word,
)
from client_sdk.flows import DEFAULT_WINDOW_N, Inflow
from client_sdk.payload import Payload, as_parts
from client_sdk.streams import Exchange, Fragments, Question, Stream
from client_sdk.transports import Wire

MAX_QUEUED_BYTES: Final = 1024 * 1024  # waiting to be written; beyond, requests and handlers' items wait
MAX_UNSENT_BYTES: Final = 64 * 1024 * 1024  # waiting, with what cannot wait; beyond, the connection is ended
MAX_GATHERED_BYTES: Final = 64 * 1024 * 1024  # of unfinished fragments; beyond, the connection is ended
MAX_HANDLERS: Final = 10_000  # requests that handlers work on; beyond, they are refused with over-limit
WRITE_GRACE_S: Final = 0.5  # after a failed write, for the reader to find the ERROR that tells why
HANDLER_GRACE_S: Final = 1.0  # for handlers that were cancelled, before they are left behind
RETIRED_GRACE_S: Final = 30.0  # for handlers without a caller who waits, when a retired connection ends

_SETUP_CODES: Final = (INVALID_SETUP, UNSUPPORTED_SETUP, REJECTED_SETUP, REJECTED_RESUME)
_log: Final = logging.getLogger("client_sdk")


class Responder(Protocol):
    """What answers the requests of the other side. Metadata is as it came, None when absent.

    Each raises ApplicationError or Refused for what the caller shall read; anything else is logged, and the caller
    learns only that the handler failed.
    """

    async def request_response(self, metadata: bytes | None, data: bytes) -> Payload: ...

    async def fire_and_forget(self, metadata: bytes | None, data: bytes) -> None: ...

    async def metadata_push(self, metadata: bytes) -> None: ...

    def request_stream(self, metadata: bytes | None, data: bytes) -> AsyncIterator[object]: ...

    def request_channel(
        self, metadata: bytes | None, data: bytes, payloads: AsyncIterator[Payload]
    ) -> AsyncIterator[object]: ...


class Connection:
    """One open connection. `open` it; it ends with `close`, or by itself, and then `reason` says why.

    All request methods raise NotConnected at once when the connection has ended, ConnectionLost when it ends in the
    middle.
    """

    def __init__(
        self,
        wire: Wire,
        setup: frames.Setup,
        responder: Responder | None,
        hear: Callable[["Connection", bytes], bool] | None = None,
    ) -> None:
        """Inside a running event loop. Use `open`."""
        self._loop: Final = asyncio.get_running_loop()
        self._wire: Final = wire
        self._responder: Final = responder
        self._hear: Final = hear
        self._keepalive_s: Final = setup.keepalive_ms / 1000
        self._lifetime_s: Final = setup.lifetime_ms / 1000
        self._streams: Final[dict[int, Stream]] = {}
        self._gathered: Final[dict[int, Fragments]] = {}  # bounded by MAX_GATHERED_BYTES in all
        self._gathered_bytes = 0
        self._handlers: Final[set[asyncio.Task[None]]] = set()  # bounded by MAX_HANDLERS, and one pump per channel
        self._next_id = 1  # "Stream IDs on the client MUST start at 1 and increment by 2"
        # The KEEPALIVE asks for an answer, which proves that the SETUP was accepted: RSocket has no other sign.
        self._queue: list[bytes] = [setup.encode(), frames.encode_keepalive(b"", respond=True)]
        self._queued_bytes = 0
        self._wake: Final = asyncio.Event()
        self._wake.set()
        self._room: Final = asyncio.Event()  # clear while MAX_QUEUED_BYTES wait
        self._room.set()
        self._heard_at = self._loop.time()
        self._is_closing = False
        self._closing: Final = asyncio.Event()
        self._unsent_n = 0  # requests of ours that wait for room
        self._opening: Final[set[asyncio.Task[None]]] = set()  # channels of ours that wait for their first item
        self._has_said_moved = False
        self._is_lost = False  # nothing is read or written any more; `reason` may be known earlier
        self._accepted: Final[asyncio.Future[None]] = self._loop.create_future()
        self._main: asyncio.Task[None] | None = None
        self.reason: ClientError | None = None  # None while requests can be made; then why not
        self.ended: Final = asyncio.Event()  # all tasks are done and the wire is closed
        self.is_retired = False  # there is another connection for what is new
        self.has_rival = False  # one more was tried with the same SETUP, and may have replaced this one
        self.notice: Notice | None = None  # what the broker has told last; whoever hears sets both
        self.news: Final = asyncio.Event()  # there is a notice, or a reason

    @classmethod
    async def open(
        cls,
        wire: Wire,
        setup: frames.Setup,
        responder: Responder | None,
        hear: Callable[["Connection", bytes], bool] | None = None,
    ) -> "Connection":
        """A connection whose SETUP the other side has accepted.

        `hear` is asked for each METADATA_PUSH whether the broker itself says it; else it is the responder's. Raises
        SetupRejected or ConnectionLost; takes as long as the other side is silent, up to the lifetime that the SETUP
        says.
        """
        connection = cls(wire, setup, responder, hear)
        connection._main = asyncio.create_task(connection._run(), name="rsocket connection")
        try:
            await connection._accepted
        except BaseException:
            await connection.close()
            raise
        return connection

    async def close(self) -> None:
        """Writes what waits to be written, then ends. Pending requests fail with ConnectionLost."""
        self._is_closing = True
        self._closing.set()
        self._wake.set()
        if self._main is not None:
            done, _ = await asyncio.wait([self._main], timeout=HANDLER_GRACE_S)
            if not done:
                self._main.cancel()
                await asyncio.wait([self._main])

    @property
    def is_told_to_move(self) -> bool:
        """The broker is about to leave, and wants its clients to go before."""
        return self.notice is not None and self.notice.is_draining

    def retire(self) -> None:
        """Nothing new goes this way: the broker is told, and ends the connection when nothing runs on it any more."""
        self.is_retired = True
        self._say_moved()

    def leave(self) -> None:
        """Takes the route away; what runs on the connection may end, and the broker closes it when nothing does."""
        self.send(frames.encode_error(0, CONNECTION_CLOSE, "draining: this client is about to stop"))

    # requests of ours

    async def request_response(self, data: bytes, metadata: bytes | None) -> Payload:
        """The answer. A cancelled wait sends CANCEL."""
        check_size(data, metadata)
        await self._wait_for_room()
        stream_id = self._allocate()
        future: asyncio.Future[Payload] = self._loop.create_future()
        self._streams[stream_id] = Question(future, lambda: self.forget(stream_id))
        self.send(frames.encode_request(frames.REQUEST_RESPONSE, stream_id, data, metadata))
        try:
            return await future
        finally:
            if stream_id in self._streams:
                self.forget(stream_id)
                self.send(frames.encode_cancel(stream_id))

    async def fire_and_forget(self, data: bytes, metadata: bytes | None) -> None:
        """Returns when the request is about to be written."""
        check_size(data, metadata)
        await self._wait_for_room()
        self.send(frames.encode_request(frames.REQUEST_FNF, self._allocate(), data, metadata))

    async def metadata_push(self, metadata: bytes) -> None:
        """Returns when the frame is about to be written."""
        check_size(b"", metadata)
        await self._wait_for_room()
        self.send(frames.encode_metadata_push(metadata))

    async def request_stream(self, data: bytes, metadata: bytes | None, initial_n: int, inflow: Inflow) -> None:
        """Asks for a stream whose items go to `inflow`, which was made for `initial_n`."""
        check_size(data, metadata)
        await self._wait_for_room()
        stream_id = self._allocate()
        self._streams[stream_id] = Exchange(self, stream_id, True, inflow, has_out=False)
        self.send(frames.encode_request(frames.REQUEST_STREAM, stream_id, data, metadata, initial_n))

    async def request_channel(
        self, items: AsyncIterator[object], metadata: bytes, initial_n: int, inflow: Inflow
    ) -> None:
        """Opens a channel with the first of `items`; without any, nothing is sent and `inflow` ends at once.

        The metadata of the first item is added to `metadata`. `items` is closed at the end, whatever the end is.
        """
        await self._wait_for_room()
        task = self._start(self._open_channel(items, metadata, initial_n, inflow))
        self._opening.add(task)
        task.add_done_callback(self._opened)
        inflow.attach(_no_credit_yet, _Cancel(task))  # until the first item is there

    # for the streams

    def send(self, frame: bytes) -> None:
        """One frame; dropped when the connection is lost."""
        if self._is_lost:
            return
        self._queue.append(frame)
        self._queued_bytes += len(frame)
        if self._queued_bytes > MAX_QUEUED_BYTES:
            self._room.clear()
        self._wake.set()

    def forget(self, stream_id: int) -> None:
        """The stream has ended; what still arrives for it is ignored."""
        self._streams.pop(stream_id, None)
        self._drop_fragments(stream_id)

    # tasks

    async def _run(self) -> None:
        """Runs the three tasks; the first that ends says why the connection ended."""
        read = asyncio.create_task(self._read())
        write = asyncio.create_task(self._write())
        tasks = [read, write, asyncio.create_task(self._keep_alive())]
        reason: ClientError = ConnectionLost("the connection was given up")
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if write.done() and not self._is_closing:
                await asyncio.wait([read], timeout=WRITE_GRACE_S)
            reason = next(_result_of(task) for task in tasks if task.done())
        finally:
            self._lose(reason)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            with contextlib.suppress(OSError):
                await self._wire.close()
            if self.is_retired:
                await self._let_handlers_end()
            await self._end_handlers()
            self.ended.set()

    async def _read(self) -> ClientError:
        cursor = FrameCursor(self._wire.is_framed)
        try:
            while data := await self._wire.receive():
                self._heard_at = self._loop.time()
                cursor.feed(data, self._heard_at)
                while cursor.advance():
                    reason = self._receive(cursor)
                    if reason is not None:
                        return reason
                if self._queued_bytes > MAX_UNSENT_BYTES:
                    text = f"{self._queued_bytes} bytes wait for the other side, which does not read"
                    return ConnectionLost(text, word="slow-peer")
                if cursor.fault:
                    return ConnectionLost(f"the other side sent {cursor.fault}", word="bad-frame")
        except OSError as error:
            return ConnectionLost(f"the connection broke: {error}")
        return self.reason or ConnectionLost("the other side closed the connection")

    async def _write(self) -> ClientError:
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._queue = self._queue, []
            self._queued_bytes = 0
            try:
                if batch:
                    await self._wire.send(batch)
            except OSError as error:
                return ConnectionLost(f"the connection broke: {error}")
            if self._queued_bytes <= MAX_QUEUED_BYTES:
                self._room.set()
            if self._is_closing and not self._queue:
                return ConnectionLost("this client was closed", word="closed")

    async def _keep_alive(self) -> ClientError:
        """Any frame counts as a sign of life, the answer to a KEEPALIVE is only the last resort."""
        send_at = self._loop.time() + self._keepalive_s
        while True:
            now = self._loop.time()
            if now >= self._heard_at + self._lifetime_s:
                text = f"nothing was heard for {self._lifetime_s:g} s"
                return ConnectionLost(text, word="keepalive-timeout")
            if now >= send_at:
                send_at = now + self._keepalive_s
                self._queue.insert(0, frames.encode_keepalive(b"", respond=True))  # stream 0 goes first
                self._wake.set()
            await asyncio.sleep(min(send_at, self._heard_at + self._lifetime_s) - now)

    def _lose(self, reason: ClientError) -> None:
        """No more requests, and those that wait end now."""
        self._is_lost = True
        if self.reason is None:
            self.reason = reason
        self.news.set()
        for stream in list(self._streams.values()):
            stream.lost(self._loss())
        self._streams.clear()
        self._gathered.clear()
        self._room.set()
        if not self._accepted.done():
            self._accepted.set_exception(reason)
            self._accepted.exception()  # whoever opened may have gone

    async def _let_handlers_end(self) -> None:
        """The broker ends a retired connection when no stream is open: a fire-and-forget has none."""
        closing = asyncio.create_task(self._closing.wait())
        end_at = self._loop.time() + RETIRED_GRACE_S
        while self._handlers and not closing.done() and self._loop.time() < end_at:
            waited = [closing, *self._handlers]
            await asyncio.wait(waited, timeout=end_at - self._loop.time(), return_when=asyncio.FIRST_COMPLETED)
        closing.cancel()

    async def _end_handlers(self) -> None:
        for task in self._handlers:
            task.cancel()
        if self._handlers:
            _, left = await asyncio.wait(list(self._handlers), timeout=HANDLER_GRACE_S)
            if left:
                _log.warning("%d handlers did not end within %g s of being cancelled", len(left), HANDLER_GRACE_S)

    # what arrives

    def _receive(self, frame: FrameCursor) -> ClientError | None:
        """One frame; why the connection ends, if it does."""
        kind = frame.kind
        stream_id = frame.stream_id
        if stream_id == 0:
            return self._receive_zero(frame)
        if frames.REQUEST_RESPONSE <= kind <= frames.REQUEST_CHANNEL or kind == frames.PAYLOAD:
            return self._receive_content(frame)
        stream = self._streams.get(stream_id)
        if kind == frames.CANCEL or kind == frames.ERROR:
            self._drop_fragments(stream_id)
        # "Late frames": what belongs to no stream is ignored.
        if stream is None:
            return None
        size_bytes = frame.end - frame.start
        if kind == frames.ERROR:
            if size_bytes < frames.HEADER_BYTES + 4:
                stream.receive_error(_broken_frame(frame))  # no answer: an ERROR has ended its stream in any case
            else:
                stream.receive_error(error_of(*error_parts(frame)))
        elif kind == frames.CANCEL:
            stream.receive_cancel()
        elif kind == frames.REQUEST_N:
            if size_bytes < frames.HEADER_BYTES + 4:
                self._receive_broken(frame)
            else:
                stream.receive_request_n(frames.initial_n(frame.data, frame.start))
        return None

    def _receive_zero(self, frame: FrameCursor) -> ClientError | None:
        """A frame of the connection itself; those that a server may not send, and EXT, are ignored."""
        data, start, end = frame.data, frame.start, frame.end
        if frame.kind == frames.KEEPALIVE:
            if frame.flags & frames.RESPOND:
                self.send(frames.encode_keepalive(data[start + frames.HEADER_BYTES + 8 : end]))
            elif not self._accepted.done():
                self._accepted.set_result(None)
        elif frame.kind == frames.METADATA_PUSH:
            # To the end, whether M is set or not: rsocket-js 0.0.27 forgets it.
            metadata = data[start + frames.HEADER_BYTES : end]
            if self._hear is not None and self._hear(self, metadata):
                return None
            responder = self._responder
            if responder is not None and metadata and len(self._handlers) < MAX_HANDLERS:
                self._start(self._handle_unanswered(responder.metadata_push(metadata), "metadata_push"))
        elif frame.kind == frames.ERROR and end - start >= frames.HEADER_BYTES + 4:
            return self._receive_end(*error_parts(frame))
        return None

    def _receive_end(self, code: int, message: str) -> ClientError | None:
        word, text = split_word(message)
        if code in _SETUP_CODES:
            return SetupRejected(text, word=word, code=code)
        reason = ConnectionLost(text or "the other side ended the connection", word=word, code=code)
        if code == CONNECTION_CLOSE and self._streams and self._accepted.done():
            # "MUST wait for outstanding streams to terminate": no new ones; the other side closes when it likes.
            self.reason = reason
            self.news.set()
            return None
        return reason

    def _receive_content(self, frame: FrameCursor) -> ClientError | None:
        """A request or a PAYLOAD, perhaps one fragment of it."""
        kind, flags, stream_id = frame.kind, frame.flags, frame.stream_id
        parts = self._gathered.get(stream_id)
        if kind != frames.PAYLOAD and (stream_id % 2 or stream_id in self._streams or parts is not None):
            return None  # a server opens even ids, each once; "MUST be ignored"
        at, to = frames.request_parts(frame.data, frame.start, frame.end, kind, flags)
        if at < 0:
            self._receive_broken(frame)
            return None
        metadata = frame.data[at:to] if flags & frames.METADATA else None
        data = frame.data[to : frame.end]
        has_n = kind == frames.REQUEST_STREAM or kind == frames.REQUEST_CHANNEL
        n = frames.initial_n(frame.data, frame.start) if has_n else 0
        # "F is ignored when C is set" in a PAYLOAD.
        follows = flags & frames.FOLLOWS and not (kind == frames.PAYLOAD and flags & frames.COMPLETE)
        if follows and parts is None:
            if kind == frames.PAYLOAD and stream_id not in self._streams:
                return None
            parts = self._gathered[stream_id] = Fragments(kind, flags, n)
        if parts is not None:
            self._gathered_bytes += parts.add(metadata, data)
            if self._gathered_bytes > MAX_GATHERED_BYTES:
                return ConnectionLost(f"over {MAX_GATHERED_BYTES} bytes of fragments are unfinished", word="too-large")
            if follows:
                return None
            self._drop_fragments(stream_id)
            # What the last fragment says of the end counts; what the first says of the request, too.
            kind, flags, n = parts.kind, parts.flags | flags, parts.n
            metadata = b"".join(parts.metadata) if parts.metadata else None
            data = b"".join(parts.data)
        self._deliver(kind, stream_id, flags, n, metadata, data)
        return None

    def _receive_broken(self, frame: FrameCursor) -> None:
        """A frame of a request that contradicts itself: that request ends, on both sides, and nothing else."""
        kind, stream_id = frame.kind, frame.stream_id
        error = _broken_frame(frame)
        stream = self._streams.get(stream_id)
        parts = self._gathered.get(stream_id)
        self._drop_fragments(stream_id)
        if stream is not None:
            is_ours = stream_id % 2 == 1
            refusal = Refused(error.word, error.text, INVALID)
            self.send(frames.encode_cancel(stream_id) if is_ours else error_frame(stream_id, refusal, ""))
            stream.receive_error(error)
        elif parts is not None:
            self._refuse(parts.kind, stream_id, Refused(error.word, error.text, INVALID))
        elif kind != frames.PAYLOAD:
            self._refuse(kind, stream_id, Refused("bad-request", error.text, INVALID))

    def _deliver(self, kind: int, stream_id: int, flags: int, n: int, metadata: bytes | None, data: bytes) -> None:
        """A whole request or PAYLOAD."""
        if kind == frames.PAYLOAD:
            stream = self._streams.get(stream_id)
            if stream is not None:
                stream.receive_payload(flags, metadata, data)
            return
        responder = self._responder
        if responder is None:
            self._refuse(kind, stream_id, Refused("no-handler", "this client serves nothing", INVALID))
        elif len(self._handlers) >= MAX_HANDLERS:
            text = f"{MAX_HANDLERS} requests are being worked on"
            self._refuse(kind, stream_id, Refused("over-limit", text, REJECTED))
        elif kind == frames.REQUEST_FNF:
            self._start(self._handle_unanswered(responder.fire_and_forget(metadata, data), "fire_and_forget"))
        elif kind == frames.REQUEST_RESPONSE:
            exchange = self._streams[stream_id] = Exchange(self, stream_id, False, None, has_out=True)
            exchange.task = self._start(self._answer(exchange, stream_id, responder, metadata, data))
        elif kind == frames.REQUEST_STREAM:
            exchange = self._streams[stream_id] = Exchange(self, stream_id, False, None, has_out=True)
            exchange.gate.add(n)
            exchange.task = self._start(
                self._pump(exchange, stream_id, lambda: responder.request_stream(metadata, data), "request_stream")
            )
        else:
            inflow = Inflow(DEFAULT_WINDOW_N, 0)
            inflow.preload(Payload(data, metadata))
            exchange = Exchange(self, stream_id, False, inflow, has_out=True)
            self._streams[stream_id] = exchange
            exchange.gate.add(n)
            if flags & frames.COMPLETE:
                exchange.receive_payload(frames.COMPLETE, None, b"")
            exchange.task = self._start(
                self._pump(
                    exchange, stream_id, lambda: responder.request_channel(metadata, data, inflow), "request_channel"
                )
            )

    # what handlers and channels do

    async def _handle_unanswered(self, work: Coroutine[Any, Any, None], what: str) -> None:
        try:
            await work
        except (ApplicationError, Refused) as error:
            _log.warning("%s: %s", what, error)
        except Exception:
            _log.exception("%s: the handler failed", what)

    async def _answer(
        self, exchange: Exchange, stream_id: int, responder: Responder, metadata: bytes | None, data: bytes
    ) -> None:
        try:
            answer = await responder.request_response(metadata, data)
            answer_data, answer_metadata = as_parts(answer, "the answer")
            check_size(answer_data, answer_metadata)
            await self._wait_until_writable()
            flags = frames.NEXT | frames.COMPLETE
            last = frames.encode_payload(stream_id, flags, answer_data, answer_metadata)
        except (Exception, asyncio.CancelledError) as error:
            if _is_cancelled(error):
                raise
            last = error_frame(stream_id, error, "request_response")
        if not exchange.is_ended:
            self.send(last)
            exchange.out_ended(None)

    async def _pump(
        self, exchange: Exchange, stream_id: int, make_items: Callable[[], AsyncIterator[object]], what: str
    ) -> None:
        """Sends items as the credit allows; one item is fetched ahead, because only then the end can be seen.

        `what` names the handler in the log; empty for a channel of ours, whose reader gets the failure itself.
        """
        items: AsyncIterator[object] | None = None
        try:
            items = make_items()
            async for item in items:
                await self._send_item(exchange, stream_id, item)
            last = frames.encode_payload(stream_id, frames.COMPLETE)
            failure: BaseException | None = None
        except (Exception, asyncio.CancelledError) as error:
            if _is_cancelled(error):
                raise
            last = error_frame(stream_id, error, what)
            failure = error
        finally:
            await _close_items(items)
        if not exchange.is_ended:
            self.send(last)
            exchange.out_ended(failure)

    async def _open_channel(
        self, items: AsyncIterator[object], metadata: bytes, initial_n: int, inflow: Inflow
    ) -> None:
        try:
            first = await anext(items)
            data, more = as_parts(first, "the first item of a channel")
            metadata += more or b""
            check_size(data, metadata)
            await self._wait_for_room()
        except StopAsyncIteration:
            inflow.ended(None)
            return
        except (Exception, asyncio.CancelledError) as error:
            is_cancelled = _is_cancelled(error)
            inflow.ended(error if not is_cancelled else None if self.reason is None else self._loss())
            await _close_items(items)
            if is_cancelled:
                raise
            return
        if inflow.is_ended:
            await _close_items(items)
            return
        task = asyncio.current_task()
        assert task is not None  # `request_channel` has made it
        stream_id = self._allocate()
        exchange = Exchange(self, stream_id, True, inflow, has_out=True)
        exchange.task = task
        self._streams[stream_id] = exchange
        self.send(frames.encode_request(frames.REQUEST_CHANNEL, stream_id, data, metadata, initial_n))
        self._opened(task)
        await self._pump(exchange, stream_id, lambda: items, "")

    async def _send_item(self, exchange: Exchange, stream_id: int, item: object) -> None:
        data, metadata = as_parts(item, "an item")
        check_size(data, metadata)
        await exchange.gate.take()
        await self._wait_until_writable()
        self.send(frames.encode_payload(stream_id, frames.NEXT, data, metadata))

    # helpers

    def _refuse(self, kind: int, stream_id: int, error: Refused) -> None:
        if kind == frames.REQUEST_FNF:
            _log.warning("fire_and_forget: dropped, %s", error)
        else:
            self.send(error_frame(stream_id, error, ""))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        return task

    def _allocate(self) -> int:
        """An odd id that is not in use; wraps as "Stream Identifiers" says."""
        while True:
            stream_id = self._next_id
            self._next_id = stream_id + 2 if stream_id < frames.MAX_STREAM_ID else 1
            if stream_id not in self._streams:
                return stream_id

    async def _wait_for_room(self) -> None:
        while self.reason is None and not self._room.is_set():
            self._unsent_n += 1
            try:
                await self._room.wait()
            finally:
                self._unsent_n -= 1
                self._loop.call_soon(self._say_moved)  # behind the request, which is sent without another wait
        if self.reason is not None:
            raise NotConnected(self.reason.text, word=self.reason.word, code=self.reason.code)

    def _opened(self, task: asyncio.Task[None]) -> None:
        """A channel of ours has been asked for, or never will be."""
        self._opening.discard(task)
        self._say_moved()

    def _say_moved(self) -> None:
        """What was begun here goes first: the broker takes the word for the last request."""
        if self.is_retired and not self._has_said_moved and not self._unsent_n and not self._opening:
            self._has_said_moved = True
            self.send(frames.encode_metadata_push(HAS_MOVED_ENTRY))

    async def _wait_until_writable(self) -> None:
        while not self._room.is_set():
            await self._room.wait()

    def _loss(self) -> ConnectionLost:
        """Why requests end; a new one for each, because each gets a traceback of its own."""
        assert self.reason is not None  # the callers have looked, or have just set it
        return ConnectionLost(self.reason.text, word=self.reason.word, code=self.reason.code)

    def _drop_fragments(self, stream_id: int) -> None:
        parts = self._gathered.pop(stream_id, None)
        if parts is not None:
            self._gathered_bytes -= parts.size_bytes


def _result_of(task: asyncio.Task[ClientError]) -> ClientError:
    """Why the task ended; a mistake of ours is logged and ends the connection like any other loss."""
    error = task.exception()
    if error is None:
        return task.result()
    _log.error("the connection is given up, this is a mistake in the SDK", exc_info=error)
    return ConnectionLost(f"internal error: {type(error).__name__}", word="internal")


def _broken_frame(frame: FrameCursor) -> ClientError:
    name, size_bytes = frames.KIND_NAMES[frame.kind], frame.end - frame.start
    text = f"stream {frame.stream_id}: the other side sent a {name} of {size_bytes} bytes, too few for what it says"
    return ClientError(text, word="bad-frame")


class _Cancel:
    """Cancels a task, and answers nothing."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task: Final = task

    def __call__(self) -> None:
        self._task.cancel()


def _no_credit_yet(n: int) -> None:
    """The REQUEST_CHANNEL will carry the credit."""


def _is_cancelled(error: BaseException) -> bool:
    """Somebody cancelled this task; a handler that raises CancelledError by itself has failed like any other."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


async def _close_items(items: AsyncIterator[object] | None) -> None:
    aclose = getattr(items, "aclose", None)
    if aclose is not None:
        try:
            await aclose()
        except Exception:
            _log.exception("the items of a stream could not be closed")
