"""Sealed files: how a file comes into a folder so that a reader sees all of it or nothing, and never twice.

    write under a hidden name -> fsync of the file -> rename to its name -> fsync of the folder

Spark, pyarrow and DuckDB pass over names that begin with a dot. A crash before the rename leaves a hidden file, which
`recover` removes; a crash after it leaves a whole file under its final name. Knows nothing of what is in the files.

    <events>/flows/      <broker>-<epoch>-<number>.parquet      one segment; the names sort by number
    <events>/lifecycle/  <broker>-<epoch>-<number>.parquet
    <events>/_tmp/       <broker>-<epoch>-<number>.wal          the log that becomes the segments of its number
    <events>/_archive/…/<source>/                               segments that a reader has moved
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from spark_sink.errors import NoFile

SUFFIX: Final = ".parquet"
STALE_S: Final = 3600.0  # a hidden file of somebody else that nobody touched for so long has lost its writer

ARCHIVE: Final = "_archive"  # below the events folder: where a reader may put segments that it has read

# Event files, and tables that are made of them, tell who asks for what: they are for a user and a group, nobody else.
FILE_MODE: Final = 0o640
FOLDER_MODE: Final = 0o750

LOG_FOLDER: Final = "_tmp"  # on the file system of the segments; readers of segments pass over it
LOG_SUFFIX: Final = ".wal"

# Somebody may have put something else in the place of a file: opening it must neither wait nor lead elsewhere.
_CAREFULLY: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_STEM: Final = re.compile(r"([^.].*-\d+)-(\d{10}|[1-9]\d{10,17})")


class Disk:
    """What the writer does to a file system; a test passes one that fails where it wants. All raise OSError."""

    def make_folder(self, folder: Path) -> None:
        """It is there afterwards, and so are those that it is in; one that was there stays as it is."""
        try:
            folder.mkdir(FOLDER_MODE, exist_ok=True)
        except FileNotFoundError:
            self.make_folder(folder.parent)
            folder.mkdir(FOLDER_MODE, exist_ok=True)

    def write_synced(self, path: Path, data: bytes | memoryview) -> None:
        """Create or empty the file, write all of it, wait until it is on the disk."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CAREFULLY, FILE_MODE)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        """In one step, replacing what has the new name."""
        os.replace(old, new)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in the folder are on the disk."""
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def remove(self, path: Path) -> None:
        """Gone afterwards, and no error when it was gone before."""
        path.unlink(missing_ok=True)

    def create(self, path: Path) -> int:
        """A handle of a new file, locked for as long as it is open. FileExistsError; BlockingIOError: somebody was
        faster with the lock."""
        self.make_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        if not _lock(handle):
            os.close(handle)
            raise BlockingIOError(f"{path} is locked by another process")
        return handle

    def lock(self, path: Path) -> int | None:
        """A handle of a file that nobody else has locked; None: somebody has, or it is gone, or not ours to open."""
        try:
            handle = os.open(path, os.O_RDWR | _CAREFULLY)
        except OSError:
            return None
        if not _lock(handle):
            os.close(handle)
            return None
        return handle

    def append(self, handle: int, data: bytes) -> None:
        """At the end of the file; after an error some of it may be there."""
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]

    def truncate(self, handle: int, size: int) -> None:
        """Cut off what is beyond `size` bytes."""
        os.ftruncate(handle, size)

    def sync_data(self, handle: int) -> None:
        """Wait until what was appended is on the disk."""
        os.fdatasync(handle)

    def close(self, handle: int) -> None:
        """Its lock is gone with it."""
        os.close(handle)

    def free_bytes(self, folder: Path) -> int:
        """Bytes that are free in its file system for who is not root; the folder may not be there yet."""
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        state = os.statvfs(folder)
        return state.f_bavail * state.f_frsize


def check_file(path: Path | str, *, follows_links: bool = False) -> None:
    """NoFile: it is something else; a symbolic link is something else, too, unless links are followed. OSError."""
    _check_mode(os.stat(path, follow_symlinks=follows_links).st_mode)


