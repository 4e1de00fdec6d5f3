"""An events folder with real writers of several runs of brokers, and what a reader must have read of it."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from broker.events import BROKER_DIED
from spark_sink.data_source.options import Offsets, options_of
from spark_sink.data_source.reader import EventReader
from spark_sink.event_files.frames import Header
from spark_sink.schema import FLOWS, LIFECYCLES, REQUESTS
from spark_sink.writer.machine import Writer
from tests.spark_sink.records import HEADER, WALL_S, Event, begun, definition, events, request, rows_frame

STREAM = f"{HEADER.broker_id}-{HEADER.epoch}"

Name = tuple[str, int, int]  # broker id, epoch, seq: of a record in all the world


class Run:
    """One run of a broker: its records, and the writer that has them now."""

    def __init__(self, folder: Path, header: Header, seed: int = 1) -> None:
        self.folder = folder
        self.header = header
        self.stream = f"{header.broker_id}-{header.epoch}"
        self.names: dict[str, list[Name]] = {FLOWS: [], LIFECYCLES: [], REQUESTS: []}
        self._rng = random.Random(seed)
        self._frames = 0
        self._seq = 0
        self._now = 0.0
        self.is_dead = False
        self._writer = self._start()

    def _start(self) -> Writer:
        header = msgspec.structs.replace(self.header, first_frame=self._frames + 1)
        return begun(self.folder, header, self._now, say=lambda _: None)

    def take(self, count: int) -> None:
        """A frame of flows, lifecycle events and requests, in the broker's order."""
        records = events(self._rng.randint(0, 10**9), count, first_seq=self._seq + 1)
        rows: list[Any] = [record.row() for record in records]
        for record in records:
            self._add(LIFECYCLES if record.seq % 10 == 0 else FLOWS, record.seq)
        self._seq += count
        rows.append(definition(1))
        for _ in range(count // 2):
            self._seq += 1
            rows.append(request(self._rng, self._seq, 1))
            self._add(REQUESTS, self._seq)
        self._frames += 1
        self._writer.take(msgspec.msgpack.encode(rows), self._now, WALL_S)

    def say(self, records: list[Event]) -> None:
        """These records, in a frame."""
        self._frames += 1
        self._writer.take(rows_frame(records), self._now, WALL_S)

    def roll(self) -> None:
        """A second passes: what is in the log becomes segments."""
        self._now += 1.0
        self._writer.tick(self._now, WALL_S)

    def seal(self, count: int) -> None:
        """A frame, and a second."""
        self.take(count)
        self.roll()

    def kill(self) -> None:
        """The writer is killed, and another one takes over."""
        self._unlock()
        self._writer = self._start()

    def abandon(self) -> None:
        """The broker and its writer are killed; what is left is a log that nobody has locked."""
        self.is_dead = True
        self._unlock()

    def _unlock(self) -> None:
        for closed in self._writer._closed:
            self._writer._disk.close(closed.handle)
        if self._writer._wal is not None:
            self._writer._disk.close(self._writer._wal.handle)

    def _add(self, source: str, seq: int) -> None:
        self.names[source].append((self.header.broker_id, self.header.epoch, seq))


def run(folder: Path, epoch: int = HEADER.epoch, broker: int = 1) -> Run:
    """A new run of the broker with this number."""
    broker_id = f"7f3a0000-0000-4000-8000-{broker:012d}"
    return Run(folder, Header(broker_id=broker_id, broker_name=f"b{broker}", epoch=epoch), seed=broker + epoch)


def reader_of(folder: Path, source: str = FLOWS, **options: str) -> EventReader:
    return EventReader(options_of({"source": source, "path": str(folder), **options}))


def names_of(reader: EventReader, start: Offsets, end: Offsets) -> list[Name]:
    """What is read between two offsets, as Spark does it: parts are planned here and read there."""
    return [name for part in reader.parts(start, end) for name in read_part(reader, part)]


def read_part(reader: EventReader, part: Any) -> list[Name]:
    found: list[Name] = []
    for batch in reader.read(part):
        columns = (batch[name].to_pylist() for name in ("broker_id", "epoch", "seq"))
        found += zip(*columns, strict=True)
    return found


def segments(folder: Path, source: str = FLOWS) -> list[Path]:
    """In the folder of the source, by name."""
    return sorted((folder / source).glob("*.parquet"))


def deaths(folder: Path, source: str) -> list[Name]:
    """Of runs that ended without BrokerStopped: the event that their writers sealed, wherever the segment is now."""
    files = [path for path in folder.rglob("*.parquet") if path.parent.name == source == LIFECYCLES]
    rows = [row for path in files for row in pq.read_table(path).to_pylist() if row["kind"] == BROKER_DIED]
    return [(row["broker_id"], row["epoch"], row["seq"]) for row in rows]


def archive(folder: Path, source: str, path: Path) -> None:
    """As Spark's cleanSource=archive moves a segment that it has read."""
    target = folder / "_archive" / "var" / "events" / source / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
