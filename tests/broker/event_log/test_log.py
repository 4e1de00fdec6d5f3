"""The event log: numbers, the wall clock."""

from broker.event_log.log import EventLog
from broker.events import PEER_CONNECTED, ROUTE_SEEN, LifecycleEvent
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


def test_events_are_numbered_in_order_and_taken_once() -> None:
    log = new_log()
    for peer in ("a", "b"):
        log.tell(PEER_CONNECTED, START_MS, peer=peer)
    assert (log.waiting_n, log.next_seq) == (2, 4)
    assert [(event.seq, event.peer) for event in taken(log)] == [(2, "a"), (3, "b")]
    assert (log.waiting_n, log.take()) == (0, [])


def test_reserved_numbers_are_used_later_and_nobody_elses() -> None:
    log = new_log()
    first = log.reserve(2)
    log.tell(PEER_CONNECTED, START_MS)
    log.add(LifecycleEvent(ROUTE_SEEN, first, START_MS))
    log.add(LifecycleEvent(ROUTE_SEEN, first + 1, START_MS, choices=7))
    assert [(event.kind, event.seq, event.choices) for event in taken(log)] == [
        (PEER_CONNECTED, 4, 0),
        (ROUTE_SEEN, 2, 0),
        (ROUTE_SEEN, 3, 7),
    ]
