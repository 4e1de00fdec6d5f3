"""A peer: the other end of one RSocket connection, with its streams and what waits to be written to it.

Decides stream ids and how a forwarded frame is written: four bytes of stream id are replaced, nothing else. Does not
know routes or tags, and writes nothing: `core.take_writes` hands the bytes out.
"""

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be

from broker.access.identities import NO_PROOF
from broker.forwarding.arrival import NOTHING_SPECIAL, Login
from broker.forwarding.interbroker.link import Link
from broker.forwarding.lease_grants import LeaseGrants
from broker.forwarding.outbound import LARGE_BYTES, PUSHES, Outbound, Piece, Total
from broker.forwarding.settings import Settings
from broker.forwarding.stream import HeldCredit, Stream
from broker.forwarding.traffic.flows import Flow
from broker.routing.health.loads import Load
from broker.routing.targets import Target
from rsocket_wire.rsocket.claims import ClaimFilter
from rsocket_wire.rsocket.connection import OPEN, Connection
from rsocket_wire.rsocket.frames import (
    FOLLOWS,
    MAX_N,
    MAX_STREAM_ID,
    METADATA,
    METADATA_PUSH,
    REQUEST_CHANNEL,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    encode_cancel,
    has_position,
    initial_n,
)
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.resumption import Session
from rsocket_wire.timers import Timed, Timer
from rsocket_wire.wire.ints import u32_at, u32_bytes

if TYPE_CHECKING:  # for the compiler alone: nothing of it is needed when this runs. See `forward`
    from mypy_extensions import i64

_KEPT_BYTES: Final = 64 << 10  # of a writer's memory: a turn's output of a busy peer; after more it starts anew
MAX_SETUP_BYTES: Final = 256 << 10  # of the first frame: until it has come, a stranger must not fill memory
MAX_HELD_CREDIT: Final = 64  # entries of streams that have ended, before they are looked for
_ALL_BYTES: Final = 1 << 62  # room without a bound
_HEADER_BYTES: Final = 6  # stream id, type and flags


