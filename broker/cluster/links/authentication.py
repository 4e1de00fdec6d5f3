"""Whether a connection may become a link: what a broker must say and prove (D-46).

    spec "BROKER_INFO": this is unidirectional: who has not received one from us is never sent requests by us.

Decides that and nothing else; the frames that go to and fro are the cluster's.
"""

import hmac
from typing import Final

from broker.access.identities import UID, kind_of
from broker.cluster.links.broker_info import NONCE_BYTES, Info
from broker.cluster.links.neighbour import Neighbour
from broker.cluster.links.proof import accept_proof, dial_proof
from broker.cluster.member import Member
from broker.cluster.replication import MAX_STAMP_MS
from broker.cluster.state import ClusterState
from broker.forwarding.peer import Peer
from rsocket_wire.errors import Refusal


class Authentication:
    """What one broker demands of others."""

    def __init__(self, state: ClusterState, requires_annotations: bool) -> None:
        self._settings: Final = state.settings
        self._id: Final = state.id
        self._name: Final = state.name
        self._requires_annotations: Final = requires_annotations

    @property
    def is_open(self) -> bool:
        """Others may link to this broker: there is something by which they can prove who they are."""
        return len(self._settings.principals) > 0 if self._settings.auth == "tls" else len(self._settings.secret) > 0

    def refusal_of(self, info: Info, members: dict[bytes, Member], up: dict[bytes, Neighbour]) -> Refusal | None:
        """Why the broker that says this cannot be a neighbour; None when it can, once it has proved it.

        `members`: brokers that were heard of; `up`: those that are linked, also when there is no way over the link yet.
        """
        settings = self._settings
        links_n = len(up) - (info.id in up)
        if info.id == self._id:
            return Refusal("bad-broker", "the broker dialled itself, or another broker has its id")
        if info.name == self._name:
            return Refusal("bad-broker", f"its name {info.name!r} is this broker's; names must be unique in a cluster")
        for member in members.values():
            if member.name == info.name and member.id != info.id and (member.is_reachable or member.id in up):
                text = (
                    f"another broker, {member.id_text}, has the name {info.name!r}; names must be unique in a cluster"
                )
                return Refusal("bad-broker", text)
        if info.timestamp_ms > MAX_STAMP_MS:
            return Refusal(
                "bad-broker", f"its timestamp is {info.timestamp_ms} ms, the latest allowed is {MAX_STAMP_MS}"
            )
        if min(info.version, settings.version) < 1 and self._requires_annotations:
            text = f"its router annotations have version {info.version}, this broker's {settings.version}; both need 1"
            return Refusal("bad-broker", f"{text}, so that loops are detected")
        if links_n >= settings.max_links:
            return Refusal("over-limit", f"{links_n} links are up, cluster.max_links is {settings.max_links}")
        if info.id not in members and len(members) >= settings.max_brokers:
            there_n = sum([1 for member in members.values() if member.is_reachable])  # the others give way
            if there_n >= settings.max_brokers:
                text = f"{there_n} brokers are known, cluster.max_brokers is {settings.max_brokers}"
                return Refusal("over-limit", text)
        return None

    def refusal_of_nonce(self, info: Info) -> Refusal | None:
        """Why what it sent cannot begin a proof."""
        if self._settings.auth == "tls" or len(info.nonce) == NONCE_BYTES:
            return None
        return Refusal("bad-broker", f"its nonce has {len(info.nonce)} bytes, it must have {NONCE_BYTES}")

    def refusal_of_principal(self, peer: Peer) -> Refusal | None:
        """Why nobody with this certificate can be a broker of the cluster; None where that is proved otherwise."""
        principal = peer.proof.principal
        known = self._settings.principals
        if self._settings.auth != "tls" or principal in known or peer.proof.subject in known:  # none of them is empty
            return None
        who = f"{principal!r}, which is not among" if principal else "none, it must be one of"
        return Refusal("wrong-secret", f"the principal of its certificate is {who} cluster.principals")

    def refusal_of_name(self, peer: Peer, name: str) -> Refusal | None:
        """Why the certificate of this peer is not that of the broker `name`; None where there need be none.

        One of its subject alternative names must be the broker's, alone or with a domain behind it; several workers of
        a machine, `eu-1.1` and `eu-1.2`, show that of `eu-1`.
        """
        if self._settings.auth != "tls" or kind_of(peer.proof.principal) == UID:
            return None
        base, _, number = name.rpartition(".")
        wanted = [name, base] if base and number.isdigit() else [name]
        for each in peer.arrival.certificate_names:
            if each in wanted or each.partition(".")[0] in wanted:
                return None
        said = ", ".join([repr(each) for each in peer.arrival.certificate_names]) or "none"
        text = f"it says that its name is {name!r}, the subject alternative names of its certificate are {said}"
        return Refusal("wrong-secret", text)

    def refusal_of_transport(self, peer: Peer) -> Refusal | None:
        """Why no secret is proved over this connection; None where it is encrypted or stays on this machine."""
        if self._settings.auth == "tls" or self._settings.plaintext or peer.proof.is_private:
            return None
        text = "brokers of two machines link by tls or wss; cluster.plaintext = true allows what is not encrypted"
        return Refusal("no-cluster", text)

    def own_proof(self, neighbour: Neighbour, theirs: Info) -> bytes:
        """What proves to the neighbour who we are; empty where certificates do."""
        if self._settings.auth == "tls":
            return b""
        if neighbour.url:
            return dial_proof(self._settings.secret, theirs.id, self._id, neighbour.nonce, theirs.nonce)
        return accept_proof(self._settings.secret, self._id, theirs.id, theirs.nonce, neighbour.nonce)

    def refusal_of_proof(self, neighbour: Neighbour, first: Info, proof: bytes) -> Refusal | None:
        """Why the neighbour, who said `first` and now sends `proof`, has not proved who it is; None when it has."""
        settings = self._settings
        if settings.auth == "tls":
            peer = neighbour.peer
            return self.refusal_of_principal(peer) or self.refusal_of_name(peer, first.name)
        if neighbour.url:
            expected = accept_proof(settings.secret, first.id, self._id, neighbour.nonce, first.nonce)
        else:
            expected = dial_proof(settings.secret, self._id, first.id, first.nonce, neighbour.nonce)
        if hmac.compare_digest(expected, proof):  # how long it takes does not tell where they differ
            return None
        return Refusal("wrong-secret", f"{first.name} does not know the secret of this cluster (cluster.secret)")
