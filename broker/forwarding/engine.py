"""The engine: a request comes in, and it is decided where its frames go.

Finds the ADDRESS in the metadata, asks `query` for the candidates, has one chosen, and joins the streams. What can go
wrong before that is refused here, with one sentence. Does not know SETUP, keepalive or sockets (`core` does), and after
the first frame of a request it is out of the way: `splices` and `multicast` pass the rest on.
"""

from typing import Final

from broker.errors import CODE_WORDS, BrokerError, Refusal
from broker.errors import REJECTED as REJECTED_CODE
from broker.forwarding.flows import COMPLETED, REJECTED, Flow, FlowTable
from broker.forwarding.gathering import MAX_FRAMES, Asks, Gathering
from broker.forwarding.models import open_multicast
from broker.forwarding.peers import Peer
from broker.forwarding.settings import Settings
from broker.forwarding.splices import Splice
from broker.forwarding.timers import Timers
from broker.forwarding.translate import BROKER, COMPOSITE, Mimes, passes, translate
from broker.forwarding.waiting import WaitingRoom
from broker.routing.breakers import Breakers
from broker.routing.query import Query
from broker.routing.table import Route
from broker.routing.targets import Target
from broker.rsocket.frames import (
    COMPLETE,
    FOLLOWS,
    HEADER_BYTES,
    IGNORE,
    METADATA,
    METADATA_PUSH,
    REQUEST_CHANNEL,
    REQUEST_FNF,
    REQUEST_RESPONSE,
    REQUEST_STREAM,
    Setup,
    encode_error,
    encode_metadata_push,
    encode_payload,
    encode_request,
    encode_request_n,
    initial_n,
    request_parts,
)
from broker.rsocket.framing import MAX_FRAME_BYTES, FrameCursor
from broker.rsocket.metadata import ABSENT, BROKEN, CUT, find_broker_frame
from broker.wire.frames import MULTICAST

MAX_LATEST_BYTES: Final = 512  # of a request's metadata that is remembered per peer, to be tried first
MAX_MIMES: Final = 4096  # pairs of mime types that are told apart; a SETUP with one more pair is refused

# Why a request may wait for a route: there is none, those that are there are on their way out, or grant nothing now.
WAITED_FOR: Final = ("no-route", "draining", "no-lease")

_WORDS: Final[list[str]] = list(CODE_WORDS)


class Request:
    """Where the parts of the request lie that is being decided upon; one object, used again for each."""

    __slots__ = ("address_at", "address_to", "data", "gathering", "metadata_at", "metadata_to")

    def __init__(self) -> None:
        self.data = b""  # holds the metadata
        self.metadata_at = 0
        self.metadata_to = 0
        self.address_at = 0
        self.address_to = 0
        self.gathering: Gathering | None = None  # set when the request came in fragments that were held


class Announcement:
    """A ROUTE_SETUP that came with a request."""

    __slots__ = ("peer", "raw")

    def __init__(self, peer: Peer, raw: bytes) -> None:
        self.peer: Final = peer
        self.raw: Final = raw


