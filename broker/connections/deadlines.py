"""Whether a peer is late: with its SETUP, a RESUME, or any frame."""

from broker.connections.ending import Ending
from broker.forwarding.peer import Peer
from rsocket_wire.rsocket.connection import NEW


def overdue(peer: Peer, resume_ttl_s: float, now: float) -> Ending | None:
    """Returns how a peer ends that is late; None: it is not, until `lifetime_s` after `heard_at`.

    Word "keepalive-timeout": nothing arrives any more, and a peer with a session is suspended instead.
    """
    if peer.connection.state == NEW:
        return Ending(peer, "setup-timeout", f"no SETUP within {now - peer.connected_at:.1f} s")
    if peer.is_suspended:
        return Ending(peer, "resume-timeout", f"nobody resumed it within {resume_ttl_s:g} s")
    if peer.is_paused or peer.held_n or peer.frame.has_more():
        peer.heard_at = now  # what it sent waits where we do not read it
    if peer.heard_at + peer.connection.lifetime_s > now:
        return None
    text = f"nothing arrived for {now - peer.heard_at:.1f} s, {peer.connection.lifetime_text}"
    return Ending(peer, "keepalive-timeout", text)
