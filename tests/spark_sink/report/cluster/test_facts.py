from datetime import timedelta
from pathlib import Path
from typing import Any

from spark_sink.report.facts import read_facts
from spark_sink.report.routes.plots import cluster_plot
from tests.spark_sink.report import reference
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import NOON, Row, event_row, origin, traffic_row, write

NAMES = ("broker-1", "broker-2", "broker-3", "broker-4")


def neighbour(detail: str) -> str:
    """The longest known name that it begins with; else what is before the colon."""
    known = [name for name in NAMES if detail == name or detail.startswith(name + ": ")]
    return known[0] if known else detail.split(": ")[0]


def test_brokers_equal_plain_python(case: Case) -> None:
    rows, cluster = case.rows, case.facts.cluster
    runs = reference.Runs(rows)
    counts = reference.sums(rows["traffic"], ["broker_id"], reference.requests)
    failed = reference.sums(rows["traffic"], ["broker_id"], reference.errors)
    ids = {broker_id for broker_id, _ in runs.last} | {key[0] for key in counts}
    assert [one.broker_id for one in cluster.brokers] == sorted(ids, key=lambda one: (-counts.get((one,), 0), one))
    assert cluster.broker_count == len(ids)
    for told in cluster.brokers:
        epochs = sorted(epoch for broker_id, epoch in runs.last if broker_id == told.broker_id)
        assert (told.runs, told.requests) == (len(epochs), counts.get((told.broker_id,), 0))
        assert told.errors == failed.get((told.broker_id,), 0)
        assert told.state == runs.state[told.broker_id, epochs[-1]]
        assert (told.version, told.core) == ("0.1.0", "compiled")
        digest = runs.digests.get((told.broker_id, epochs[-1]))
        expected = (None, None) if digest is None else tuple(int(dict(digest["tags"])[k]) for k in ("routes", "local"))
        assert (told.routes, told.local) == expected


def test_routes_over_time_equal_plain_python(case: Case) -> None:
    cluster = case.facts.cluster
    step = timedelta(seconds=cluster.bins.step_s)
    digests = [row for row in case.rows["lifecycle"] if row["event"] == "TableDigest"]
    for told in cluster.brokers:
        mine = sorted((row for row in digests if row["broker_id"] == told.broker_id), key=lambda row: row["event_time"])
        for start, count in zip(cluster.bins.starts(), told.routes_over_time, strict=True):
            inside = [row for row in mine if start <= row["event_time"] < start + step]
            assert count == (int(dict(inside[-1]["tags"])["local"]) if inside else None)


def test_links_equal_plain_python(case: Case) -> None:
    rows = [row for row in case.rows["lifecycle"] if row["event"] in ("LinkUp", "LinkDown")]
    runs = reference.Runs(case.rows)
    pairs = {(row["broker_name"], neighbour(row["detail"])) for row in rows}
    cluster = case.facts.cluster
    assert {(link.broker, link.neighbour) for link in cluster.links} == pairs
    assert cluster.link_count == len(pairs)
    for link in cluster.links:
        mine = [row for row in rows if (row["broker_name"], neighbour(row["detail"])) == (link.broker, link.neighbour)]
        downs = [row for row in mine if row["event"] == "LinkDown"]
        assert (link.ups, link.downs) == (len(mine) - len(downs), len(downs))
        assert link.up_ms == sum(row["uptime_ms"] for row in downs)
        assert link.reason == ("socket-lost" if downs else "")
        open_n = 0
        for row in sorted(mine, key=lambda row: row["seq"]):
            if row["epoch"] == 2 and runs.state[row["broker_id"], 2] == "running":
                open_n = open_n + 1 if row["event"] == "LinkUp" else max(0, open_n - 1)
        assert link.is_up == (open_n > 0)


def cluster_of(folder: Path, *events: Row) -> Any:
    write(folder, {"lifecycle": list(events)})
    return read_facts(folder).cluster


def test_links_of_a_broker_that_stopped_are_down(tmp_path: Path) -> None:
    up = event_row("LinkUp", 1, detail="two")
    assert [link.is_up for link in cluster_of(tmp_path / "a", up).links] == [True]
    assert [link.is_up for link in cluster_of(tmp_path / "b", up, event_row("BrokerStopped", 2)).links] == [False]


def test_a_neighbour_with_a_colon_in_its_name_is_known_by_its_own_records(tmp_path: Path) -> None:
    own = origin(2) | {"broker_name": "two: east"}
    events = [event_row("LinkDown", 1, detail="two: east: it went"), event_row("BrokerStarted", 1) | own]
    [link] = cluster_of(tmp_path, *events).links
    assert (link.broker, link.neighbour_id, link.neighbour) == ("broker-1", own["broker_id"], "two: east")
    assert (link.ups, link.downs, link.is_up, link.up_ms, link.reason) == (0, 1, False, 0, "")


def broker(number: int, kind: str, seq: int, **values: Any) -> Row:
    return event_row(kind, seq, **(origin(number) | values))


def told(number: int) -> str:
    """How events of others name this broker."""
    return f"{origin(number)['broker_name']} ({origin(number)['broker_id']})"


