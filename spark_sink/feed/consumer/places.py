"""Where files may be written: below one folder, whatever posts say and whatever links lie in it.

A path of a post is taken apart into names, and each folder is opened below the one before without following a link, so
that no `..`, no absolute path and no link leads out, whoever changes what meanwhile. A file is written under a hidden
name in its own folder and put in its place when it is whole. Blocks: all methods are for a thread.
"""

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from spark_sink.errors import SinkError
from spark_sink.feed.errors import shown

MAX_NAME_BYTES: Final = 255  # of a name in a folder, as nearly all systems have it
MAX_PATH_BYTES: Final = 4_096  # of a path
MAX_DEPTH: Final = 100  # folders in folders
HIDDEN: Final = ".feed-"  # how a file is called that is not whole yet
PART: Final = ".part"
FOLDER_MODE: Final = 0o777  # less what the process's mask takes away
FILE_MODE: Final = 0o666
_PROCESS: Final = f"{os.getpid()}-{os.urandom(6).hex()}"
_numbers: Final = itertools.count()
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class BadPlace(SinkError):
    """A path that no file may have here; the text is one sentence that begins with the path."""


def names_of(path: str) -> list[str]:
    """The names of a path, from the root downwards; one slash before it makes no difference. BadPlace."""
    if len(path.encode("utf-8", "replace")) > MAX_PATH_BYTES:
        raise BadPlace(f"{shown(path)} has more than {MAX_PATH_BYTES} bytes")
    names = path.removeprefix("/").split("/")
    if len(names) > MAX_DEPTH:
        raise BadPlace(f"{shown(path)} has {len(names)} names one below the other, {MAX_DEPTH} are allowed")
    for name in names:
        if not name or name in (".", ".."):
            raise BadPlace(f"{shown(path)} is no path of names: {shown(name)} is none")
        if "\0" in name:
            raise BadPlace(f"{shown(path)} holds NUL")
        if name.startswith(HIDDEN):
            raise BadPlace(f"{shown(path)}: names that begin with {HIDDEN} are those of files that are not whole")
        try:
            size = len(os.fsencode(name))
        except UnicodeEncodeError:
            raise BadPlace(f"{shown(path)} cannot be a name of a file") from None
        if size > MAX_NAME_BYTES:
            raise BadPlace(f"{shown(path)} has a name of {size} bytes, {MAX_NAME_BYTES} are allowed")
    return names


class NewFile(NamedTuple):
    """What is to be there."""

    names: list[str]
    data: bytes
    mtime_ns: int | None  # since 1970; None: now
    mode: int | None  # permissions; None: as the process's mask has it


