"""Where events and tables lie: a folder of this machine, or of whatever file system Spark's Hadoop reaches.

A file comes into a place whole or not at all: on a disk by `layout.seal`; on a Hadoop file system under a hidden name
and then renamed, and on an object store, where a rename is a copy and a file that is being written is not to be seen,
under its own name at once. Names inside of a place are relative to it, parted by "/".
"""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from spark_sink.errors import BadFolder, MissingPart, NoFile
from spark_sink.event_files.layout import FILE_MODE, Disk, check_file, open_file, seal

# A file of these file systems is there when its writer closes it, and not before; their rename copies.
OBJECT_STORES: Final = frozenset({"s3", "s3a", "s3n", "gs", "oss", "cos", "cosn", "obs", "wasb", "wasbs"})
# link(2): another file system, no hard links here, too many, or not allowed.
_NO_LINKS: Final = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)
NOTHING_IN_IT: Final = "it is torn: there is nothing in it"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")
_GLOB: Final = re.compile(r"([\[\]{}*?\\])")


def scheme_of(text: str) -> str:
    """Of a folder as somebody typed it: `hdfs`, `s3a` …; `file` for a plain path."""
    match = _SCHEME.match(text)
    return match[0].lower() if match is not None and text[match.end() :].startswith(":/") else "file"


def local_path(text: str) -> Path | None:
    """The absolute path of a folder as somebody typed it; None: it is not on this machine."""
    if scheme_of(text) != "file":
        return None
    path = Path(unquote(urlsplit(text).path) if _SCHEME.match(text) and ":/" in text else text).absolute()
    return path.resolve() if ".." in path.parts else path  # Spark's names of files never have one


def file_of(path: str) -> str:
    """A file as the methods below want it, from a path of Spark's rows, `file:/the events/x`."""
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path


def spark_text(file: str) -> str:
    """A file or folder for `DataFrameReader.load`, which takes some characters for patterns."""
    text = _GLOB.sub(r"\\\1", file)
    return f"file://{text}" if text.startswith("/") else text


