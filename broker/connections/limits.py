"""All connections of a broker: how many there may be, in all and of one origin, and how much waits for them.

Decides who is one too many, and measures what all of them hold. A suspended peer has no transport; one that comes may
be the one that it waits for, and is measured again when it asks for a connection of its own (D-39, D-43).
"""

from typing import Final

from broker.access.identities import Proof
from broker.connections.closed import Closed
from broker.connections.rate_limits import ConnectionCounter
from broker.forwarding.peer import Peer
from broker.forwarding.settings import Settings


class ConnectionLimits:
    """The peers of one broker."""

    def __init__(self, settings: Settings) -> None:
        self.peers: Final[dict[int, Peer]] = {}  # by id; max_connections, and as many that are about to resume
        self.accepted_n = 0  # ever
        self.closed: Final = Closed()
        self.buffered_bytes = 0  # of all connections, when they were weighed the last time
        self._settings: Final = settings
        # Addresses stay here: behind a proxy even one's own is somebody else's.
        self._by_address: Final = ConnectionCounter(
            settings.max_connections_per_address, "limits.max_connections_per_address", "this address"
        )
        self._by_principal: Final = ConnectionCounter(
            settings.max_connections_per_principal, "limits.max_connections_per_principal"
        )
        self._unweighed: list[Peer] = []  # whom this weighing has still to look at
        self._part_n = 1  # of them at a time
        self._weight = 0  # of those that it has looked at

    def enter(self, peer: Peer, address: str, proof: Proof, suspended_n: int) -> str:
        """Counts a new connection, until it leaves. Returns why it is one too many, or an empty text.

        `address`: where it comes from, empty where there is none; `proof`: who it is, as its transport says.
        `suspended_n`: of the others have no transport.
        """
        principal = proof.principal
        self.accepted_n += 1
        self.peers[peer.id] = peer
        peer.address = address
        peer.proof = proof
        peer.principal = principal
        peer.shared_origin = principal or address
        is_address_free = self._by_address.enter(address)
        is_principal_free = self._by_principal.enter(principal)
        if len(self.peers) - suspended_n > self._settings.max_connections:
            return self._surplus()
        if not is_address_free:
            return self._by_address.refusal_of(address)
        if not is_principal_free:
            return self._by_principal.refusal_of(principal)
        peer.may_replace_suspended = self.is_over(peer)
        return ""

    def identify(self, peer: Peer, principal: str) -> str:
        """Counts the connection as this principal's from now on, an empty one is nobody. Returns as `enter`."""
        if principal == peer.principal:
            return ""
        self._by_principal.leave(peer.principal)
        peer.principal = principal
        peer.shared_origin = principal or peer.address
        if not self._by_principal.enter(principal):
            return self._by_principal.refusal_of(principal)
        peer.may_replace_suspended = self.is_over(peer)
        return ""

    def connected_n(self, principal: str) -> int:
        """Returns how many connections of this principal have a socket; 0 for nobody."""
        return self._by_principal.number_with_socket(principal)

    def exchange(self, peer: Peer, newcomer: Peer) -> None:
        """The peer is about to be resumed on the transport of the newcomer, and each is counted where it is from.

        So the newcomer takes the peer's old place with it. Who was admitted stays who it was, nobody included (D-96).
        """
        peer.bytes_in += newcomer.bytes_in
        newcomer.bytes_in = 0
        peer.address, newcomer.address = newcomer.address, peer.address
        is_admitted = self._settings.auth_mode != "off" and not peer.principal
        if peer.principal == peer.proof.principal and not is_admitted:
            peer.principal, newcomer.principal = newcomer.principal, peer.principal
            peer.login.caller_entry = b""
        peer.shared_origin = peer.principal or peer.address
        peer.proof = newcomer.proof

    def leave(self, peer: Peer) -> None:
        """Forgets a connection that is no more."""
        self.closed.sum_up(peer)
        self._by_address.leave(peer.address)
        self._by_principal.leave(peer.principal)
        del self.peers[peer.id]

    def set_away(self, peer: Peer, is_away: bool) -> None:
        """Sets whether the connection is counted as one without a socket at its origins."""
        self._by_address.set_away(peer.address, is_away)
        self._by_principal.set_away(peer.principal, is_away)

    def is_over(self, peer: Peer) -> bool:
        """Tells whether there are too many connections, those without a socket counted, in all or of its origin."""
        if len(self.peers) > self._settings.max_connections:
            return True
        return self._by_address.is_over(peer.address) or self._by_principal.is_over(peer.principal)

    def refusal_of(self, peer: Peer) -> str:
        """Returns why it is one too many."""
        if self._by_address.is_over(peer.address):
            return self._by_address.refusal_of(peer.address)
        if self._by_principal.is_over(peer.principal):
            return self._by_principal.refusal_of(peer.principal)
        return self._surplus()

    def origins(self) -> tuple[int, int]:
        """Returns how many addresses, and how many principals, have connections."""
        return self._by_address.size(), self._by_principal.size()

    @property
    def bytes_in(self) -> int:
        """Sums what was received on all connections that ever were. One look at each that is there."""
        return self.closed.bytes_in + sum([peer.bytes_in for peer in self.peers.values()])

    @property
    def bytes_out(self) -> int:
        """Sums what the transports of all connections that ever were took. One look at each that is there."""
        return self.closed.bytes_out + sum([peer.bytes_out for peer in self.peers.values()])

    def weigh_part(self, parts: int) -> bool:
        """Adds up what waits for and of one of so many parts of the connections; True if all hold too much: `weigh`.

        To be asked so often in a second: all at once would stop 50 000 idle connections for some ms.
        """
        if not self._unweighed:
            self._unweighed = list(self.peers.values())
            self._part_n = len(self._unweighed) // parts + 1
            self._weight = 0
        for peer in self._unweighed[-self._part_n :]:
            self._weight += peer.buffered_bytes
        del self._unweighed[-self._part_n :]
        if self._unweighed:
            return False
        self.buffered_bytes = self._weight
        return self._weight > self._settings.max_buffered_bytes

    def weigh(self) -> int:
        """Adds up what waits for and of all connections, in bytes."""
        self.buffered_bytes = sum([peer.buffered_bytes for peer in self.peers.values()])
        return self.buffered_bytes

    def heaviest(self) -> list[Peer]:
        """Returns all connections; those that hold most come first."""
        return sorted(self.peers.values(), key=lambda peer: -peer.buffered_bytes)

    def _surplus(self) -> str:
        return f"{len(self.peers) - 1} connections are open, limits.max_connections is {self._settings.max_connections}"
