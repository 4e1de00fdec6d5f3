"""Routes, tables and addresses for the tests of this room."""

from broker.routing.dice import Dice
from broker.routing.query import Query, Target
from broker.routing.table import Route, Table
from broker.wire.frames import UNICAST, Address
from broker.wire.keys import Key
from broker.wire.tags import Tag

AT_MS = 1_700_000_000_000
CALLER = b"the caller's id."


def route_id(number: int) -> bytes:
    """A Route Id that a test can name."""
    return number.to_bytes(16, "big")


def route(number: int, service: str = "orders", /, **tags: str | None) -> Route:
    """A route that is in no table yet."""
    return Route(route_id(number), service, [Tag.of(key, value) for key, value in tags.items()], None)


def joined(table: Table, number: int, service: str = "orders", /, **tags: str | None) -> Route:
    """A route that has joined the table."""
    found = route(number, service, **tags)
    table.join(found, AT_MS)
    return found


def table_of(count: int, service: str = "orders", /, **tags: str | None) -> Table:
    """A table with the routes 1..count of one service."""
    table = Table()
    for number in range(1, count + 1):
        joined(table, number, service, **tags)
    return table


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


def query_of(table: Table, *, strict_hints: bool = False, limit: int = 16384, chooser: str = "roundrobin") -> Query:
    return Query(table, Dice(1), chooser, strict_hints, limit)


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
