"""Sets of slots."""

from broker.routing.bitmaps import MAX_LISTED, ListedSets, Slots
from tests.broker.routing.made import slots


def test_slots_are_ascending_and_once() -> None:
    made = slots(7, 0, 0xFFFFFFFF, 7, 70_000)
    assert made.to_list() == [0, 7, 70_000, 0xFFFFFFFF]
    assert made.size() == 4
    assert [made.slot_at(position) for position in range(4)] == made.to_list()


def test_sets_that_share_a_slot_meet_and_equal_ones_are_equal() -> None:
    one, other, third = slots(1, 2), slots(2, 3), slots(3, 4)
    assert (one.meets(other), one.meets(third), one.meets(Slots())) == (True, False, False)
    assert (one.equals(slots(2, 1)), one.equals(other), one.equals(slots(1))) == (True, False, False)


def test_equal_sets_have_one_key_however_they_came_about() -> None:
    """Also when a bitmap has been so full on the way that it kept its slots otherwise."""
    few, many = slots(*range(0, 9000, 3)), slots(*range(70_000, -1, -1))
    again = slots(*range(20_000))
    for slot in range(3, 20_000):
        again.discard(slot)
    found = [few.meet(many), many.meet(few), few.join(few), few.without(slots(1)), many.without(many.without(few))]
    assert {each.key() for each in found} == {few.key()}
    assert again.key() == slots(2, 1, 0).key()
    assert len({each.key() for each in (few, many, slots(), slots(0), slots(1), slots(0, 1), slots(65_536))}) == 7
    assert len(many.key()) < 17_000


def test_list_of_slots_ends_with_a_change() -> None:
    made = slots(3, 5, 70_000)
    made.list_all()
    assert made.is_listed()
    assert [made.slot_at(position) for position in range(3)] == [3, 5, 70_000]
    made.add(4)
    assert not made.is_listed()
    assert [made.slot_at(position) for position in range(4)] == [3, 4, 5, 70_000]
    made.list_all()
    made.discard(3)
    assert not made.is_listed()
    assert made.slot_at(0) == 4


def test_listed_sets_are_bounded_and_the_one_listed_first_gives_way() -> None:
    listed = ListedSets()
    sets = [slots(number) for number in range(MAX_LISTED + 1)]
    for each in sets[:-1]:
        listed.enlist(each)
    assert all(each.is_listed() for each in sets[:-1])
    listed.enlist(sets[-1])
    assert [each.is_listed() for each in sets] == [False] + [True] * MAX_LISTED
