"""The engine: a request comes in, and it is decided where its frames go.

Finds the ADDRESS in the metadata, asks `query` for the candidates, has one chosen, and joins the streams. What can go
wrong before that is refused here, with one sentence. Does not know SETUP, keepalive or sockets (`core` does), and after
the first frame of a request it is out of the way: `unicast` and `multicast` pass the rest on.
"""

from typing import Final

from broker.access.roles import Role
from broker.forwarding.callers import caller_for, reader_key
from broker.forwarding.interbroker.annotations import RouterAnnotations
from broker.forwarding.interbroker.egress import Egress
from broker.forwarding.interbroker.fanout import LinkFanout
from broker.forwarding.interbroker.ingress import PASSES, STRIP, Ingress
from broker.forwarding.interbroker.remote import Remote
from broker.forwarding.interbroker.retry import RetryableSplice
from broker.forwarding.mime_translation import passes
from broker.forwarding.multicast.call import MulticastCall
from broker.forwarding.multicast.opening import BranchRequest, Opening, open_multicast
from broker.forwarding.peer import Peer
from broker.forwarding.pending import PendingRequest, PendingRequests
from broker.forwarding.push import PushRouter
from broker.forwarding.reassembly import COUNT, LOOK_AGAIN, REFUSE_CUT, Reassembly, is_cut
from broker.forwarding.request import Request, RequestContext, RouteSetupInRequest, blocked_of, deadline_at, owner_of
from broker.forwarding.rights import Rights
from broker.forwarding.settings import Settings
from broker.forwarding.traffic.flows import COMPLETED
from broker.forwarding.unicast import Splice
from broker.routing.health.breakers import Breakers
from broker.routing.query import Query
from broker.routing.table import Route
from broker.routing.targets import ORIGIN_AT, ORIGIN_TO, Target
from rsocket_wire.errors import REJECTED as REJECTED_CODE
from rsocket_wire.errors import Refusal
from rsocket_wire.rsocket.connection import is_fatal
from rsocket_wire.rsocket.frames import (
    COMPLETE,
    FOLLOWS,
    IGNORE,
    MAX_N,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    encode_payload,
    encode_request_n,
    initial_n,
    request_parts,
)
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES, FrameCursor
from rsocket_wire.rsocket.metadata import CUT
from rsocket_wire.wire.annotations import ANNOTATIONS_MIME
from rsocket_wire.wire.frames import MULTICAST

# As how many frames that simply pass a frame counts that is more work; measured, interpreted and compiled alike. Misses
# and frames on stream 0 count three times what they cost: interpreted, a slice of them would last longer than a turn.
WALK_N: Final = 4  # a walk through the metadata of a request
ZERO_N: Final = 12  # a frame on stream 0
MISS_N: Final = 48  # an address that nobody remembers
MAX_LATEST_BYTES: Final = 512  # of a request's metadata that is remembered per peer, to be tried first

# Why a request may wait for a route: there is none, those that are there are on their way out, or grant nothing now.
WAITED_FOR: Final = ("no-route", "draining", "no-lease")


