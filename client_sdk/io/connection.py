"""One RSocket connection in the client's role, on asyncio: the hands of `machine.Machine`.

    program ──► request_*() ──► Machine ──► once per turn of the loop ──► Transport ──► wire
    program ◄── future, Inflow ◄── updated streams ◄── Machine.receive ◄── Transport ◄── wire
    handlers (a task each) ◄── Responder ◄─┘                    one timer: keepalive, silence, deadlines, leases

Everything that waits ends: every stream ends with an answer, an error that it can name, or `ConnectionLost` at the
moment when the connection is lost. What a frame does is decided in `client_sdk.protocol`; here are futures, tasks and
the timer. Does not know addresses, routes or services, and never reconnects: a connection has one life.
"""

import asyncio
import logging
import uuid
from asyncio import get_running_loop  # asked for each request
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Final

from client_sdk import errors
from client_sdk.io.dial import AnyPipe
from client_sdk.io.dispatch import HANDLER_GRACE_S, Dispatcher, Responder
from client_sdk.io.failures import CHECKED_BYTES, check_size, foreign_loop, places_of
from client_sdk.io.stream_pump import StreamPump, close_items, expire_opening, is_cancelled
from client_sdk.io.transport import PipeTransport, SocketTransport, Transport
from client_sdk.payload import Payload, Received, as_parts
from client_sdk.protocol.machine import Machine
from client_sdk.protocol.settings import Settings
from client_sdk.protocol.stream import BROKEN, LATE, LOST, REFUSED, Failure, Stream
from client_sdk.streams import Inflow
from rsocket_wire.errors import REJECTED
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.notices import HAS_MOVED_ENTRY, Notice

TURN_BYTES: Final = 256 * 1024  # of payloads in pieces that are written in one turn of the loop

_log: Final = logging.getLogger("client_sdk")


class _Late(Exception):
    """The deadline of a request/response is over; its caller knows how long it was."""


