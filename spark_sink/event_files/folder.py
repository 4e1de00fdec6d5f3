"""Which files of events there are below a folder: logs, segments, and segments in the archive.

    <events>/_tmp/<stream>-<number>.wal                        logs
    <events>/<source>/<stream>-<number>.parquet                segments; <stream> is <broker>-<epoch>
    <events>/_archive/…/<source>/<stream>-<number>.parquet     segments that a reader has moved

A log becomes segments of its number and is removed after that; a segment moves into the archive. So whoever looks at
logs first, at the folders of the sources then and at the archive last sees every record, some twice and none never.
A file is kept as its number, eight bytes. Nothing heavy is imported here, because the broker's admin API looks through
the same folder.
"""

import os
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from rsocket_wire.files import missing_advice
from spark_sink.errors import BadFolder
from spark_sink.event_files.layout import ARCHIVE, LOG_FOLDER, LOG_SUFFIX, SUFFIX, origin_of, parts_of, why_foreign

SOURCES: Final = ("flows", "lifecycle", "requests", "messages", "files")
LOG: Final = "log"  # stands for the source of a log, which holds records of all of them
MAX_FOREIGN: Final = 20  # files that are none of ours and named
PILE_BITS: Final = 10  # of numbers: so many are sorted at once, whoever shares the process waits for no more


class EventFile(NamedTuple):
    """A segment or a log, by its name alone."""

    stream: str  # <broker>-<epoch>
    number: int
    source: str  # of `SOURCES`, or LOG
    folder: str  # below the events folder, with slashes; of a broker's API a URL
    is_archived: bool = False

    @property
    def is_log(self) -> bool:
        """Is it a log, with records of all sources?"""
        return self.source == LOG

    @property
    def origin(self) -> tuple[str, int]:
        """The broker's id and the epoch."""
        return origin_of(self.stream)

    @property
    def name(self) -> str:
        """As the writer names it."""
        return f"{self.stream}-{self.number:010d}{LOG_SUFFIX if self.is_log else SUFFIX}"

    @property
    def place(self) -> str:
        """Path below the events folder, with slashes; of a broker's API its URL."""
        return f"{self.folder}/{self.number if '://' in self.folder else self.name}"


class Listing:
    """The files that were found: of each stream, source and number the first place."""

    def __init__(self, rest: Callable[[], None] = lambda: None) -> None:
        """`rest` is called after each 256 names, for a thread that shares its process with somebody in a hurry."""
        self.foreign: Final[list[str]] = []  # places of what is none of ours, and not hidden; `MAX_FOREIGN` at most
        self.foreign_n = 0
        self.rest: Final = rest
        # stream and source -> folder and whether it is of the archive -> numbers
        self._numbers: Final[dict[tuple[str, str], dict[tuple[str, bool], array[int]]]] = defaultdict(_no_numbers)
        self._ordered: Final[set[tuple[str, str]]] = set()  # of which these ascend
        self._joined: Final[dict[tuple[str, ...], array[int]]] = {}  # stream and sources -> numbers

    def add(self, file: EventFile) -> None:
        """One more, before anybody asks."""
        self._numbers[file.stream, file.source][file.folder, file.is_archived].append(file.number)

    def add_place(self, place: str, *, is_file: bool = True) -> None:
        """The same, or something foreign."""
        folder, _, name = place.rpartition("/")  # without an EventFile in between: a look takes a third less
        source, is_archived = _source_of(folder)
        suffix = LOG_SUFFIX if source == LOG else SUFFIX
        stream, number = parts_of(name, suffix) if is_file and source else ("", 0)
        if number:
            self._numbers[stream, source][folder, is_archived].append(number)
        elif not name.startswith("."):
            self.add_foreign(place)

    def add_foreign(self, place: str) -> None:
        """Something that is none of ours."""
        self.foreign_n += 1
        if len(self.foreign) < MAX_FOREIGN:
            self.foreign.append(place)

    def add_archive(self, older: "Listing") -> None:
        """Those of the archive of another listing, for one that was made without."""
        for key, folders in older._numbers.items():
            archived = {place: numbers for place, numbers in folders.items() if place[1]}
            if archived:
                self._numbers[key].update(archived)

    def streams(self, *sources: str) -> list[str]:
        """`<broker>-<epoch>` of all that have a file of these sources; of any, without."""
        return sorted({stream for stream, source in self._numbers if not sources or source in sources})

    def numbers(self, stream: str, *sources: str) -> "array[int]":
        """Of the files of a stream, of any of these sources, ascending."""
        key = (stream, *sources)
        if key not in self._joined:
            found = [numbers for source in sources for numbers in self._in_folders(stream, source).values()]
            self._joined[key] = found[0] if len(found) == 1 else self._in_order(chain.from_iterable(found))
        return self._joined[key]

    def find(self, stream: str, source: str, number: int) -> EventFile | None:
        """Where it is, or was when the folder was looked through."""
        for (folder, is_archived), numbers in self._in_folders(stream, source).items():
            place = bisect_left(numbers, number)
            if place < len(numbers) and numbers[place] == number:
                return EventFile(stream, number, source, folder, is_archived)
        return None

    def files(self, *sources: str) -> Iterator[EventFile]:
        """All of these sources, by stream and number."""
        for stream in self.streams(*sources):
            for number in self.numbers(stream, *sources):
                found = (self.find(stream, source, number) for source in sources)
                yield from (file for file in found if file is not None)

    def places(self, *sources: str) -> Iterator[EventFile]:
        """All of these sources in any order, and what is there twice twice; nothing is sorted for it."""
        for (stream, source), folders in self._numbers.items():
            for (folder, is_archived), numbers in folders.items() if source in sources else ():
                yield from (EventFile(stream, number, source, folder, is_archived) for number in numbers)

    def folders(self, source: str) -> list[str]:
        """That hold files of the source, sorted."""
        found = {folder for (_, of), places in self._numbers.items() if of == source for folder, _ in places}
        return sorted(found)

    def problems(self, events: Path, suffixes: tuple[str, ...] = ("",)) -> list[str]:
        """What is none of ours and ends like this, a sentence for each; `events`: the folder."""
        named = [place for place in self.foreign if place.endswith(suffixes)]
        found = [f"{events / place} is passed over: {why_foreign(events / place)}" for place in sorted(named)]
        if self.foreign_n > len(self.foreign):
            found.append(f"{self.foreign_n - len(self.foreign)} more files are none of a writer of events")
        return found

    def _in_folders(self, stream: str, source: str) -> "dict[tuple[str, bool], array[int]]":
        """Numbers by folder, ascending."""
        key = (stream, source)
        if key not in self._ordered and key in self._numbers:
            self._numbers[key] = {place: self._in_order(numbers) for place, numbers in self._numbers[key].items()}
            self._ordered.add(key)
        return self._numbers.get(key, {})

    def _in_order(self, numbers: Iterable[int]) -> "array[int]":
        """Ascending, each once."""
        piles: dict[int, set[int]] = {}
        for count, number in enumerate(numbers):
            if not count & 255:
                self.rest()
            piles.setdefault(number >> PILE_BITS, set()).add(number)
        found = array("q")
        for pile in sorted(piles):
            found.extend(sorted(piles[pile]))
            self.rest()
        return found