class Engine(Asks):
    """Requests of all peers of one broker."""

    __slots__ = (
        "_looked_at",
        "_mimes",
        "_mimes_by_pair",
        "_request",
        "_scratch",
        "announced",
        "breakers",
        "flows",
        "ignored",
        "is_draining",
        "query",
        "settings",
        "timers",
        "waiting",
    )

    def __init__(self, settings: Settings, query: Query) -> None:
        self.settings: Final = settings
        self.query: Final = query
        self.flows: Final = FlowTable()
        self.timers: Final = Timers()
        self.breakers: Final = Breakers()
        self.waiting: Final = WaitingRoom(
            self,
            self.timers,
            settings.max_waiting,
            settings.max_waiting_per_connection,
            settings.max_waiting_bytes,
        )
        self.announced: Final[list[Announcement]] = []  # in what was received just now: the core empties it
        self._looked_at = 0  # generation of the masks when the waiting requests were looked at
        self.ignored = 0  # frames that the protocol says to ignore, and pushes that nobody can be told about
        self.is_draining = False  # no new requests
        self._mimes: list[Mimes] = []  # by number, bounded by MAX_MIMES
        self._mimes_by_pair: dict[tuple[str, str], int] = {}
        self._request: Final = Request()
        self._scratch: Final = FrameCursor(False)  # frames that are replayed or rebuilt

    def number_mimes(self, setup: Setup) -> int:
        """The number of a connection's pair of mime types; -1 when it is a new pair and there are MAX_MIMES of them."""
        pair = (setup.metadata_mime, setup.data_mime)
        number = self._mimes_by_pair.get(pair, -1)
        if number < 0:
            number = len(self._mimes)
            if number >= MAX_MIMES:
                return -1
            self._mimes.append(Mimes(number, setup))
            self._mimes_by_pair[pair] = number
        return number

    def handle_request(self, peer: Peer, frame: FrameCursor) -> str:
        """A frame on a stream id that is not in use; a fault that ends the connection, or an empty text."""
        kind = frame.kind
        if kind < REQUEST_RESPONSE or kind > REQUEST_CHANNEL or frame.stream_id & 1 != peer.begins:
            # "All other received frames that are not accounted for in previous sections MUST be ignored": late frames
            # of ended streams, and requests with an id that only the broker may use.
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
        refusal = self._refusal_of(peer, frame)
        if refusal is not None:
            self._refuse(peer, frame.stream_id, kind, None, refusal)
            return ""
        request = self._request
        request.data = data
        request.metadata_at = metadata_at
        request.metadata_to = metadata_to
        request.gathering = None
        metadata = data[metadata_at:metadata_to]
        is_whole = not frame.flags & FOLLOWS  # or an ADDRESS cut by fragmentation could pass for a shorter one
        target = peer.latest_target
        if target is not None and is_whole and metadata == peer.latest_metadata:
            # Found as it was the last time. Saves the walk through the metadata and the making and hashing of a key.
            self.query.refresh(target)
            request.address_at = metadata_at + peer.latest_at
            request.address_to = metadata_at + peer.latest_to
            self._route(peer, frame, request, target)
            return ""
        at, to = self.find_address(peer, data, metadata_at, metadata_to, is_cut(frame, metadata_to))
        if at >= 0:
            request.address_at = at
            request.address_to = to
            target = self.query.resolve(data, at, to)
            if is_whole and len(metadata) <= MAX_LATEST_BYTES:
                peer.latest_metadata = metadata
                peer.latest_target = target
                peer.latest_at = at - metadata_at
                peer.latest_to = to - metadata_at
            self._route(peer, frame, request, target)
        elif at == CUT and is_cut(frame, metadata_to):
            self._wait(self._gather(peer, frame))
        else:
            self._refuse(peer, frame.stream_id, kind, None, self._no_address(peer, at))
        return ""

    def gathered(self, gathering: Gathering, frame: FrameCursor) -> None:
        """Another fragment of a request whose ADDRESS was not whole."""
        gathering.leave()
        gathering.hold(frame)
        self._ask(gathering, frame.now)

    def given_up(self, gathering: Gathering, target: Target | None, outcome: int, now: float) -> None:
        """A request that ended before a route had it: counted, though nobody may know where it would have gone."""
        latency_us = int((now - gathering.opened_at) * 1e6)
        flow = self._unrouted(gathering.caller, gathering.kind, target, "")
        flow.count(outcome, latency_us, 0, 0, gathering.held_bytes, 0)

    def gathered_in_vain(self, gathering: Gathering, now: float) -> None:
        """The caller's deadline passed while the rest of the metadata did not come."""
        waited_s = now - gathering.opened_at
        text = f"the metadata, which must be translated, has not come whole within {waited_s:.3f} s"
        refusal = Refusal("deadline", text, REJECTED_CODE)  # what was not forwarded was not processed
        self._refuse(gathering.caller, gathering.caller_id, gathering.kind, gathering.target, refusal)

    def waited_in_vain(self, gathering: Gathering, target: Target, word: str, now: float) -> None:
        """No route came in time for a request that waited, or more of it came than is held."""
        peer = gathering.caller
        waited_s = now - gathering.opened_at
        if word == "over-limit":
            limit = self.settings.max_waiting_bytes
            refusal = Refusal(word, f"the connection's requests that wait for a route have more than {limit} bytes")
        else:
            self.query.refresh(target)
            why = self._obstacle(target, now)
            if why is None and word == "no-route":
                self._let_in(gathering, target, now)  # what stood in its way went without a word
                return
            text = why.text if why is not None else "a route has just come"
            # What was not forwarded was not processed, also when it is the caller's own deadline that has passed.
            refusal = Refusal(word, f"{text}, after {waited_s:.1f} s of waiting", REJECTED_CODE)
        self._refuse(peer, gathering.caller_id, gathering.kind, target, refusal)

    def route_opened(self, route: Route, now: float) -> None:
        """A route has joined, or takes requests again: those that waited for it go on, in order."""
        load = route.load
        for waiter in self.waiting.take_matching(route):
            if waiter.is_over:
                continue  # its caller was lost over one before it
            if load.lease is not None and load.lease.left_n <= 0:
                return  # it has granted no more; what else has become free is seen at the next tick
            target = waiter.target
            self.query.refresh(target)
            if self._obstacle(target, now) is None:
                self.waiting.leave(waiter)
                self._let_in(waiter.held, target, now)

    def handle_push(self, peer: Peer, frame: FrameCursor, at: int, to: int) -> None:
        """A METADATA_PUSH with an ADDRESS in `frame.data[at:to]`. It has no answer, not even an error."""
        metadata_at = frame.start + HEADER_BYTES
        peer.requests += 1
        target = self.query.resolve(frame.data, at, to)
        refusal = target.refusal
        if refusal is None and self.is_draining:
            refusal = Refusal("draining", "the broker takes no new requests")
        if refusal is not None:
            self._refuse(peer, 0, METADATA_PUSH, target, refusal)
            return
        metadata = frame.data[metadata_at : frame.end]
        raw_address = frame.data[at:to]
        size = frame.end - frame.start
        routes: list[Route]
        if target.routing == MULTICAST:
            routes = self.query.members(target)
        else:
            chosen = self.query.choose(target, peer.zone, peer.origin, frame.now)
            routes = [chosen] if chosen is not None else []
        if not routes:
            if target.blocked_service is not None:
                self.breakers.refuse(target.blocked_service, blocked_of(target), frame.now)
            self._refuse(peer, 0, METADATA_PUSH, target, blocked_of(target))
            return
        flow = self._flow(peer, target, None if target.routing == MULTICAST else routes[0], METADATA_PUSH)
        for route in routes:
            server = owner_of(route)
            try:
                translated = self._translated(peer, server, metadata, raw_address, False)
            except BrokerError:
                translated = None  # see `_translated_first`; a push has no answer
            if translated is not None and len(translated) + HEADER_BYTES <= MAX_FRAME_BYTES:
                server.request(encode_metadata_push(translated))
            route.load.requests += 1  # no lease speaks of pushes
        flow.count(COMPLETED, 0, 1, 0, size, 0)

    def find_in_push(self, peer: Peer, frame: FrameCursor) -> tuple[int, int]:
        """The broker frame in a METADATA_PUSH: everything behind the header is metadata, whatever the M flag says."""
        return self.find_address(peer, frame.data, frame.start + HEADER_BYTES, frame.end, False)

    def _refusal_of(self, peer: Peer, frame: FrameCursor) -> Refusal | None:
        if self.is_draining:
            return Refusal("draining", "the broker takes no new requests")
        if peer.begun >= self.settings.max_streams_per_connection:
            limit = self.settings.max_streams_per_connection
            return Refusal("over-limit", f"{peer.begun} streams of this connection are open, the limit is {limit}")
        if frame.kind >= REQUEST_STREAM and initial_n(frame.data, frame.start) == 0:
            return Refusal("bad-request", "the initial request n is 0, it must be over 0")
        return None

    def find_address(self, peer: Peer, data: bytes, at: int, to: int, is_cut: bool) -> tuple[int, int]:
        """(from, to) of the ADDRESS, or (ABSENT | CUT | BROKEN, 0). `is_cut`: more metadata follows in fragments."""
        kind = self._mimes[peer.mimes].kind
        if kind == COMPOSITE:
            found, end = find_broker_frame(data, at, to)
            if found == ABSENT and is_cut:
                return CUT, 0
            return found, end
        if kind == BROKER:
            if is_cut:
                return CUT, 0
            return (at, to) if to > at else (ABSENT, 0)
        return ABSENT, 0

    def _no_address(self, peer: Peer, found: int) -> Refusal:
        mimes = self._mimes[peer.mimes]
        if mimes.kind != COMPOSITE and mimes.kind != BROKER:
            text = (
                f"metadata of the mime type {mimes.metadata_mime!r}, which the SETUP announced, cannot hold an ADDRESS"
            )
        elif found == CUT:
            text = "the composite metadata of the request breaks off"
        elif found == BROKEN:
            text = "the composite metadata of the request has too many entries"
        else:
            text = "the metadata of the request holds no ADDRESS"
        return Refusal("bad-address", text)

    def _gather(self, peer: Peer, frame: FrameCursor) -> Gathering:
        """Holds the first frame of a request until more is known."""
        gathering = Gathering(peer, frame.stream_id, frame.kind, self, frame.now)
        gathering.hold(frame)
        return gathering

    def _wait(self, gathering: Gathering) -> None:
        """Lets a held request wait for its next fragment, within the bounds."""
        peer = gathering.caller
        limit = self.settings.max_metadata_bytes
        if peer.gathered_bytes + gathering.held_bytes > limit or len(gathering.frames) >= MAX_FRAMES:
            text = f"no whole ADDRESS in {len(gathering.frames)} fragments; {limit} bytes are held for a connection"
            self._refuse(peer, gathering.caller_id, gathering.kind, None, Refusal("over-limit", text))
            return
        gathering.enter()
        target = gathering.target
        if target is not None and target.deadline_ms > 0:
            gathering.timer = self.timers.put(gathering.opened_at + target.deadline_ms / 1000.0, gathering)

    def _ask(self, gathering: Gathering, now: float) -> None:
        """Routes a held request if enough of it is there; refuses it if that will never be."""
        peer = gathering.caller
        metadata = gathering.metadata
        at, to = self.find_address(peer, metadata, 0, len(metadata), not gathering.is_whole)
        if not gathering.is_whole and (at == CUT or gathering.needs_whole):
            self._wait(gathering)
            return
        if at < 0:
            self._refuse(peer, gathering.caller_id, gathering.kind, None, self._no_address(peer, at))
            return
        request = self._request
        request.data = metadata
        request.metadata_at = 0
        request.metadata_to = len(metadata)
        request.address_at = at
        request.address_to = to
        request.gathering = gathering
        target = self.query.resolve(metadata, at, to)
        self._route(peer, self._cursor(gathering.frames[0], now), request, target)

    def _route(self, peer: Peer, frame: FrameCursor, request: Request, target: Target) -> None:
        """The ADDRESS is known: the request goes to one, to all, or back with an error. `frame` is its first frame."""
        if target.refusal is not None:
            self._turn_away(peer, frame, request, target, target.refusal)
            return
        if target.routing == MULTICAST:
            self._route_to_all(peer, frame, request, target)
            return
        route = self.query.choose(target, peer.zone, peer.origin, frame.now)
        if route is None:
            self._turn_away(peer, frame, request, target, blocked_of(target))
            return
        server = owner_of(route)
        is_merged = False
        if peer.mimes != server.mimes and not passes(self._mimes[peer.mimes], self._mimes[server.mimes]):
            if self._must_wait(peer, frame, request, target):
                return
            raw = self._translated_first(peer, server, frame, request, target)
            if not raw:
                return
            frame = self._cursor(raw, frame.now)
            is_merged = True
        kind = frame.kind
        flow = self._flow(peer, target, route, kind)
        if kind == REQUEST_FNF and not frame.flags & FOLLOWS:
            route.load.take()
            server.forward(frame, server.open_id())
            flow.count(COMPLETED, 0, 1, 0, frame.end - frame.start, 0)
        else:
            splice = Splice(peer, frame.stream_id, server, server.open_id(), route, flow, kind, frame.now)
            splice.open(frame)
            if target.deadline_ms > 0 and kind != REQUEST_FNF:  # which has no answer, not even this one
                splice.timer = self.timers.put(deadline_at(target, request, frame.now), splice)
        if request.gathering is not None:
            self._replay(peer, frame.stream_id, request.gathering, is_merged, frame.now)

    def _route_to_all(self, peer: Peer, frame: FrameCursor, request: Request, target: Target) -> None:
        """Multicast: the routes that match now, each with a frame that it can read."""
        routes = self.query.members(target)
        if not routes:
            self._turn_away(peer, frame, request, target, blocked_of(target))
            return
        caller_mimes = self._mimes[peer.mimes]
        is_strange = False  # some route cannot read it as it is
        for route in routes:
            if not passes(caller_mimes, self._mimes[owner_of(route).mimes]):
                is_strange = True
        if is_strange and self._must_wait(peer, frame, request, target):
            return
        kind = frame.kind
        now = frame.now
        stream_id = frame.stream_id
        credit_n = initial_n(frame.data, frame.start) if kind >= REQUEST_STREAM else 0
        frames: dict[int, bytes] = {}  # by the routes' mime types: what to send them
        if is_strange:
            for route in routes:
                server = owner_of(route)
                if server.mimes not in frames:
                    raw = self._translated_first(peer, server, frame, request, target)
                    if not raw:
                        return
                    frames[server.mimes] = raw
        flow = self._flow(peer, target, None, kind)
        call = open_multicast(peer, stream_id, flow, kind, now, credit_n, len(routes))
        if is_strange:
            frame = self._cursor(frames[owner_of(routes[0]).mimes], now)
        call.enter(frame.flags, frame.end - frame.start)
        for route in routes:
            server = owner_of(route)
            if is_strange:
                frame = self._cursor(frames[server.mimes], now)
            call.open_branch(server, route, frame)
        call.opened(now)
        if target.deadline_ms > 0 and kind != REQUEST_FNF:  # which has no end to wait for
            call.timer = self.timers.put(deadline_at(target, request, now), call)
        if request.gathering is not None:
            self._replay(peer, stream_id, request.gathering, is_strange, now)

    def _turn_away(self, peer: Peer, frame: FrameCursor, request: Request, target: Target, why: Refusal) -> None:
        """Nobody can serve the request now: it waits, if it may, or is refused (D-10, D-40)."""
        if target.is_announcement:
            self._take_announcement(peer, frame, request)
            return
        if why is target.blocked and target.blocked_service is not None:
            self.breakers.refuse(target.blocked_service, why, frame.now)
        if self.settings.no_route != "wait" or why.word not in WAITED_FOR:
            self._refuse(peer, frame.stream_id, frame.kind, target, why)
            return
        held = request.gathering if request.gathering is not None else self._gather(peer, frame)
        full = self.waiting.refusal_of(held)
        if full:
            self._refuse(peer, frame.stream_id, frame.kind, target, Refusal("over-limit", f"{why.text}, and {full}"))
            return
        until = held.opened_at + self.settings.no_route_timeout_s
        is_urgent = False
        if target.deadline_ms > 0:
            wanted = held.opened_at + target.deadline_ms / 1000.0
            is_urgent = wanted < until
            until = min(until, wanted)
        self.waiting.enter(held, target, until, is_urgent)

    def _take_announcement(self, peer: Peer, frame: FrameCursor, request: Request) -> None:
        """A ROUTE_SETUP where a request has its ADDRESS: the core reads it, and the request is complete. D-45"""
        self.announced.append(Announcement(peer, request.data[request.address_at : request.address_to]))
        if frame.kind != REQUEST_FNF:
            peer.send(encode_payload(frame.stream_id, COMPLETE))
        self._unrouted(peer, frame.kind, None, "").count(COMPLETED, 0, 1, 0, frame.end - frame.start, 0)

    def _obstacle(self, target: Target, now: float) -> Refusal | None:
        """Why a target cannot be served now; None when it can."""
        return target.refusal if target.refusal is not None else self.query.find_block(target, now)

    def look_again(self, generation: int, now: float) -> None:
        """Routes may have become free without a join; `generation` of the masks, so that nothing is looked at twice.

        LOOKED_AT of those that wait in one tick, in order; the next tick goes on where this one ended.
        """
        if not self.waiting.is_behind:  # or what has changed since is for the next look, from the first one on
            if generation == self._looked_at:
                return
            self._looked_at = generation
        for waiter in self.waiting.next_some():
            if waiter.is_over:
                continue
            self.query.refresh(waiter.target)
            if self._obstacle(waiter.target, now) is None:
                self.waiting.leave(waiter)
                self._let_in(waiter.held, waiter.target, now)

    def _let_in(self, gathering: Gathering, target: Target, now: float) -> None:
        """Routes a request that was held until there was a route."""
        metadata = gathering.metadata
        request = self._request
        request.data = metadata
        request.metadata_at = 0
        request.metadata_to = len(metadata)
        request.address_at, request.address_to = self.find_address(
            gathering.caller, metadata, 0, len(metadata), not gathering.is_whole
        )
        request.gathering = gathering
        self._route(gathering.caller, self._cursor(gathering.frames[0], now), request, target)

    def _must_wait(self, peer: Peer, frame: FrameCursor, request: Request, target: Target) -> bool:
        """True, and the request is held, when metadata that must be translated has not arrived whole."""
        gathering = request.gathering
        if gathering is None:
            if not is_cut(frame, request.metadata_to):
                return False
            gathering = self._gather(peer, frame)
        elif gathering.is_whole:
            return False
        gathering.needs_whole = True
        gathering.target = target
        self._wait(gathering)
        return True

    def _translated_first(
        self, peer: Peer, server: Peer, frame: FrameCursor, request: Request, target: Target
    ) -> bytes:
        """The first frame with metadata that the server can read; empty if that cannot be, and the caller was told."""
        metadata = request.data[request.metadata_at : request.metadata_to]
        raw_address = request.data[request.address_at : request.address_to]
        try:
            translated = self._translated(peer, server, metadata, raw_address, True)
        except BrokerError as error:  # an ADDRESS that we can read and not write: values over 127 bytes of D-21
            self._refuse(peer, frame.stream_id, frame.kind, target, Refusal("bad-address", error.text))
            return b""
        if translated is not None and len(translated) > MAX_FRAME_BYTES:  # its length could not even be written
            self._refuse_large(peer, frame, target, frame.end - frame.start + len(translated) - len(metadata))
            return b""
        gathering = request.gathering
        if gathering is not None:
            raw = gathering.merged(translated)
        else:
            rest = frame.data[request.metadata_to : frame.end]
            n = initial_n(frame.data, frame.start) if frame.kind >= REQUEST_STREAM else 0
            raw = encode_request(frame.kind, frame.stream_id, rest, translated, n, frame.flags & ~METADATA)
        if len(raw) > MAX_FRAME_BYTES:
            self._refuse_large(peer, frame, target, len(raw))
            return b""
        return raw

    def _refuse_large(self, peer: Peer, frame: FrameCursor, target: Target, size: int) -> None:
        text = f"the request would have {size} bytes with metadata that {target.service or 'the route'} can read"
        self._refuse(peer, frame.stream_id, frame.kind, target, Refusal("too-large", text))

    def _translated(
        self, peer: Peer, server: Peer, metadata: bytes, raw_address: bytes, has_data: bool
    ) -> bytes | None:
        caller_mimes = self._mimes[peer.mimes]
        server_mimes = self._mimes[server.mimes]
        if passes(caller_mimes, server_mimes):
            return metadata
        return translate(metadata, raw_address, caller_mimes, server_mimes, has_data)

    def _replay(self, peer: Peer, stream_id: int, gathering: Gathering, is_merged: bool, now: float) -> None:
        """What was held behind the first frame goes the way that the request has now; `is_merged`: only the credit."""
        frames = gathering.later if is_merged else gathering.frames[1:] + gathering.later
        if gathering.more_n:
            frames = [*frames, encode_request_n(stream_id, gathering.more_n)]
        for raw in frames:
            stream = peer.streams.get(stream_id)
            if stream is None:
                return
            stream.from_caller(self._cursor(raw, now))

    def _cursor(self, raw: bytes, now: float) -> FrameCursor:
        """A cursor on one whole frame."""
        scratch = self._scratch
        scratch.feed(raw, now)
        scratch.advance()
        return scratch

    def _flow(self, peer: Peer, target: Target, route: Route | None, model: int) -> Flow:
        """Where requests like this one are counted."""
        key = (target.number << 36) | ((route.number if route is not None else 0) << 4) | model
        latest = peer.latest_flow
        if latest is not None and latest.key == key:
            return latest
        flow = peer.flows.get(key)
        if flow is None:
            flow = self._open_flow(peer, key, target, route, model, "")
        peer.latest_flow = flow
        return flow

    def _refuse(self, peer: Peer, stream_id: int, kind: int, target: Target | None, refusal: Refusal) -> None:
        """Answers with ERROR where the model has an answer, and counts."""
        if kind != REQUEST_FNF and kind != METADATA_PUSH:
            peer.send(encode_error(stream_id, refusal.code, refusal.message))
        self._unrouted(peer, kind, target, refusal.word).count(REJECTED, 0, 0, 0, 0, 0)

    def _unrouted(self, peer: Peer, kind: int, target: Target | None, word: str) -> Flow:
        """Where requests are counted that no route saw; `word` of the refusal, empty when the caller gave up."""
        number = target.number if target is not None else 0
        word_number = _WORDS.index(word) if word else len(_WORDS)
        key = -((number << 12) | (word_number << 4) | kind)
        flow = peer.flows.get(key)
        return flow if flow is not None else self._open_flow(peer, key, target, None, kind, word)

    def _open_flow(
        self, peer: Peer, key: int, target: Target | None, route: Route | None, model: int, word: str
    ) -> Flow:
        """A flow that this interval does not have yet; without a target nobody knows what was asked for."""
        caller = peer.route
        service = target.service if target is not None else ""
        return self.flows.open(
            peer.flows,
            key,
            caller.id_text if isinstance(caller, Route) else "",
            peer.caller_service,
            route.id_text if route is not None else "",
            route.service if route is not None else service,
            target.label if target is not None else "",
            model,
            target.routing_name if target is not None else "",
            word,
        )


def deadline_at(target: Target, request: Request, now: float) -> float:
    """When the caller's deadline is, monotonic: it runs from the first frame on, also while that was held."""
    began_at = request.gathering.opened_at if request.gathering is not None else now
    return began_at + target.deadline_ms / 1000.0


def is_cut(frame: FrameCursor, metadata_to: int) -> bool:
    """More of the request's metadata may follow in fragments."""
    return frame.flags & FOLLOWS != 0 and frame.flags & METADATA != 0 and metadata_to == frame.end


def owner_of(route: Route) -> Peer:
    """The peer behind a route of this broker's table."""
    owner = route.owner
    assert isinstance(owner, Peer)  # the core makes no others
    return owner


def blocked_of(target: Target) -> Refusal:
    """Why nobody could be chosen."""
    blocked = target.blocked
    assert blocked is not None  # set when nobody is
    return blocked
