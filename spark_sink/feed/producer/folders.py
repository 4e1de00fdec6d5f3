"""Looks at folders: any folder with all that is below it, and an events folder with its sealed segments.

Every file system can be looked at again and again, which is all that is done here. A look at a hundred thousand files
takes about a second of CPU, so the next one follows after ten times as long (`Pace`). The segments that a broker seals
now are known from its logs before they exist (`SegmentsFolder.glance`), so they are found at once, however many lie
there. Links are never followed. Decides what is looked at and when; what has changed is `scanning`'s.
"""

import os
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from spark_sink.errors import BadFolder
from spark_sink.event_files.folder import SOURCES, EventFile, list_folder
from spark_sink.event_files.layout import LOG_FOLDER, LOG_SUFFIX, parts_of
from spark_sink.feed.posts import DIRECTORY, LINK
from spark_sink.feed.producer.scanning import FILE, Entry, Look

MAX_FILES: Final = 1_000_000  # below one folder; more are not posted, and said to be: each takes 300 bytes of memory
MAX_DEPTH: Final = 100  # folders in folders; what lies deeper is not posted
MAX_GLANCED: Final = 1_000  # numbers of logs that one glance looks for; a whole look finds the others
CPU_SHARE: Final = 0.1  # of one core, that looking may take
GLANCE_S: Final = 0.05  # between glances at what a broker seals now
_REST_N: Final = 256  # entries, after which a look lets the event loop go on

Accepts = Callable[[str], bool]  # is this relPath posted?


def accept_all(path: str) -> bool:
    """For a folder of which everything is posted."""
    return True


class Watched(Protocol):
    """A folder as the poster sees it."""

    pause_s: float  # until it may be looked at again

    @property
    def root(self) -> Path:
        """Below which files are, at `Entry.place` or else at their relPath."""

    def look(self, known: Mapping[str, Entry]) -> Look:
        """In a thread. What is as it is in `known` is given as it stands there."""
        ...


class Pace:
    """When to look again: after `interval_s`, and so late that looking takes no more than CPU_SHARE of a core."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s: Final = interval_s

    def after(self, cpu_s: float) -> float:
        """Seconds to wait after a look that took so much of the processor."""
        return max(self._interval_s, cpu_s * (1 / CPU_SHARE - 1))


class Folder:
    """All files, symbolic links and folders below a root, but those whose names begin with a dot."""

    def __init__(self, root: Path, *, accepts: Accepts = accept_all, interval_s: float = 1.0) -> None:
        """`interval_s`: between looks, at least. `accepts` is asked for each relPath, folders too; a folder that is not
        accepted is looked through nevertheless."""
        self.root: Final = root
        self._accepts: Final = accepts
        self._pace: Final = Pace(interval_s)
        self.pause_s = interval_s

    def look(self, known: Mapping[str, Entry]) -> Look:
        """Everything that is there."""
        began_s = time.thread_time()
        found = _Walk(self.root, known, self._accepts).walked()
        self.pause_s = self._pace.after(time.thread_time() - began_s)
        return found


class _Walk:
    """One way through a folder."""

    def __init__(self, root: Path, known: Mapping[str, Entry], accepts: Accepts) -> None:
        self._root: Final = root
        self._known: Final = known
        self._accepts: Final = accepts
        self._entries: Final[dict[str, Entry]] = {}
        self._unread: Final[list[str]] = []
        self._problems: Final[list[str]] = []

    def walked(self) -> Look:
        """Folders one after the other, not one in the other: the depth of a tree is somebody else's choice."""
        folders = [("", 0)]
        while folders:
            folder, depth = folders.pop()
            try:
                with os.scandir(self._root / folder) as entries:
                    below = self._folder(folder, entries)
            except OSError as error:
                if not folder or not isinstance(error, FileNotFoundError | NotADirectoryError):
                    self._unread.append(folder)
                    self._problems.append(f"{self._root / folder} cannot be read: {error.strerror or error}")
                continue
            if len(self._entries) > MAX_FILES:
                self._unread.append("")
                self._problems.append(f"{self._root} holds more than {MAX_FILES} files; the others are not posted")
                for path in list(self._entries)[MAX_FILES:]:
                    if path not in self._known:
                        del self._entries[path]
                break
            if below and depth >= MAX_DEPTH:
                self._problems.append(f"{self._root / folder} is {depth} folders deep; what is in it is not posted")
            else:
                folders += [(each, depth + 1) for each in below]
        return Look(self._entries, unread=tuple(self._unread), problems=tuple(self._problems))

    def _folder(self, folder: str, entries: "Iterable[os.DirEntry[str]]") -> list[str]:
        """Takes what one folder holds; the folders in it."""
        below = []
        start = f"{folder}/" if folder else ""
        for count, entry in enumerate(entries):
            if not count % _REST_N:
                time.sleep(0)
            name = entry.name
            if name[0] == ".":
                continue
            path = start + name
            if not _is_text(name):
                self._problems.append(f"{path!r} is not posted: its name is not UTF-8")
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    below.append(path)
                if self._accepts(path):
                    found = _entry_of(entry, self._known.get(path))
                    if found is not None:
                        self._entries[path] = found
            except OSError:
                continue  # it went away meanwhile
        return below


