"""Maglev's table: how few keys move, and how evenly its entries are dealt."""

from collections import Counter

import pytest

from broker.routing.sharding import maglev
from broker.routing.sharding.maglev import MaglevTable
from tests.broker.routing.sharding.owners import KEYS, moved, owners, uuids


@pytest.mark.parametrize("count, others", [(2, 0.005), (8, 0.01), (50, 0.02)])
def test_maglev_moves_few_keys_between_routes_that_stay(count: int, others: float) -> None:
    routes = uuids(count + 1)
    moves = moved(owners("maglev", routes[:-1]), owners("maglev", routes))
    to_the_new_one = [new for _, new in moves if new == routes[-1].id]
    assert len(to_the_new_one) <= len(KEYS) * (1 / (count + 1) + 0.01)
    assert len(moves) - len(to_the_new_one) <= len(KEYS) * others


def test_shares_in_a_maglev_table_differ_by_one_entry() -> None:
    for count in (1, 2, 7, 1000):
        table = MaglevTable(uuids(count))
        shares = Counter(table.position_of(entry) for entry in range(maglev.ENTRIES))
        assert sorted(shares) == list(range(count))
        assert max(shares.values()) - min(shares.values()) <= 1


def test_number_of_entries_is_a_prime() -> None:
    """Or the walk of a route would not meet all of them."""
    assert all(maglev.ENTRIES % divisor for divisor in range(2, int(maglev.ENTRIES**0.5) + 1))
