"""Requests between brokers: what goes out to another one, and what comes in from one (D-49, D-50).

    ingress    a client's request whose route another broker has     `send`: stamped, passed on to the next hop
    transit    a link's request whose route yet another one has      its name added to the trace, passed on
    last hop   a link's request whose route is here                  stripped, then as if the caller were connected here

The decision of the ingress holds: who gets it is not chosen again, but where nothing was decided, or where nobody could
be told that it does not hold. Links are never closed for what stands in front of a request: the request is refused.
"""

from typing import Final

from broker.errors import BrokerError, InvalidFrame, Refusal
from broker.forwarding.desk import Desk, Request, blocked_of, deadline_at
from broker.forwarding.flows import COMPLETED
from broker.forwarding.hops import (
    ANNOTATIONS_HEAD,
    CALLER_MIMES_HEAD,
    DATA_MIME,
    WORD,
    Hops,
    Section,
    decode_caller_mimes,
    find_section,
    with_entry,
    without_sections,
)
from broker.forwarding.peers import Peer
from broker.forwarding.remotes import Remote
from broker.forwarding.retries import Retriable, Tries
from broker.forwarding.splices import Splice
from broker.forwarding.stamps import restamped
from broker.forwarding.translate import COMPOSITE, passes
from broker.routing.bitmaps import Slots
from broker.routing.table import Route
from broker.routing.targets import Target
from broker.rsocket.frames import (
    FOLLOWS,
    METADATA_PUSH,
    REQUEST_FNF,
    REQUEST_STREAM,
    encode_request_n,
    request_parts,
)
from broker.rsocket.framing import MAX_FRAME_BYTES, FrameCursor
from broker.rsocket.metadata import COMPOSITE_MIME, CUT, find_broker_frame
from broker.rsocket.resumption import FRAME_COST
from broker.wire.frames import MULTICAST, SHARD
from broker.wire.ints import u24_at

_BREAKS_OFF: Final = "the composite metadata of the request breaks off"
_HEAD_BYTES: Final = len(ANNOTATIONS_HEAD)
_MIMES_HEAD_BYTES: Final = len(CALLER_MIMES_HEAD)


