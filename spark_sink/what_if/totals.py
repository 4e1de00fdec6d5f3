"""What is known of all records before they are replayed, in one pass: how many there are, and how long they took.

    records  ->  totals, a row for each epoch, route and model  ->  summaries of epochs, speeds of routes

Totals add up to totals: Spark's workers send those of their records, and the driver makes one table of them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from spark_sink.what_if.records import RECORD_SCHEMA

TOTALS: Final = {  # of records, and how two totals become one
    "rows": "sum",
    "requests": "sum",
    "max_weight": "max",
    "choices": "sum",
    "last_choice": "max",
    "has_unnamed": "max",
    "last_us": "max",
    "done": "sum",
    "spent_us": "sum",
}
_EPOCH: Final = ("broker_id", "epoch", "is_flow")
_KEYS: Final = (*_EPOCH, "is_read", "route_id", "model")


class Summary(Struct):
    """What is known of the records of one epoch before they are replayed."""

    broker_id: str
    epoch: int
    is_flow: int  # 1: they are flows
    rows: int
    requests: int  # that the rows stand for
    max_weight: int  # of a request: N, where one of N was written
    choices: int  # rows that say which choice they were
    last_choice: int  # the largest of them
    has_unnamed: int  # 1: some request names no service
    last_us: int
    done: int  # requests that were completed by a route
    spent_us: int  # that these took together

    @property
    def key(self) -> tuple[str, int]:
        """Of the run, see `Run`."""
        return self.broker_id, self.epoch


def totals_of(records: Iterable[pa.Table], until_us: int) -> pa.Table:
    """One row for each epoch, route and model, and apart from them one of the records from `until_us` on."""
    return summed(pa.concat_tables(_addends(some, until_us) for some in (RECORD_SCHEMA.empty_table(), *records)))


def _addends(records: pa.Table, until_us: int) -> pa.Table:
    weight = records["weight"]
    is_done = pc.and_(pc.equal(records["outcome"], "completed"), pc.not_equal(records["route_id"], ""))
    done = pc.if_else(is_done, weight, 0)
    columns = {
        "is_flow": pc.greater(records["interval_us"], 0).cast(pa.int64()),
        "is_read": pc.less(records["started_us"], until_us).cast(pa.int64()),
        "rows": pa.repeat(pa.scalar(1), len(records)),
        "requests": weight,
        "max_weight": weight,
        "choices": pc.greater(records["choice"], 0).cast(pa.int64()),
        "last_choice": records["choice"],
        "has_unnamed": records["is_unnamed"],
        "last_us": records["started_us"],
        "done": done,
        "spent_us": pc.multiply(records["duration_us"], done),
    }
    columns |= {name: records[name] for name in _KEYS if name not in columns}
    return summed(pa.table(columns))


def summed(totals: pa.Table, keys: Sequence[str] = _KEYS) -> pa.Table:
    """Totals with the same keys as one."""
    sums = totals.group_by(list(keys)).aggregate(list(TOTALS.items()))
    return sums.select([*keys, *(f"{name}_{how}" for name, how in TOTALS.items())]).rename_columns([*keys, *TOTALS])


def read_totals(totals: pa.Table) -> pa.Table:
    """Those of what is read: of the requests of an epoch, and where it has none of its flows."""
    keys = pc.binary_join_element_wise(totals["broker_id"], totals["epoch"].cast(pa.string()), " ")
    is_request = pc.equal(totals["is_flow"], 0)
    is_also = pc.is_in(keys, value_set=pc.unique(keys.filter(is_request)))
    return totals.filter(pc.and_(pc.equal(totals["is_read"], 1), pc.or_(is_request, pc.invert(is_also))))


def read_records(records: pa.Table, totals: pa.Table, until_us: int) -> pa.Table:
    """Those that the totals of what is read are of."""
    is_flow = pc.greater(records["interval_us"], 0).cast(pa.int64())
    is_read = pc.is_in(_sources(records.append_column("is_flow", is_flow)), value_set=pc.unique(_sources(totals)))
    return records.filter(pc.and_(is_read, pc.less(records["started_us"], until_us)))


def _sources(table: pa.Table) -> pa.ChunkedArray:
    """The epoch of each row, and whether it is of flows, as one text."""
    return pc.binary_join_element_wise(*(table[name].cast(pa.string()) for name in _EPOCH), " ")


def summaries_of(totals: pa.Table) -> list[Summary]:
    """What records there are of each epoch: of requests by broker and epoch, then of flows."""
    order = [(name, "ascending") for name in ("is_flow", "broker_id", "epoch")]
    return [Summary(**row) for row in summed(totals, _EPOCH).sort_by(order).to_pylist()]


def speeds_of(totals: pa.Table) -> dict[tuple[str, int], dict[tuple[str, str], float]]:
    """(broker id, epoch) -> (route id, model) -> mean microseconds of requests that were completed."""
    found: dict[tuple[str, int], dict[tuple[str, str], float]] = {}
    for row in totals.filter(pc.greater(totals["done"], 0)).to_pylist():
        mean = row["spent_us"] / row["done"]
        found.setdefault((row["broker_id"], row["epoch"]), {})[(row["route_id"], row["model"])] = mean
    return found
