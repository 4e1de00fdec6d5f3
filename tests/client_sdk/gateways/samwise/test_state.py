from broker.views.samwise import DestinationView, GatewayView
from client_sdk.gateways.samwise.backends.backend import DestinationState
from client_sdk.gateways.samwise.state import (
    MAX_NAMES,
    OTHERS,
    SHOWN_N,
    Counters,
    count,
    destination_views,
    status_text,
)


def test_names_that_are_counted_are_bounded() -> None:
    counts: dict[str, int] = {}
    for id in range(MAX_NAMES + 5):
        count(counts, f"route-{id}")
    count(counts, "route-0")
    assert len(counts) == MAX_NAMES + 1
    assert counts[OTHERS] == 5
    assert counts["route-0"] == 2


def test_destinations_come_first_and_then_those_of_which_there_are_only_counts() -> None:
    counters = Counters()
    counters.acknowledged.update(orders=3)
    counters.failed.update(orders=1, carts=1)
    known = [DestinationState("services", True, 2, "connected to b1")]
    assert destination_views(counters, known) == [
        DestinationView("services", True, 2, "connected to b1", 0, 0, 0),
        DestinationView("carts", None, 0, "", 0, 0, 1),
        DestinationView("orders", None, 0, "", 3, 0, 1),
    ]


def test_the_status_tells_of_services_though_the_destination_is_one_connection_and_of_no_more_than_can_be_read() -> (
    None
):
    routes = [DestinationView(f"route-{number:02}", None, 0, "", 2, 0, 0) for number in range(SHOWN_N)]
    state = GatewayView(
        started_at_ms=0,
        callers=3,
        callers_refused=2,
        requests_waiting=1,
        accepted=9,
        refused={},
        quirks={},
        delivered=0,
        died=0,
        events_dropped=4,
        under_way=0,
        waiting=1,
        waiting_bytes=17,
        oldest_age_s=1.25,
        dead=0,
        dead_bytes=0,
        destinations=[
            DestinationView("services", True, 2, "connected to\x1b b1.", 0, 0, 0),
            DestinationView("carts", None, 0, "", 0, 0, 1),
            DestinationView("orders\nwaiting: 0", None, 0, "", 3, 0, 1),
            *routes,
        ],
    )
    lines = status_text(state).splitlines()
    assert lines[0] == "callers: 3 connected, 2 turned away, 1 requests wait"
    assert lines[3] == "waiting: 1 messages, 17 bytes, the oldest for 1.2 s"
    assert lines[5:8] == [
        "dead letters: 0 messages, 0 bytes",
        "events dropped: 4",
        r"destination services: up, connected to\x1b b1, 2 wait for it",
    ]
    assert lines[8] == r"deliveries to orders\nwaiting: 0: 3 acknowledged, 0 retried, 1 failed"
    assert len(lines[8:]) == SHOWN_N
    assert lines[-1] == "deliveries to route-18: 2 acknowledged, 0 retried, 0 failed"
