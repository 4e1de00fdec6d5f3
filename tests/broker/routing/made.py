"""Routes, tables and addresses for the tests of this room."""

import math
from collections import Counter

from broker.routing.bitmaps import Slots
from broker.routing.candidates import Candidates
from broker.routing.choosers.chooser import Chooser, Turn
from broker.routing.health.loads import GOOD, Load
from broker.routing.policies import Policies, Policy
from broker.routing.query import Query
from broker.routing.rng import Rng
from broker.routing.sharding.methods import ShardMethod, ShardMethods
from broker.routing.table import Route, Table
from broker.routing.targets import Target
from rsocket_wire.wire.frames import UNICAST, Address
from rsocket_wire.wire.keys import Key
from rsocket_wire.wire.tags import Tag

AT_MS = 1_700_000_000_000
CALLER = b"the caller's id."
WARM = Policy(slow_start_s=100.0)


def route_id(number: int) -> bytes:
    """A Route Id that a test can name."""
    return number.to_bytes(16, "big")


def route(number: int, service: str = "orders", /, **tags: str | None) -> Route:
    """A route that is in no table yet."""
    return Route(route_id(number), service, [Tag.of(key, value) for key, value in tags.items()], None)


def joined(table: Table, number: int, service: str = "orders", /, now: float = 0.0, **tags: str | None) -> Route:
    """A route that has joined the table at `now`."""
    found = route(number, service, **tags)
    table.join(found, AT_MS, now)
    return found


def table_of(count: int, service: str = "orders", /, policy: Policy | None = None, **tags: str | None) -> Table:
    """A table with the routes 1..count of one service."""
    table = Table(Policies(policy if policy is not None else Policy(), {}))
    for number in range(1, count + 1):
        table.join(route(number, service, **tags), AT_MS)
    return table


def loaded(in_flight: dict[int, int], weights: dict[int, int] | None = None) -> Table:
    """A table of routes with so many requests in flight, by number; of weight 1 unless it is given."""
    table = Table()
    for number, count in in_flight.items():
        weight = (weights or {}).get(number)
        load = (joined(table, number, weight=str(weight)) if weight else joined(table, number)).load
        for _ in range(count):
            load.began(False)
    return table


def load_of(latency_us: int = 0, now: float = 100.0) -> Load:
    """The load of an idle route that somebody measures, with one answer behind it."""
    load = table_of(1).routes()[0].load
    load.is_measured = True
    if latency_us:
        answer(load, latency_us, now)
    return load


def answer(load: Load, latency_us: int, now: float, verdict: int = GOOD, is_awaited: bool = True) -> None:
    """A request to an idle route ends like this."""
    load.began(is_awaited)
    load.ended(is_awaited, verdict, latency_us, now)


def numbers(routes: list[Route]) -> list[int]:
    """The numbers that the routes were made with."""
    return [int.from_bytes(route.id, "big") for route in routes]


def number_of(route: Route | None) -> int:
    """The number that a route was made with; 0 for none."""
    return 0 if route is None else int.from_bytes(route.id, "big")


def address(
    flags: int = UNICAST,
    hints: list[tuple[Key, str | None]] | None = None,
    wrapped: bytes = b"",
    origin: int = 0xCA11,
    **tags: str | None,
) -> bytes:
    """The bytes of an ADDRESS: one map unless there are hints or wrapped metadata."""
    metadata = [Tag.of(key, value) for key, value in hints or []]
    wanted = [Tag.of(key, value) for key, value in tags.items()]
    return Address(route_id(origin), wanted, metadata, wrapped, flags).encode()


def slots(*members: int) -> Slots:
    """A set of these slots."""
    made = Slots()
    for member in members:
        made.add(member)
    return made


def all_of(table: Table) -> Candidates:
    """All routes of a table as candidates."""
    return Candidates(table, slots(*[each.slot for each in table.routes()]), table.max_weights.among([]))


def shard_method(name: str) -> ShardMethod:
    """The shard method of that name."""
    found = ShardMethods().find(name)
    assert found is not None
    return found


def picks(
    chooser: Chooser,
    among: Candidates,
    count: int,
    *,
    turn: Turn | None = None,
    rng: Rng | None = None,
    zone: bytes = b"",
    now: float = 0.0,
) -> list[int]:
    """The numbers of the routes that a chooser chooses one after another."""
    turn = turn if turn is not None else Turn()
    turn.matched = turn.matched if turn.matched is not None else among
    rng = rng if rng is not None else Rng(1)
    return [number_of(chooser.choose(among, turn, rng, zone, now)) for _ in range(count)]


def counted(chooser: Chooser, among: Candidates, count: int, *, seed: int = 1, now: float = 0.0) -> Counter[int]:
    """How often a chooser chooses each route."""
    return Counter(picks(chooser, among, count, rng=Rng(seed), now=now))


def is_likely(found: Counter[int], parts: dict[int, int]) -> bool:
    """Chi-square: the counts are no worse an image of the parts than in all but one of a thousand honest trials."""
    if set(found) - set(parts):
        return False
    total = sum(found.values())
    whole = sum(parts.values())
    expected = {number: total * part / whole for number, part in parts.items()}
    distance = sum((found[number] - mean) ** 2 / mean for number, mean in expected.items())
    # Wilson and Hilferty's approximation of the quantile of chi-square; 3.09 is that of the normal distribution.
    freedom = len(parts) - 1
    return distance < freedom * (1 - 2 / (9 * freedom) + 3.09 * math.sqrt(2 / (9 * freedom))) ** 3


def query_of(table: Table, *, strict_hints: bool = False, limit: int = 16384, seed: int = 1) -> Query:
    return Query(table, Rng(seed), strict_hints, limit)


def resolve(query: Query, raw: bytes) -> Target:
    """The target of an address that lies between other bytes."""
    return query.resolve(b"\xff" * 7 + raw + b"\xff" * 30, 7, 7 + len(raw))


def found(query: Query, raw: bytes) -> list[int] | str:
    """Numbers of the candidates, or the refusal's message."""
    target = resolve(query, raw)
    if target.refusal is not None:
        assert target.candidates is None
        return target.refusal.message
    assert target.candidates is not None
    routes = numbers(target.candidates.routes())
    assert len(routes) == target.candidates.size
    return sorted(routes)


def chosen(query: Query, raw: bytes, count: int) -> list[int]:
    """The routes that as many requests to one address meet."""
    return [number_of(query.choose(resolve(query, raw), b"", CALLER, 0.0)) for _ in range(count)]


def zoo() -> Table:
    """orders: 1 eu, 2 us, 3 eu in zone b; billing: 4 eu."""
    table = Table()
    joined(table, 1, "orders", region="eu")
    joined(table, 2, "orders", region="us")
    joined(table, 3, "orders", region="eu", zone="b")
    joined(table, 4, "billing", region="eu")
    return table


def hinted(flags: int = UNICAST, hints: list[tuple[Key, str | None]] | None = None, **tags: str | None) -> list[bytes]:
    """The same request in both layouts: hints in the metadata map, and among the tags of a one-map ADDRESS."""
    metadata = [Tag.of(key, value) for key, value in hints or []]
    wanted = [Tag.of(key, value) for key, value in tags.items()]
    sent = [Address(route_id(1), wanted, metadata, flags=flags), Address(route_id(1), metadata + wanted, flags=flags)]
    return [each.encode() for each in sent]
