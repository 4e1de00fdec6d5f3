"""Many small files of a finished day become few, and partials with the same keys one row.

How the new files take the place of the old ones is up to the format of the tables (`formats`). A batch that is not done
yet may be repeated, so its files are left alone. A pipeline may run meanwhile: both take the lock `_publishing` while
they change folders.
"""

import contextlib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from spark_sink.columns import TEXT
from spark_sink.errors import BadFolder, SinkError
from spark_sink.event_files.layout import SUFFIX
from spark_sink.pipeline.filesystems import FileSystem
from spark_sink.pipeline.formats.choice import TableFormat, format_of
from spark_sink.pipeline.formats.plain import WORK, finish
from spark_sink.pipeline.merging import merged
from spark_sink.pipeline.progress import read_progress
from spark_sink.publishing import table_bytes
from spark_sink.tables import CHECKPOINTS, COLUMNS, DIED_SUFFIX, OTHERS, PARTIALS, ROLL_UPS, check_names

FILE_ROWS: Final = 250_000  # that a new file is made of at most; up to 200 MB of memory, some MB of file
FOOTER_BYTES: Final = 1 << 20  # what is read of a file to know how many rows it has: one of ours has some KB

_OUR_NAME: Final = re.compile(r"compact-(\d{6,})\.parquet")
_BATCH_NAME: Final = re.compile(r"batch-(\d{10,})-")
_PARTIALS: Final = {partial.name: partial for partial in (*PARTIALS, *ROLL_UPS, *OTHERS)}


class Compacted(msgspec.Struct):
    """What a compaction has done."""

    days: int = 0  # of one table each
    files_before: int = 0
    files_after: int = 0


class Engine(Protocol):
    """What reads and merges files."""

    def merged(self, tables: FileSystem, folder: str, groups: Sequence[Sequence[str]]) -> Iterator[Any]:
        """Of the files of each group in a folder of tables, the bytes of one. OSError; SinkError."""


def compact(
    tables: FileSystem, engine: Engine, before: str, *, since: str = "", least: int = 2, without: Collection[str] = ()
) -> Compacted:
    """All days before this one, "2026-11-20", and from `since` on, of all tables but those of `without`. OSError,
    SinkError: what was done is done, the rest is as it was.

    `least`: files of about one size are merged when there are so many."""
    if not tables.exists(CHECKPOINTS):  # or nobody knows which files will never be written again
        raise BadFolder(f"{tables.root} has no checkpoint: are these the tables of a pipeline?")
    did = Compacted()
    with tables.locked("_compacting", f"another compaction works in {tables.root}"):
        with publishing(tables):
            finish(tables)
        place = format_of(tables)
        for folder in place.folders():
            table, _, day = folder.partition("/date=")
            if since <= day < before and table not in without:
                _compact_day(tables, place, engine, folder, least, did)
        tables.remove(WORK)
        with publishing(tables):
            place.clean()
    return did


def finish_if_alone(tables: FileSystem) -> None:
    """What a killed compaction has left, at the start of a pipeline; while one works nothing is to be finished."""
    with contextlib.suppress(BadFolder), tables.locked("_compacting", "a compaction works"), publishing(tables):
        finish(tables)


def publishing(tables: FileSystem) -> contextlib.AbstractContextManager[None]:
    """Nobody else changes folders of these tables meanwhile. Waits for who does; that takes milliseconds."""
    return tables.locked("_publishing")


def _compact_day(
    tables: FileSystem, place: TableFormat, engine: Engine, folder: str, least: int, did: Compacted
) -> None:
    names = place.names(folder)
    if len(names) < least:
        return
    groups = _groups(tables, folder, _final(tables, names), least)
    if not groups:
        return
    taken = (int(match[1]) for name in tables.names(folder) if (match := _OUR_NAME.fullmatch(name)))
    first = max(taken, default=0) + 1
    new = [f"compact-{number:06d}{SUFFIX}" for number in range(first, first + len(groups))]
    old = {name for group in groups for name in group}
    work = f"{WORK}/{folder}"
    for name, content in zip(new, engine.merged(tables, folder, groups), strict=True):
        tables.write(work, name, content)
    with publishing(tables):
        if not place.replace(folder, work, new, old):
            return  # the next time
    did.days += 1
    did.files_before += len(names)
    did.files_after += len(names) - len(old) + len(new)


def _final(tables: FileSystem, names: Sequence[str]) -> list[str]:
    """Those of a day's files that no batch writes again, and nobody removes; a batch may have begun since the day
    before, and may be repeated."""
    progress = read_progress(tables)
    again = set() if progress.is_done else {file.rpartition("/")[2] for file in progress.files}

    def is_final(name: str) -> bool:
        match = _BATCH_NAME.match(name)
        if match is not None:
            return int(match[1]) <= progress.done
        return name.endswith(SUFFIX) and not name.endswith(DIED_SUFFIX) and name not in again

    return list(filter(is_final, names))


def _groups(tables: FileSystem, folder: str, names: Sequence[str], least: int) -> list[list[str]]:
    """Files that become one, in the order of their names. SinkError: a file cannot be read."""
    sizes: dict[int, list[tuple[str, int]]] = {}  # files of about one size, or of any
    for name in names:
        file = tables.file(f"{folder}/{name}")
        try:
            metadata = pq.read_metadata(pa.BufferReader(tables.content(file, FOOTER_BYTES)))
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
