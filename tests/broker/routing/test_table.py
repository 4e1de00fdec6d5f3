"""The routing table."""

import pytest

from broker.routing.table import Route, Table, normal_tag, with_default_tags
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import REGION, ROUTE_ID, SERVICE_NAME
from rsocket_wire.wire.tags import Tag
from tests.broker.routing.made import AT_MS, joined, numbers, route, route_id, table_of

TEXT = id_text(route_id(1))


def carriers(table: Table, key: str, value: str) -> list[int]:
    """Numbers of the routes that the index knows for a tag."""
    slots = table.index.find(Tag.of(key, value).token())
    return [] if slots is None else numbers([table.route_at(slot) for slot in slots.to_list()])


def test_route_that_joins_is_found_by_id_slot_and_tag() -> None:
    table = Table()
    made = route(1, region="eu")
    assert made.slot == -1
    assert table.join(made, AT_MS) is None
    assert table.find(route_id(1)) is made
    assert table.route_at(made.slot) is made
    assert carriers(table, "region", "eu") == [1]
    assert (made.slot, made.number, made.timestamp_ms, made.joined_at_ms) == (0, 1, AT_MS, AT_MS)
    assert (table.routes(), table.size()) == ([made], 1)


def test_route_that_leaves_leaves_nothing() -> None:
    table = Table()
    made = joined(table, 1, region="eu")
    assert table.leave(made)
    assert (table.find(route_id(1)), table.routes(), table.size(), table.index.size()) == (None, [], 0, 0)
    assert made.slot == -1
    assert not table.leave(made)


def test_same_route_id_replaces_and_the_old_tags_are_gone() -> None:
    """ "MUST close the existing route, and remove it from the table, and replace it" (D-09)."""
    table = table_of(2, region="eu")
    old = table.find(route_id(1))
    new = route(1, "billing", region="us")
    assert table.join(new, AT_MS + 5) is old
    assert table.find(route_id(1)) is new
    assert table.size() == 2
    assert carriers(table, "region", "eu") == [2]
    assert carriers(table, "region", "us") == [1]
    assert carriers(table, "service", "orders") == [2]
    assert carriers(table, "service", "billing") == [1]
    assert carriers(table, "route_id", TEXT) == [1]
    assert old is not None
    assert old.slot == -1


def test_route_that_never_joined_cannot_leave() -> None:
    table = table_of(1)
    assert not table.leave(route(2))
    assert not table.leave(route(1))
    assert table.size() == 1


def test_slots_of_routes_that_left_are_used_again() -> None:
    table = table_of(3)
    second = table.find(route_id(2))
    assert second is not None
    slot = second.slot
    table.leave(second)
    assert joined(table, 9).slot == slot
    assert joined(table, 10).slot == 3
    for _ in range(100):
        joined(table, 10)
    assert sorted(made.slot for made in table.routes()) == [0, 1, 2, 3]


def test_number_of_a_join_is_never_used_twice() -> None:
    table = table_of(2)
    assert [joined(table, 1).number, joined(table, 2).number, joined(table, 1).number] == [3, 4, 5]


def test_generation_grows_with_every_change_and_with_nothing_else() -> None:
    table = Table()
    seen = [table.generation]
    made = joined(table, 1)
    seen.append(table.generation)
    joined(table, 1)
    seen.append(table.generation)
    table.leave(made)
    table.find(route_id(1))
    table.routes()
    assert table.generation == seen[-1]
    last = table.find(route_id(1))
    assert last is not None
    table.leave(last)
    seen.append(table.generation)
    assert seen == sorted(set(seen))
    assert seen[0] > 0


def test_routes_stand_in_the_order_in_which_they_joined() -> None:
    table = table_of(3)
    joined(table, 1)
    assert numbers(table.routes()) == [2, 3, 1]


def test_service_name_that_is_no_tag_value_is_not_added() -> None:
    """D-06: a name may have 255 bytes, a value 127."""
    assert Tag(SERVICE_NAME, b"x" * 127) in route(1, "x" * 127).tags
    assert [tag.key for tag in route(1, "x" * 128).tags] == [ROUTE_ID]
    assert [tag.key for tag in route(1, "ü" * 64).tags] == [ROUTE_ID]


@pytest.mark.parametrize("text", [TEXT, f"Id{{{TEXT}}}", TEXT.upper(), TEXT.replace("-", "")])
def test_route_id_is_normalised(text: str) -> None:
    """D-18."""
    assert normal_tag(Tag.of(ROUTE_ID, text)) == Tag(ROUTE_ID, TEXT.encode())
    assert with_default_tags(route_id(1), "s", [Tag.of(ROUTE_ID, text)])[0] == Tag(ROUTE_ID, TEXT.encode())


@pytest.mark.parametrize("raw", [None, b"", b"mine", b"\xff\xfe", b"Id{}", TEXT.encode() + b" "])
def test_route_id_that_is_no_uuid_matches_itself(raw: bytes | None) -> None:
    assert normal_tag(Tag(ROUTE_ID, raw)) == Tag(ROUTE_ID, raw)


def test_other_keys_are_not_normalised() -> None:
    assert normal_tag(Tag.of("region", f"Id{{{TEXT}}}")) == Tag.of("region", f"Id{{{TEXT}}}")


def test_same_tag_twice_is_one_and_two_values_are_two() -> None:
    tags = [Tag.of(REGION, "eu"), Tag.of(REGION, "us"), Tag.of(REGION, "eu")]
    made = Route(route_id(1), "orders", tags, None)
    assert made.tags[:2] == [Tag(REGION, b"eu"), Tag(REGION, b"us")]
    assert len(made.tags) == 4
    table = Table()
    table.join(made, AT_MS)
    assert [carriers(table, "region", "eu"), carriers(table, "region", "us")] == [[1], [1]]
    table.leave(made)
    assert table.index.size() == 0


def test_null_and_empty_are_one_token_and_leave_together() -> None:
    """D-07."""
    table = Table()
    made = Route(route_id(1), "orders", [Tag(REGION, None), Tag(REGION, b"")], None)
    table.join(made, AT_MS)
    assert carriers(table, "region", "") == [1]
    table.leave(made)
    assert table.index.size() == 0
