"""What is known of all records before they are replayed, in one pass: how many there are, and how long they took.

    records  ->  totals, a row for each epoch, route and model  ->  summaries of epochs, speeds of routes

The pass is Arrow's, or Spark's with the same names; what is made of the totals is the same code.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_sink.what_if.parts import Summary

TOTAL_KEYS: Final = ("broker_id", "epoch", "route_id", "model")
TOTALS: Final = (  # column of a record, or of what `totals_of` adds, and what is made of it
    ("weight", "sum"),
    ("weight", "max"),
    ("has_choice", "sum"),
    ("choice", "max"),
    ("is_unnamed", "max"),
    ("is_flow", "max"),
    ("started_us", "max"),
    ("done", "sum"),
    ("spent_us", "sum"),
)
TOTALS_SQL: Final = {  # the columns that `totals_of` adds
    "has_choice": "if(choice > 0, 1L, 0L)",
    "is_flow": "if(interval_us = 0, 0L, 1L)",
    "done": "if(outcome = 'completed' AND route_id != '', weight, 0L)",
    "spent_us": "if(outcome = 'completed' AND route_id != '', weight * duration_us, 0L)",
}


def totals_of(records: pa.Table) -> pa.Table:
    """One row for each epoch, route and model, with what `summaries_of` and `speeds_of` want."""
    is_done = pc.and_(pc.equal(records["outcome"], "completed"), pc.not_equal(records["route_id"], ""))
    done = pc.if_else(is_done, records["weight"], 0)
    added = {
        "has_choice": pc.if_else(pc.greater(records["choice"], 0), 1, 0),
        "is_flow": pc.if_else(pc.equal(records["interval_us"], 0), 0, 1),
        "done": done,
        "spent_us": pc.multiply(records["duration_us"], done),
    }
    for name, values in added.items():
        records = records.append_column(name, values)
    return records.group_by(list(TOTAL_KEYS)).aggregate([([], "count_all"), *TOTALS])


def summaries_of(totals: pa.Table) -> list[Summary]:
    """What records there are of each epoch."""
    sums = [("count_all", "sum"), *((f"{name}_{how}", how) for name, how in TOTALS)]
    return [
        Summary(
            broker_id=row["broker_id"],
            epoch=row["epoch"],
            rows=row["count_all_sum"],
            requests=row["weight_sum_sum"],
            max_weight=row["weight_max_max"],
            choices=row["has_choice_sum_sum"],
            last_choice=row["choice_max_max"],
            has_unnamed=bool(row["is_unnamed_max_max"]),
            is_flows=bool(row["is_flow_max_max"]),
            last_us=row["started_us_max_max"],
        )
        for row in totals.group_by(list(TOTAL_KEYS[:2])).aggregate(sums).to_pylist()
    ]


def speeds_of(totals: pa.Table) -> dict[tuple[str, int], dict[tuple[str, str], float]]:
    """(broker id, epoch) -> (route id, model) -> mean microseconds of requests that were completed."""
    found: dict[tuple[str, int], dict[tuple[str, str], float]] = {}
    for row in totals.filter(pc.greater(totals["done_sum"], 0)).to_pylist():
        mean = row["spent_us_sum"] / row["done_sum"]
        found.setdefault((row["broker_id"], row["epoch"]), {})[(row["route_id"], row["model"])] = mean
    return found
