"""Where event files are: a local folder, a file system of pyarrow, or the admin API of brokers. A store lists files and
gives their bytes; what is in them it does not know.

    /var/lib/broker/events      file:///…      s3://bucket/events      hdfs://…      http://broker:7070

A store travels to Spark's workers by pickle, so it holds no handle.
"""

import os
from pathlib import Path
from typing import Final, Protocol

from pyarrow import fs

from spark_sink.errors import BadFolder
from spark_sink.event_files.folder import EventFile, Listing, list_folder
from spark_sink.event_files.layout import ARCHIVE, LOG_FOLDER, open_file

MAX_FILE_BYTES: Final = 1 << 30  # of one file, which is read whole; events.roll_bytes makes some MiB


class Store(Protocol):
    """Gives files. `place`s are of this store."""

    @property
    def name(self) -> str:
        """For sentences: the path or URL."""

    def list(self, source: str, *, has_archive: bool) -> Listing:
        """Segments of this source and all logs; those of the archive only if asked for. BadFolder, OSError."""

    def read(self, file: EventFile) -> bytes:
        """All of a file. FileNotFoundError: it is not there any more; other OSError: it cannot be read."""

    def read_end(self, file: EventFile, length: int) -> bytes:
        """The last bytes of a file, all if it is shorter. Errors as above."""

    def size(self, file: EventFile) -> int:
        """Bytes. Errors as above."""


class LocalStore:
    """A folder of this machine, or one that is mounted."""

    def __init__(self, events: Path) -> None:
        self.events: Final = events

    @property
    def name(self) -> str:
        """The path."""
        return str(self.events)

    def list(self, source: str, *, has_archive: bool) -> Listing:
        return list_folder(self.events, (source,), has_archive=has_archive)

    def read(self, file: EventFile) -> bytes:
        with open_file(self.events / file.place) as opened:
            size = check_size(file, os.fstat(opened.fileno()).st_size)
            return opened.read(size)

    def read_end(self, file: EventFile, length: int) -> bytes:
        with open_file(self.events / file.place) as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - length))
            return opened.read(length)

    def size(self, file: EventFile) -> int:
        return (self.events / file.place).stat().st_size


class ArrowStore:
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

    def read(self, file: EventFile) -> bytes:
        with self._filesystem().open_input_file(f"{self._path}/{file.place}") as opened:
            data: bytes = opened.read(check_size(file, opened.size()))
            return data

    def read_end(self, file: EventFile, length: int) -> bytes:
        with self._filesystem().open_input_file(f"{self._path}/{file.place}") as opened:
            length = min(length, opened.size())
            data: bytes = opened.read_at(length, opened.size() - length)
            return data

    def size(self, file: EventFile) -> int:
        info = self._filesystem().get_file_info(f"{self._path}/{file.place}")
        if info.type != fs.FileType.File:
            raise FileNotFoundError(f"{file.place} is not in {self.name} any more")
        return int(info.size)

    def _filesystem(self) -> fs.FileSystem:
        return fs.FileSystem.from_uri(self.name)[0]


def check_size(file: EventFile, size: int) -> int:
    """The size. OSError: more than is read at once."""
    if size > MAX_FILE_BYTES:
        raise OSError(f"{file.place} has {size} bytes; {MAX_FILE_BYTES} are read at most, events.roll_s makes fewer")
    return size
