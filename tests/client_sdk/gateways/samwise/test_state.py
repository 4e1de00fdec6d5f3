from client_sdk.gateways.samwise.state import MAX_NAMES, OTHERS, count


def test_names_that_are_counted_are_bounded() -> None:
    counts: dict[str, int] = {}
    for id in range(MAX_NAMES + 5):
        count(counts, f"route-{id}")
    count(counts, "route-0")
    assert len(counts) == MAX_NAMES + 1
    assert counts[OTHERS] == 5
    assert counts["route-0"] == 2
