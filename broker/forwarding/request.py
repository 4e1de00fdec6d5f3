"""What all requests need, wherever they come from: refuse, hold, translate, count and replay them.

Decides nothing about where a request goes: for clients the `engine` does, for other brokers `ingress`.
"""

from typing import Final

from broker.access.holders import keeps_out
from broker.forwarding.callers import LaterMetadata
from broker.forwarding.interbroker.retry import RetryableSplice
from broker.forwarding.interbroker.rewrite import rewritten
from broker.forwarding.mime_pairs import MimePairs
from broker.forwarding.mime_translation import BROKER, COMPOSITE, Mimes, passes, translate
from broker.forwarding.multicast.steps import StepQueue
from broker.forwarding.peer import Peer
from broker.forwarding.reassembly import MAX_FRAMES, Decision, Reassembly, is_cut
from broker.forwarding.settings import Settings
from broker.forwarding.traffic.denials import Denials
from broker.forwarding.traffic.drops import Drops
from broker.forwarding.traffic.flows import MODEL_NAMES, REJECTED, Flow, FlowTable, FlowTexts
from broker.forwarding.traffic.request_log import RequestLog
from broker.routing.bitmaps import Slots
from broker.routing.fair_shares import UNKNOWN
from broker.routing.health.loads import Load, ServiceLoad
from broker.routing.query import Query
from broker.routing.table import Route
from broker.routing.targets import FOR_NOW, ORIGIN_AT, ORIGIN_TO, Target
from rsocket_wire.errors import CODE_WORDS, BrokerError, Refusal
from rsocket_wire.errors import REJECTED as REJECTED_CODE
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.claims import without_claims
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES, FrameCursor
from rsocket_wire.rsocket.metadata import ABSENT, BROKEN, CUT, broker_frames, find_broker_frame
from rsocket_wire.timers import Timers
from rsocket_wire.wire.frames import SHARD, find_wrapped
from rsocket_wire.wire.ints import u24_at

MAX_CHOICES: Final = 32  # for one request, of routes where its caller has its share
ASKED_N: Final = 16  # full routes that a refused caller is noted at, and gets its share of
LINK_METADATA_BYTES: Final = 64 << 20  # gathered of one link, where one of its callers has `max_metadata_bytes`

TRUNCATED: Final = "the composite metadata of the request is truncated"
_WORDS: Final[list[str]] = list(CODE_WORDS)


class Request:
    """Where the parts of the request lie that is being decided upon; one object, used again for each."""

    def __init__(self) -> None:
        self.data = b""  # holds the metadata
        self.metadata_at = 0
        self.metadata_to = 0
        self.address_at = 0
        self.address_to = 0
        self.caller = b""  # between brokers: the entry that says who the caller is; empty: there is none
        self.rest_at = 0  # between brokers: behind the annotations
        self.mimes = 0  # number of the caller's pair of mime types
        self.is_counted = False  # between brokers: among those that came its way
        self.is_second = False  # it is decided upon once more (D-50): one object for these, another one for all others
        self.began_at = 0.0  # then: when it came, seconds, monotonic
        self.reassembly: Reassembly | None = None  # set when the request came in fragments that were held


class RouteSetupInRequest:
    """A ROUTE_SETUP that came with a request."""

    def __init__(self, peer: Peer, raw: bytes) -> None:
        self.peer: Final = peer
        self.raw: Final = raw


class CongestedRequest:
    """A caller has just sent a request to a route of another broker that is behind, or to which the way is."""

    def __init__(self, caller: Peer, route: Route | None) -> None:
        self.caller: Final = caller
        self.route: Final = route  # None: the caller is a link, and has sent a copy for several


