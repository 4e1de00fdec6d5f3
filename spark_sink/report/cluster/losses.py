"""Brokers that ended without a word and never came back, known from the others: they lost it, and it never lost them.

A cut between two living brokers is told by both, so whoever told it too is no dead one. No clocks are compared.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from broker.events import BROKER_JOINED, BROKER_LEFT
from spark_sink.history.records import DIED, RUNNING, STOPPED
from spark_sink.report.cluster.runs import RunFacts, RunKey, latest_of
from spark_sink.report.groups import micros, numbers

STOPPING_US: Final = 10_000_000  # before its end a broker that stops leaves the others: they are not lost

_ID: Final = re.compile(r"\(([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\)")  # `eu-1 (e43dbbbe-…)`


def with_losses(runs: Mapping[RunKey, RunFacts], lifecycle: pa.Table) -> dict[RunKey, RunFacts]:
    """The same runs; those that the others lost for good have died. `lifecycle`: rows."""
    latest = latest_of(runs)
    lost = _lost(lifecycle)
    changed = dict(runs)
    for (teller_id, broker_id), (epoch, at_us) in lost.items():
        teller, found = latest[teller_id], latest.get(broker_id)
        is_leaving = teller.state == STOPPED and teller.last_us - at_us < STOPPING_US
        if found is None or found.state != RUNNING or epoch != teller.epoch or is_leaving:
            continue
        if (broker_id, teller_id) not in lost:
            changed[broker_id, found.epoch] = replace(found, state=DIED)
    return changed


def _lost(lifecycle: pa.Table) -> dict[tuple[str, str], tuple[int, int]]:
    """Who told last of whom that it left: in which epoch, and when (µs of the teller's clock)."""
    kinds = numbers(lifecycle, "kind")
    rows = lifecycle.filter(pa.array((kinds == BROKER_JOINED) | (kinds == BROKER_LEFT)))
    rows = rows.sort_by([("epoch", "ascending"), ("seq", "ascending")])
    lost: dict[tuple[str, str], tuple[int, int]] = {}
    columns = rows.select(["broker_id", "epoch", "kind", "detail"]).to_pylist()
    for row, at_us in zip(columns, micros(rows, "event_time").tolist(), strict=True):
        named = _ID.search(row["detail"] or "")
        if named is None:
            continue
        pair = row["broker_id"], named[1]
        if row["kind"] == BROKER_LEFT:
            lost[pair] = row["epoch"], at_us
        else:
            lost.pop(pair, None)
    return lost
