"""What the tables and the report must say of some records, in plain Python without Arrow, numpy or Spark."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from broker.events import FlowRecord
from tests.spark_sink.records import HEADER, Event

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SUMS = ("requests", "branches", "items_in", "items_out", "bytes_in", "bytes_out", "latency_sum_us")
TRAFFIC_KEYS = ("service", "route_id", "model", "routing", "outcome", "word")
CALLER_KEYS = ("caller_service", "caller_route", "service", "model", "outcome", "word")


class Sums:
    """Of one group."""

    def __init__(self) -> None:
        self.sums = dict.fromkeys(SUMS, 0)
        self.max = 0
        self.histogram: dict[int, int] = defaultdict(int)

    def add(self, sums: dict[str, int], largest: int, histogram: Iterable[tuple[int, int]]) -> None:
        for name in SUMS:
            self.sums[name] += sums[name]
        self.max = max(self.max, largest)
        for bucket, count in histogram:
            self.histogram[bucket] += count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sums) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"Sums({self.sums}, max={self.max}, {dict(self.histogram)})"


Groups = dict[tuple[Any, ...], Sums]


def of_records(records: Iterable[Event], keys: tuple[str, ...], *, with_histogram: bool) -> Groups:
    """Minute, broker id, broker name and keys -> sums."""
    groups: Groups = defaultdict(Sums)
    for record in records:
        if isinstance(record, FlowRecord):
            began = EPOCH + timedelta(milliseconds=record.at_ms - record.interval_ms)
            origin = began.replace(second=0, microsecond=0), HEADER.broker_id, HEADER.broker_name
            sums = {name: getattr(record, name) for name in SUMS}
            histogram = record.histogram if with_histogram else []
            groups[(*origin, *(getattr(record, key) for key in keys))].add(sums, record.latency_max_us, histogram)
    return groups


def of_table(table: pa.Table, keys: tuple[str, ...]) -> Groups:
    """The same from the partials in a table."""
    groups: Groups = defaultdict(Sums)
    for row in table.to_pylist():
        pairs = list(zip(row.get("latency_buckets", []), row.get("latency_counts", []), strict=True))
        assert pairs == sorted(pairs)
        key = tuple(row[name] for name in ("minute", "broker_id", "broker_name", *keys))
        groups[key].add(row, row["latency_max_us"], pairs)
    return groups
