"""The log of a table of Delta, `_delta_log`: which files are in the table. Written and read with delta-rs, an extra."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from spark_sink.errors import BadFolder, MissingPart, first_line

LOG: Final = "_delta_log"
DATE: Final = "date"  # the column that tables of Delta are partitioned by; files do not have it


def library() -> Any:
    """The package `deltalake`. MissingPart: it is not installed."""
    try:
        import deltalake  # optional: the extra delta
        import deltalake.exceptions
        import deltalake.transaction
    except ImportError as error:
        raise MissingPart('tables of Delta need deltalake: pip install "rsocket-broker[delta]"') from error
    return deltalake


def open_log(folder: Path) -> Any:
    """The newest version of a table, a `DeltaTable`; None: nobody has made one here. BadFolder; MissingPart."""
    delta = library()
    check_path(folder)
    try:
        return delta.DeltaTable(str(folder))
    except delta.exceptions.TableNotFoundError:
        return None
    except delta.exceptions.DeltaError as error:
        raise BadFolder(f"the log {folder / LOG} cannot be read: {first_line(error)}") from error


def check_path(folder: Path) -> None:
    """BadFolder: delta-rs 1.6 takes a % for the begin of an escape, and would read and write elsewhere."""
    if "%" in str(folder.absolute()):
        raise BadFolder(f"tables of Delta cannot be in {folder}: the library takes no % in a path")


def names_in(log: Any) -> list[str]:
    """The files of that version, `date=2026-11-20/<name>`."""
    return [unquote(path.as_py()) for path in log.get_add_actions().column("path")]


def table_paths(folder: Path) -> list[Path]:
    """The files of a table: those that its log names or, where it has none, all that lie there. BadFolder;
    MissingPart."""
    if not (folder / LOG).is_dir():
        return list(folder.glob(f"{DATE}=*/[!._]*.parquet"))
    log = open_log(folder)
    return [] if log is None else [folder / name for name in names_in(log)]
