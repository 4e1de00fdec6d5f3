"""Multicast over links: which routes get a branch, which links one for many routes, and its annotations (D-51).

    b1: caller, route 1     to-override                    b1 ──► route 1
    b2: route 2             broker:b2,b3 on the link       b1 ──► b2 ──► route 2
    b3: route 3 and 4       broker:b3 on the next          b1 ──► b2 ──► b3 ──► route 3, route 4

One copy per next hop, that parts as late as it can. Does not know what becomes of the answers: `multicast` does.
"""

from typing import Final

from broker.forwarding.callers import caller_for, entry_of, reader_key
from broker.forwarding.interbroker.annotations import (
    RouterAnnotations,
    Section,
    copy_override,
    entry_head,
    is_like_ours,
    role_part,
)
from broker.forwarding.interbroker.remote import Remote, is_behind
from broker.forwarding.interbroker.retry import STALE, is_refused
from broker.forwarding.interbroker.rewrite import is_streaming, rewritten
from broker.forwarding.mime_translation import COMPOSITE, passes
from broker.forwarding.multicast.call import Branch, MulticastCall
from broker.forwarding.multicast.opening import BranchRequest, Opening, open_multicast, push_to_all
from broker.forwarding.peer import Peer
from broker.forwarding.request import CongestedRequest, Request, RequestContext, deadline_at, owner_of
from broker.forwarding.rights import Rights
from broker.forwarding.traffic.flows import COMPLETED, Flow
from broker.routing.table import Route
from broker.routing.targets import Target
from rsocket_wire.errors import BrokerError, Refusal
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES, FrameCursor


class LinkBranch(Branch):
    """The one branch of a multicast that stands for all its routes behind one link (D-51).

    The broker at the other end makes one stream of what its routes, and those behind it, answer. That it has no such
    route (any more) is no answer: then the branch has left.
    """

    __slots__ = ("_broker", "_is_heard", "_routes")

    def __init__(self, call: MulticastCall, server: Peer, routes: list[Route]) -> None:
        super().__init__(call, server, None)
        self._routes: Final = routes
        self._broker: Final = server.link.name if server.link is not None else ""  # no address: callers get to see it
        self._is_heard = False

    def is_within(self, rights: Rights) -> bool:
        return are_within(self._routes, self.server, rights)

    @property
    def service(self) -> str:
        return self._broker

    def from_route(self, frame: FrameCursor) -> None:
        if not self._is_heard:
            self._is_heard = True
            if frame.kind == frames.ERROR and is_refused(frame, STALE):
                self.lost(frame.now)
                return
        super().from_route(frame)


class LinkRequest(BranchRequest):
    """What is sent over a link."""

    __slots__ = ("_routes",)

    def __init__(self, link: Peer, raw: bytes, routes: list[Route]) -> None:
        """`routes`: that it is for, as far as rights count here."""
        super().__init__(link, None, raw)
        self._routes: Final = routes

    def is_within(self, rights: Rights) -> bool:
        return are_within(self._routes, self.server, rights)

    def open(self, call: MulticastCall, frame: FrameCursor) -> None:
        call.enter_branch(LinkBranch(call, self.server, self._routes), frame)


class Group:
    """Brokers behind one next hop."""

    def __init__(self, hop: Peer, remote: Remote) -> None:
        self.hop: Final = hop
        self.remote: Final = remote  # the first of them
        self.names: Final[list[str]] = [remote.name]
        self.routes: Final[list[Route]] = []  # of a client's request, where identities are judged: that it is for


class Groups:
    """Brokers by next hop, in the order in which they were added."""

    def __init__(self) -> None:
        self._by_hop: Final[dict[int, Group]] = {}  # by the peer's number; bounded by the links

    def add(self, remote: Remote) -> Group:
        """One that a way leads to; twice is as good as once. Where it belongs to."""
        hop = remote.via
        assert hop is not None  # whoever calls has looked
        group = self._by_hop.get(hop.id)
        if group is None:
            group = self._by_hop[hop.id] = Group(hop, remote)
        elif remote.name not in group.names:
            group.names.append(remote.name)
        return group

    def all(self) -> list[Group]:
        """One for each next hop."""
        return list(self._by_hop.values())


