"""What tests of batches share: disks that fail at any step, events of two days, what the tables say."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from broker.events import (
    LifecycleEvent,
)
from spark_sink.event_files.layout import Disk
from spark_sink.tables import GAPS, read_table
from tests.spark_sink.pipeline.folders import (
    BEFORE_MIDNIGHT_MS,
    seal,
    seal_frames,
)
from tests.spark_sink.records import HEADER, NOON_MS, Event, definition, events, request

DAY_MS = 86_400_000
OTHER = msgspec.structs.replace(HEADER, broker_id="8e4b0000-0000-4000-8000-000000000002", broker_name="two")


def seal_requests(folder: Path, seqs: range, at_ms: int = NOON_MS) -> None:
    dice = random.Random(seqs.start)
    rows: list[Any] = [definition(flow) for flow in (1, 2)]
    rows += [request(dice, seq, dice.randint(1, 2), at_ms + (seq - seqs.start) * 1000) for seq in seqs]
    seal_frames(folder, [msgspec.msgpack.encode(rows)])


def told(seq: int, kind: int, at_ms: int = NOON_MS, **fields: Any) -> LifecycleEvent:
    return LifecycleEvent(kind, seq, at_ms, **fields)


def gaps(tables: Path) -> list[tuple[str, str, int, int, int]]:
    rows = read_table(tables, GAPS).to_pylist()
    return sorted((row["reason"], row["broker_id"], row["epoch"], row["first_seq"], row["records"]) for row in rows)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob("*/date=*/*"))


class StoppingDisk(Disk):
    """Its step number `stop_at` is the last thing that happens: `end` is called in its place, or after it."""

    def __init__(self, stop_at: int, end: Callable[[], None]) -> None:
        self.steps = 0
        self._stop_at = stop_at
        self._end = end

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self._stop_at:
            self._end()

    def write_synced(self, path: Path, data: bytes | memoryview) -> None:
        super().write_synced(path, data[: len(data) // 2])
        self._step()
        super().write_synced(path, data)

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)
        self._step()

    def sync_folder(self, folder: Path) -> None:
        self._step()
        super().sync_folder(folder)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)


class Killed(BaseException):
    """Nothing that is not on the disk yet will be."""


def killed(steps: int, work: Callable[[Disk], object]) -> bool:
    """Do it until this step; False: it was done before."""

    def kill() -> None:
        raise Killed

    try:
        work(StoppingDisk(steps, kill))
    except Killed:
        return True
    return False


def two_days(folder: Path) -> list[Event]:
    records = events(5, 60, BEFORE_MIDNIGHT_MS)
    seal(folder, records, each=30)
    seal_requests(folder, range(1000, 1100), BEFORE_MIDNIGHT_MS + 50_000)  # 100 s around midnight
    return records
