"""broker.log: which line an event makes, and what a line looks like."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from broker import events, log
from broker.events import LifecycleEvent

ROUTE = "11223344-5566-7788-99aa-bbccddeeff00"
PEER = "tcp 10.0.0.4:5123"


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """Where the log goes; afterwards the process's logging is as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in log.OUR_LOGGERS:
        logging.getLogger(name).setLevel(logging.NOTSET)


def record(text: str, level: int = logging.INFO) -> logging.LogRecord:
    made = logging.LogRecord("broker", level, __file__, 1, "%s", (text,), None)
    made.created = 1_772_353_800.125
    return made


def told(kind: int, **fields: Any) -> LifecycleEvent:
    return LifecycleEvent(kind, 1, 0, **fields)


def of_peer(kind: int, **fields: Any) -> LifecycleEvent:
    return told(kind, peer=PEER, **fields)


def of_route(kind: int, **fields: Any) -> LifecycleEvent:
    return told(kind, route_id=ROUTE, service="orders", **fields)


def of_service(kind: int, detail: str = "") -> LifecycleEvent:
    return told(kind, service="orders", detail=detail)


EU_A = [("region", "eu"), ("zone", "a")]
DIGEST = [("digest", "0f"), ("routes", "2")]
FULL = "over-limit"
UNSAID = "region: the value has 200 bytes"
LINES = {
    f"peer {PEER}: connected": of_peer(events.PEER_CONNECTED),
    f"peer {PEER}: closed after 0.1 s: slow-peer: 9 bytes": of_peer(
        events.PEER_CLOSED, reason="slow-peer", detail="slow-peer: 9 bytes", uptime_ms=100
    ),
    f"peer {PEER}: suspended after 0.1 s: left: reset": of_peer(
        events.PEER_SUSPENDED, reason="left", detail="reset", uptime_ms=100
    ),
    f"peer {PEER}: resumed: 2 frames are sent again": of_peer(
        events.PEER_RESUMED, detail="2 frames are sent again", uptime_ms=100
    ),
    f"peer {PEER}: annotations of 4 requests refused: loop: a>b>a": of_peer(
        events.ANNOTATIONS_REFUSED, reason="loop", detail="a>b>a", requests=4
    ),
    f"peer {PEER}: ended: slow-peer: 9 bytes wait": of_peer(
        events.SLOW_PEER_ENDED, reason="slow-peer", detail="9 bytes wait"
    ),
    f"link {PEER}: up: eu-2": of_peer(events.LINK_UP, detail="eu-2"),
    f"link {PEER}: down after 3.0 s: left: eu-2: reset": of_peer(
        events.LINK_DOWN, reason="left", detail="eu-2: reset", uptime_ms=3_000
    ),
    f"link {PEER}: the route tables differ: eu-2: 12 there": of_peer(events.DIGEST_MISMATCH, detail="eu-2: 12 there"),
    f"link {PEER}: requests dropped: {FULL}: eu-2: 3 found no room": of_peer(
        events.REQUESTS_DROPPED, reason=FULL, detail="eu-2: 3 found no room"
    ),
    f"route {ROUTE} (orders): joined from {PEER}, region=eu zone=a": of_route(
        events.ROUTE_JOINED, tags=EU_A, peer=PEER
    ),
    f"route {ROUTE} (orders): left after 2.0 s and 7 requests: left": of_route(
        events.ROUTE_LEFT, reason="left", uptime_ms=2_000, requests=7
    ),
    f"route {ROUTE} (orders): replaced from {PEER}": of_route(events.ROUTE_REPLACED, peer=PEER),
    f"route {ROUTE} (orders): its tags were changed by its peer {PEER}": of_route(
        events.ROUTE_REPLACED, reason="changed", peer=PEER
    ),
    f"route {ROUTE} (orders): ejected: 5 in a row": of_route(
        events.ROUTE_EJECTED, reason="errors", detail="5 in a row"
    ),
    f"route {ROUTE} (orders): gets requests again: 30 s": of_route(events.ROUTE_RELIEVED, detail="30 s"),
    f"route {ROUTE} (orders): learned from broker 7, region=eu zone=a": of_route(
        events.ROUTE_ADDED, tags=EU_A, peer="broker 7"
    ),
    f"route {ROUTE} (orders): removed, was learned from broker 7: left": of_route(
        events.ROUTE_REMOVED, peer="broker 7", reason="left"
    ),
    f"route {ROUTE} (orders): cannot be announced to other brokers: {UNSAID}": of_route(
        events.ROUTE_UNSAID, peer=PEER, detail=UNSAID
    ),
    f"route {ROUTE} (orders): in slot 3 after 1.5 s, {PEER}": of_route(
        events.ROUTE_SEEN, peer=PEER, detail="3", uptime_ms=1_500
    ),
    "service orders: requests are refused: 9 are in flight": of_service(events.BREAKER_OPENED, "9 are in flight"),
    "service orders: requests are accepted again: 3 were refused": of_service(events.BREAKER_CLOSED, "3 were refused"),
    "service orders: redirected: requests go to green": of_service(events.REDIRECT_SET, "requests go to green"),
    "service orders: no longer redirected": of_service(events.REDIRECT_REMOVED),
    f"service orders: requests dropped: {FULL}: 3 found no room": told(
        events.REQUESTS_DROPPED, service="orders", reason=FULL, detail="3 found no room"
    ),
    "drain of tag region=eu: 2 stay open": told(events.DRAIN_STARTED, reason="tag", detail="region=eu: 2 stay open"),
    "drain of broker: in service again": told(events.DRAIN_ENDED, reason="broker", detail="in service again"),
    "cluster: a broker is reachable: eu-3 (7)": told(events.BROKER_JOINED, detail="eu-3 (7)"),
    "cluster: a broker is unreachable: eu-3 (7)": told(events.BROKER_LEFT, detail="eu-3 (7)"),
    "table: digest=0f routes=2": told(events.TABLE_DIGEST, tags=DIGEST),
    "broker: files reloaded: tls.key": told(events.FILES_RELOADED, detail="tls.key"),
    "credentials revoked: jwt:a, issued before 2026-03-01T08:30:00.125Z": told(
        events.REVOCATION_SET, detail="jwt:a", tags=[("issued_before", "1772353800125")]
    ),
    "credentials revoked: jwt:b, issued before 18446744073709551615 ms": told(
        events.REVOCATION_SET, detail="jwt:b", tags=[("issued_before", str(2**64 - 1))]
    ),
    "admin 10.0.0.4: PUT /api/v1/drains/broker, asked by token:ci": told(
        events.CHANGED, peer="admin 10.0.0.4", detail="PUT /api/v1/drains/broker, asked by token:ci"
    ),
    "load: cpu_permille=250 in_flight=3": told(events.BROKER_LOAD, tags=[("cpu_permille", "250"), ("in_flight", "3")]),
    "broker: events dropped: 12 records": told(events.EVENTS_DROPPED, detail="12 records"),
}