class Relays(Tries):
    """The requests of one broker's links, and those of its clients that go out on them."""

    __slots__ = ("_again", "_desk", "_keeps_section", "_link_mimes", "_mimes_by_raw", "hops")

    def __init__(self, desk: Desk, hops: Hops) -> None:
        self._desk: Final = desk
        self.hops: Final = hops
        self._keeps_section: Final = desk.settings.annotations_to_clients == "keep"
        self._link_mimes = -1  # number of the pair that links have; -1 until it is needed
        self._mimes_by_raw: dict[bytes, int] = {}  # by what says them; bounded by MAX_MIMES
        self._again: Final = Request()  # of the request that is decided upon once more
        self._again.is_second = True

    # Ingress

    def send(
        self, peer: Peer, frame: FrameCursor, request: Request, target: Target, route: Route, remote: Remote
    ) -> Peer | None:
        """A client's request for a route of another broker goes out. The peer to send it to as it is, without a stamp:
        only where the link carries none; None: it is dealt with.
        """
        desk = self._desk
        server = remote.via
        link = server.link if server is not None else None
        if server is None or link is None or (not link.version and link.id != remote.id):
            text = f"no way leads to the broker {remote.name}, which has the route"
            desk.turn_away(peer, frame, request, target, Refusal("no-route", text))
            return None
        if not link.version:
            return server
        kind = frame.kind
        gathering = request.gathering
        mimes = desk.mimes[request.mimes]
        metadata_at, metadata_to = request.metadata_at, request.metadata_to
        if gathering is not None:
            if mimes.kind != COMPOSITE and not self._merge(peer, request, gathering.metadata, target):
                return None
            frame = desk.cursor(gathering.frames[0], frame.now)
            metadata_at, metadata_to = request_parts(frame.data, frame.start, frame.end, kind, frame.flags)
        is_streaming = kind >= REQUEST_STREAM or frame.flags & FOLLOWS != 0
        prefix = self.hops.prefix(route, is_streaming, mimes, target.redirected)
        metadata = frame.data[metadata_at:metadata_to]
        if mimes.kind != COMPOSITE:
            metadata = with_entry(mimes, metadata)
        size = frame.end - frame.start
        if size + len(prefix) + len(metadata) > MAX_FRAME_BYTES and self._is_large(
            peer, frame, target, size + len(prefix) + len(metadata) - metadata_to + metadata_at
        ):
            return None
        stream_id = server.open_id()
        raw = restamped(frame, stream_id, metadata_to, prefix + metadata)
        flow = desk.flow(peer, target, route, kind)
        if kind == REQUEST_FNF and not frame.flags & FOLLOWS:
            route.load.take()
            server.request(raw)
            flow.count(COMPLETED, 0, 1, 0, size, 0)
            return None
        if (
            frame.flags & FOLLOWS
            or request.is_second
            or peer.waiting_bytes + size + FRAME_COST > desk.settings.max_waiting_bytes
        ):
            splice = Splice(peer, frame.stream_id, server, stream_id, route, flow, kind, request.began_at or frame.now)
        else:
            kept = frame.data[frame.start : frame.end]
            splice = Retriable(
                peer, frame.stream_id, server, stream_id, route, flow, kind, frame.now, target, kept, self
            )
        splice.open_as(frame, raw)
        if target.deadline_ms > 0 and kind != REQUEST_FNF:
            splice.timer = desk.timers.put(deadline_at(target, request, frame.now), splice)
        if gathering is not None:
            desk.replay(peer, frame.stream_id, gathering, False, frame.now)
        return None

    def try_again(self, splice: Retriable, now: float) -> bool:
        """A decision of ours did not hold: another one, without the route that it fell on. D-50"""
        desk = self._desk
        target = splice.target
        peer = splice.caller
        desk.query.refresh(target)
        if target.refusal is not None:
            return False
        if target.routing == SHARD and target.generation == splice.generation:
            return False  # nobody else owns the key, as far as this broker knows
        barred = Slots()
        if splice.route.slot >= 0:
            barred.add(splice.route.slot)
        route = desk.query.choose_besides(target, barred, peer.zone, peer.origin, now)
        if route is None:
            return False
        more_n = splice.more_n
        caller_id = splice.caller_id
        frame = desk.cursor(splice.give_up(now), now)
        self.hops.retried_n += 1
        request = self._again
        request.mimes = peer.mimes
        self._locate(frame, request)
        # It was found before, so it is found again.
        request.address_at, request.address_to = desk.find_address(
            peer, frame.data, request.metadata_at, request.metadata_to, False
        )
        request.began_at = splice.opened_at
        desk.give(peer, frame, request, target, route)
        stream = peer.streams.get(caller_id)
        if more_n and stream is not None:
            stream.from_caller(desk.cursor(encode_request_n(caller_id, more_n), now))
        return True

    def stops(self, peer: Peer, frame: FrameCursor, request: Request) -> bool:
        """A client's metadata has the name of annotations in it: True when the request is dealt with, because they are
        there. `annotations_from_clients` says how.
        """
        desk = self._desk
        if desk.mimes[peer.mimes].kind != COMPOSITE:
            return False
        if find_section(request.data, request.metadata_at, request.metadata_to)[0] < 0:
            return False
        policy = desk.settings.annotations_from_clients
        if policy == "reject":
            text = "router annotations are not accepted from clients"
            self._refuse(peer, frame, "from-client", Refusal(WORD, text))
        elif not self._waits(peer, frame, request):
            if policy == "accept":
                self.handle(peer, frame, request)
            else:
                self.hops.stripped_n += 1
                self._strip(peer, frame, request)
        return True

    def _strip(self, peer: Peer, frame: FrameCursor, request: Request) -> None:
        """Takes the annotations of a client out, and begins anew."""
        metadata = without_sections(request.data[request.metadata_at : request.metadata_to])
        gathering = request.gathering
        if gathering is not None:
            gathering.collapse(metadata)
            raw = gathering.frames[0]
        else:
            raw = restamped(frame, frame.stream_id, request.metadata_to, metadata)
        frame = self._desk.cursor(raw, frame.now)
        self._locate(frame, request)
        self._desk.begin(peer, frame, request)

    def _locate(self, frame: FrameCursor, request: Request) -> None:
        """The metadata of the request is that of this frame."""
        request.data = frame.data
        request.metadata_at, request.metadata_to = request_parts(
            frame.data, frame.start, frame.end, frame.kind, frame.flags
        )

    # From other brokers

    def handle(self, peer: Peer, frame: FrameCursor, request: Request) -> None:
        """A new request of another broker. `request` knows its metadata: all of it, if it was gathered."""
        gathering = request.gathering
        if gathering is not None:
            if not self._merge(peer, request, gathering.metadata, None):
                return
            frame = self._desk.cursor(gathering.frames[0], frame.now)
            self._locate(frame, request)
        data = request.data
        at = request.metadata_at
        to = request.metadata_to
        head_to = at + _HEAD_BYTES
        if head_to + 3 > to:
            if self._waits(peer, frame, request):
                return
            self._handle_bare(peer, frame, request)
            return
        if data[at:head_to] != ANNOTATIONS_HEAD:
            self._handle_bare(peer, frame, request)
            return
        rest_at = head_to + 3 + u24_at(data, head_to)
        if rest_at > to:
            if not self._waits(peer, frame, request):
                self._refuse(
                    peer, frame, "malformed", Refusal(WORD, "the composite metadata of the request breaks off")
                )
            return
        try:
            section = self.hops.read(data[head_to + 3 : rest_at])
        except InvalidFrame as error:
            self._refuse(peer, frame, "malformed", Refusal(WORD, error.text))
            return
        refusal = self.hops.refusal_of(section)
        if refusal is not None:
            self._refuse(peer, frame, refusal.word, refusal)
            return
        request.rest_at = rest_at
        self.hops.came(section, frame.now)
        if section.route_id:
            self._to_route(peer, frame, request, section)
        else:
            self._decide(peer, frame, request, section)

    def _handle_bare(self, peer: Peer, frame: FrameCursor, request: Request) -> None:
        """A request without annotations: no loop could be seen, so it goes no further than this broker's own routes."""
        link = peer.link
        if link is None or link.version or self._desk.settings.require_annotations:
            self._refuse(peer, frame, "missing", Refusal(WORD, "missing: a request between brokers begins with them"))
            return
        request.rest_at = request.metadata_at
        self._decide(peer, frame, request, None)

    def _to_route(self, peer: Peer, frame: FrameCursor, request: Request, section: Section) -> None:
        """The ingress has decided."""
        route = section.route
        if route is None or route.slot < 0:
            route = section.route = self._desk.query.find_route(section.route_id)
        owner = route.owner if route is not None else None
        if route is not None and isinstance(owner, Peer):
            self._deliver(peer, frame, request, section, route, owner)
            return
        if route is not None and isinstance(owner, Remote):
            hop = owner.via
            if hop is not None and hop.link is not None and (hop.link.version or hop.link.id == owner.id):
                self._pass_on(peer, frame, request, section, route, hop, b"")
                return
        if frame.kind == REQUEST_FNF or frame.kind == METADATA_PUSH:
            self._decide(peer, frame, request, section)  # nobody could be told
            return
        text = f"{self.hops.name} has no route {section.annotations.to_override}, and knows no way to it"
        self._refuse(peer, frame, "stale-route", Refusal("stale-route", text))

    def _decide(self, peer: Peer, frame: FrameCursor, request: Request, section: Section | None) -> None:
        """Nothing was decided that holds: by the ADDRESS, and never back. No section: here, or nowhere."""
        desk = self._desk
        query = desk.query
        start = self._read_mimes(peer, frame, request)
        if start < 0:
            return
        data = request.data
        at, to = find_broker_frame(data, start, request.metadata_to)
        if at < 0:
            if not self._waits(peer, frame, request):
                what = "breaks off" if at == CUT else "holds no ADDRESS"
                self._refuse(peer, frame, "", Refusal("bad-address", f"the metadata of the request {what}"))
            return
        request.address_at, request.address_to = at, to
        service = section.service if section is not None else ""
        target = query.resolve_as(data, at, to, service) if service else query.resolve(data, at, to)
        if target.refusal is not None:
            self._refuse(peer, frame, "", target.refusal)
            return
        if target.routing == MULTICAST:
            self._refuse(peer, frame, "", Refusal("stale-route", "not yet"))
            return
        barred = self._barred(target, section)
        route = query.choose_besides(target, barred, peer.zone, data[at + 6 : at + 22], frame.now)
        owner = route.owner if route is not None else None
        if route is not None and isinstance(owner, Peer):
            self._deliver(peer, frame, request, section, route, owner)
        elif route is not None and section is not None and isinstance(owner, Remote) and owner.via is not None:
            to_override = f"route:{route.id_text}"
            if target.redirected:
                to_override = f"service:{target.redirected} {to_override}"
            anew = self._renamed(peer, frame, section, to_override)
            if anew:
                self._pass_on(peer, frame, request, section, route, owner.via, anew)
        else:
            self._refuse(peer, frame, "", blocked_of(target))

    def _barred(self, target: Target, section: Section | None) -> Slots:
        """Slots of candidates behind brokers that had the request, or that no way leads to; without a section: of all
        that other brokers have.
        """
        barred = Slots()
        candidates = target.candidates
        assert candidates is not None  # there is no refusal
        for route in candidates.routes():
            owner = route.owner
            if isinstance(owner, Remote) and (section is None or not self._may_go(section, owner.via)):
                barred.add(route.slot)
        return barred

    def _may_go(self, section: Section, hop: Peer | None) -> bool:
        """The request may go that way: there is one, and nobody on it had it before."""
        link = hop.link if hop is not None else None
        if link is None or not link.version:
            return False
        return link.name not in section.trace and link.name != section.annotations.ingress

    def _pass_on(
        self,
        peer: Peer,
        frame: FrameCursor,
        request: Request,
        section: Section,
        route: Route,
        hop: Peer,
        entry: bytes,
    ) -> None:
        """To the next hop; `entry`: the annotations that go on, empty: those that came, and our name."""
        link = hop.link
        assert link is not None  # whoever calls has looked
        name = link.name
        if name in section.trace or name == section.annotations.ingress:
            way = ">".join([*section.trace, self.hops.name, name])
            self._refuse(peer, frame, "loop", Refusal("loop", way))
            return
        if not link.version:
            self._deliver(peer, frame, request, section, route, hop)
            return
        if self._is_full(peer, frame, hop):
            return
        if not entry:
            entry = self._renamed(peer, frame, section, "")
            if not entry:
                return
        self._send_on(peer, frame, request, route, hop, entry + request.data[request.rest_at : request.metadata_to])

    def _deliver(
        self, peer: Peer, frame: FrameCursor, request: Request, section: Section | None, route: Route, server: Peer
    ) -> None:
        """To a route of this broker, as if the caller were connected here."""
        desk = self._desk
        lease = route.load.lease
        if lease is not None and lease.left_n <= 0 and frame.kind != METADATA_PUSH:
            self._refuse(peer, frame, "", Refusal("no-lease", f"the route {route.id_text} has no lease left"))
            return
        if self._is_full(peer, frame, server):
            return
        start = self._read_mimes(peer, frame, request)
        if start < 0:
            return
        to = request.metadata_to
        metadata: bytes | None
        caller = desk.mimes[request.mimes]
        reader = desk.mimes[server.mimes]
        if caller.kind == COMPOSITE and passes(caller, reader):
            metadata = request.data[start:to]
        else:
            if self._waits(peer, frame, request):
                return
            at, end = find_broker_frame(request.data, start, to)
            if at < 0:
                text = "the metadata of the request holds no ADDRESS"
                self._refuse(peer, frame, "", Refusal("bad-address", text))
                return
            raw_address = request.data[at:end]
            metadata = request.data[start:to] if caller.kind == COMPOSITE else raw_address
            try:
                metadata = desk.translated(request.mimes, server, metadata, raw_address, frame.kind != METADATA_PUSH)
            except BrokerError as error:
                self._refuse(peer, frame, "", Refusal("bad-address", error.text))
                return
        if section is not None:
            self.hops.arrived(section)
            if self._keeps_section and reader.kind == COMPOSITE:
                kept = request.data[request.metadata_at : request.rest_at]
                metadata = kept + metadata if metadata is not None else kept
        self._send_on(peer, frame, request, route, server, metadata)

    def _send_on(
        self, peer: Peer, frame: FrameCursor, request: Request, route: Route, server: Peer, metadata: bytes | None
    ) -> None:
        """Joins the streams; `metadata` in place of what came."""
        kind = frame.kind
        size = frame.end - frame.start + (len(metadata) if metadata is not None else 0)
        if size > MAX_FRAME_BYTES and self._is_large(
            peer, frame, None, size - request.metadata_to + request.metadata_at
        ):
            return
        if kind == METADATA_PUSH:
            server.request(restamped(frame, 0, request.metadata_to, metadata))
            route.load.requests += 1
            return
        stream_id = server.open_id()
        raw = restamped(frame, stream_id, request.metadata_to, metadata)
        if kind == REQUEST_FNF and not frame.flags & FOLLOWS:
            route.load.take()
            server.request(raw)
            return
        flow = self._desk.flows.relayed
        Splice(peer, frame.stream_id, server, stream_id, route, flow, kind, frame.now).open_as(frame, raw)
        if request.gathering is not None:
            self._desk.replay(peer, frame.stream_id, request.gathering, True, frame.now)

    # Parts

    def _read_mimes(self, peer: Peer, frame: FrameCursor, request: Request) -> int:
        """Where the caller's own metadata begins; the caller's mime types are known then. -1: refused, or it waits."""
        data = request.data
        at = request.rest_at
        to = request.metadata_to
        head_to = at + _MIMES_HEAD_BYTES
        if head_to + 3 > to or data[at:head_to] != CALLER_MIMES_HEAD:
            request.mimes = self._own_mimes(peer)
            return at
        end = head_to + 3 + u24_at(data, head_to)
        if end > to:
            if not self._waits(peer, frame, request):
                self._refuse(
                    peer, frame, "malformed", Refusal(WORD, "the composite metadata of the request breaks off")
                )
            return -1
        raw = data[head_to + 3 : end]
        number = self._mimes_by_raw.get(raw, -1)
        if number < 0:
            try:
                pair = decode_caller_mimes(raw)
            except InvalidFrame as error:
                self._refuse(peer, frame, "malformed", Refusal(WORD, error.text))
                return -1
            number = self._desk.number_pair(pair[0], pair[1])
            if number < 0:
                text = "too many different pairs of mime types were met, more are not told apart"
                self._refuse(peer, frame, "", Refusal("over-limit", text))
                return -1
            self._mimes_by_raw[raw] = number
        request.mimes = number
        return end

    def _own_mimes(self, peer: Peer) -> int:
        """The pair of a request that says none: that of links, or of the client that may send annotations."""
        if peer.link is None:
            return peer.mimes
        if self._link_mimes < 0:
            self._link_mimes = max(0, self._desk.number_pair(COMPOSITE_MIME, DATA_MIME))
        return self._link_mimes

    def _renamed(self, peer: Peer, frame: FrameCursor, section: Section, to_override: str) -> bytes:
        """The annotations that go on; empty, and refused, when they have no room for one more name."""
        try:
            if to_override:
                return self.hops.redirected(section, to_override)
            return self.hops.onward(section)
        except BrokerError as error:
            self._refuse(peer, frame, "too-many-hops", Refusal("too-many-hops", error.text))
            return b""

    def _merge(self, peer: Peer, request: Request, metadata: bytes, target: Target | None) -> bool:
        """Makes one frame of those that were gathered; False, and refused, when it would be too large."""
        gathering = request.gathering
        assert gathering is not None  # whoever calls has looked
        if len(gathering.frames) > 1 or metadata is not gathering.metadata:
            size = len(metadata) + len(gathering.rest) + 16
            if size > MAX_FRAME_BYTES:
                cursor = self._desk.cursor(gathering.frames[0], 0.0)
                self._desk.refuse_large(peer, cursor, target, size)
                return False
            gathering.collapse(metadata)
        return True

    def _waits(self, peer: Peer, frame: FrameCursor, request: Request) -> bool:
        """True, and the request is held, when more of its metadata may come."""
        if frame.kind == METADATA_PUSH:
            return False
        return self._desk.must_wait(peer, frame, request, None)

    def _is_full(self, peer: Peer, frame: FrameCursor, server: Peer) -> bool:
        """So much waits for the server that the request is refused: nobody stops reading from a link for it."""
        waits_bytes = server.unsent_bytes + server.pending_bytes
        limit = self._desk.settings.max_pending_bytes // 2
        if waits_bytes <= limit:
            return False
        text = f"{waits_bytes} bytes wait for {server.name}, the limit for requests of other brokers is {limit}"
        self._refuse(peer, frame, "", Refusal("over-limit", text))
        return True

    def _is_large(self, peer: Peer, frame: FrameCursor, target: Target | None, size: int) -> bool:
        """The first frame would have `size` bytes: refused if that is too much."""
        if size <= MAX_FRAME_BYTES:
            return False
        self._desk.refuse_large(peer, frame, target, size)
        return True

    def _refuse(self, peer: Peer, frame: FrameCursor, reason: str, refusal: Refusal) -> None:
        """Refuses a request of another broker; `reason` as it is counted, empty: it is not."""
        if reason:
            self.hops.refuse(reason, peer.name, refusal.message)
        self._desk.refuse(peer, frame.stream_id, frame.kind, None, refusal)