class SegmentsFolder:
    """The sealed segments of an events folder, as `<source>/<name>` wherever they lie, in the archive too."""

    def __init__(self, events: Path, *, accepts: Accepts = accept_all, interval_s: float = 1.0) -> None:
        """`interval_s`: between whole looks, at least."""
        self.root: Final = events
        self._accepts: Final = accepts
        self._pace: Final = Pace(interval_s)
        self._whole_at = float("-inf")  # monotonic, when the next whole look is due
        # `<source>/<stream>` -> the greatest number of the segments that are there and not accepted.
        self.left_out: Mapping[str, int] = {}
        self._lowest: Final[dict[str, int]] = {}  # stream -> number of the first log whose segments may still come
        self.pause_s = GLANCE_S

    def look(self, known: Mapping[str, Entry]) -> Look:
        """All of them when it is time for that; else those that were sealed just now."""
        now = time.monotonic()
        if now < self._whole_at:
            return Look(self.glance(known), is_whole=False)
        began_s = time.thread_time()
        found = self.whole(known)
        self._whole_at = time.monotonic() + self._pace.after(time.thread_time() - began_s)
        return found

    def whole(self, known: Mapping[str, Entry]) -> Look:
        """Each segment that is there. One that lies in its folder and in the archive is one."""
        try:
            listing = list_folder(self.root, rest=_rest)
        except (BadFolder, OSError) as error:
            return Look({}, unread=("",), problems=(str(error),))
        entries: dict[str, Entry] = {}
        left_out: dict[str, int] = {}
        for count, file in enumerate(listing.places(*SOURCES)):
            if not count % _REST_N:
                _rest()
            path = f"{file.source}/{file.name}"
            if len(entries) >= MAX_FILES and path not in known:
                problem = f"{self.root} holds more than {MAX_FILES} segments; the others are not posted"
                return Look(entries, unread=("",), problems=(problem,))
            if not self._accepts(path):
                stream = f"{file.source}/{file.stream}"
                left_out[stream] = max(file.number, left_out.get(stream, 0))
                continue
            found = known.get(path) or self._segment(path, file.place)
            if found is not None:
                entries[path] = found
        self.left_out = left_out
        return Look(entries)

    def glance(self, known: Mapping[str, Entry]) -> dict[str, Entry]:
        """Segments of the logs that are there, or were at the last glance. A log becomes segments of its number and is
        removed after that: so the number of a log that is gone is not looked for any more."""
        logs = self._logs()
        found: dict[str, Entry] = {}
        for stream, numbers in logs.items():
            self._lowest.setdefault(stream, numbers[0])
        for stream, lowest in list(self._lowest.items()):
            numbers = logs.get(stream, array("q"))
            if not numbers:  # the writer has ended: what it sealed last lies there
                numbers = array("q", [lowest])
                del self._lowest[stream]
            else:
                self._lowest[stream] = numbers[0]
            for number in range(max(min(lowest, numbers[0]), numbers[-1] - MAX_GLANCED), numbers[-1] + 1):
                for source in SOURCES:
                    place = EventFile(stream, number, source, source).place
                    if place not in known and place not in found and self._accepts(place):
                        segment = self._segment(place, place)
                        if segment is not None:
                            found[place] = segment
        return found

    def _logs(self) -> "dict[str, array[int]]":
        """Numbers of the logs of each stream, ascending."""
        found: dict[str, list[int]] = {}
        try:
            names = os.listdir(self.root / LOG_FOLDER)
        except OSError:
            return {}
        for name in names:
            stream, number = parts_of(name, LOG_SUFFIX)
            if number:
                found.setdefault(stream, []).append(number)
        return {stream: array("q", sorted(numbers)) for stream, numbers in found.items()}

    def _segment(self, path: str, place: str) -> Entry | None:
        try:
            stat = os.lstat(f"{self.root}/{place}")
        except OSError:
            return None
        return Entry(
            FILE,
            stat.st_size,
            stat.st_mtime_ns,
            stat.st_dev,
            stat.st_ino,
            stat.st_nlink,
            place="" if place == path else place,
            is_sealed=True,
        )


def _entry_of(entry: "os.DirEntry[str]", old: Entry | None) -> Entry | None:
    """What lies under one name, `old` itself if nothing has changed; None: neither file, link nor folder."""
    if entry.is_symlink():
        kind, target = LINK, os.readlink(entry.path)
        if not _is_text(target):
            return None
    elif entry.is_dir(follow_symlinks=False):
        kind, target = DIRECTORY, ""
    elif entry.is_file(follow_symlinks=False):
        kind, target = FILE, ""
    else:
        return None
    stat = entry.stat(follow_symlinks=False)
    size = stat.st_size if kind == FILE else 0
    if (
        old is not None
        and old.mtime_ns == stat.st_mtime_ns
        and old[:2] == (kind, size)
        and old[3:7] == (stat.st_dev, stat.st_ino, stat.st_nlink, target)
    ):
        return old
    return Entry(kind, size, stat.st_mtime_ns, stat.st_dev, stat.st_ino, stat.st_nlink, target)


def _is_text(name: str) -> bool:
    """Can it be written as UTF-8? Names that are not hold lone surrogates here."""
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)


def _rest() -> None:
    time.sleep(0)  # gives the interpreter to the thread of the event loop, if that wants it