@pytest.mark.parametrize(("line", "event"), LINES.items())
def test_each_kind_of_event_has_its_line_with_the_subject_first(line: str, event: LifecycleEvent) -> None:
    assert log.event_line(event) == line


def test_every_kind_of_event_but_those_of_the_broker_itself_has_a_line_of_its_own() -> None:
    """What a new kind would get is the line of dropped events."""
    dropped = [
        kind for kind in events.KIND_NAMES if log.event_line(LifecycleEvent(kind, 1, 0)) == "broker: events dropped"
    ]
    assert dropped == [events.BROKER_STARTED, events.BROKER_STOPPED, events.EVENTS_DROPPED, events.BROKER_DIED]


def test_a_line_shows_eight_tags_and_counts_the_others() -> None:
    event = LifecycleEvent(events.ROUTE_JOINED, 1, 0, ROUTE, "orders", [(f"k{n}", "v") for n in range(10)], PEER)
    assert log.event_line(event).endswith(", k0=v k1=v k2=v k3=v k4=v k5=v k6=v k7=v and 2 more")


def test_tags_have_their_short_names_and_say_nothing_twice() -> None:
    tags = [
        ("io.rsocket.routing.ServiceName", "orders"),
        ("io.rsocket.routing.RouteId", ROUTE),
        ("io.rsocket.routing.Region", "eu"),
        ("io.rsocket.routing.MajorVersion", "2"),
        ("team", "blue"),
    ]
    joined = LifecycleEvent(events.ROUTE_JOINED, 1, 0, ROUTE, "orders", tags, PEER)
    assert log.event_line(joined).endswith(f"from {PEER}, region=eu major_version=2 team=blue")
    nothing_else = LifecycleEvent(events.ROUTE_JOINED, 1, 0, ROUTE, "orders", tags[:2], PEER)
    assert log.event_line(nothing_else).endswith(f"from {PEER}")
    other_name = LifecycleEvent(events.ROUTE_JOINED, 1, 0, ROUTE, "orders", [(tags[0][0], "invoices")], PEER)
    assert log.event_line(other_name).endswith(f"from {PEER}, service=invoices")


