"""What holds of a broker's table and masks after every step, whatever was said."""

from __future__ import annotations

from broker.core import Core
from broker.forwarding.interbroker.remote import Remote
from broker.forwarding.peer import Peer
from broker.routing.route_hints import is_down

NAMES = ("congested", "draining", "ejected", "elsewhere", "full", "remote", "unhealthy", "unleased")


def check_masks(core: Core) -> None:
    """Each mask has exactly the slots of the routes that it stands for."""
    table = core.table
    masks = table.masks
    expected: dict[str, set[int]] = {name: set() for name in NAMES}
    for route in table.routes():
        owner = route.owner
        load = route.load
        lease = load.lease
        assert (table.route_at(route.slot), load.slot) == (route, route.slot), route.id_text
        member = core.cluster.members.get(owner.id) if isinstance(owner, Remote) else None
        assert lease is None or lease.slot == route.slot, route.id_text
        if isinstance(owner, Peer):
            is_congested = owner.is_congested or owner.is_suspended
        else:
            assert isinstance(owner, Remote), route.id_text
            is_congested = masks.congested.has(route.slot)  # what its own broker says
        for name, is_behind in (
            ("draining", core.lifecycle.drains.covers(route)),
            ("full", 0 < load.service.policy.max_in_flight_per_route <= load.awaited_n),
            ("unleased", lease is not None and lease.left_n <= 0),
            ("ejected", load.ejected_until > 0),
            ("unhealthy", is_down(route.tags)),
            ("congested", is_congested),
            ("remote", isinstance(owner, Remote)),
            ("elsewhere", member is not None and not member.is_mate),
        ):
            if is_behind:
                expected[name].add(route.slot)
    found = {name: set(getattr(masks, name).to_list()) for name in NAMES}
    assert found == expected, f"masks of {core.settings.broker_name or core.id_text}"
