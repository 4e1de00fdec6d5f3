"""Rings of hashes: how few keys move, and which point a key belongs to."""

import pytest

from broker.routing.sharding import rings
from broker.routing.sharding.hashes import weight
from broker.routing.sharding.rings import Ring, points_of
from tests.broker.routing.sharding.owners import KEYS, moved, owners, uuids


@pytest.mark.parametrize("gone", [0, 3, 7])
def test_ring_moves_keys_of_the_changed_route_and_no_others(gone: int) -> None:
    """Its share is less even: at most a quarter more than 1/N."""
    routes = uuids(8)
    fewer = routes[:gone] + routes[gone + 1 :]
    leaving = moved(owners("ring", routes), owners("ring", fewer))
    assert {old for old, _ in leaving} == {routes[gone].id}
    assert len(leaving) <= len(KEYS) * 1.25 / 8
    joining = moved(owners("ring", fewer), owners("ring", routes))
    assert joining == [(new, old) for old, new in leaving]


@pytest.mark.parametrize("count", [128, 129, 200, 400])
def test_ring_of_many_routes_moves_little_more_though_all_have_fewer_points(count: int) -> None:
    """One after the other loses a point: as many keys again as go to the route that joins."""
    routes = uuids(count + 1)
    moves = moved(owners("ring", routes[:-1]), owners("ring", routes))
    assert len(moves) <= len(KEYS) * 3 / (count + 1)


def test_routes_share_the_points_of_a_ring() -> None:
    for count in (1, 2, 128):
        assert [points_of(each, count) for each in uuids(count)] == [rings.POINTS_PER_ROUTE] * count
    for count in (129, 1000, 10_000, rings.MAX_ROUTES):
        points = [points_of(each, count) for each in uuids(count)]
        part = rings.MAX_POINTS / count
        assert all(int(part) <= each <= int(part) + 1 for each in points)
        assert abs(sum(points) - rings.MAX_POINTS) <= rings.MAX_POINTS * 0.02


def test_key_belongs_to_the_next_point_and_behind_the_last_to_the_first() -> None:
    routes = uuids(3)
    ring = Ring(routes)
    points = sorted((weight(each, number), position) for position, each in enumerate(routes) for number in range(128))
    edges = [point + step for point, _ in points for step in (-1, 0, 1)]
    for key in [0, 2**31 - 1, *edges, *KEYS[:100]]:
        expected = next((position for point, position in points if point >= key), points[0][1])
        assert ring.position_of(key) == expected