def test_a_line_that_knows_more_takes_the_place_of_the_events_own(out: io.StringIO) -> None:
    log.setup("info", "json", out)
    log.log_event(LifecycleEvent(events.BROKER_STARTED, 1, 0), "broker eu-1: started, with all that it knows")
    said = json.loads(out.getvalue())
    assert (said["text"], said["event"]) == ("broker eu-1: started, with all that it knows", "BrokerStarted")


def test_a_text_line_begins_with_the_moment_in_utc_and_the_level() -> None:
    assert log.TextFormatter().format(record("broker: started")) == "2026-03-01T08:30:00.125Z info    broker: started"


def test_a_stranger_cannot_write_a_line_of_its_own() -> None:
    line = log.TextFormatter().format(record("route x (a\n2026 info fake\x1b[2J\u2028é): joined"))
    assert line.endswith("route x (a\\n2026 info fake\\x1b[2J\\u2028é): joined")


def test_a_traceback_follows_its_line() -> None:
    failed = record("edge: broke", logging.ERROR)
    try:
        raise OSError("no space")
    except OSError:
        failed.exc_info = sys.exc_info()
    lines = log.TextFormatter().format(failed).splitlines()
    assert (lines[0], lines[-1]) == ("2026-03-01T08:30:00.125Z error   edge: broke", "    OSError: no space")
    assert json.loads(log.JsonFormatter().format(failed))["traceback"].endswith("OSError: no space")


def test_a_stranger_cannot_write_a_line_of_its_own_into_a_traceback() -> None:
    failed = record("edge: broke", logging.ERROR)
    fake = "2026-03-01T08:30:00.125Z info    route x (orders): joined"
    try:
        raise ValueError(f"no header: 'a\n{fake}\r{fake}\u2028\x1b[2J'")
    except ValueError:
        failed.exc_info = sys.exc_info()
    lines = log.TextFormatter().format(failed).splitlines()
    assert all(line.startswith("    ") for line in lines[1:])
    assert lines[-1] == f"    {fake}\\r{fake}\\u2028\\x1b[2J'"
    assert len(log.JsonFormatter().format(failed).splitlines()) == 1


def test_a_json_line_holds_the_event_without_its_empty_fields() -> None:
    joined = record("route joined")
    joined.lifecycle = LifecycleEvent(
        events.ROUTE_JOINED, 5, 1_772_353_800_120, ROUTE, "orders", [("region", "eu")], PEER
    )
    assert json.loads(log.JsonFormatter().format(joined)) == {
        "at": "2026-03-01T08:30:00.125Z",
        "level": "info",
        "logger": "broker",
        "text": "route joined",
        "event": "RouteJoined",
        "seq": 5,
        "at_ms": 1_772_353_800_120,
        "route_id": ROUTE,
        "service": "orders",
        "tags": [["region", "eu"]],
        "peer": PEER,
    }


def test_json_lines_stay_one_line_and_ascii_whatever_they_hold() -> None:
    line = log.JsonFormatter().format(record("a\nb\u2028\udc80"))
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["text"] == "a\nb\u2028\udc80"


def refused(at_ms: int, peer: str = "tcp b1:7878", word: str = "wrong-secret") -> LifecycleEvent:
    detail = f"the peer sent an ERROR on stream 0: {word}: b2 does not know it"
    return LifecycleEvent(events.PEER_CLOSED, 1, at_ms, peer=peer, reason="left", detail=detail)