class RequestContext:
    """Requests of all peers of one broker, as far as it is the same for all of them."""

    def __init__(self, settings: Settings, query: Query) -> None:
        self.settings: Final = settings
        self.query: Final = query
        self.request_log: Final = RequestLog(query, settings.single_requests)
        self.flows: Final = FlowTable(self.request_log, query.services)
        self.drops: Final = Drops()
        self.denials: Final = Denials(settings.auth_mode != "off")
        # Of this turn, for the core; bounded by what one peer sends in it, or by the requests that a tick lets in.
        self.congested_requests: Final[list[CongestedRequest]] = []
        self.decisions: Final[list[Decision]] = []  # about held requests: the engine empties it after each frame
        self.retries: Final[list[RetryableSplice]] = []  # refused by other brokers: emptied likewise
        self.steps: Final = StepQueue()
        # Of the request that is being decided upon: which of the query's choices it was; 0: none was made (yet).
        self.choice = 0
        self.timers: Final = Timers()
        self.mime_pairs: Final = MimePairs()
        self.mimes: Final[dict[int, Mimes]] = self.mime_pairs.by_number
        self.later: Final = LaterMetadata(self.mime_pairs)
        self._scratch: Final = FrameCursor(False)  # frames that are replayed or rebuilt
        query.only_observes = settings.auth_mode == "observe"

    def set_mimes(self, peer: Peer, setup: frames.Setup) -> None:
        """The peer has the pair of mime types of its SETUP, until `forget_mimes`."""
        peer.mimes = self.mime_pairs.take(setup.metadata_mime, setup.data_mime)

    def forget_mimes(self, peer: Peer) -> None:
        """The peer asks nothing and serves nobody any more."""
        if peer.mimes >= 0:
            self.mime_pairs.give_back(peer.mimes)
            peer.mimes = -1

    def resolve(self, peer: Peer, data: bytes, at: int, to: int) -> Target:
        """What the ADDRESS in `data[at:to]` of a client means for it."""
        reach = peer.login.reach
        return self.query.resolve(data, at, to) if reach is None else self.query.resolve_within(reach, data, at, to)

    def may_ask(
        self, peer: Peer, stream_id: int, kind: int, request: Request, target: Target, is_latest: bool = False
    ) -> bool:
        """The origin in a client's ADDRESS is nobody else's route, or that is only observed; else it is refused. D-98

        It is refused, too, where the quota of its identity is used up. With `observe` either is noted, and that nobody
        would be reached. To be asked where identities are judged.
        `is_latest`: the request is `Peer.latest_metadata`.
        """
        login = peer.login
        login.judged_at = 0
        if login.usage_key and not self._may_use(peer, stream_id, kind, request, target):
            return False
        if target.refusal is not None and target.refusal.word not in FOR_NOW:
            return True  # it is refused for what it is
        data = request.data
        origin = data[request.address_at + ORIGIN_AT : request.address_at + ORIGIN_TO]
        why = target.observed.text if target.observed is not None else ""
        route = self.query.table.find(origin)
        only_observes = self.query.only_observes
        if route is not None and route is not peer.route and is_of_another(route, peer, only_observes):
            why = f"the origin of the ADDRESS, {route.id_text}, is a route of another identity"
        if not why:
            if not login.usage_key:  # else the next one is counted, too
                login.origin = origin
                login.origin_at = target.generation
                if is_latest:
                    login.judged_at = target.generation
            return True
        return self._note_or_refuse(peer, stream_id, kind, target, Refusal("denied", why, REJECTED_CODE))

    def _may_use(self, peer: Peer, stream_id: int, kind: int, request: Request, target: Target) -> bool:
        """Counts a request of an identity with a quota, once; False: it was one too many, and is refused."""
        usage = self.denials.quotas.find(peer)
        held = request.reassembly
        if usage is None or (held is not None and held.is_judged):
            return True
        if held is not None:
            held.is_judged = True
        why = usage.refusal_of_request(peer.heard_at)
        if not why:
            return True
        return self._note_or_refuse(peer, stream_id, kind, target, Refusal("over-limit", why))

    def _note_or_refuse(self, peer: Peer, stream_id: int, kind: int, target: Target, refusal: Refusal) -> bool:
        """With `observe` it goes on, and that it would not is noted; else it is refused."""
        if self.query.only_observes:
            self.denials.note(peer, refusal.text, "observed")
            return True
        self.refuse(peer, stream_id, kind, target, refusal)
        return False

    def find_address(self, peer: Peer, data: bytes, at: int, to: int, is_cut: bool) -> tuple[int, int, bool]:
        """(from, to) of the ADDRESS, or (ABSENT | CUT | BROKEN, 0), and whether there is an entry that only brokers may
        write (D-102). `is_cut`: more metadata follows in fragments.
        """
        kind = self.mimes[peer.mimes].kind
        if kind == COMPOSITE:
            found, end, has_claim = find_broker_frame(data, at, to)
            if found == ABSENT and is_cut:
                return CUT, 0, has_claim
            return found, end, has_claim
        if kind == BROKER:
            if is_cut:
                return CUT, 0, False
            return (at, to, False) if to > at else (ABSENT, 0, False)
        return ABSENT, 0, False

    def no_address(self, peer: Peer, found: int) -> Refusal:
        """Why `find_address` has found none."""
        mimes = self.mimes[peer.mimes]
        if mimes.kind != COMPOSITE and mimes.kind != BROKER:
            text = (
                f"metadata of the mime type {mimes.metadata_mime!r}, which the SETUP announced, cannot hold an ADDRESS"
            )
        elif found == CUT:
            text = TRUNCATED
        elif found == BROKEN:
            text = "the composite metadata of the request has too many entries"
        else:
            text = "the metadata of the request holds no ADDRESS"
        return Refusal("bad-address", text)

    def find_begun(self, peer: Peer, metadata: bytes) -> tuple[int, int]:
        """(from, to) of the last ADDRESS of which both maps have come, and perhaps no more; `to` is behind them then.

        (ABSENT, 0): there is none. What it wraps says nothing about the way (D-70).
        """
        kind = self.mimes[peer.mimes].kind
        places = broker_frames(metadata) if kind == COMPOSITE else [(0, len(metadata))]
        for at, to in reversed(places):
            if to < len(metadata):
                return at, to
            wrapped_at = find_wrapped(metadata[at:to])
            if wrapped_at >= 0:
                return at, at + wrapped_at
        return ABSENT, 0

    def address_end(self, peer: Peer, metadata: bytes, at: int) -> int:
        """Where the ADDRESS ends that begins there, or what has come of it."""
        if self.mimes[peer.mimes].kind != COMPOSITE:
            return len(metadata)
        return min(len(metadata), at + u24_at(metadata, at - 3))

    def has_room(self, reassembly: Reassembly, is_addressed: bool) -> bool:
        """More of the request may be held, of which the metadata has not come whole.

        `is_addressed`: an ADDRESS of it has. Such a request could go on, so it takes no more than half of the room.
        """
        peer = reassembly.caller
        limit = self.settings.max_metadata_bytes
        all_limit = limit if peer.link is None else max(limit, LINK_METADATA_BYTES)  # a link is many callers
        if is_addressed:
            limit //= 2
            all_limit //= 2
        held_bytes = reassembly.held_bytes
        if held_bytes > limit or peer.gathered_bytes + held_bytes > all_limit:
            return False
        return len(reassembly.frames) < MAX_FRAMES

    def gather(self, peer: Peer, frame: FrameCursor) -> Reassembly:
        """Holds the first frame of a request until more is known."""
        reassembly = Reassembly(peer, frame.stream_id, frame.kind, self.decisions, frame.now)
        reassembly.hold(frame)
        return reassembly

    def wait(self, reassembly: Reassembly) -> None:
        """Lets a held request wait for its next fragment, within the bounds."""
        peer = reassembly.caller
        if not self.has_room(reassembly, False):
            limit = self.settings.max_metadata_bytes
            of_option = " (limits.max_metadata_bytes)"
            if peer.link is not None and reassembly.held_bytes <= limit < LINK_METADATA_BYTES:
                limit = LINK_METADATA_BYTES
                of_option = ""
            text = f"no complete ADDRESS in {len(reassembly.frames)} fragments; a connection may hold {limit} bytes"
            refusal = Refusal("over-limit", text + of_option)
            self.refuse(peer, reassembly.caller_id, reassembly.kind, None, refusal)
            return
        reassembly.enter()
        target = reassembly.target
        if target is not None and target.deadline_ms > 0:
            reassembly.timer = self.timers.put(reassembly.opened_at + target.deadline_ms / 1000.0, reassembly)

    def must_wait(self, peer: Peer, frame: FrameCursor, request: Request, target: Target | None) -> bool:
        """True, and the request is held, when metadata that must be translated has not arrived whole."""
        reassembly = request.reassembly
        if reassembly is None:
            if not is_cut(frame, request.metadata_to):
                return False
            reassembly = self.gather(peer, frame)
            reassembly.is_judged = True
        elif reassembly.is_whole:
            return False
        reassembly.needs_whole = True
        reassembly.target = target
        self.wait(reassembly)
        return True

    def translated_first(
        self, peer: Peer, server: Peer, frame: FrameCursor, request: Request, target: Target | None, caller: bytes
    ) -> bytes:
        """The first frame with metadata that the server can read; empty if that cannot be, and the caller was told.

        `caller`: what it is told of the caller, in front of that.
        """
        metadata = request.data[request.metadata_at : request.metadata_to]
        raw_address = request.data[request.address_at : request.address_to]
        try:
            translated = self.translated(request.mimes, server, metadata, raw_address, True, caller)
        except BrokerError as error:  # an ADDRESS that we can read and not write: values over 127 bytes of D-21
            self.refuse(peer, frame.stream_id, frame.kind, target, Refusal("bad-address", error.text))
            return b""
        if translated is not None and len(translated) > MAX_FRAME_BYTES:  # its length could not even be written
            self.refuse_large(peer, frame, target, frame.end - frame.start + len(translated) - len(metadata))
            return b""
        reassembly = request.reassembly
        if reassembly is not None:
            raw = reassembly.merged(translated)
        else:
            rest = frame.data[request.metadata_to : frame.end]
            n = frames.initial_n(frame.data, frame.start) if frame.kind >= frames.REQUEST_STREAM else 0
            flags = frame.flags & ~frames.METADATA
            raw = frames.encode_request(frame.kind, frame.stream_id, rest, translated, n, flags)
        if len(raw) > MAX_FRAME_BYTES:
            self.refuse_large(peer, frame, target, len(raw))
            return b""
        return raw

    def translated(
        self, mimes: int, server: Peer, metadata: bytes, raw_address: bytes, has_data: bool, caller: bytes = b""
    ) -> bytes | None:
        """What `translate` makes of it for the server; `mimes`: number of the caller's pair, `caller`: who it is."""
        caller_mimes = self.mimes[mimes]
        server_mimes = self.mimes[server.mimes]
        if passes(caller_mimes, server_mimes):
            return caller + metadata if caller else metadata
        found = translate(metadata, raw_address, caller_mimes, server_mimes, has_data)
        self.mime_pairs.lost_entries_n += found.lost_n
        return caller + found.metadata if caller and found.metadata is not None else found.metadata

    def is_strange(self, peer: Peer, routes: list[Route]) -> bool:
        """Some of the routes, which are ours, cannot read what the peer sends, or are told who the caller is."""
        for route in routes:
            mimes = owner_of(route).mimes
            if route.load.wants_caller or (
                mimes != peer.mimes and not passes(self.mimes[peer.mimes], self.mimes[mimes])
            ):
                return True
        return False

    def merge(self, peer: Peer, request: Request, metadata: bytes, target: Target | None) -> bool:
        """Makes one frame of those that were gathered; False, and refused, when it would be too large."""
        reassembly = request.reassembly
        assert reassembly is not None  # whoever calls has looked
        if len(reassembly.frames) > 1 or metadata is not reassembly.metadata:
            size = len(metadata) + len(reassembly.rest) + 16
            if size > MAX_FRAME_BYTES:
                cursor = self.cursor(reassembly.frames[0], 0.0)
                self.refuse_large(peer, cursor, target, size)
                return False
            reassembly.collapse(metadata)
        return True

    def with_metadata(self, peer: Peer, frame: FrameCursor, request: Request, metadata: bytes) -> FrameCursor | None:
        """The first frame of a client's request with other metadata, which `request` knows then; None: refused."""
        reassembly = request.reassembly
        if reassembly is not None:
            if not self.merge(peer, request, metadata, None):
                return None
            raw = reassembly.frames[0]
        else:
            raw = rewritten(frame, frame.stream_id, request.metadata_to, metadata)
        frame = self.cursor(raw, frame.now)
        self.locate(frame, request)
        return frame

    def without_claims(self, peer: Peer, frame: FrameCursor, request: Request) -> FrameCursor | None:
        """The first frame without what only brokers may say, as `with_metadata`. D-102"""
        metadata = without_claims(request.data[request.metadata_at : request.metadata_to])
        return self.with_metadata(peer, frame, request, metadata)

    def locate(self, frame: FrameCursor, request: Request) -> None:
        """The metadata of the request is that of this frame."""
        request.data = frame.data
        if frame.kind == frames.METADATA_PUSH:
            request.metadata_at, request.metadata_to = frame.start + frames.HEADER_BYTES, frame.end
            return
        request.metadata_at, request.metadata_to = frames.request_parts(
            frame.data, frame.start, frame.end, frame.kind, frame.flags
        )

    def cursor(self, raw: bytes, now: float) -> FrameCursor:
        """A cursor on one whole frame."""
        scratch = self._scratch
        scratch.feed(raw, now)
        scratch.advance()
        return scratch

    def replay(self, peer: Peer, stream_id: int, reassembly: Reassembly, is_merged: bool, now: float) -> None:
        """What was held behind the first frame goes the way that the request has now; `is_merged`: only the credit."""
        raws = reassembly.later if is_merged else reassembly.frames[1:] + reassembly.later
        if reassembly.more_n:
            raws = [*raws, frames.encode_request_n(stream_id, reassembly.more_n)]
        for raw in raws:
            stream = peer.streams.get(stream_id)
            if stream is None:
                return
            stream.from_caller(self.cursor(raw, now))

    def choose_all(self, peer: Peer, request: Request, target: Target) -> list[Route]:
        """All that a multicast of this peer goes to now, see `Query.choose_all`. Empty: `target.blocked` says why."""
        routes = self.query.choose_all(target)
        if not target.excludes_self:
            return routes
        return besides_caller(target, routes, peer, request.data, request.address_at)

    def find_obstacle(self, held: Reassembly, target: Target, now: float) -> Refusal | None:
        """Why a held request cannot be served now; None when it can."""
        if target.refusal is not None:
            return target.refusal
        if not target.excludes_self:
            return self.query.find_block(target, now)
        routes = besides_caller(target, self.query.members(target), held.caller, held.metadata, held.address_at)
        return blocked_of(target) if not routes else None

    def monopoly_of(self, peer: Peer, load: Load, now: float) -> Refusal | None:
        """Why the peer may not have one more request/response in flight at this load, which has room: it has half of
        all that there may be, and others ask, too (D-68). None: it may. Either way it has asked.
        """
        shares = load.shares
        if shares is not None:
            shares.ask(peer.id, now)
            if peer.begun >= shares.half_n:  # who has fewer open streams holds fewer of its places
                held_n = shares.held(peer.id)
                if held_n == UNKNOWN:
                    held_n = peer.awaited_at(load)
                    shares.know(peer.id, held_n)
                if shares.is_over(peer.id, held_n, load.awaited_n, now):
                    return _monopoly(held_n, f"a route of {load.service.name}", load.limit_text)
        shares = load.service.shares
        if shares is not None:
            shares.ask(peer.id, now)
            held_n = shares.held(peer.id)
            if shares.is_over(peer.id, held_n, load.service.awaited_n, now):
                limit = f"protection.max_in_flight_per_service is {load.service.policy.max_in_flight_per_service}"
                return _monopoly(held_n, f"service {load.service.name}", limit)
        return None

    def choose_fairly(self, peer: Peer, target: Target, route: Route, why: Refusal, now: float) -> Route | None:
        """Another route than that which was chosen, where this caller has its share of the places: `why` (D-68).

        None: there is no other, and `target.blocked` says so.
        """
        found: Route | None = route
        if target.routing != SHARD:  # whose owner is nobody else
            barred = Slots()
            for _ in range(MAX_CHOICES):
                if found is None:
                    break
                barred.add(found.slot)
                found = self.query.choose_substitute(target, barred, peer.zone, now)
                if found is not None and self.monopoly_of(peer, found.load, now) is None:
                    return found
        target.blocked = why
        target.blocked_service = route.load.service
        return None

    def ask_full(self, peer: Peer, target: Target, service: ServiceLoad, now: float) -> None:
        """The peer was refused for a limit of this service: what becomes free shall not all go to others (D-68)."""
        if service.shares is not None:
            service.shares.ask(peer.id, now)
        for route in self.query.find_full(target, ASKED_N):
            shares = route.load.shares
            if shares is not None:
                shares.ask(peer.id, now)

    def flow(self, peer: Peer, target: Target, route: Route | None, model: int) -> Flow:
        """Where requests like this one are counted."""
        key = (target.number << 36) | ((route.number if route is not None else 0) << 4) | model
        latest = peer.latest_flow
        if latest is not None and latest.key == key:
            return latest
        flow = peer.flows.get(key)
        if flow is None:
            flow = self._open_flow(peer, key, target, route, model, "", "")
        peer.latest_flow = flow
        return flow

    def refuse(
        self, peer: Peer, stream_id: int, kind: int, target: Target | None, refusal: Refusal, now: float = 0.0
    ) -> None:
        """Answers with ERROR where the model has an answer, and counts. `now`: 0 when the peer has just sent it."""
        if kind != frames.REQUEST_FNF and kind != frames.METADATA_PUSH:
            peer.send(frames.encode_error(stream_id, refusal.code, refusal.message))
        elif refusal.word == "no-route" and peer.link is None and target is not None:
            self.query.remarks.unheard(MODEL_NAMES[kind], target.label, target.service, refusal.text)
        if refusal.word == "denied":
            self.denials.note(peer, refusal.text, "refused")
        at = now if now else peer.heard_at
        self.unrouted(peer, kind, target, refusal.word).count(REJECTED, 0, 0, 0, 0, 0, at, self.choice, 0)

    def refuse_wide(
        self, peer: Peer, frame: FrameCursor, target: Target | None, branches_n: int, routes_n: int = 0
    ) -> bool:
        """Refuses what would hold too much at so many branches, or reach too many routes; whether it was.

        Its bytes count for each branch. `routes_n`: behind these branches, 0 for a request of a link: they were counted
        by its first broker.
        """
        most_n = self.settings.max_multicast_routes
        if most_n and routes_n > most_n:
            text = f"{routes_n} routes match, a multicast may reach {most_n} (limits.max_multicast_routes)"
            self.refuse(peer, frame.stream_id, frame.kind, target, Refusal("over-limit", text))
            return True
        usage = self.denials.quotas.find(peer)
        why = usage.refusal_of_multicast(routes_n) if usage is not None else ""
        if why and self.query.only_observes:
            self.denials.note(peer, why, "observed")
        elif why:
            self.refuse(peer, frame.stream_id, frame.kind, target, Refusal("over-limit", why))
            return True
        size = frame.end - frame.start
        limit = self.settings.max_buffered_bytes
        if size * branches_n <= limit:
            return False
        text = f"{size} bytes to {branches_n} routes are {size * branches_n} bytes, the limit is {limit}"
        refusal = Refusal("over-limit", f"{text} (limits.max_buffered_bytes)")
        self.refuse(peer, frame.stream_id, frame.kind, target, refusal)
        return True

    def refuse_large(self, peer: Peer, frame: FrameCursor, target: Target | None, size: int) -> None:
        """Its first frame would have `size` bytes."""
        reader = target.service if target is not None else ""
        text = f"the request would have {size} bytes with metadata that {reader or 'the route'} can read"
        self.refuse(peer, frame.stream_id, frame.kind, target, Refusal("too-large", text))

    def unrouted(self, peer: Peer, kind: int, target: Target | None, word: str) -> Flow:
        """Where requests are counted that no route saw; `word` of the refusal, empty when the caller gave up."""
        number = target.number if target is not None else 0
        word_number = _WORDS.index(word) if word else len(_WORDS)
        # The same address may be emptied by another tag later in the interval.
        is_emptied = target is not None and target.refusal is not None and word == "no-route"
        emptied_n = target.emptied_n if target is not None and is_emptied else 0
        key = -((number << 20) | (emptied_n << 12) | (word_number << 4) | kind)
        flow = peer.flows.get(key)
        if flow is not None:
            return flow
        emptied_by = target.emptied_by if target is not None and is_emptied else ""
        return self._open_flow(peer, key, target, None, kind, word, emptied_by)

    def _open_flow(
        self, peer: Peer, key: int, target: Target | None, route: Route | None, model: int, word: str, emptied_by: str
    ) -> Flow:
        """A flow that this interval does not have yet; without a target nobody knows what was asked for.

        What comes from another broker was counted where it came in.
        """
        if peer.link is not None:
            return self.flows.relayed
        caller = peer.route
        service = target.service if target is not None else ""
        texts = FlowTexts(
            caller.id_text if isinstance(caller, Route) else "",
            peer.caller_service,
            peer.principal,
            route.id_text if route is not None else "",
            route.service if route is not None else service,
            target.label if target is not None else "",
            MODEL_NAMES[model],
            target.routing_name if target is not None else "",
            word,
            emptied_by,
        )
        if target is None:
            return self.flows.open(peer.flows, key, texts)
        return self.flows.open(peer.flows, key, texts, target.raw, target.key_hash)


