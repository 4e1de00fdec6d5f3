from client_sdk.gateways.samwise.backends.backend import DestinationState
from client_sdk.gateways.samwise.state import MAX_NAMES, OTHERS, SHOWN_N, GatewayState, count, status_text
from client_sdk.gateways.samwise.tables import Totals


def test_names_that_are_counted_are_bounded() -> None:
    counts: dict[str, int] = {}
    for id in range(MAX_NAMES + 5):
        count(counts, f"route-{id}")
    count(counts, "route-0")
    assert len(counts) == MAX_NAMES + 1
    assert counts[OTHERS] == 5
    assert counts["route-0"] == 2


def test_the_status_tells_of_services_though_the_destination_is_one_connection_and_of_no_more_than_can_be_read() -> (
    None
):
    state = GatewayState(
        started_at_ms=0,
        accepted_n=9,
        refused={},
        quirks={},
        acknowledged={"orders": 3, **{f"route-{number:02}": 2 for number in range(SHOWN_N)}},
        retried={},
        failed={"orders": 1, "carts": 1},
        delivered_n=0,
        died_n=0,
        events_dropped_n=4,
        totals=Totals(10, 1, 17, 0, 0),
        oldest_age_s=1.25,
        under_way_n=0,
        destinations=[DestinationState("services", True, 2, "connected to b1")],
    )
    lines = status_text(state).splitlines()
    assert lines[2] == "waiting: 1 messages, 17 bytes, the oldest for 1.2 s"
    assert lines[4:7] == [
        "dead letters: 0 messages, 0 bytes",
        "events dropped: 4",
        "destination services: up, connected to b1, 2 wait for it",
    ]
    assert lines[7] == "deliveries to orders: 3 acknowledged, 0 retried, 1 failed"
    assert len(lines[7:]) == SHOWN_N
    assert lines[-1] == "deliveries to route-18: 2 acknowledged, 0 retried, 0 failed"