def test_a_broker_that_refuses_this_one_again_and_again_is_a_warning_once_a_minute(out: io.StringIO) -> None:
    log.setup("info", "text", out)
    refusals = log.Refusals()
    for at_ms in range(0, 2 * log.AGAIN_MS, 1000):
        log.log_event(refused(at_ms), is_news=refusals.is_news(refused(at_ms)))
    said = "the peer sent an ERROR on stream 0: wrong-secret: b2 does not know it"
    assert [line[25:] for line in out.getvalue().splitlines()] == [
        f"warning peer tcp b1:7878: closed after 0.0 s: left: {said}"
    ] * 2
    assert refusals.is_news(refused(0, peer="tcp b3:7878"))
    assert refusals.is_news(refused(0, word="no-cluster"))
    other = LifecycleEvent(events.PEER_CLOSED, 1, 0, peer="unix /run/b.sock", reason="left")
    assert [refusals.is_news(other) for _ in range(2)] == [True, True]


def test_so_many_refusals_are_remembered_and_then_forgotten() -> None:
    refusals = log.Refusals()
    peers = [f"tcp b1:{number}" for number in range(log.MAX_REFUSALS + 1)]
    assert all(refusals.is_news(refused(0, peer)) for peer in peers[:-1])
    assert not refusals.is_news(refused(0, peers[0]))
    assert refusals.is_news(refused(0, peers[-1]))
    assert refusals.is_news(refused(0, peers[0]))


ORDINARY = [
    *(of_peer(events.PEER_CLOSED, reason=each) for each in ("left", "replaced", "draining")),
    *(of_peer(events.PEER_CLOSED, reason=each) for each in ("closed-by-operator", "broker-stopped")),
    of_peer(events.LINK_UP, detail="eu-2"),
    of_peer(events.LINK_DOWN, reason="duplicate-link"),
    told(events.BROKER_JOINED, detail="eu-2"),
    of_service(events.REDIRECT_SET),
    of_route(events.ROUTE_RELIEVED),
    of_service(events.BREAKER_CLOSED),
]
WARNINGS = [
    of_peer(events.PEER_CLOSED, reason="bad-frame"),
    of_peer(events.LINK_DOWN, reason="keepalive-timeout"),
    of_peer(events.ANNOTATIONS_REFUSED, reason="from-client", requests=1),
    of_peer(events.DIGEST_MISMATCH),
    told(events.BROKER_LEFT, detail="eu-2"),
    told(events.EVENTS_DROPPED),
    of_route(events.ROUTE_UNSAID),
    of_route(events.ROUTE_EJECTED, reason="errors-in-row"),
    told(events.BREAKER_OPENED, service="orders", reason=FULL),
]


def test_faults_refusals_and_what_goes_wrong_between_brokers_are_warnings(out: io.StringIO) -> None:
    log.setup("warning", "text", out)
    for event in (*ORDINARY, *WARNINGS):
        log.log_event(event)
    lines = [line[25:] for line in out.getvalue().splitlines()]
    assert lines == [f"warning {log.event_line(event)}" for event in WARNINGS]


def test_what_is_for_event_files_alone_is_said_only_for_debugging(out: io.StringIO) -> None:
    log.setup("info", "text", out)
    for kind in log.QUIET:
        log.log_event(LifecycleEvent(kind, 1, 0, ROUTE, reason="slow-peer"))
    assert out.getvalue() == ""
    log.setup("debug", "text", out)
    log.log_event(LifecycleEvent(events.TABLE_DIGEST, 1, 0, tags=[("routes", "2")]))
    assert [line[25:] for line in out.getvalue().splitlines()] == ["debug   table: routes=2"]


def test_other_libraries_speak_from_warning_on_and_we_from_the_level_that_was_set(out: io.StringIO) -> None:
    log.setup("debug", "json", out)
    logging.getLogger("aiohttp.access").info("GET /metrics")
    logging.getLogger("asyncio").warning("slow callback")
    log.LOGGER.debug("< frame")
    assert [json.loads(line)["text"] for line in out.getvalue().splitlines()] == ["slow callback", "< frame"]


def test_a_second_setup_takes_the_place_of_the_first(out: io.StringIO) -> None:
    log.setup("info", "text", io.StringIO())
    log.setup("error", "text", out)
    log.LOGGER.warning("quiet")
    log.LOGGER.error("loud")
    assert [line[25:] for line in out.getvalue().splitlines()] == ["error   loud"]
