"""Tables of an older version become tables of this one: columns get their new names, roll-ups are made.

An older pipeline remembered what it had read in checkpoints of Spark (`_checkpoints/000001`), which this one does not
read. So it must have ended well: then every segment that it has read is in the archive, or `known` names it. Each step
may be done twice, and the old checkpoint is removed last: a start before that is refused.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spark_sink.errors import BadFolder, SinkError
from spark_sink.pipeline.batch import archived
from spark_sink.pipeline.filesystems import FileSystem
from spark_sink.pipeline.formats.plain import finish
from spark_sink.pipeline.known import Known
from spark_sink.pipeline.merging import merged
from spark_sink.pipeline.progress import Progress, write_progress
from spark_sink.pipeline.rows import in_longer
from spark_sink.pipeline.segments import BadFile, read
from spark_sink.publishing import table_bytes
from spark_sink.schema import COLUMNS as SOURCE_COLUMNS
from spark_sink.tables import CHECKPOINTS, GRAINS, MAKES_TABLES, OLD_NAMES, PARTIALS, Partial, day_folders

ROLL_UP: Final = "upgraded.parquet"  # made of all minutes of a day that were there


class Upgraded(NamedTuple):
    """What was done."""

    renamed_files: int  # that had old names of columns
    days: int  # that have roll-ups now
    archived_segments: int  # that were read, and moved into the archive


def upgrade(events_at: Callable[[str], FileSystem], tables: FileSystem) -> Upgraded:
    """BadFolder: the older pipeline has not ended well, or there is nothing to do. OSError, SinkError: do it again.

    `events_at`: the folder of this name."""
    checkpoints = [f"{CHECKPOINTS}/{name}" for name in tables.names(CHECKPOINTS) if name.isdigit()]
    finish(tables)
    for folder in checkpoints:
        _check_ended(tables, folder)
    renamed = sum(_rename_columns(tables, folder) for folder in day_folders(tables.names))
    if not checkpoints and not renamed:
        raise BadFolder(f"{tables.root} holds no tables of an older version")
    days = moved = 0
    if checkpoints:
        moved = _archive_read(events_at(tables.read(f"{CHECKPOINTS}/events_folder").decode()), tables)
        days = sum(_roll_up(tables, partial) for partial in PARTIALS)
        write_progress(tables, Progress())
        for folder in checkpoints:
            tables.remove(folder)
    return Upgraded(renamed, days, moved)


def _check_ended(tables: FileSystem, folder: str) -> None:
    begun, done = (
        {name for name in tables.names(f"{folder}/{kind}") if name.isdigit()} for kind in ("offsets", "commits")
    )
    if begun - done:
        raise BadFolder(
            f"the pipeline of {tables.root} was killed in a batch: run the older version once more, "
            f"{MAKES_TABLES.format(tables=tables.root)}, and then the upgrade"
        )


def _rename_columns(tables: FileSystem, folder: str) -> int:
    """Gives how many files of a day had old names."""
    count = 0
    for name in (name for name in tables.names(folder) if name[0] not in "._"):
        rows = _rows(tables, f"{folder}/{name}")
        names = [OLD_NAMES.get(column, column) for column in rows.schema.names]
        if names != rows.schema.names:
            tables.write(folder, name, table_bytes(folder.partition("/")[0], rows.rename_columns(names)))
            count += 1
    return count


def _archive_read(events: FileSystem, tables: FileSystem) -> int:
    """Segments that were published and not moved yet; gives how many."""
    known, moved = Known(tables), 0
    for place in [f"{source}/{name}" for source in SOURCE_COLUMNS for name in events.names(source)]:
        file = events.file(place)
        try:
            found = read(file, pa.py_buffer(events.read(place)))
        except (OSError, SinkError):
            continue  # the pipeline tells what is wrong with it
        if not isinstance(found, BadFile) and known.has(found[0]):
            events.move(place, archived(file))
            moved += 1
    return moved


def _roll_up(tables: FileSystem, partial: Partial) -> int:
    """Gives of how many days."""
    folders = [name for name in tables.names(partial.name) if name.startswith("date=")]
    for day in folders:
        rows = pa.schema([]).empty_table()
        for name in (name for name in tables.names(f"{partial.name}/{day}") if name[0] not in "._"):
            more = _rows(tables, f"{partial.name}/{day}/{name}")
            rows = merged(partial, pa.concat_tables([rows, more], promote_options="default"))
        for grain in GRAINS[1:] if rows.num_rows else ():
            longer = partial.rolled_up(grain)
            rows = merged(longer, in_longer(rows, grain))
            tables.write(f"{longer.name}/{day}", ROLL_UP, table_bytes(longer.name, rows))
    return len(folders)


def _rows(tables: FileSystem, name: str) -> Any:
    """SinkError: it cannot be read."""
    try:
        return pq.ParquetFile(pa.BufferReader(tables.read(name))).read(use_threads=False)
    except pa.ArrowException as error:
        raise SinkError(f"{tables.file(name)} cannot be read: {error}") from error
