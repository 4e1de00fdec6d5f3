"""Small histories whose answers were computed by hand: each number of a result, and not only what it adds up to."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.events import ROUTE_ADDED
from broker.routing.sharding.hashes import key_hash
from rsocket_wire.wire.frames import SHARD
from rsocket_wire.wire.keys import SHARD_KEY
from spark_sink.what_if.output import as_json
from spark_sink.what_if.question import Question, copy_id
from spark_sink.what_if.simulation import Simulation
from tests.fakes import address
from tests.spark_sink.what_if.histories import History, asked, loads, name_of, tags_of

OTHER = "b0000000-0000-4000-8000-000000000002"


def overlapping() -> History:
    """Round robin over two routes; choice k ends when k + 2 have been made.

    choice            1   2   3    4   5    6
    in flight at 1    1   1   1 3  3   3 5  5
    in flight at 2        2   2    2 4 4    4 6
    """
    history = History().start().join(1, "orders", zone="a").join(2, "orders", zone="b")
    for number in range(6):
        history.ask(1 + number % 2, "orders", ended=number + 3)
    return history


def numbers(simulation: Simulation, real: bool) -> list[tuple[int, int]]:
    """Requests and peak of each route, by Route Id."""
    [service] = as_json(simulation)["services"]
    side = "real" if real else "simulated"
    return [
        (route[side]["requests"], route[side]["peak_in_flight"])
        for route in sorted(service["routes"], key=lambda route: route["route_id"])
    ]


def test_requests_and_peaks_of_what_was(tmp_path: Path) -> None:
    simulation = asked(overlapping().write(tmp_path))
    assert numbers(simulation, real=True) == numbers(simulation, real=False) == [(3, 2), (3, 2)]
    assert simulation.result.moved_requests == 0


def test_without_a_zone_the_other_route_has_all_that_is_in_flight(tmp_path: Path) -> None:
    """1 3 5 end as they did. 2 4 6 take the 500 us that requests take there, and one comes each millisecond.

    choice            1   2    3    4    5    6
    in flight at 1    1   1 2  1 3  3 4  3 5  5 6
    """
    simulation = asked(overlapping().write(tmp_path), Question(without=(("zone", "b"),)))
    assert numbers(simulation, real=False) == [(6, 2), (0, 0)]
    assert simulation.result.moved_requests == 3
    [service] = as_json(simulation)["services"]
    assert (service["real"]["routes"], service["simulated"]["routes"]) == (2, 1)
    assert (service["simulated"]["max_over_mean"], service["simulated"]["gini"]) == (1.0, 0.0)


def test_evenness_is_that_of_the_routes_that_would_be_there(tmp_path: Path) -> None:
    """Six requests at one of two routes: max/mean 2, Gini 1/2. With two copies of it: 2 2 1 1 → 4/3, 1/6."""
    history = History().start().join(1, "orders", zone="a").join(2, "orders", zone="b")
    for _ in range(6):
        history.ask(1, "orders")
    folder = history.write(tmp_path)
    [service] = as_json(asked(folder, Question(copies_of=(("zone", "a"),), copies=2)))["services"]
    assert (service["real"]["max_over_mean"], service["real"]["gini"]) == (2.0, 0.5)
    assert sorted(route["simulated"]["requests"] for route in service["routes"]) == [1, 1, 2, 2]
    assert (service["simulated"]["max_over_mean"], service["simulated"]["gini"]) == (1.3333, 0.1667)
    copies = {copy_id(name_of(1), number) for number in (1, 2)}
    assert {route["route_id"] for route in service["routes"] if route["is_copy"]} == copies


def test_shard_keys_of_modulo_by_hand(tmp_path: Path) -> None:
    """Keys 0 … 5 by their hashes modulo 3; without one of three routes by modulo 2: a key stays where both agree."""
    history = History().start(shard_method="modulo")
    for number in (1, 2, 3):
        history.join(number, "orders", zone="c" if number == 3 else "a")
    hashes = [key_hash([str(user).encode()]) for user in range(60)]
    for user, key in enumerate(hashes):
        for _ in range(2):
            raw = address(SHARD, [(SHARD_KEY, "user")], service="orders", user=str(user))
            history.ask(1 + key % 3, "orders", raw, routing="shard", key_hash=key)
    result = asked(history.write(tmp_path), Question(without=(("zone", "c"),))).result
    moved = [key for key in hashes if key % 3 != key % 2]
    moves = result.shards["orders"]
    assert (moves.keys.keys_n, moves.keys.moved_n) == (60, len(moved))
    assert (moves.requests, moves.moved_requests, result.moved_requests) == (120, 2 * len(moved), 2 * len(moved))
    assert loads(asked(tmp_path, Question(without=(("zone", "c"),))))[name_of(3)] == (
        2 * sum(key % 3 == 2 for key in hashes),
        0,
    )


def test_two_brokers_have_whose_turn_it_is_of_their_own_and_add_up(tmp_path: Path) -> None:
    """Each gives the first request to route 1; the route of the other broker is not there when local ones are."""
    for broker, requests in (("", 3), (OTHER, 5)):
        history = History(broker=broker) if broker else History()
        history.start(prefers_local="no").join(1, "orders", zone="a").join(2, "orders", zone="b")
        for number in range(requests):
            history.ask(1 + number % 2, "orders")
        history.write(tmp_path)
    assert loads(asked(tmp_path)) == {name_of(1): (5, 5), name_of(2): (3, 3)}
    assert loads(asked(tmp_path, Question(without=(("zone", "a"),)))) == {name_of(1): (5, 0), name_of(2): (3, 8)}
    assert loads(asked(tmp_path, Question(broker=OTHER))) == {name_of(1): (3, 3), name_of(2): (2, 2)}


@pytest.mark.parametrize("mates, expected", [("", [(2, 4), (2, 0)]), (f"{OTHER} x", [(2, 2), (2, 2)])])
def test_routes_of_other_workers_count_as_those_of_the_broker(
    mates: str, expected: list[tuple[int, int]], tmp_path: Path
) -> None:
    """D-64: and those of other machines get nothing while there are local ones."""
    history = History().start(mates=mates).join(1, "orders")
    history.tell(ROUTE_ADDED, 2, "orders", tags_of(2, "orders"), peer=f"broker {OTHER}")
    for number in range(4):
        history.ask(1 + number % 2, "orders")
    found = loads(asked(history.write(tmp_path)))
    assert [found[name_of(number)] for number in (1, 2)] == expected


@pytest.mark.parametrize("weight", [1, 7])
def test_one_of_n_counts_n_times_in_all_sums(tmp_path: Path, weight: int) -> None:
    history = History().start().join(1, "orders", zone="a").join(2, "orders", zone="b")
    for number in range(4):
        history.ask(1 + number % 2, "orders", weight=weight, choice=(number + 1) * weight, ended=(number + 1) * weight)
    raw = address(service="orders", zone="b")
    history.ask(2, "orders", raw, weight=weight, choice=5 * weight, ended=5 * weight)
    result = asked(history.write(tmp_path), Question(without=(("zone", "b"),))).result
    assert (result.requests, result.moved_requests) == (5 * weight, 3 * weight)
    assert result.unroutable == {"orders": {"zone=b": weight}}
    assert result.routes[name_of(1)].asked.requests == 4 * weight


def test_flows_alone_are_spread_over_their_second_and_counted_to_the_last(tmp_path: Path) -> None:
    """1000 requests of 700 us in a second: each begins a millisecond after the one before, and none overlap."""
    history = History().start().join(1, "orders", zone="a").join(2, "orders", zone="b")
    history.flow(1, "orders", 600).flow(2, "orders", 400)
    folder = history.write(tmp_path)
    assert numbers(asked(folder), real=True)[0][0] == 600
    found = asked(folder, Question(without=(("zone", "b"),)))
    assert numbers(found, real=True) == [(600, 1), (400, 1)]
    # Two streams at one route: 1/600 s and 1/400 s apart, 0.7 ms each: now and then two at once, never three.
    assert numbers(found, real=False) == [(1000, 2), (0, 0)]
