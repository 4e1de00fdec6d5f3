"""Which files of events there are below a folder: logs, segments, and segments in the archive.

    <events>/_tmp/<stream>-<number>.wal                        logs
    <events>/<source>/<stream>-<number>.parquet                segments; <stream> is <broker>-<epoch>
    <events>/_archive/…/<source>/<stream>-<number>.parquet     segments that a reader has moved

A log becomes segments of its number and is removed after that; a segment moves into the archive. So whoever looks at
logs first, at the folders of the sources then and at the archive last sees every record, some twice and none never.
Nothing heavy is imported here, because the broker's admin API looks through the same folder.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from spark_sink.errors import BadFolder
from spark_sink.event_files.layout import ARCHIVE, LOG_FOLDER, log_parts_of, parts_of

SOURCES: Final = ("flows", "lifecycle", "requests")
LOG: Final = "log"  # stands for the source of a log, which holds records of all of them
MAX_NAMES: Final = 1 << 17  # places that are remembered: a look again takes a third; a day of segments of a second
MAX_FOREIGN: Final = 20  # files that are none of ours and named


class EventFile(NamedTuple):
    """A segment or a log, by its name alone."""

    stream: str  # <broker>-<epoch>
    number: int
    source: str  # flows, lifecycle, requests; log
    place: str  # path below the events folder, with slashes; of a broker's API the path of its URL
    is_archived: bool = False

    @property
    def is_log(self) -> bool:
        """Is it a log, with records of all sources?"""
        return self.source == LOG


class Listing(NamedTuple):
    """What was found."""

    files: list[EventFile]  # one for each stream, source and number
    foreign: list[str]  # places of files that are none of ours, `MAX_FOREIGN` at most


@lru_cache(MAX_NAMES)
def file_of(place: str) -> EventFile | None:
    """The file at a place below the folder; None: none of ours, or hidden."""
    *folders, name = place.split("/")
    if not folders:
        return None
    if folders == [LOG_FOLDER]:
        stream, number = log_parts_of(name)
        return EventFile(stream, number, LOG, place) if number else None
    is_archived = folders[0] == ARCHIVE
    stream, number = parts_of(name)
    if not number or folders[-1] not in SOURCES or (len(folders) > 1 and not is_archived):
        return None
    return EventFile(stream, number, folders[-1], place, is_archived)


def gathered(places: Iterator[str]) -> Listing:
    """The files among these places, each stream, source and number once: the first that comes."""
    found: dict[tuple[object, ...], EventFile] = {}
    foreign: list[str] = []
    for place in places:
        file = file_of(place)
        if file is not None:
            found.setdefault(file[:3], file)
        elif not place.rpartition("/")[2].startswith(".") and len(foreign) < MAX_FOREIGN:
            foreign.append(place)
    return Listing(list(found.values()), foreign)


def list_folder(
    events: Path, sources: Sequence[str] = SOURCES, *, has_archive: bool = True, rest: Callable[[], None] | None = None
) -> Listing:
    """What lies in the folder of these sources, and all logs. `rest` is called after each 256 names, for a thread that
    shares its process with somebody in a hurry. BadFolder: nobody writes events there; OSError: it cannot be read."""
    if not any((events / name).is_dir() for name in (*SOURCES, LOG_FOLDER, ARCHIVE)):
        raise BadFolder(
            f"{events} is no folder of events: it holds none of {', '.join((*SOURCES, LOG_FOLDER))}; "
            "is it mounted, has a broker been started with --events?"
        )
    return gathered(_places(events, sources, has_archive, rest or (lambda: None)))


def _places(events: Path, sources: Sequence[str], has_archive: bool, rest: Callable[[], None]) -> Iterator[str]:
    for folder in (LOG_FOLDER, *sources):
        yield from _below(events, folder, rest, [])
    if not has_archive:
        return
    folders = [ARCHIVE]
    while folders:
        folder = folders.pop()
        is_source = folder.rpartition("/")[2] in sources
        yield from (place for place in _below(events, folder, rest, folders) if is_source)


def _below(events: Path, folder: str, rest: Callable[[], None], folders: list[str]) -> Iterator[str]:
    """Files of one folder; folders in it are added to `folders`. Links are passed over: what is served lies below; so
    are FIFOs and their like, which whoever opened them would wait for."""
    try:
        entries = os.scandir(events / folder)
    except FileNotFoundError:
        return
    with entries:
        for count, entry in enumerate(entries):
            if not count & 255:
                rest()
            if entry.is_file(follow_symlinks=False):
                yield f"{folder}/{entry.name}"
            elif entry.is_dir(follow_symlinks=False):
                folders.append(f"{folder}/{entry.name}")
