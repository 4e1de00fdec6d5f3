"""broker.log: which line an event makes, and what a line looks like."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from broker import events
from broker.events import LifecycleEvent
from broker.log import (
    AGAIN_MS,
    LOGGER,
    MAX_REFUSALS,
    OUR_LOGGERS,
    QUIET,
    JsonFormatter,
    Refusals,
    TextFormatter,
    event_line,
    log_event,
    setup,
)

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
    for name in OUR_LOGGERS:
        logging.getLogger(name).setLevel(logging.NOTSET)


def record(text: str, level: int = logging.INFO) -> logging.LogRecord:
    made = logging.LogRecord("broker", level, __file__, 1, "%s", (text,), None)
    made.created = 1_772_353_800.125
    return made


@pytest.mark.parametrize(
    "event, line",
    [
        (LifecycleEvent(events.PEER_CONNECTED, 3, 0, peer=PEER), f"peer {PEER}: connected"),
        (
            LifecycleEvent(
                events.PEER_CLOSED, 4, 0, peer=PEER, reason="slow-peer", detail="slow-peer: 9 bytes", uptime_ms=100
            ),
            f"peer {PEER}: closed after 0.1 s: slow-peer: 9 bytes",
        ),
        (
            LifecycleEvent(events.PEER_SUSPENDED, 4, 0, peer=PEER, reason="left", detail="reset", uptime_ms=100),
            f"peer {PEER}: suspended after 0.1 s: left: reset",
        ),
        (
            LifecycleEvent(events.PEER_RESUMED, 4, 0, peer=PEER, detail="2 frames are sent again", uptime_ms=100),
            f"peer {PEER}: resumed: 2 frames are sent again",
        ),
        (
            LifecycleEvent(events.ROUTE_JOINED, 5, 0, ROUTE, "orders", [("region", "eu"), ("zone", "a")], PEER),
            f"route {ROUTE} (orders): joined from {PEER}, region=eu zone=a",
        ),
        (
            LifecycleEvent(events.ROUTE_LEFT, 6, 0, ROUTE, "orders", reason="left", uptime_ms=2_000, requests=7),
            f"route {ROUTE} (orders): left after 2.0 s and 7 requests: left",
        ),
        (
            LifecycleEvent(events.ROUTE_REPLACED, 7, 0, ROUTE, "orders", peer=PEER),
            f"route {ROUTE} (orders): replaced from {PEER}",
        ),
        (LifecycleEvent(events.EVENTS_DROPPED, 8, 0, detail="12 records"), "broker: events dropped: 12 records"),
        (
            LifecycleEvent(events.ROUTE_EJECTED, 9, 0, ROUTE, "orders", reason="errors", detail="5 errors in a row"),
            f"route {ROUTE} (orders): ejected: 5 errors in a row",
        ),
        (
            LifecycleEvent(events.ROUTE_RELIEVED, 10, 0, ROUTE, "orders", detail="30 s are over"),
            f"route {ROUTE} (orders): gets requests again: 30 s are over",
        ),
        (
            LifecycleEvent(events.BREAKER_OPENED, 11, 0, service="orders", detail="9 are in flight"),
            "service orders: requests are refused: 9 are in flight",
        ),
        (
            LifecycleEvent(events.BREAKER_CLOSED, 12, 0, service="orders", detail="3 were refused"),
            "service orders: requests are taken again: 3 were refused",
        ),
        (
            LifecycleEvent(events.DRAIN_STARTED, 13, 0, reason="tag", detail="region=eu: 2 connections stay open"),
            "drain of tag region=eu: 2 connections stay open",
        ),
        (
            LifecycleEvent(events.DRAIN_ENDED, 14, 0, reason="broker", detail="in service again after 0.1 s"),
            "drain of broker: in service again after 0.1 s",
        ),
        (LifecycleEvent(events.LINK_UP, 15, 0, peer=PEER, detail="eu-2"), f"link {PEER}: up: eu-2"),
        (
            LifecycleEvent(events.LINK_DOWN, 16, 0, peer=PEER, reason="left", detail="eu-2: reset", uptime_ms=3_000),
            f"link {PEER}: down after 3.0 s: left: eu-2: reset",
        ),
        (
            LifecycleEvent(events.BROKER_JOINED, 17, 0, detail="eu-3 (7), 2 hops by way of eu-2"),
            "cluster: a broker can be reached: eu-3 (7), 2 hops by way of eu-2",
        ),
        (LifecycleEvent(events.BROKER_LEFT, 18, 0, detail="eu-3 (7)"), "cluster: a broker is out of reach: eu-3 (7)"),
        (
            LifecycleEvent(events.ANNOTATIONS_REFUSED, 19, 0, peer=PEER, reason="loop", detail="a>b>a", requests=4),
            f"peer {PEER}: annotations of 4 requests refused: loop: a>b>a",
        ),
        (
            LifecycleEvent(events.REDIRECT_SET, 20, 0, service="orders", detail="requests go to green"),
            "service orders: redirected: requests go to green",
        ),
        (
            LifecycleEvent(events.ROUTE_ADDED, 23, 0, ROUTE, "orders", [("region", "eu")], "broker 7"),
            f"route {ROUTE} (orders): known from broker 7, region=eu",
        ),
        (
            LifecycleEvent(events.ROUTE_REMOVED, 24, 0, ROUTE, "orders", [], "broker 7", "left"),
            f"route {ROUTE} (orders): no longer known from broker 7: left",
        ),
        (
            LifecycleEvent(
                events.ROUTE_UNSAID, 28, 0, ROUTE, "orders", peer=PEER, detail="region: the value has 200 bytes"
            ),
            f"route {ROUTE} (orders): other brokers cannot be told of it: region: the value has 200 bytes",
        ),
        (
            LifecycleEvent(events.ROUTE_SEEN, 25, 0, ROUTE, "orders", peer=PEER, detail="3", uptime_ms=1_500),
            f"route {ROUTE} (orders): in slot 3 after 1.5 s, {PEER}",
        ),
        (
            LifecycleEvent(events.TABLE_DIGEST, 26, 0, tags=[("digest", "0f"), ("routes", "2")]),
            "table: digest=0f routes=2",
        ),
        (
            LifecycleEvent(events.SLOW_PEER_ENDED, 27, 0, peer=PEER, reason="slow-peer", detail="9 bytes wait"),
            f"peer {PEER}: ended: slow-peer: 9 bytes wait",
        ),
        (
            LifecycleEvent(
                events.REQUESTS_DROPPED, 31, 0, service="orders", reason="over-limit", detail="3 found no room"
            ),
            "service orders: requests dropped: over-limit: 3 found no room",
        ),
        (
            LifecycleEvent(
                events.REQUESTS_DROPPED, 31, 0, peer=PEER, reason="over-limit", detail="eu-2: 3 found no room"
            ),
            f"link {PEER}: requests dropped: over-limit: eu-2: 3 found no room",
        ),
        (LifecycleEvent(events.REDIRECT_REMOVED, 21, 0, service="orders"), "service orders: no longer redirected"),
        (
            LifecycleEvent(events.DIGEST_MISMATCH, 22, 0, peer=PEER, detail="eu-2: 12 entries there, 10 here"),
            f"link {PEER}: both ends know different things: eu-2: 12 entries there, 10 here",
        ),
    ],
)
def test_each_kind_of_event_has_its_line_with_the_subject_first(event: LifecycleEvent, line: str) -> None:
    assert event_line(event) == line


def test_every_kind_of_event_but_those_of_the_broker_itself_has_a_line_of_its_own() -> None:
    """What a new kind would get is the line of dropped events."""
    dropped = [kind for kind in events.KIND_NAMES if event_line(LifecycleEvent(kind, 1, 0)) == "broker: events dropped"]
    assert dropped == [events.BROKER_STARTED, events.BROKER_STOPPED, events.EVENTS_DROPPED, events.BROKER_DIED]


def test_a_line_shows_eight_tags_and_counts_the_others() -> None:
    event = LifecycleEvent(events.ROUTE_JOINED, 1, 0, ROUTE, "orders", [(f"k{n}", "v") for n in range(10)], PEER)
    assert event_line(event).endswith(", k0=v k1=v k2=v k3=v k4=v k5=v k6=v k7=v and 2 more")


def test_tags_have_their_short_names_and_say_nothing_twice() -> None:
    tags = [
        ("io.rsocket.routing.ServiceName", "orders"),
        ("io.rsocket.routing.RouteId", ROUTE),
        ("io.rsocket.routing.Region", "eu"),
        ("io.rsocket.routing.MajorVersion", "2"),
        ("team", "blue"),
    ]
    joined = LifecycleEvent(events.ROUTE_JOINED, 1, 0, ROUTE, "orders", tags, PEER)
    assert event_line(joined).endswith(f"from {PEER}, region=eu major_version=2 team=blue")
    nothing_else = LifecycleEvent(events.ROUTE_JOINED, 1, 0, ROUTE, "orders", tags[:2], PEER)
    assert event_line(nothing_else).endswith(f"from {PEER}")
    other_name = LifecycleEvent(events.ROUTE_JOINED, 1, 0, ROUTE, "orders", [(tags[0][0], "invoices")], PEER)
    assert event_line(other_name).endswith(f"from {PEER}, service=invoices")


def test_a_line_that_knows_more_takes_the_place_of_the_events_own(out: io.StringIO) -> None:
    setup("info", "json", out)
    log_event(LifecycleEvent(events.BROKER_STARTED, 1, 0), "broker eu-1: started, with all that it knows")
    said = json.loads(out.getvalue())
    assert (said["text"], said["event"]) == ("broker eu-1: started, with all that it knows", "BrokerStarted")


def test_a_text_line_begins_with_the_moment_in_utc_and_the_level() -> None:
    assert TextFormatter().format(record("broker: started")) == "2026-03-01T08:30:00.125Z info    broker: started"


def test_a_stranger_cannot_write_a_line_of_its_own() -> None:
    line = TextFormatter().format(record("route x (a\n2026 info fake\x1b[2J\u2028é): joined"))
    assert line.endswith("route x (a\\n2026 info fake\\x1b[2J\\u2028é): joined")


def test_a_traceback_follows_its_line() -> None:
    failed = record("edge: broke", logging.ERROR)
    try:
        raise OSError("no space")
    except OSError:
        failed.exc_info = sys.exc_info()
    lines = TextFormatter().format(failed).splitlines()
    assert (lines[0], lines[-1]) == ("2026-03-01T08:30:00.125Z error   edge: broke", "    OSError: no space")
    assert json.loads(JsonFormatter().format(failed))["traceback"].endswith("OSError: no space")


def test_a_stranger_cannot_write_a_line_of_its_own_into_a_traceback() -> None:
    failed = record("edge: broke", logging.ERROR)
    fake = "2026-03-01T08:30:00.125Z info    route x (orders): joined"
    try:
        raise ValueError(f"no header: 'a\n{fake}\r{fake}\u2028\x1b[2J'")
    except ValueError:
        failed.exc_info = sys.exc_info()
    lines = TextFormatter().format(failed).splitlines()
    assert all(line.startswith("    ") for line in lines[1:])
    assert lines[-1] == f"    {fake}\\r{fake}\\u2028\\x1b[2J'"
    assert len(JsonFormatter().format(failed).splitlines()) == 1


def test_a_json_line_holds_the_event_without_its_empty_fields() -> None:
    joined = record("route joined")
    joined.lifecycle = LifecycleEvent(
        events.ROUTE_JOINED, 5, 1_772_353_800_120, ROUTE, "orders", [("region", "eu")], PEER
    )
    assert json.loads(JsonFormatter().format(joined)) == {
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
    line = JsonFormatter().format(record("a\nb\u2028\udc80"))
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["text"] == "a\nb\u2028\udc80"


def test_what_goes_wrong_between_brokers_is_a_warning_and_a_second_link_is_not(out: io.StringIO) -> None:
    setup("warning", "text", out)
    log_event(LifecycleEvent(events.LINK_UP, 1, 0, peer="a", detail="eu-2"))
    log_event(LifecycleEvent(events.LINK_DOWN, 2, 0, peer="b", reason="duplicate-link"))
    log_event(LifecycleEvent(events.LINK_DOWN, 3, 0, peer="c", reason="keepalive-timeout"))
    log_event(LifecycleEvent(events.BROKER_JOINED, 4, 0, detail="eu-2"))
    log_event(LifecycleEvent(events.BROKER_LEFT, 5, 0, detail="eu-2"))
    log_event(LifecycleEvent(events.ANNOTATIONS_REFUSED, 6, 0, peer="d", reason="from-client", requests=1))
    log_event(LifecycleEvent(events.DIGEST_MISMATCH, 7, 0, peer="e"))
    log_event(LifecycleEvent(events.REDIRECT_SET, 8, 0, service="orders"))
    log_event(LifecycleEvent(events.ROUTE_UNSAID, 9, 0, ROUTE, "orders"))
    assert [line[25:] for line in out.getvalue().splitlines()] == [
        "warning link c: down after 0.0 s: keepalive-timeout",
        "warning cluster: a broker is out of reach: eu-2",
        "warning peer d: annotations of 1 requests refused: from-client",
        "warning link e: both ends know different things",
        f"warning route {ROUTE} (orders): other brokers cannot be told of it",
    ]


def refused(at_ms: int, peer: str = "tcp b1:7000", word: str = "wrong-secret") -> LifecycleEvent:
    detail = f"the peer sent an ERROR on stream 0: {word}: b2 does not know it"
    return LifecycleEvent(events.PEER_CLOSED, 1, at_ms, peer=peer, reason="left", detail=detail)


def test_a_broker_that_refuses_this_one_again_and_again_is_a_warning_once_a_minute(out: io.StringIO) -> None:
    setup("info", "text", out)
    refusals = Refusals()
    for at_ms in range(0, 2 * AGAIN_MS, 1000):
        log_event(refused(at_ms), is_news=refusals.is_news(refused(at_ms)))
    said = "the peer sent an ERROR on stream 0: wrong-secret: b2 does not know it"
    assert [line[25:] for line in out.getvalue().splitlines()] == [
        f"warning peer tcp b1:7000: closed after 0.0 s: left: {said}"
    ] * 2
    assert refusals.is_news(refused(0, peer="tcp b3:7000"))
    assert refusals.is_news(refused(0, word="no-cluster"))
    other = LifecycleEvent(events.PEER_CLOSED, 1, 0, peer="unix /run/b.sock", reason="left")
    assert [refusals.is_news(other) for _ in range(2)] == [True, True]


def test_so_many_refusals_are_remembered_and_then_forgotten() -> None:
    refusals = Refusals()
    peers = [f"tcp b1:{number}" for number in range(MAX_REFUSALS + 1)]
    assert all(refusals.is_news(refused(0, peer)) for peer in peers[:-1])
    assert not refusals.is_news(refused(0, peers[0]))
    assert refusals.is_news(refused(0, peers[-1]))
    assert refusals.is_news(refused(0, peers[0]))


def test_ends_that_are_a_peers_fault_ejections_refusals_and_dropped_events_are_warnings(out: io.StringIO) -> None:
    setup("warning", "text", out)
    log_event(LifecycleEvent(events.PEER_CLOSED, 1, 0, peer="a", reason="left"))
    for reason in ("replaced", "draining", "closed-by-operator", "broker-stopped"):
        log_event(LifecycleEvent(events.PEER_CLOSED, 2, 0, peer="b", reason=reason))
    log_event(LifecycleEvent(events.PEER_CLOSED, 3, 0, peer="c", reason="bad-frame"))
    log_event(LifecycleEvent(events.EVENTS_DROPPED, 4, 0))
    log_event(LifecycleEvent(events.ROUTE_EJECTED, 5, 0, "7", "orders", reason="errors-in-row"))
    log_event(LifecycleEvent(events.ROUTE_RELIEVED, 6, 0, "7", "orders"))
    log_event(LifecycleEvent(events.BREAKER_OPENED, 7, 0, service="orders", reason="over-limit"))
    log_event(LifecycleEvent(events.BREAKER_CLOSED, 8, 0, service="orders"))
    assert [line[25:] for line in out.getvalue().splitlines()] == [
        "warning peer c: closed after 0.0 s: bad-frame",
        "warning broker: events dropped",
        "warning route 7 (orders): ejected",
        "warning service orders: requests are refused",
    ]


def test_what_is_for_event_files_alone_is_said_only_for_debugging(out: io.StringIO) -> None:
    setup("info", "text", out)
    for kind in QUIET:
        log_event(LifecycleEvent(kind, 1, 0, ROUTE, reason="slow-peer"))
    assert out.getvalue() == ""
    setup("debug", "text", out)
    log_event(LifecycleEvent(events.TABLE_DIGEST, 1, 0, tags=[("routes", "2")]))
    assert [line[25:] for line in out.getvalue().splitlines()] == ["debug   table: routes=2"]


def test_other_libraries_speak_from_warning_on_and_we_from_the_level_that_was_set(out: io.StringIO) -> None:
    setup("debug", "json", out)
    logging.getLogger("aiohttp.access").info("GET /metrics")
    logging.getLogger("asyncio").warning("slow callback")
    LOGGER.debug("< frame")
    assert [json.loads(line)["text"] for line in out.getvalue().splitlines()] == ["slow callback", "< frame"]


def test_a_second_setup_takes_the_place_of_the_first(out: io.StringIO) -> None:
    setup("info", "text", io.StringIO())
    setup("error", "text", out)
    LOGGER.warning("quiet")
    LOGGER.error("loud")
    assert [line[25:] for line in out.getvalue().splitlines()] == ["error   loud"]
