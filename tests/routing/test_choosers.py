"""Whose turn it is."""

import pytest

from broker.routing.bitmaps import Slots
from broker.routing.candidates import Candidates
from broker.routing.choosers import RANDOM, ROUND_ROBIN, Chooser, Random, RoundRobin, Turn, choosers, plain_name
from broker.routing.dice import Dice
from tests.routing.made import numbers, table_of


def candidates(count: int) -> Candidates:
    slots = Slots()
    for slot in range(count):
        slots.add(slot)
    return Candidates(table_of(count), slots)


def picks(chooser: Chooser, among: Candidates, turn: Turn, count: int, seed: int = 1) -> list[int]:
    dice = Dice(seed)
    return [numbers([chooser.choose(among, turn, dice)])[0] for _ in range(count)]


def test_round_robin_takes_each_in_turn() -> None:
    found = picks(RoundRobin(), candidates(3), Turn(), 7)
    assert sorted(found[:3]) == [1, 2, 3]
    assert found[3:6] == found[:3]


def test_round_robin_begins_where_the_dice_fell() -> None:
    """Or addresses that are met only once would all meet the first route."""
    dice = Dice(5)
    firsts = [numbers([RoundRobin().choose(candidates(4), Turn(), dice)])[0] for _ in range(400)]
    assert all(80 <= firsts.count(number) <= 120 for number in (1, 2, 3, 4))


def test_round_robin_counts_by_turn_and_never_for_all() -> None:
    chooser, one, other = RoundRobin(), Turn(), Turn()
    among = candidates(2)
    one.position = other.position = 0
    dice = Dice(1)
    found = [numbers([chooser.choose(among, turn, dice)])[0] for turn in (one, other) * 4]
    assert found == [1, 1, 2, 2, 1, 1, 2, 2]


def test_round_robin_goes_on_when_candidates_come_and_go() -> None:
    turn = Turn()
    turn.position = 0
    assert picks(RoundRobin(), candidates(2), turn, 1) == [1]
    assert picks(RoundRobin(), candidates(4), turn, 3) == [2, 3, 4]
    assert picks(RoundRobin(), candidates(2), turn, 3) == [1, 2, 1]
    assert picks(RoundRobin(), candidates(1), turn, 2) == [1, 1]


def test_random_takes_each_about_as_often_and_the_same_for_the_same_seed() -> None:
    found = picks(Random(), candidates(4), Turn(), 2000, seed=3)
    assert all(400 <= found.count(number) <= 600 for number in (1, 2, 3, 4))
    assert picks(Random(), candidates(4), Turn(), 2000, seed=3) == found


@pytest.mark.parametrize("name", ["roundrobin", "RoundRobin", "round_robin", "round-robin", "ROUND_ROBIN"])
def test_method_has_one_plain_name(name: str) -> None:
    assert plain_name(name) == ROUND_ROBIN


def test_choosers_are_known_by_their_plain_names() -> None:
    made = choosers()
    assert sorted(made) == sorted([ROUND_ROBIN, RANDOM])
    assert all(plain_name(name) == name for name in made)
