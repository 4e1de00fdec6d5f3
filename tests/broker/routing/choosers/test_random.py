"""The chooser that draws one of the candidates."""

from collections import Counter

from broker.routing.choosers.random import Random
from broker.routing.rng import Rng
from tests.broker.routing.made import all_of, is_likely, picks, table_of


def test_random_takes_each_about_as_often_and_the_same_for_the_same_seed() -> None:
    among = all_of(table_of(4))
    found = picks(Random(), among, 2000, rng=Rng(3))
    assert is_likely(Counter(found), {1: 1, 2: 1, 3: 1, 4: 1})
    assert picks(Random(), among, 2000, rng=Rng(3)) == found
