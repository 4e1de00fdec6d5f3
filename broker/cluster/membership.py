"""The brokers of a cluster, as this one knows them: what each says of itself, and which way each is reached.

    BROKER_INFO ─► hear ─► members, paths ─► who can be reached, by which link ─► `Remote.via`, routes come and go
    links come and go ─► say: a BROKER_INFO of our own ─► the others

    spec "BROKER_INFO": the broker implementations can choose to share BROKER_INFO frames with other brokers.

Decides who is there (D-47, D-48). What is to be told stands in `Replication.updates`.
"""

from typing import Final

from broker.cluster.links.broker_info import DRAINING, MAX_URLS, Info
from broker.cluster.links.handshakes import Handshakes
from broker.cluster.links.neighbour import Neighbour, broker_entry
from broker.cluster.member import Member
from broker.cluster.paths import Paths
from broker.cluster.replication import MAX_STAMP_MS, Replication
from broker.cluster.state import ClusterState
from broker.events import BROKER_JOINED, BROKER_LEFT
from broker.forwarding.interbroker.annotations import RouterAnnotations
from broker.forwarding.interbroker.remote import Remote
from rsocket_wire.timers import NEVER

FORGET_S: Final = 60.0  # a broker to which there was no way for so long is forgotten
ADVERTISE_S: Final = 0.05
ADVERTISE_N: Final = 4  # links within ADVERTISE_S that are advertised at once; further ones together, when it is over


