"""Brokers that ended without a word and never came back, known from the others: they lost it, and it never lost them.

A cut between two living brokers is told by both, so whoever told it too is no dead one. No clocks are compared.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from broker.events import BROKER_JOINED, BROKER_LEFT
from spark_sink.history.records import DIED, RUNNING, STOPPED
from spark_sink.report.cluster.runs import RunFacts, RunKey, latest_of
from spark_sink.report.reading import TableReader

STOPPING_US: Final = 10_000_000  # before its end a broker that stops leaves the others: they are not lost

_ID: Final = re.compile(r"\(([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\)")  # `eu-1 (e43dbbbe-…)`


def with_losses(runs: Mapping[RunKey, RunFacts], reader: TableReader) -> dict[RunKey, RunFacts]:
    """The same runs; those that the others lost for good have died. Of the table `told`."""
    latest = latest_of(runs)
    lost = _lost(reader)
    changed = dict(runs)
    for (teller_id, broker_id), (epoch, at_us) in lost.items():
        teller, found = latest[teller_id], latest.get(broker_id)
        is_leaving = teller.state == STOPPED and teller.last_us - at_us < STOPPING_US
        if found is None or found.state != RUNNING or epoch != teller.epoch or is_leaving:
            continue
        if (broker_id, teller_id) not in lost:
            changed[broker_id, found.epoch] = replace(found, state=DIED)
    return changed


def _lost(reader: TableReader) -> dict[tuple[str, str], tuple[int, int]]:
    """Who told last of whom that it left: in which epoch, and when (µs of the teller's clock)."""
    lost: dict[tuple[str, str], tuple[int, int]] = {}
    for broker_id, epoch, kind, detail, at_us in reader.each(
        f"SELECT broker_id, epoch, kind, detail, us FROM told WHERE kind IN ({BROKER_JOINED}, {BROKER_LEFT}) "
        "ORDER BY epoch, seq"
    ):
        named = _ID.search(detail)
        if named is None:
            continue
        if kind == BROKER_LEFT:
            lost[broker_id, named[1]] = epoch, at_us
        else:
            lost.pop((broker_id, named[1]), None)
    return lost
