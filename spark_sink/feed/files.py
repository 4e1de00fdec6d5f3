"""Files over HTTP: GET and HEAD below one root, whole or a range, and nothing else.

RFC 9110: an ETag is the digest that the file was posted with where that is known, else its size and time; `If-Range`
and `If-None-Match` compare it. A name is taken apart before it is decoded, so `%2F` is in no name and `..` leads
nowhere; links are not followed and names that begin with a dot are not served. sr3 asks for `//name` where baseUrl ends
in a slash: empty names at the beginning are passed over. There are no listings.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import unquote_to_bytes

from spark_sink.feed.opening import open_below

if TYPE_CHECKING:
    from aiohttp import web

MAX_SENDS: Final = 64  # files that are sent at the same time; others wait
SMALL_BYTES: Final = 64 << 10  # up to so many are read and sent in one piece
PIECE_BYTES: Final = 1 << 20  # of a large file at a time
ANY_PATH: Final = r"/{path:[\s\S]*}"  # a route of aiohttp that takes all names, those with a line feed, too
STALLED_S: Final = 60.0  # for one piece; a reader that takes longer is cut off, it holds up others

FindDigest = Callable[[str, os.stat_result], str | None]  # of a relPath and what is there now: `sha512:…`


class NoRange(Exception):
    """A range that begins behind the end of the file."""


class Span(NamedTuple):
    """Bytes of a file."""

    start: int
    length: int


class _Opened(NamedTuple):
    """A file that is asked for."""

    file: int  # its descriptor
    stat: os.stat_result
    digest: str | None  # None: it is not known
    content: bytes | None  # None: it is too large to be read at once


class Place(Protocol):
    """Where the files are."""

    def open(self, names: Sequence[bytes]) -> tuple[int, os.stat_result]:
        """A descriptor, and what it is. In a thread. OSError: there is no such file."""
        ...


class RootPlace:
    """A folder with all that is below it."""

    def __init__(self, root: Path) -> None:
        self._root: Final = root

    def open(self, names: Sequence[bytes]) -> tuple[int, os.stat_result]:
        """As `Place` says."""
        return open_below(self._root, names)


def no_digest(path: str, stat: os.stat_result) -> None:
    """Where nothing is known of what was posted."""


class Files:
    """Answers requests for the files of one place."""

    def __init__(self, place: Place, *, find_digest: FindDigest = no_digest, max_sends: int = MAX_SENDS) -> None:
        """`find_digest` is asked in a thread."""
        self._place: Final = place
        self._find_digest: Final = find_digest
        self._slots: Final = asyncio.Semaphore(max_sends)

    async def answer(self, request: "web.Request", raw_path: str) -> "web.StreamResponse":
        """The answer to GET or HEAD of a path below the root, as it stands in the URL, not decoded."""
        from aiohttp import web

        names = names_of(raw_path)
        async with self._slots:
            try:
                if names is None:
                    raise FileNotFoundError
                opened = await asyncio.to_thread(self._opened, names)
            except OSError:
                return web.Response(status=404, text="404: there is no such file\n")
            try:
                return await self._sent(request, opened)
            finally:
                os.close(opened.file)

    def _opened(self, names: Sequence[bytes]) -> "_Opened":
        file, stat = self._place.open(names)
        try:
            digest = self._find_digest(os.fsdecode(b"/".join(names)), stat)
            content = os.pread(file, stat.st_size, 0) if stat.st_size <= SMALL_BYTES else None
            return _Opened(file, stat, digest, content)
        except BaseException:
            os.close(file)
            raise

    async def _sent(self, request: "web.Request", opened: "_Opened") -> "web.StreamResponse":
        from aiohttp import web

        file, stat, digest, content = opened
        tag = f'"{digest or f"{stat.st_size:x}-{stat.st_mtime_ns:x}"}"'
        modified = formatdate(int(stat.st_mtime), usegmt=True)
        headers = {"ETag": tag, "Last-Modified": modified, "Accept-Ranges": "bytes"}
        if is_named(tag, request.headers.get("If-None-Match", "")):
            return web.Response(status=304, headers=headers)
        headers["Content-Type"] = "application/octet-stream"
        span = None
        condition = request.headers.get("If-Range", "")
        if request.method == "GET" and condition in ("", tag, modified):
            try:
                span = find_span(request.headers.get("Range", ""), stat.st_size)
            except NoRange:
                headers["Content-Range"] = f"bytes */{stat.st_size}"
                return web.Response(status=416, headers=headers)
        if span is None:
            status, span = 200, Span(0, stat.st_size)
        else:
            status = 206
            headers["Content-Range"] = f"bytes {span.start}-{span.start + span.length - 1}/{stat.st_size}"
        if request.method == "HEAD":
            return web.Response(status=status, headers={**headers, "Content-Length": str(span.length)})
        if span.length <= SMALL_BYTES:
            if content is None:
                body = await asyncio.to_thread(os.pread, file, span.length, span.start)
            else:
                body = content[span.start : span.start + span.length]
            if len(body) != span.length:
                raise ConnectionResetError("a file became shorter while it was read")
            return web.Response(status=status, headers=headers, body=body)
        response = web.StreamResponse(status=status, headers=headers)
        response.content_length = span.length
        try:
            await response.prepare(request)
            await _send(request, response, file, span)
        except ConnectionResetError:  # aiohttp would tell each one as a mistake of the program
            if request.transport is not None:
                request.transport.abort()
        return response


def names_of(raw_path: str) -> list[bytes] | None:
    """Names one below the other, of a path as it stands in a URL; None: it can be none of a file that is served."""
    names = [unquote_to_bytes(name) for name in raw_path.lstrip("/").split("/")]
    is_good = all(name and name[:1] != b"." and not {0, ord("/")}.intersection(name) for name in names)
    return names if is_good else None


def is_named(tag: str, header: str) -> bool:
    """Does If-None-Match name this ETag?"""
    return header.strip() == "*" or tag in (each.strip().removeprefix("W/") for each in header.split(","))


def find_span(header: str, size: int) -> Span | None:
    """The bytes that a Range asks for; None: all of them, as for several ranges and what cannot be read. NoRange."""
    unit, _, text = header.partition("=")
    first, dash, last = text.strip().partition("-")
    numbers = [each for each in (first, last) if each]
    is_range = unit.strip().lower() == "bytes" and dash and numbers
    if not is_range or not all(each.isascii() and each.isdecimal() and len(each) < 20 for each in numbers):
        return None
    if not first:
        length = min(int(last), size)
        if not length:
            raise NoRange
        return Span(size - length, length)
    start, end = int(first), min(int(last), size - 1) if last else size - 1
    if last and int(last) < start:
        return None
    if start >= size:
        raise NoRange
    return Span(start, end - start + 1)


async def _send(request: "web.Request", response: "web.StreamResponse", opened: int, span: Span) -> None:
    """By the kernel where the event loop lets it, else in pieces. ConnectionResetError: it was cut off."""
    loop = asyncio.get_running_loop()
    at, end = span.start, span.start + span.length
    with os.fdopen(os.dup(opened), "rb", buffering=0) as file:
        while at < end:
            length = min(PIECE_BYTES, end - at)
            try:
                async with asyncio.timeout(STALLED_S):
                    if request.transport is None:
                        raise ConnectionResetError("the reader has gone")
                    try:
                        sent = await loop.sendfile(request.transport, file, at, length, fallback=False)
                    except (NotImplementedError, RuntimeError):  # uvloop, TLS
                        piece = await asyncio.to_thread(os.pread, opened, length, at)
                        sent = len(piece)
                        await response.write(piece)
                if not sent:
                    raise ConnectionResetError("a file became shorter while it was read")
            except TimeoutError:
                sent = 0
            if not sent:
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError(f"a reader took nothing for {STALLED_S:.0f} s")
            at += sent
    await response.write_eof()
