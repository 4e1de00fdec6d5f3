"""Requests that leave for other brokers: annotated with what was decided here, decided once more if need be (D-50)."""

from typing import Final

from broker.forwarding.callers import entry_of
from broker.forwarding.interbroker.annotations import RouterAnnotations, entry_head, is_like_ours, role_part
from broker.forwarding.interbroker.remote import Remote
from broker.forwarding.interbroker.retry import RetryableSplice
from broker.forwarding.interbroker.rewrite import rewritten
from broker.forwarding.mime_translation import COMPOSITE
from broker.forwarding.peer import Peer
from broker.forwarding.request import CongestedRequest, Request, RequestContext, deadline_at
from broker.forwarding.traffic.flows import COMPLETED
from broker.forwarding.unicast import Splice
from broker.routing.bitmaps import Slots
from broker.routing.table import Route
from broker.routing.targets import Target
from rsocket_wire.errors import REJECTED, Refusal
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES, FrameCursor
from rsocket_wire.rsocket.resumption import FRAME_COST
from rsocket_wire.wire.frames import SHARD


class Egress:
    """The requests of one broker's clients that go to other brokers."""

    def __init__(self, context: RequestContext, annotations: RouterAnnotations) -> None:
        self._context: Final = context
        self._annotations: Final = annotations
        self._max_waiting_bytes: Final = context.settings.max_waiting_bytes
        self._again: Final = Request()  # that is decided upon once more
        self._again.is_second = True

    def send(
        self, peer: Peer, frame: FrameCursor, request: Request, target: Target, route: Route, remote: Remote
    ) -> Peer | None:
        """A client's request for a route of another broker goes out. The peer to send it to as it is, without a stamp:
        only where the link carries none; None: it is dealt with.
        """
        context = self._context
        server = remote.via
        link = server.link if server is not None else None
        if server is None or link is None or (not link.version and link.id != remote.id):
            # It does not wait: nobody would tell it that there is a way, the route has been there all the time.
            text = f"no path leads to the broker {remote.name}, which has the route"
            context.refuse(peer, frame.stream_id, frame.kind, target, Refusal("no-route", text))
            return None
        if route.load.is_behind or remote.id in link.behind:
            context.congested_requests.append(CongestedRequest(peer, route))
        if not link.version and not role_part(target, context.query.only_observes):
            return server
        if not link.version:
            text = f"the broker {remote.name} takes no annotations, so it cannot be told the role of the caller"
            context.refuse(peer, frame.stream_id, frame.kind, target, Refusal("denied", text, REJECTED))
            return None
        mimes = context.mimes[request.mimes]
        at = request.metadata_at
        to = request.metadata_to
        reassembly = request.reassembly
        if reassembly is not None:
            if mimes.kind != COMPOSITE and not context.merge(peer, request, reassembly.metadata, target):
                return None
            frame = context.cursor(reassembly.frames[0], frame.now)
            at, to = frames.request_parts(frame.data, frame.start, frame.end, frame.kind, frame.flags)
        kind = frame.kind
        flags = frame.flags
        is_streaming = kind == frames.REQUEST_STREAM or kind == frames.REQUEST_CHANNEL or flags & frames.FOLLOWS != 0
        # Nobody could be told that the decision does not hold: then it is made again there, for this role.
        is_made_again = kind == frames.REQUEST_FNF or kind == frames.METADATA_PUSH
        role = role_part(target, context.query.only_observes) if is_made_again else ""
        prefix = self._annotations.prefix(
            route, is_streaming, mimes, target.redirected, is_like_ours(frame.data, at, to), role
        )
        if route.load.wants_caller:
            prefix += entry_of(peer)
        if mimes.kind != COMPOSITE:  # the rest of the metadata is the content of one entry
            prefix += entry_head(mimes, to - at)
        size = frame.end - frame.start
        if size + len(prefix) > MAX_FRAME_BYTES:
            context.refuse_large(peer, frame, target, size + len(prefix))
            return None
        if kind == frames.METADATA_PUSH or (kind == frames.REQUEST_FNF and not flags & frames.FOLLOWS):
            self._send_only(peer, frame, target, route, server, prefix, at, to)
            return None
        flow = context.flow(peer, target, route, kind)
        rest = frame.data[at : frame.end]
        splice: Splice
        has_room = peer.waiting_bytes + size + FRAME_COST <= self._max_waiting_bytes
        if flags & frames.FOLLOWS or request.is_second or not has_room:
            began_at = request.began_at or frame.now
            splice = Splice(peer, frame.stream_id, server, server.open_id(), route, flow, kind, began_at)
        else:
            kept = RetryableSplice(peer, frame.stream_id, server, server.open_id(), route, flow, kind, frame.now)
            kept.keep(frame, rest, to - at, target, context.retries)
            splice = kept
        splice.choice = context.choice
        splice.open_rewritten(frame, prefix, rest, to - at)
        if target.deadline_ms > 0 and kind != frames.REQUEST_FNF:  # which has no answer, not even this one
            splice.timer = context.timers.put(deadline_at(target, request, frame.now), splice)
        if reassembly is not None:
            context.replay(peer, frame.stream_id, reassembly, False, frame.now)
        return None

    def _send_only(
        self,
        peer: Peer,
        frame: FrameCursor,
        target: Target,
        route: Route,
        server: Peer,
        prefix: bytes,
        at: int,
        to: int,
    ) -> None:
        """Sends a push, or a fire-and-forget that has come whole: nothing follows it, and nothing is answered."""
        context = self._context
        if frame.kind == frames.METADATA_PUSH:
            server.request(rewritten(frame, 0, to, prefix + frame.data[at:to]))
            route.load.requests += 1  # no lease speaks of pushes
        else:
            server.forward_rewritten(frame, server.open_id(), prefix, frame.data[at : frame.end], to - at)
            route.load.take()
        flow = context.flow(peer, target, route, frame.kind)
        flow.count(COMPLETED, 0, 1, 0, frame.end - frame.start, 0, frame.now, context.choice, 1)

    def choose_for_retry(self, splice: RetryableSplice, now: float) -> Route | None:
        """Another route for a request of which the first one did not hold (D-50); None: there is none."""
        context = self._context
        target = splice.target
        peer = splice.caller
        context.query.refresh(target)
        if target.refusal is not None or target.reach is not peer.login.reach:  # it has other rights by now
            return None
        if target.routing == SHARD and target.generation == splice.generation:
            return None  # nobody else owns the key, as far as this broker knows
        barred = Slots()
        if splice.route.slot >= 0:
            barred.add(splice.route.slot)
        route = context.query.choose_excluding(target, barred, peer.zone, peer.origin, now)
        if route is None:
            return None
        is_watched = splice.model == frames.REQUEST_RESPONSE and route.load.is_watched
        if is_watched and context.monopoly_of(peer, route.load, now) is not None:
            return None
        return route

    def request_again(self, splice: RetryableSplice, frame: FrameCursor) -> Request:
        """The request of a splice that was given up, in its frame."""
        context = self._context
        self._annotations.retried_n += 1
        request = self._again
        request.mimes = splice.caller.mimes
        context.locate(frame, request)
        # It was found before, so it is found again.
        request.address_at, request.address_to, _ = context.find_address(
            splice.caller, frame.data, request.metadata_at, request.metadata_to, False
        )
        timer = splice.timer
        deadline_s = splice.target.deadline_ms / 1000.0
        request.began_at = timer.at - deadline_s if timer is not None else splice.opened_at
        return request
