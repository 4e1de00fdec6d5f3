"""Back pressure: what waits in the broker for peers that read slowly, and who is not read from meanwhile.

    peer congested ──► callers that send it requests are paused ──► peer relieved: they are read from again
                  └──► too much waits ──► the requests that hold most end ──► still too much: the connection ends (D-72)

A service is never paused because one of the callers that it answers reads slowly. Links are always read from: other
brokers are told instead, which is done by whoever calls (`cluster.links.congestion`): methods return the links to tell,
the routes whose state has changed, and the connections to end. D-63, D-74
"""

from typing import Final

from broker.connections.ending import Ending
from broker.connections.limits import ConnectionLimits
from broker.forwarding.engine import Engine
from broker.forwarding.interbroker.remote import is_behind
from broker.forwarding.outbound import PUSHES, Total
from broker.forwarding.peer import Peer
from broker.forwarding.settings import Settings
from broker.routing.health.masks import Masks
from broker.routing.table import Route
from rsocket_wire.errors import CANCELED
from rsocket_wire.rsocket import frames

TOLD_S: Final = 0.1  # for which other brokers hold a route to be behind at least
SMALL_BYTES: Final = 1 << 10  # of an answer that waits, with its cost: an ERROR in its place would cost as much
SENT_BYTES: Final = 64 << 20  # more may wait for a peer while callers are paused for it: what they had sent before that


class BehindRoute:
    """A route of another broker that is behind, and the callers that are not read from until it takes more."""

    def __init__(self, route: Route) -> None:
        self.route: Final = route
        self.paused_callers: Final[dict[int, Peer]] = {}  # by id


