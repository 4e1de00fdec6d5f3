"""What holds of a broker's table, masks and counts after every step, whatever was said."""

from __future__ import annotations

from collections import Counter

from broker.core import Core
from broker.forwarding.interbroker.remote import Remote
from broker.forwarding.multicast.call import Branch
from broker.forwarding.peer import Peer
from broker.forwarding.unicast import Splice
from broker.routing.route_hints import is_down
from rsocket_wire.rsocket.frames import REQUEST_RESPONSE

NAMES = ("congested", "draining", "ejected", "elsewhere", "full", "remote", "unhealthy", "unleased")


def check_counts(core: Core) -> None:
    """What is counted of routes and services as in flight are the open streams."""
    in_flight: Counter[int] = Counter()  # by the identity of the load
    awaited: Counter[int] = Counter()
    loads = {id(route.load): route.load for route in core.table.routes()}
    for peer in core.peers():
        for stream_id, stream in peer.streams.items():
            if isinstance(stream, Splice) and (stream.caller, stream.caller_stream_id) == (peer, stream_id):
                route, model = stream.route, stream.model
            elif isinstance(stream, Branch) and stream.route is not None:
                route, model = stream.route, stream._call.model
            else:
                continue
            loads[id(route.load)] = route.load
            in_flight[id(route.load)] += 1
            awaited[id(route.load)] += model == REQUEST_RESPONSE
    for number, load in loads.items():
        assert (load.in_flight, load.awaited_n) == (in_flight[number], awaited[number]), load.service.name
    for name, total in core.table.loads.services.items():
        own = [load for load in loads.values() if load.service is total]  # with routes that left, whose requests run
        counted = sum(load.awaited_n for load in own), sum(load.ejected_until > 0 for load in own)
        assert (total.awaited_n, total.ejected_n) == counted, name


def check_masks(core: Core) -> None:
    """Each mask has exactly the slots of the routes that it stands for, and counts are right."""
    check_counts(core)
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
