"""Keys, routes, and which of them owns which, for the tests of shard methods."""

import hashlib

from broker.routing.sharding.hashes import key_hash
from broker.routing.sharding.tables import ShardTables
from broker.routing.table import Route
from tests.broker.routing.made import shard_method

KEYS = [key_hash([f"user-{number}".encode()]) for number in range(25_000)]


def uuids(count: int) -> list[Route]:
    """Routes whose ids look like everybody's; number n is the same route in every list, and not the n-th by id."""
    return [Route(hashlib.md5(b"route %d" % number).digest(), "orders", [], None) for number in range(count)]


def owners(name: str, routes: list[Route], keys: list[int] = KEYS) -> list[Route]:
    by = shard_method(name)
    among = ShardTables(routes)
    return [by.choose(among, key) for key in keys]


def moved(before: list[Route], after: list[Route]) -> list[tuple[bytes, bytes]]:
    """Old and new owner of each key that has another one."""
    return [(old.id, new.id) for old, new in zip(before, after, strict=True) if old.id != new.id]
