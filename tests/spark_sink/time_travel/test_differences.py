from pathlib import Path

from spark_sink.time_travel import Difference, diff, table_at
from spark_sink.timestamps import moment_at
from tests.spark_sink.time_travel.histories import History, write_segments

A, B, C, D, E = (f"00000000-0000-0000-0000-00000000000{digit}" for digit in "abcde")


def test_joined_left_replaced_and_changed_routes_are_told_apart(tmp_path: Path) -> None:
    history = History()
    for route_id in (A, B, C, D):
        history.join(route_id, "orders", [("zone", "a"), ("x", "1")], "tcp 10.0.0.4:1")
    before_ms = history.at_ms
    history.at_ms += 5000
    history.leave(A)
    history.replace(B, "tcp 10.0.0.4:2")
    history.change(C, [("zone", "b")])
    history.change(D, [("x", "1"), ("zone", "a")])  # the same in another order, but it joined again
    history.join(E, "stock", [], "unix")
    write_segments(tmp_path, history)
    before, after = (table_at(tmp_path, moment_at(at_ms * 1000)) for at_ms in (before_ms, history.at_ms))
    found = diff(before, after)
    assert [[route.route_id for route in routes] for routes in (found.joined, found.left)] == [[E], [A]]
    assert [[change.before.route_id for change in each] for each in (found.replaced, found.changed)] == [[B, D], [C]]
    assert found.changed[0].after.tags == {"zone": "b"}
    back = diff(after, before)
    assert (back.joined, back.left) == (found.left, found.joined)


def test_the_same_stay_seen_in_snapshots_is_no_difference(tmp_path: Path) -> None:
    history = History()
    history.join(A, "orders", [("zone", "a")], "unix")
    tables = []
    for _ in range(3):
        history.at_ms += 60_000
        history.snapshot()
    write_segments(tmp_path, history)
    tables = [table_at(tmp_path, moment_at((history.at_ms - back_ms) * 1000)) for back_ms in (175_000, 60_000, 0)]
    assert [diff(tables[0], table) for table in tables] == [Difference([], [], [], [])] * 3
    assert diff(tables[0], tables[1]).is_empty
