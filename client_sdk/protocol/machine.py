"""Everything that one connection in the client's role decides; no sockets, no clock, no tasks.

    receive(data, now)              bytes of the other side; lost_wire(now) when there will be no more
    take_output(room, now)          bytes, or messages, to write; `unsent_bytes` says whether there are (more)
    tick(now) / next_deadline()     time passed; when to tick at the latest
    streams                         the open ones: what becomes of each, and which to look at
    is_accepted, failure, is_over   how the connection is; `changes` counts up when one of them changes

    state       what it does
    ----------  ------------------------------------------------------------------------------------------------
    opening     SETUP and KEEPALIVE are sent; the answer to that says that we are accepted: RSocket has no other sign
    open        requests go both ways
    leaving     the other side has said CONNECTION_CLOSE: what runs may end, nothing new; `failure` says why
    suspended   no socket, but a session: streams stay, what is to be sent waits (`resume` ends it)
    over        nothing is read any more, all streams have ended; what is left to write says why

RSocket protocol 1.0, "Connection Establishment", "KEEPALIVE", "Lease Semantics", "Resuming Operation".
"""

from typing import Final

from client_sdk.protocol.deadlines import Deadlines
from client_sdk.protocol.fragments import Gathered
from client_sdk.protocol.leases import Lease
from client_sdk.protocol.output import Output
from client_sdk.protocol.settings import MAX_BACKLOG_BYTES, Settings
from client_sdk.protocol.stream import BROKEN, LOST, REFUSED, SAID, Failure, Stream
from client_sdk.protocol.streams import Streams
from rsocket_wire.errors import CONNECTION_CLOSE, CONNECTION_ERROR, INVALID, REJECTED, InvalidFrame
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.foreign import foreign_protocol, foreign_text
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.resumption import Budget, Session
from rsocket_wire.timers import NEVER

NO_HANDLERS: Final = (
    "no-handler: the client that {} connected without handlers; give its connect() service=Service({!r}), with "
    "functions that are decorated, or leave service= out if it only calls"
)
LATE_S: Final = 0.25  # a tick that comes so late comes from a program that was busy, and has read nothing meanwhile
PARDON_S: Final = 1.0  # for it to read what has come, before the other side counts as silent
ACKNOWLEDGE_S: Final = 0.25  # at least, between two KEEPALIVEs that only ask what has arrived


