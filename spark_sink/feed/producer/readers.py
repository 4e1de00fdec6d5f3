"""Deletion by delivery report: a declared reader of an events folder for each consumer that must have its segments.

    <events>/_readers/feed-<user>@<host>.json     {"read": {"flows/<broker>-<epoch>": 41}}

The writer of events keeps what a declared reader has not read. A consumer has read a stream up to a
number when it has reported to have each segment up to it. The file is written again when it reports, and while it has
everything: so a consumer that has stopped to report is a silent reader, with what is configured for those.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from spark_sink.event_files.layout import parts_of
from spark_sink.feed.producer.post_log import PostLog
from spark_sink.writer.retention import READER_SUFFIX, READERS, Reading, declare

PREFIX: Final = "feed-"  # of the names of these readers


class ReportedReaders:
    """The required consumers of one events folder."""

    def __init__(self, events: Path, log: PostLog, consumers: Iterable[str]) -> None:
        """`consumers`: `user@host`, as they report."""
        self._events: Final = events
        self._log: Final = log
        self._consumers: Final = tuple(consumers)
        self._declared: Final[dict[str, Mapping[str, int]]] = {}

    async def start(self) -> None:
        """Declares all, so that nothing is removed before they have reported; readers that are not required any more
        are gone. OSError: it cannot be said."""
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        names = {reader_of(consumer) for consumer in self._consumers}
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
        early = numbers_of(waiting, min)
        for consumer in self._consumers:
            missing = await self._log.fold_unreported(consumer, lambda paths: numbers_of(paths, min))
            read = {}
            for stream, number in most.items():
                to = min(number, missing.get(stream, number + 1) - 1, early.get(stream, number + 1) - 1)
                if to > 0:
                    read[stream] = to
            if not missing or read != self._declared.get(consumer):
                await asyncio.to_thread(declare, self._events, reader_of(consumer), Reading(read=read))
                self._declared[consumer] = read


def reader_of(consumer: str) -> str:
    """The name of its reader: a name of a file."""
    return PREFIX + "".join(each if each.isalnum() or each in "@.-_" else "_" for each in consumer)


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
