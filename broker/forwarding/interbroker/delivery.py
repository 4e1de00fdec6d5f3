"""How a request of another broker goes on: to a route of this broker, or to the next hop (D-49).

A route of this broker gets it as if the caller were connected here: without annotations, with metadata that it can
read. The next hop gets this broker's name added to the trace. What cannot go on is held or refused. Does not decide
where a request goes: `ingress` does.
"""

from typing import Final

from broker.forwarding.callers import CALLER_HEAD, UNKNOWN_ENTRY
from broker.forwarding.interbroker.annotations import (
    CALLER_MIMES_HEAD,
    DATA_MIME,
    MAX_NEAR_BYTES,
    ORIGIN_BYTES,
    WORD,
    RouterAnnotations,
    Section,
    decode_caller_mimes,
)
from broker.forwarding.interbroker.remote import is_behind
from broker.forwarding.interbroker.rewrite import rewritten
from broker.forwarding.mime_translation import COMPOSITE, passes
from broker.forwarding.peer import Peer
from broker.forwarding.reassembly import Reassembly, is_cut
from broker.forwarding.request import TRUNCATED, CongestedRequest, Request, RequestContext
from broker.forwarding.unicast import Splice
from broker.routing.table import Route
from broker.routing.targets import ORIGIN_AT
from rsocket_wire.errors import BrokerError, InvalidFrame, Refusal
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES, FrameCursor
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, CUT, find_broker_frame
from rsocket_wire.wire.ints import u24_at

MAX_CALLER_MIMES: Final = 4096  # pairs of mime types of callers at other brokers that are remembered

_MIMES_HEAD_BYTES: Final = len(CALLER_MIMES_HEAD)
_MIMES_FIRST: Final = CALLER_MIMES_HEAD[0]
_CALLER_HEAD_BYTES: Final = len(CALLER_HEAD)
_CALLER_FIRST: Final = CALLER_HEAD[0]