def _no_numbers() -> "dict[tuple[str, bool], array[int]]":
    return defaultdict(partial(array, "q"))


@lru_cache(1024)
def _source_of(folder: str) -> tuple[str, bool]:
    """Of files in a folder, and whether it is of the archive; an empty source: none of ours."""
    *above, source = folder.split("/")
    is_archived = bool(above) and above[0] == ARCHIVE
    if folder == LOG_FOLDER:
        return LOG, False
    return (source, is_archived) if source in SOURCES and (is_archived or not above) else ("", False)


def list_folder(
    events: Path, sources: Sequence[str] = SOURCES, *, has_archive: bool = True, rest: Callable[[], None] | None = None
) -> Listing:
    """What lies in the folder of these sources, and all logs. `rest`: see Listing. BadFolder: nobody writes events
    there; OSError: it cannot be read."""
    if not events.exists():
        raise BadFolder(f"there is no events folder {events}{missing_advice(str(events), 'folder')}")
    if not any((events / name).is_dir() for name in (*SOURCES, LOG_FOLDER, ARCHIVE)):
        raise BadFolder(
            f"{events} is no folder of events: it holds none of {', '.join((*SOURCES, LOG_FOLDER))}; "
            "is it mounted, has a broker been started with --events?"
        )
    listing = Listing(rest) if rest is not None else Listing()
    for folder in (LOG_FOLDER, *sources):
        for entry in _entries(events, folder, listing.rest):
            listing.add_place(f"{folder}/{entry.name}", is_file=entry.is_file(follow_symlinks=False))
    folders = [ARCHIVE] if has_archive else []
    while folders:
        folder = folders.pop()
        for entry in _entries(events, folder, listing.rest):
            if entry.is_dir(follow_symlinks=False):
                folders.append(f"{folder}/{entry.name}")
            elif folder.rpartition("/")[2] in sources:
                listing.add_place(f"{folder}/{entry.name}", is_file=entry.is_file(follow_symlinks=False))
    return listing


def list_written(events: Path, sources: Sequence[str] = SOURCES, *, has_archive: bool = False) -> Listing:
    """The same for a writer, to whom a folder that is not there yet, or cannot be read, is an empty one."""
    try:
        return list_folder(events, sources, has_archive=has_archive)
    except (BadFolder, OSError):
        return Listing()


def _entries(events: Path, folder: str, rest: Callable[[], None]) -> "Iterator[os.DirEntry[str]]":
    """Of one folder, if it is there. Links are not followed, what is served lies below; nor is a FIFO a file, which
    whoever opened it would wait for."""
    try:
        entries = os.scandir(events / folder)
    except FileNotFoundError:
        return
    with entries:
        for count, entry in enumerate(entries):
            if not count & 255:
                rest()
            yield entry
