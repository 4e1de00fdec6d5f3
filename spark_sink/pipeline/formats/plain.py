"""Tables that are plain files of Parquet: a file is in its table when it lies in the folder.

Files take the place of others in a new folder of the day, beside the tables, which has links to all that stays. It is
exchanged with the old one in one step of the kernel (renameat2): a reader finds the old files or the new ones, never
both and never none. A crash before or after that leaves a folder that nobody reads, which the next compaction removes.

Where folders cannot be exchanged (Hadoop, some file systems) an intent is written first, then the new files get their
names, then the old ones are removed. A crash after the intent is carried out to its end by whoever comes next, also by
a pipeline that starts; for the moment in between a reader may find both, and nobody may trust a sum read just then.
"""

import ctypes
import errno
import os
from collections.abc import Collection
from typing import Any, Final

import msgspec

from spark_sink.event_files.layout import SUFFIX
from spark_sink.pipeline.filesystems import FileSystem, LocalFileSystem
from spark_sink.tables import day_folders

WORK: Final = "_compaction"  # folder beside the tables: new folders of days, and intents
INTENT_SUFFIX: Final = ".json"

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


class Intent(msgspec.Struct):
    """Names in one folder: `new` are written below `WORK`, `old` are what they are made of."""

    folder: str
    new: list[str]
    old: list[str]


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
        begin = batch_name(self._again, 0).removesuffix(f"0{SUFFIX}")
        for folder in self.folders() if self._again else ():
            for name in self._tables.names(folder):
                if name.startswith(begin) and f"{folder}/{name}" not in self._written:
                    self._tables.remove(f"{folder}/{name}")

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

    def replace(self, folder: str, work: str, new: Collection[str], old: Collection[str]) -> bool:
        """Files in the folder `work` take the place of others; what they say together is the same. True: it is done."""
        tables = self._tables
        if isinstance(tables, LocalFileSystem):
            kept = [name for name in self.names(folder) if name not in old]  # and what came meanwhile
            for name in kept:
                tables.take(work, name, tables, tables.file(f"{folder}/{name}"))
            tables.sync(work)
            if exchange(tables.file(work), tables.file(folder)):
                tables.sync(folder.rpartition("/")[0])
                tables.remove(work)
                return True
            for name in kept:
                tables.remove(f"{work}/{name}")
        name = f"{folder.replace('/', '.')}{INTENT_SUFFIX}"
        tables.write(WORK, name, msgspec.json.encode(Intent(folder, sorted(new), sorted(old))))
        _carry_out(tables, name)
        return True

    def clean(self) -> None:
        """What was removed is gone."""


def finish(tables: FileSystem) -> None:
    """What a killed compaction has left: an intent is carried out, everything else was not begun. OSError."""
    for name in tables.names(WORK):
        if name.endswith(INTENT_SUFFIX) and name[0] != ".":
            _carry_out(tables, name)
    tables.remove(WORK)


def batch_name(number: int, part: int) -> str:
    """Of a file of a table: of one batch and day, in parts."""
    return f"batch-{number:010d}-{part}{SUFFIX}"


def exchange(one: str, other: str) -> bool:
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
