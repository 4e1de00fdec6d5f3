"""Where requests leave for other brokers: stamped with what was decided here, decided once more if need be (D-50)."""

from typing import Final

from broker.errors import Refusal
from broker.forwarding.desk import Desk, Request, deadline_at
from broker.forwarding.flows import COMPLETED
from broker.forwarding.hops import Hops, with_entry
from broker.forwarding.peers import Peer
from broker.forwarding.remotes import Remote
from broker.forwarding.retries import Retriable, Tries
from broker.forwarding.splices import Splice
from broker.forwarding.stamps import is_streaming, restamped
from broker.forwarding.translate import COMPOSITE
from broker.routing.bitmaps import Slots
from broker.routing.table import Route
from broker.routing.targets import Target
from broker.rsocket.frames import FOLLOWS, METADATA_PUSH, REQUEST_FNF, encode_request_n, request_parts
from broker.rsocket.framing import MAX_FRAME_BYTES, FrameCursor
from broker.rsocket.resumption import FRAME_COST
from broker.wire.frames import SHARD


class Departures(Tries):
    """The requests of one broker's clients that go to other brokers."""

    __slots__ = ("_again", "_desk", "_hops")

    def __init__(self, desk: Desk, hops: Hops) -> None:
        self._desk: Final = desk
        self._hops: Final = hops
        self._again: Final = Request()  # that is decided upon once more
        self._again.is_second = True

    def send(
        self, peer: Peer, frame: FrameCursor, request: Request, target: Target, route: Route, remote: Remote
    ) -> Peer | None:
        """A client's request for a route of another broker goes out. The peer to send it to as it is, without a stamp:
        only where the link carries none; None: it is dealt with.
        """
        desk = self._desk
        server = remote.via
        link = server.link if server is not None else None
        kind = frame.kind
        if server is None or link is None or (not link.version and link.id != remote.id):
            refusal = Refusal("no-route", f"no way leads to the broker {remote.name}, which has the route")
            if kind == METADATA_PUSH:
                desk.refuse(peer, 0, kind, target, refusal)
            else:
                desk.turn_away(peer, frame, request, target, refusal)
            return None
        if not link.version:
            return server
        gathering = request.gathering
        mimes = desk.mimes[request.mimes]
        metadata_at, metadata_to = request.metadata_at, request.metadata_to
        if gathering is not None:
            if mimes.kind != COMPOSITE and not desk.merge(peer, request, gathering.metadata, target):
                return None
            frame = desk.cursor(gathering.frames[0], frame.now)
            metadata_at, metadata_to = request_parts(frame.data, frame.start, frame.end, kind, frame.flags)
        prefix = self._hops.prefix(route, is_streaming(frame), mimes, target.redirected)
        metadata = frame.data[metadata_at:metadata_to]
        if mimes.kind != COMPOSITE:
            metadata = with_entry(mimes, metadata)
        size = frame.end - frame.start
        if size + len(prefix) + len(metadata) > MAX_FRAME_BYTES and desk.is_large(
            peer, frame, target, size + len(prefix) + len(metadata) - metadata_to + metadata_at
        ):
            return None
        flow = desk.flow(peer, target, route, kind)
        if kind == METADATA_PUSH:
            server.request(restamped(frame, 0, metadata_to, prefix + metadata))
            route.load.requests += 1
            flow.count(COMPLETED, 0, 1, 0, size, 0)
            return None
        stream_id = server.open_id()
        raw = restamped(frame, stream_id, metadata_to, prefix + metadata)
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
        self._hops.retried_n += 1
        request = self._again
        request.mimes = peer.mimes
        desk.locate(frame, request)
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
