"""Who is ejected, for how long, and how many at once (D-37)."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from broker.routing.health.loads import BAD, GOOD, NEITHER
from broker.routing.health.outliers import Outliers, ejections_left, most_ejected
from broker.routing.policies import Policies, Policy
from broker.routing.table import Route, Table
from rsocket_wire.timers import NEVER
from tests.broker.routing.made import AT_MS, joined, numbers, route

NOW = 100.0


def table_with(routes_n: int, policy: Policy | None = None) -> tuple[Table, Outliers]:
    """A table with the routes 1..routes_n of one service, and its judge."""
    table = Table(Policies(policy if policy is not None else Policy(), {}))
    for number in range(1, routes_n + 1):
        joined(table, number)
    return table, Outliers(table)


def end(found: Route, verdict: int, times: int = 1, caller: int = 1, now: float = NOW, origin: str = "") -> None:
    """So many of its requests end like this."""
    for _ in range(times):
        found.load.began(True, caller)
        found.load.ended(True, verdict, 1, now, caller, origin)


def fail(outliers: Outliers, found: Route, now: float = NOW) -> list[tuple[int, bool]]:
    """It fails five times in a row; who is judged, and whether that is ejected."""
    end(found, BAD, 5)
    return [(numbers([each.route])[0], each.is_ejected) for each in outliers.judge(now)]


def masked(table: Table) -> list[int]:
    """The routes that stand behind the mask, by number."""
    return numbers([table.route_at(slot) for slot in table.masks.ejected.to_list()])


def one_route(policy: Policy | None = None) -> tuple[Table, Outliers, Route]:
    """A table with one route, and its judge."""
    table, outliers = table_with(1, policy)
    return table, outliers, table.routes()[0]


class Ends(NamedTuple):
    """Requests that end alike, of each of these callers."""

    verdict: int
    times: int = 1
    callers: Sequence[int] = (1,)
    origin: str = ""


@pytest.mark.parametrize(
    ("before", "last"),
    [
        pytest.param([Ends(BAD, 4)], Ends(BAD), id="the fifth error in a row and not the fourth"),
        pytest.param(
            [Ends(BAD, 4), Ends(GOOD), Ends(BAD, 4), Ends(NEITHER, 3)],
            Ends(BAD),
            id="a success in between begins the count anew and a cancel does not",
        ),
        pytest.param(  # five requests that a caller pinned to a route threw it out for all
            [Ends(GOOD, 1, [2]), Ends(BAD, 50)],
            Ends(BAD, 1, [2]),
            id="errors of one caller are no reason while others are served well",
        ),
        pytest.param(
            [Ends(GOOD, 1, [2, 1, 1]), Ends(BAD, 50)],
            Ends(BAD, 1, [2]),
            id="who has served several well is not judged by one of them",
        ),
        pytest.param(
            [Ends(GOOD, 1, [3]), Ends(BAD, 2), Ends(BAD, 2, [2])],
            Ends(BAD),
            id="errors that two callers met count wherever in the row",
        ),
        *(
            pytest.param(  # one more socket made two callers of one; who was served well itself hides nobody
                [Ends(GOOD, 1, [3], other), Ends(GOOD, 1, [1, 2, 4], "10.0.0.4"), Ends(BAD, 5, [1, 2, 4], "10.0.0.4")],
                Ends(BAD, 1, [3], other),
                id=f"many connections of one origin are one caller while {other} is served well",
            )
            for other in ("10.0.0.4", "10.0.0.5")
        ),
        pytest.param(
            [
                Ends(GOOD, 1, [3], "10.0.0.5"),
                Ends(GOOD, 1, range(100, 300), "10.0.0.4"),
                Ends(BAD, 1, range(100, 300), "10.0.0.4"),
            ],
            Ends(BAD, 1, [3], "10.0.0.5"),
            id="one origin with any number of connections hides nobody elsewhere",
        ),
        pytest.param(
            [Ends(GOOD, 1, range(1, 9), "10.0.0.4"), Ends(BAD, 1, range(1, 8), "10.0.0.4")],
            Ends(BAD, 1, [8], "10.0.0.4"),
            id="errors that all connections of the only origin met",
        ),
        pytest.param(
            [Ends(GOOD, 1, [3], "CN=other"), Ends(BAD, 4, [1], "CN=one")],
            Ends(BAD, 1, [2], "CN=two"),
            id="errors of two origins",
        ),
    ],
)
def test_a_suspect_is_who_has_failed_for_all_who_ask(before: list[Ends], last: Ends) -> None:
    """Nobody is a suspect before the last end, and the route is one behind it."""
    table, _, found = one_route()
    suspects = []
    for ends in (*before, last):
        suspects.append(len(table.loads.suspects))
        for _ in range(ends.times):
            for caller in ends.callers:
                end(found, ends.verdict, 1, caller, NOW, ends.origin)
    assert suspects == [0] * len(suspects)
    assert table.loads.suspects == [found.load]


def test_who_was_served_well_is_remembered_for_as_long_as_an_ejection_takes() -> None:
    table, _, found = one_route()
    end(found, GOOD, caller=1, origin="a", now=NOW)
    end(found, GOOD, caller=3, origin="a", now=NOW + 29.0)
    end(found, GOOD, caller=1, origin="a", now=NOW + 31.0)
    end(found, BAD, 9, caller=1, origin="a", now=NOW + 58.9)
    assert table.loads.suspects == []
    end(found, BAD, caller=1, origin="a", now=NOW + 61.0)
    assert table.loads.suspects == [found.load]


def test_who_was_served_well_long_ago_does_not_count() -> None:
    table, outliers, found = one_route()
    end(found, GOOD, caller=2)
    end(found, BAD, 7, caller=1, now=NOW + 29.9)
    assert table.loads.suspects == []
    end(found, BAD, caller=1, now=NOW + 30.0)
    (judgement,) = outliers.judge(NOW + 30.0)
    assert judgement.detail.startswith("8 errors in a row; ejection 1")


def test_a_row_of_errors_makes_one_suspect() -> None:
    table, outliers = table_with(20, Policy(eject_max_percent=5))
    first, second = table.routes()[:2]
    fail(outliers, first)
    end(second, BAD, 4, caller=1)
    end(second, BAD, 5, caller=2)
    assert table.loads.suspects == [second.load]
    assert (outliers.judge(NOW), outliers.spared, second.load.errors_n) == ([], 1, 0)


def test_a_judgement_says_the_numbers_and_empties_the_list() -> None:
    table, outliers = table_with(20)
    found = table.routes()[6]
    end(found, BAD, 5)
    (judgement,) = outliers.judge(NOW)
    text = "5 errors in a row; ejection 1, for 30 s; 1 of 20 routes of orders are ejected"
    assert (judgement.route, judgement.is_ejected, judgement.detail) == (found, True, text)
    assert (table.loads.suspects, masked(table), found.load.ejected_until, found.load.errors_n) == ([], [7], 130.0, 0)
    (judgement,) = outliers.relieve(130.0)
    text = "ejection 1 is over; 0 of 20 routes of orders are ejected"
    assert (judgement.route, judgement.is_ejected, judgement.detail) == (found, False, text)
    assert (masked(table), found.load.ejected_until, found.load.service.ejected_n) == ([], 0.0, 0)
    assert (outliers.ejected, outliers.relieved, outliers.spared) == (1, 1, 0)


@pytest.mark.parametrize(
    ("routes_n", "percent", "most"),
    [(1, 10, 1), (9, 10, 1), (10, 10, 1), (19, 10, 1), (20, 10, 2), (29, 10, 2), (30, 10, 3), (3, 100, 3), (9, 0, 0)],
)
def test_at_most_so_many_of_a_hundred_but_one_always_may_be(routes_n: int, percent: int, most: int) -> None:
    table, outliers = table_with(routes_n, Policy(eject_max_percent=percent))
    assert most_ejected(Policy(eject_max_percent=percent), routes_n) == most
    for found in table.routes():
        fail(outliers, found)
    assert masked(table) == list(range(1, most + 1))
    assert (outliers.ejected, outliers.spared) == (most, routes_n - most)


def test_each_service_has_a_share_of_its_own() -> None:
    table, outliers = table_with(3)
    bill = joined(table, 9, "billing")
    assert fail(outliers, table.routes()[0]) == [(1, True)]
    assert fail(outliers, table.routes()[1]) == []
    assert fail(outliers, bill) == [(9, True)]


def test_who_is_spared_is_judged_again_after_five_more() -> None:
    table, outliers = table_with(2)
    first, second = table.routes()
    fail(outliers, first)
    assert fail(outliers, second) == []
    table.leave(first)
    end(second, BAD, 4)
    assert (outliers.judge(NOW), outliers.spared) == ([], 1)
    end(second, BAD)
    assert [each.route for each in outliers.judge(NOW)] == [second]


def test_who_is_ejected_already_is_not_judged_twice() -> None:
    """It is still used when nobody else is there; and one receive may bring ten errors."""
    table, outliers, found = one_route()
    end(found, BAD, 5)
    end(found, GOOD)
    end(found, BAD, 5)
    assert len(table.loads.suspects) == 2
    assert [each.is_ejected for each in outliers.judge(NOW)] == [True]
    assert fail(outliers, found, 110.0) == []
    assert (found.load.ejected_until, outliers.ejected, outliers.spared) == (130.0, 1, 0)


def test_the_time_grows_with_each_ejection_up_to_the_longest() -> None:
    _, outliers, found = one_route()
    now = NOW
    spans: list[float] = []
    for _ in range(12):
        fail(outliers, found, now)
        spans.append(found.load.ejected_until - now)
        now = found.load.ejected_until
        assert [each.is_ejected for each in outliers.relieve(now)] == [False]
    assert spans == [30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300]
    assert found.load.ejections_n == 10  # and no more, or good times would not count for a long while


def test_the_longest_time_is_never_below_the_first() -> None:
    _, outliers, found = one_route(Policy(eject_s=30.0, eject_max_s=20.0))
    fail(outliers, found)
    outliers.relieve(130.0)
    fail(outliers, found, 130.0)
    assert (found.load.ejected_until, found.load.ejections_n) == (160.0, 1)


@pytest.mark.parametrize(
    ("healthy_s", "left"), [(0.0, 3), (29.5, 3), (30.0, 2), (60.0, 1), (89.5, 1), (90.0, 0), (1e6, 0)]
)
def test_each_good_while_takes_one_ejection_back(healthy_s: float, left: int) -> None:
    _, outliers, found = one_route()
    now = NOW
    for _ in range(3):
        fail(outliers, found, now)
        assert ejections_left(found.load, now + 29.0) == found.load.ejections_n  # ejected is not healthy
        now = found.load.ejected_until
        outliers.relieve(now)
    now += healthy_s
    assert ejections_left(found.load, now) == left
    fail(outliers, found, now)
    assert (found.load.ejections_n, found.load.ejected_until) == (left + 1, now + 30.0 * (left + 1))


def test_errors_of_the_time_of_ejection_do_not_count_afterwards() -> None:
    table, outliers, found = one_route()
    fail(outliers, found)
    end(found, BAD, 4)
    outliers.relieve(130.0)
    end(found, BAD, 4)
    assert table.loads.suspects == []


@pytest.mark.parametrize(
    "policy",
    [Policy(eject_after_errors=0), Policy(eject_max_percent=0), Policy(eject_s=0.0)],
    ids=["after", "most", "s"],
)
def test_it_can_be_switched_off(policy: Policy) -> None:
    table, outliers, found = one_route(policy)
    end(found, BAD, 50)
    assert (outliers.judge(NOW), masked(table), outliers.next_at()) == ([], [], NEVER)


def test_relief_is_in_the_order_of_the_ends() -> None:
    table, outliers = table_with(30)
    first, second, third = table.routes()[:3]
    fail(outliers, second, 100.0)
    fail(outliers, first, 105.0)
    fail(outliers, third, 110.0)
    assert outliers.next_at() == 130.0
    assert outliers.relieve(129.5) == []
    assert [each.route for each in outliers.relieve(135.0)] == [second, first]
    assert (masked(table), outliers.next_at()) == ([3], 140.0)
    assert [each.route for each in outliers.relieve(140.0)] == [third]
    assert outliers.next_at() == NEVER


def test_a_route_that_leaves_while_ejected_is_forgotten() -> None:
    table, outliers = table_with(2)
    first, second = table.routes()
    service = first.load.service
    fail(outliers, first)
    table.leave(first)
    assert (service.ejected_n, masked(table)) == (0, [])
    again = joined(table, 1)  # in the same slot
    assert (again.slot, masked(table)) == (0, [])
    assert fail(outliers, second) == [(2, True)]
    assert [each.route for each in outliers.relieve(130.0)] == [second]
    assert (service.ejected_n, masked(table)) == (0, [])


def test_a_suspect_that_has_left_before_the_judgement_is_let_go() -> None:
    table, outliers, found = one_route()
    end(found, BAD, 5)
    table.leave(found)
    assert (outliers.judge(NOW), outliers.ejected, outliers.spared, table.loads.suspects) == ([], 0, 0, [])


def test_changed_tags_keep_the_ejection() -> None:
    table, outliers = table_with(2)
    first = table.routes()[0]
    fail(outliers, first)
    changed = route(1, region="eu")
    table.join(changed, AT_MS + 1, NOW, first.load)
    assert (masked(table), changed.load.ejected_until, changed.load.service.ejected_n) == ([1], 130.0, 1)
    assert [each.route for each in outliers.relieve(130.0)] == [changed]
    assert masked(table) == []


def test_ends_of_ejections_of_routes_that_left_are_swept_out() -> None:
    table, outliers = table_with(1)
    for number in range(2, 1000):
        found = joined(table, number)
        fail(outliers, found)
        table.leave(found)
    assert outliers.waiting() <= 65
    stays = table.routes()[0]
    fail(outliers, stays)
    assert [each.route for each in outliers.relieve(130.0)] == [stays]
    assert outliers.waiting() == 0


def test_a_sweep_does_not_make_anybody_late() -> None:
    spans = {number: float(number * 37 % 101 + 1) for number in range(1, 200)}
    table = Table(Policies(Policy(), {f"s{number}": Policy(eject_s=span_s) for number, span_s in spans.items()}))
    outliers = Outliers(table)
    for number in spans:
        found = joined(table, number, f"s{number}")
        fail(outliers, found)
        if number % 3:
            table.leave(found)
    assert outliers.waiting() < len(spans)
    for moment in range(1, 103):
        due = sorted(number for number in spans if not number % 3 and spans[number] == moment)
        assert sorted(numbers([each.route for each in outliers.relieve(NOW + moment)])) == due
