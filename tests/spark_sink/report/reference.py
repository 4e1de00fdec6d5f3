"""The numbers of the report in plain Python, row by row, without Arrow and numpy."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from spark_sink.tables import FAILED_OUTCOMES
from tests.spark_sink.report.tables import Row

Key = tuple[Any, ...]


def us(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)


def sums(rows: Iterable[Row], keys: Sequence[str], value: Callable[[Row], int]) -> dict[Key, int]:
    found: dict[Key, int] = defaultdict(int)
    for row in rows:
        found[tuple(row.get(key) or "" for key in keys)] += value(row)
    return dict(found)


def requests(row: Row) -> int:
    count: int = row["requests"]
    return count


def errors(row: Row) -> int:
    return requests(row) if row["outcome"] in FAILED_OUTCOMES else 0


def top(found: dict[Key, int], limit: int) -> list[Key]:
    """The keys with the largest values that are not 0; equals by key."""
    return sorted((key for key in found if found[key]), key=lambda key: (-found[key], key))[:limit]


def reached(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["outcome"] != "rejected"]


def timed(rows: Iterable[Row]) -> list[Row]:
    """Those whose latency counts."""
    unanswered = ("fire_and_forget", "metadata_push")
    return [row for row in reached(rows) if row["model"] not in unanswered]


def percentile(values: list[int], fraction: float) -> int:
    return sorted(values)[max(1, math.ceil(fraction * len(values))) - 1]


def is_close(told: int, values: list[int], fraction: float) -> bool:
    """As near as the histogram promises."""
    truth = percentile(values, fraction)
    return abs(told - truth) <= truth / 32 + 1


def per_bin(rows: Iterable[Row], starts: list[datetime], step_s: int, value: Callable[[Row], int]) -> list[int]:
    counts: Counter[int] = Counter()
    for row in rows:
        counts[int((row["minute"] - starts[0]).total_seconds() // step_s)] += value(row)
    assert all(0 <= place < len(starts) for place in counts)
    return [counts[place] for place in range(len(starts))]


def gini(loads: list[int]) -> float:
    """Half the mean difference of all pairs, by the mean."""
    mean = sum(loads) / len(loads)
    return sum(abs(one - other) for one in loads for other in loads) / (2 * len(loads) ** 2 * mean)


class Runs:
    """Runs of brokers: last moment, state, last whole snapshot."""

    def __init__(self, rows: dict[str, list[Row]]) -> None:
        self.last: dict[Key, datetime] = {}
        timed = [(row, row["event_time"]) for row in rows["lifecycle"]] + [
            (row, row["seen_at"]) for row in rows["routes"]
        ]
        timed += [(row, row["left_at"]) for row in rows["sessions"] if row["is_local"]]
        for row, at in timed:
            key = row["broker_id"], row["epoch"]
            self.last[key] = max(at, self.last.get(key, at))
        stopped = {(row["broker_id"], row["epoch"]) for row in rows["lifecycle"] if row["event"] == "BrokerStopped"}
        self.state = {}
        for broker_id, epoch in self.last:
            is_latest = epoch == max(other for one, other in self.last if one == broker_id)
            state = "stopped" if (broker_id, epoch) in stopped else "running" if is_latest else "died"
            self.state[broker_id, epoch] = state
        self.digests: dict[Key, Row] = {}
        for row in sorted(rows["lifecycle"], key=lambda row: row["seq"]):
            if row["event"] == "TableDigest":
                self.digests[row["broker_id"], row["epoch"]] = row


def last_snapshots(rows: dict[str, list[Row]], runs: Runs) -> list[Row]:
    """Own routes of the last whole snapshot of each run."""
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in rows["routes"]:
        key = row["broker_id"], row["epoch"]
        if key not in runs.digests or row["seen_at"] <= runs.digests[key]["event_time"]:
            found[key].append(row)
    return [
        row
        for mine in found.values()
        for row in mine
        if row["seen_at"] == max(one["seen_at"] for one in mine) and not row["peer"].startswith("broker ")
    ]


def open_stays(rows: dict[str, list[Row]], runs: Runs) -> list[Row]:
    """Routes whose latest record in a run is no end: since when, until when, how."""
    records: dict[Key, list[tuple[int, int, datetime, str]]] = defaultdict(list)
    for row in rows["lifecycle"]:
        key = row["broker_id"], row["epoch"], row["route_id"]
        if row["event"] == "RouteJoined":
            records[key].append((row["seq"], 0, row["event_time"], row["service"]))
        elif row["event"] in ("RouteLeft", "RouteReplaced"):
            records[key].append((row["seq"], 1, row["event_time"], row["service"]))
    for row in rows["sessions"]:
        if row["is_local"]:
            key = row["broker_id"], row["epoch"], row["route_id"]
            records[key].append((row["seq"], 1, row["left_at"], row["service"]))
    for row in last_snapshots(rows, runs):
        key = row["broker_id"], row["epoch"], row["route_id"]
        since = row["seen_at"] - timedelta(milliseconds=row["uptime_ms"])
        records[key].append((row["seq"], 0, since, row["service"]))
    words = {"running": "still there", "stopped": "broker stopped", "died": "broker died"}
    found = []
    for (broker_id, epoch, route_id), mine in records.items():
        _, is_end, since, service = max(mine)
        if not is_end:
            run = broker_id, epoch
            made = {"broker_id": broker_id, "route_id": route_id, "service": service, "since": since}
            found.append(made | {"until": max(since, runs.last[run]), "ended_as": words[runs.state[run]]})
    return found
