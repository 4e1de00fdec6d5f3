"""Where event files are: a local folder, a file system of pyarrow, or the admin API of brokers. A store lists files and
gives their bytes; what is in them it does not know.

    /var/lib/broker/events      file:///…      s3://bucket/events      hdfs://…      http://broker:7070

A store travels to Spark's workers by pickle, so it holds no handle.
"""

import errno
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
from pyarrow import fs

from spark_sink.errors import BadFolder
from spark_sink.event_files.folder import EventFile, Listing, list_folder
from spark_sink.event_files.layout import ARCHIVE, LOG_FOLDER, open_file

MAX_FILE_BYTES: Final = 1 << 30  # of one file, which is read whole; events.roll_bytes makes some MiB


class Store(Protocol):
    """Gives files."""

    @property
    def name(self) -> str:
        """For sentences: the path or URL."""

    def list(self, source: str, *, has_archive: bool) -> Listing:
        """Segments of this source and all logs; those of the archive only if asked for. BadFolder, OSError."""

    def read(self, file: EventFile, last: int | None = None) -> bytes:
        """All of a file, or so many bytes of its end. FileNotFoundError: it is not there any more; other OSError: it
        cannot be read."""

    def size(self, file: EventFile) -> int:
        """Bytes. Errors as above."""

    def is_mirror(self) -> bool:
        """Do segments come in any order, because nobody writes logs there? OSError."""

    def arrived_at(self, file: EventFile) -> float:
        """When a segment came into the folder of a mirror, epoch seconds. Errors as of `read`."""


class _Folder:
    """A folder whose files can be opened."""

    def _open(self, file: EventFile) -> Any:
        """A file of pyarrow."""
        raise NotImplementedError

    def read(self, file: EventFile, last: int | None = None) -> bytes:
        with self._open(file) as opened:
            size = opened.size()
            length = check_size(file, size) if last is None else min(last, size)
            opened.seek(size - length)
            data: bytes = opened.read(length)
            return data

    def size(self, file: EventFile) -> int:
        with self._open(file) as opened:
            return int(opened.size())


class LocalStore(_Folder):
    """A folder of this machine, or one that is mounted."""

    def __init__(self, events: Path) -> None:
        self.events: Final = events
        self.name: Final = str(events)

    def list(self, source: str, *, has_archive: bool) -> Listing:
        return list_folder(self.events, (source,), has_archive=has_archive)

    def is_mirror(self) -> bool:
        return not (self.events / LOG_FOLDER).is_dir()

    def arrived_at(self, file: EventFile) -> float:
        """Its last modification is that of the original; what it got its name by is not."""
        return (self.events / file.place).stat().st_ctime

    def _open(self, file: EventFile) -> Any:
        return pa.PythonFile(open_file(self.events / file.place), "r")


class ArrowStore(_Folder):
    """A folder of a file system that pyarrow knows."""

    def __init__(self, uri: str) -> None:
        """BadFolder: no URI that pyarrow knows."""
        self.name: Final = uri
        try:
            _, path = fs.FileSystem.from_uri(uri)
        except (ValueError, OSError) as error:
            raise BadFolder(f"{uri} is no folder that pyarrow.fs knows: {error}") from error
        self._path: Final = path.rstrip("/")

    def list(self, source: str, *, has_archive: bool) -> Listing:
        filesystem, listing = self._filesystem(), Listing()
        for folder in (LOG_FOLDER, source, *([ARCHIVE] if has_archive else [])):  # in this order, see `folder`
            selector = fs.FileSelector(f"{self._path}/{folder}", allow_not_found=True, recursive=folder == ARCHIVE)
            for info in filesystem.get_file_info(selector):
                place = info.path.removeprefix(f"{self._path}/")
                if info.type == fs.FileType.File and (folder != ARCHIVE or place.split("/")[-2] == source):
                    listing.add_place(place)
        if not listing.streams() and filesystem.get_file_info(self._path).type != fs.FileType.Directory:
            raise BadFolder(f"{self.name} is no folder of events: it does not exist")
        return listing

    def is_mirror(self) -> bool:
        found: bool = self._filesystem().get_file_info(f"{self._path}/{LOG_FOLDER}").type == fs.FileType.NotFound
        return found

    def arrived_at(self, file: EventFile) -> float:
        info = self._filesystem().get_file_info(f"{self._path}/{file.place}")
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, "it is gone", info.path)
        return float(info.mtime_ns) / 1e9

    def _open(self, file: EventFile) -> Any:
        return self._filesystem().open_input_file(f"{self._path}/{file.place}")

    def _filesystem(self) -> fs.FileSystem:
        return fs.FileSystem.from_uri(self.name)[0]


def check_size(file: EventFile, size: int) -> int:
    """The size. OSError: more than is read at once."""
    if size > MAX_FILE_BYTES:
        raise OSError(f"{file.place} has {size} bytes; {MAX_FILE_BYTES} are read at most, events.roll_s makes fewer")
    return size
