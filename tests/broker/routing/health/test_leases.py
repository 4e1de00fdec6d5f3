"""Leases: the mask of a route is on while its connection grants it nothing (D-19)."""

from collections.abc import Callable

from broker.routing.health.leases import Lease
from broker.routing.health.masks import Masks


def test_a_route_is_masked_until_it_is_granted_a_request_and_when_all_are_spent_or_over() -> None:
    masks = Masks()
    lease = Lease(masks)
    changes: list[Callable[[], None]] = [
        lambda: lease.join(5),
        lambda: lease.grant(2, 10.0, 0.0),
        lease.spend,
        lease.spend,
        lambda: lease.grant(1, 10.0, 5.0),
        lambda: lease.end(10.0),  # the time of the earlier one
        lambda: lease.end(15.0),
        lambda: lease.grant(1, 0.0, 15.0),
    ]
    seen: list[bool] = []
    for change in changes:
        change()
        seen.append(masks.unleased.has(5))
    assert seen == [True, False, False, True, False, False, True, True]