class Places:
    """One folder, and all that may be written below it."""

    def __init__(self, root: Path) -> None:
        self.root: Final = root

    @contextlib.contextmanager
    def folder(self, names: list[str], *, makes: bool = True) -> Iterator[int]:
        """A descriptor of the folder with these names; without any, the root. OSError: there is none, or a link or
        a file is in the way. `makes`: what is missing is made."""
        opened = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                try:
                    below = os.open(name, _FOLDER, dir_fd=opened)
                except FileNotFoundError:
                    if not makes:
                        raise
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, FOLDER_MODE, dir_fd=opened)
                    os.fsync(opened)
                    below = os.open(name, _FOLDER, dir_fd=opened)
                os.close(opened)
                opened = below
            yield opened
        finally:
            os.close(opened)

    def put(self, names: list[str], data: bytes, mtime_ns: int | None, mode: int | None) -> None:
        """A file with this content, whole or not at all. OSError."""
        (failure,) = self.put_all([NewFile(names, data, mtime_ns, mode)])
        if failure is not None:
            raise failure

    def put_all(self, files: Sequence[NewFile]) -> list[OSError | None]:
        """Files, each whole or not at all; what became of each."""
        failures: list[OSError | None] = [None] * len(files)
        by_folder: dict[tuple[str, ...], list[int]] = {}
        for index, file in enumerate(files):
            by_folder.setdefault(tuple(file.names[:-1]), []).append(index)
        with contextlib.ExitStack() as at_end:
            written: list[tuple[int, _Hidden]] = []
            folders: dict[int, list[int]] = {}
            for names, indices in by_folder.items():
                try:
                    folder = at_end.enter_context(self.folder(list(names)))
                except OSError as error:
                    failures = [error if index in indices else each for index, each in enumerate(failures)]
                    continue
                folders[folder] = indices
                for index in indices:
                    try:
                        hidden = _Hidden(folder, files[index])
                    except OSError as error:
                        failures[index] = error
                    else:
                        at_end.callback(hidden.close)
                        written.append((index, hidden))
            # Step by step for all of them: the journal of the file system is written once or twice, not for each file.
            for step in (_Hidden.sync, _Hidden.rename):
                for index, hidden in written:
                    if failures[index] is None:
                        try:
                            step(hidden)
                        except OSError as error:
                            failures[index] = error
            for folder, indices in folders.items():
                try:
                    os.fsync(folder)
                except OSError as error:
                    for index in indices:
                        failures[index] = failures[index] or error
        return failures

    def open_part(self, names: list[str], part: str) -> int:
        """The hidden file in which what is fetched for this place is collected; `part` names it. OSError."""
        with self.folder(names[:-1]) as folder:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            return os.open(f"{HIDDEN}{part}{PART}", flags, FILE_MODE, dir_fd=folder)

    def has_part(self, names: list[str], part: str) -> bool:
        """Whether there is such a file."""
        return self.find([*names[:-1], f"{HIDDEN}{part}{PART}"]) is not None

    def may_have(self, names: list[str], size: int, mtime_ns: int | None) -> bool:
        """Whether something so long, and of this time unless it is None, seems to be there; `has` tells, as links in
        the path are followed here. One call of the system: not worth a thread."""
        try:
            found = os.stat("/".join((os.fspath(self.root), *names)), follow_symlinks=False)
        except OSError:
            return False
        return found.st_size == size and mtime_ns in (None, found.st_mtime_ns)

    def has(self, names: list[str], is_right: Callable[[int], bool]) -> bool:
        """Whether a file is there that `is_right`, which gets it opened for reading; it is synced then, as after
        `put`."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            with self.folder(names[:-1], makes=False) as folder:
                file = os.open(names[-1], flags, dir_fd=folder)
                try:
                    if not stat.S_ISREG(os.fstat(file).st_mode) or not is_right(file):
                        return False
                    os.fsync(file)
                finally:
                    os.close(file)
                os.fsync(folder)
        except OSError:
            return False
        return True

    def put_part(self, names: list[str], part: str, file: int, mtime_ns: int | None, mode: int | None) -> None:
        """The hidden file is whole: it is synced and put in its place. OSError."""
        _finish(file, mtime_ns, mode)
        os.fsync(file)
        with self.folder(names[:-1]) as folder:
            _put_in_place(folder, f"{HIDDEN}{part}{PART}", names[-1])

    def drop_part(self, names: list[str], part: str) -> None:
        """It is of no use any more."""
        with contextlib.suppress(OSError), self.folder(names[:-1], makes=False) as folder:
            os.unlink(f"{HIDDEN}{part}{PART}", dir_fd=folder)

    def make_folder(self, names: list[str]) -> None:
        """A folder, and those above it. OSError."""
        with self.folder(names):
            pass

    def symlink(self, names: list[str], target: str) -> None:
        """A link to `target`, which is relative to its folder. BadPlace: that is outside of the root. OSError."""
        if not is_within(target, len(names) - 1):
            raise BadPlace(f"{shown(target)} is outside of the folder that is mirrored")
        with self.folder(names[:-1]) as folder:
            hidden = _hidden_name()
            os.symlink(target, hidden, dir_fd=folder)
            _put_in_place(folder, hidden, names[-1])

    def hardlink(self, names: list[str], target: list[str]) -> None:
        """Another name of a file that is here. OSError: it is not."""
        with self.folder(target[:-1], makes=False) as source, self.folder(names[:-1]) as folder:
            if not stat.S_ISREG(os.stat(target[-1], dir_fd=source, follow_symlinks=False).st_mode):
                raise FileNotFoundError(errno.ENOENT, "it is no file", target[-1])
            hidden = _hidden_name()
            os.link(target[-1], hidden, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
            _put_in_place(folder, hidden, names[-1])

    def remove(self, names: list[str], *, is_folder: bool = False) -> None:
        """What is there goes, a folder if it is empty; nothing where nothing is. `is_folder`: nothing else than one.
        OSError."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self.folder(names[:-1], makes=False) as folder:
            found = os.stat(names[-1], dir_fd=folder, follow_symlinks=False)
            if is_folder or stat.S_ISDIR(found.st_mode):  # `sr3 watch` does not say it of one with another name
                os.rmdir(names[-1], dir_fd=folder)
            else:
                os.unlink(names[-1], dir_fd=folder)
            os.fsync(folder)

    def rename(self, before: list[str], names: list[str]) -> None:
        """What was there is here. FileNotFoundError: nothing was there. BadPlace: a link in it would lead out of the
        root from there. OSError."""
        with self.folder(before[:-1], makes=False) as source, self.folder(names[:-1]) as folder:
            if len(names) < len(before):
                _check_links(source, before[-1], len(names) - 1)
            os.rename(before[-1], names[-1], src_dir_fd=source, dst_dir_fd=folder)
            os.fsync(folder)
            os.fsync(source)

    def clean(self, before: float) -> None:
        """Hidden files that nobody resumes go: those written in one piece, and others that have not changed since
        `before`, seconds since 1970. Where nothing is under way."""
        for _, _, files, folder in os.fwalk(self.root, follow_symlinks=False):
            for name in files:
                if name.startswith(HIDDEN) and name.endswith(PART):
                    with contextlib.suppress(OSError):
                        is_old = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < before
                        if "-" in name.removeprefix(HIDDEN) or is_old:
                            os.unlink(name, dir_fd=folder)

    def find(self, names: list[str]) -> os.stat_result | None:
        """What is there, not followed; None: nothing."""
        try:
            with self.folder(names[:-1], makes=False) as folder:
                return os.stat(names[-1], dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None


class _Hidden:
    """A new file that has no name yet, and is not synced. OSError."""

    __slots__ = ("_file", "_folder", "_hidden", "_name")

    def __init__(self, folder: int, new: NewFile) -> None:
        self._folder: Final = folder
        self._hidden = _hidden_name()  # empty: it has its name
        self._name: Final = new.names[-1]
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file: Final = os.open(self._hidden, flags, FILE_MODE, dir_fd=folder)
        try:
            _write_all(self._file, new.data)
            _finish(self._file, new.mtime_ns, new.mode)
            begin_writing(self._file, 0, 0)  # while others are written
        except BaseException:
            self.close()
            raise

    def sync(self) -> None:
        """All of it is on the disk."""
        os.fsync(self._file)

    def rename(self) -> None:
        """It takes its name."""
        os.rename(self._hidden, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._hidden = ""

    def close(self) -> None:
        """It goes, unless it has its name."""
        os.close(self._file)
        if self._hidden:
            with contextlib.suppress(OSError):
                os.unlink(self._hidden, dir_fd=self._folder)


def is_within(target: str, depth: int) -> bool:
    """Whether a link with this target, in a folder so many names below the root, leads to something below the root.

    D-94: `..` behind a name leads out of whatever that name is, which may be a link. So only those at the beginning are
    taken.
    """
    steps = [step for step in target.split("/") if step not in ("", ".")]
    ups = steps.count("..")
    return not target.startswith("/") and ups <= depth and ".." not in steps[ups:]


def _check_links(folder: int, name: str, depth: int) -> None:
    """BadPlace: this, or something below it, is a link that leads out when it is so many names below the root."""
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError:
        target = ""  # it is no link
    if not is_within(target, depth):
        raise BadPlace(f"{shown(target)}, a link, would be outside of the folder that is mirrored")
    if target or not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return
    for path, folders, files, opened in os.fwalk(name, dir_fd=folder, follow_symlinks=False):
        below = depth + 1 + path.removeprefix(name).count("/")
        for each in (*folders, *files):
            try:
                target = os.readlink(each, dir_fd=opened)
            except OSError:
                continue
            if not is_within(target, below):
                raise BadPlace(f"{shown(target)}, a link in {name}, would be outside of the folder that is mirrored")


def _hidden_name() -> str:
    """Of what nobody resumes."""
    return f"{HIDDEN}{_PROCESS}-{next(_numbers):x}{PART}"


def _put_in_place(folder: int, hidden: str, name: str) -> None:
    """It takes the name, and the folder knows it after a power failure, too."""
    os.rename(hidden, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _finish(file: int, mtime_ns: int | None, mode: int | None) -> None:
    """It gets the time and the permissions that the post gives."""
    if mode is not None:
        os.fchmod(file, mode & 0o777)
    if mtime_ns is not None:
        os.utime(file, ns=(mtime_ns, mtime_ns))


def begin_writing(file: int, at: int, size: int) -> None:
    """The disk begins with these bytes (0: all from there) where the system can be asked to; `fsync` waits for them."""
    if hasattr(os, "posix_fadvise"):  # not on macOS
        os.posix_fadvise(file, at, size, os.POSIX_FADV_DONTNEED)


def _write_all(file: int, data: bytes) -> None:
    at = 0
    while at < len(data):
        at += os.write(file, data[at : at + (1 << 20)])
