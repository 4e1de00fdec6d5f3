"""METADATA_PUSH with an ADDRESS: it goes to one route or to all, and nobody hears what became of it.

Decides as the engine does for other requests, but nothing is held, and what a route cannot read is not sent to it.
"""

from typing import Final

from broker.forwarding.callers import caller_for, reader_key
from broker.forwarding.interbroker.egress import Egress
from broker.forwarding.interbroker.fanout import LinkFanout
from broker.forwarding.interbroker.ingress import PASSES, STRIP, Ingress
from broker.forwarding.interbroker.remote import Remote
from broker.forwarding.mime_translation import COMPOSITE, passes
from broker.forwarding.multicast.opening import BranchRequest, push_to_all
from broker.forwarding.peer import Peer
from broker.forwarding.request import Request, RequestContext, blocked_of
from broker.forwarding.traffic.flows import COMPLETED
from broker.routing.health.breakers import Breakers
from broker.routing.table import Route
from broker.routing.targets import Target
from rsocket_wire.errors import BrokerError, Refusal
from rsocket_wire.rsocket.frames import HEADER_BYTES, METADATA, METADATA_PUSH, encode_metadata_push
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES, FrameCursor
from rsocket_wire.rsocket.metadata import custom_entries, is_broker_mime
from rsocket_wire.wire.annotations import ANNOTATIONS_MIME
from rsocket_wire.wire.frames import ADDRESS, MULTICAST

# What metadata has beside an ADDRESS.
NOTHING: Final = 0  # that anybody but the service reads
ANNOTATED: Final = 1  # router annotations
OTHER_FRAMES: Final = 2  # broker frames of other kinds