def states(folder: Path, *events: Row) -> dict[str, str]:
    return {one.name: one.state for one in cluster_of(folder, *events).brokers}


def met() -> list[Row]:
    """Two brokers that know each other."""
    return [
        broker(number, kind, seq, detail=detail)
        for number, other in ((1, 2), (2, 1))
        for seq, kind, detail in (
            (1, "BrokerStarted", ""),
            (2, "LinkUp", origin(other)["broker_name"]),
            (3, "BrokerJoined", f"{told(other)}, 1 hops by way of {origin(other)['broker_name']}"),
        )
    ]


def lost() -> list[Row]:
    """The second was killed: only the first says so."""
    down = broker(1, "LinkDown", 4, detail="broker-2: reset", reason="left", uptime_ms=5)
    return [*met(), down, broker(1, "BrokerLeft", 5, detail=told(2))]


def test_a_broker_whose_writer_says_so_has_died(tmp_path: Path) -> None:
    died = event_row("BrokerDied", 2, event_time=NOON + timedelta(seconds=3))
    assert states(tmp_path / "b", event_row("BrokerStarted", 1), died) == {"broker-1": "died"}


def test_a_broker_that_the_others_lost_has_died(tmp_path: Path) -> None:
    assert states(tmp_path / "a", *met()) == {"broker-1": "running", "broker-2": "running"}
    assert states(tmp_path / "b", *lost()) == {"broker-1": "running", "broker-2": "died"}
    back = broker(1, "BrokerJoined", 6, detail=f"{told(2)}, 1 hops by way of broker-2")
    assert states(tmp_path / "c", *lost(), back) == {"broker-1": "running", "broker-2": "running"}


def test_clocks_that_differ_by_hours_make_no_broker_dead(tmp_path: Path) -> None:
    late = [
        row | {"event_time": row["event_time"] + timedelta(hours=5)} if row["broker_name"] == "broker-1" else row
        for row in met()
    ]
    assert set(states(tmp_path / "a", *late).values()) == {"running"}
    lost_late = [
        row | {"event_time": row["event_time"] - timedelta(hours=5)} if row["seq"] > 3 else row for row in lost()
    ]
    assert states(tmp_path / "b", *lost_late) == {"broker-1": "running", "broker-2": "died"}


def test_brokers_that_were_cut_off_from_each_other_are_not_dead(tmp_path: Path) -> None:
    other = broker(2, "BrokerLeft", 4, detail=told(1))
    assert states(tmp_path, *lost(), other) == {"broker-1": "running", "broker-2": "running"}


def test_a_broker_that_stops_and_leaves_the_others_has_lost_nobody(tmp_path: Path) -> None:
    stop = broker(1, "BrokerStopped", 6, event_time=NOON + timedelta(seconds=2))
    assert states(tmp_path / "a", *lost(), stop) == {"broker-1": "stopped", "broker-2": "running"}
    later = stop | {"event_time": NOON + timedelta(minutes=2)}
    assert states(tmp_path / "b", *lost(), later) == {"broker-1": "stopped", "broker-2": "died"}


def test_a_broker_that_came_back_with_another_id_is_two(tmp_path: Path) -> None:
    again = origin(3) | {"broker_name": "broker-2"}
    events = [
        *lost(),
        event_row("BrokerStarted", 1, **(again | {"epoch": 2})),
        event_row("LinkUp", 2, **(again | {"epoch": 2, "detail": "broker-1"})),
        broker(1, "LinkUp", 6, detail="broker-2"),
    ]
    cluster = cluster_of(tmp_path, *events)
    old, new = "broker-2 (00000002)", "broker-2 (00000003)"
    assert {one.name: one.state for one in cluster.brokers} == {"broker-1": "running", old: "died", new: "running"}
    assert {(link.broker, link.neighbour, link.is_up) for link in cluster.links} == {
        ("broker-1", new, True),
        (new, "broker-1", True),
        (old, "broker-1", False),
    }


def test_a_link_is_drawn_as_up_when_no_end_says_that_it_fell(tmp_path: Path) -> None:
    def drawn(folder: Path, *events: Row) -> list[str]:
        write(folder, {"lifecycle": list(events)})
        plot = cluster_plot(read_facts(folder))
        assert plot is not None
        return [trace["name"] for trace in plot.data if trace["mode"] == "lines"]

    assert drawn(tmp_path / "a", *met()) == ["link up"]
    down = broker(1, "LinkDown", 4, detail="broker-2: silent", reason="left", uptime_ms=5)
    assert drawn(tmp_path / "b", *met(), down) == ["link down"]


def test_a_broker_with_traffic_alone_is_one(tmp_path: Path) -> None:
    write(tmp_path, {"traffic": [traffic_row(requests=2)]})
    own = origin(1)
    [told] = read_facts(tmp_path).cluster.brokers
    values = [own["broker_id"], own["broker_name"], 1, "running", "", "", 2, 0, None, None, []]
    assert list(vars(told).values()) == values


def test_any_event_makes_a_broker_known(tmp_path: Path) -> None:
    assert cluster_of(tmp_path, event_row("PeerConnected", event_time=NOON)).broker_count == 1
