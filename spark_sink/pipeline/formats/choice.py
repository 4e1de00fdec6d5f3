"""Which format the tables of a folder have: the first start decides, and it is kept beside the checkpoint."""

from typing import Final

from spark_sink.errors import BadFolder
from spark_sink.pipeline import DELTA, FORMATS, PARQUET
from spark_sink.pipeline.filesystems import FileSystem, LocalFileSystem
from spark_sink.pipeline.formats.delta import DeltaTables
from spark_sink.pipeline.formats.plain import PlainTables
from spark_sink.tables import CHECKPOINTS

FORMAT: Final = "format"

TableFormat = PlainTables | DeltaTables


def find_format(tables: FileSystem) -> str | None:
    """What these tables are; None: there are none yet. OSError; BadFolder: a newer version made them."""
    try:
        found = tables.read(f"{CHECKPOINTS}/{FORMAT}").decode(errors="replace")
    except FileNotFoundError:
        is_older = any(name[0] != "." for name in tables.names(CHECKPOINTS))  # nobody wrote it before there was Delta
        return PARQUET if is_older else None
    if found not in FORMATS:
        raise BadFolder(f"the tables in {tables.root} are of the format {found}, which this version does not know")
    return found


def choose_format(tables: FileSystem, wanted: str | None) -> str:
    """What these tables are or will be. OSError; BadFolder; MissingPart.

    `wanted`: what somebody has asked for; None: whatever they are."""
    found = find_format(tables)
    if wanted is not None and found not in (None, wanted):
        raise BadFolder(
            f"the tables in {tables.root} are of the format {found} and not {wanted}: leave out --format, or make "
            "tables anew in another folder"
        )
    chosen = found or wanted or PARQUET
    if chosen == DELTA:
        DeltaTables.check(tables)
    return chosen


def format_of(tables: FileSystem) -> TableFormat:
    """What publishes files of these tables. OSError; BadFolder; MissingPart."""
    if find_format(tables) != DELTA:
        return PlainTables(tables)
    DeltaTables.check(tables)
    assert isinstance(tables, LocalFileSystem)  # else `check` has refused it
    return DeltaTables(tables)
