"""What the brokers' processes did: CPU, lag of the event loop, connections and requests in flight, from BrokerLoad.

The event comes once a minute; of several in one bin the largest number counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_sink.report.reading import TableReader
from spark_sink.report.times import MINUTE_US, Bins, bins_of

BROKER_LOAD: Final = "BrokerLoad"
MAX_LOADS: Final = 8  # brokers: colours that a person can tell apart
MEASURES: Final = ("cpu_permille", "loop_lag_max_us", "connections", "in_flight")  # tags of the event


@dataclass(frozen=True)
class BrokerLoad:
    """Per bin; None: nothing was recorded."""

    broker: str  # name
    cpu_permille: list[int | None]  # 1000: one core
    loop_lag_max_us: list[int | None]
    connections: list[int | None]
    in_flight: list[int | None]


@dataclass(frozen=True)
class Loads:
    bins: Bins
    rows: list[BrokerLoad]  # in the order of the cluster's brokers
    count: int


def loads_of(reader: TableReader, brokers: Sequence[tuple[str, str]]) -> Loads:
    """`brokers`: ids and names, the most important first. Of the table `told`."""
    told = f"(FROM told WHERE event = '{BROKER_LOAD}')"
    [(low_us, high_us)] = reader.rows(f"SELECT min(us), max(us) // {MINUTE_US} * {MINUTE_US} FROM {told}")
    bins = bins_of(None if low_us is None else low_us // MINUTE_US * MINUTE_US, high_us)
    largest = ", ".join(f"max(try_cast(map_extract(tags, '{name}')[1] AS BIGINT))" for name in MEASURES)
    found: dict[str, list[list[int | None]]] = {}
    for broker_id, number, *values in reader.rows(
        f"SELECT broker_id, {bins.of('us')} AS number, {largest} FROM {told} GROUP BY broker_id, number"
    ):
        lines = found.setdefault(broker_id, [[None] * bins.count for _ in MEASURES])
        for line, value in zip(lines, values, strict=True):
            line[number] = value
    rows = [BrokerLoad(name, *found[broker_id]) for broker_id, name in brokers if broker_id in found]
    return Loads(bins, rows[:MAX_LOADS], len(found))