class LinkFanout:
    """The multicasts of one broker that go to other brokers, or come from them."""

    def __init__(self, context: RequestContext, annotations: RouterAnnotations) -> None:
        self._context: Final = context
        self._annotations: Final = annotations

    # Ingress

    def spread(self, peer: Peer, frame: FrameCursor, request: Request, target: Target, routes: list[Route]) -> None:
        """A client's request for all these routes, some of which other brokers have."""
        context = self._context
        local: list[Route] = []
        groups = Groups()
        routes_n = 0
        is_told = False  # some of the others' wants to know who the caller is
        role = role_part(target, context.query.only_observes)
        for route in routes:
            owner = route.owner
            if isinstance(owner, Peer):
                local.append(route)
                routes_n += 1
            elif isinstance(owner, Remote) and goes(owner, role):
                group = groups.add(owner)
                if context.denials.is_on:
                    group.routes.append(route)
                is_told = is_told or route.load.wants_caller
                if is_behind(route):
                    context.congested_requests.append(CongestedRequest(peer, route))
                routes_n += 1
        far = groups.all()
        if not local and not far:
            text = "no path leads to any broker with a route of this request"
            context.refuse(peer, frame.stream_id, frame.kind, target, Refusal("no-route", text))
            return
        mimes = context.mimes[request.mimes]
        needs_whole = len(far) > 0 and mimes.kind != COMPOSITE
        for route in local:
            needs_whole = needs_whole or not passes(mimes, context.mimes[owner_of(route).mimes])
        is_push = frame.kind == frames.METADATA_PUSH
        if needs_whole and not is_push and context.must_wait(peer, frame, request, target):
            return
        raw_address = request.data[request.address_at : request.address_to]
        if request.reassembly is not None:
            if needs_whole and not context.merge(peer, request, request.reassembly.metadata, target):
                return
            frame = context.cursor(request.reassembly.frames[0], frame.now)
            context.locate(frame, request)
        # Before a copy is made for anybody.
        if context.refuse_wide(peer, frame, target, len(local) + len(far), routes_n):
            return
        metadata = request.data[request.metadata_at : request.metadata_to]
        parts: list[BranchRequest] = []
        raws: dict[int, bytes] = {}  # by `reader_key`
        for route in local:
            owner = owner_of(route)
            key = reader_key(route, owner)
            if key not in raws:
                caller = caller_for(route, owner, peer)
                try:
                    translated = context.translated(request.mimes, owner, metadata, raw_address, not is_push, caller)
                except BrokerError as error:
                    if not is_push:  # which has no answer
                        context.refuse(peer, frame.stream_id, frame.kind, target, Refusal("bad-address", error.text))
                        return
                    continue
                raws[key] = rewritten(frame, frame.stream_id, request.metadata_to, translated)
            parts.append(BranchRequest(owner, route, raws[key]))
        for group in far:
            link = group.hop.link
            if link is not None and link.version:
                is_odd = is_like_ours(metadata, 0, len(metadata))
                to = copy_override(group.names, target.redirected, role)
                prefix = self._annotations.named_prefix(to, is_streaming(frame), mimes, is_odd)
                if is_told:
                    prefix += entry_of(peer)
                if mimes.kind != COMPOSITE:
                    prefix += entry_head(mimes, len(metadata))
                annotated = prefix + metadata
            else:
                annotated = context.translated(request.mimes, group.hop, metadata, raw_address, not is_push) or b""
            raw = rewritten(frame, frame.stream_id, request.metadata_to, annotated)
            parts.append(LinkRequest(group.hop, raw, group.routes))
        flow = context.flow(peer, target, None, frame.kind)
        self._open(peer, frame, request, target, flow, parts, routes_n)

    # From other brokers

    def spread_on(
        self,
        peer: Peer,
        frame: FrameCursor,
        request: Request,
        section: Section | None,
        service: str,
        parts: list[BranchRequest],
        groups: Groups,
    ) -> None:
        """A link's request for these parts of ours, and for brokers behind us; at least one of both."""
        rest = request.data[request.rest_at : request.metadata_to]
        for group in groups.all():
            assert section is not None  # without one a request goes no further
            try:
                entry = self._annotations.redirected(section, copy_override(group.names, service, section.role_part))
            except BrokerError:
                continue  # no room for one more name: too many hops for this copy
            raw = rewritten(frame, frame.stream_id, request.metadata_to, entry + rest)
            parts.append(LinkRequest(group.hop, raw, []))
        self._open(peer, frame, request, None, self._context.flows.relayed, parts, 0)

    # Parts

    def _open(
        self,
        peer: Peer,
        frame: FrameCursor,
        request: Request,
        target: Target | None,
        flow: Flow,
        parts: list[BranchRequest],
        routes_n: int,
    ) -> None:
        context = self._context
        kind = frame.kind
        now = frame.now
        stream_id = frame.stream_id
        size = frame.end - frame.start
        for part in parts:
            if len(part.raw) > MAX_FRAME_BYTES:
                context.refuse_large(peer, frame, target, len(part.raw))
                return
        if kind == frames.METADATA_PUSH:
            push_to_all(context.steps, peer, parts, now)
            flow.count(COMPLETED, 0, 1, 0, size, 0, now, context.choice, routes_n)
            return
        has_credit = kind == frames.REQUEST_STREAM or kind == frames.REQUEST_CHANNEL
        credit_n = frames.initial_n(frame.data, frame.start) if has_credit else 0
        call = open_multicast(context.steps, peer, stream_id, flow, kind, now, credit_n, len(parts))
        call.choice = context.choice
        call.routes_n = routes_n
        call.enter(frame.flags, size)
        if target is not None and target.deadline_ms > 0 and kind != frames.REQUEST_FNF:
            call.timer = context.timers.put(deadline_at(target, request, now), call)
        opening = Opening(context, call, parts, request.reassembly, False)
        if not call.may_at_once(len(parts), now):
            call.add_step(opening)
        elif opening.advance(len(parts), now):
            opening.advance(0, now)  # that was all


def are_within(routes: list[Route], server: Peer, rights: Rights) -> bool:
    """The rights allow all of these routes behind a link: what goes there is one request, and ends as one."""
    return all(rights.allow(route, server) for route in routes)


def goes(remote: Remote, role: str) -> bool:
    """A way leads there, and requests may take it. `role`: of who asks, which is said in annotations; empty: none."""
    link = remote.via.link if remote.via is not None else None
    return link is not None and (link.version > 0 or (link.id == remote.id and not role))
