"""The hashes that sharding is made of: of a key, and of a route for a key. Who owns what is for `methods`.

Every broker must find the same owner, so all of this is part of the protocol between brokers (D-36) and never changes
without a new name: CRC-32 of the bytes, then a 31-bit mixer, exactly as written here.
"""

import zlib
from typing import TYPE_CHECKING, Final

from broker.routing.table import Route
from rsocket_wire.wire.ints import u16_bytes

if TYPE_CHECKING:  # for the compiler alone: nothing of it is needed when this runs
    from mypy_extensions import i64

MASK: Final = 0x7FFFFFFF  # 31 bits


def key_hash(values: list[bytes]) -> int:
    """31-bit hash of the ShardKey tags' values, in the order of the ShardKeys in the request."""
    crc = 0
    for value in values:
        crc = zlib.crc32(value, zlib.crc32(u16_bytes(len(value)), crc))
    return mix(crc & MASK) ^ (crc >> 31)


def weight(route: Route, key: int) -> int:
    """Weight of a route for a key hash, 0..2^31-1."""
    return mix((mix(key ^ route.seed_high) + route.seed_low) & MASK)


def mix(h: int) -> int:
    """Spreads 31 bits over 31 bits.

    The products stay below 2^62, but mypyc multiplies plain ints of more than 30 bits as objects. Said to be a machine
    word, a weight (two of these) takes 6 ns compiled instead of 390; interpreted it is the same.
    """
    x: i64 = h
    x ^= x >> 16
    x = (x * 0x7FEB352D) & MASK
    x ^= x >> 15
    x = (x * 0x046CA68B) & MASK
    return x ^ (x >> 16)
