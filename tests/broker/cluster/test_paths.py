"""Ways through a cluster."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.paths import MAX_COST, Paths

A, B, C, D, E = (name * 16 for name in (b"A", b"B", b"C", b"D", b"E"))
Graph = dict[bytes, dict[bytes, int]]


def graph(*edges: tuple[bytes, bytes, int]) -> Graph:
    """Who says what when both ends of each edge say the same."""
    said: Graph = {}
    for one, other, cost in edges:
        said.setdefault(one, {})[other] = cost
        said.setdefault(other, {})[one] = cost
    return said


def paths(own_id: bytes, said: Graph) -> Paths:
    made = Paths(own_id)
    for id, neighbours in said.items():
        made.set_neighbours(id, neighbours)
    return made


def shown(made: Paths) -> dict[bytes, tuple[bytes, int, int]]:
    return {id: (way.next_hop, way.hops_n, way.cost) for id, way in made.ways().items()}


def ways(own_id: bytes, said: Graph) -> dict[bytes, tuple[bytes, int, int]]:
    return shown(paths(own_id, said))


LINE = graph((A, B, 10), (B, C, 10), (C, D, 10), (D, E, 10))
RING = graph((A, B, 10), (B, C, 10), (C, D, 10), (D, A, 10))


def test_a_broken_link_is_gone_around_and_a_bridge_parts_the_cluster() -> None:
    ring = paths(A, RING)
    ring.set_neighbours(B, {C: 10})
    assert shown(ring) == {B: (D, 3, 30), C: (D, 2, 20), D: (D, 1, 10)}
    line = paths(A, LINE)
    line.set_neighbours(C, {D: 10})
    assert shown(line) == {B: (B, 1, 10)}
    line.set_neighbours(C, LINE[C])
    assert shown(line) == ways(A, LINE)


def test_a_link_counts_when_both_ends_name_each_other_and_the_larger_cost_is_taken() -> None:
    assert ways(A, {A: {B: 10}, B: {}}) == {}
    assert ways(A, {A: {B: 10}}) == {}
    assert ways(A, {A: {}, B: {A: 10}}) == {}
    assert ways(A, {A: {B: 10}, B: {A: 30}}) == ways(A, {A: {B: 30}, B: {A: 10}}) == {B: (B, 1, 30)}


def test_of_equally_cheap_ways_fewer_links_win_and_then_the_smaller_id_of_the_next_hop() -> None:
    """D-48"""
    assert ways(A, graph((A, D, 30), (A, B, 10), (B, C, 10), (C, D, 10)))[D] == (D, 1, 30)
    assert ways(A, graph((A, C, 10), (A, B, 10), (B, D, 10), (C, D, 10)))[D] == (B, 2, 20)
    assert ways(A, graph((A, C, 5), (A, B, 10), (B, E, 10), (C, E, 15)))[E] == (B, 2, 20)


def test_costs_beyond_what_a_link_can_cost_count_as_the_nearest_that_can() -> None:
    said = graph((A, B, 0), (B, C, -5), (C, D, MAX_COST + 1))
    assert ways(A, said) == {B: (B, 1, 1), C: (B, 2, 2), D: (B, 3, 2 + MAX_COST)}


def test_a_forgotten_broker_leads_nowhere() -> None:
    line = paths(A, LINE)
    line.forget(B)
    assert shown(line) == {}
    line.forget(B)
    line.set_neighbours(B, LINE[B])
    assert shown(line) == ways(A, LINE)


def test_ways_are_computed_again_only_when_something_else_was_said() -> None:
    line = paths(A, LINE)
    before = line.ways()
    line.set_neighbours(B, dict(LINE[B]))
    line.forget(b"nobody")
    assert line.ways() is before
    line.set_neighbours(B, {A: 20, C: 10})
    assert line.ways() is not before


NAMES = [bytes([number]) * 16 for number in range(8)]
# Few different costs, so that there are many ties; each end says its own, or nothing.
SAID = st.fixed_dictionaries({}, optional={
    name: st.dictionaries(st.sampled_from(NAMES), st.sampled_from([1, 1, 2, 3, 65_535]), max_size=5) for name in NAMES
})  # fmt: skip


def cheapest(said: Graph) -> dict[tuple[bytes, bytes], int]:
    """Floyd and Warshall's algorithm: the model."""
    far = 1 << 40
    cost = {(one, other): far if one != other else 0 for one in NAMES for other in NAMES}
    for one, neighbours in said.items():
        for other, there in neighbours.items():
            if one != other and one in said.get(other, {}):
                cost[one, other] = max(there, said[other][one])
    for by in NAMES:
        for one in NAMES:
            for other in NAMES:
                cost[one, other] = min(cost[one, other], cost[one, by] + cost[by, other])
    return {pair: sum_ for pair, sum_ in cost.items() if sum_ < far and pair[0] != pair[1]}


@given(SAID)
def test_next_hops_of_all_brokers_lead_to_each_target_nearer_with_each_hop(said: Graph) -> None:
    """D-48: nobody circles; and what a broker says of the way (cost, links) is what it takes, whoever decides on it."""
    known = {name: paths(name, said).ways() for name in NAMES}
    found = {(one, other): way.cost for one, each in known.items() for other, way in each.items()}
    assert found == cheapest(said)
    for (one, target), _ in found.items():
        at, way = one, known[one][target]
        for hop in range(way.hops_n):
            step = known[at][target]
            assert step.hops_n == way.hops_n - hop
            next_cost = known[step.next_hop][target].cost if step.next_hop != target else 0
            assert next_cost < step.cost
            at = step.next_hop
        assert at == target


@given(SAID, st.randoms(use_true_random=False))
def test_ways_do_not_depend_on_the_order_of_what_was_said(said: Graph, chance: Random) -> None:
    order = list(said.items())
    chance.shuffle(order)
    for name in NAMES:
        assert shown(paths(name, dict(order))) == shown(paths(name, said))
