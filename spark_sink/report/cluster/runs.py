"""Runs of brokers: one per broker and epoch, when they were heard of last and how they ended.

A run that said BrokerStopped has stopped; one of which BrokerDied was told, or that was followed by a later one without
saying so, has died. Of others only their neighbours know more (`losses`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from broker.events import BROKER_DIED, BROKER_STARTED, BROKER_STOPPED, TABLE_DIGEST
from spark_sink.history.records import DIED, RUNNING, STOPPED
from spark_sink.report.groups import encoded, group, last_of, micros, numbers

RunKey: TypeAlias = tuple[str, int]  # broker id, epoch


@dataclass(frozen=True)
class RunFacts:
    """One run of a broker."""

    broker_id: str
    name: str
    epoch: int
    last_us: int  # it was heard of at this moment, microseconds since the epoch
    state: str
    started_us: int | None = None  # None: not recorded, at least not in this time
    version: str = ""
    core: str = ""
    digest_us: int | None = None  # its last complete snapshot of the table; None: none
    routes: int | None = None  # of that snapshot
    local: int | None = None


class Heard:
    """Runs of which any table tells."""

    def __init__(self) -> None:
        self.runs: Final[dict[RunKey, tuple[str, int]]] = {}  # broker's name, and the last moment (µs) of the run

    def add(self, key: RunKey, name: str, at_us: int) -> None:
        """Something of the run is of this moment."""
        self.runs[key] = name, max(at_us, self.runs.get(key, ("", 0))[1])

    def add_rows(self, table: pa.Table, time: str) -> None:
        """Rows with the columns of a run; `time`: the column of their moments."""
        brokers = group(table, ["broker_id", "broker_name"])
        runs = np.stack([brokers.of_row, numbers(table, "epoch")], axis=1)
        pairs, of_row = np.unique(runs, axis=0, return_inverse=True)
        last = np.zeros(len(pairs), np.int64)
        np.maximum.at(last, of_row.reshape(-1), micros(table, time))
        for (number, epoch), at_us in zip(pairs.tolist(), last.tolist(), strict=True):
            broker_id, name = brokers.key(number)
            self.add((broker_id, epoch), name, at_us)


def runs_of(lifecycle: pa.Table, heard: Heard) -> dict[RunKey, RunFacts]:
    """`lifecycle`: rows, of runs that were heard of."""
    kinds = numbers(lifecycle, "kind")
    latest = dict(sorted(heard.runs))  # broker id -> epoch
    runs = {
        (broker_id, epoch): RunFacts(broker_id, name, epoch, at_us, RUNNING if epoch == latest[broker_id] else DIED)
        for (broker_id, epoch), (name, at_us) in heard.runs.items()
    }
    told = np.flatnonzero(np.isin(kinds, (BROKER_DIED, BROKER_STARTED, BROKER_STOPPED, TABLE_DIGEST)))
    rows = lifecycle.take(pa.array(told)).select(["broker_id", "epoch", "seq", "event_time", "kind", "tags"])
    brokers, seqs = encoded(rows["broker_id"])[1], numbers(rows, "seq")
    for number in last_of(brokers, numbers(rows, "epoch"), numbers(rows, "kind"), by=(seqs,)).tolist():
        runs_row = rows.slice(number, 1).to_pylist()[0]
        key = runs_row["broker_id"], runs_row["epoch"]
        tags = dict(runs_row["tags"] or ())
        at_us = int(micros(rows.slice(number, 1), "event_time")[0])
        if runs_row["kind"] == BROKER_STARTED:
            texts = tags.get("version") or "", tags.get("core") or ""
            runs[key] = replace(runs[key], started_us=at_us, version=texts[0], core=texts[1])
        elif runs_row["kind"] == BROKER_STOPPED:
            runs[key] = replace(runs[key], state=STOPPED)
        elif runs_row["kind"] == BROKER_DIED:
            if runs[key].state != STOPPED and runs[key].last_us <= at_us:  # else it told more
                runs[key] = replace(runs[key], state=DIED)
        else:
            counts = _count(tags.get("routes")), _count(tags.get("local"))
            runs[key] = replace(runs[key], digest_us=at_us, routes=counts[0], local=counts[1])
    return runs


def latest_of(runs: Mapping[RunKey, RunFacts]) -> dict[str, RunFacts]:
    """Broker id -> its latest run, in the order of their epochs."""
    return {run.broker_id: run for run in sorted(runs.values(), key=lambda run: run.epoch)}


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