class Machine:
    """One connection."""

    def __init__(self, setup: frames.Setup, is_framed: bool, settings: Settings, serves: bool, now: float) -> None:
        """Begins with this SETUP. `serves`: requests of the other side are told, not refused."""
        self._settings: Final = settings
        self._serves: Final = serves
        self._token: Final = setup.token
        session: Session | None = None
        if setup.wants_resume:
            session = Session(setup.token, settings.resume_bytes, Budget(settings.resume_bytes))
        self._session: Final[Session | None] = session
        self._output: Final = Output(is_framed, settings.fragment_bytes, session)
        self.streams: Final = Streams(self._output)
        self._deadlines: Final = Deadlines()
        self._cursor = FrameCursor(is_framed)
        self._keepalive_s: Final = setup.keepalive_ms / 1000.0
        self._lifetime_s: Final = setup.lifetime_ms / 1000.0
        self._send_at = now + self._keepalive_s
        self._heard_at = now
        self._quiet_until = now + self._lifetime_s  # the other side counts as lost then
        self._give_up_at = NEVER  # nobody has resumed by then
        self._asked_at = now  # a KEEPALIVE was sent for what it acknowledges
        self._begun: Final[dict[int, Gathered]] = {}  # requests that arrive in pieces
        self._begun_bytes = 0
        self._lease: Lease | None = Lease() if setup.wants_lease else None  # what the other side grants
        self._granted: Final = None if settings.lease is None or not setup.wants_lease else Lease()  # what we grant
        self.changes = 0
        self.is_accepted = False
        self.failure: Failure | None = None  # None while requests can be made; then why not
        self.is_over = False
        self.is_suspended = False
        self.is_resuming = False  # there is a socket again, and the other side has not said yet where it stands
        self.handlers_n = 0  # that work; the shell says when one has ended
        self._output.urgent(setup.encode())
        self._output.urgent(frames.encode_keepalive(b"", True))
        self._grant_lease(now)

    # bytes and time

    @property
    def unsent_bytes(self) -> int:
        """What waits to be taken."""
        return self._output.ready_bytes + self._output.backlog_bytes

    @property
    def has_backlog(self) -> bool:
        """Payloads in pieces wait, perhaps requests among them."""
        return self._output.backlog_bytes > 0

    @property
    def is_full(self) -> bool:
        """Whoever can wait shall wait: too much is unsent, or there is no socket."""
        if self.is_suspended or self.is_resuming:
            return True
        if self._output.backlog_bytes > MAX_BACKLOG_BYTES:
            return True
        return self._output.ready_bytes > self._settings.max_queued_bytes

    def take_output(self, room_bytes: int, now: float) -> list[bytes]:
        """See `Output.take`."""
        session = self._session
        if session is not None and session.retained_bytes * 2 > session.limit_bytes:
            # What is acknowledged need not be kept, and what does not fit cannot be resumed.
            is_open = not (self.is_suspended or self.is_resuming or self.is_over)
            if is_open and now >= self._asked_at + ACKNOWLEDGE_S:
                self._send_keepalive(now)
        return self._output.take(room_bytes)

    def receive(self, data: bytes, now: float) -> None:
        """Any piece of the byte stream when framed, else one message."""
        if self.is_over:
            return
        self._heard_at = now
        self._quiet_until = now + self._lifetime_s
        cursor = self._cursor
        if not self.is_accepted and not cursor.held_bytes:
            protocol = foreign_protocol(data)
            if protocol:
                self.end(Failure(LOST, f"bad-frame: {foreign_text(protocol)}"), 0)
                return
        cursor.feed(data, now)
        while cursor.advance():
            self._receive(cursor)
            if self.is_over:
                return
        if cursor.fault:
            self.end(Failure(LOST, f"bad-frame: the other side sent {cursor.fault}"), CONNECTION_ERROR)
        elif self._output.ready_bytes > self._settings.max_unsent_bytes:
            waiting = self._output.ready_bytes
            self.end(Failure(LOST, f"slow-peer: the other side does not read, {waiting} bytes are unsent"), 0)

    def next_deadline(self) -> float:
        """When to tick; in the past when it is due, far away when there is nothing to wait for."""
        if self.is_over:
            return NEVER
        at = self._deadlines.next()
        if self.is_suspended or self.is_resuming:
            at = min(at, self._give_up_at)
        if not self.is_suspended:
            at = min(at, self._quiet_until)
            if not self.is_resuming:
                at = min(at, self._send_at)
                if self._granted is not None:
                    at = min(at, self._granted.until)
        return at

    def tick(self, now: float) -> None:
        """Time has passed: keeps the connection alive, notices silence, ends calls whose time is over."""
        if self.is_over:
            return
        while True:
            stream = self._deadlines.take(now)
            if stream is None:
                break
            self.streams.expire(stream)
        if (self.is_suspended or self.is_resuming) and now >= self._give_up_at:
            self.end(Failure(LOST, f"resume-timeout: not resumed within {self._settings.resume_s:g} s"), 0)
            return
        if self.is_suspended:
            return
        if now >= self._quiet_until:
            if now >= self._quiet_until + LATE_S and self._quiet_until <= self._heard_at + self._lifetime_s:
                self._quiet_until = now + PARDON_S  # once: what is read next counts
            else:
                text = f"keepalive-timeout: nothing was received for {self._lifetime_s:g} s"
                self.lost_wire(Failure(LOST, text), now)
                return
        if self._granted is not None and now >= self._granted.until and not self.is_resuming:
            self._grant_lease(now)
        if now >= self._send_at and not self.is_resuming:
            self._send_keepalive(now)

    def lost_wire(self, failure: Failure, now: float) -> None:
        """Nothing can be read or written any more: suspended when there is a session, else over."""
        session = self._session
        if self.is_over or self.is_suspended:
            return
        if session is None or not self.is_accepted or self.failure is not None:
            self.end(failure, 0)
            return
        if self.is_resuming:
            self.is_resuming = False
        else:
            self._give_up_at = now + self._settings.resume_s
            session.suspend()
        self.is_suspended = True
        self._cursor.close()
        self._output.shut()
        self.changes += 1

    def end(self, failure: Failure, code: int) -> None:
        """Over, for this reason; with a code the other side is told. Only the first call counts."""
        if self.is_over:
            return
        if self._session is not None and not code and failure.kind == LOST and self.is_accepted:
            code = CONNECTION_CLOSE  # a closed socket alone would leave the session behind
        self.is_over = True
        if self.failure is None:
            self.failure = failure
        if self._session is not None:
            self._session.close()
        if self.is_suspended or self.is_resuming:
            self._output.clear()
        elif code:
            self._output.urgent(frames.encode_error(0, code, failure.message))
        self.streams.lose(self.failure)
        self._cursor.close()
        self._begun.clear()
        self._begun_bytes = 0
        self.changes += 1

    def resume(self, is_framed: bool, now: float) -> None:
        """There is a socket again: RESUME goes first, and nothing else before the other side has answered."""
        session = self._session
        assert session is not None  # without one it is never suspended
        self.is_suspended = False
        self.is_resuming = True
        self._cursor = FrameCursor(is_framed)
        self._heard_at = now
        self._quiet_until = now + self._lifetime_s
        raw = frames.Resume(self._token, session.received_position, session.first_position).encode()
        self._output.begin(is_framed, raw)

    # requests of ours; the caller has looked at `failure`

    def has_lease(self, now: float) -> bool:
        """`may_ask` would say yes; this uses nothing up."""
        return self._lease is None or self._lease.covers(now)

    def may_ask(self, now: float) -> bool:
        """One more request is covered by the other side's lease, if there are leases."""
        return self._lease is None or self._lease.take(now)

    def request_response(self, holder: object, data: bytes, metadata: bytes | None, deadline: float) -> Stream:
        """Asks for one answer. `deadline`: a moment, 0 for none."""
        stream = self.streams.ask(frames.REQUEST_RESPONSE, holder, data, metadata, 0, False)
        if deadline:
            self._deadlines.add(stream, deadline)
        return stream

    def request_items(
        self,
        kind: int,
        holder: object,
        data: bytes,
        metadata: bytes | None,
        n: int,
        deadline: float,
        is_alone: bool = False,
    ) -> Stream:
        """REQUEST_STREAM or REQUEST_CHANNEL. `is_alone`: nothing more will be sent on the channel."""
        has_out = kind == frames.REQUEST_CHANNEL and not is_alone
        flags = frames.COMPLETE if is_alone else 0
        stream = self.streams.ask(kind, holder, data, metadata, n, has_out, flags)
        if deadline:
            self._deadlines.add(stream, deadline)
        return stream

    def fire_and_forget(self, data: bytes, metadata: bytes | None) -> None:
        """Sends a request without an answer."""
        self.streams.forget_about(frames.REQUEST_FNF, data, metadata)

    def metadata_push(self, metadata: bytes) -> None:
        """Sends metadata that belongs to no request, behind all requests before it."""
        self._output.say(frames.encode_metadata_push(metadata))

    def leave(self, message: str) -> None:
        """Takes no new requests any more; what runs may end, and the other side closes when nothing does."""
        self._output.say(frames.encode_error(0, CONNECTION_CLOSE, message))

    @property
    def open_streams_n(self) -> int:
        """Of both sides."""
        return len(self.streams.streams)

    @property
    def gathered_bytes(self) -> int:
        """Of payloads that have not arrived as a whole."""
        return self._begun_bytes + self.streams.gathered_bytes

    # what arrives

    def _receive(self, frame: FrameCursor) -> None:
        kind = frame.kind
        stream_id = frame.stream_id
        if stream_id == 0:
            self._receive_zero(frame)
            return
        if self.is_resuming:
            return  # "no other frames before RESUME_OK"
        if self._session is not None and frames.has_position(kind):
            self._session.received(frame.end - frame.start)
        if kind == frames.PAYLOAD:
            stream = self.streams.streams.get(stream_id)
            if stream is None:
                if stream_id in self._begun:
                    self._gather_request(frame)
                return
            flags = frame.flags
            at, to = frames.request_parts(frame.data, frame.start, frame.end, kind, flags)
            if at < 0:
                self.streams.receive_broken(stream, _broken(frame))
                return
            metadata = frame.data[at:to] if flags & frames.METADATA else None
            data = frame.data[to : frame.end]
            if flags & frames.FOLLOWS or stream.gathered is not None:
                self._gather(stream, flags, metadata, data)
            else:
                self.streams.receive_payload(stream, flags, metadata, data)
        elif frames.REQUEST_RESPONSE <= kind <= frames.REQUEST_CHANNEL:
            self._receive_request(frame)
        else:
            self._receive_signal(frame)

    def _receive_signal(self, frame: FrameCursor) -> None:
        """REQUEST_N, CANCEL or ERROR; anything else on a stream is ignored."""
        kind = frame.kind
        stream = self.streams.streams.get(frame.stream_id)
        is_end = kind == frames.CANCEL or kind == frames.ERROR
        if stream is None:
            if is_end:
                self._forget_begun(frame.stream_id)
                self._output.drop_rest(frame.stream_id)
            return  # "late frames": what belongs to no stream is ignored
        if kind == frames.CANCEL:
            self.streams.receive_cancel(stream)
        elif not is_end and kind != frames.REQUEST_N:
            return
        elif frame.end - frame.start < frames.HEADER_BYTES + 4:
            if kind == frames.ERROR:
                # No answer: an ERROR has ended its stream in any case.
                self.streams.end(stream, _broken(frame))
            else:
                self.streams.receive_broken(stream, _broken(frame))
        elif kind == frames.ERROR:
            self.streams.end(stream, Failure(SAID, _text(frame), frames.error_code(frame.data, frame.start)))
        else:
            self.streams.receive_request_n(stream, frames.initial_n(frame.data, frame.start))

    def _receive_request(self, frame: FrameCursor) -> None:
        """A request of the other side, perhaps only its first piece."""
        kind = frame.kind
        stream_id = frame.stream_id
        flags = frame.flags
        if stream_id & 1 or stream_id in self.streams.streams or stream_id in self._begun:
            return  # a server opens even ids, each once; "MUST be ignored"
        at, to = frames.request_parts(frame.data, frame.start, frame.end, kind, flags)
        if at < 0:
            self._refuse(kind, stream_id, INVALID, _broken(frame).message.replace("bad-frame", "bad-request", 1))
            return
        n = 0
        if kind == frames.REQUEST_STREAM or kind == frames.REQUEST_CHANNEL:
            n = frames.initial_n(frame.data, frame.start)
        metadata = frame.data[at:to] if flags & frames.METADATA else None
        data = frame.data[to : frame.end]
        if flags & frames.FOLLOWS:
            gathered = self._begun[stream_id] = Gathered(kind, flags & ~frames.FOLLOWS, n)
            self._add_piece(stream_id, gathered, flags, metadata, data)
        else:
            self._begin(stream_id, kind, flags, n, metadata, data, frame.now)

    def _gather_request(self, frame: FrameCursor) -> None:
        """One more piece of a request."""
        stream_id = frame.stream_id
        gathered = self._begun[stream_id]
        flags = frame.flags
        at, to = frames.request_parts(frame.data, frame.start, frame.end, frame.kind, flags)
        if at < 0:
            self._forget_begun(stream_id)
            self._refuse(gathered.kind, stream_id, INVALID, _broken(frame).message)
            return
        metadata = frame.data[at:to] if flags & frames.METADATA else None
        if not self._add_piece(stream_id, gathered, flags, metadata, frame.data[to : frame.end]):
            return
        # "F is ignored when C is set" in a PAYLOAD.
        if flags & frames.FOLLOWS and not flags & frames.COMPLETE:
            return
        self._forget_begun(stream_id)
        self._begin(
            stream_id,
            gathered.kind,
            gathered.flags,
            gathered.n,
            gathered.whole_metadata(),
            gathered.whole_data(),
            frame.now,
        )

    def _add_piece(self, stream_id: int, gathered: Gathered, flags: int, metadata: bytes | None, data: bytes) -> bool:
        self._begun_bytes += gathered.add(flags, metadata, data)
        if self._is_too_much():
            self._forget_begun(stream_id)
            self._refuse(gathered.kind, stream_id, INVALID, self._too_large(stream_id))
            return False
        return True

    def _gather(self, stream: Stream, flags: int, metadata: bytes | None, data: bytes) -> None:
        """A piece of a PAYLOAD of a stream."""
        gathered = stream.gathered
        if gathered is None:
            if flags & frames.COMPLETE:
                self.streams.receive_payload(stream, flags, metadata, data)
                return
            gathered = stream.gathered = Gathered(frames.PAYLOAD, 0, 0)
        self.streams.gathered_bytes += gathered.add(flags, metadata, data)
        if self._is_too_much():
            self.streams.receive_broken(stream, Failure(SAID, self._too_large(stream.id), INVALID))
            return
        if flags & frames.FOLLOWS and not flags & frames.COMPLETE:
            return
        self.streams.gathered_bytes -= gathered.size_bytes
        stream.gathered = None
        whole = gathered.whole_metadata()
        self.streams.receive_payload(stream, gathered.flags, whole, gathered.whole_data())

    def _is_too_much(self) -> bool:
        return self.gathered_bytes > self._settings.max_gathered_bytes

    def _too_large(self, stream_id: int) -> str:
        bound = self._settings.max_gathered_bytes
        return f"too-large: stream {stream_id}: over {bound} bytes of fragments are unfinished"

    def _forget_begun(self, stream_id: int) -> None:
        gathered = self._begun.pop(stream_id, None)
        if gathered is not None:
            self._begun_bytes -= gathered.size_bytes

    def _begin(
        self, stream_id: int, kind: int, flags: int, n: int, metadata: bytes | None, data: bytes, now: float
    ) -> None:
        """A whole request of the other side."""
        if not self._serves:
            name = self._settings.bare_name
            who = f"offers {name!r}" if name else "was asked"
            self._refuse(kind, stream_id, INVALID, NO_HANDLERS.format(who, name or "name"))
        elif self.handlers_n >= self._settings.max_handlers:
            text = f"over-limit: {self._settings.max_handlers} requests are running already"
            self._refuse(kind, stream_id, REJECTED, text)
        elif self._granted is not None and not self._granted.take(now):
            assert self._settings.lease is not None  # else nothing is granted
            requests_n, ttl_s = self._settings.lease
            self._refuse(kind, stream_id, REJECTED, f"no-lease: more than {requests_n} requests within {ttl_s:g} s")
        else:
            stream = Stream(stream_id, kind, False, None)
            stream.is_new = True
            stream.flags = flags
            stream.data = data
            stream.metadata = metadata
            stream.credit_n = n
            if kind != frames.REQUEST_FNF:
                stream.out_open = True
                stream.in_open = kind == frames.REQUEST_CHANNEL and not flags & frames.COMPLETE
                self.streams.streams[stream_id] = stream
            self.handlers_n += 1
            self.streams.tell(stream)

    def _refuse(self, kind: int, stream_id: int, code: int, message: str) -> None:
        """A fire-and-forget has nobody who could be told."""
        if kind != frames.REQUEST_FNF:
            self._output.frame(frames.encode_error(stream_id, code, message))

    # stream 0

    def _receive_zero(self, frame: FrameCursor) -> None:
        """A frame of the connection itself; those that a server may not send, and EXT, are ignored."""
        kind = frame.kind
        if kind == frames.KEEPALIVE:
            self._receive_keepalive(frame)
        elif kind == frames.ERROR:
            if frame.end - frame.start >= frames.HEADER_BYTES + 4:
                self._receive_end(frames.error_code(frame.data, frame.start), _text(frame))
        elif kind == frames.RESUME_OK:
            self._receive_resume_ok(frame)
        elif self.is_resuming:
            return
        elif kind == frames.METADATA_PUSH:
            # To the end, whether M is set or not: rsocket-js 0.0.27 forgets it.
            metadata = frame.data[frame.start + frames.HEADER_BYTES : frame.end]
            if metadata and self.handlers_n < self._settings.max_handlers:
                stream = Stream(0, frames.METADATA_PUSH, False, None)
                stream.is_new = True
                stream.metadata = metadata
                self.handlers_n += 1
                self.streams.tell(stream)
        elif kind == frames.LEASE and self._lease is not None:
            ttl_ms, requests_n = frames.decode_lease(frame.data, frame.start, frame.end)
            if ttl_ms >= 0:
                self._lease.grant(requests_n, frame.now + ttl_ms / 1000.0)

    def _receive_keepalive(self, frame: FrameCursor) -> None:
        session = self._session
        if session is not None:
            session.acknowledge(max(0, frames.keepalive_position(frame.data, frame.start, frame.end)))
        if frame.flags & frames.RESPOND:
            data = frame.data[frame.start + frames.HEADER_BYTES + 8 : frame.end]
            self._output.urgent(
                frames.encode_keepalive(data, False, 0 if session is None else session.received_position)
            )
        elif not self.is_accepted:
            self.is_accepted = True
            self.changes += 1

    def _receive_end(self, code: int, message: str) -> None:
        if code < CONNECTION_ERROR:  # INVALID_SETUP, UNSUPPORTED_SETUP, REJECTED_SETUP, REJECTED_RESUME
            self.end(Failure(LOST if self.is_resuming else REFUSED, message, code), 0)
            return
        failure = Failure(LOST, message or "connection-lost: the other side ended the connection", code)
        if code == CONNECTION_CLOSE and self.streams.streams and self.is_accepted:
            # "MUST wait for outstanding streams to terminate": no new ones; the other side closes when it likes.
            self.failure = failure
            self.changes += 1
            return
        self.end(failure, 0)

    def _receive_resume_ok(self, frame: FrameCursor) -> None:
        session = self._session
        if session is None or not self.is_resuming:
            return
        try:
            position = frames.decode_resume_ok(frame.data, frame.start, frame.end)
        except InvalidFrame as error:
            self.end(Failure(LOST, f"cannot-resume: {error.text}"), CONNECTION_ERROR)
            return
        obstacle = session.obstacle(position, 0)
        if obstacle:
            self.end(Failure(LOST, f"cannot-resume: {obstacle}"), CONNECTION_ERROR)
            return
        self.is_resuming = False
        self._lease = None if self._lease is None else Lease()
        self._output.reopen(session.resume(position))
        self._send_keepalive(frame.now)
        self._grant_lease(frame.now)  # "leases begin anew"
        self.changes += 1

    # what is said without being asked

    def _send_keepalive(self, now: float) -> None:
        session = self._session
        self._send_at = now + self._keepalive_s
        self._asked_at = now
        self._output.urgent(frames.encode_keepalive(b"", True, 0 if session is None else session.received_position))

    def _grant_lease(self, now: float) -> None:
        """So many requests for so long as the settings say, if they do."""
        if self._granted is not None and self._settings.lease is not None:
            requests_n, ttl_s = self._settings.lease
            self._granted.grant(requests_n, now + ttl_s)
            self._output.urgent(frames.encode_lease(int(ttl_s * 1000), requests_n))


def _text(frame: FrameCursor) -> str:
    """Of an ERROR of at least 10 bytes; what is not UTF-8 is shown with U+FFFD."""
    return frame.data[frame.start + frames.HEADER_BYTES + 4 : frame.end].decode("utf-8", "replace")


def _broken(frame: FrameCursor) -> Failure:
    name = frames.KIND_NAMES[frame.kind]
    size_bytes = frame.end - frame.start
    text = f"stream {frame.stream_id}: the other side sent a {name} of {size_bytes} bytes, which is too short"
    return Failure(BROKEN, f"bad-frame: {text}")