class Peer(Timed):
    """One connection. The owner of a route, and what the edge holds in its hand."""

    __slots__ = (
        "_dirty",
        "_has_wrapped",
        "_messages",
        "_next_id",
        "_outbound",
        "_to_check",
        "_total",
        "_writer",
        "address",
        "announcements_at",
        "arrival",
        "begins",
        "begun",
        "bytes_in",
        "bytes_out",
        "caller_service",
        "client_id",
        "connected_at",
        "connected_at_ms",
        "connection",
        "end_detail",
        "end_reason",
        "flows",
        "fragments_at",
        "frame",
        "gathered_bytes",
        "granting",
        "heard_at",
        "held_credit",
        "held_n",
        "id",
        "is_blocked",
        "is_congested",
        "is_ending",
        "is_framed",
        "is_lost",
        "is_queueing",
        "is_torn",
        "items",
        "keepalives_at",
        "latest_at",
        "latest_flow",
        "latest_metadata",
        "latest_target",
        "latest_to",
        "link",
        "login",
        "look_timer",
        "max_streams",
        "may_replace_suspended",
        "merging_bytes",
        "merging_n",
        "message_bytes",
        "mimes",
        "name",
        "needs_check",
        "origin",
        "paused_by",
        "paused_callers",
        "pending_bytes",
        "principal",
        "proof",
        "requests",
        "route",
        "session",
        "settings",
        "shared_origin",
        "streams",
        "told_until",
        "unsent_bytes",
        "waiting_bytes",
        "waiting_n",
        "zone",
    )

    def __init__(
        self,
        id: int,
        name: str,
        is_framed: bool,
        settings: Settings,
        dirty: "list[Peer]",
        to_check: "list[Peer]",
        total: Total,
        now: float,
        at_ms: int,
        begins: int = 1,
    ) -> None:
        self.id: Final = id
        self.name = name  # "tcp 10.0.0.4:5123"; of a peer that was resumed, of its latest transport
        self.is_framed = is_framed
        self.settings: Final = settings
        self.begins: Final = begins  # parity of the stream ids that it begins: 1, or 0 when the broker has dialled it
        self.link: Link | None = None  # when it is another broker, and has proved it
        self.connection: Final = Connection(settings.max_lifetime_s)
        self.frame = FrameCursor(is_framed, min(MAX_SETUP_BYTES, settings.max_frame_bytes))
        # By stream id; odd ones are bounded by max_streams_per_connection, even ones by the callers' bounds.
        self.streams: dict[int, Stream] = {}
        self.flows: dict[int, Flow] = {}  # of its requests in this interval, see `engine`; bounded by flows.MAX_FLOWS
        # Callers repeat themselves: what the latest request had is tried first (see `engine.handle_request`).
        self.latest_metadata = b""  # empty: none; bounded by engine.MAX_LATEST_BYTES
        self.latest_at = 0  # the ADDRESS in it
        self.latest_to = 0
        self.latest_target: Target | None = None  # of that ADDRESS
        self.latest_flow: Flow | None = None  # of the latest request that was routed
        self.begun = 0  # open streams that the peer began
        self.max_streams = settings.max_streams_per_connection  # as many as it may
        self.route: object | None = None  # the Route it offers; None: a caller only (D-17)
        self.caller_service = ""  # service name of that route
        self.zone = settings.zone.encode()  # where it is, as zones are compared; its route's Zone tag, or the broker's
        self.origin = id.to_bytes(16, "big")  # who it is, for sticky choices: its Route Id, or its number
        self.granting: LeaseGrants | None = None  # what it grants, when its SETUP asked for leases
        self.mimes = -1  # number of its pair of mime types, see `mime_pairs`; -1 before the SETUP, and at its end
        self.gathered_bytes = 0  # fragments held back until their metadata is whole; bounded by max_metadata_bytes
        self.message_bytes = 0  # of a WebSocket message that the edge gathers; bounded by max_frame_bytes and one read
        self.waiting_n = 0  # requests that wait for a route; bounded by max_waiting_per_connection
        self.waiting_bytes = 0  # of their frames, with FRAME_COST for each; bounded by max_waiting_bytes
        self.merging_bytes = 0  # items of its multicasts that wait; bounded by multicast_buffer_bytes
        self.merging_n = 0  # branches of its multicasts that may send items, and share those bytes
        self.connected_at: Final = now
        self.connected_at_ms: Final = at_ms
        self.heard_at = now
        self.look_timer: Timer | None = None  # when the core looks at it next; None before the first time is set
        self.bytes_in = 0
        self.bytes_out = 0  # handed to the transport, frame lengths included
        self.requests = 0  # begun by the peer, ever
        self.held_n = 0  # fan-outs of its calls that are not done, and `Login.is_asked`: no more of it is looked at
        self.is_blocked = False  # the edge says: its transport is to be written no more to, for now
        self.is_congested = False  # it was blocked, and not all of what has waited since is written
        self.is_queueing = False  # frames go to `_outbound` and not to the writer
        self.is_torn = False  # a part of a frame was written, and the rest dropped: nothing can be written behind it
        # REQUEST_N frames that wait until it is not congested any more: by stream id the stream and the sum of them.
        self.held_credit: dict[int, HeldCredit] = {}  # bounded by MAX_HELD_CREDIT beyond the open streams
        self.needs_check = False  # it is in `_to_check`, for one of both reasons
        self.items: dict[int, ClaimFilter] = {}  # by stream id: what passes of items that have begun, see `callers`
        # By id: callers not read from until it reads, and links, which are; bounded by the connections.
        self.paused_callers: dict[int, Peer] = {}
        # It is not read from meanwhile: the `paused_callers` of congested peers to which it has sent requests, by the
        # peer's id, and of far routes that are behind, by the route's number below 0.
        self.paused_by: dict[int, dict[int, Peer]] = {}
        self.told_until = 0.0  # for other brokers it is congested until then at least, seconds, monotonic
        self.pending_bytes = 0  # of output that nobody has taken, `_outbound` included
        self.unsent_bytes = 0  # of what was taken: not accepted by the peer's system at the edge's last look
        self.client_id = b""  # who it is, whatever its connection; empty: it has not said so, see `notices`
        self.address = ""  # where it comes from and who it is, as connections are counted; see `ConnectionLimits`
        self.principal = ""  # the text of its identity; empty: anonymous
        self.proof = NO_PROOF  # what its transport alone says of that
        self.arrival = NOTHING_SPECIAL
        self.login: Final = Login()
        self.shared_origin = ""  # of its caller's connections (D-37): principal, else address; a link has many callers'
        # When its buckets of these are full again (fragments: small ones), seconds, monotonic; see `TokenBucket`.
        self.keepalives_at = self.announcements_at = self.fragments_at = 0.0
        self.may_replace_suspended = False  # it has the place of one without a socket: it may be that one
        self.is_ending = False  # nothing is read from it any more; the transport closes once the output is written
        self.is_lost = False  # the transport is gone
        self.end_reason = ""  # code word, once it is ending or lost
        self.end_detail = ""
        self.session: Session | None = None  # what it may come back to; None unless its SETUP asked for that
        self._next_id = 1 + begins  # the other parity; 0 is no stream
        self._has_wrapped = False  # ids are given for the second time
        self._writer = BytesWriter()  # output of a framed peer
        self._messages: list[bytes] = []  # output of one that is not
        self._outbound: Outbound | None = None  # output behind that; None until the peer is slow for the first time
        self._total: Final = total
        self._dirty: Final = dirty  # the core's list of peers with output
        self._to_check: Final = to_check  # the core's list: congested and sent requests, or its session is overrun

    @property
    def is_paused(self) -> bool:
        """It is not to be read from now."""
        return len(self.paused_by) > 0

    @property
    def is_open(self) -> bool:
        """The SETUP was accepted and nobody ended the connection."""
        return self.connection.state == OPEN and not self.is_ending

    @property
    def is_suspended(self) -> bool:
        """Its transport is gone and it may come back; frames for it wait in its session."""
        return self.session is not None and self.session.is_suspended

    @property
    def buffered_bytes(self) -> int:
        """All that waits in the broker because of this connection, in either direction."""
        held_bytes = self.gathered_bytes + self.waiting_bytes + self.merging_bytes + self.message_bytes
        if self.session is not None:
            held_bytes += self.session.retained_bytes
        return self.pending_bytes + self.unsent_bytes + self.frame.held_bytes + held_bytes

    def open_id(self) -> int:
        """A free stream id for a request to the peer ("Stream Identifiers": after 2^31-1 wrap and skip).

        Even where the broker has accepted the connection, odd where it has dialled.
        """
        stream_id = self._next_id
        if self._has_wrapped:  # not before that: nobody else opens streams with these ids
            while stream_id in self.streams:
                stream_id = stream_id + 2 if stream_id + 2 <= MAX_STREAM_ID else 1 + self.begins
        if stream_id + 2 <= MAX_STREAM_ID:
            self._next_id = stream_id + 2
        else:
            self._next_id = 1 + self.begins
            self._has_wrapped = True
        return stream_id

    def awaited_at(self, load: Load) -> int:
        """How many request/responses that it began are in flight at this load. One look at each of its streams."""
        awaited_n = 0
        for stream_id, stream in self.streams.items():
            if stream_id & 1 == self.begins:
                awaited_n += stream.awaited_at(load)
        return awaited_n

    def forward(self, frame: FrameCursor, stream_id: int) -> None:
        """Writes the frame as it came, with another stream id."""
        # Machine words: said to be ints, they would be tested at each step for being too large for one (1 in 12
        # instructions of a local request).
        start: i64 = frame.start
        end: i64 = frame.end
        size: i64 = end - start
        data = frame.data
        if self.session is not None or self.is_queueing or size >= LARGE_BYTES:
            head = u32_bytes(stream_id) + data[start + 4 : start + _HEADER_BYTES]
            self._put(stream_id or PUSHES, head, data[start + _HEADER_BYTES : end])
            return
        if not self.pending_bytes:
            self._dirty.append(self)
        if not self.is_framed:
            self._messages.append(stream_id.to_bytes(4, "big") + data[start + 4 : end])
            self.pending_bytes += size
            return
        writer = self._writer
        # Length, stream id and the byte with the type in one write.
        number: i64 = stream_id
        write_i64_be(writer, (size << 40) | (number << 8) | data[start + 4])
        writer.write(data[start + 5 : end])
        self.pending_bytes += size + 3

    def forward_shared(self, stream_id: int, head: bytes, body: bytes) -> None:
        """Writes a large frame of a multicast: `head` follows the stream id, `body` follows that and is shared."""
        self._put(stream_id or PUSHES, u32_bytes(stream_id) + head, body)

    def forward_rewritten(
        self, frame: FrameCursor, stream_id: int, prefix: bytes, rest: bytes, metadata_bytes: int
    ) -> None:
        """Writes the first frame of a request with other metadata: `prefix`, and the first `metadata_bytes` of `rest`.

        All behind that is data. A request that is congested for lets who sent it wait, as in `forward`.
        """
        flags: i64 = frame.flags
        kind: i64 = frame.kind
        length: i64 = len(prefix) + metadata_bytes
        size: i64 = 9 + len(prefix) + len(rest)
        if kind >= REQUEST_STREAM:
            size += 4
        if self.session is not None or self.is_queueing or not self.is_framed or size >= LARGE_BYTES or flags & FOLLOWS:
            self._request_rewritten(frame, stream_id, prefix, rest, length)
            return
        if not self.pending_bytes:
            self._dirty.append(self)
        writer = self._writer
        # As in `forward`, and no bytes put together first.
        number: i64 = stream_id
        write_i64_be(writer, (size << 40) | (number << 8) | (kind << 2) | ((flags | METADATA) >> 8))
        if kind < REQUEST_STREAM:
            low: int = ((flags & 0xFF) << 24) | length
            write_i32_be(writer, low)
        else:
            n: i64 = initial_n(frame.data, frame.start)
            write_i64_be(writer, ((flags & 0xFF) << 56) | (n << 24) | length)
        if len(prefix):
            writer.write(prefix)
        writer.write(rest)
        self.pending_bytes += size + 3

    def send(self, raw: bytes) -> None:
        """Writes a whole frame, its stream id included; nothing behind the ERROR that ended the connection."""
        if self.is_ending or self.is_lost:
            return
        if self.is_queueing:
            self._put(u32_at(raw, 0), raw, b"")
            return
        if self.session is not None and not self._retain(self.session, raw):
            return
        self.resend(raw)

    def resend(self, raw: bytes) -> None:
        """Writes a whole frame that its session, if there is one, knows already."""
        if not self.pending_bytes:
            self._dirty.append(self)
        if self.is_framed:
            self._writer.write(len(raw).to_bytes(3, "big"))
            self._writer.write(raw)
            self.pending_bytes += len(raw) + 3
        else:
            self._messages.append(raw)
            self.pending_bytes += len(raw)

    def request(self, raw: bytes) -> None:
        """Writes a whole frame of a request: whoever sends it waits when the peer is congested."""
        self.check_later()
        if self.is_queueing:
            self._put(u32_at(raw, 0) or PUSHES, raw, b"")
        else:
            self.send(raw)

    def check_later(self) -> None:
        """Somebody has a request for it: who that is waits when the peer is congested."""
        if self.is_congested and not self.needs_check:
            self.needs_check = True
            self._to_check.append(self)

    def hold_credit(self, stream_id: int, stream: Stream, n: int) -> None:
        """A REQUEST_N that the congested peer has sent waits until it is relieved (`take_credit`)."""
        held = self.held_credit.get(stream_id)
        if held is not None and held.stream is stream:
            held.n = min(held.n + n, MAX_N)
            return
        if len(self.held_credit) >= len(self.streams) + MAX_HELD_CREDIT:  # of streams that have ended since
            for other_id in list(self.held_credit):
                if self.streams.get(other_id) is not self.held_credit[other_id].stream:
                    del self.held_credit[other_id]
        self.held_credit[stream_id] = HeldCredit(stream, n)

    def take_credit_of(self, stream_id: int, stream: Stream) -> int:
        """What waits of one stream, which another one is about to stand for; 0: nothing."""
        held = self.held_credit.get(stream_id)
        if held is None or held.stream is not stream:
            return 0
        del self.held_credit[stream_id]
        return held.n

    def take_credit(self) -> "dict[int, HeldCredit]":
        """The REQUEST_N frames that have waited, by stream id."""
        held, self.held_credit = self.held_credit, {}
        return held

    def find_largest(self) -> int:
        """The stream of which most waits for the peer, or PUSHES; 0: none has any."""
        return self._outbound.find_largest() if self._outbound is not None else 0

    def held_of(self, stream_id: int) -> int:
        """What waits of a stream, with what it costs to let it wait."""
        return self._outbound.held_of(stream_id) if self._outbound is not None else 0

    def first_kind(self, stream_id: int) -> int:
        """The type of the first frame of a stream that waits; 0: none does."""
        return self._outbound.first_kind(stream_id) if self._outbound is not None else 0

    def take_back(self, stream_id: int) -> bool:
        """A request to the peer is not wanted any more. True: nothing of it was written; else it gets CANCEL."""
        is_unseen = REQUEST_RESPONSE <= self.first_kind(stream_id) <= REQUEST_CHANNEL
        self.drop_stream(stream_id)
        if not is_unseen:
            self.send(encode_cancel(stream_id))
        return is_unseen

    def drop_stream(self, stream_id: int) -> None:
        """What waits of a stream, but for a frame that has begun, will not be written."""
        queue = self._outbound
        if queue is not None:
            before_bytes = queue.wire_bytes
            queue.drop(stream_id)
            self._dropped(before_bytes - queue.wire_bytes)

    def drop_push(self) -> None:
        """The METADATA_PUSH that has waited longest will not be written."""
        queue = self._outbound
        if queue is not None:
            before_bytes = queue.wire_bytes
            queue.drop_push()
            self._dropped(before_bytes - queue.wire_bytes)

    def end(self, reason: str, detail: str) -> None:
        """No more is read; the transport closes when the output is written. The first reason stays.

        Of what has waited only stream 0 is still written, and the frame that has begun: so a slow reader gets to know
        the reason.
        """
        if self.is_ending:
            return
        self.is_ending = True
        self.end_reason = reason
        self.end_detail = detail
        self.frame.close()
        queue = self._outbound
        if queue is not None:
            before_bytes = queue.wire_bytes
            queue.drop_all()
            self.pending_bytes -= before_bytes - queue.wire_bytes
        if (not self.pending_bytes or self.is_blocked) and not self.is_lost:
            self._dirty.append(self)

    def take_output(self, room_bytes: int = _ALL_BYTES) -> list[Piece]:
        """What waits, about as many bytes as there is room for: pieces of a stream when framed, else one message each.

        It is the caller's then. To be asked again while `pending_bytes` says that there is more, and the peer is not
        blocked.
        """
        pieces: list[Piece] = []
        pending_bytes = self.pending_bytes
        queue = self._outbound
        size = pending_bytes if queue is None else pending_bytes - queue.wire_bytes
        if size:
            if self.is_framed:
                writer = self._writer
                pieces.append(writer.getvalue())
                if size <= _KEPT_BYTES:
                    writer.truncate(0)
                else:
                    self._writer = BytesWriter()  # truncating keeps the memory
            else:
                pieces += self._messages
                self._messages = []
        if queue is None:
            self.pending_bytes = 0
            self.bytes_out += size
            return pieces
        if size < room_bytes:
            if self.session is not None:
                self._write_queued(self.session, queue, pieces, room_bytes - size)
            elif queue.wire_bytes:
                pieces += queue.take(room_bytes - size)
            self.is_queueing = queue.held_bytes > 0 or self.is_blocked
        self.pending_bytes = queue.wire_bytes
        self.bytes_out += pending_bytes - self.pending_bytes
        return pieces

    def set_blocked(self, is_blocked: bool) -> None:
        """The edge says whether its transport is to be written to."""
        self.is_blocked = is_blocked
        queue = self._outbound
        self.is_queueing = is_blocked or (queue is not None and queue.held_bytes > 0)
        if not is_blocked and self.pending_bytes and not self.is_lost:
            self._dirty.append(self)

    def drop_output(self) -> None:
        """What waits will not be written: there is no room for it any more."""
        self._messages = []
        self._writer = BytesWriter()
        if self._outbound is not None:
            self.is_torn = self._outbound.has_begun
            self._outbound.clear()
            self._outbound = None
        self.is_queueing = self.is_blocked
        self.pending_bytes = 0

    def forget(self) -> None:
        """The transport is gone, and the peer with it."""
        self.detach()
        self.is_lost = True

    def detach(self) -> None:
        """The transport is gone: what waits, and half a frame that came, are worth nothing, but to a session."""
        self.frame.close()
        self.is_blocked = False
        if self.session is not None and self._outbound is not None:
            for raw in self._outbound.take_frames(_ALL_BYTES):
                self._retain(self.session, raw)
        self.drop_output()
        self.unsent_bytes = 0
        self.message_bytes = 0

    def attach(self, newcomer: "Peer", now: float) -> bool:
        """Takes over the transport of a peer whose RESUME is being looked at; True when bytes came behind that.

        The newcomer is as good as lost then.
        """
        rest = newcomer.frame.take_rest()
        self.name = newcomer.name
        self.is_framed = newcomer.is_framed
        self.frame = FrameCursor(newcomer.is_framed, self.settings.max_frame_bytes)
        if rest:
            self.frame.feed(rest, now)
        self.heard_at = now
        newcomer.forget()
        return len(rest) > 0

    def _dropped(self, wire_bytes: int) -> None:
        """So much of what has waited is gone. With the last of it, the edge is to look at the peer once more."""
        self.pending_bytes -= wire_bytes
        if wire_bytes and not self.pending_bytes and self.is_congested and not self.is_blocked and not self.is_lost:
            self._dirty.append(self)

    def _put(self, stream_id: int, head: bytes, body: bytes) -> None:
        """A frame that is not for the writer: it waits behind others, is large, or a session is to know it.

        `stream_id`: PUSHES for a METADATA_PUSH of a caller.
        """
        if self.is_ending or self.is_lost:
            return
        session = self.session
        if session is not None and not self.is_queueing:
            raw = head + body if body else head
            if self._retain(session, raw):
                self.resend(raw)
            return
        is_asked = stream_id == PUSHES or (stream_id > 0 and stream_id & 1 != self.begins)
        if is_asked:
            self.check_later()
        if body and len(body) < LARGE_BYTES:
            head += body
            body = b""
        queue = self._outbound
        if queue is None:
            queue = self._outbound = Outbound(self.id, self.is_framed, self._total)
        if not self.pending_bytes and not self.is_blocked:
            self._dirty.append(self)
        self.is_queueing = True
        before_bytes = queue.wire_bytes
        queue.put(stream_id, head, body)
        self.pending_bytes += queue.wire_bytes - before_bytes
        total = self._total
        limit_bytes = self.settings.max_pending_bytes
        if queue.held_bytes > limit_bytes or total.used_bytes > total.limit_bytes:
            total.over.append(self.id)

    def _write_queued(self, session: Session, queue: Outbound, pieces: list[Piece], room_bytes: int) -> None:
        """Frames leave the queue for the transport: now they have a position."""
        for raw in queue.take_frames(room_bytes):
            if self._retain(session, raw):
                pieces.append(len(raw).to_bytes(3, "big") + raw if self.is_framed else raw)

    def _request_rewritten(
        self, frame: FrameCursor, stream_id: int, prefix: bytes, rest: bytes, metadata_bytes: int
    ) -> None:
        credit = initial_n(frame.data, frame.start).to_bytes(4, "big") if frame.kind >= REQUEST_STREAM else b""
        header = ((stream_id << 16) | (frame.kind << 10) | frame.flags | METADATA).to_bytes(6, "big")
        self._put(stream_id or PUSHES, header + credit + metadata_bytes.to_bytes(3, "big") + prefix, rest)

    def _retain(self, session: Session, raw: bytes) -> bool:
        """What has a position is retained. True when the frame is to be written now.

        While nobody is connected, a METADATA_PUSH waits with the others. Any other frame without a position speaks of
        a transport that is gone, or, as EXT, may be ignored. An ERROR on stream 0 has none either; the session ends.
        """
        kind = raw[4] >> 2
        if has_position(kind):
            session.retain(raw)
        elif kind == METADATA_PUSH and session.is_suspended:
            session.hold(raw)
        if session.is_overrun and not self.needs_check:
            self.needs_check = True  # the core looks through that list when the frame at hand has been dealt with
            self._to_check.append(self)
        return not session.is_suspended