class Membership:
    """All brokers that one has heard of."""

    def __init__(
        self,
        state: ClusterState,
        handshakes: Handshakes,
        replication: Replication,
        annotations: RouterAnnotations,
        now: float,
    ) -> None:
        """This broker becomes the first of the members of the state."""
        self._settings: Final = state.settings
        self._id: Final = state.id
        self._name: Final = state.name
        self._epoch_ms: Final = state.epoch_ms
        self._members: Final = state.members
        self._handshakes: Final = handshakes
        self._replication: Final = replication
        self._annotations: Final = annotations
        self._event_log: Final = state.event_log
        self._paths: Final = Paths(state.id)
        self.is_leaving = False  # this broker
        self._said_at = now  # when the time began in which so many
        self._said_n = 0  # links were told
        self._is_due = False  # others have come up since
        self.say(now)

    @property
    def due_at(self) -> float:
        """When `advertise_late` has something to say."""
        return self._said_at + ADVERTISE_S if self._is_due else NEVER

    def client_urls(self) -> list[str]:
        """Where clients reach other brokers that can be reached and do not leave: the first URL of each comes first.

        None twice, and none at which they reach this one: behind it are several brokers of one machine (D-53).
        """
        members = [each for each in self._members.values() if each.is_reachable and not each.is_self]
        urls: list[str] = []
        for number in range(MAX_URLS):
            for member in members:
                if number < len(member.info.client_urls) and not member.is_draining:
                    url = member.info.client_urls[number]
                    if url not in urls and url not in self._settings.client_urls:
                        urls.append(url)
        return urls

    def advertise_link(self, now: float) -> None:
        """Tells that a link is up, though of many at once not each by itself."""
        if now >= self._said_at + ADVERTISE_S:
            self._said_at = now
            self._said_n = 0
        self._said_n += 1
        if self._said_n <= ADVERTISE_N:
            self.say(now)
        else:  # in a mesh of n that comes up, n**4 frames else
            self._is_due = True

    def advertise_late(self, now: float) -> None:
        """Tells of links that came up and were not told."""
        if now >= self.due_at:
            self.say(now)
            self.find_ways(now)

    def receive(self, neighbour: Neighbour, info: Info, raw: bytes, now: float) -> None:
        """Reads what some broker says of itself, from whomever."""
        if info.timestamp_ms > MAX_STAMP_MS:
            self._replication.ignored_n += 1
            return
        if info.id == self._id:
            self._receive_of_us(info, now)
            return
        member = self._members.get(info.id)
        if member is not None and info.timestamp_ms <= member.timestamp_ms:
            if info.timestamp_ms < member.timestamp_ms and not member.is_reachable:
                # It is back, and its clock was put back: it outdoes what it hears of itself.
                neighbour.push([broker_entry(member.raw)])
            return
        if member is None:
            if len(self._members) >= self._settings.max_brokers and not self._make_room():
                self._handshakes.count("over-limit")
                return
            is_mate = info.id in self._settings.mates
            member = self._members[info.id] = Member(info, raw, False, is_mate, now)
        else:
            if member.is_reachable and info.name != member.name:
                self._part(member, now)
            member.info = info
            member.raw = raw
        self._paths.set_neighbours(info.id, info.neighbours)
        if member.is_reachable:
            self._replication.publish_info(member, neighbour.peer.id, now)
        self.find_ways(now, neighbour.peer.id)

    def _receive_of_us(self, info: Info, now: float) -> None:
        """Answers what somebody says that we have said of ourselves, in this life or before."""
        mine = self._members[self._id]
        is_newer = info.timestamp_ms > mine.timestamp_ms
        is_other = info.epoch_ms != self._epoch_ms
        if not is_newer and not (is_other and info.timestamp_ms == mine.timestamp_ms):
            return
        if not self._replication.contradictions.may(b"I" + self._id, now):
            return
        self.say(now, info.timestamp_ms + 1)
        if info.epoch_ms > self._epoch_ms:
            text = "it started later and has this broker's id; ids must be unique, or the clock was set back"
            detail = f"{info.name} ({mine.id_text}): {text}"
            self._event_log.tell(BROKER_JOINED, self._event_log.wall(now), reason="bad-broker", detail=detail)

    def _part(self, member: Member, now: float) -> None:
        """Takes its routes out of the table: there is no way to the broker any more."""
        member.hops_n = -1
        member.cost = -1
        member.next_hop = ""
        member.remote.via = None
        member.unreachable_at = now
        self._replication.lost(member.id, now)
        remotes = self._annotations.remotes
        if remotes.get(member.remote.name) is member.remote:
            del remotes[member.remote.name]
            other = self._namesake(member)
            if other is not None and not other.is_self:
                remotes[other.name] = other.remote
        self._tell_broker(BROKER_LEFT, member, now)

    def _meet(self, member: Member, from_peer: int, now: float) -> None:
        """Puts its routes into the table: there is a way to the broker now."""
        if member.remote.name != member.name:  # it has begun anew, with the same id
            via = member.remote.via
            member.remote = Remote(member.id, member.name, via)
        self._annotations.remotes[member.name] = member.remote
        self._replication.publish_info(member, from_peer, now)
        self._replication.reached(member.id, now)
        self._tell_broker(BROKER_JOINED, member, now)

    def _namesake(self, member: Member) -> Member | None:
        """Another broker that can be reached, or this one, with the same name."""
        for other in self._members.values():
            if other is not member and other.is_reachable and other.name == member.name:
                return other
        return None

    def say(self, now: float, at_least_ms: int = 0) -> None:
        """Says what this broker is now, with a newer timestamp than before."""
        self._is_due = False
        mine = self._members.get(self._id)
        at_ms = max(self._event_log.wall(now), at_least_ms)
        if mine is not None:
            at_ms = max(at_ms, mine.timestamp_ms + 1)
        info = Info(self._id, self._name, at_ms, self._epoch_ms, self._settings.version)
        info.urls = self._settings.urls
        info.client_urls = self._settings.client_urls
        info.state = DRAINING if self.is_leaving else ""
        info.neighbours = dict.fromkeys(sorted(self._handshakes.up), self._settings.link_cost)
        raw = info.encode()
        if mine is None:
            mine = self._members[self._id] = Member(info, raw, True, False, now)
        else:
            mine.info = info
            mine.raw = raw
        self._paths.set_neighbours(self._id, info.neighbours)
        self._replication.publish_info(mine, 0, now)

    def find_ways(self, now: float, from_peer: int = 0) -> None:
        """Works out who is reached which way, and who no more, after links have changed here or elsewhere."""
        ways = self._paths.ways()
        came: list[Member] = []
        gone: list[Member] = []
        for member in self._members.values():
            if member.is_self:
                continue
            way = ways.get(member.id)
            hop = self._handshakes.up.get(way.next_hop) if way is not None else None
            if way is None or hop is None:
                if member.is_reachable:
                    gone.append(member)
            else:
                if not member.is_reachable:
                    came.append(member)
                member.hops_n = way.hops_n
                member.cost = way.cost
                member.next_hop = hop.name
                member.remote.via = hop.peer
        for member in gone:
            member.hops_n = -1  # of all of them, before the routes of the first leave
            member.remote.via = None
        self._annotations.brokers_n = sum([1 for member in self._members.values() if member.is_reachable])
        for member in gone:
            self._part(member, now)
        for member in came:
            self._meet(member, from_peer, now)
        self._learn_urls()

    def _learn_urls(self) -> None:
        """Has brokers dialled that were only heard of, and nobody who is linked."""
        self._handshakes.dials.set_linked_ids(set(self._handshakes.up))
        if not self._settings.is_mesh:
            return
        up = self._handshakes.up
        heard = [each for each in self._members.values() if each.is_reachable and each.id not in up]
        urls = [each.info.urls[0] for each in heard if each.info.urls and not each.is_self]
        self._handshakes.dials.set_targets("learned", urls)

    def forget_unreachable(self, now: float) -> None:
        for member in list(self._members.values()):
            if not member.is_reachable and now - member.unreachable_at >= FORGET_S:
                self._forget(member)
        for broker_id in list(self._replication.early):
            if broker_id not in self._members:
                self._replication.forget_early(broker_id)

    def _make_room(self) -> bool:
        """Forgets the broker that could not be reached for longest; False when all can."""
        up = self._handshakes.up
        away = [each for each in self._members.values() if not each.is_reachable and each.id not in up]
        if not away:
            return False
        self._forget(min(away, key=lambda member: member.unreachable_at))
        return True

    def _forget(self, member: Member) -> None:
        del self._members[member.id]
        self._paths.forget(member.id)
        self._replication.forget_early(member.id)

    def _tell_broker(self, kind: int, member: Member, now: float) -> None:
        detail = f"{member.name} ({member.id_text})"
        reason = ""
        if member.is_reachable:
            detail += f", {member.hops_n} hops by way of {member.next_hop}"
            other = self._namesake(member)
            if other is not None:
                # Handshakes refuse it, where both are heard of. Requests that meet both brokers are refused: `loop`.
                reason = "bad-broker"
                detail += f"; {other.id_text} has the same name, names must be unique in a cluster"
        self._event_log.tell(kind, self._event_log.wall(now), reason=reason, detail=detail)
