"""Connections that ended: counted by reason, the latest remembered."""

from broker.connections.closed import MAX_CLOSED, Closed
from tests.fakes import START_MS, World


def test_what_is_remembered_is_bounded_and_the_counts_are_not() -> None:
    closed, peer = Closed(), World().caller().peer
    peer.end_reason = "left"
    for number in range(MAX_CLOSED + 1):
        closed.add(peer, START_MS + number)
    assert len(closed.latest) == MAX_CLOSED + 1 - MAX_CLOSED // 10
    assert closed.latest[-1].closed_at_ms == START_MS + MAX_CLOSED
    assert closed.by_reason == {"left": MAX_CLOSED + 1}


def test_bytes_of_connections_that_are_gone_are_added_up() -> None:
    closed, peer = Closed(), World().caller().peer
    closed.sum_up(peer)
    closed.sum_up(peer)
    assert (closed.bytes_in, closed.bytes_out) == (2 * peer.bytes_in, 2 * peer.bytes_out)
    assert peer.bytes_in > 0
