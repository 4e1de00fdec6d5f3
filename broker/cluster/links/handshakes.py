"""The links of one broker: from a connection's first BROKER_INFO to the proof, and one link for each broker (D-46).

Decides which connections are links, and which end (`endings`, for the core to carry out). What is said on links is the
cluster's.
"""

from typing import Final

from broker.cluster.links.admissions import Admissions
from broker.cluster.links.authentication import Authentication
from broker.cluster.links.broker_info import Info, read_info
from broker.cluster.links.dials import Dials
from broker.cluster.links.neighbour import ASKED, GREET_S, GREETED, PROVING, UP, Neighbour, broker_entry
from broker.cluster.links.proof import nonce
from broker.cluster.state import ClusterState
from broker.connections.ending import Ending
from broker.forwarding.interbroker.link import Link
from broker.forwarding.peer import Peer
from broker.routing.rng import Rng
from rsocket_wire.errors import CONNECTION_CLOSE, CONNECTION_ERROR, REJECTED_SETUP, BrokerError, InvalidFrame, Refusal
from rsocket_wire.rsocket.frames import Setup
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME
from rsocket_wire.wire.frames import BrokerInfo, decode_frame

DATA_MIME: Final = "application/octet-stream"  # of links; callers with another one say so in each request
LINK_STREAMS_N: Final = 200_000  # requests in flight that one link may have begun: those of all clients of a broker


class Superseded(Ending):
    """A link ends because a better one to the same broker is there, which is a link as soon as this one has ended."""

    def __init__(self, peer: Peer, text: str, neighbour: Neighbour, first: Info, info: Info) -> None:
        super().__init__(peer, "duplicate-link", text, CONNECTION_CLOSE)
        self.neighbour: Final = neighbour  # at the other end of the better one
        self.first: Final = first  # what it said first
        self.info: Final = info  # and at last