class BackPressure:
    """What waits for the peers of one broker."""

    def __init__(self, settings: Settings, engine: Engine, masks: Masks, limits: ConnectionLimits) -> None:
        self._settings: Final = settings
        self._engine: Final = engine
        self._masks: Final = masks
        self._peers: Final = limits.peers
        self.outbound: Final = Total(settings.max_buffered_bytes)
        self.to_check: Final[list[Peer]] = []  # congested peers that were just sent requests; they append themselves
        self.congested: Final[list[Peer]] = []  # peers that have just become so
        self.read_changes: Final[list[Peer]] = []  # peers whose reading stops or goes on
        self.behind: Final[dict[int, BehindRoute]] = {}  # by number; bounded by the callers that wait for them
        self.told_congested: Final[dict[int, Peer]] = {}  # by id, whose routes other brokers hold to be behind

    def congest(self, peer: Peer) -> None:
        """Notes that the peer's transport takes no more for now: what is sent to it waits from here on."""
        peer.set_blocked(True)
        if not peer.is_congested:
            peer.is_congested = True
            self._mask(peer)
            self._engine.congestions_n += 1
            self.congested.append(peer)

    def release(self, peer: Peer, now: float) -> list[Peer]:
        """Reads again from callers that waited for the peer: it takes all that is written to it again, or is gone.

        Returns the links that have sent it requests.
        """
        if peer.is_congested:
            peer.is_congested = False
            self._mask(peer)
            self._engine.congestions_n += 1
        for stream_id, credit in peer.take_credit().items():
            if peer.streams.get(stream_id) is credit.stream:
                frame = self._engine.cursor(frames.encode_request_n(stream_id, credit.n), now)
                if stream_id & 1 == peer.begins:
                    credit.stream.from_caller(frame)
                else:
                    credit.stream.from_route(frame)
        paused_callers = peer.paused_callers
        if not paused_callers:
            return []
        peer.paused_callers = {}
        return self._resume(peer.id, paused_callers, now)

    def forget(self, peer: Peer) -> None:
        """Forgets a peer that is gone: nobody waits with it any more."""
        for paused_callers in peer.paused_by.values():
            paused_callers.pop(peer.id, None)
        peer.paused_by = {}

    # Who is paused

    def pause(self, caller: Peer) -> bool:
        """Pauses the caller, which has just sent requests to congested peers.

        True: the caller is a link, and so is a congested peer: the caller is to be told that this way is behind.
        """
        is_told = False
        for peer in self.to_check:
            peer.needs_check = False
            if peer is caller or caller.is_lost:
                continue
            if peer.is_congested and caller.id not in peer.paused_callers:
                peer.paused_callers[caller.id] = caller
                if caller.link is None:
                    self._pause_until(caller, peer.id, peer.paused_callers)
                elif peer.link is not None:
                    is_told = True
        self.to_check.clear()
        return is_told

    def pause_nobody(self) -> None:
        """Pauses nobody for what congested peers were sent and no caller has just sent."""
        for peer in self.to_check:
            peer.needs_check = False
        self.to_check.clear()

    def pause_for_routes(self) -> list[Peer]:
        """Pauses callers that have just sent requests to routes of other brokers that are behind.

        Returns the links among those callers: they are told.
        """
        links: list[Peer] = []
        for feeding in self._engine.congested_requests:
            caller = feeding.caller
            route = feeding.route
            if caller.link is not None:
                links.append(caller)
                continue
            if route is None or caller.is_lost or not is_behind(route):
                continue
            behind = self.behind.get(route.number)
            if behind is None:
                behind = self.behind[route.number] = BehindRoute(route)
            if caller.id not in behind.paused_callers:
                behind.paused_callers[caller.id] = caller
                self._pause_until(caller, -route.number, behind.paused_callers)
        self._engine.congested_requests.clear()
        return links

    def release_routes(self, now: float) -> list[Peer]:
        """Looks for routes of other brokers that have caught up, or left; returns links that sent them requests."""
        links: list[Peer] = []
        for number, behind in list(self.behind.items()):
            if behind.route.slot < 0 or not is_behind(behind.route) or not behind.paused_callers:
                del self.behind[number]
                links += self._resume(-number, behind.paused_callers, now)
        return links

    # What other brokers are told

    def take_congested(self, now: float) -> list[Route]:
        """Takes routes of peers that have just become congested: others hear it at once, and hold it for TOLD_S."""
        routes: list[Route] = []
        for peer in self.congested:
            route = peer.route
            if peer.is_congested and isinstance(route, Route) and route.slot >= 0:
                peer.told_until = now + TOLD_S
                self.told_congested[peer.id] = peer
                routes.append(route)
        self.congested.clear()
        return routes

    def take_relieved(self, now: float) -> list[Route]:
        """Takes routes that are behind no more, and of which other brokers have held it for long enough."""
        routes: list[Route] = []
        for peer in list(self.told_congested.values()):
            if now < peer.told_until or (peer.is_congested and not peer.is_lost):
                continue
            del self.told_congested[peer.id]
            route = peer.route
            if isinstance(route, Route) and route.slot >= 0:
                routes.append(route)
        return routes

    # Too much

    def shed(self, now: float) -> Ending | None:
        """Ends the requests that hold most where too much waits for some peers, or for all, until the rest fits. D-72

        Returns a connection that has to end for it, and is to be asked again after that; None: the rest fits.
        """
        total = self.outbound
        while total.over:
            peer_id = total.over.pop(0)
            queue = total.queues.get(peer_id)
            peer = self._peers.get(peer_id)
            if queue is None or peer is None:
                continue
            most_bytes, option = self._room_of(peer)
            while queue.is_over(most_bytes):
                text = f"{queue.held_bytes} bytes wait for {option}"
                if self.shed_largest(peer, f"{text}; this request has most of them", now):
                    continue
                # The broker's own frames are left, such as ERRORs for requests that the peer sends and sends.
                if peer.link is not None:
                    return Ending(peer, "over-limit", text, is_slow=True)
                self._pause_itself(peer)
                break
        while total.used_bytes > total.limit_bytes:
            text = f"{total.used_bytes} bytes wait in the broker, the limit is {total.limit_bytes}"
            text += " (limits.max_buffered_bytes)"
            peer = self._peers.get(total.find_largest())
            if peer is not None and self.shed_largest(peer, f"{text}; this request has most of them", now):
                continue
            peer = self._peers.get(total.find_fullest())
            assert peer is not None  # queues are those of peers that are there, and something waits
            text += f", {peer.pending_bytes} of them for this connection"
            peer.drop_output()
            return Ending(peer, "over-limit", text, is_slow=True)
        return None

    def shed_largest(self, peer: Peer, text: str, now: float) -> bool:
        """Ends the request of which most waits for the peer, or drops a METADATA_PUSH.

        False: what waits are the broker's own frames, or answers as small as the ERROR that would stand for them.
        """
        stream_id = peer.find_largest()
        if not stream_id:
            return False
        if stream_id == PUSHES:
            peer.drop_push()
            self._count_dropped(peer)
            return True
        stream = peer.streams.get(stream_id)
        if stream is not None and stream.shed(text, now):
            return True
        if stream_id & 1 == peer.begins:  # the rest of an answer that has come whole
            if peer.held_of(stream_id) <= SMALL_BYTES:
                return False
            peer.drop_stream(stream_id)
            peer.send(frames.encode_error(stream_id, CANCELED, f"over-limit: {text}"))
            return True
        kind = peer.first_kind(stream_id)
        peer.drop_stream(stream_id)
        if kind == frames.REQUEST_FNF:
            self._count_dropped(peer)
        elif not frames.REQUEST_RESPONSE <= kind <= frames.REQUEST_CHANNEL and kind != frames.CANCEL:
            peer.send(frames.encode_cancel(stream_id))  # the route has seen the request, and what ended it is dropped
        return True

    # Inside

    def _room_of(self, peer: Peer) -> tuple[int, str]:
        """Returns how many bytes may wait for the peer, and its name with what says so, for people."""
        limit = self._settings.max_pending_bytes
        half = self.outbound.limit_bytes // 2
        if peer.link is not None and half > limit + SENT_BYTES:  # answers of many callers, none of whom need be slow
            return half, f"the broker {peer.link.name}, the limit is {half} (half of limits.max_buffered_bytes)"
        option = f"the connection, the limit is {limit} (limits.max_pending_bytes)"
        if peer.paused_callers or peer.link is not None:
            return limit + SENT_BYTES, f"{option}, and {SENT_BYTES} for what callers had sent already"
        return limit, option

    def _resume(self, key: int, paused_callers: dict[int, Peer], now: float) -> list[Peer]:
        """Reads again from callers of what takes more again, `key` of their `paused_by`. Returns links among them."""
        links: list[Peer] = []
        for caller in paused_callers.values():
            if caller.link is not None:
                links.append(caller)
                continue
            if caller.paused_by.pop(key, None) is None:
                continue
            if not caller.paused_by:
                caller.heard_at = now  # what it sent meanwhile was not read
                self.read_changes.append(caller)
        return links

    def _pause_until(self, caller: Peer, key: int, paused_callers: dict[int, Peer]) -> None:
        """Stops reading from the caller until what it has sent requests to takes more again."""
        caller.paused_by[key] = paused_callers
        if len(caller.paused_by) == 1:
            self.read_changes.append(caller)

    def _pause_itself(self, peer: Peer) -> None:
        """Stops reading from a peer until it has read: too much waits for it of which nothing can be dropped."""
        if peer.is_congested and peer.id not in peer.paused_callers:
            peer.paused_callers[peer.id] = peer
            self._pause_until(peer, peer.id, peer.paused_callers)

    def _count_dropped(self, peer: Peer) -> None:
        """Counts a fire-and-forget or push for it that was dropped."""
        if peer.link is not None:
            self._engine.drops.add_of_link(peer.name, peer.link.name)
        else:
            self._engine.drops.add(peer.caller_service)

    def _mask(self, peer: Peer) -> None:
        """Masks its routes while the peer is congested: requests that may go elsewhere do."""
        route = peer.route
        if isinstance(route, Route) and route.slot >= 0:
            self._masks.set(self._masks.congested, route.slot, peer.is_congested)
