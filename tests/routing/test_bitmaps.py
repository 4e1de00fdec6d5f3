"""Sets of slots."""

from pyroaring import BitMap

from broker.routing.bitmaps import Slots


def slots(*members: int) -> Slots:
    made = Slots()
    for member in members:
        made.add(member)
    return made


def test_slots_are_ascending_and_once() -> None:
    made = slots(7, 0, 0xFFFFFFFF, 7, 70_000)
    assert made.to_list() == [0, 7, 70_000, 0xFFFFFFFF]
    assert made.size() == 4
    assert [made.slot_at(position) for position in range(4)] == made.to_list()


def test_slot_leaves_once_and_absent_ones_do_not_matter() -> None:
    made = slots(1, 2)
    made.discard(1)
    made.discard(1)
    made.discard(9)
    assert made.to_list() == [2]


def test_meet_and_join_make_new_sets() -> None:
    one, other = slots(1, 2, 3), slots(2, 3, 4)
    assert one.meet(other).to_list() == [2, 3]
    assert one.join(other).to_list() == [1, 2, 3, 4]
    assert one.meet(slots()).size() == 0
    assert (one.to_list(), other.to_list()) == ([1, 2, 3], [2, 3, 4])


def test_slots_of_a_bitmap_and_of_nothing() -> None:
    assert Slots(BitMap([3, 1])).to_list() == [1, 3]
    assert Slots().to_list() == []
    assert Slots().bits is not Slots().bits
