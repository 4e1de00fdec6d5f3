"""What a backend answers, and what it is told to drain."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from rsocket_wire.wire.tags import Tag

T = TypeVar("T", covariant=True)


class Answer(NamedTuple, Generic[T]):
    """A value, and the numbers of the workers that it is without."""

    value: T
    missing: frozenset[int] = frozenset()


class DrainTarget(NamedTuple):
    """What is drained: a route, the routes with a tag, or all of the broker."""

    path: str  # where the drain is in this API, as it was asked for
    route_id: bytes | None = None
    tag: Tag | None = None
