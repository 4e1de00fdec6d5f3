"""Many small files of a finished day become few, and partials with the same keys one row.

The new folder of a day is made beside the tables, with links to what is not merged, and then exchanged with the old one
in one step of the kernel (renameat2): a reader finds the old files or the new ones, never both and never none. A crash
before or after that leaves a folder that nobody reads, which the next compaction removes.

Where folders cannot be exchanged (Hadoop, some file systems) an intent is written first, then the new files get their
names, then the old ones are removed. A crash after the intent is carried out to its end by whoever comes next, also by
a pipeline that starts; for the moment in between a reader may find both, and nobody may trust a sum read just then.

A batch that is not done yet may be repeated, so its files are left alone. A pipeline may run meanwhile: both take the
lock `_publishing` while they change folders.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from spark_sink.columns import TEXT
from spark_sink.errors import BadFolder, SinkError
from spark_sink.event_files.layout import SUFFIX
from spark_sink.pipeline.filesystems import FileSystem, LocalFileSystem
from spark_sink.pipeline.merging import merged
from spark_sink.pipeline.runs import DIED_SUFFIX
from spark_sink.pipeline.source_log import SourceLog
from spark_sink.publishing import table_bytes
from spark_sink.tables import CHECKPOINTS, COLUMNS, PARTIALS, TIMES, check_names, day_folders

FILE_ROWS: Final = 1_000_000  # that a new file is made of at most; some 100 MB of memory, 10 MB of file
WORK: Final = "_compaction"  # folder beside the tables: new folders of days, and intents
INTENT_SUFFIX: Final = ".json"

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_OUR_NAME: Final = re.compile(r"compact-(\d{6,})\.parquet")
_BATCH_NAME: Final = re.compile(r"(\d{6,})-(\d{10,})\.parquet")
_PARTIALS: Final = {partial.name: partial for partial in PARTIALS}


class Compacted:
    """What a compaction has done."""

    def __init__(self) -> None:
        self.days = 0  # of one table each
        self.files_before = 0
        self.files_after = 0


class Intent(msgspec.Struct):
    """Names in one folder: `new` are written under hidden names, `old` are what they are made of."""

    folder: str
    new: list[str]
    old: list[str]


class Done:
    """Which files will never be written again."""

    def __init__(self, tables: FileSystem) -> None:
        """OSError; SinkError: there is no checkpoint, so nobody knows."""
        numbers = sorted(int(name) for name in tables.names(CHECKPOINTS) if name.isdigit())
        if not numbers:
            raise BadFolder(f"{tables.root} has no checkpoint: are these the tables of a pipeline?")
        self._generation: Final = numbers[-1]
        folder = f"{CHECKPOINTS}/{self._generation:06d}"
        self._last: Final = max(_numbers(tables.names(f"{folder}/commits")), default=-1)
        offsets = _numbers(tables.names(f"{folder}/offsets"))
        log = SourceLog(tables, folder)
        found = [one for batch_id in offsets if batch_id > self._last for one in log.batch(batch_id)]
        self._open_segments: Final = {one.file.rpartition("/")[2] for one in found}

    def has(self, name: str) -> bool:
        """No batch writes it again, and nobody removes it."""
        match = _BATCH_NAME.fullmatch(name)
        if match is not None:
            return (int(match[1]), int(match[2])) <= (self._generation, self._last)
        return name.endswith(SUFFIX) and not name.endswith(DIED_SUFFIX) and name not in self._open_segments


def compact(tables: FileSystem, before: str, exchange: "Callable[[str, str], bool] | None" = None) -> Compacted:
    """All days before this one, "2026-11-20". OSError, SinkError: what was done is done, the rest is as it was.

    `exchange`: of two folders, by their whole names; False: it cannot be done here."""
    Done(tables)  # or nobody knows what is done
    did = Compacted()
    with _lock(tables, "_compacting", "another compaction works in"):
        with publishing(tables):
            finish(tables)
        for folder in day_folders(tables.names):
            if folder.rpartition("=")[2] < before:
                _compact_day(tables, folder, did, exchange or _exchange_of(tables))
        tables.remove(WORK)
    return did


def finish(tables: FileSystem) -> None:
    """What a killed compaction has left: an intent is carried out, everything else was not begun. OSError."""
    for name in tables.names(WORK):
        if name.endswith(INTENT_SUFFIX) and name[0] != ".":
            _carry_out(tables, name)
    tables.remove(WORK)


def finish_if_alone(tables: FileSystem) -> None:
    """The same, at the start of a pipeline; while a compaction works nothing is to be finished."""
    with contextlib.suppress(BadFolder), _lock(tables, "_compacting", "a compaction works in"), publishing(tables):
        finish(tables)


@contextlib.contextmanager
def publishing(tables: FileSystem) -> Iterator[None]:
    """Nobody else changes folders of these tables meanwhile. Waits for who does; that takes milliseconds."""
    if not isinstance(tables, LocalFileSystem):
        yield  # there is no lock to be had: one machine, please
        return
    with Path(tables.file("_publishing")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compact_day(tables: FileSystem, folder: str, did: Compacted, exchange: Callable[[str, str], bool]) -> None:
    names = [name for name in tables.names(folder) if name[0] not in "._"]
    done = Done(tables)  # only now: a batch may have begun since the folder before, and may be repeated
    groups = _groups(tables, folder, [name for name in names if done.has(name)])
    if not groups:
        return
    number = max((int(match[1]) for name in names if (match := _OUR_NAME.fullmatch(name))), default=0) + 1
    new = {f"compact-{number + place:06d}{SUFFIX}": group for place, group in enumerate(groups)}
    old = {name for group in groups for name in group}
    work = f"{WORK}/{folder}"
    for name, group in new.items():
        tables.write(work, name, _merged_bytes(tables, folder, group))
    with publishing(tables):
        now = [name for name in tables.names(folder) if name[0] not in "._"]
        if isinstance(tables, LocalFileSystem) and _exchanged(tables, folder, work, sorted(set(now) - old), exchange):
            tables.remove(work)
        else:
            intent = Intent(folder, sorted(new), sorted(old))
            name = f"{folder.replace('/', '.')}{INTENT_SUFFIX}"
            tables.write(WORK, name, msgspec.json.encode(intent))
            _carry_out(tables, name)
    did.days += 1
    did.files_before += len(names)
    did.files_after += len(names) - len(old) + len(new)


def _exchanged(
    tables: LocalFileSystem, folder: str, work: str, kept: Sequence[str], exchange: Callable[[str, str], bool]
) -> bool:
    for name in kept:  # what is not merged, and what came meanwhile
        tables.take(work, name, tables, tables.file(f"{folder}/{name}"))
    tables.sync(work)
    if not exchange(tables.file(work), tables.file(folder)):
        for name in kept:
            tables.remove(f"{work}/{name}")
        return False
    tables.sync(folder.rpartition("/")[0])
    return True


def _carry_out(tables: FileSystem, name: str) -> None:
    """Every step may have been done already."""
    intent = msgspec.json.decode(tables.read(f"{WORK}/{name}"), type=Intent)
    for new in intent.new:
        if tables.exists(f"{WORK}/{intent.folder}/{new}"):
            tables.move(f"{WORK}/{intent.folder}/{new}", f"{intent.folder}/{new}")
    tables.sync(intent.folder)
    for old in intent.old:
        tables.remove(f"{intent.folder}/{old}")
    tables.sync(intent.folder)
    tables.remove(f"{WORK}/{name}")


def _groups(tables: FileSystem, folder: str, names: Sequence[str]) -> list[list[str]]:
    """Files that become one, each at least two, in the order of their names. SinkError: a file cannot be read."""
    groups: list[list[str]] = []
    rows = FILE_ROWS
    for name in names:
        file = tables.file(f"{folder}/{name}")
        try:
            with tables.open(file) as stream:
                more = pq.read_metadata(stream).num_rows
        except pa.ArrowException as error:
            raise SinkError(f"{file} cannot be read, so its day is not compacted: {error}") from error
        if more >= FILE_ROWS // 2:
            continue  # large enough
        if rows + more > FILE_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(name)
        rows += more
    return [group for group in groups if len(group) > 1]


def _merged_bytes(tables: FileSystem, folder: str, names: Sequence[str]) -> memoryview:
    table = folder.partition("/")[0]
    texts = [column.name for column in COLUMNS[table] if column.kind == TEXT]
    parts = []
    for name in names:
        with tables.open(tables.file(f"{folder}/{name}")) as stream:
            parts.append(pq.read_table(stream, read_dictionary=[] if table in _PARTIALS else texts))
        check_names(tables.root, table, parts[-1].schema.names)  # or the old columns would be lost
    rows = pa.concat_tables(parts, promote_options="default")
    if table in _PARTIALS:
        return table_bytes(table, merged(_PARTIALS[table], rows))
    return table_bytes(table, rows.sort_by(TIMES[table]))


def _exchange_of(tables: FileSystem) -> Callable[[str, str], bool]:
    return _exchange if isinstance(tables, LocalFileSystem) else lambda _one, _other: False


def _exchange(one: str, other: str) -> bool:
    """Two folders get each other's names in one step. False: this system cannot. OSError."""
    renameat2: Any = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV):
        return False
    raise OSError(number, os.strerror(number), other)


@contextlib.contextmanager
def _lock(tables: FileSystem, name: str, sentence: str) -> Iterator[None]:
    if not isinstance(tables, LocalFileSystem):
        yield
        return
    with Path(tables.file(name)).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadFolder(f"{sentence} {tables.root}") from error
        yield


def _numbers(names: Sequence[str]) -> list[int]:
    return [int(name) for name in names if name.isdigit()]
