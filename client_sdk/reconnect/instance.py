"""The Route Id of an instance: the same in each process that says the same service and the same instance.

    instance_route_id("orders", "orders-1") = uuid5(NAMESPACE, "orders" NUL "orders-1")
    its second connection, its third …      = uuid5(NAMESPACE, "orders" NUL "orders-1" NUL "1"), "2" …

Shards go by Route Ids (docs/sharding.md), so keys stay with an instance that is deployed anew. Knows no connections.
"""

import uuid
from typing import Final

from client_sdk.mistakes.kinds import kind_of

NAMESPACE: Final = uuid.UUID("6c0f0f2e-5a0b-4f5e-9d3c-8b1f7f1d2a64")  # ours; must never change, or all keys move
MAX_INSTANCE: Final = 255  # characters of an instance's name


def instance_route_id(service: str, instance: str, place: int = 0) -> uuid.UUID:
    """The Route Id of an instance's connection `place`, 0, 1, 2 …; ValueError for a name that makes no sense.

    >>> print(instance_route_id("orders", "orders-1"))
    22e93642-77cc-5442-a3bd-05e49089fa92
    """
    if not isinstance(instance, str):
        raise TypeError(f"instance= is {kind_of(instance)}, it must be a name, such as 'orders-1'")
    if not 1 <= len(instance) <= MAX_INSTANCE or "\0" in instance:
        raise ValueError(f"instance={instance[:40]!r} must have 1..{MAX_INSTANCE} characters, none of them NUL")
    parts = [service, instance] if place == 0 else [service, instance, str(place)]
    return uuid.uuid5(NAMESPACE, "\0".join(parts))