class Handshakes:
    """All connections to other brokers."""

    def __init__(self, state: ClusterState, requires_annotations: bool, rng: Rng, entropy: bytes) -> None:
        """`entropy`: see `Cluster`."""
        self.dials: Final = Dials(rng, state.settings.redial_max_s)
        self.admissions: Final = Admissions()  # of neighbours that have dialled us and are no links yet
        self.neighbours: Final[dict[int, Neighbour]] = {}  # by number of the connection, those in the handshake too
        self.up: Final[dict[bytes, Neighbour]] = {}  # links that are up, by broker id; bounded by max_links
        self.refused: Final[dict[str, int]] = {}  # connections that wanted to be links, by code word
        self._settings: Final = state.settings
        self._id: Final = state.id
        self._members: Final = state.members
        self._endings: Final = state.endings
        self._entropy: Final = entropy
        self._nonces_n = 0
        self._authentication: Final = Authentication(state, requires_annotations)
        self.dials.set_targets("config", state.settings.peers)

    @property
    def is_open(self) -> bool:
        """There can be links."""
        return self._authentication.is_open

    def setup(self, metadata: bytes) -> Setup:
        """Returns what this broker says first on a connection that it has dialled."""
        hello_ms = int(self._settings.hello_s * 1000)
        return Setup(COMPOSITE_MIME, DATA_MIME, hello_ms, int(self._settings.silent_s * 1000), metadata)

    def dialled(self, peer: Peer, url: str, now: float) -> bytes:
        """Takes a connection to that URL; returns the metadata of the SETUP on it."""
        self.admissions.know(peer.address)
        neighbour = Neighbour(peer, url, ASKED, self._nonce(), now)
        self.neighbours[peer.id] = neighbour
        return broker_entry(self._first_words(neighbour))

    def greeted(self, peer: Peer, raw: bytes, now: float) -> None:
        """Reads the BROKER_INFO of a SETUP: answers it, later or at once, or refuses the connection."""
        if not self.is_open:
            text = "this broker is in no cluster: neither cluster.secret nor cluster.principals is set"
            self.refuse(peer, Refusal("no-cluster", text), now)
            return
        setup = peer.connection.setup
        if setup is None or setup.metadata_mime != COMPOSITE_MIME or setup.data_mime != DATA_MIME:
            text = f"a link needs the metadata MIME type {COMPOSITE_MIME} and the data MIME type {DATA_MIME}"
            self.refuse(peer, Refusal("bad-broker", text), now)
            return
        if setup.wants_resume or setup.wants_lease:
            text = "links support neither resumption nor LEASE"
            self.refuse(peer, Refusal("bad-broker", text), now)
            return
        try:
            info = _read(raw)
        except BrokerError as error:
            self.refuse(peer, Refusal("bad-broker", error.text), now)
            return
        if info.id == self._id:
            self._meet_self(info)
        refusal = (
            self._authentication.refusal_of(info, self._members, self.up)
            or self._authentication.refusal_of_nonce(info)
            or self._authentication.refusal_of_transport(peer)
            or self._authentication.refusal_of_principal(peer)
            or self._authentication.refusal_of_name(peer, info.name)
        )
        if refusal is not None:
            self.refuse(peer, refusal, now)
            return
        neighbour = Neighbour(peer, "", GREETED, self._nonce(), now)
        self.neighbours[peer.id] = neighbour
        displaced = self.admissions.enter(neighbour)
        if displaced is not None:
            self.refuse(displaced.neighbour.peer, Refusal("over-limit", displaced.text), now)
        neighbour.info = info
        neighbour.name = info.name
        delay_s = self.admissions.guesses.delay_s(peer.address, now)
        if delay_s:
            neighbour.answer_at = now + delay_s
        else:
            neighbour.push([broker_entry(self._first_words(neighbour))])

    def go_on(self, neighbour: Neighbour, info: Info, now: float) -> bool:
        """Reads the next BROKER_INFO of a connection that is no link yet; True: it is a link from now on."""
        peer = neighbour.peer
        authentication = self._authentication
        if neighbour.stage == ASKED:
            refusal = (
                authentication.refusal_of(info, self._members, self.up)
                or authentication.refusal_of_nonce(info)
                or authentication.refusal_of_transport(peer)
            )
            if refusal is not None:
                self.refuse(peer, refusal, now)
                return False
            neighbour.info = info
            neighbour.name = info.name
            neighbour.go_on(PROVING, now)
            proof = authentication.own_proof(neighbour, info)
            neighbour.push([broker_entry(self._greeting(neighbour, proof))])
            return False
        first = neighbour.info
        if first is None:
            return False  # it was refused
        refusal = authentication.refusal_of_proof(neighbour, first, info.proof)
        if refusal is not None and neighbour.stage == GREETED:
            self.admissions.guesses.count_wrong(peer.address, now)
        if refusal is None and (info.id, info.name, info.version) != (first.id, first.name, first.version):
            refusal = Refusal("bad-broker", "its id, name or version changed during the handshake")
        if refusal is None:
            refusal = authentication.refusal_of(first, self._members, self.up)
        if refusal is not None:
            self.refuse(peer, refusal, now)
            return False
        if not neighbour.url:
            proof = authentication.own_proof(neighbour, first)
            neighbour.push([broker_entry(self._greeting(neighbour, proof))])
        if not self._may_link(neighbour, first, info, now):
            return False
        self.link(neighbour, first, now)
        return True

    def lost(self, peer: Peer, now: float) -> Neighbour | None:
        """Forgets a connection that has ended, or is about to; returns the neighbour if it was a link."""
        neighbour = self.neighbours.pop(peer.id, None)
        if neighbour is None:
            return None
        if neighbour.url:
            self.dials.failed(neighbour.url, peer.end_detail, now, is_refused(neighbour))
        info = neighbour.info
        if neighbour.stage == GREETED:
            self.admissions.leave(neighbour)
        elif info is not None and self.up.get(info.id) is neighbour:
            del self.up[info.id]
            return neighbour
        return None

    def refuse(self, peer: Peer, refusal: Refusal, now: float) -> None:
        """Ends a connection that cannot be a link, or is one no more."""
        self.count(refusal.word)
        code = CONNECTION_ERROR if peer.begins == 0 or peer.link is not None else REJECTED_SETUP
        self._endings.append(Ending(peer, refusal.word, refusal.text, code))

    def count(self, word: str) -> None:
        """Counts a connection that was refused for that."""
        self.refused[word] = self.refused.get(word, 0) + 1

    def tick(self, now: float) -> None:
        """Answers those that had to wait, and refuses those that have not proved who they are in time."""
        for neighbour in list(self.neighbours.values()):
            if neighbour.is_up:
                continue
            if neighbour.answer_at and now >= neighbour.answer_at:
                neighbour.answer_at = 0.0
                neighbour.push([broker_entry(self._first_words(neighbour))])
            if now - neighbour.since_at >= GREET_S:
                text = f"it did not prove its identity within {GREET_S:g} s"
                self.refuse(neighbour.peer, Refusal("bad-broker", text), now)

    def _may_link(self, neighbour: Neighbour, first: Info, info: Info, now: float) -> bool:
        """Both have proved who they are: the connection may be a link, unless there is one that is better, or must end.

        False: it ends, or the other one does and this one is a link after that (`Superseded`).
        """
        peer = neighbour.peer
        if neighbour.url:
            self.dials.know(neighbour.url, first.id)
        old = self.up.get(first.id)
        if old is not None:
            assert old.info is not None  # it is up
            is_restarted = old.info.epoch_ms < first.epoch_ms
            if old.info.epoch_ms > first.epoch_ms:  # a configuration was copied: one of them stays, and both are told
                text = f"another broker with its id, {old.name}, started later and is linked; ids must be unique"
                self.refuse(peer, Refusal("bad-broker", f"{text} in a cluster"), now)
                return False
            # Both ends must keep the same one: that which the broker with the smaller id has dialled.
            is_better = (self._id < first.id) == bool(neighbour.url) and bool(old.url) != bool(neighbour.url)
            if not is_restarted and not is_better:
                text = f"there is a link to {first.name} already"
                self._endings.append(Ending(peer, "duplicate-link", text, CONNECTION_CLOSE))
                return False
            text = "the broker has restarted" if is_restarted else f"there is another link to {first.name}"
            self._endings.append(Superseded(old.peer, text, neighbour, first, info))
            return False
        return True

    def link(self, neighbour: Neighbour, first: Info, now: float) -> None:
        """Makes the connection a link; `first`: what the broker said first."""
        peer = neighbour.peer
        self.admissions.leave(neighbour)
        self.admissions.know(peer.address)
        neighbour.go_on(UP, now)
        neighbour.hello_at = now
        neighbour.digest_at = now + self._settings.digest_s
        self.up[first.id] = neighbour
        peer.max_streams = LINK_STREAMS_N
        peer.frame.max_bytes = MAX_FRAME_BYTES  # the longest frame of a client becomes longer on a link
        peer.shared_origin = ""
        peer.link = Link(first.id, first.name, min(first.version, self._settings.version))
        if neighbour.url:
            self.dials.linked(neighbour.url, first.id)

    def _first_words(self, neighbour: Neighbour) -> bytes:
        """Our first BROKER_INFO. Who has proved nothing is not told where the brokers of this cluster are."""
        own = self._members[self._id].info
        info = Info(own.id, own.name, own.timestamp_ms, own.epoch_ms, own.version)
        info.nonce = neighbour.nonce
        return info.encode()

    def _greeting(self, neighbour: Neighbour, proof: bytes) -> bytes:
        """Our BROKER_INFO for a neighbour that is about to be one."""
        info = self._members[self._id].info.public()
        info.nonce = neighbour.nonce
        info.proof = proof
        return info.encode()

    def _meet_self(self, info: Info) -> None:
        """Who dials says our id: it is us if the nonce is one of ours, and that URL needs no further attempt."""
        for neighbour in self.neighbours.values():
            if neighbour.url and neighbour.nonce == info.nonce:
                self.dials.is_self(neighbour.url)

    def _nonce(self) -> bytes:
        self._nonces_n += 1
        return nonce(self._entropy, self._nonces_n)


def _read(raw: bytes) -> Info:
    frame = decode_frame(raw)
    if not isinstance(frame, BrokerInfo):
        raise InvalidFrame("a broker greets with a BROKER_INFO", "bad-broker")
    return read_info(frame)


def is_refused(neighbour: Neighbour) -> bool:
    """One of both does not know the secret, or is in no cluster: until somebody changes that, all will be as it was."""
    peer = neighbour.peer
    if neighbour.is_up:
        return False
    said = f"{peer.end_reason}: {peer.end_detail}"
    return "wrong-secret: " in said or "no-cluster: " in said
