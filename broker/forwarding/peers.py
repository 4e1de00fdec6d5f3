"""A peer: the other end of one RSocket connection, with its streams and what waits to be written to it.

Decides stream ids and how a forwarded frame is written: four bytes of stream id are replaced, nothing else. Does not
know routes or tags, and writes nothing: `core.take_writes` hands the bytes out.
"""

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be

from broker.forwarding.flows import Flow
from broker.forwarding.granting import Granting
from broker.forwarding.links import Link
from broker.forwarding.settings import Settings
from broker.forwarding.timers import Timed
from broker.routing.targets import Target
from broker.rsocket.connection import OPEN, Connection
from broker.rsocket.frames import (
    FOLLOWS,
    MAX_STREAM_ID,
    METADATA,
    METADATA_PUSH,
    REQUEST_STREAM,
    has_position,
    initial_n,
)
from broker.rsocket.framing import FrameCursor
from broker.rsocket.resumption import Session
from broker.wire.ints import u32_bytes

if TYPE_CHECKING:  # for the compiler alone: nothing of it is needed when this runs. See `forward`
    from mypy_extensions import i64

_KEPT_BYTES: Final = 64 << 10  # of a writer's memory: a turn's output of a busy peer; after more it starts anew
MAX_SETUP_BYTES: Final = 256 << 10  # of the first frame: until it has come, a stranger must not fill memory
_SMALL_BYTES: Final = 1 << 23  # a length below that fits the upper 24 bits of a signed number of 64


class Stream(Timed):
    """One stream of one or two peers, as the peers' tables of streams see it. What it has no use for, it ignores."""

    def from_caller(self, frame: FrameCursor) -> None:
        """A frame of the peer that began the stream."""

    def from_route(self, frame: FrameCursor) -> None:
        """A frame of the peer that serves the stream."""

    def caller_lost(self, now: float) -> None:
        """The peer that began it is gone."""

    def route_lost(self, stream_id: int, peer: "Peer", now: float) -> None:
        """A peer that served it is gone: `stream_id` was its stream there, and is taken out of its table."""


