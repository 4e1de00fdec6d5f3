"""MaxWeights: the largest weight among all routes, and among those of a service."""

from broker.routing.max_weights import MaxWeights
from broker.routing.table import Table
from rsocket_wire.wire.keys import SERVICE_NAME, Key
from rsocket_wire.wire.tags import Tag
from tests.broker.routing.made import AT_MS, joined, route

ORDERS = [Tag(SERVICE_NAME, b"orders")]
BILLING = [Tag(SERVICE_NAME, b"billing")]
EU = [Tag(Key.text("region"), b"eu")]


def heaviest_of(table: Table) -> list[int]:
    """Among routes of orders, of billing, of a region, and among all."""
    return [table.max_weights.among(tags) for tags in (ORDERS, BILLING, EU, [])]


def test_each_service_has_its_heaviest_and_without_a_name_it_is_the_tables() -> None:
    table = Table()
    assert heaviest_of(table) == [1, 1, 1, 1]
    joined(table, 1, weight="7")
    joined(table, 2, "billing", weight="65535")
    joined(table, 3, "billing")
    assert heaviest_of(table) == [7, 65_535, 65_535, 65_535]
    assert table.max_weights.among(EU + ORDERS) == 7


def test_heaviest_falls_when_the_last_of_that_weight_leaves() -> None:
    table = Table()
    routes = [joined(table, number, weight=weight) for number, weight in enumerate(("9", "9", "4", "1"))]
    found = []
    for leaver in routes:
        table.leave(leaver)
        found.append(heaviest_of(table)[0])
    assert found == [9, 4, 1, 1]
    assert table.max_weights.size() == 0


def test_changed_weight_of_a_route_counts_once() -> None:
    """The same load goes on with other tags."""
    table = Table()
    old = joined(table, 1, weight="9")
    table.join(route(1, weight="3"), AT_MS, load=old.load)
    assert heaviest_of(table) == [3, 1, 3, 3]
    table.join(route(1), AT_MS)
    assert heaviest_of(table) == [1, 1, 1, 1]


def test_route_counts_for_each_of_its_names_once() -> None:
    table = Table()
    both = route(1, "orders", ServiceName="billing", weight="5")
    both.tags.append(Tag(SERVICE_NAME, b"orders"))
    table.join(both, AT_MS)
    assert heaviest_of(table) == [5, 5, 5, 5]
    table.leave(both)
    assert heaviest_of(table) == [1, 1, 1, 1]


def test_names_without_weights_are_not_counted() -> None:
    tally = MaxWeights()
    tally.joined(ORDERS, 1)
    tally.left(ORDERS, 1)
    tally.joined(BILLING, 2)
    assert tally.size() == 1
