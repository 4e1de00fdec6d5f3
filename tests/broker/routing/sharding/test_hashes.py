"""The hashes that sharding is made of, and rendezvous: the default."""

import hashlib
import os
import subprocess
import sys
import zlib

from broker.routing.sharding.hashes import key_hash, weight
from broker.routing.sharding.maglev import MaglevTable
from broker.routing.sharding.methods import RENDEZVOUS, Rendezvous
from broker.routing.sharding.tables import ShardTables
from broker.routing.table import Route
from tests.broker.routing.made import numbers, route

KEYS = [key_hash([f"user-{number}".encode()]) for number in range(10_000)]

# What the algorithm of `shards` gave when it was written: for these keys, and the first 20 of KEYS among five routes.
KEY_VECTORS = [0x00000000, 0x346FEC3D, 0x2B368595, 0x2C493097]
WEIGHT_VECTORS = [0x34860228, 0x3B5172D0, 0x32FEBC48]
OWNER_VECTORS = [4, 2, 5, 5, 1, 5, 5, 1, 3, 5, 1, 2, 1, 4, 1, 2, 4, 1, 2, 1]
UUID_OWNER_VECTORS = [3, 2, 2, 1, 3, 3, 1, 3, 0, 1, 4, 2, 0, 3, 2, 4, 1, 1, 0, 2]


def owners(ids: list[int], keys: list[int]) -> list[int]:
    """By rendezvous, the default."""
    among = ShardTables([route(number) for number in ids])
    method = Rendezvous(RENDEZVOUS)
    return numbers([method.choose(among, key) for key in keys])


def uuids(count: int) -> list[int]:
    """Route Ids that look like everybody's."""
    return [int.from_bytes(hashlib.md5(bytes([number])).digest(), "big") for number in range(count)]


def test_owners_never_change() -> None:
    """Brokers of different versions must agree: these vectors are part of the protocol between them."""
    assert [key_hash([]), key_hash([b""]), key_hash([b"user-1"]), key_hash([b"a", b"b"])] == KEY_VECTORS
    assert [weight(route(number), 0x1234567) for number in (1, 2, 3)] == WEIGHT_VECTORS
    assert owners([1, 2, 3, 4, 5], KEYS[:20]) == OWNER_VECTORS
    assert [uuids(5).index(owner) for owner in owners(uuids(5), KEYS[:20])] == UUID_OWNER_VECTORS


def test_routes_whose_ids_have_one_crc_share_the_keys_between_them() -> None:
    """Neither may own all keys of both."""
    seen: dict[int, bytes] = {}
    for number in range(1_000_000):
        id = hashlib.md5(number.to_bytes(4, "big")).digest()
        other = seen.setdefault(zlib.crc32(id) & 0x7FFFFFFF, id)
        if other != id:
            break
    pair = [int.from_bytes(id, "big"), int.from_bytes(other, "big")]
    found = owners(pair, KEYS[:1000])
    assert all(400 <= found.count(owner) <= 600 for owner in pair)


def test_routes_of_equal_weight_are_told_apart_by_their_ids() -> None:
    seen: dict[int, int] = {}
    for number in range(1, 1_000_000):
        its_weight = weight(route(number), KEYS[0])
        if its_weight in seen:
            break
        seen[its_weight] = number
    pair = [seen[its_weight], number]
    assert owners(pair, KEYS[:1]) == owners(pair[::-1], KEYS[:1]) == [number]


def test_several_values_hash_by_value_and_by_order() -> None:
    hashes = [
        key_hash(values)
        for values in (
            [],
            [b""],
            [b"", b""],
            [b"ab"],
            [b"a", b"b"],
            [b"b", b"a"],
            [b"ab", b""],
            [b"", b"ab"],
            [b"\x00\x02ab"],
            [b"a\x00\x01b"],
        )
    ]
    assert len(set(hashes)) == len(hashes)
    assert all(0 <= found < 1 << 31 for found in hashes)


def test_weights_have_31_bits() -> None:
    for number in range(1, 50):
        for key in KEYS[:50]:
            assert 0 <= weight(route(number), key) < 1 << 31


def test_nothing_of_the_compiler_is_needed_to_run() -> None:
    """Machine words are named for mypyc alone: `mypy_extensions` is no dependency of the broker."""
    program = (
        "import sys; sys.modules['mypy_extensions'] = None\n"
        "from broker.routing.sharding.maglev import MaglevTable\n"
        "from broker.routing.table import Route\n"
        "print(MaglevTable([Route(bytes([n]) * 16, '', [], None) for n in range(3)]).position_of(0x1234567))"
    )
    import_path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": import_path}
    )
    among = [Route(bytes([number]) * 16, "", [], None) for number in range(3)]
    assert (ended.stdout, ended.stderr) == (f"{MaglevTable(among).position_of(0x1234567)}\n", "")
