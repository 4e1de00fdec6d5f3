"""Sharding: which of the candidates owns a key. The same on every broker that sees the same routes.

Rendezvous hashing (highest random weight): every route has a weight for a key, the heaviest owns it. When a route joins
or leaves, only the keys that it takes or had move: 1/N of them. Weights are made of CRC-32 and a 31-bit mixer, exactly
as written here: part of the protocol between brokers, so never changed without a new name.
"""

import zlib
from typing import Final

from broker.routing.candidates import Candidates
from broker.routing.table import Route
from broker.wire.ints import u16_bytes

_MASK: Final = 0x7FFFFFFF


def key_hash(values: list[bytes]) -> int:
    """31-bit hash of the ShardKey tags' values, in the order of the ShardKeys in the request."""
    crc = 0
    for value in values:
        crc = zlib.crc32(value, zlib.crc32(u16_bytes(len(value)), crc))
    return _mix(crc & _MASK) ^ (crc >> 31)


def weight(route: Route, key: int) -> int:
    """Weight of a route for a key hash, 0..2^31-1."""
    return _mix((_mix(key ^ route.seed_high) + route.seed_low) & _MASK)


def choose_owner(candidates: Candidates, key: int) -> Route:
    """The route with the largest weight; equal weights: the larger Route Id. At least one candidate."""
    best = candidates.route_at(0)
    best_weight = weight(best, key)
    for position in range(1, candidates.size):
        route = candidates.route_at(position)
        its_weight = weight(route, key)
        if its_weight > best_weight or (its_weight == best_weight and route.id > best.id):
            best = route
            best_weight = its_weight
    return best


def _mix(h: int) -> int:
    """Spreads 31 bits over 31 bits; products stay below 2^62, where compiled integers are still machine words."""
    h ^= h >> 16
    h = (h * 0x7FEB352D) & _MASK
    h ^= h >> 15
    h = (h * 0x046CA68B) & _MASK
    return h ^ (h >> 16)