class Connection:
    """One open connection. `open` it; it ends with `close`, or by itself, and then `reason` says why.

    All request methods raise NotConnected at once when the connection has ended, ConnectionLost when it ends in the
    middle, DeadlineExceeded when their `timeout_s` is over, and RuntimeError in another event loop.
    """

    def __init__(
        self,
        wire: AnyPipe,
        setup: frames.Setup,
        responder: Responder | None,
        hear: Callable[["Connection", bytes], bool] | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Inside a running event loop.

        `hear` is asked for each METADATA_PUSH whether the broker itself says it; else it is the responder's.
        """
        self._loop: Final = asyncio.get_running_loop()
        self._create_future: Final = self._loop.create_future
        self._transport: Transport = wire if isinstance(wire, SocketTransport) else PipeTransport(wire)
        self._hear: Final = hear
        settings = settings or Settings()
        setup = _with_settings(setup, settings)
        self.machine: Final = Machine(
            setup, self._transport.is_framed, settings, responder is not None, self._loop.time()
        )
        self._is_leased: Final = setup.wants_lease
        self._dispatcher: Final = Dispatcher(self, responder)
        self._pumps: Final[set[asyncio.Task[None]]] = set()  # one per channel of ours
        self._opening: Final[dict[asyncio.Task[None], Inflow]] = {}  # those of them that wait for their first item
        self._unsent_n = 0  # requests of ours that wait for room
        self._is_paused = False  # the wire takes nothing
        self._is_flush_due = False
        self._room: Final = asyncio.Event()  # clear while somebody waits for room
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._changes = 0
        self._is_closing = False
        self._closing: Final = asyncio.Event()
        self._has_said_moved = False
        self._accepted: Final[asyncio.Future[None]] = self._create_future()
        self._resumed: asyncio.Future[None] | None = None  # set by `resume`
        self._left: Final[set[asyncio.Task[None]]] = set()  # they close links that broke
        self._ending: asyncio.Task[None] | None = None  # set when it is over
        self.reason: errors.ClientError | None = None  # None while requests can be made; then why not
        self.ended: Final = asyncio.Event()  # all tasks are done and the wire is closed
        self.is_retired = False  # there is another connection for what is new
        self.has_rival = False  # one more was tried with the same SETUP, and may have replaced this one
        self.notice: Notice | None = None  # what the broker has told last; whoever hears sets both
        self.changed: Final = asyncio.Event()  # there is a notice, or a reason

    async def open(self) -> "Connection":
        """This connection, when the other side has accepted its SETUP.

        Raises SetupRejected or ConnectionLost; takes as long as the other side is silent, up to the lifetime that the
        SETUP says.
        """
        self._transport.start(self)
        self._settle()
        try:
            await self._accepted
        except BaseException:
            await self.close()
            raise
        return self

    @property
    def is_suspended(self) -> bool:
        """There is no wire, but a session: `resume` goes on with it; until then requests wait."""
        return self.machine.is_suspended

    async def resume(self, wire: AnyPipe) -> None:
        """Goes on over another wire where the last one broke off: no stream ends for it, no item is lost or doubled.

        Raises ConnectionLost: when the wire broke (then it is suspended again, and this may be tried again), or when
        the other side has no such session any more (then `reason` says so).
        """
        transport = wire if isinstance(wire, SocketTransport) else PipeTransport(wire)
        if self.reason is not None:  # it has ended while the wire was made
            await transport.close()
            raise self._loss()
        self._transport = transport
        self._is_paused = False
        self._resumed = self._create_future()
        self.machine.resume(transport.is_framed, self._loop.time())
        transport.start(self)
        self._settle()
        try:
            await self._resumed
        except BaseException:
            if self.machine.is_resuming:
                self.machine.lost_wire(Failure(LOST, "connection-lost: given up"), self._loop.time())
                self._settle()
            await transport.close()
            raise

    def give_up(self, text: str) -> None:
        """Nobody will resume it: it ends, and all that waits in it."""
        self.machine.end(Failure(LOST, f"connection-lost: {text}"), 0)
        self._settle()

    async def close(self) -> None:
        """Writes what waits to be written, then ends. Pending requests fail with ConnectionLost."""
        self._is_closing = True
        self._closing.set()
        self._flush()
        self.machine.end(Failure(LOST, "closed: this client was closed"), 0)
        self._settle()
        ending = self._ending
        assert ending is not None  # `_settle` has seen that it is over
        done, _ = await asyncio.wait([ending], timeout=2 * HANDLER_GRACE_S)
        if not done:
            ending.cancel()
            await asyncio.wait([ending])

    @property
    def is_told_to_move(self) -> bool:
        """The broker is about to leave, and wants its clients to go before."""
        return self.notice is not None and self.notice.is_draining

    def retire(self) -> None:
        """Nothing new goes this way: the broker is told, and ends the connection when nothing runs on it any more."""
        self.is_retired = True
        if self.machine.is_suspended or self.machine.is_resuming:
            self.give_up("its session broke off while the client moved")  # nobody goes back there
        self._say_moved()

    def leave(self) -> None:
        """Takes the route away; what runs on the connection may end, and the broker closes it when nothing does."""
        self.machine.leave("draining: this client is about to stop")
        self.flush_soon()

    # requests of ours

    async def request_response(self, data: bytes, metadata: bytes | None, timeout_s: float | None = None) -> Payload:
        """The answer. A cancelled wait sends CANCEL."""
        if get_running_loop() is not self._loop:
            raise foreign_loop()
        deadline = 0.0 if timeout_s is None else self._loop.time() + timeout_s
        try:
            if self.reason is not None or self._is_leased or self._is_paused or self.machine.is_full:
                await self._wait_for_turn(deadline)
            if len(data) > CHECKED_BYTES or (metadata is not None and len(metadata) > CHECKED_BYTES):
                check_size(data, metadata)
            future = self._create_future()
            stream = self.machine.request_response(future, data, metadata, deadline)
            if not self._is_flush_due:
                self.flush_soon()
            if deadline and deadline < self._timer_at:
                self._set_timer(deadline)
            try:
                answer: Payload = await future
                return answer
            except asyncio.CancelledError:
                self.machine.streams.cancel(stream)
                self.flush_soon()
                raise
        except _Late:
            raise errors.DeadlineExceeded(f"request_response timed out after {timeout_s:g} s") from None

    async def fire_and_forget(self, data: bytes, metadata: bytes | None, timeout_s: float | None = None) -> None:
        """Returns when the request is about to be written."""
        if get_running_loop() is not self._loop:
            raise foreign_loop()
        if self.reason is not None or self._is_leased or self._is_paused or self.machine.is_full:
            await self._wait_for_turn_of("fire_and_forget", timeout_s)
        if len(data) > CHECKED_BYTES or (metadata is not None and len(metadata) > CHECKED_BYTES):
            check_size(data, metadata)
        self.machine.fire_and_forget(data, metadata)
        if not self._is_flush_due:
            self.flush_soon()

    async def metadata_push(self, metadata: bytes, timeout_s: float | None = None) -> None:
        """Returns when the frame is about to be written. No fragments: BadRequest for what no frame holds."""
        if get_running_loop() is not self._loop:
            raise foreign_loop()
        check_size(b"", metadata, is_whole=True)
        if self.reason is not None or self._is_paused or self.machine.is_full:
            await self._wait_for_turn_of("metadata_push", timeout_s, needs_lease=False)
        self.machine.metadata_push(metadata)
        self.flush_soon()

    async def request_stream(
        self, data: bytes, metadata: bytes | None, initial_n: int, inflow: Inflow, is_channel: bool = False
    ) -> None:
        """Asks for a stream whose items go to `inflow`, which was made for `initial_n`; its deadline is kept here.

        `is_channel`: as a channel on which nothing more will be sent.
        """
        if get_running_loop() is not self._loop:
            raise foreign_loop()
        check_size(data, metadata)
        if self.reason is not None or self._is_leased or self._is_paused or self.machine.is_full:
            await self._wait_for_turn(0.0)
        pump = StreamPump(self, inflow)
        deadline = inflow.deadline_at
        kind = frames.REQUEST_CHANNEL if is_channel else frames.REQUEST_STREAM
        pump.begin(self.machine.request_items(kind, pump, data, metadata, initial_n, deadline, is_channel))
        self.flush_soon()
        if deadline and deadline < self._timer_at:
            self._set_timer(deadline)

    async def request_channel(
        self, items: AsyncIterator[object], metadata: bytes, initial_n: int, inflow: Inflow
    ) -> None:
        """Opens a channel with the first of `items`; without any, nothing is sent and `inflow` ends at once.

        The metadata of the first item is added to `metadata`. `items` is closed at the end, whatever the end is.
        """
        if get_running_loop() is not self._loop:
            raise foreign_loop()
        if self.reason is not None or self._is_paused or self.machine.is_full:
            await self._wait_for_turn(0.0, needs_lease=False)
        task = self._loop.create_task(self._open_channel(items, metadata, initial_n, inflow))
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)
        self._opening[task] = inflow
        task.add_done_callback(self._opened)
        # Until the first item is there; the REQUEST_CHANNEL will carry the credit.
        inflow.attach(lambda n: None, task.cancel)

    # for stream pumps

    @property
    def is_full(self) -> bool:
        """Whoever can wait shall wait, see `wait_until_writable`."""
        return self._is_paused or self.machine.is_full

    def flush_soon(self) -> None:
        """There is something to write: once, in the next turn of the loop."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def error_of(self, failure: Failure) -> errors.ClientError:
        """A new one for each stream, because each gets a traceback of its own."""
        if failure.kind == LOST or failure.kind == REFUSED:
            word, text = errors.split_word(failure.message)
            return errors.ConnectionLost(text, word=word, code=failure.code)
        if failure.kind == BROKEN:
            word, text = errors.split_word(failure.message)
            return errors.ClientError(text, word=word)
        return errors.error_of(failure.code, failure.message)

    # what the transport says

    def receive(self, data: bytes) -> None:
        """Bytes of the other side."""
        try:
            self.machine.receive(data, self._loop.time())
            self._settle()
        except Exception as error:
            self._fail(error)

    def lost(self, error: OSError | None) -> None:
        """The wire has ended."""
        text = (
            "the other side closed the connection"
            if error is None
            else f"the connection broke: {error.strerror or error}"
        )
        failure = self.machine.failure or Failure(LOST, f"connection-lost: {text}")
        if self.is_retired:
            self.machine.end(failure, 0)  # nobody goes back there
        self.machine.lost_wire(failure, self._loop.time())
        self._settle()

    def pause(self) -> None:
        """The other side takes nothing."""
        self._is_paused = True

    def go_on(self) -> None:
        """It does again."""
        self._is_paused = False
        self._flush()

    # turns of the loop

    def _settle(self) -> None:
        """After the machine was told something: passes on what has changed, writes, sets the timer."""
        machine = self.machine
        while updated := machine.streams.take_updated():
            self._pass_on(updated)
        failure = machine.failure
        if failure is not None and not machine.is_over and not machine.open_streams_n and not machine.handlers_n:
            machine.end(failure, 0)  # the other side said CONNECTION_CLOSE, and nothing runs any more
        if machine.changes != self._changes:
            self._see_changes()
        if machine.unsent_bytes and not self._is_flush_due:
            self.flush_soon()
        if not machine.is_over:
            at = machine.next_deadline()
            if at < self._timer_at:
                self._set_timer(at)

    def _pass_on(self, updated: list[Stream]) -> None:
        for stream in updated:
            holder: Any = stream.holder
            if stream.is_new:
                stream.is_new = False
                if stream.is_stopped:
                    self.machine.handlers_n -= 1  # it came and went in one piece: nobody waits for a handler
                else:
                    self._begin(stream)
            elif stream.kind != frames.REQUEST_RESPONSE:
                if holder is not None:
                    holder.hear(stream)
            elif not stream.is_ours:
                if holder is not None:
                    self._dispatcher.cancel(holder)
            elif not holder.done():
                failure = stream.failure
                if failure is None:
                    holder.set_result(Received(stream.data, stream.metadata))
                else:
                    holder.set_exception(_Late() if failure.kind == LATE else self.error_of(failure))
                stream.let_go()

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._is_paused:
            return
        machine = self.machine
        pieces = machine.take_output(TURN_BYTES, self._loop.time())
        if pieces:
            self._transport.write(pieces)
            if machine.unsent_bytes and not self._is_paused:
                self.flush_soon()
        if not self._room.is_set() and not self._is_paused and not machine.is_full:
            self._room.set()
        if self.is_retired:
            self._say_moved()

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = float("inf")
        try:
            self.machine.tick(self._loop.time())
            self._settle()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """A mistake of ours ends the connection like any other loss, and whoever waits on it."""
        _log.error("the connection is closed because of a bug in the SDK", exc_info=error)
        self.machine.end(Failure(LOST, f"internal: {type(error).__name__}"), 0)
        self._settle()

    def _see_changes(self) -> None:
        machine = self.machine
        self._changes = machine.changes
        if machine.is_accepted and not self._accepted.done():
            self._accepted.set_result(None)
        resumed = self._resumed
        if resumed is not None and not resumed.done() and not machine.is_resuming:
            if machine.is_suspended or machine.is_over:
                broken = machine.failure or Failure(LOST, "connection-lost: the connection broke")
                resumed.set_exception(self.error_of(broken))
            else:
                resumed.set_result(None)
        elif machine.is_suspended and not machine.is_over:
            task = self._loop.create_task(self._transport.close())
            self._left.add(task)
            task.add_done_callback(self._left.discard)
            self.changed.set()
        failure = machine.failure
        if failure is not None and self.reason is None:
            word, text = errors.split_word(failure.message)
            refused = errors.SETUP_WORDS.get(word, errors.SetupRejected)
            kind = refused if failure.kind == REFUSED else errors.ConnectionLost
            self.reason = kind(text or "the other side ended the connection", word=word, code=failure.code)
            self.changed.set()
        if machine.is_over and self._ending is None:
            self._end()

    def _end(self) -> None:
        """No more requests, and those that wait end now."""
        reason = self.reason
        assert reason is not None  # the machine has said it
        self.changed.set()
        self._room.set()
        if self._timer is not None:
            self._timer.cancel()
        if not self._accepted.done():
            self._accepted.set_exception(reason)
            self._accepted.exception()  # whoever opened may have gone
        for task in [*self._pumps]:
            task.cancel()
        self._ending = self._loop.create_task(self._finish(), name="rsocket end")

    async def _finish(self) -> None:
        try:
            while pieces := self.machine.take_output(TURN_BYTES, 0.0):
                self._transport.write(pieces)
            await self._transport.close()
            if self.is_retired:
                await self._dispatcher.let_end(self._closing)
        finally:
            await self._end_handlers()
            self.ended.set()

    async def _end_handlers(self) -> None:
        tasks = [*self._dispatcher.tasks, *self._pumps]
        for task in tasks:
            task.cancel()
        tasks += self._left
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=HANDLER_GRACE_S)
            if left:
                places = places_of(left)
                who = f"{len(left)} handlers" + (f", {places}," if places else "")
                text = "%s did not end within %g s of being cancelled: let CancelledError and GeneratorExit pass"
                _log.warning(text, who, HANDLER_GRACE_S)

    def _begin(self, stream: Stream) -> None:
        """A request of theirs, or what the broker itself says."""
        if stream.kind == frames.METADATA_PUSH and self._hear is not None and self._hear(self, stream.metadata or b""):
            self.machine.handlers_n -= 1
        else:
            self._dispatcher.begin(stream)

    # channels of ours

    async def _open_channel(
        self, items: AsyncIterator[object], metadata: bytes, initial_n: int, inflow: Inflow
    ) -> None:
        late: asyncio.TimerHandle | None = None
        if inflow.deadline_at:
            late = self._loop.call_at(inflow.deadline_at, expire_opening, inflow, asyncio.current_task())
        try:
            first = await anext(items)
            data, more = as_parts(first, "the first item of a channel")
            metadata += more or b""
            check_size(data, metadata)
            await self._wait_for_turn(0.0)
        except StopAsyncIteration:
            inflow.ended(None)
            return
        except (Exception, asyncio.CancelledError) as error:
            was_cancelled = is_cancelled(error)
            inflow.ended(error if not was_cancelled else None if self.reason is None else self._loss())
            await close_items(items)
            if was_cancelled:
                raise
            return
        finally:
            if late is not None:
                late.cancel()
        if inflow.is_ended:
            await close_items(items)
            return
        task = asyncio.current_task()
        assert task is not None  # `request_channel` has made it
        pump = StreamPump(self, inflow)
        pump.task = task
        deadline = inflow.deadline_at
        kind = frames.REQUEST_CHANNEL
        pump.begin(self.machine.request_items(kind, pump, data, metadata, initial_n, deadline))
        if deadline and deadline < self._timer_at:
            self._set_timer(deadline)
        self.flush_soon()
        self._opened(task)
        await pump.run(items, "")

    # helpers

    async def _wait_for_turn_of(self, what: str, timeout_s: float | None, needs_lease: bool = True) -> None:
        try:
            deadline = 0.0 if timeout_s is None else self._loop.time() + timeout_s
            await self._wait_for_turn(deadline, needs_lease)
        except _Late:
            raise errors.DeadlineExceeded(f"{what} timed out after {timeout_s:g} s") from None

    async def _wait_for_turn(self, deadline: float, needs_lease: bool = True) -> None:
        """Until there is room. Raises NotConnected, Rejected without a lease, and _Late after the deadline."""
        while self.reason is None and (self._is_paused or self.machine.is_full):
            self._unsent_n += 1
            self._room.clear()
            try:
                async with asyncio.timeout_at(deadline or None):
                    await self._room.wait()
            except TimeoutError:
                raise _Late from None
            finally:
                self._unsent_n -= 1
                self._loop.call_soon(self._say_moved)  # behind the request, which is sent without another wait
        if self.reason is not None:
            raise errors.NotConnected(self.reason.text, word=self.reason.word, code=self.reason.code)
        if needs_lease and self._is_leased and not self.machine.may_ask(self._loop.time()):
            raise errors.error_of(REJECTED, "no-lease: the other side grants no requests now")

    async def wait_until_writable(self) -> None:
        """For handlers' items and answers: until there is room, or nothing to write to any more."""
        while not self.machine.is_over and (self._is_paused or self.machine.is_full):
            self._room.clear()
            await self._room.wait()

    def _opened(self, task: asyncio.Task[None]) -> None:
        """A channel of ours has been asked for, or never will be."""
        inflow = self._opening.pop(task, None)
        if inflow is not None and task.done():  # perhaps cancelled before it began, and then it has told nobody
            inflow.ended(None if self.reason is None else self._loss())
        self._say_moved()

    def _say_moved(self) -> None:
        """What was begun here goes first: the broker takes the word for the last request."""
        if self.is_retired and not (
            self._has_said_moved or self._unsent_n or self._opening or self.machine.has_backlog
        ):
            self._has_said_moved = True
            self.machine.metadata_push(HAS_MOVED_ENTRY)
            self.flush_soon()

    def _loss(self) -> errors.ConnectionLost:
        assert self.reason is not None  # the callers have looked
        return errors.ConnectionLost(self.reason.text, word=self.reason.word, code=self.reason.code)


def _with_settings(setup: frames.Setup, settings: Settings) -> frames.Setup:
    """The SETUP with the flags that the settings ask for; each session has a token of its own."""
    setup = replace(setup, wants_lease=setup.wants_lease or settings.lease is not None)
    return replace(setup, wants_resume=True, token=uuid.uuid4().bytes) if settings.wants_resume else setup
