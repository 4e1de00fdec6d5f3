"""Many small files of a finished day become few, and partials with the same keys one row.

The new folder of a day is made beside the tables, with links to what is not merged, and then exchanged with the old one
in one step of the kernel (renameat2): a reader finds the old files or the new ones, never both and never none. A crash
before or after that leaves a folder that nobody reads, which the next compaction removes.

Where folders cannot be exchanged (Hadoop, some file systems) an intent is written first, then the new files get their
names, then the old ones are removed. A crash after the intent is carried out to its end by whoever comes next, also by
a pipeline that starts; for the moment in between a reader may find both, and nobody may trust a sum read just then.

Of tables of Delta the log says in one commit which files have taken the place of others; the old ones stay a while.

A batch that is not done yet may be repeated, so its files are left alone. A pipeline may run meanwhile: both take the
lock `_publishing` while they change folders.
"""

import contextlib
import ctypes
import errno
import fcntl
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from spark_sink.columns import TEXT
from spark_sink.errors import BadFolder, SinkError
from spark_sink.event_files.layout import SUFFIX
from spark_sink.pipeline.filesystems import FileSystem, LocalFileSystem
from spark_sink.pipeline.formats.choice import TableFormat, format_of
from spark_sink.pipeline.formats.delta import DeltaTables
from spark_sink.pipeline.merging import merged
from spark_sink.pipeline.progress import read_progress
from spark_sink.publishing import table_bytes
from spark_sink.tables import CHECKPOINTS, COLUMNS, DIED_SUFFIX, PARTIALS, ROLL_UPS, check_names

FILE_ROWS: Final = 250_000  # that a new file is made of at most; up to 200 MB of memory, some MB of file
WORK: Final = "_compaction"  # folder beside the tables: new folders of days, and intents
INTENT_SUFFIX: Final = ".json"

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_OUR_NAME: Final = re.compile(r"compact-(\d{6,})\.parquet")
_BATCH_NAME: Final = re.compile(r"batch-(\d{10,})-")
_PARTIALS: Final = {partial.name: partial for partial in (*PARTIALS, *ROLL_UPS)}


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


class Engine(Protocol):
    """What reads and merges files."""

    def merged(self, tables: FileSystem, folder: str, groups: Sequence[Sequence[str]]) -> Iterator[Any]:
        """Of the files of each group in a folder of tables, the bytes of one. OSError; SinkError."""


class Done:
    """Which files will never be written again."""

    def __init__(self, tables: FileSystem) -> None:
        """OSError; SinkError: there is no pipeline's state, so nobody knows."""
        if not tables.exists(CHECKPOINTS):
            raise BadFolder(f"{tables.root} has no checkpoint: are these the tables of a pipeline?")
        progress = read_progress(tables)
        self._done: Final = progress.done
        self._open: Final = {file.rpartition("/")[2] for file in progress.files} if not progress.is_done else set()

    def has(self, name: str) -> bool:
        """No batch writes it again, and nobody removes it."""
        match = _BATCH_NAME.match(name)
        if match is not None:
            return int(match[1]) <= self._done
        return name.endswith(SUFFIX) and not name.endswith(DIED_SUFFIX) and name not in self._open


def compact(
    tables: FileSystem,
    engine: Engine,
    before: str,
    *,
    since: str = "",
    least: int = 2,
    without: Collection[str] = (),
    exchange: Callable[[str, str], bool] | None = None,
) -> Compacted:
    """All days before this one, "2026-11-20", and from `since` on, of all tables but those of `without`. OSError,
    SinkError: what was done is done, the rest is as it was.

    `least`: files of about one size are merged when there are so many. `exchange`: of two folders, by their whole
    names; False: it cannot be done here."""
    Done(tables)  # or nobody knows what is done
    did = Compacted()
    with _lock(tables, "_compacting", "another compaction works in"):
        with publishing(tables):
            finish(tables)
        place = format_of(tables)
        for folder in place.folders():
            table, _, day = folder.partition("/date=")
            if since <= day < before and table not in without:
                _compact_day(tables, place, engine, folder, least, did, exchange or _exchange_of(tables))
        tables.remove(WORK)
        with publishing(tables):
            place.clean()
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


def _compact_day(
    tables: FileSystem,
    place: TableFormat,
    engine: Engine,
    folder: str,
    least: int,
    did: Compacted,
    exchange: Callable[[str, str], bool],
) -> None:
    names = place.names(folder)
    if len(names) < least:
        return
    done = Done(tables)  # only now: a batch may have begun since the folder before, and may be repeated
    groups = _groups(tables, folder, [name for name in names if done.has(name)], least)
    if not groups:
        return
    taken = (int(match[1]) for name in tables.names(folder) if (match := _OUR_NAME.fullmatch(name)))
    first = max(taken, default=0) + 1
    new = {f"compact-{number:06d}{SUFFIX}": group for number, group in enumerate(groups, first)}
    old = {name for group in groups for name in group}
    work = f"{WORK}/{folder}"
    for name, content in zip(new, engine.merged(tables, folder, groups), strict=True):
        tables.write(work, name, content)
    with publishing(tables):
        now = [name for name in tables.names(folder) if name[0] not in "._"]
        if isinstance(place, DeltaTables):
            if not place.replace(folder, work, sorted(new), old):
                return  # the next time
        elif isinstance(tables, LocalFileSystem) and _exchanged(tables, folder, work, sorted(set(now) - old), exchange):
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


def _groups(tables: FileSystem, folder: str, names: Sequence[str], least: int) -> list[list[str]]:
    """Files that become one, in the order of their names. SinkError: a file cannot be read."""
    sizes: dict[int, list[tuple[str, int]]] = {}  # files of about one size, or of any
    for name in names:
        file = tables.file(f"{folder}/{name}")
        try:
            with tables.open(file) as stream:
                metadata = pq.read_metadata(stream)
        except pa.ArrowException as error:
            raise SinkError(f"{file} cannot be read, so its day is not compacted: {error}") from error
        check_names(tables.root, folder.partition("/")[0], metadata.schema.names)  # or old columns would be lost
        rows = metadata.num_rows
        if rows < FILE_ROWS // 2:  # else it is large enough
            sizes.setdefault(int(math.log(rows + 1, least)) if least > 2 else 0, []).append((name, rows))
    groups: list[list[str]] = []
    for files in sizes.values():
        room = 0
        for name, rows in files if len(files) >= least else ():
            if rows > room:
                groups.append([])
                room = FILE_ROWS
            groups[-1].append(name)
            room -= rows
    return [group for group in groups if len(group) > 1]


def merged_bytes(table: str, files: Iterable[pa.Buffer]) -> memoryview:
    """One file of a table with the rows of these, in their order; partials with the same keys become one."""
    texts = [column.name for column in COLUMNS[table] if column.kind == TEXT]
    names = [] if table in _PARTIALS else texts
    parts = [pq.ParquetFile(pa.BufferReader(file), read_dictionary=names).read(use_threads=False) for file in files]
    rows = pa.concat_tables(parts, promote_options="default")
    return table_bytes(table, merged(_PARTIALS[table], rows) if table in _PARTIALS else rows)


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