class LocalFileSystem:
    """A folder of this machine. Every method raises OSError."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self.root: Final = str(root)
        self.disk: Final = disk or Disk()

    def file(self, name: str) -> str:
        """The whole name."""
        return f"{self.root}/{name}"

    def names(self, folder: str) -> list[str]:
        """Of what is in the folder, sorted; a folder that is not there holds nothing."""
        try:
            return sorted(os.listdir(self.file(folder)))
        except FileNotFoundError:
            return []

    def why_bad(self, file: str) -> str:
        """Why there is nothing to read in what is called like a file, by its whole name, in a sentence without its
        subject; empty: there is, or it is gone."""
        try:
            check_file(file)
            return "" if os.path.getsize(file) else NOTHING_IN_IT
        except NoFile as error:
            return str(error)
        except OSError:
            return ""

    def odd_files(self, folder: str) -> list[tuple[str, str]]:
        """Of those in the folder, in which there is nothing to read: the whole name, and why."""
        files = [self.file(f"{folder}/{name}") for name in self.names(folder)]
        return [(file, why) for file in files if (why := self.why_bad(file))]

    def exists(self, name: str) -> bool:
        """Is there such a file or folder?"""
        return os.path.exists(self.file(name))

    def make(self, folder: str) -> None:
        """The folder is there afterwards."""
        self.disk.make_folder(Path(self.file(folder)))

    def read(self, name: str) -> bytes:
        """All of a file. FileNotFoundError. BadFolder: it is something else."""
        try:
            return self.content(self.file(name))
        except NoFile as error:
            raise BadFolder(f"{self.file(name)} cannot be read: {error}; remove it") from error

    def write(self, folder: str, name: str, data: bytes | memoryview) -> None:
        """Whole or not at all; replaces a file of that name."""
        seal(Path(self.file(folder)), name, data, self.disk)

    def take(self, folder: str, name: str, source: "FileSystem", file: str) -> None:
        """A file of another place, under this name, as a link where there can be one; replaces one of that name."""
        target = Path(self.file(folder)) / name
        self.disk.make_folder(target.parent)
        if isinstance(source, LocalFileSystem) and _is_linked(file, target):
            return
        hidden = target.with_name(f".{name}")
        try:
            source.copy_out(file, hidden)
            with hidden.open("rb") as copy:
                os.fchmod(copy.fileno(), FILE_MODE)
                os.fsync(copy.fileno())
            self.disk.rename(hidden, target)
        except OSError:
            hidden.unlink(missing_ok=True)
            raise

    def sync(self, folder: str) -> None:
        """Names in the folder are on the disk afterwards."""
        self.disk.sync_folder(Path(self.file(folder)))

    def remove(self, name: str) -> None:
        """A file or a whole folder; no error when it is not there."""
        path = Path(self.file(name))
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            self.disk.remove(path)

    def move(self, old: str, new: str) -> None:
        """Rename, replacing a file; the folder of the new name is made."""
        target = Path(self.file(new))
        self.disk.make_folder(target.parent)
        self.disk.rename(Path(self.file(old)), target)

    def copy_out(self, file: str, target: Path) -> None:
        """A file, by its whole name, to a path of this machine. NoFile: it is something else."""
        with open_file(file) as opened, target.open("wb") as copy:
            shutil.copyfileobj(opened, copy, 1 << 20)

    def content(self, file: str, last: int = sys.maxsize) -> bytes:
        """Of a file, by its whole name, all bytes, or the last ones. NoFile: it is something else."""
        with open_file(file) as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - last))
            return opened.read()

    @contextlib.contextmanager
    def locked(self, name: str, sentence: str = "") -> Iterator[None]:
        """Nobody else has locked this file, or the whole place (""), meanwhile. BadFolder: `sentence`, somebody has;
        without a sentence that is waited for."""
        flags = os.O_WRONLY | os.O_CREAT if name else os.O_RDONLY
        handle = os.open(self.file(name), flags | os.O_CLOEXEC, FILE_MODE)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if sentence else 0))
            except BlockingIOError as error:
                raise BadFolder(sentence) from error
            yield
        finally:
            os.close(handle)


class HadoopFileSystem:
    """A folder of a Hadoop file system, through the Java of this Spark session. Every method raises OSError."""

    def __init__(self, root: str, session: Any) -> None:
        """MissingPart: over Spark Connect there is no Java to ask."""
        is_connect = type(session).__module__.startswith("pyspark.sql.connect")
        jvm = None if is_connect else getattr(session, "_jvm", None)
        if jvm is None:
            raise MissingPart(f"{root}: over Spark Connect the folders must be paths that the server sees")
        self._jvm: Final = jvm
        self._conf: Final = session._jsc.hadoopConfiguration()
        self._is_store: Final = scheme_of(root) in OBJECT_STORES
        with _told(root):
            self._fs: Final = self._path(root).getFileSystem(self._conf)
            # `hdfs:///x` is `hdfs://host:8020/x` in Spark's log.
            self.root: Final = str(self._path(root).makeQualified(self._fs.getUri(), None).toString())

    def _path(self, file: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(file)

    def file(self, name: str) -> str:
        """The whole name."""
        return f"{self.root}/{name}"

    def names(self, folder: str) -> list[str]:
        """Of what is in the folder, sorted; a folder that is not there holds nothing."""
        with _told(folder):
            path = self._path(self.file(folder))
            found = self._fs.listStatus(path) if self._fs.exists(path) else ()
            return sorted(one.getPath().getName() for one in found)

    def odd_files(self, folder: str) -> list[tuple[str, str]]:
        """Of those in the folder, in which there is nothing to read: the whole name, and why."""
        with _told(folder):
            path = self._path(self.file(folder))
            found = self._fs.listStatus(path) if self._fs.exists(path) else ()
            empty = (one.getPath().getName() for one in found if one.isFile() and one.getLen() == 0)
            return [(self.file(f"{folder}/{name}"), NOTHING_IN_IT) for name in sorted(empty)]

    def exists(self, name: str) -> bool:
        """Is there such a file or folder?"""
        with _told(name):
            return bool(self._fs.exists(self._path(self.file(name))))

    def make(self, folder: str) -> None:
        """The folder is there afterwards."""
        with _told(folder):
            self._fs.mkdirs(self._path(self.file(folder)))

    def read(self, name: str) -> bytes:
        """All of a file. FileNotFoundError."""
        return self.content(self.file(name))

    def write(self, folder: str, name: str, data: bytes | memoryview) -> None:
        """Whole or not at all; replaces a file of that name."""
        with self._new(folder, name) as path:
            stream = self._fs.create(path, True)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()

    def take(self, folder: str, name: str, source: "FileSystem", file: str) -> None:
        """A file of another place, under this name; replaces one of that name."""
        start = self._path(f"file://{file}" if file.startswith("/") else file)
        with self._new(folder, name) as path:
            reads = start.getFileSystem(self._conf)
            self._jvm.org.apache.hadoop.fs.FileUtil.copy(reads, start, self._fs, path, False, True, self._conf)

    @contextlib.contextmanager
    def _new(self, folder: str, name: str) -> Iterator[Any]:
        """The path to write a file to, which gets its name at the end of the block."""
        with _told(name):
            target = self._path(f"{self.file(folder)}/{name}")
            hidden = target if self._is_store else self._path(f"{self.file(folder)}/.{name}")
            yield hidden
            if not self._is_store:
                self._replace(hidden, target)

    def _replace(self, old: Any, new: Any) -> None:
        if not self._fs.rename(old, new):  # most refuse when the name is taken: then it is a repetition
            self._fs.delete(new, False)
            if not self._fs.rename(old, new):
                raise OSError(errno.EIO, f"{old.toString()} cannot be renamed to {new.toString()}")

    def sync(self, folder: str) -> None:
        """Nothing to do: what is closed or renamed there is there."""

    def remove(self, name: str) -> None:
        """A file or a whole folder; no error when it is not there."""
        with _told(name):
            self._fs.delete(self._path(self.file(name)), True)

    def move(self, old: str, new: str) -> None:
        """Rename, replacing a file; the folder of the new name is made."""
        target = self._path(self.file(new))
        with _told(old):
            self._fs.mkdirs(target.getParent())
            self._replace(self._path(self.file(old)), target)

    def copy_out(self, file: str, target: Path) -> None:
        """A file, by its whole name, to a path of this machine."""
        with _told(file):
            self._fs.copyToLocalFile(False, self._path(file), self._path(f"file://{target}"), True)

    def content(self, file: str, last: int = sys.maxsize) -> bytes:
        """Of a file, by its whole name, all bytes, or the last ones."""
        with _told(file):
            path = self._path(file)
            stream = self._fs.open(path)
            try:
                stream.seek(max(0, self._fs.getFileStatus(path).getLen() - last))
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def locked(self, _name: str, _sentence: str = "") -> contextlib.AbstractContextManager[None]:
        """There is no lock to be had: one machine, please."""
        return contextlib.nullcontext()


FileSystem = LocalFileSystem | HadoopFileSystem


def filesystem_of(text: str, session: Any, disk: Disk | None = None) -> FileSystem:
    """The place of a folder as somebody typed it. BadFolder: it cannot be reached, and why. `disk`: of this machine."""
    path = local_path(text)
    if path is not None:
        return LocalFileSystem(path, disk)
    try:
        return HadoopFileSystem(text, session)
    except OSError as error:
        raise BadFolder(f"{text} cannot be reached: {error}") from error


@contextlib.contextmanager
def _told(file: str) -> Iterator[None]:
    """Java's exceptions as OSErrors that name the file."""
    try:
        yield
    except Exception as error:  # py4j's have no tree of their own
        java = getattr(error, "java_exception", None)
        if java is None:
            raise
        text, name = str(java.toString()).splitlines()[0], str(java.getClass().getName())
        if name.endswith(("FileNotFoundException", "NoSuchFileException")):
            raise FileNotFoundError(errno.ENOENT, text, file) from error
        full = "No space left" in text or "QuotaExceeded" in name
        raise OSError(errno.ENOSPC if full else errno.EIO, text, file) from error


def _is_linked(file: str, target: Path) -> bool:
    """The file has this name, too, from now on. False: it has to be copied."""
    try:
        os.link(file, target)
    except FileExistsError:
        return target.samefile(file)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True
