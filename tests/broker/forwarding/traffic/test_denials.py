"""Denied requests: one entry for each identity, the latest of it, once in a while."""

from __future__ import annotations

from broker.forwarding.traffic.denials import MAX_IDENTITIES, TOLD_S, Denials
from tests.fakes import World


def test_each_identity_is_told_of_once_in_a_while_with_its_latest_request() -> None:
    world, denials = World(), Denials(True)
    for number in range(MAX_IDENTITIES + 2):
        peer = world.caller(origin=("", f"user:{number}" if number else "")).peer
        for turn in range(number + 1):
            denials.note(peer, f"reason {turn}", "observed" if turn % 2 else "refused")
    taken = denials.take(100.0)
    assert [denied.requests_n for denied in taken[:3]] == [1, 2, 3]
    assert [taken[0].detail, taken[2].detail] == ["anonymous: reason 0", "user:2: reason 2"]
    assert (len(taken), taken[-1].requests_n) == (MAX_IDENTITIES + 1, 2 * MAX_IDENTITIES + 3)
    total = sum(denied.requests_n for denied in taken)
    assert (sum(denials.by_end.values()), denials.by_end["observed"] < denials.by_end["refused"]) == (total, True)
    denials.note(peer, "once more", "refused")
    assert denials.take(100.0 + TOLD_S / 2) == []
    assert [denied.requests_n for denied in denials.take(100.0 + TOLD_S)] == [1]
