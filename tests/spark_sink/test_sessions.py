from datetime import UTC, datetime, timedelta
from typing import Any

from broker.events import BROKER_STARTED, BROKER_STOPPED, PEER_CLOSED, ROUTE_JOINED, ROUTE_LEFT, ROUTE_REPLACED
from spark_sink.sessions import Session, sessions_of

START = datetime(2026, 11, 20, 12, tzinfo=UTC)


def event(seq: int, kind: int, route: str = "", uptime_s: int = 0, epoch: int = 1, broker: str = "b") -> dict[str, Any]:
    """It happens `seq` seconds after the start."""
    return {
        "broker_id": broker,
        "epoch": epoch,
        "seq": seq,
        "at": START + timedelta(seconds=seq),
        "kind": kind,
        "route_id": route,
        "service": "orders" if route else "",
        "uptime_ms": uptime_s * 1000,
        "requests": uptime_s * 10,
        "reason": "keepalive-timeout" if kind == ROUTE_LEFT else "",
    }


def shown(session: Session) -> tuple[str, datetime | None, float, int | None, str]:
    return session.route_id, session.joined_at, session.uptime_ms / 1000, session.requests, session.end


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def test_route_that_left_has_the_uptime_requests_and_reason_of_its_end() -> None:
    [session] = sessions_of([event(5, ROUTE_LEFT, "r", uptime_s=4), event(1, ROUTE_JOINED, "r")])
    assert shown(session) == ("r", at(1), 4.0, 40, "left")
    assert session.reason == "keepalive-timeout"


def test_end_without_a_recorded_beginning_is_a_session_too() -> None:
    assert [shown(one) for one in sessions_of([event(5, ROUTE_LEFT, "r", uptime_s=99)])] == [
        ("r", None, 99.0, 990, "left")
    ]


def test_replaced_route_ends_one_session_and_begins_another() -> None:
    events = [event(1, ROUTE_JOINED, "r"), event(3, ROUTE_REPLACED, "r", uptime_s=2), event(4, ROUTE_JOINED, "r")]
    assert [shown(one) for one in sessions_of([*events, event(9, PEER_CLOSED)])] == [
        ("r", at(1), 2.0, 20, "replaced"),
        ("r", at(4), 5.0, None, "still there"),
    ]


def test_stopped_broker_ends_the_sessions_of_its_run() -> None:
    events = [event(1, ROUTE_JOINED, "r"), event(7, BROKER_STOPPED), event(60, ROUTE_JOINED, "x", broker="other")]
    assert [shown(one) for one in sessions_of(events)] == [
        ("r", at(1), 6.0, None, "broker ended"),
        ("x", at(60), 0.0, None, "still there"),
    ]


def test_later_epoch_ends_the_sessions_of_a_broker_that_crashed_at_its_last_event() -> None:
    crashed = [event(1, ROUTE_JOINED, "r"), event(4, PEER_CLOSED)]
    again = [event(50, BROKER_STARTED, epoch=2), event(51, ROUTE_JOINED, "r", epoch=2)]
    assert [shown(one) for one in sessions_of(crashed + again)] == [
        ("r", at(1), 3.0, None, "broker ended"),
        ("r", at(51), 0.0, None, "still there"),
    ]


def test_no_events_no_sessions() -> None:
    assert sessions_of([]) == []
