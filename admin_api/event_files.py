"""Event files over HTTP, for readers that share no file system with the broker: which there are, and the bytes of one.

A question never names a path: it names a stream, a source and a number, and is answered from what lies in the events
folder. Looking through the folder is done in a thread, which lets the broker go on after each 256 names, and not more
often than once in `LOOK_S`; bytes are sent by the kernel or in pieces of `CHUNK_BYTES`.
"""

import asyncio
import heapq
import time
from bisect import bisect_right
from itertools import repeat
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from admin_api.errors import AdminError, shown
from admin_api.listener import BEING_SENT
from admin_api.parameters import AFTER, SOURCE, archived_of, number_of, part_of, word_of
from admin_api.schemas import json_response
from broker.views.schemas import Listed, Part
from spark_sink.errors import BadFolder
from spark_sink.event_files.folder import LOG, SOURCES, EventFile, Listing, list_folder
from spark_sink.event_files.layout import origin_of

LOOK_S: Final = 0.25  # what was seen is good for so long
MAX_SENDS: Final = 8  # files that are sent at the same time; others wait
SEND_S: Final = 120.0  # for one file; a reader that takes longer is cut off, it holds up others
CHUNK_BYTES: Final = 256 << 10  # where the kernel cannot send by itself


class StreamView(msgspec.Struct, frozen=True):
    """The files of one run of a broker."""

    stream: str  # <broker id>-<epoch>
    broker_id: str
    epoch: int
    files: int
    first_number: int
    last_number: int


class StreamsView(msgspec.Struct, frozen=True):
    """A list of them; `foreign`: files in the folder that are none of ours, 20 at most."""

    is_written: bool  # does this broker write event files?

    items: list[StreamView]
    total: int
    offset: int
    limit: int
    foreign: list[str]


class EventFileView(msgspec.Struct, frozen=True):
    """A segment or a log."""

    source: str  # flows, lifecycle, requests, messages, files; log
    number: int
    size_bytes: int | None  # None: it went away just now
    is_archived: bool


class EventFiles:
    """The files below one folder."""

    def __init__(self, folder: str) -> None:
        """`folder`: events.dir; empty when no event files are written."""
        self._folder: Final = Path(folder) if folder else None
        self._looking: Final = asyncio.Lock()
        self._slots: Final = asyncio.Semaphore(MAX_SENDS)
        self._seen: Final[dict[bool, tuple[float, Listing]]] = {}  # with the archive, without: when (monotonic), what

    async def streams(self, request: web.Request) -> web.Response:
        """Runs of brokers that have files."""
        part = part_of(request)
        if self._folder is None:
            return json_response(StreamsView(False, [], 0, part.offset, part.limit, []))
        seen = await self._look(archived_of(request))
        names = sorted(seen.streams(), key=lambda name: (origin_of(name)[1], name))
        items = await asyncio.to_thread(_views_of, seen, names[part.offset : part.offset + part.limit])
        return json_response(StreamsView(True, items, len(names), part.offset, part.limit, seen.foreign))

    async def files(self, request: web.Request) -> web.Response:
        """Files of one stream, by number: of one source and the logs, or all."""
        part, source, after = part_of(request), word_of(request, SOURCE), number_of(request, AFTER)
        seen, name = await self._look(archived_of(request)), request.match_info["stream"]
        if name not in seen.streams():
            raise AdminError("no-such-event-file", f"there is no source {shown(name)}")
        sources = (source, LOG) if source else (*SOURCES, LOG)
        items, total = await asyncio.to_thread(self._page, seen, name, sources, after, part)
        return json_response(Listed(items, total, part.offset, part.limit))

    async def file(self, request: web.Request) -> web.StreamResponse:
        """The bytes of one, or a range of them."""
        names = request.match_info
        source, text = names["source"], names["number"]
        if text.isascii() and text.isdigit() and len(text) < 20:
            for _ in range(2):  # again, if it was moved into the archive since we looked
                path = await self._find(names["stream"], source, int(text))
                if path is not None and await asyncio.to_thread(path.is_file):
                    return _Sent(path, self._slots)
                self._seen.clear()
        name = f"{shown(source)} {shown(text)} of {shown(names['stream'])}"
        raise AdminError("no-such-event-file", f"there is no event file {name}, or it was removed")

    async def _find(self, stream: str, source: str, number: int) -> Path | None:
        for has_archive in (False, True):
            file = await asyncio.to_thread((await self._look(has_archive)).find, stream, source, number)
            if file is not None:
                assert self._folder is not None  # or there is nothing to look at
                return self._folder / file.place
        return None

    async def _look(self, has_archive: bool) -> Listing:
        """What lies in the folder. AdminError: nothing is written, or not yet."""
        folder = self._folder
        if folder is None:
            raise AdminError(
                "no-event-files", "this broker writes no event files: events.dir is not set; serve --events DIR sets it"
            )
        async with self._looking:
            seen = self._seen.get(has_archive)
            if seen is None or time.monotonic() - seen[0] >= LOOK_S:
                try:
                    found = await asyncio.to_thread(list_folder, folder, has_archive=has_archive, rest=_rest)
                except BadFolder as error:  # the writer has not begun, or the folder is gone
                    raise AdminError("not-ready", "there are no event files", [f"events.dir: {error}"]) from None
                seen = self._seen[has_archive] = (time.monotonic(), found)
            return seen[1]

    def _page(
        self, seen: Listing, stream: str, sources: tuple[str, ...], after: int, part: Part
    ) -> tuple[list[EventFileView], int]:
        """A part of the files after a number, and how many there are. In a thread."""
        runs, total = [], 0
        for source in sources:
            numbers = seen.numbers(stream, source)
            later = numbers[bisect_right(numbers, after) :]
            runs.append(zip(later, repeat(source)))
            total += len(later)
        found: list[EventFile] = []
        for count, (number, source) in enumerate(heapq.merge(*runs)):
            if not count & 255:
                _rest()
            if count >= part.offset + part.limit:
                break
            if count >= part.offset:
                file = seen.find(stream, source, number)
                assert file is not None  # it was listed
                found.append(file)
        views = [EventFileView(file.source, file.number, self._size(file), file.is_archived) for file in found]
        return views, total

    def _size(self, file: EventFile) -> int | None:
        assert self._folder is not None  # or there is no listing
        try:
            return (self._folder / file.place).stat().st_size
        except OSError:
            return None


class _Sent(web.FileResponse):
    """A file that is sent when a place is free, and for so long at most."""

    def __init__(self, path: Path, slots: asyncio.Semaphore) -> None:
        super().__init__(path, CHUNK_BYTES, headers={"Content-Type": "application/octet-stream"})
        self._places: Final = slots

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Sends it. ConnectionResetError: the reader was too slow and is cut off."""
        async with self._places:
            request[BEING_SENT] = True
            try:
                async with asyncio.timeout(SEND_S):
                    return await super().prepare(request)
            except TimeoutError:
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError(f"a file was not sent within {SEND_S:.0f} s") from None
            finally:
                del request[BEING_SENT]


def _views_of(seen: Listing, names: list[str]) -> list[StreamView]:
    """Of these streams. In a thread."""
    views = []
    for name in names:
        found = [numbers for source in (*SOURCES, LOG) if (numbers := seen.numbers(name, source))]
        first, last = min(numbers[0] for numbers in found), max(numbers[-1] for numbers in found)
        views.append(StreamView(name, *origin_of(name), sum(map(len, found)), first, last))
    return views


def _rest() -> None:
    time.sleep(0)  # gives the interpreter to the broker's thread, if that wants it
