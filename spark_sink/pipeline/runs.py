"""Runs of brokers, by their epochs: which one ended without BrokerStopped, so that records of it may be missing.

A run is over when BrokerDied is its last record, or when a later epoch of its broker is seen, whatever their clocks
say. One that has not said BrokerStopped by then becomes a row of `gaps` in a file of its own, named after the run.
Segments may come in any order: when the BrokerStopped comes late, the file is removed again, and when more records of
the run come, it is written anew. All that is learnt only grows, so a batch that is repeated teaches nothing new.

Of each broker the latest `MAX_RUNS` are remembered. What has been told of an older one stays as it is: of records that
come later still nobody knows any more whether a BrokerStopped was there.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec
import pyarrow as pa

from broker.events import BROKER_STOPPED
from spark_sink.pipeline.filesystems import FileSystem
from spark_sink.pipeline.formats.choice import TableFormat
from spark_sink.pipeline.progress import read_state
from spark_sink.pipeline.rows import gap_row
from spark_sink.pipeline.segments import GoodFile
from spark_sink.publishing import table_bytes
from spark_sink.tables import BROKER_DIED, CHECKPOINTS, DIED_SUFFIX, GAPS, table_schema

MAX_RUNS: Final = 8  # of one broker that are remembered; of older ones it has been told how they ended
MAX_BROKERS: Final = 10_000  # whose runs are remembered; those that were silent for longest are forgotten
RUNS: Final = "runs.json"


class KnownRun(msgspec.Struct):
    """What is known of one."""

    name: str  # of the broker, for people
    last_at: datetime
    last_seq: int = 0
    is_stopped: bool = False
    died_seq: int = 0  # of its BrokerDied; 0: none is there
    told: tuple[str, int] | None = None  # day and last_seq of its row in `gaps`; None: it has none


class Broker(msgspec.Struct, forbid_unknown_fields=True):
    """Its runs, by epoch."""

    runs: dict[int, KnownRun] = {}
    forgotten: int = -1  # the latest epoch of which nothing is remembered, and no older one's


class Runs:
    """All of them, in a file beside the checkpoint."""

    def __init__(self, tables: FileSystem) -> None:
        """OSError; SinkError: the file is not what was written."""
        self._tables: Final = tables
        decoder = msgspec.json.Decoder(dict[str, Broker])
        self._brokers: Final = read_state(tables, RUNS, decoder.decode, "; remove it") or {}

    def learn(self, files: Sequence[GoodFile], place: TableFormat) -> None:
        """These segments are there; write what follows from it to `place`. OSError: not all is written."""
        changed = set()
        for file in files:
            broker = self._brokers.setdefault(file.broker_id, Broker())
            if file.epoch <= broker.forgotten:
                continue
            run = broker.runs.setdefault(file.epoch, KnownRun(file.broker_name, file.last_at))
            run.last_at, run.last_seq = max(run.last_at, file.last_at), max(run.last_seq, file.last_seq)
            changed.add(file.broker_id)
        for broker_id, epoch, kind, seq in (end for file in files for end in file.ends):
            known = self._brokers.get(broker_id, Broker()).runs.get(epoch)
            if known is None:  # it is forgotten, or rows and footer of a segment say different things
                continue
            if kind == BROKER_STOPPED:
                known.is_stopped = True
            else:
                known.died_seq = max(known.died_seq, seq)
        for broker_id in changed:
            self._tell(broker_id, self._brokers[broker_id].runs, place)
        self._forget()

    def save(self) -> None:
        """What was learnt, once its rows are in the tables. OSError."""
        self._tables.write(CHECKPOINTS, RUNS, msgspec.json.encode(self._brokers))

    def _tell(self, broker_id: str, runs: dict[int, KnownRun], place: TableFormat) -> None:
        latest = max(runs)
        for epoch, run in sorted(runs.items()):
            is_dead = not run.is_stopped and (epoch < latest or 0 < run.last_seq <= run.died_seq)
            wanted = (f"{run.last_at:%Y-%m-%d}", run.last_seq) if is_dead else None
            if wanted == run.told:
                continue
            name = f"{broker_id}-{epoch}{DIED_SUFFIX}"
            if wanted is not None:
                place.write(f"{GAPS}/date={wanted[0]}", name, _row(broker_id, epoch, run))
            if run.told is not None and (wanted is None or wanted[0] != run.told[0]):
                place.remove(f"{GAPS}/date={run.told[0]}", name)
            run.told = wanted

    def _forget(self) -> None:
        for broker in self._brokers.values():
            for epoch in sorted(broker.runs)[:-MAX_RUNS]:
                del broker.runs[epoch]
                broker.forgotten = epoch
        if len(self._brokers) > MAX_BROKERS:
            silent = sorted(self._brokers, key=lambda name: _last_at(self._brokers[name]))
            for broker_id in silent[: len(self._brokers) - MAX_BROKERS]:
                del self._brokers[broker_id]


def _last_at(broker: Broker) -> datetime:
    return max(run.last_at for run in broker.runs.values())


def _row(broker_id: str, epoch: int, run: KnownRun) -> memoryview:
    last_seq = run.last_seq - 1 if run.died_seq == run.last_seq else run.last_seq  # that the broker told itself
    detail = (
        f"broker {run.name} ended without BrokerStopped; its last record is {last_seq}, and at most its last "
        "20 ms of single requests and its last interval of flow records are missing"
    )
    row = gap_row(run.last_at, (broker_id, run.name, epoch), (last_seq + 1, 0), BROKER_DIED, detail)
    return table_bytes(GAPS, pa.Table.from_pylist([row], table_schema(GAPS)))