class PushRouter:
    """The METADATA_PUSHes of all peers of one broker."""

    def __init__(
        self, context: RequestContext, egress: Egress, ingress: Ingress, fanout: LinkFanout, breakers: Breakers
    ) -> None:
        self._context: Final = context
        self._egress: Final = egress
        self._ingress: Final = ingress
        self._fanout: Final = fanout
        self._breakers: Final = breakers
        self._request: Final = Request()
        self._is_draining = False  # the broker takes no new requests

    def handle(self, peer: Peer, frame: FrameCursor, at: int, to: int, has_claim: bool, is_draining: bool) -> None:
        """One with an ADDRESS in `frame.data[at:to]`; `is_draining`: the broker takes no new requests.

        `has_claim`: and with an entry that only brokers may write.
        """
        self._is_draining = is_draining
        peer.requests += 1
        self._context.choice = 0
        request = self._request
        request.data = frame.data
        request.metadata_at = frame.start + HEADER_BYTES
        request.metadata_to = frame.end
        request.mimes = peer.mimes
        request.reassembly = None
        if peer.link is not None:
            self._ingress.handle(peer, frame, request)
            return
        verdict = PASSES
        if not self._is_only_entry(peer, frame, at, to):
            found = _survey(frame.data, request.metadata_at, frame.end)
            if found == OTHER_FRAMES:
                text = "the METADATA_PUSH has other broker frames beside the ADDRESS"
                self._context.refuse(peer, 0, METADATA_PUSH, None, Refusal("bad-address", text))
                return
            if found == ANNOTATED:
                verdict = self._ingress.admit(peer, frame, request)
        if verdict == STRIP:
            stripped = self._ingress.strip(peer, frame, request)
            if stripped is not None:
                self._begin_push(peer, stripped, request)
        elif verdict == PASSES and has_claim:
            self._begin_push(peer, frame, request)
        elif verdict == PASSES:
            request.address_at = at
            request.address_to = to
            self._push(peer, frame, request)

    def _is_only_entry(self, peer: Peer, frame: FrameCursor, at: int, to: int) -> bool:
        """The metadata of the METADATA_PUSH is the broker frame at `at:to`, or a composite with that entry alone."""
        if self._context.mimes[peer.mimes].kind != COMPOSITE:
            return True
        first = frame.start + HEADER_BYTES
        head = frame.data[first]
        return to == frame.end and at == first + (5 + head if head < 0x80 else 4)

    def _begin_push(self, peer: Peer, frame: FrameCursor, request: Request) -> None:
        """A METADATA_PUSH of a client with an ADDRESS somewhere in its metadata, which `request` knows."""
        at, to, has_claim = self._context.find_address(
            peer, request.data, request.metadata_at, request.metadata_to, False
        )
        if has_claim:
            honest = self._context.without_claims(peer, frame, request)
            if honest is not None:
                self._begin_push(peer, honest, request)
            return
        if at < 0:
            self._context.refuse(peer, 0, METADATA_PUSH, None, self._context.no_address(peer, at))
            return
        request.address_at = at
        request.address_to = to
        self._push(peer, frame, request)

    def _push(self, peer: Peer, frame: FrameCursor, request: Request) -> None:
        at = request.address_at
        to = request.address_to
        target = self._context.resolve(peer, frame.data, at, to)
        if self._context.denials.is_on and not self._context.may_ask(peer, 0, METADATA_PUSH, request, target):
            return
        refusal = target.refusal
        if refusal is None and self._is_draining:
            refusal = Refusal("draining", "the broker takes no new requests")
        if refusal is not None:
            self._context.refuse(peer, 0, METADATA_PUSH, target, refusal)
            return
        routes: list[Route]
        if target.routing == MULTICAST:
            routes = self._context.choose_all(peer, request, target)
        else:
            chosen = self._context.query.choose(target, peer.zone, peer.origin, frame.now)
            routes = [chosen] if chosen is not None else []
        self._context.choice = self._context.query.choices
        if not routes:
            if target.blocked_service is not None:
                self._breakers.refuse(target.blocked_service, blocked_of(target), frame.now)
            self._context.refuse(peer, 0, METADATA_PUSH, target, blocked_of(target))
            return
        if target.routing == MULTICAST and self._context.query.is_spread(target):
            self._fanout.spread(peer, frame, request, target, routes)
            return
        raw_address = frame.data[at:to]
        if target.routing != MULTICAST:
            route = routes[0]
            server = self._server_of(peer, frame, request, target, route)
            if server is None:
                return  # another broker has it
            caller = caller_for(route, server, peer)
            if (
                not caller
                and frame.flags == METADATA
                and passes(self._context.mimes[request.mimes], self._context.mimes[server.mimes])
            ):
                server.check_later()
                server.forward(frame, 0)
                route.load.requests += 1  # no lease speaks of pushes
            else:
                metadata = frame.data[request.metadata_at : frame.end]
                raw = self._push_for(request.mimes, server, metadata, raw_address, caller)
                if raw:
                    server.request(raw)
                    route.load.requests += 1
            flow = self._context.flow(peer, target, route, METADATA_PUSH)
            flow.count(COMPLETED, 0, 1, 0, frame.end - frame.start, 0, frame.now, self._context.choice, 1)
            return
        if self._context.refuse_wide(peer, frame, target, len(routes), len(routes)):
            return
        metadata = frame.data[request.metadata_at : frame.end]
        flow = self._context.flow(peer, target, None, METADATA_PUSH)
        pushes: dict[int, bytes] = {}  # by `reader_key`: what to send them; empty: they cannot read it
        parts: list[BranchRequest] = []
        for route in routes:
            server = self._server_of(peer, frame, request, target, route)
            assert server is not None  # or it is a spread
            key = reader_key(route, server)
            found = pushes.get(key)
            if found is None:
                caller = caller_for(route, server, peer)
                found = pushes[key] = self._push_for(request.mimes, server, metadata, raw_address, caller)
            if found:
                parts.append(BranchRequest(server, route, found))
        push_to_all(self._context.steps, peer, parts, frame.now)
        flow.count(COMPLETED, 0, 1, 0, frame.end - frame.start, 0, frame.now, self._context.choice, len(routes))

    def _push_for(self, mimes: int, server: Peer, metadata: bytes, raw_address: bytes, caller: bytes) -> bytes:
        """The METADATA_PUSH as the server can read it; empty where that cannot be: see `translated_first`."""
        try:
            translated = self._context.translated(mimes, server, metadata, raw_address, False, caller)
        except BrokerError:
            return b""  # a push has no answer
        if translated is None or len(translated) + HEADER_BYTES > MAX_FRAME_BYTES:
            return b""
        return encode_metadata_push(translated)

    def _server_of(self, peer: Peer, frame: FrameCursor, request: Request, target: Target, route: Route) -> Peer | None:
        """Who gets the request as it is; None: it has gone to another broker, or was refused."""
        owner = route.owner
        if isinstance(owner, Peer):
            return owner
        assert isinstance(owner, Remote)  # there are no others
        return self._egress.send(peer, frame, request, target, route, owner)


def _survey(data: bytes, at: int, end: int) -> int:
    """What the composite metadata of a METADATA_PUSH has beside its ADDRESS: NOTHING, ANNOTATED or OTHER_FRAMES.

    It passes as it came, and a client must not be able to tell others what they would take for the word of their broker
    (D-54). One walk: to search the bytes for the name of annotations costs a fifth of a push.
    """
    found = NOTHING
    for mime, entry_at, entry_to in custom_entries(data, at, end):
        if is_broker_mime(mime):
            if entry_to - entry_at < 6 or data[entry_at + 4] >> 2 != ADDRESS:
                return OTHER_FRAMES
        elif mime == ANNOTATIONS_MIME:
            found = ANNOTATED
    return found
