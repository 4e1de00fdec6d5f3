"""This broker among others: who they are, how to reach them, which routes they have.

    SETUP with BROKER_INFO ─► greeted ┐                                     ┌─► frames on links: flood, compare, hello
    METADATA_PUSH on links ─► pushed  ├─► membership, paths ─► replication ─┼─► table: routes behind links come and go
    links come and go      ─► lost    ┘   (who, which way)     (routes)     └─► events

    spec "BROKER_INFO", "Emitting ROUTE_ADD Frames", "Emitting ROUTE_REMOVE Frames", "Routing Table"

Decides what is told to whom, and which connections end (`endings`, for the core to carry out). Forwards no requests:
the engine does, and finds the way in `Remote.via`. No I/O: which URLs are to be dialled, `take_dials` says.
"""

from typing import Final

from broker.access.revocations import Revocations
from broker.cluster.gossip import GossipEntry
from broker.cluster.links.broker_info import Info, read_info
from broker.cluster.links.congestion import BEHIND_MIME, Congestion
from broker.cluster.links.handshakes import Handshakes, Superseded
from broker.cluster.links.neighbour import Neighbour, broker_entry
from broker.cluster.membership import Membership
from broker.cluster.messages import (
    CLUSTER_MIME,
    DigestMessage,
    RedirectMessage,
    RolesMessage,
    TableMessage,
    decode_message,
)
from broker.cluster.redirects import Redirects
from broker.cluster.replication import MAX_STAMP_MS, ReplacedElsewhere, Replication
from broker.cluster.revocations import ToldRevocations
from broker.cluster.state import ClusterState
from broker.connections.drains import Drains
from broker.connections.ending import Ending
from broker.connections.review import Review
from broker.events import ANNOTATIONS_REFUSED, DIGEST_MISMATCH, LINK_DOWN, LINK_UP
from broker.forwarding.engine import Engine
from broker.forwarding.peer import Peer
from broker.routing.rng import Rng
from broker.routing.table import Route
from rsocket_wire.errors import BrokerError, Refusal
from rsocket_wire.rsocket.frames import Setup
from rsocket_wire.rsocket.metadata import Entry, encode_entry, entries
from rsocket_wire.timers import NEVER
from rsocket_wire.wire.frames import MIME_TYPE, MIME_TYPE_V0, BrokerInfo, RouteAdd, RouteRemove, decode_frame

STATES_S: Final = 0.25  # how often the states of our own routes are compared with what the others were told
EXPIRE_S: Final = 10.0  # how often brokers that cannot be reached are looked for


