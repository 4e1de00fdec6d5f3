"""Timers ring once, in order, and those that are not needed do not pile up."""

from broker.forwarding.lease_grants import LeaseGrants
from broker.routing.health.masks import Masks
from rsocket_wire.timers import NEVER, Timed, Timers


def bells(count: int) -> list[Timed]:
    return [Timed() for _ in range(count)]


def test_what_is_due_rings_once_and_in_order() -> None:
    timers = Timers()
    first, second, third = bells(3)
    timers.put(2.0, second)
    timers.put(1.0, first)
    timers.put(3.0, third)
    assert timers.first() == 1.0
    assert [timers.take_due(2.0), timers.take_due(2.0), timers.take_due(2.0)] == [first, second, None]
    assert timers.first() == 3.0
    assert [timers.take_due(9.0), timers.take_due(9.0)] == [third, None]
    assert timers.first() == NEVER


def test_a_cancelled_timer_does_not_ring() -> None:
    timers = Timers()
    first, second = bells(2)
    timer = timers.put(1.0, first)
    timers.put(2.0, second)
    timer.cancel()
    timer.cancel()
    assert [timers.take_due(9.0), timers.take_due(9.0)] == [second, None]
    timer.cancel()
    assert timers.size() == 0


def test_cancelled_timers_are_swept_out_when_most_are() -> None:
    timers = Timers()
    (kept,) = bells(1)
    timers.put(1e9, kept)
    for number in range(100_000):
        timers.put(1000.0 + number, kept).cancel()
    assert timers.size() < 200
    assert timers.take_due(1e9) is kept


def test_a_connection_that_grants_again_and_again_has_one_timer() -> None:
    timers = Timers()
    granting = LeaseGrants(Masks(), timers, 0.0)
    for second in range(10_000):
        granting.granted(5, 1_000_000, float(second))
    assert timers.size() < 200
    granting.close()
    assert timers.take_due(1e9) is None
