"""Requests between brokers: what goes out to another one, and what comes in from one (D-49, D-50).

    ingress    a client's request whose route another broker has     annotated, passed on to the next hop
    transit    a link's request whose route yet another one has      its name added to the trace, passed on
    last hop   a link's request whose route is here                  stripped, then as if the caller were connected here

The decision of the ingress holds: who gets it is not chosen again, but where nothing was decided, or where nobody could
be told that it does not hold. Links are never closed for what stands in front of a request: the request is refused.
"""

from typing import TYPE_CHECKING, Final

from broker.access.roles import Roles
from broker.forwarding.callers import entry_of, reader_key
from broker.forwarding.interbroker.annotations import (
    ANNOTATIONS_HEAD,
    MAX_SECTION_KEPT,
    ORIGIN_BYTES,
    WORD,
    RouterAnnotations,
    Section,
    behind_sections,
    find_section,
    override_text,
    without_sections,
)
from broker.forwarding.interbroker.delivery import Delivery, no_address
from broker.forwarding.interbroker.fanout import Groups, LinkFanout
from broker.forwarding.interbroker.remote import Remote
from broker.forwarding.interbroker.rewrite import rewritten
from broker.forwarding.mime_translation import COMPOSITE
from broker.forwarding.multicast.opening import BranchRequest
from broker.forwarding.peer import Peer
from broker.forwarding.reassembly import Reassembly
from broker.forwarding.request import TRUNCATED, CongestedRequest, Request, RequestContext, blocked_of, owner_of
from broker.forwarding.unicast import Splice
from broker.routing.bitmaps import Slots
from broker.routing.table import Route
from broker.routing.targets import Target
from rsocket_wire.errors import REJECTED, BrokerError, InvalidFrame, Refusal
from rsocket_wire.rsocket.claims import without_claims
from rsocket_wire.rsocket.frames import (
    FOLLOWS,
    HEADER_BYTES,
    METADATA,
    METADATA_PUSH,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    initial_n,
)
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.metadata import ABSENT, find_broker_frame
from rsocket_wire.wire.frames import MULTICAST
from rsocket_wire.wire.ints import u24_at

if TYPE_CHECKING:  # for the compiler alone: nothing of it is needed when this runs
    from mypy_extensions import i64

# What becomes of a request with annotations of a client:
PASSES: Final = 0  # it has none
STRIP: Final = 1  # it goes on without them
DONE: Final = 2  # it was refused, or waits, or has gone on


_HEAD_BYTES: Final = len(ANNOTATIONS_HEAD)


