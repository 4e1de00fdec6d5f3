"""Runs of brokers: one per broker and epoch, when they were heard of last and how they ended.

A run that said BrokerStopped has stopped; one of which BrokerDied was told, or that was followed by a later one without
saying so, has died. Of others only their neighbours know more (`losses`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from broker.events import BROKER_DIED, BROKER_STARTED, BROKER_STOPPED, TABLE_DIGEST
from spark_sink.history.records import DIED, RUNNING, STOPPED
from spark_sink.report.reading import TableReader

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
    routes: int | None = None  # of its last complete snapshot of the table; None: there is none
    local: int | None = None


def runs_of(reader: TableReader) -> dict[RunKey, RunFacts]:
    """Of the tables `heard`, runs of which any table tells, and `told`."""
    heard = reader.rows("SELECT broker_id, epoch, broker_name, last_us FROM heard ORDER BY broker_id, epoch")
    latest = {broker_id: epoch for broker_id, epoch, _, _ in heard}
    runs = {
        (broker_id, epoch): RunFacts(broker_id, name, epoch, at_us, RUNNING if epoch == latest[broker_id] else DIED)
        for broker_id, epoch, name, at_us in heard
    }
    for broker_id, epoch, kind, at_us, tags in reader.rows(
        "SELECT broker_id, epoch, kind, max_by(us, seq), max_by(tags, seq) FROM told "
        f"WHERE kind IN ({BROKER_DIED}, {BROKER_STARTED}, {BROKER_STOPPED}, {TABLE_DIGEST}) "
        "GROUP BY broker_id, epoch, kind ORDER BY kind"
    ):
        key, tags = (broker_id, epoch), tags or {}
        if kind == BROKER_STARTED:
            texts = tags.get("version") or "", tags.get("core") or ""
            runs[key] = replace(runs[key], started_us=at_us, version=texts[0], core=texts[1])
        elif kind == BROKER_STOPPED:
            runs[key] = replace(runs[key], state=STOPPED)
        elif kind == BROKER_DIED:
            if runs[key].state != STOPPED and runs[key].last_us <= at_us:  # else it told more
                runs[key] = replace(runs[key], state=DIED)
        else:
            counts = _count(tags.get("routes")), _count(tags.get("local"))
            runs[key] = replace(runs[key], routes=counts[0], local=counts[1])
    return runs


def latest_of(runs: Mapping[RunKey, RunFacts]) -> dict[str, RunFacts]:
    """Broker id -> its latest run, in the order of their epochs."""
    return {run.broker_id: run for run in sorted(runs.values(), key=lambda run: run.epoch)}


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