class Engine(RequestContext):
    """Requests of all peers of one broker."""

    def __init__(self, settings: Settings, query: Query) -> None:
        super().__init__(settings, query)
        query.prefers_local = settings.locality == "local"
        self.annotations: Final = RouterAnnotations(settings.broker_name, settings.max_hops)
        self.fanout: Final = LinkFanout(self, self.annotations)
        self.egress: Final = Egress(self, self.annotations)
        self.ingress: Final = Ingress(self, self.annotations, self.fanout)
        self.breakers: Final = Breakers(query.services)
        self._pushes: Final = PushRouter(self, self.egress, self.ingress, self.fanout, self.breakers)
        self.pending: Final = PendingRequests(self.decisions, self.timers, settings)
        self.announced: Final[list[RouteSetupInRequest]] = []  # in what was received just now: the core empties it
        self._looked_at = 0  # generation of the masks when the pending requests were looked at
        self.congestions_n = 0  # times that a peer became congested, or was relieved
        self.extra_n = 0  # cost of frames that took more work than others, ever, in frames
        self.ignored = 0  # frames that the protocol says to ignore, and pushes that nobody can be told about
        self.is_draining = False  # no new requests
        self._request: Final = Request()

    def handle_first(self, peer: Peer, frame: FrameCursor) -> str:
        """As `handle_request`, where frames follow or did on this connection: they will be looked through (D-102)."""
        if peer.items:
            peer.items.pop(frame.stream_id, None)
        fault = self.handle_request(peer, frame)
        if frame.flags & FOLLOWS and not fault and frame.stream_id not in peer.items:
            self.later.begin(peer, frame.stream_id, b"", True)
        return fault

    def handle_request(self, peer: Peer, frame: FrameCursor) -> str:
        """A frame on a stream id that is not in use; a fault that ends the connection, or an empty text."""
        kind = frame.kind
        if kind < REQUEST_RESPONSE or kind > REQUEST_CHANNEL or frame.stream_id & 1 != peer.begins:
            if is_fatal(kind, frame.flags):
                return f"frame type 0x{kind:02x} on stream {frame.stream_id} is unknown and may not be ignored"
            # "All other received frames that are not accounted for in previous sections MUST be ignored": late frames
            # of ended streams, and requests with an id that only the broker may use. D-24
            self.ignored += 1
            return ""
        data = frame.data
        metadata_at, metadata_to = request_parts(data, frame.start, frame.end, kind, frame.flags)
        if metadata_at < 0:
            if frame.flags & IGNORE:
                self.ignored += 1
                return ""
            size = frame.end - frame.start
            return f"a request of {size} bytes on stream {frame.stream_id} declares more metadata than it has"
        peer.requests += 1
        self.choice = 0
        if self.is_draining or peer.begun >= peer.max_streams or kind >= REQUEST_STREAM:
            refusal = self._refusal_of(peer, frame)
            if refusal is not None:
                self.refuse(peer, frame.stream_id, kind, None, refusal)
                return ""
        request = self._request
        request.data = data
        request.metadata_at = metadata_at
        request.metadata_to = metadata_to
        request.mimes = peer.mimes
        request.reassembly = None
        if peer.link is not None:
            misses = self.query.misses
            self.ingress.handle(peer, frame, request)
            self.extra_n += MISS_N * (self.query.misses - misses)
            return ""
        metadata = data[metadata_at:metadata_to]
        target = peer.latest_target
        # Found as it was the last time? Saves the walk through the metadata and the making and hashing of a key. Only
        # where it is whole, or an ADDRESS cut by fragmentation could pass for a shorter one.
        if target is not None and metadata == peer.latest_metadata and not frame.flags & FOLLOWS:
            self.query.refresh(target)
            request.address_at = metadata_at + peer.latest_at
            request.address_to = metadata_at + peer.latest_to
            if (
                self.denials.is_on
                and peer.login.judged_at != target.generation
                and not self.may_ask(peer, frame.stream_id, kind, request, target, True)
            ):
                return ""
            self._route(peer, frame, request, target)
            return ""
        misses = self.query.misses
        self.extra_n += WALK_N
        verdict = PASSES if metadata.find(ANNOTATIONS_MIME) < 0 else self.ingress.admit(peer, frame, request)
        if verdict == PASSES:
            self._begin(peer, frame, request)
        elif verdict == STRIP:
            self._begin_with(self.ingress.strip(peer, frame, request), peer, request)
        self.extra_n += MISS_N * (self.query.misses - misses)
        return ""

    def _begin_with(self, frame: FrameCursor | None, peer: Peer, request: Request) -> None:
        """A new request of a client, of which something was taken out; None: it was refused instead."""
        if frame is not None:
            self._begin(peer, frame, request)

    def _begin(self, peer: Peer, frame: FrameCursor, request: Request) -> None:
        """A new request of a client; `request` knows its metadata. Finds the ADDRESS."""
        data = request.data
        metadata_at = request.metadata_at
        metadata_to = request.metadata_to
        if request.reassembly is None and is_cut(frame, metadata_to):
            self._route_held(self.gather(peer, frame), frame.now)
            return
        at, to, has_claim = self.find_address(peer, data, metadata_at, metadata_to, False)
        if has_claim:
            self._begin_with(self.without_claims(peer, frame, request), peer, request)
        elif at >= 0:
            request.address_at = at
            request.address_to = to
            target = self.resolve(peer, data, at, to)
            is_latest = metadata_to - metadata_at <= MAX_LATEST_BYTES and not frame.flags & FOLLOWS
            if self.denials.is_on:
                login = peer.login
                if (
                    login.origin_at != target.generation
                    or target.observed is not None
                    or data[at + ORIGIN_AT : at + ORIGIN_TO] != login.origin
                ):
                    if not self.may_ask(peer, frame.stream_id, frame.kind, request, target, is_latest):
                        return
                elif is_latest:
                    login.judged_at = target.generation
            if is_latest:
                peer.latest_metadata = data[metadata_at:metadata_to]
                peer.latest_target = target
                peer.latest_at = at - metadata_at
                peer.latest_to = to - metadata_at
            self._route(peer, frame, request, target)
        else:
            self.refuse(peer, frame.stream_id, frame.kind, None, self.no_address(peer, at))

    def apply_decisions(self) -> None:
        """Does what was decided about held requests since the last call: to be called when a stream has had its say."""
        for decision in self.decisions:
            held = decision.held
            target = decision.target
            if decision.kind == LOOK_AGAIN:
                self._route_held(held, decision.at)
            elif decision.kind == COUNT:
                self._count_unrouted(held, target, decision.outcome, decision.at)
            elif decision.kind == REFUSE_CUT:
                self._refuse_cut(held, decision.at)
            else:
                assert target is not None  # it waited for its routes
                self._refuse_pending(held, target, decision.word, decision.at)
        self.decisions.clear()

    def retry(self, frame: FrameCursor) -> None:
        """Decides once more upon requests that other brokers refuse (D-50), or passes their ERROR `frame` on."""
        for splice in self.retries:
            route = self.egress.choose_for_retry(splice, frame.now)
            if route is None:
                splice.fail(frame)
            else:
                self._send_again(splice, route, frame.now)
        self.retries.clear()

    def _send_again(self, splice: RetryableSplice, route: Route, now: float) -> None:
        self.choice = self.query.choices
        peer = splice.caller
        caller_id = splice.caller_stream_id
        more_n = min(splice.more_n + peer.take_credit_of(caller_id, splice), MAX_N)
        frame = self.cursor(splice.give_up(now), now)
        request = self.egress.request_again(splice, frame)
        self.give(peer, frame, request, splice.target, route)
        stream = peer.streams.get(caller_id)
        if more_n and stream is not None:
            stream.from_caller(self.cursor(encode_request_n(caller_id, more_n), now))

    def _count_unrouted(self, reassembly: Reassembly, target: Target | None, outcome: int, now: float) -> None:
        """A request that ended before a route had it: counted, though nobody may know where it would have gone."""
        latency_us = int((now - reassembly.opened_at) * 1e6)
        flow = self.unrouted(reassembly.caller, reassembly.kind, target, "")
        flow.count(outcome, latency_us, 0, 0, reassembly.held_bytes, 0, reassembly.opened_at, 0, 0)

    def _refuse_cut(self, reassembly: Reassembly, now: float) -> None:
        """The caller's deadline passed while the rest of the metadata did not come."""
        waited_s = now - reassembly.opened_at
        text = f"the metadata of the request was incomplete after {waited_s:.3f} s"
        refusal = Refusal("deadline", text, REJECTED_CODE)  # what was not forwarded was not processed
        self.choice = 0
        self.refuse(reassembly.caller, reassembly.caller_id, reassembly.kind, reassembly.target, refusal, now)

    def _refuse_pending(self, reassembly: Reassembly, target: Target, word: str, now: float) -> None:
        """No route came in time for a request that waited, or more of it came than is held."""
        peer = reassembly.caller
        waited_s = now - reassembly.opened_at
        if word == "over-limit":
            limit = self.settings.max_waiting_bytes
            text = "the connection's requests that wait for a route have more bytes than "
            text += f"limits.max_waiting_bytes: {limit}"
            refusal = Refusal(word, text)
        else:
            self.query.refresh(target)
            why = self.find_obstacle(reassembly, target, now)
            if why is None and word == "no-route":
                self._let_in(reassembly, target, now)  # what stood in its way went without a word
                return
            text = why.text if why is not None else "a route has just come"
            if why is not None and why.word == "denied" and word == "no-route":
                word = why.word  # there is one by now, and it is none for this caller
            # What was not forwarded was not processed, also when it is the caller's own deadline that has passed.
            refusal = Refusal(word, f"{text}, after {waited_s:.1f} s of waiting", REJECTED_CODE)
        self.choice = 0
        self.refuse(peer, reassembly.caller_id, reassembly.kind, target, refusal, now)

    def route_opened(self, route: Route, now: float) -> None:
        """A route has joined, or takes requests again: those that waited for it go on, in order."""
        load = route.load
        for waiter in self.pending.take_matching(route):
            if waiter.is_over:
                continue  # its caller was lost over one before it
            if load.lease is not None and load.lease.left_n <= 0:
                return  # it has granted no more; what else has become free is seen at the next tick
            target = waiter.target
            self.query.refresh(target)
            if self.find_obstacle(waiter.held, target, now) is None:
                self.pending.leave(waiter)
                self._let_in(waiter.held, target, now)

    def set_role(self, peer: Peer, role: Role | None, now: float) -> None:
        """A client may address what this role allows, from now on; None: everything. D-98

        Its requests at routes that it may not reach any more end, and what waits is decided upon anew.
        """
        self.denials.quotas.enter(peer, role)
        login = peer.login
        login.caller_entry = b""
        reach = self.query.table.reaches.find(role, peer.principal) if role is not None else None
        if login.reach is reach:
            return
        login.reach = reach
        login.judged_at = 0
        login.origin_at = 0
        peer.latest_target = None
        if reach is not None and peer.begun and not self.query.only_observes:
            self._end_beyond(peer, Rights(self.query.table, reach), now)
        if peer.waiting_n:
            self._look_again_at(peer, now)

    def _end_beyond(self, peer: Peer, rights: Rights, now: float) -> None:
        """Ends what a client has asked of routes that it may not reach."""
        for stream in list(peer.streams.values()):
            if isinstance(stream, Splice):
                if stream.caller is peer and not rights.allow(stream.route, stream.server):
                    stream.deny(rights.text, now)
            elif isinstance(stream, MulticastCall):
                stream.narrow(rights, now)

    def _look_again_at(self, peer: Peer, now: float) -> None:
        """Decides anew upon the requests of a client that wait."""
        for stream in list(peer.streams.values()):
            if isinstance(stream, PendingRequest) and not stream.is_over:
                self.pending.leave(stream)
                held = stream.held
                at, to = held.address_at, self.address_end(peer, held.metadata, held.address_at)
                self._let_in(held, self.resolve(peer, held.metadata, at, to), now)

    def handle_push(self, peer: Peer, frame: FrameCursor, at: int, to: int, has_claim: bool) -> None:
        """A METADATA_PUSH with an ADDRESS in `frame.data[at:to]`. It has no answer, not even an error. D-23

        `has_claim`: see `find_address`.
        """
        misses = self.query.misses
        self._pushes.handle(peer, frame, at, to, has_claim, self.is_draining)
        self.extra_n += MISS_N * (self.query.misses - misses)

    def _refusal_of(self, peer: Peer, frame: FrameCursor) -> Refusal | None:
        """Why a request is refused unseen; `handle_request` asks where one of these may be, and saves a call else."""
        if self.is_draining and peer.link is None:  # of another broker: decided there, or only on its way through
            return Refusal("draining", "the broker takes no new requests")
        if peer.begun >= peer.max_streams:
            limit = "limits.max_streams_per_connection" if peer.link is None else "the limit of a link"
            text = f"{peer.begun} streams of this connection are open, {limit} is {peer.max_streams}"
            return Refusal("over-limit", text)
        if frame.kind >= REQUEST_STREAM and initial_n(frame.data, frame.start) == 0:
            return Refusal("bad-request", "the initial request n is 0, it must be over 0")
        return None

    def _route_held(self, reassembly: Reassembly, now: float) -> None:
        """Routes a held request if enough of it is there; refuses it if that will never be."""
        self._look_at_held(reassembly, now)
        if reassembly.is_cut:
            self.later.begin(reassembly.caller, reassembly.caller_id, reassembly.metadata, reassembly.is_whole)

    def _look_at_held(self, reassembly: Reassembly, now: float) -> None:
        self.choice = 0
        peer = reassembly.caller
        metadata = reassembly.metadata
        request = self._request
        request.data = metadata
        request.metadata_at = 0
        request.metadata_to = len(metadata)
        request.mimes = peer.mimes
        request.reassembly = reassembly
        if peer.link is not None:
            if reassembly.is_whole or not reassembly.needs_whole:
                self.ingress.handle(peer, self.cursor(reassembly.frames[0], now), request)
            else:
                self.wait(reassembly)
            return
        at, to, has_claim = self.find_address(peer, metadata, 0, len(metadata), not reassembly.is_whole)
        if not reassembly.is_whole and (at == CUT or at >= 0):  # D-69: a later ADDRESS may come
            if at >= 0 and not reassembly.needs_whole:
                reassembly.target = self.resolve(peer, metadata, at, to)  # for its deadline
            if reassembly.needs_whole or self.has_room(reassembly, at >= 0):
                self.wait(reassembly)
                return
            at, to = self.find_begun(peer, metadata)
            if at < 0 or has_claim:  # it has passed, with what it claims, if it goes on in pieces
                self.wait(reassembly)  # in vain: there is no room
                return
        frame = self.cursor(reassembly.frames[0], now)
        verdict = PASSES if metadata.find(ANNOTATIONS_MIME) < 0 else self.ingress.admit(peer, frame, request)
        if verdict != PASSES:
            if verdict == STRIP:
                self._begin_with(self.ingress.strip(peer, frame, request), peer, request)
            return
        if has_claim:
            self._begin_with(self.without_claims(peer, frame, request), peer, request)
            return
        if at < 0:
            self.refuse(peer, reassembly.caller_id, reassembly.kind, None, self.no_address(peer, at))
            return
        request.address_at = at
        request.address_to = to
        target = self.resolve(peer, metadata, at, to)
        if not self.denials.is_on or self.may_ask(peer, frame.stream_id, frame.kind, request, target):
            self._route(peer, frame, request, target)

    def _route(self, peer: Peer, frame: FrameCursor, request: Request, target: Target) -> None:
        """The ADDRESS is known: the request goes to one, to all, or back with an error. `frame` is its first frame."""
        if target.refusal is not None:
            self._wait_or_refuse(peer, frame, request, target, target.refusal)
            return
        if target.routing == MULTICAST:
            self._route_to_all(peer, frame, request, target)
            return
        route = self.query.choose(target, peer.zone, peer.origin, frame.now)
        self.choice = self.query.choices
        if route is not None and route.load.is_watched and frame.kind == REQUEST_RESPONSE:
            why = self.monopoly_of(peer, route.load, frame.now)
            if why is not None:
                route = self.choose_fairly(peer, target, route, why, frame.now)
        if route is None:
            self._wait_or_refuse(peer, frame, request, target, blocked_of(target))
            return
        self.give(peer, frame, request, target, route)

    def give(self, peer: Peer, frame: FrameCursor, request: Request, target: Target, route: Route) -> None:
        """Gives the request to a route of this broker or of another one."""
        owner = route.owner
        if isinstance(owner, Peer):
            server = owner
        else:
            assert isinstance(owner, Remote)  # there are no others
            as_it_is = self.egress.send(peer, frame, request, target, route, owner)
            if as_it_is is None:
                return
            server = as_it_is
        is_merged = False
        caller = caller_for(route, server, peer) if route.load.wants_caller else b""
        if peer.mimes != server.mimes and not passes(self.mimes[peer.mimes], self.mimes[server.mimes]):
            if self.must_wait(peer, frame, request, target):
                return
            raw = self.translated_first(peer, server, frame, request, target, caller)
            if not raw:
                return
            frame = self.cursor(raw, frame.now)
            is_merged = True
            caller = b""
        at = to = 0
        if caller:
            at, to = request_parts(frame.data, frame.start, frame.end, frame.kind, frame.flags)
            size = frame.end - frame.start + len(caller)
            if size > MAX_FRAME_BYTES:
                self.refuse_large(peer, frame, target, size)
                return
        kind = frame.kind
        flow = self.flow(peer, target, route, kind)
        if kind == REQUEST_FNF and not frame.flags & FOLLOWS:
            route.load.take()
            if caller:
                server.forward_rewritten(frame, server.open_id(), caller, frame.data[at : frame.end], to - at)
            else:
                server.forward(frame, server.open_id())
            flow.count(COMPLETED, 0, 1, 0, frame.end - frame.start, 0, frame.now, self.choice, 1)
        else:
            splice = Splice(peer, frame.stream_id, server, server.open_id(), route, flow, kind, frame.now)
            splice.choice = self.choice
            if caller:
                splice.open_rewritten(frame, caller, frame.data[at : frame.end], to - at)
            else:
                splice.open(frame)
            if target.deadline_ms > 0 and kind != REQUEST_FNF:  # which has no answer, not even this one
                splice.timer = self.timers.put(deadline_at(target, request, frame.now), splice)
        if request.reassembly is not None:
            self.replay(peer, frame.stream_id, request.reassembly, is_merged, frame.now)

    def _route_to_all(self, peer: Peer, frame: FrameCursor, request: Request, target: Target) -> None:
        """Multicast: the routes that match now, each with a frame that it can read."""
        routes = self.choose_all(peer, request, target)
        self.choice = self.query.choices
        if not routes:
            self._wait_or_refuse(peer, frame, request, target, blocked_of(target))
            return
        if self.query.is_spread(target):
            self.fanout.spread(peer, frame, request, target, routes)
            return
        is_strange = self.is_strange(peer, routes)
        if is_strange and self.must_wait(peer, frame, request, target):
            return
        kind = frame.kind
        now = frame.now
        stream_id = frame.stream_id
        credit_n = initial_n(frame.data, frame.start) if kind >= REQUEST_STREAM else 0
        if self.refuse_wide(peer, frame, target, len(routes), len(routes)):
            return
        frames: dict[int, bytes] = {}  # by `reader_key`: what to send them
        if is_strange:
            for route in routes:
                server = owner_of(route)
                if reader_key(route, server) not in frames:
                    caller = caller_for(route, server, peer)
                    raw = self.translated_first(peer, server, frame, request, target, caller)
                    if not raw:
                        return
                    frames[reader_key(route, server)] = raw
        flow = self.flow(peer, target, None, kind)
        call = open_multicast(self.steps, peer, stream_id, flow, kind, now, credit_n, len(routes))
        call.choice = self.choice
        call.routes_n = len(routes)
        if is_strange:
            frame = self.cursor(frames[reader_key(routes[0], owner_of(routes[0]))], now)
        call.enter(frame.flags, frame.end - frame.start)
        if target.deadline_ms > 0 and kind != REQUEST_FNF:  # which has no end to wait for
            call.timer = self.timers.put(deadline_at(target, request, now), call)
        if not call.may_at_once(len(routes), now):
            whole = frame.data[frame.start : frame.end]
            parts: list[BranchRequest] = []
            for route in routes:
                server = owner_of(route)
                parts.append(BranchRequest(server, route, frames[reader_key(route, server)] if is_strange else whole))
            call.add_step(Opening(self, call, parts, request.reassembly, is_strange))
            return
        for route in routes:
            server = owner_of(route)
            if is_strange:
                frame = self.cursor(frames[reader_key(route, server)], now)
            call.open_branch(server, route, frame)
        call.opened(now)
        if request.reassembly is not None:
            self.replay(peer, stream_id, request.reassembly, is_strange, now)

    def _wait_or_refuse(self, peer: Peer, frame: FrameCursor, request: Request, target: Target, why: Refusal) -> None:
        """Nobody can serve the request now: it waits, if it may, or is refused (D-10, D-40)."""
        if target.is_announcement:
            self._take_announcement(peer, frame, request)
            return
        if why is target.blocked and target.blocked_service is not None:
            self.breakers.refuse(target.blocked_service, why, frame.now)
            self.ask_full(peer, target, target.blocked_service, frame.now)
        if self.settings.no_route != "wait" or why.word not in WAITED_FOR:
            self.refuse(peer, frame.stream_id, frame.kind, target, why)
            return
        held = request.reassembly if request.reassembly is not None else self.gather(peer, frame)
        held.is_judged = True
        held.address_at = request.address_at - request.metadata_at
        full = self.pending.refusal_of(held)
        if full:
            self.refuse(peer, frame.stream_id, frame.kind, target, Refusal("over-limit", f"{why.text}, and {full}"))
            return
        until = held.opened_at + self.settings.no_route_timeout_s
        is_urgent = False
        if target.deadline_ms > 0:
            wanted = held.opened_at + target.deadline_ms / 1000.0
            is_urgent = wanted < until
            until = min(until, wanted)
        self.pending.enter(held, target, until, is_urgent)

    def _take_announcement(self, peer: Peer, frame: FrameCursor, request: Request) -> None:
        """A ROUTE_SETUP where a request has its ADDRESS: the core reads it, and the request is complete. D-45"""
        self.announced.append(RouteSetupInRequest(peer, request.data[request.address_at : request.address_to]))
        if frame.kind != REQUEST_FNF:
            peer.send(encode_payload(frame.stream_id, COMPLETE))
        size = frame.end - frame.start
        self.unrouted(peer, frame.kind, None, "").count(COMPLETED, 0, 1, 0, size, 0, frame.now, 0, 0)

    def look_again(self, generation: int, now: float) -> None:
        """Routes may have become free without a join; `generation` of the masks, so that nothing is looked at twice.

        LOOKED_AT of those that wait in one tick, in order; the next tick goes on where this one ended.
        """
        if not self.pending.is_behind:  # or what has changed since is for the next look, from the first one on
            if generation == self._looked_at:
                return
            self._looked_at = generation
        for waiter in self.pending.next_some():
            if waiter.is_over:
                continue
            self.query.refresh(waiter.target)
            if self.find_obstacle(waiter.held, waiter.target, now) is None:
                self.pending.leave(waiter)
                self._let_in(waiter.held, waiter.target, now)
            else:
                self.pending.renew(waiter)

    def _let_in(self, reassembly: Reassembly, target: Target, now: float) -> None:
        """Routes a request that was held until there was a route."""
        self.choice = 0
        metadata = reassembly.metadata
        request = self._request
        request.data = metadata
        request.metadata_at = 0
        request.metadata_to = len(metadata)
        request.mimes = reassembly.caller.mimes
        request.address_at = reassembly.address_at
        request.address_to = self.address_end(reassembly.caller, metadata, reassembly.address_at)
        request.reassembly = reassembly
        frame = self.cursor(reassembly.frames[0], now)
        if not self.denials.is_on or self.may_ask(reassembly.caller, frame.stream_id, frame.kind, request, target):
            self._route(reassembly.caller, frame, request, target)
