"""Tables that are plain files of Parquet: a file is in its table when it lies in the folder."""

from typing import Final

from spark_sink.event_files.layout import SUFFIX
from spark_sink.pipeline.filesystems import FileSystem
from spark_sink.tables import day_folders


class PlainTables:
    """Those of one folder. Every method raises OSError."""

    def __init__(self, tables: FileSystem) -> None:
        self._tables: Final = tables
        self._again = 0  # the batch that is repeated; 0: it is a new one
        self._written: set[str] = set()

    def prepare(self) -> None:
        """There is nothing to make."""

    def begin(self, number: int, *, is_again: bool) -> None:
        """The next files are of this batch."""
        self._again = number if is_again else 0

    def write(self, folder: str, name: str, content: bytes | memoryview) -> None:
        """A file of the batch; replaces one of that name."""
        self._tables.write(folder, name, content)
        self._written.add(f"{folder}/{name}")

    def take(self, folder: str, name: str, source: FileSystem, file: str) -> None:
        """A file of another place, as `LocalFileSystem.take`."""
        self._tables.take(folder, name, source, file)

    def remove(self, folder: str, name: str) -> None:
        """A file of an earlier batch."""
        self._tables.remove(f"{folder}/{name}")

    def commit(self) -> None:
        """The batch is whole: files that only an earlier try of it had are removed."""
        if self._again:
            remove_batch(self._tables, self._again, keep=self._written)

    def folders(self) -> list[str]:
        """`traffic/date=2026-11-20` and so on, sorted."""
        return day_folders(self._tables.names)

    def names(self, folder: str) -> list[str]:
        """Of the files of a day."""
        return [name for name in self._tables.names(folder) if name[0] not in "._"]

    def remove_days(self, folders: list[str]) -> None:
        """With all their files."""
        for folder in folders:
            self._tables.remove(folder)

    def clean(self) -> None:
        """What was removed is gone."""


def remove_batch(tables: FileSystem, number: int, keep: set[str]) -> None:
    """Files of this batch in all tables and days, but for those of `keep` ("traffic/date=…/name")."""
    begin = batch_name(number, 0).removesuffix(f"0{SUFFIX}")
    for folder in day_folders(tables.names):
        for name in tables.names(folder):
            if name.startswith(begin) and f"{folder}/{name}" not in keep:
                tables.remove(f"{folder}/{name}")


def batch_name(number: int, part: int) -> str:
    """Of a file of a table: of one batch and day, in parts."""
    return f"batch-{number:010d}-{part}{SUFFIX}"