class Ingress(Delivery):
    """The requests of one broker's links."""

    def __init__(self, context: RequestContext, annotations: RouterAnnotations, fanout: LinkFanout) -> None:
        super().__init__(context, annotations)
        self._query: Final = context.query
        self._fanout: Final = fanout
        self.roles: Roles | None = None  # of this broker, by which roles at other brokers are meant; None: it has none

    # From clients

    def admit(self, peer: Peer, frame: FrameCursor, request: Request) -> int:
        """What becomes of a client's request that has the name of annotations in its metadata: PASSES when none are
        there, STRIP when they are to be taken out first, else DONE. `annotations_from_clients` decides.
        """
        context = self._context
        if context.mimes[peer.mimes].kind != COMPOSITE:
            return PASSES
        if find_section(request.data, request.metadata_at, request.metadata_to)[0] < 0:
            return PASSES
        policy = context.settings.annotations_from_clients
        if policy == "reject":
            text = "router annotations are not accepted from clients"
            self._refuse(peer, frame, "from-client", Refusal(WORD, text))
        elif not self._waits(peer, frame, request):
            if policy != "accept" or (peer.login.reach is not None and not self._query.only_observes):
                return STRIP  # D-98: who has a role decides nothing here
            told = self._telling(peer, frame, request)
            if told is not None:
                self.handle(peer, told, request)
        return DONE

    def _telling(self, peer: Peer, frame: FrameCursor, request: Request) -> FrameCursor | None:
        """The first frame of a client that may write annotations, with what its broker would say of it behind them.

        As `RequestContext.with_metadata`. D-102
        """
        metadata = without_claims(request.data[request.metadata_at : request.metadata_to])
        at = behind_sections(metadata)
        if self._query.table.loads.policies.tells_callers and at:
            metadata = metadata[:at] + entry_of(peer) + metadata[at:]
        return self._context.with_metadata(peer, frame, request, metadata)

    def strip(self, peer: Peer, frame: FrameCursor, request: Request) -> FrameCursor | None:
        """The first frame of a client's request without annotations, which `request` knows then; None: refused."""
        self.annotations.stripped_n += 1
        metadata = without_sections(request.data[request.metadata_at : request.metadata_to])
        return self._context.with_metadata(peer, frame, request, metadata)

    # From other brokers

    def joins_at_once(self, peer: Peer, frame: FrameCursor) -> bool:
        """A frame of another broker on a stream id that is not in use: True when it is a request, and is at its route.

        That is, when it begins like the latest one, and nothing is in the way: nearly always. Else nothing has been
        done, and the engine finds out all there is to say.
        """
        annotations = self.annotations
        section = annotations.near
        if section is None:
            return False
        head = section.head
        rest = section.rest
        kind = frame.kind
        data = frame.data
        end: i64 = frame.end  # machine words, as in `Peer.forward`
        at: i64 = frame.start
        at += HEADER_BYTES + 3  # behind the length of the metadata
        if kind != REQUEST_RESPONSE:
            at += 4
            if kind < REQUEST_STREAM or kind > REQUEST_CHANNEL or at > end or not initial_n(data, frame.start):
                return False
        elif at > end:
            return False
        to: i64 = at + u24_at(data, at - 3)
        head_to: i64 = at + len(head)
        rest_at: i64 = head_to + ORIGIN_BYTES
        rest_to: i64 = rest_at + len(rest)
        if rest_to > to or to > end or section.generation != self._table.generation:
            return False
        # More metadata may follow, with a later ADDRESS (D-69), where fragments do and this one ends with metadata.
        if frame.flags & (METADATA | FOLLOWS) != METADATA and (not frame.flags & METADATA or to == end):
            return False
        if data[at:head_to] != head or data[rest_at:rest_to] != rest:
            return False
        if rest_to < to and find_broker_frame(data, rest_to, to)[0] != ABSENT:  # the last ADDRESS counts: D-69
            return False
        if peer.begun >= peer.max_streams or frame.stream_id & 1 != peer.begins:
            return False
        route = section.route
        if route is None:
            return False
        server = route.owner  # None once the route has left
        load = route.load
        if not isinstance(server, Peer) or server.mimes != section.mimes or load.lease is not None:
            return False
        if load.is_watched and kind == REQUEST_RESPONSE:
            return False
        if server.pending_bytes > self._full_bytes:
            return False
        peer.requests += 1
        path = section.path
        path.requests += 1
        path.last_at = frame.now
        annotations.near_n += 1
        start: i64 = at + section.start
        splice = Splice(peer, frame.stream_id, server, server.open_id(), route, self._relayed, kind, frame.now)
        splice.open_rewritten(frame, b"", data[start:end], to - start)
        return True

    def handle(self, peer: Peer, frame: FrameCursor, request: Request) -> None:
        """A new request of another broker. `request` knows its metadata; of one that is gathered all that is needed."""
        reassembly = request.reassembly
        request.is_counted = reassembly is not None and reassembly.is_counted
        is_in_pieces = reassembly is not None and not reassembly.needs_whole
        if reassembly is not None and not is_in_pieces:
            if not self._context.merge(peer, request, reassembly.metadata, None):
                return
            frame = self._context.cursor(reassembly.frames[0], frame.now)
            self._context.locate(frame, request)
        data = request.data
        at = request.metadata_at
        to = request.metadata_to
        head_to = at + _HEAD_BYTES
        if head_to + 3 > to:
            if self._waits(peer, frame, request):
                return
            self._handle_bare(peer, frame, request)
            return
        annotations = self.annotations
        rest_at = head_to + 3 + u24_at(data, head_to)
        entry = data[at:rest_at]
        if entry == annotations.latest_entry and rest_at <= to:
            section = annotations.latest  # as of the latest request: saves the hashing of some hundred bytes
        elif data[at:head_to] != ANNOTATIONS_HEAD:
            self._handle_bare(peer, frame, request)
            return
        else:
            section = None
        if section is None and rest_at > to:
            if not self._waits(peer, frame, request):
                self._refuse(peer, frame, "malformed", Refusal(WORD, TRUNCATED))
            return
        if section is None:
            try:
                section = annotations.read(data[head_to + 3 : rest_at])
            except InvalidFrame as error:
                self._refuse(peer, frame, "malformed", Refusal(WORD, error.text))
                return
            if len(entry) <= MAX_SECTION_KEPT:
                annotations.latest = section
                annotations.latest_entry = entry
        refusal = section.refusal
        if refusal is not None or section.hops_n > 1:
            refusal = annotations.refusal_of(section)
            if refusal is not None:
                self._refuse(peer, frame, refusal.word, refusal)
                return
        request.rest_at = rest_at
        if not request.is_counted:
            request.is_counted = True
            path = section.path
            path.requests += 1
            path.last_at = frame.now
        route = section.route
        if route is not None and route.slot >= 0:
            owner = route.owner
            if isinstance(owner, Peer):  # nearly always
                may_be = peer.link is not None and not is_in_pieces and not self._is_cut(frame, request)
                may_be = may_be and section.mimes in self._context.mimes  # else they were forgotten
                if may_be and section.is_like_latest(data, at, to, self._table.generation):
                    request.mimes = section.mimes
                    self._deliver(peer, frame, request, section, route, owner, at + section.start)
                else:
                    self._deliver_decided(peer, frame, request, section, route, owner)
                return
        if reassembly is not None and is_in_pieces:
            self._await_all(peer, frame, request, reassembly)  # the route that it waited for has left meanwhile
        elif section.route_id:
            self._to_route(peer, frame, request, section)
        elif section.brokers:
            self._to_brokers(peer, frame, request, section)
        else:
            self._decide(peer, frame, request, section)

    def _handle_bare(self, peer: Peer, frame: FrameCursor, request: Request) -> None:
        """A request without annotations: no loop could be seen, so it goes no further than this broker's own routes."""
        link = peer.link
        if link is None or link.version or self._context.settings.require_annotations:
            self._refuse(peer, frame, "missing", Refusal(WORD, "missing: a request between brokers begins with them"))
            return
        if find_broker_frame(request.data, request.metadata_at, request.metadata_to)[2]:
            if self._waits(peer, frame, request):
                return
            honest = self._context.without_claims(peer, frame, request)  # D-102: who has sent it takes nothing out
            if honest is None:
                return
            frame = honest
        request.rest_at = request.metadata_at
        self._decide(peer, frame, request, None)

    def _to_route(self, peer: Peer, frame: FrameCursor, request: Request, section: Section) -> None:
        """The ingress has decided."""
        route = section.route
        if route is None or route.slot < 0:
            route = section.route = self._table.find(section.route_id)
        owner = route.owner if route is not None else None
        if route is not None and isinstance(owner, Peer):
            self._deliver_decided(peer, frame, request, section, route, owner)
            return
        if route is not None and isinstance(owner, Remote):
            hop = owner.via
            if hop is not None and hop.link is not None and (hop.link.version or hop.link.id == owner.id):
                self._pass_on(peer, frame, request, section, route, hop, b"")
                return
        if frame.kind == REQUEST_FNF or frame.kind == METADATA_PUSH:
            self._decide(peer, frame, request, section)  # nobody could be told
            return
        text = f"{self.annotations.name} has no route {section.annotations.to_override}, and no path to it"
        self._refuse(peer, frame, "stale-route", Refusal("stale-route", text))

    def _deliver_decided(
        self, peer: Peer, frame: FrameCursor, request: Request, section: Section, route: Route, server: Peer
    ) -> None:
        """To the route of this broker that the ingress has chosen, if it still is what the ADDRESS asks for. D-62"""
        start = self._read_mimes(peer, frame, request, section)
        if start < 0:
            return
        data = request.data
        at, to, _ = find_broker_frame(data, start, request.metadata_to)
        if self._awaits_more(peer, frame, request, at >= 0):
            return
        if at < 0 and self._is_cut(frame, request):
            at, to = self._find_begun(peer, frame, request)
            if at < 0:
                return
        if at < 0:
            self._refuse(peer, frame, "", no_address(at))
            return
        request.address_at, request.address_to = at, to
        target = self._query.resolve_decided(data, at, to, section.service)
        reassembly = request.reassembly
        is_in_pieces = reassembly is not None and not reassembly.needs_whole
        if target.means(route):
            if reassembly is not None and is_in_pieces:
                if not self._is_same(request, server):
                    self._await_all(peer, frame, request, reassembly)
                    return
                # They go on as they came: what stands before the caller's metadata is all in the first one.
                start -= request.metadata_at
                request.rest_at -= request.metadata_at
                self._context.locate(frame, request)
                start += request.metadata_at
                request.rest_at += request.metadata_at
            elif peer.link is not None:
                self._remember(request, section, start, route.load.wants_caller)
            self._deliver(peer, frame, request, section, route, server, start)
        elif frame.kind != REQUEST_FNF and frame.kind != METADATA_PUSH:
            text = f"the route {route.id_text} of {self.annotations.name} no longer matches {target.label}"
            self._refuse(peer, frame, "stale-route", Refusal("stale-route", text))
        elif reassembly is not None and is_in_pieces:
            self._await_all(peer, frame, request, reassembly)
        else:
            self._decide(peer, frame, request, section)  # nobody could be told

    def _decide(self, peer: Peer, frame: FrameCursor, request: Request, section: Section | None) -> None:
        """Nothing was decided that holds: by the ADDRESS, and never back. No section: here, or nowhere."""
        context = self._context
        query = context.query
        target = self._resolve(peer, frame, request, section)
        if target is None:
            return
        if target.refusal is not None:
            self._refuse(peer, frame, "", target.refusal)
            return
        if target.routing == MULTICAST:
            self._to_all(peer, frame, request, section, target)
            return
        barred = self._barred(target, section)
        at = request.address_at
        origin = request.data[at + 6 : at + 22]
        route = query.choose_excluding(target, barred, peer.zone, origin, frame.now)
        owner = route.owner if route is not None else None
        if route is not None and isinstance(owner, Peer):
            start = self._read_mimes(peer, frame, request, section)
            self._deliver(peer, frame, request, section, route, owner, start)
        elif route is not None and section is not None and isinstance(owner, Remote) and owner.via is not None:
            to_override = override_text(section.role_part, target.redirected, f"route:{route.id_text}")
            anew = self._renamed(peer, frame, section, to_override)
            if anew:
                self._pass_on(peer, frame, request, section, route, owner.via, anew)
        else:
            if target.blocked_service is not None:
                self._context.ask_full(peer, target, target.blocked_service, frame.now)
            self._refuse(peer, frame, "", blocked_of(target))

    def _resolve(self, peer: Peer, frame: FrameCursor, request: Request, section: Section | None) -> Target | None:
        """What the ADDRESS asks for, or what the section says instead; None: refused, or it waits."""
        start = self._read_mimes(peer, frame, request, section)
        if start < 0:
            return None
        data = request.data
        at, to, _ = find_broker_frame(data, start, request.metadata_to)
        if at >= 0 and request.reassembly is None and self._awaits_more(peer, frame, request, True):
            return None
        if at < 0:
            if not self._waits(peer, frame, request):
                self._refuse(peer, frame, "", no_address(at))
            return None
        request.address_at, request.address_to = at, to
        query = self._query
        service = section.service if section is not None else ""
        if section is not None and section.role_part:
            role = self.roles.find_named(section.role) if self.roles is not None else None
            if role is None:
                text = f"the broker {self.annotations.name} has no role {section.role}, which the caller has"
                self._refuse(peer, frame, "", Refusal("denied", text, REJECTED))
                return None
            reach = self._table.reaches.find_named(role, section.identity)
            return query.resolve_within(reach, data, at, to, service)
        return query.resolve_as(data, at, to, service) if service else query.resolve(data, at, to)

    def _to_brokers(self, peer: Peer, frame: FrameCursor, request: Request, section: Section) -> None:
        """The copy of a multicast: for our own routes if we are named, and on towards the others that are. D-51"""
        local: list[Route] = []
        if self.annotations.name in section.brokers:
            target = self._resolve(peer, frame, request, section)
            if target is None:
                return
            if target.refusal is None:
                all = self._context.choose_all(peer, request, target)
                local = [route for route in all if isinstance(route.owner, Peer)]
        groups = Groups()
        for name in section.brokers:
            remote = self.annotations.remotes.get(name)
            if remote is not None and self._may_go(section, remote.via):
                self._add(peer, groups, remote)
        self._spread(peer, frame, request, section, section.service, local, groups)

    def _to_all(
        self, peer: Peer, frame: FrameCursor, request: Request, section: Section | None, target: Target
    ) -> None:
        """A multicast about which nothing was decided: ours, and copies towards brokers that had it not."""
        local: list[Route] = []
        groups = Groups()
        for route in self._context.choose_all(peer, request, target):
            owner = route.owner
            if isinstance(owner, Peer):
                local.append(route)
            elif isinstance(owner, Remote) and section is not None and self._may_go(section, owner.via):
                self._add(peer, groups, owner)
        self._spread(peer, frame, request, section, target.redirected, local, groups)

    def _add(self, peer: Peer, groups: Groups, remote: Remote) -> None:
        """That broker gets a copy, too."""
        if remote.is_behind and peer.link is not None:
            self._context.congested_requests.append(CongestedRequest(peer, None))
        groups.add(remote)

    def _spread(
        self,
        peer: Peer,
        frame: FrameCursor,
        request: Request,
        section: Section | None,
        service: str,
        local: list[Route],
        groups: Groups,
    ) -> None:
        start = self._read_mimes(peer, frame, request, section) if local else 0
        if start < 0:
            return
        if self._context.refuse_wide(peer, frame, None, len(local) + len(groups.all())):
            return
        parts: list[BranchRequest] = []
        raws: dict[int, bytes] = {}  # by `reader_key`
        for route in local:
            server = owner_of(route)
            key = reader_key(route, server)
            if key not in raws:
                if self._must_wait(peer, frame, request, server):
                    return
                try:
                    metadata = self._metadata_for(frame, request, section, start, route, server)
                except BrokerError as error:
                    self._refuse(peer, frame, "", Refusal("bad-address", error.text))
                    return
                raws[key] = rewritten(frame, frame.stream_id, request.metadata_to, metadata)
            parts.append(BranchRequest(server, route, raws[key]))
        if parts and section is not None:
            self.annotations.arrived(section.hops_n)
        if not parts and not groups.all():
            name = self.annotations.name
            text = f"{name} has no route for this multicast, and no path to the other brokers that it names"
            self._refuse(peer, frame, "stale-route", Refusal("stale-route", text))
        else:
            self._fanout.spread_on(peer, frame, request, section, service, parts, groups)

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

    def _await_all(self, peer: Peer, frame: FrameCursor, request: Request, reassembly: Reassembly) -> None:
        """A request that was held until its ADDRESS was there cannot go on in pieces."""
        reassembly.needs_whole = True
        if reassembly.is_whole:
            self.handle(peer, frame, request)
        else:
            self._context.wait(reassembly)
