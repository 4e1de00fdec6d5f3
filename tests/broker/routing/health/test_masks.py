"""Masks: sets of slots, and who of the candidates is left."""

import pytest

from broker.routing.health.eligibility import eligible, reachable, staying
from broker.routing.health.masks import Masks
from tests.broker.routing.made import slots

ALL = list(range(10))


def masked(**by_name: list[int]) -> Masks:
    masks = Masks()
    for name, members in by_name.items():
        for member in members:
            masks.put(getattr(masks, name), member)
    return masks


def left(masks: Masks, percent: int = 50, among: list[int] = ALL) -> list[int] | str:
    """The slots that may get a unicast request, or the refusal."""
    found = eligible(slots(*among), masks, percent, "service=orders")
    return found.slots.to_list() if found.refusal is None else found.refusal.message


# The sets


@pytest.mark.parametrize("name", ["draining", "full", "unleased", "ejected", "unhealthy", "congested"])
def test_change_of_a_mask_is_a_generation(name: str) -> None:
    masks = Masks()
    masks.put(getattr(masks, name), 3)
    assert (masks.generation, masks.drains) == (2, 2 if name == "draining" else 1)
    masks.take(getattr(masks, name), 3)
    assert (masks.generation, masks.drains) == (3, 3 if name == "draining" else 1)


def test_what_is_so_already_makes_no_generation() -> None:
    """A route that sends the same LEASE again and again would make every address look at the masks each time."""
    masks = masked(draining=[3], full=[3])
    generation = masks.generation
    for _ in range(100):
        for mask in (masks.draining, masks.full):
            masks.put(mask, 3)
            masks.take(mask, 4)
        masks.take(masks.unleased, 3)
    assert (masks.generation, masks.drains) == (generation, 2)
    assert (masks.draining.to_list(), masks.full.to_list()) == ([3], [3])


def test_slot_of_nobody_is_behind_no_mask() -> None:
    masks = Masks()
    masks.put(masks.full, -1)
    masks.take(masks.full, -1)
    assert (masks.full.to_list(), masks.generation) == ([], 1)


def test_route_that_moves_stands_behind_the_same_masks() -> None:
    masks = masked(draining=[3], full=[4], congested=[3])
    masks.move(3, 9)
    assert [each.to_list() for each in (masks.draining, masks.full, masks.congested)] == [[9], [4], [9]]
    generation = masks.generation
    masks.move(9, 9)
    assert (masks.draining.to_list(), masks.generation) == ([9], generation)


def test_route_that_leaves_stands_behind_none() -> None:
    names = ["draining", "unleased", "ejected", "unhealthy", "remote", "elsewhere"]
    masks = masked(**{name: [3, 4] for name in names})
    masks.forget(3)
    assert [getattr(masks, name).to_list() for name in names] == [[4]] * len(names)


def test_route_behind_no_mask_that_comes_and_goes_makes_no_generation() -> None:
    """Or every route that leaves would cost every address a look at the masks."""
    masks = masked(draining=[3])
    generation = masks.generation
    masks.forget(4)
    masks.move(5, 6)
    assert (masks.generation, masks.drains) == (generation, 2)


# Who is left


def test_mask_that_touches_nobody_costs_no_new_set() -> None:
    among = slots(*ALL)
    masks = masked(draining=[50], ejected=[51], congested=[52])
    assert eligible(among, masks, 50, "").slots is among
    assert reachable(among, masks) is among
    assert staying(among, masks) is among


# Panic


@pytest.mark.parametrize("percent", [0, 100])
def test_without_panic_requests_are_refused_when_all_are_ejected_or_unhealthy(percent: int) -> None:
    """D-34: 0 is never, and more than all there can not be."""
    assert left(masked(ejected=ALL[:9]), percent) == [9]
    text = "unhealthy: 10 of 10 routes with service=orders are ejected or unhealthy"
    assert left(masked(ejected=ALL[:5], unhealthy=ALL[5:]), percent) == text
    text = "unhealthy: 9 of 10 routes with service=orders are ejected or unhealthy"
    assert left(masked(ejected=ALL[:9], full=[9]), percent) == f"{text}, the others draining, full or without a lease"


# Nobody is left


@pytest.mark.parametrize(
    "masks, text",
    [
        (masked(draining=ALL), "draining: of 10 routes with service=orders: 10 are draining"),
        (masked(unleased=ALL), "no-lease: of 10 routes with service=orders: 10 have no lease left"),
        (
            masked(full=ALL),
            "over-limit: of 10 routes with service=orders: 10 have as many requests in flight as they may",
        ),
        (
            masked(draining=ALL[:3], unleased=ALL[2:]),
            "no-lease: of 10 routes with service=orders: 7 have no lease left, 3 are draining",
        ),
        (
            masked(draining=ALL[:3], unleased=ALL[:4], full=ALL[:]),
            "over-limit: of 10 routes with service=orders: 6 have as many requests in flight as they may, "
            "1 have no lease left, 3 are draining",
        ),
        (masked(draining=ALL, ejected=ALL), "draining: of 10 routes with service=orders: 10 are draining"),
    ],
)
def test_refusal_says_behind_which_masks_all_are(masks: Masks, text: str) -> None:
    """D-34: the word is that of what passes the soonest."""
    assert left(masks) == text