class Cluster:
    """One broker's view of its cluster; alone in it until somebody links."""

    def __init__(
        self,
        state: ClusterState,
        engine: Engine,
        drains: Drains,
        revocations: Revocations,
        review: Review,
        rng: Rng,
        entropy: bytes,
        now: float,
    ) -> None:
        """`entropy`: bytes that nobody can guess, for nonces; none where nobody links."""
        self.name: Final = state.name
        self.members: Final = state.members
        self.digest_mismatches = 0
        self.endings: Final = state.endings
        self._settings: Final = state.settings
        self._id: Final = state.id
        self._engine: Final = engine
        self._event_log: Final = state.event_log
        self._drains: Final = drains
        self.handshakes: Final = Handshakes(state, engine.settings.require_annotations, rng, entropy)
        self.dials: Final = self.handshakes.dials  # where this broker calls
        self.refused: Final = self.handshakes.refused  # connections that wanted to be links and are none, by code word
        self.congestion: Final = Congestion(self.members, self.handshakes.neighbours, state.settings.max_brokers)
        self.replication: Final = Replication(state, engine, drains, self.handshakes.is_open)
        self.redirections: Final = Redirects(state, engine.query, self.replication)
        # Services whose requests go to another one, by name, and what the latest operator said of each.
        self.redirects: Final = self.redirections.by_service
        self.revocations: Final = ToldRevocations(state, revocations, review, self.replication)
        self._states_at = now
        self._expire_at = now + EXPIRE_S
        engine.annotations.rename(state.name)
        self.membership: Final = Membership(state, self.handshakes, self.replication, engine.annotations, now)

    # What others look at

    def links(self) -> list[Neighbour]:
        """All neighbours, those in the handshake too, oldest first."""
        return list(self.handshakes.neighbours.values())

    @property
    def adverts_ignored(self) -> int:
        """Counts what others said of routes and was no news, or one too many."""
        return self.replication.ignored_n + self.replication.gossip.refused_n

    def digest(self, now: float) -> bytes:
        """Returns 8 bytes that are equal on two brokers that know the same."""
        return self.replication.digest(self._event_log.wall(now))

    # Dialling, for the edge

    def take_dials(self, now: float) -> list[str]:
        """Takes the URLs that are to be dialled now."""
        return self.dials.take(now) if self.handshakes.is_open else []

    def dial_failed(self, url: str, text: str, now: float) -> None:
        """Notes that nobody could be reached there; `text` says why."""
        self.dials.failed(url, text, now)

    def know(self, address: str) -> None:
        """Notes that brokers are at that address, as `connected` is given it: strangers keep them from no link."""
        self.handshakes.admissions.know(address)

    def set_targets(self, source: str, urls: list[str]) -> None:
        """Sets where else this broker calls: what a name stands for now."""
        self.dials.set_targets(source, urls)

    def dialled(self, peer: Peer, url: str, now: float) -> Setup:
        """Takes a connection to that URL; returns the SETUP to send on it."""
        return self.handshakes.setup(self.handshakes.dialled(peer, url, now))

    # What comes in

    def knows(self, peer: Peer) -> bool:
        """The connection is a link, or wants to be one."""
        return peer.id in self.handshakes.neighbours

    def entries_of(self, peer: Peer, metadata: bytes, now: float) -> list[Entry]:
        """Cuts the METADATA_PUSH of a neighbour into entries for `receive`; none where it breaks off: the link ends."""
        found = entries(metadata)
        if found is None:
            self.handshakes.refuse(
                peer, Refusal("bad-broker", "the composite metadata of a METADATA_PUSH is truncated"), now
            )
            return []
        return found

    def receive(self, peer: Peer, mime: bytes, raw: bytes, now: float) -> None:
        """Reads one entry of a METADATA_PUSH of a neighbour."""
        neighbour = self.handshakes.neighbours[peer.id]
        try:
            if mime == CLUSTER_MIME:
                if neighbour.is_up:
                    self._receive_message(neighbour, raw, now)
            elif mime in (MIME_TYPE.encode(), MIME_TYPE_V0.encode()):
                self._receive_frame(neighbour, raw, now)
            elif mime == BEHIND_MIME and neighbour.is_up:
                self.congestion.receive(neighbour, raw, now)
        except BrokerError as error:
            self.handshakes.refuse(peer, Refusal("bad-broker", error.text), now)

    def take_ending(self) -> Ending | None:
        """Takes the next connection that is to end; `ended` is to be called when it has. None: there is none."""
        return self.endings.pop(0) if self.endings else None

    def ended(self, ending: Ending, now: float) -> None:
        """Goes on with what waited for the end of a connection."""
        if isinstance(ending, Superseded):
            if not ending.neighbour.peer.is_ending:
                self.handshakes.link(ending.neighbour, ending.first, now)
                self._linked(ending.neighbour, ending.info, now)
        elif isinstance(ending, ReplacedElsewhere):
            self.replication.settle_replaced(ending.route_id, now)

    def received_keepalive(self, peer: Peer, data: bytes, now: float) -> None:
        """Reads the answer to one of our KEEPALIVEs."""
        neighbour = self.handshakes.neighbours.get(peer.id)
        if neighbour is not None:
            neighbour.received_keepalive(data, now)

    def lost(self, peer: Peer, now: float) -> None:
        """Forgets a connection that has ended, or is about to."""
        neighbour = self.handshakes.lost(peer, now)
        if neighbour is not None:
            self._tell_link(LINK_DOWN, neighbour, peer.end_reason, peer.end_detail, now)
            self.membership.say(now)
            self.membership.find_ways(now)
            self.flush()

    def route_joined(self, route: Route, now: float) -> None:
        """Tells of a route of one of our connections that joined the table, or has other tags."""
        self.replication.advertise_route(route, now)
        self.flush()

    def route_left(self, route: Route, now: float) -> None:
        """Tells that a route of one of our connections has left the table."""
        self.replication.withdraw_route(route.id, now)
        self.flush()

    # What operators do

    def set_redirect(self, service: str, to: str, now: float) -> None:
        """Sends requests for a service to another one, at every broker. BrokerError "over-limit", "bad-redirect"."""
        self.redirections.set(service, to, now)
        self.flush()

    def remove_redirect(self, service: str, now: float) -> bool:
        """Sends them where they ask for again; False when there was no redirect."""
        was_redirected = self.redirections.remove(service, now)
        self.flush()
        return was_redirected

    def set_revocation(self, principal: str, before_ms: int, now: float) -> None:
        """Revokes credentials, at every broker. BrokerError "over-limit", "bad-revocation"."""
        self.revocations.set(principal, before_ms, now)
        self.flush()

    def remove_revocation(self, principal: str, now: float) -> bool:
        """Lets those that were not renewed hold again; False when none were revoked."""
        was_revoked = self.revocations.remove(principal, now)
        self.flush()
        return was_revoked

    def leave(self, now: float) -> None:
        """Says that this broker is about to go: others send nothing new here, and clients look for another one."""
        self._set_leaving(True, now)

    def advertise_state(self, route: Route, now: float) -> None:
        """Tells at once that the state of one of our own routes has changed."""
        if self.handshakes.up:
            self.replication.advertise_state(route, now)
            self.flush()

    def _set_leaving(self, is_leaving: bool, now: float) -> None:
        self.membership.is_leaving = is_leaving
        self.membership.say(now)
        self.replication.advertise_states(now)
        self.flush()

    # Time

    def tick(self, now: float) -> None:
        """Says hello, compares, gives up."""
        settings = self._settings
        self.handshakes.tick(now)
        self.congestion.tick(now)
        for neighbour in self.handshakes.up.values():
            if now >= neighbour.hello_at:
                neighbour.say_hello(now, settings.hello_s)
            if now >= neighbour.digest_at:
                neighbour.digest_at = now + settings.digest_s
                digest = self.digest(now)
                neighbour.push([_message_entry(DigestMessage(self.replication.gossip.size(), digest).encode())])
                roles = self._engine.ingress.roles
                if roles is not None and roles.is_on:
                    neighbour.push([_message_entry(RolesMessage(roles.digest).encode())])
        self.membership.advertise_late(now)
        self.flush()
        for refused in self._engine.annotations.take_refused():
            at_ms = self._event_log.wall(now)
            detail = refused.detail
            self._event_log.tell(
                ANNOTATIONS_REFUSED, at_ms, "", "", None, refused.peer, refused.reason, detail, 0, refused.requests
            )
        if now >= self._states_at:
            self._states_at = now + STATES_S
            if self.membership.is_leaving != self._drains.is_leaving:
                self._set_leaving(self._drains.is_leaving, now)
            self.replication.advertise_states(now)
            self.flush()
        if now >= self._expire_at:
            self._expire_at = now + EXPIRE_S
            self.membership.forget_unreachable(now)
            self.replication.gossip.expire(self._event_log.wall(now))

    def next_at(self) -> float:
        """Returns when `tick` has something to do at the latest, seconds, monotonic."""
        if not self.handshakes.neighbours and len(self.members) == 1:
            return NEVER  # alone: nobody waits for anything
        at = min(self._states_at, self._expire_at, self.membership.due_at, self.congestion.next_at())
        for neighbour in self.handshakes.neighbours.values():
            if neighbour.is_up:
                at = min(at, neighbour.hello_at, neighbour.digest_at)
            else:
                at = min(at, neighbour.due_at)
        return at

    def flush(self) -> None:
        """Tells the neighbours what is news to them."""
        updates = self.replication.updates
        if not updates:
            return
        self.replication.updates = []
        for neighbour in self.handshakes.up.values():
            peer_id = neighbour.peer.id
            neighbour.push([_entry_of(update.entry) for update in updates if update.from_peer != peer_id])

    # Inside

    def _linked(self, neighbour: Neighbour, info: Info, now: float) -> None:
        self._tell_link(LINK_UP, neighbour, "", "", now)
        # First what it says now: what it said before it went away names us, and it would seem to be there, and gone.
        self.membership.receive(neighbour, info, info.public().encode(), now)
        self.membership.advertise_link(now)
        self.flush()
        neighbour.push([_entry_of(entry) for entry in self.replication.gossip.entries()])  # the full picture

    def _receive_frame(self, neighbour: Neighbour, raw: bytes, now: float) -> None:
        frame = decode_frame(raw)
        if not neighbour.is_up:
            if isinstance(frame, BrokerInfo):
                info = read_info(frame)
                if self.handshakes.go_on(neighbour, info, now):
                    self._linked(neighbour, info, now)
            return
        if isinstance(frame, RouteAdd | RouteRemove):
            self.replication.receive(raw, frame, neighbour.peer.id, now)
        elif isinstance(frame, BrokerInfo):
            self.membership.receive(neighbour, read_info(frame), raw, now)

    def _receive_message(self, neighbour: Neighbour, raw: bytes, now: float) -> None:
        message = decode_message(raw)
        if isinstance(message, DigestMessage):
            self._compare(neighbour, message, now)
        elif isinstance(message, TableMessage):
            self._exchange(neighbour, message, now)
        elif isinstance(message, RolesMessage):
            self._compare_roles(neighbour, message, now)
        elif message.timestamp_ms > MAX_STAMP_MS:
            self.replication.ignored_n += 1
        elif isinstance(message, RedirectMessage):
            self.redirections.receive(message, raw, neighbour.peer.id, now)
        else:
            self.revocations.receive(message, raw, neighbour.peer.id, now)

    def _compare(self, neighbour: Neighbour, message: DigestMessage, now: float) -> None:
        """Compares what a neighbour knows, in short; sends all hashes where it is something else."""
        if message.digest == self.digest(now):
            neighbour.is_agreed = True
            neighbour.differs_n = 0
            return
        neighbour.is_agreed = False
        neighbour.differs_n += 1
        if now - neighbour.table_at < self._settings.digest_s / 2:
            return
        neighbour.mismatches += 1
        self.digest_mismatches += 1
        if neighbour.differs_n == 2:  # once may be what is on its way
            text = f"{message.entries_n} entries there, {self.replication.gossip.size()} here"
            self._tell_link(DIGEST_MISMATCH, neighbour, "", text, now)
        self._send_table(neighbour, now)

    def _compare_roles(self, neighbour: Neighbour, message: RolesMessage, now: float) -> None:
        """Tells when a neighbour has begun to have other roles: each broker decides by its own (D-98)."""
        roles = self._engine.ingress.roles
        differs = roles is None or message.digest != roles.digest
        if differs and not neighbour.has_other_roles:
            self._tell_link(DIGEST_MISMATCH, neighbour, "roles", "the roles of both brokers differ", now)
        neighbour.has_other_roles = differs

    def _exchange(self, neighbour: Neighbour, message: TableMessage, now: float) -> None:
        """Reads the hashes of all that a neighbour knows, and sends what it lacks."""
        gossip = self.replication.gossip
        neighbour.push([_entry_of(entry) for entry in gossip.lacking(message.table)])
        if gossip.lacks_any(message.table) and now - neighbour.table_at >= self._settings.digest_s / 2:
            self._send_table(neighbour, now)

    def _send_table(self, neighbour: Neighbour, now: float) -> None:
        neighbour.table_at = now
        neighbour.push([_message_entry(TableMessage(self.replication.gossip.table()).encode())])

    def _tell_link(self, kind: int, neighbour: Neighbour, reason: str, detail: str, now: float) -> None:
        at_ms = self._event_log.wall(now)
        uptime_ms = int((now - neighbour.since_at) * 1000) if kind == LINK_DOWN else 0
        said = f"{neighbour.name}: {detail}" if detail else neighbour.name
        self._event_log.tell(kind, at_ms, peer=neighbour.peer.name, reason=reason, detail=said, uptime_ms=uptime_ms)


def _message_entry(raw: bytes) -> bytes:
    return encode_entry(CLUSTER_MIME, raw)


def _entry_of(entry: GossipEntry) -> bytes:
    """Returns an entry as it travels."""
    if entry.key[:1] in (b"S", b"V"):
        return _message_entry(entry.raw)
    return broker_entry(entry.raw)
