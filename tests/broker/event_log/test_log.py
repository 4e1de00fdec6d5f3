"""The event log: numbers, the wall clock."""

from broker.event_log.log import EventLog
from broker.events import LifecycleEvent
from tests.fakes import START_MS, World


def new_log() -> EventLog:
    """A log whose next number is 2: its World has told that it started."""
    core = World().core
    return EventLog(100.0, START_MS, core.query, core.engine.request_log)


def taken(log: EventLog) -> list[LifecycleEvent]:
    return [event for event in log.take() if isinstance(event, LifecycleEvent)]


def test_the_wall_clock_goes_on_from_where_it_was_set() -> None:
    log = new_log()
    assert [log.wall(now) for now in (100.0, 101.5, 99.0)] == [START_MS, START_MS + 1500, START_MS - 1000]
    log.set_clock(110.0, START_MS)  # it was put back
    assert log.wall(110.25) == START_MS + 250
