"""The tag index."""

from broker.routing.index import TagIndex


def members(index: TagIndex, token: bytes) -> list[int] | None:
    slots = index.find(token)
    return None if slots is None else slots.to_list()


def test_tags_lead_to_the_slots_that_carry_them() -> None:
    index = TagIndex()
    index.add(3, [b"a", b"b"])
    index.add(1, [b"a"])
    assert [members(index, token) for token in (b"a", b"b", b"c")] == [[1, 3], [3], None]
    assert index.size() == 2


def test_tag_that_nobody_carries_any_more_has_no_entry() -> None:
    index = TagIndex()
    index.add(3, [b"a", b"b"])
    index.add(1, [b"a"])
    index.remove(3, [b"a", b"b"])
    assert [members(index, token) for token in (b"a", b"b")] == [[1], None]
    index.remove(1, [b"a"])
    assert (members(index, b"a"), index.size()) == (None, 0)


def test_remove_of_what_was_never_added_changes_nothing() -> None:
    index = TagIndex()
    index.add(1, [b"a"])
    index.remove(2, [b"a", b"b"])
    assert members(index, b"a") == [1]
