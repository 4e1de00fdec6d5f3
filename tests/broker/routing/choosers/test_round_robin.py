"""The chooser that takes the candidates in turn."""

from collections import Counter

from broker.routing.choosers.chooser import MAX_DRAWS, Turn
from broker.routing.choosers.round_robin import RoundRobin
from broker.routing.rng import Rng
from tests.broker.routing.made import WARM, all_of, counted, is_likely, joined, picks, table_of


def test_round_robin_takes_each_in_turn() -> None:
    found = picks(RoundRobin(), all_of(table_of(3)), 7)
    assert sorted(found[:3]) == [1, 2, 3]
    assert found[3:6] == found[:3]


def test_round_robin_begins_at_a_route_that_was_drawn() -> None:
    """Or addresses that are met only once would all meet the first route."""
    rng = Rng(5)
    among = all_of(table_of(4))
    firsts = Counter(picks(RoundRobin(), among, 1, rng=rng)[0] for _ in range(400))
    assert is_likely(firsts, {1: 1, 2: 1, 3: 1, 4: 1})


def test_round_robin_counts_by_turn_and_never_for_all() -> None:
    chooser, one, other = RoundRobin(), Turn(), Turn()
    among = all_of(table_of(2))
    one.position = other.position = 0
    found = [picks(chooser, among, 1, turn=turn)[0] for turn in (one, other) * 4]
    assert found == [1, 1, 2, 2, 1, 1, 2, 2]


def test_round_robin_goes_on_when_candidates_come_and_go() -> None:
    turn = Turn()
    turn.position = 0
    assert picks(RoundRobin(), all_of(table_of(2)), 1, turn=turn) == [1]
    assert picks(RoundRobin(), all_of(table_of(4)), 3, turn=turn) == [2, 3, 4]
    assert picks(RoundRobin(), all_of(table_of(2)), 3, turn=turn) == [1, 2, 1]
    assert picks(RoundRobin(), all_of(table_of(1)), 2, turn=turn) == [1, 1]


def test_round_robin_passes_a_new_route_over_and_goes_on_with_the_next() -> None:
    """It takes a tenth of its turns, and the others go on in turn."""
    table = table_of(2, policy=WARM)
    joined(table, 3, now=1000.0)
    found = counted(RoundRobin(), all_of(table), 6300, now=1000.0)
    assert abs(found[1] - found[2]) <= 1
    assert is_likely(found, {1: 10, 2: 10, 3: 1})


def test_only_so_many_are_passed_over_whatever_is_drawn() -> None:
    """The work is bounded: the last one drawn gets the request, however cold it is."""
    table = table_of(0, policy=WARM)
    for number in range(1, 101):
        joined(table, number, now=1000.0)
    among = all_of(table)
    turn = Turn()
    rng = Rng(1)
    steps = []
    for _ in range(100):
        turn.position = 0
        picks(RoundRobin(), among, 1, turn=turn, rng=rng, now=1000.0)
        steps.append(turn.position)
    assert (min(steps), max(steps)) == (1, MAX_DRAWS)
