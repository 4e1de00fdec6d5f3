"""Which segments the tables are made of, so that a copy of one under another number counts nothing (D-71).

    <tables>/_checkpoints/known/2026-11-20T08     those whose first record is of that hour, in MessagePack:
                                                  source, stream and columns -> seq of the first record -> number, rows

A record is named by its broker, epoch and seq, so two segments with the same first record and as many rows hold the
same ones. One with its own number there is of a batch that is repeated. Learnt last, when all else of a batch is
published; grows with the tables, some ten bytes for a segment, and goes with them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from spark_sink.event_files.layout import parts_of
from spark_sink.pipeline.filesystems import FileSystem
from spark_sink.pipeline.progress import read_state
from spark_sink.pipeline.segments import BadFile, GoodFile
from spark_sink.tables import CHECKPOINTS

KNOWN: Final = "known"

Hour = dict[str, dict[int, tuple[int, int]]]


class Known:
    """All of one folder of tables, as far as one batch asks."""

    def __init__(self, tables: FileSystem) -> None:
        self._tables: Final = tables
        self._hours: Final[dict[str, Hour]] = {}  # as they are in the tables, by name

    def judge(self, files: Iterable[GoodFile | BadFile]) -> list[GoodFile | BadFile]:
        """The files in their order; those that are copies, also of one another, are bad. OSError; SinkError: what was
        learnt cannot be read."""
        own: dict[tuple[str, int, int], int] = {}  # of this batch
        judged: list[GoodFile | BadFile] = []
        for file in files:
            original = self._find_original(file, own) if isinstance(file, GoodFile) and file.rows else None
            if original is not None:
                why = f"its records are those of number {original}, which was read: it is a copy and is not counted"
                file = BadFile(file.file, why)
            judged.append(file)
        return judged

    def has(self, file: GoodFile) -> bool:
        """Was it published under its own number? OSError; SinkError as above."""
        return self._find(file) == (parts_of(file.name)[1], file.rows)

    def _find_original(self, file: GoodFile, own: dict[tuple[str, int, int], int]) -> int | None:
        """The number under which these records were read before, or in this batch; None: under no other one."""
        number, known = parts_of(file.name)[1], self._find(file)
        if known is not None and known[0] != number and known[1] == file.rows:
            return known[0]
        first = own.setdefault((_key_of(file), file.first_seq, file.rows), number)
        return first if first != number else None

    def learn(self, files: Sequence[GoodFile]) -> None:
        """These were published. OSError: perhaps not all is learnt; SinkError as above."""
        changed = set()
        for file in files:
            if file.rows:
                hour = _hour_of(file)
                self._hour(hour).setdefault(_key_of(file), {})[file.first_seq] = (parts_of(file.name)[1], file.rows)
                changed.add(hour)
        for hour in sorted(changed):
            self._tables.write(f"{CHECKPOINTS}/{KNOWN}", hour, msgspec.msgpack.encode(self._hours[hour]))

    def _find(self, file: GoodFile) -> tuple[int, int] | None:
        """Number and rows of the segment with the same first record that was published; None: there is none."""
        return self._hour(_hour_of(file)).get(_key_of(file), {}).get(file.first_seq)

    def _hour(self, name: str) -> Hour:
        if name not in self._hours:
            cure = "; remove it, and copies of segments of that hour are counted"
            decoder = msgspec.msgpack.Decoder(Hour)
            self._hours[name] = read_state(self._tables, f"{KNOWN}/{name}", decoder.decode, cure) or {}
        return self._hours[name]


def _hour_of(file: GoodFile) -> str:
    return f"{file.first_at:%Y-%m-%dT%H}"


def _key_of(file: GoodFile) -> str:
    return f"{file.source}/{file.broker_id}-{file.epoch}/{file.columns:08x}"
