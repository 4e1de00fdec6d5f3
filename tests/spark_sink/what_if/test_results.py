from __future__ import annotations

import pytest

from broker.routing.sharding.hashes import mix
from spark_sink.what_if import keys
from spark_sink.what_if.keys import Keys
from spark_sink.what_if.results import Compared, Load, RouteLoad, ShardMoves, UnitResult, merged


def test_keys_are_counted_once_and_once_moved_is_moved() -> None:
    found = Keys()
    for key, is_moved in ((1, False), (1, True), (1, False), (2, False)):
        found.add(key, is_moved=is_moved)
    assert (found.keys_n, found.moved_n, found.is_exact) == (2, 1, True)


def test_too_many_keys_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_KEYS", 1000)
    found = Keys()
    for number in range(50_000):
        found.add(mix(number), is_moved=number % 4 == 0)
    assert len(found.moved) <= 1000
    assert not found.is_exact
    assert found.keys_n == pytest.approx(50_000, rel=0.15)
    assert found.moved_n == pytest.approx(12_500, rel=0.25)


def test_counts_of_keys_merge_whatever_part_of_them_they_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_KEYS", 1000)
    many, few = Keys(), Keys()
    for number in range(20_000):
        many.add(mix(number), is_moved=False)
    for number in range(500):
        few.add(mix(number), is_moved=False)
    few.merge(many)
    assert few.keys_n == pytest.approx(20_000, rel=0.15)


def test_units_add_up() -> None:
    one = UnitResult(
        rows=2,
        requests=3,
        routes={"r": RouteLoad("orders", Load(2, 5, is_there=True), Load(1, 1))},
        compared={"random": Compared(2, 1)},
        unroutable={"orders": {"zone=a": 1}},
        shards={"orders": ShardMoves(3, 1, Keys({1: True}))},
        still_refused={"no-route": 1},
        first_us=10,
        last_us=20,
    )
    other = UnitResult(
        rows=1,
        requests=1,
        routes={"r": RouteLoad("orders", Load(1, 2), Load(1, 3, is_there=True)), "s": RouteLoad("stock", Load(1))},
        compared={"random": Compared(1, 1)},
        unroutable={"orders": {"zone=a": 2, "zone=b": 1}},
        shards={"orders": ShardMoves(1, 0, Keys({2: False}))},
        first_us=5,
        last_us=15,
    )
    total = merged([one, other, UnitResult()])
    assert total == UnitResult(
        rows=3,
        requests=4,
        routes={
            "r": RouteLoad("orders", Load(3, 5, is_there=True), Load(2, 3, is_there=True)),
            "s": RouteLoad("stock", Load(1)),
        },
        compared={"random": Compared(3, 2)},
        unroutable={"orders": {"zone=a": 3, "zone=b": 1}},
        shards={"orders": ShardMoves(4, 1, Keys({1: True, 2: False}))},
        still_refused={"no-route": 1},
        first_us=5,
        last_us=20,
    )
