"""Redirects: so many are kept, and those that were removed for a while."""

import pytest

from broker.cluster.cluster import EXPIRE_S
from broker.cluster.gossip import EXPIRY_STEP_S, TOMBSTONE_S
from broker.cluster.redirects import MAX_REDIRECTS
from rsocket_wire.errors import BrokerError
from tests.conformance.links import cluster


def test_so_many_services_are_redirected_and_no_more() -> None:
    world = cluster()
    set_redirect = world.core.cluster.set_redirect
    for number in range(MAX_REDIRECTS):
        set_redirect(f"s{number}", "orders", world.now)
    text = f"over-limit: {MAX_REDIRECTS} redirects are set, the limit is {MAX_REDIRECTS}"
    with pytest.raises(BrokerError, match=text):
        set_redirect("one-more", "orders", world.now)
    set_redirect("s7", "stock", world.now)
    assert (len(world.core.cluster.redirects), world.core.cluster.redirects["s7"].to) == (MAX_REDIRECTS, "stock")


def test_redirects_that_were_removed_take_no_place_for_ever() -> None:
    """They do as long as their tombstones are there: an older word must not bring them back."""
    world = cluster()
    others = world.core.cluster
    for number in range(MAX_REDIRECTS):
        others.set_redirect(f"s{number}", "orders", world.now)
        others.remove_redirect(f"s{number}", world.now)
    with pytest.raises(BrokerError, match="over-limit"):
        others.set_redirect("one-more", "orders", world.now)
    world.advance(TOMBSTONE_S + EXPIRY_STEP_S + EXPIRE_S)
    assert others.replication.gossip.size() == 1  # this broker
    others.set_redirect("one-more", "orders", world.now)
    assert list(others.redirects) == ["one-more"]