def open_file(path: Path | str) -> BinaryIO:
    """A file, to be read and sought in. NoFile: it is something else, and nobody has waited for it. OSError."""
    check_file(path)
    handle = os.open(path, os.O_RDONLY | _CAREFULLY)
    try:
        _check_mode(os.fstat(handle).st_mode)  # it may have been exchanged meanwhile
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def is_file(path: Path | str) -> bool:
    """There is a file of this name, and nothing else."""
    with contextlib.suppress(NoFile, OSError):
        check_file(path)
        return True
    return False


def why_foreign(path: Path) -> str:
    """Of something in a folder of segments that is none, in a sentence without its subject."""
    try:
        check_file(path)
    except NoFile as error:
        return str(error)
    except OSError:  # it is gone
        return "it is no segment"
    return "it is not named like a segment"


def segment_name(broker_id: str, epoch: int, number: int) -> str:
    """`<broker>-<epoch>-<number>.parquet`, the number in ten digits at least."""
    return f"{broker_id}-{epoch}-{number:010d}{SUFFIX}"


def wal_name(broker_id: str, epoch: int, number: int) -> str:
    """`<broker>-<epoch>-<number>.wal`, the number in ten digits at least."""
    return f"{broker_id}-{epoch}-{number:010d}{LOG_SUFFIX}"


def seal(folder: Path, name: str, data: bytes | memoryview, disk: Disk) -> Path:
    """Publish `data` as `folder/name`. OSError: it is not there (or, after a failed fsync of the folder, perhaps is:
    sealing the same name again is always right)."""
    hidden = folder / f".{name}"
    path = folder / name
    try:
        disk.make_folder(folder)
        disk.write_synced(hidden, data)
        disk.rename(hidden, path)
    except OSError:
        with contextlib.suppress(OSError):  # `recover` of the next writer will
            disk.remove(hidden)  # a full disk wants its half file back
        raise
    disk.sync_folder(folder)
    return path


def recover(folder: Path, owner: str, now_s: float, disk: Disk) -> list[str]:
    """Remove what crashed writers left: hidden files whose name begins with `owner`, and anybody's after `STALE_S`.

    `now_s` is wall time, seconds since the epoch. Gives the removed names, sorted; a missing folder holds none."""
    removed = []
    for path in sorted(folder.glob(f".*{SUFFIX}")):
        try:
            is_stale = now_s - path.stat().st_mtime > STALE_S
            if path.name.startswith(f".{owner}") or is_stale:
                disk.remove(path)
                removed.append(path.name)
        except OSError:
            continue  # it went away meanwhile, or cannot be removed: then sealing over it will tell
    return removed


def parts_of(name: str, suffix: str = SUFFIX) -> tuple[str, int]:
    """`<broker>-<epoch>` and the number in the name of a segment, or log; "" and 0: it is none, or hidden."""
    match = _STEM.fullmatch(name.removesuffix(suffix)) if name.endswith(suffix) else None
    return (match[1], int(match[2])) if match is not None else ("", 0)


def origin_of(stream: str) -> tuple[str, int]:
    """The broker's id and the epoch in `<broker>-<epoch>`."""
    broker_id, _, epoch = stream.rpartition("-")
    return broker_id, int(epoch)


def paths_for_spark(folder: Path, without: Collection[Path] = ()) -> list[Path]:
    """What Spark is to read of a folder of segments: the folder, or its files one by one where something else is among
    them, which Spark would wait for, or follow; or one that it is to do without."""
    with os.scandir(folder) as entries:
        found = [entry for entry in entries if entry.name.endswith(SUFFIX) and entry.name[0] not in "._"]
    files = [folder / entry.name for entry in found if entry.is_file(follow_symlinks=False)]
    files = [path for path in files if path not in without]
    return [folder] if len(files) == len(found) else sorted(files)


def find_segment(events: Path, source: str, name: str) -> Path | None:
    """Where it is: in its folder, or in the archive where its reader put it, links not followed; None: nowhere."""
    archived = (Path(folder) for folder, _, _ in os.walk(events / ARCHIVE) if os.path.basename(folder) == source)
    return next((folder / name for folder in chain((events / source,), archived) if is_file(folder / name)), None)


def _check_mode(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise NoFile(f"it is {_KINDS.get(stat.S_IFMT(mode), 'something else')} and not a file")


def _lock(handle: int) -> bool:
    """Without waiting. True also where a file system knows no locks: then names alone keep writers apart."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        return error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
    return os.fstat(handle).st_nlink > 0  # it was not removed while we waited
