"""What the brokers' processes did: CPU, lag of the event loop, connections and requests in flight, from BrokerLoad.

The event comes once a minute; of several in one bin the largest number counts.
"""

from collections.abc import Sequence
from typing import Final

from spark_sink.report.reading import Record, TableReader
from spark_sink.report.times import MINUTE_US, bins_of

BROKER_LOAD: Final = "BrokerLoad"
MAX_LOADS: Final = 8  # brokers: colours that a person can tell apart
MEASURES: Final = ("cpu_permille", "loop_lag_max_us", "connections", "in_flight")  # tags of the event; 1000: one core


def loads_of(reader: TableReader, brokers: Sequence[Record]) -> Record:
    """Of each of these brokers a list for each measure, per bin; None: nothing was recorded. Of the table `told`."""
    told = f"(FROM told WHERE event = '{BROKER_LOAD}')"
    minute = f"us // {MINUTE_US} * {MINUTE_US}"
    [(low_us, high_us)] = reader.rows(f"SELECT min({minute}), max({minute}) FROM {told}")
    bins = bins_of(low_us, high_us)
    largest = ", ".join(f"max(try_cast(map_extract(tags, '{name}')[1] AS BIGINT))" for name in MEASURES)
    found = bins.lines(
        (
            (broker_id, number, values)
            for broker_id, number, *values in reader.rows(
                f"SELECT broker_id, {bins.of('us')} AS number, {largest} FROM {told} GROUP BY broker_id, number"
            )
        ),
        (None,) * len(MEASURES),
    )
    rows = [
        Record(broker=one.name, **dict(zip(MEASURES, map(list, zip(*found[one.broker_id], strict=True)), strict=True)))
        for one in brokers
        if one.broker_id in found
    ]
    return Record(bins=bins, rows=rows[:MAX_LOADS], count=len(found))