class Delivery:
    """Passes the requests of one broker's links on."""

    def __init__(self, context: RequestContext, annotations: RouterAnnotations) -> None:
        self._context: Final = context
        self._table: Final = context.query.table
        self.annotations: Final = annotations
        self._keeps_section: Final = context.settings.annotations_to_clients == "keep"
        self._relayed: Final = context.flows.relayed
        # Bytes that wait for a peer: beyond so many it gets no more requests from links.
        self._full_bytes: Final = context.settings.max_pending_bytes // 2
        self.link_mimes: Final = context.mime_pairs.take(COMPOSITE_MIME, DATA_MIME)  # of links
        # Pairs of callers at other brokers, by what says them, each with a use; bounded by MAX_CALLER_MIMES.
        self.mimes_by_raw: Final[dict[bytes, int]] = {}

    def _pass_on(
        self, peer: Peer, frame: FrameCursor, request: Request, section: Section, route: Route, hop: Peer, entry: bytes
    ) -> None:
        """To the next hop; `entry`: the annotations that go on, empty: those that came, and our name."""
        link = hop.link
        assert link is not None  # whoever calls has looked
        name = link.name
        if name in section.trace or name == section.annotations.ingress:
            way = ">".join([*section.trace, self.annotations.name, name])
            self._refuse(peer, frame, "loop", Refusal("loop", way))
            return
        if not link.version:
            start = self._read_mimes(peer, frame, request, section)
            if start >= 0:
                self._deliver(peer, frame, request, section, route, hop, start)
            return
        if is_behind(route):
            self._context.congested_requests.append(CongestedRequest(peer, route))
        if hop.pending_bytes > self._full_bytes:
            self._refuse_full(peer, frame, route, hop)
            return
        if not entry:
            entry = self._renamed(peer, frame, section, "")
            if not entry:
                return
        self._join(peer, frame, request, route, hop, entry, request.rest_at)

    def _caller_for(self, request: Request, route: Route, server: Peer) -> bytes:
        """What a route of this broker is told of the caller; empty: its service does not want to know. D-102"""
        if not route.load.wants_caller or server.link is not None:
            return b""
        return request.caller or UNKNOWN_ENTRY

    def _deliver(
        self,
        peer: Peer,
        frame: FrameCursor,
        request: Request,
        section: Section | None,
        route: Route,
        server: Peer,
        start: int,
    ) -> None:
        """To a route of this broker, as if the caller were connected here. `start`: of the caller's own metadata."""
        load = route.load
        lease = load.lease
        if lease is not None and lease.left_n <= 0 and frame.kind != frames.METADATA_PUSH:
            self._refuse(peer, frame, "", Refusal("no-lease", f"the route {route.id_text} has no lease left"))
            return
        if load.is_watched and frame.kind == frames.REQUEST_RESPONSE and self._is_busy(peer, frame, route):
            return
        if server.pending_bytes > self._full_bytes:
            self._refuse_full(peer, frame, route, server)
            return
        if self._is_same(request, server):  # nearly always
            if section is not None:
                self.annotations.arrived(section.hops_n)
                if section.hops_n == 1 and section.refusal is None and peer.link is not None and section.head:
                    self.annotations.near = section
            self._join(peer, frame, request, route, server, self._caller_for(request, route, server), start)
            return
        if self._must_wait(peer, frame, request, server):
            return
        try:
            metadata = self._metadata_for(frame, request, section, start, route, server)
        except BrokerError as error:
            self._refuse(peer, frame, "", Refusal("bad-address", error.text))
            return
        if section is not None:
            self.annotations.arrived(section.hops_n)
        self._join_translated(peer, frame, request, route, server, metadata)

    def _is_same(self, request: Request, server: Peer) -> bool:
        """The server gets the caller's metadata as it is."""
        is_composite = self._context.mimes[server.mimes].kind == COMPOSITE
        return request.mimes == server.mimes and is_composite and not self._keeps_section

    def _remember(self, request: Request, section: Section, start: int, wants_caller: bool) -> None:
        """The next request for the route of the section that is like this one needs no second look.

        `wants_caller`: then it does, for who its caller is.
        """
        annotations = self.annotations
        at = request.metadata_at
        if annotations.near is section:
            annotations.near = None
        if request.address_to - at <= MAX_NEAR_BYTES and not wants_caller:
            origin_at = request.address_at + ORIGIN_AT
            section.head = request.data[at:origin_at]
            section.rest = request.data[origin_at + ORIGIN_BYTES : request.address_to]
            section.start = start - at
            section.generation = self._table.generation
            section.mimes = request.mimes

    def _must_wait(self, peer: Peer, frame: FrameCursor, request: Request, server: Peer) -> bool:
        """True, and the request is held, when metadata that this server cannot read as it is has not come whole."""
        caller = self._context.mimes[request.mimes]
        if caller.kind == COMPOSITE and passes(caller, self._context.mimes[server.mimes]):
            return False
        return self._waits(peer, frame, request)

    def _metadata_for(
        self, frame: FrameCursor, request: Request, section: Section | None, start: int, route: Route, server: Peer
    ) -> bytes | None:
        """The caller's metadata as this server can read it; BrokerError when that cannot be."""
        context = self._context
        data = request.data
        to = request.metadata_to
        caller = context.mimes[request.mimes]
        reader = context.mimes[server.mimes]
        metadata: bytes | None
        if caller.kind == COMPOSITE and passes(caller, reader):
            metadata = data[start:to]
        else:
            at, end, _ = find_broker_frame(data, start, to)
            if at < 0:
                raise BrokerError("bad-address", "the metadata of the request holds no ADDRESS")
            raw_address = data[at:end]
            said = data[start:to] if caller.kind == COMPOSITE else raw_address
            metadata = context.translated(request.mimes, server, said, raw_address, frame.kind != frames.METADATA_PUSH)
        told = self._caller_for(request, route, server)
        if told and metadata is not None:
            metadata = told + metadata
        if self._keeps_section and section is not None and reader.kind == COMPOSITE and server.link is None:
            kept = data[request.metadata_at : request.rest_at]
            return kept + metadata if metadata is not None else kept
        return metadata

    def _join(
        self, peer: Peer, frame: FrameCursor, request: Request, route: Route, server: Peer, prefix: bytes, at: int
    ) -> None:
        """Joins the streams; the server gets `prefix` and what the metadata has from `at` on."""
        kind = frame.kind
        to = request.metadata_to
        if kind == frames.METADATA_PUSH:
            self._push(peer, frame, route, server, prefix + request.data[at:to])
            return
        size = frame.end - frame.start + len(prefix) - at + request.metadata_at
        if size > MAX_FRAME_BYTES:
            self._context.refuse_large(peer, frame, None, size)
        elif kind == frames.REQUEST_FNF and not frame.flags & frames.FOLLOWS:
            route.load.take()
            server.forward_rewritten(frame, server.open_id(), prefix, frame.data[at : frame.end], to - at)
        else:
            flow = self._relayed
            splice = Splice(peer, frame.stream_id, server, server.open_id(), route, flow, kind, frame.now)
            splice.open_rewritten(frame, prefix, frame.data[at : frame.end], to - at)
            if request.reassembly is not None:
                reassembly = request.reassembly
                self._context.replay(peer, frame.stream_id, reassembly, reassembly.needs_whole, frame.now)

    def _join_translated(
        self, peer: Peer, frame: FrameCursor, request: Request, route: Route, server: Peer, metadata: bytes | None
    ) -> None:
        """Joins the streams; the server gets this metadata, None: none."""
        if frame.kind == frames.METADATA_PUSH:
            if metadata is not None:
                self._push(peer, frame, route, server, metadata)
            return
        grown = len(metadata) if metadata is not None else 0
        size = frame.end - frame.start - request.metadata_to + request.metadata_at + grown
        if size > MAX_FRAME_BYTES:
            self._context.refuse_large(peer, frame, None, size)
            return
        stream_id = frame.stream_id
        frame = self._context.cursor(rewritten(frame, stream_id, request.metadata_to, metadata), frame.now)
        if frame.kind == frames.REQUEST_FNF and not frame.flags & frames.FOLLOWS:
            route.load.take()
            server.forward(frame, server.open_id())
            return
        Splice(peer, stream_id, server, server.open_id(), route, self._relayed, frame.kind, frame.now).open(frame)
        if request.reassembly is not None:
            self._context.replay(peer, stream_id, request.reassembly, True, frame.now)

    def _push(self, peer: Peer, frame: FrameCursor, route: Route, server: Peer, metadata: bytes) -> None:
        size = frames.HEADER_BYTES + len(metadata)
        if size > MAX_FRAME_BYTES:
            self._context.refuse_large(peer, frame, None, size)
            return
        server.request(frames.encode_metadata_push(metadata))
        route.load.requests += 1

    # Parts

    def _read_mimes(self, peer: Peer, frame: FrameCursor, request: Request, section: Section | None) -> int:
        """Where the caller's own metadata begins; its mime types, and who it is if that was said, are known then.

        -1: refused, or it waits. Without a section nobody has said anything of them: what stands there is the caller's.
        """
        data = request.data
        request.caller = b""
        at = request.rest_at
        to = request.metadata_to
        head_to = at + _MIMES_HEAD_BYTES
        if section is None or head_to + 3 > to or data[at] != _MIMES_FIRST or data[at:head_to] != CALLER_MIMES_HEAD:
            request.mimes = self.link_mimes if peer.link is not None else peer.mimes
            return at if section is None else self._read_caller(peer, frame, request, at)
        end = head_to + 3 + u24_at(data, head_to)
        if end > to:
            if not self._waits(peer, frame, request):
                self._refuse(peer, frame, "malformed", Refusal(WORD, TRUNCATED))
            return -1
        raw = data[head_to + 3 : end]
        number = self.mimes_by_raw.get(raw, -1)
        if number < 0:
            try:
                pair = decode_caller_mimes(raw)
            except InvalidFrame as error:
                self._refuse(peer, frame, "malformed", Refusal(WORD, error.text))
                return -1
            if len(self.mimes_by_raw) >= MAX_CALLER_MIMES:
                self._forget_mimes()
            number = self._context.mime_pairs.take(pair[0], pair[1])
            self.mimes_by_raw[raw] = number
        request.mimes = number
        return self._read_caller(peer, frame, request, end)

    def _read_caller(self, peer: Peer, frame: FrameCursor, request: Request, at: int) -> int:
        """As `_read_mimes`, behind these. What clients say of it was taken out by the broker that they are at."""
        data = request.data
        to = request.metadata_to
        head_to = at + _CALLER_HEAD_BYTES
        if head_to + 3 > to or data[at] != _CALLER_FIRST or data[at:head_to] != CALLER_HEAD:
            return at
        end = head_to + 3 + u24_at(data, head_to)
        if end <= to:
            request.caller = data[at:end]
            return end
        if not self._waits(peer, frame, request):
            self._refuse(peer, frame, "malformed", Refusal(WORD, TRUNCATED))
        return -1

    def _forget_mimes(self) -> None:
        """Forgets the pairs of callers at other brokers: those that come again are read again."""
        for number in self.mimes_by_raw.values():
            self._context.mime_pairs.give_back(number)
        self.mimes_by_raw.clear()

    def _renamed(self, peer: Peer, frame: FrameCursor, section: Section, to_override: str) -> bytes:
        """The annotations that go on; empty, and refused, when they have no room for one more name."""
        try:
            if to_override:
                return self.annotations.redirected(section, to_override)
            return self.annotations.onward(section)
        except BrokerError as error:
            self._refuse(peer, frame, "too-many-hops", Refusal("too-many-hops", error.text))
            return b""

    def _waits(self, peer: Peer, frame: FrameCursor, request: Request) -> bool:
        """True, and the request is held, when more of its metadata may come."""
        if frame.kind == frames.METADATA_PUSH or not self._context.must_wait(peer, frame, request, None):
            return False
        held = peer.streams.get(frame.stream_id)
        if isinstance(held, Reassembly):  # else it was refused
            held.is_counted = request.is_counted
        return True

    def _awaits_more(self, peer: Peer, frame: FrameCursor, request: Request, is_addressed: bool) -> bool:
        """True, and the request is held, when its ADDRESS, or a later one, may be in the fragments that follow. D-69"""
        if not self._is_cut(frame, request):
            return False
        reassembly = request.reassembly
        if reassembly is None:
            reassembly = self._context.gather(peer, frame)
            reassembly.is_counted = request.is_counted
        if not self._context.has_room(reassembly, is_addressed):
            return False
        self._context.wait(reassembly)
        return True

    def _is_cut(self, frame: FrameCursor, request: Request) -> bool:
        """More of its metadata may follow in fragments."""
        if request.reassembly is not None:
            return not request.reassembly.is_whole
        return frame.kind != frames.METADATA_PUSH and is_cut(frame, request.metadata_to)

    def _find_begun(self, peer: Peer, frame: FrameCursor, request: Request) -> tuple[int, int]:
        """The ADDRESS of which enough has come where there is no room for more (D-70); else the request is refused."""
        start = request.metadata_at
        at, to = self._context.find_begun(peer, request.data[start : request.metadata_to])
        if at >= 0:
            return start + at, start + to
        reassembly = request.reassembly
        self._context.wait(reassembly if reassembly is not None else self._context.gather(peer, frame))  # in vain
        return at, 0

    def _is_busy(self, peer: Peer, frame: FrameCursor, route: Route) -> bool:
        """The route has as many request/responses as it may have, or as this link may have there: one more is refused.

        A link is one caller: who asks behind it is not known here, but where they are connected. D-68
        """
        load = route.load
        why = self._context.monopoly_of(peer, load, frame.now)
        limit = load.service.policy.max_in_flight_per_route
        if limit and load.awaited_n >= limit:
            text = f"the route {route.id_text} has {load.awaited_n} requests in flight, {load.limit_text}"
            why = Refusal("over-limit", text)
        if why is not None:
            self._refuse(peer, frame, "", why)
        return why is not None

    def _refuse_full(self, peer: Peer, frame: FrameCursor, route: Route, server: Peer) -> None:
        """So much waits for the server that the request is refused: nobody stops reading from a link for it."""
        server.check_later()
        if frame.kind == frames.REQUEST_FNF or frame.kind == frames.METADATA_PUSH:  # nobody could be told
            self._context.drops.add(route.service)
        limit = f"the limit for requests of other brokers is {self._full_bytes} (half of limits.max_pending_bytes)"
        text = f"{server.pending_bytes} bytes wait for {_name_of(server, route)}, {limit}"
        self._refuse(peer, frame, "", Refusal("over-limit", text))

    def _refuse(self, peer: Peer, frame: FrameCursor, reason: str, refusal: Refusal) -> None:
        """Refuses a request of another broker; `reason` as it is counted, empty: it is not."""
        if reason:
            self.annotations.refuse(reason, peer.name, refusal.message)
        self._context.refuse(peer, frame.stream_id, frame.kind, None, refusal)


def _name_of(server: Peer, route: Route) -> str:
    """Who it is, for other brokers' clients: addresses are not for them."""
    return f"the broker {server.link.name}" if server.link is not None else f"the route {route.id_text}"


def no_address(found: int) -> Refusal:
    """Why `find_broker_frame` has found none."""
    what = "is truncated" if found == CUT else "holds no ADDRESS"
    return Refusal("bad-address", f"the metadata of the request {what}")
