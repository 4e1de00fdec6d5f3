"""Deletion by delivery report: a declared reader of an events folder for each consumer that must have its segments.

    <events>/_readers/feed-<user>@<host>.json     {"read": {"flows/<broker>-<epoch>": 41}}

The writer of events keeps what a declared reader has not read. A consumer has read a stream up to a
number when it has reported to have each segment up to it, but for those that it does not want and those that are not
posted: nobody would ever report them. The file is written again when it reports, and while it has everything: so a
consumer that has stopped to report is a silent reader, with what is configured for those.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from spark_sink.event_files.layout import parts_of
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.writer.retention import READER_SUFFIX, READERS, Reading, declare

PREFIX: Final = "feed-"  # of the names of these readers


class Required(NamedTuple):
    """A consumer that must have what it wants."""

    name: str  # `user@host`, as it reports
    wants: Callable[[str], bool]  # is this relPath fetched by it?


def nothing_left_out() -> Mapping[str, int]:
    """For a folder of which everything is posted."""
    return {}


class ReportedReaders:
    """The required consumers of one events folder."""

    def __init__(
        self,
        events: Path,
        log: PostLog,
        consumers: Iterable[Required],
        left_out: Callable[[], Mapping[str, int]] = nothing_left_out,
    ) -> None:
        """`left_out`: of the segments that are there and not posted, see `SegmentsFolder.left_out`."""
        self._events: Final = events
        self._log: Final = log
        self._consumers: Final = tuple(consumers)
        self._left_out: Final = left_out
        self._declared: Final[dict[str, Mapping[str, int]]] = {}

    async def start(self) -> None:
        """Declares all, so that nothing is removed before they have reported; readers that are not required any more
        are gone. OSError: it cannot be said."""
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        names = {reader_of(consumer.name) for consumer in self._consumers}
        for path in (self._events / READERS).glob(f"{PREFIX}*{READER_SUFFIX}"):
            if path.stem not in names:
                path.unlink(missing_ok=True)
        for name in names:
            if not (self._events / READERS / f"{name}{READER_SUFFIX}").exists():
                declare(self._events, name, Reading())

    async def declare(self, posted: Iterable[str], waiting: Iterable[str]) -> None:
        """Says what each has. `posted`: relPaths of the segments that are there; `waiting`: of those that were found
        and are not posted yet. OSError, PostLogError: it is not said."""
        most = numbers_of(posted, max)
        for stream, number in self._left_out().items():
            most[stream] = max(number, most.get(stream, 0))
        found = list(waiting)
        for name, wants in self._consumers:
            early = _least_wanted(wants, found)
            missing = await self._log.fold_unreported(name, partial(_least_wanted, wants))
            read = {}
            for stream, number in most.items():
                to = min(number, missing.get(stream, number + 1) - 1, early.get(stream, number + 1) - 1)
                if to > 0:
                    read[stream] = to
            if not missing or read != self._declared.get(name):
                await asyncio.to_thread(declare, self._events, reader_of(name), Reading(read=read))
                self._declared[name] = read


def reader_of(consumer: str) -> str:
    """The name of its reader: a name of a file, which no other one has."""
    return PREFIX + quote(consumer, safe="@")


def numbers_of(paths: Iterable[str], choose: Callable[[int, int], int]) -> dict[str, int]:
    """`<source>/<stream>` -> the least or greatest number of these segments."""
    found: dict[str, int] = {}
    for path in paths:
        source, _, name = path.rpartition("/")
        stream, number = parts_of(name)
        if number:
            key = f"{source}/{stream}"
            found[key] = choose(found.get(key, number), number)
    return found


def _least_wanted(wants: Callable[[str], bool], paths: Iterable[str]) -> dict[str, int]:
    """Of each stream the first of these segments that a consumer wants."""
    return numbers_of(filter(wants, paths), min)