def deadline_at(target: Target, request: Request, now: float) -> float:
    """When the caller's deadline is, monotonic: it runs from the first frame on, also while that was held."""
    began_at = request.reassembly.opened_at if request.reassembly is not None else request.began_at or now
    return began_at + target.deadline_ms / 1000.0


def _monopoly(held_n: int, where: str, limit: str) -> Refusal:
    text = f"{held_n} requests of this connection are in flight at {where}: {limit}"
    return Refusal("over-limit", f"{text}, of which a caller gets at most half while others compete")


def is_of_another(route: Route, peer: Peer, observes: bool) -> bool:
    """The route is another identity's, here or at another broker; `observes`: see `keeps_out`. D-97"""
    owner = route.owner
    if isinstance(owner, Peer):
        return owner.principal != peer.principal
    return keeps_out(route.holder, peer.principal, observes)


def owner_of(route: Route) -> Peer:
    """The peer behind a route that this broker has."""
    owner = route.owner
    assert isinstance(owner, Peer)  # whoever calls has looked
    return owner


def besides_caller(target: Target, routes: list[Route], caller: Peer, data: bytes, address_at: int) -> list[Route]:
    """Those that are not the caller: neither a route of its connection nor the one that the ADDRESS has as its origin,
    which is the caller's at other brokers, too. None left: `target.blocked` says why. D-103
    """
    origin = data[address_at + ORIGIN_AT : address_at + ORIGIN_TO]
    others = [route for route in routes if route.owner is not caller and route.id != origin]
    if routes and not others:
        text = f"the only route with {target.label} is the caller's own, and the ADDRESS says exclude_self"
        target.blocked = Refusal("no-route", text)
    return others


def blocked_of(target: Target) -> Refusal:
    """Why nobody could be chosen."""
    blocked = target.blocked
    assert blocked is not None  # set when nobody is
    return blocked
