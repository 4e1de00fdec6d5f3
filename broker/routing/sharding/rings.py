"""A ring of hashes: every route has several points on it, and a key belongs to the next point clockwise.

        0 ·· b ···· a ·· a ··· c ······ b ·· c ··· 2^31       a key between the two a's belongs to the second

Source: Karger et al., "Consistent Hashing and Random Trees" (1997); points per route as in ketama. Knows positions, no
keys of callers and no generations.
"""

from array import array
from bisect import bisect_left
from typing import Final

from broker.routing.sharding.hashes import weight
from broker.routing.table import Route

POINTS_PER_ROUTE: Final = 128  # shares then differ by a tenth
# Of all routes of a ring; to make as many takes 4 ms compiled, and nothing else is forwarded meanwhile. More than 128
# routes have fewer points each.
MAX_POINTS: Final = 16_384
MAX_ROUTES: Final = MAX_POINTS  # with more of them some would have no point
_POINTS_KEY: Final = 0x2F01D5  # the key for which a route's weight says when it loses a point
_POSITION_BITS: Final = 24
_POSITION_MASK: Final = (1 << _POSITION_BITS) - 1


class Ring:
    """Which position owns a key, of 1..MAX_ROUTES routes."""

    def __init__(self, routes: list[Route]) -> None:
        """`routes`: by Route Id, which tells apart routes that have the same point."""
        marks: list[int] = []  # 31 bits of the point, then the position: 55 bits, sorted as one number
        for position in range(len(routes)):
            route = routes[position]
            for number in range(points_of(route, len(routes))):
                marks.append(weight(route, number) << _POSITION_BITS | position)
        marks.sort()
        self._points: Final = array("I", [mark >> _POSITION_BITS for mark in marks])
        self._owners: Final = array("I", [mark & _POSITION_MASK for mark in marks])

    def position_of(self, key: int) -> int:
        """The position of the route that owns a key hash."""
        at = bisect_left(self._points, key)
        position: int = self._owners[at if at < len(self._points) else 0]
        return position

    def held_bytes(self) -> int:
        """Memory of the ring."""
        return len(self._points) * (self._points.itemsize + self._owners.itemsize)


def points_of(route: Route, routes_n: int) -> int:
    """How many points a route has among 1..MAX_ROUTES routes: 128, or its part of MAX_POINTS.

    Parts are no whole numbers, and each route rounds by a limit of its own: when routes join, one after the other loses
    a point. If all lost it at once, up to half of the keys would move at once.
    """
    part = (MAX_POINTS << 31) // routes_n
    return min((part + weight(route, _POINTS_KEY)) >> 31, POINTS_PER_ROUTE)