class Peer:
    """One connection. The owner of a route, and what the edge holds in its hand."""

    __slots__ = (
        "_bytes_out",
        "_dirty",
        "_fed",
        "_has_wrapped",
        "_next_id",
        "_writer",
        "_messages",
        "address",
        "announcements_at",
        "begins",
        "begun",
        "bytes_in",
        "caller_service",
        "connected_at",
        "connected_at_ms",
        "connection",
        "end_detail",
        "end_reason",
        "feeders",
        "feeds",
        "flows",
        "fragments_at",
        "frame",
        "gathered_bytes",
        "granting",
        "heard_at",
        "id",
        "is_congested",
        "is_ending",
        "is_extra",
        "is_fed",
        "is_framed",
        "is_lost",
        "keepalives_at",
        "latest_at",
        "latest_flow",
        "latest_metadata",
        "latest_target",
        "latest_to",
        "link",
        "look_at",
        "max_streams",
        "merging_bytes",
        "merging_n",
        "mimes",
        "name",
        "origin",
        "pending_bytes",
        "principal",
        "requests",
        "route",
        "session",
        "settings",
        "streams",
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
        fed: "list[Peer]",
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
        # Callers repeat themselves: the metadata of the latest request, its target and its flow are tried first. Saves
        # a walk through the metadata and three lookups per request (see `engine.handle_request`).
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
        self.granting: Granting | None = None  # what it grants, when its SETUP asked for leases
        self.mimes = -1  # number of its pair of mime types, see `translate`; -1 before the SETUP
        self.gathered_bytes = 0  # fragments held back until their ADDRESS is whole; bounded by max_metadata_bytes
        self.waiting_n = 0  # requests that wait for a route; bounded by max_waiting_per_connection
        self.waiting_bytes = 0  # of their frames, with FRAME_COST for each; bounded by max_waiting_bytes
        self.merging_bytes = 0  # items of its multicasts that wait; bounded by multicast_buffer_bytes
        self.merging_n = 0  # branches of its multicasts that may send items, and share those bytes
        self.connected_at: Final = now
        self.connected_at_ms: Final = at_ms
        self.heard_at = now
        self.look_at = 0.0  # when the core looks at it next; whatever else stands in its heap is out of date
        self.bytes_in = 0
        self._bytes_out = 0
        self.requests = 0  # begun by the peer, ever
        self.is_congested = False  # the edge says: it does not take what is written to it
        self.is_fed = False  # it is in `_fed`, for one of both reasons
        # By id: callers not read from until it does, and links, which are; bounded by the connections.
        self.feeders: dict[int, Peer] = {}
        self.feeds: dict[int, Peer] = {}  # congested peers that it feeds, by id; it is not read from meanwhile
        self.pending_bytes = 0  # of output that nobody has taken
        self.unsent_bytes = 0  # of what was taken: not accepted by the peer's system at the edge's last look
        self.address = ""  # where it comes from and who it is, as connections are counted; see `guards.Census`
        self.principal = ""
        # When its buckets are full again, seconds, monotonic; see `guards.Rate`.
        self.keepalives_at = 0.0
        self.announcements_at = 0.0  # ROUTE_SETUPs
        self.fragments_at = 0.0  # small ones
        self.is_extra = False  # it was let in where one without a socket has its place, because it may be that one
        self.is_ending = False  # nothing is read from it any more; the transport closes once the output is written
        self.is_lost = False  # the transport is gone
        self.end_reason = ""  # code word, once it is ending or lost
        self.end_detail = ""
        self.session: Session | None = None  # what it may come back to; None unless its SETUP asked for that
        self._next_id = 1 + begins  # the other parity; 0 is no stream
        self._has_wrapped = False  # ids are given for the second time
        self._writer = BytesWriter()  # output of a framed peer
        self._messages: list[bytes] = []  # output of one that is not
        self._dirty: Final = dirty  # the core's list of peers with output
        self._fed: Final = fed  # the core's list of congested peers that were sent requests, and of overrun sessions

    @property
    def is_paused(self) -> bool:
        """It is not to be read from now."""
        return len(self.feeds) > 0

    @property
    def is_open(self) -> bool:
        """The SETUP was accepted and nobody ended the connection."""
        return self.connection.state == OPEN and not self.is_ending

    @property
    def is_suspended(self) -> bool:
        """Its transport is gone and it may come back; frames for it wait in its session."""
        return self.session is not None and self.session.is_suspended

    @property
    def bytes_out(self) -> int:
        """Bytes handed to the transport, frame lengths included."""
        return self._bytes_out

    @property
    def buffered_bytes(self) -> int:
        """All that waits in the broker because of this connection, in either direction."""
        held_bytes = self.gathered_bytes + self.waiting_bytes + self.merging_bytes
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

    def forward(self, frame: FrameCursor, stream_id: int) -> None:
        """Writes the frame as it came, with another stream id."""
        if self.session is not None:
            self._forward_in_session(frame, stream_id)
            return
        if not self.pending_bytes:
            self._dirty.append(self)
        if self.is_congested and stream_id & 1 != self.begins and not self.is_fed:
            self.is_fed = True
            self._fed.append(self)
        # Machine words: said to be ints, they would be tested at each step for being too large for one (1 in 12
        # instructions of a local request).
        start: i64 = frame.start
        end: i64 = frame.end
        size: i64 = end - start
        data = frame.data
        if not self.is_framed:
            self._messages.append(stream_id.to_bytes(4, "big") + data[start + 4 : end])
            self.pending_bytes += size
            return
        writer = self._writer
        if size < _SMALL_BYTES:
            # Length, stream id and the byte with the type in one write.
            number: i64 = stream_id
            write_i64_be(writer, (size << 40) | (number << 8) | data[start + 4])
            writer.write(data[start + 5 : end])
        else:
            length: int = size
            writer.write(((length << 32) | stream_id).to_bytes(7, "big"))
            writer.write(data[start + 4 : end])
        self.pending_bytes += size + 3

    def forward_stamped(
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
        if self.session is not None or not self.is_framed or size >= _SMALL_BYTES or flags & FOLLOWS:
            self._request_stamped(frame, stream_id, prefix, rest, length)
            return
        if not self.pending_bytes:
            self._dirty.append(self)
        if self.is_congested and not self.is_fed:
            self.is_fed = True
            self._fed.append(self)
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
        if self.is_congested and not self.is_fed:
            self.is_fed = True
            self._fed.append(self)
        self.send(raw)

    def end(self, reason: str, detail: str) -> None:
        """No more is read; the transport closes when the output is written. The first reason stays."""
        if self.is_ending:
            return
        self.is_ending = True
        self.end_reason = reason
        self.end_detail = detail
        self.frame.close()
        if not self.pending_bytes and not self.is_lost:
            self._dirty.append(self)

    def take_output(self) -> list[bytes]:
        """What waits: one piece with all of it when framed, else one message each. It is the caller's then."""
        self._bytes_out += self.pending_bytes
        if not self.pending_bytes:
            return []
        size = self.pending_bytes
        self.pending_bytes = 0
        if self.is_framed:
            piece = self._writer.getvalue()
            if size <= _KEPT_BYTES:
                self._writer.truncate(0)
            else:
                self._writer = BytesWriter()  # truncating keeps the memory
            return [piece]
        messages = self._messages
        self._messages = []
        return messages

    def drop_output(self) -> None:
        """What waits will not be written: there is no room for it any more."""
        self._messages = []
        self._writer = BytesWriter()
        self.pending_bytes = 0

    def forget(self) -> None:
        """The transport is gone, and the peer with it."""
        self.detach()
        self.is_lost = True

    def detach(self) -> None:
        """The transport is gone: what waits, and half a frame that came, are worth nothing."""
        self.frame.close()
        self.drop_output()
        self.unsent_bytes = 0

    def attach(self, newcomer: "Peer", now: float) -> bytes:
        """Takes over the transport of another peer, whose RESUME is being looked at; the bytes that came behind it.

        The newcomer is as good as lost then: it has no transport.
        """
        rest = newcomer.frame.take_rest()
        self.name = newcomer.name
        self.is_framed = newcomer.is_framed
        self.frame = FrameCursor(newcomer.is_framed, self.settings.max_frame_bytes)
        self.heard_at = now
        self.bytes_in += newcomer.bytes_in - len(rest)
        newcomer.bytes_in = 0
        # Each is counted where it is from: the newcomer takes the peer's old place with it.
        self.address, newcomer.address = newcomer.address, self.address
        self.principal, newcomer.principal = newcomer.principal, self.principal
        newcomer.forget()
        return rest

    def _forward_in_session(self, frame: FrameCursor, stream_id: int) -> None:
        raw = u32_bytes(stream_id) + frame.data[frame.start + 4 : frame.end]
        if stream_id & 1 == self.begins:
            self.send(raw)
        else:
            self.request(raw)

    def _request_stamped(
        self, frame: FrameCursor, stream_id: int, prefix: bytes, rest: bytes, metadata_bytes: int
    ) -> None:
        credit = initial_n(frame.data, frame.start).to_bytes(4, "big") if frame.kind >= REQUEST_STREAM else b""
        header = ((stream_id << 16) | (frame.kind << 10) | frame.flags | METADATA).to_bytes(6, "big")
        self.request(header + credit + metadata_bytes.to_bytes(3, "big") + prefix + rest)

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
        if session.is_overrun and not self.is_fed:
            self.is_fed = True  # the core looks through that list when the frame at hand has been dealt with
            self._fed.append(self)
        return not session.is_suspended
