"""Fetches what a post announces, compares it, and puts it in its place: whole, or not at all.

    small   one request ──► memory ──► size, digest ──► hidden file, synced ──► its name
    large   Range from where it broke off ──► hidden file, piece by piece ──► size, digest ──► its name
    block   Range of the block ──► its bytes in the hidden file of all blocks

Over http and https, on the host that the post names and on no other. What broke off is resumed, also by the next
process, where a digest will tell whether the whole is right; otherwise by the same process alone, where the server
says by an ETag that the file is the same. "The sum … allows to confirm that the file received is what was sent": what
differs is fetched once more, and is never under its name (D-93).
"""

import asyncio
import os
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from spark_sink.feed.blocks import INPLACE, Blocks, file_bytes_of, range_of
from spark_sink.feed.consumer.heads import Head
from spark_sink.feed.consumer.http_client import Answer, BrokeOff, HttpClient, NotFetched
from spark_sink.feed.consumer.places import Places, begin_writing
from spark_sink.feed.consumer.winnow import PATH, fingerprint_of
from spark_sink.feed.consumer.writing import Writing
from spark_sink.feed.identity import (
    COD,
    SHA512,
    Digest,
    Identity,
    cod_method,
    digest,
    identity_of,
    is_checked,
    value_of,
)
from spark_sink.feed.posts import Post

SMALL_BYTES: Final = 256 << 10  # of a file that is fetched into memory, and hashed there: that takes 0.5 ms
PIECE_BYTES: Final = 1 << 20  # of a large one at a time
MAX_REDIRECTS: Final = 3
ATTEMPTS: Final = 3  # at one file at once, where a connection breaks off or the bytes are other ones
SCHEMES: Final = ("http", "https")
# Answers after which another try can have another end.
_AGAIN: Final = frozenset((404, 408, 416, 425, 429))


class Differs(NotFetched):
    """It is not what was announced."""

    def __init__(self, text: str) -> None:
        super().__init__(text, is_final=True)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What is there now."""

    size: int  # bytes that were fetched
    is_whole: bool = True  # the file is in its place; else it waits for other blocks
    computed: Identity | None = None  # of `cod`: what it has
    part: str = ""  # of a file of blocks that is in its place: what the memory has of them is of no use any more


class _Stream:
    """Bytes on their way into a file."""

    def __init__(self, file: int, start: int, end: int | None, method: str) -> None:
        self.file: Final = file
        self.start: Final = start
        self.end: Final = end  # offset behind the last one; None: that of the file at its source
        self.method: Final = method
        self.at = start
        self.computes: Digest = digest(method)
        self.tag = ""  # of the answer that they came with; empty: it had none that can be compared

    def restart(self) -> None:
        """From the first one."""
        self.at, self.computes, self.tag = self.start, digest(self.method), ""


class Fetcher:
    """One client of HTTP, until `close`."""

    def __init__(self, places: Places, writing: Writing, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: as of `HttpClient`."""
        self._places: Final = places
        self._writing: Final = writing
        self._client: Final = HttpClient(tls)

    def hurry(self, urls: Collection[str]) -> None:
        """As of `HttpClient`."""
        self._client.hurry(urls)

    def close(self) -> None:
        """Ends all connections."""
        self._client.close()

    async def fetch(self, post: Post, names: list[str]) -> Fetched:
        """The whole file of the post, into its place. NotFetched, OSError."""
        there = await self._find_there(post, names)
        if there is not None:
            return there
        is_small = post.size is not None and post.size <= SMALL_BYTES
        return await (self._fetch_small(post, names) if is_small else self._fetch_large(post, names))

    async def fetch_block(self, post: Post, blocks: Blocks, file: int) -> Identity | None:
        """The bytes of one block, into the file of all of them. Given back is what the end of the file has to tell of
        it; None: nothing. NotFetched, OSError."""
        start, length = range_of(blocks)
        stream = _Stream(file, start, start + length, _method_of(post) or SHA512)
        for left in reversed(range(ATTEMPTS)):
            try:
                if stream.at < start + length:
                    await self._append(post, stream)
                break
            except BrokeOff:
                if not left:
                    raise
        # D-91: sr3 computes the digest from here to the end of the file.
        await asyncio.to_thread(os.fsync, file)
        announced = post.identity
        is_right = _method_of(post) is None or announced is None or value_of(stream.computes) == announced.value
        return None if is_right else announced

    async def _find_there(self, post: Post, names: list[str]) -> Fetched | None:
        """What is in its place, though the memory does not know it: the process was killed between. None: it is not."""
        announced, size = post.identity, post.size
        is_sure = announced is not None and is_checked(announced)
        # D-89: data without a digest is the same where path, mtime and size are.
        is_by_time = (announced is None or announced.method == COD) and post.mtime_ns is not None
        if size is None or not (is_sure or is_by_time) or not self._places.may_have(names, size, post.mtime_ns):
            return None
        asked = cod_method(announced)
        method = _method_of(post) or asked
        values: list[str] = []

        def is_right(file: int) -> bool:
            found = os.fstat(file)
            if found.st_size != size or post.mtime_ns not in (None, found.st_mtime_ns):
                return False
            if method is not None:
                made = digest(method)
                _feed(made, file, size)
                values.append(value_of(made))
            return not is_sure or (announced is not None and values == [announced.value])

        if not await asyncio.to_thread(self._places.has, names, is_right):
            return None
        return Fetched(0, computed=None if asked is None else Identity(asked, values[0]))

    async def _fetch_small(self, post: Post, names: list[str]) -> Fetched:
        for left in reversed(range(ATTEMPTS)):
            try:
                content = await self._read(post)
                computed = compare(post, content)
                break
            except (BrokeOff, Differs):
                if not left:
                    raise
        await self._writing.put(names, content, post.mtime_ns, post.mode)
        return Fetched(len(content), computed=computed)

    async def _read(self, post: Post) -> bytes:
        size = post.size or 0
        answer = await self._ask(post.url, None)
        try:
            length = answer.head.length
            if length is not None and length <= SMALL_BYTES:
                return await answer.read(length)
            content = await answer.read(size + 1)
            if len(content) > size:
                raise _too_long(post)
            return content
        finally:
            answer.end()

    async def _fetch_large(self, post: Post, names: list[str]) -> Fetched:
        part = part_of(post, None)
        file = await asyncio.to_thread(self._places.open_part, names, part)
        try:
            fetched = await self._collect(post, file)
            await asyncio.to_thread(self._places.put_part, names, part, file, post.mtime_ns, post.mode)
            return fetched
        except NotFetched as error:
            if error.is_final or _method_of(post) is None:
                await asyncio.to_thread(self._places.drop_part, names, part)
            raise
        finally:
            os.close(file)

    async def _collect(self, post: Post, file: int) -> Fetched:
        """All bytes of it, those that are in the file included, compared."""
        method = _method_of(post)
        stream = _Stream(file, 0, post.size, method or cod_method(post.identity) or SHA512)
        there = os.fstat(file).st_size if method is not None else 0
        if post.size is None or there <= post.size:
            await asyncio.to_thread(_feed, stream.computes, file, there)
            stream.at = there
        for left in reversed(range(ATTEMPTS)):
            try:
                if post.size is None or stream.at < post.size:
                    await self._append(post, stream)
                await asyncio.to_thread(os.ftruncate, file, stream.at)
                return self._compared(post, stream)
            except BrokeOff:
                if not left:
                    raise
                if method is None and not stream.tag:
                    stream.restart()
            except Differs:
                if not left:
                    raise
                stream.restart()
        raise AssertionError("the last attempt ends the loop")

    def _compared(self, post: Post, stream: _Stream) -> Fetched:
        """Differs."""
        if post.size is not None and stream.at != post.size:
            raise Differs(f"{post.url}: has {stream.at} bytes, {post.size} were announced")
        found = value_of(stream.computes)
        if post.identity is not None and _method_of(post) is not None and found != post.identity.value:
            raise _differs(post, found)
        asked = cod_method(post.identity)
        return Fetched(stream.at, computed=None if asked is None else Identity(asked, found))

    async def _append(self, post: Post, stream: _Stream) -> None:
        """What follows, up to the end. BrokeOff: it ends before that."""
        is_block = post.blocks is not None and is_inplace(post)
        span = (stream.at, stream.end if is_block else None) if is_block or stream.at else None
        is_sure = is_block or _method_of(post) is not None
        answer = await self._ask(post.url, span, "" if is_sure else stream.tag)
        try:
            if span is not None and answer.head.status != 206:
                if stream.start:
                    raise NotFetched(f"{post.url}: the server knows no ranges", is_final=True)
                stream.restart()
            tag = answer.head.headers.get("etag", "")
            stream.tag = "" if tag.startswith("W/") else tag
            await self._write(post, stream, answer, takes_part=is_block and answer.head.status == 200)
        finally:
            answer.end()
        if stream.end is not None and stream.at < stream.end:
            if is_block:
                raise BrokeOff(f"{post.url}: the block at {stream.start} ends at {stream.at}, not at {stream.end}")
            raise Differs(f"{post.url}: has {stream.at} bytes, {stream.end} were announced")

    async def _write(self, post: Post, stream: _Stream, answer: Answer, *, takes_part: bool) -> None:
        """`takes_part`: the answer is more than what is wanted."""
        spare, piece = (memoryview(bytearray(PIECE_BYTES)) for _ in range(2))
        piece_n = 0  # bytes that have come into it
        keeping: asyncio.Future[Any] | None = None  # of the other one
        is_more = True
        try:
            while is_more:
                came_n = await answer.some(piece[piece_n:])
                piece_n += came_n
                is_more = came_n > 0
                if stream.end is not None and stream.at + piece_n >= stream.end:
                    is_too_long = stream.at + piece_n > stream.end and not takes_part
                    piece_n = stream.end - stream.at  # what is behind it may be another block's
                    if is_too_long:
                        raise _too_long(post)
                    is_more = is_more and not takes_part
                # What comes while threads write and hash is their next piece.
                if is_more and piece_n < PIECE_BYTES and keeping is not None and not keeping.done():
                    continue
                if keeping is not None:
                    await keeping
                keeping = _keep(stream, piece[:piece_n])
                piece, spare, piece_n = spare, piece, 0
        except NotFetched:
            if keeping is not None:
                await keeping
            keeping = _keep(stream, piece[:piece_n])
            raise
        finally:
            if keeping is not None:
                await keeping

    async def _ask(self, url: str, span: "tuple[int, int | None] | None", tag: str = "") -> Answer:
        """The answer with the bytes from the first to before the second, if it is the file with this ETag. NotFetched
        for any other, and where there is none; BrokeOff where it ends too soon."""
        headers = {}
        if span is not None:
            headers["Range"] = f"bytes={span[0]}-{'' if span[1] is None else span[1] - 1}"
            if tag:
                headers["If-Range"] = tag
        at = url
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._client.get(at, headers)
            try:
                to = _redirection(url, at, answer.head)
                if not to and span is not None and answer.head.status == 206:
                    _check_span(url, span[0], answer.head.headers.get("content-range", ""))
            except NotFetched:
                answer.end()
                raise
            if not to:
                return answer
            answer.end()
            at = to
        raise NotFetched(f"{url}: more than {MAX_REDIRECTS} redirects", is_final=True)


def part_of(post: Post, blocks: Blocks | None) -> str:
    """The name of the hidden file in which it is collected: the same one in each try, and of all blocks of a file."""
    if blocks is None:
        return fingerprint_of(post, PATH).hex()
    whole = f"{post.place}\0{blocks.size}\0{blocks.count}\0{blocks.remainder}\0{post.mtime_ns}"
    made = digest("md5")
    made.update(whole.encode("utf-8", "replace"))
    return made.digest().hex()


def host_of(url: str) -> str:
    """Host and port that a URL names; empty: none."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def is_inplace(post: Post) -> bool:
    """Whether the post is of a block of a file that lies in one piece at its source."""
    return post.blocks is not None and post.blocks.method == INPLACE and post.blocks.count > 1


def compare(post: Post, content: bytes) -> Identity | None:
    """Differs: it is not what was announced. Given back is what `cod` asks for."""
    if post.size is not None and len(content) != post.size:
        raise Differs(f"{post.url}: has {len(content)} bytes, {post.size} were announced")
    method = cod_method(post.identity)
    if method is not None:
        return identity_of(method, content)
    if post.identity is not None and is_checked(post.identity):
        found = identity_of(post.identity.method, content)
        if found != post.identity:
            raise _differs(post, found.value)
    return None


def unsure_of(post: Post, content: bytes) -> Identity | None:
    """None: the block is what was announced, or nothing can be compared. Else the bytes up to the end of the file have
    to have this digest. D-91"""
    announced = post.identity
    if announced is None or not is_checked(announced) or identity_of(announced.method, content) == announced:
        return None
    return announced


def check_ends(post: Post, blocks: Blocks, file: int, there: Mapping[int, Identity | None]) -> None:
    """Makes the file as long as it is to be. Differs: a block is neither what was announced, nor is what follows it."""
    size = file_bytes_of(blocks)
    if size is not None:
        os.ftruncate(file, size)
    for number, announced in there.items():
        if announced is None:
            continue
        made = digest(announced.method)
        _feed(made, file, os.fstat(file).st_size, number * blocks.size)
        if value_of(made) != announced.value:
            raise Differs(f"{post.url}: block {number} has not the {announced.method} that was announced")


def _method_of(post: Post) -> str | None:
    """That of the digest with which the bytes are compared; None: they are not."""
    return post.identity.method if post.identity is not None and is_checked(post.identity) else None


def _differs(post: Post, found: str) -> Differs:
    assert post.identity is not None
    return Differs(f"{post.url}: its {post.identity.method} is {found}, {post.identity.value} was announced")


def _too_long(post: Post) -> Differs:
    return Differs(f"{post.url}: has more than the {post.size} bytes that were announced")


def _redirection(first: str, at: str, head: Head) -> str:
    """Where the file is instead; empty: it is here. NotFetched: neither."""
    status = head.status
    if status in (200, 206):
        return ""
    if status not in (301, 302, 303, 307, 308):
        is_final = 400 <= status < 500 and status not in _AGAIN
        raise NotFetched(f"{first}: {status} {head.reason}", is_final=is_final)
    to = urljoin(at, head.headers.get("location", ""))
    if urlsplit(to).scheme not in SCHEMES or host_of(to) != host_of(first):
        raise NotFetched(f"{first}: is redirected to {to[:100]!r}, another host", is_final=True)
    return to


def _check_span(url: str, start: int, content_range: str) -> None:
    if content_range.partition("-")[0].strip() != f"bytes {start}":
        raise NotFetched(f"{url}: bytes from {start} were asked for, {content_range[:60]!r} came", is_final=True)


def _feed(computes: Digest, file: int, to: int, at: int = 0) -> None:
    """What is in the file up to there, to the digest."""
    while at < to:
        piece = os.pread(file, min(PIECE_BYTES, to - at), at)
        if not piece:
            return
        computes.update(piece)
        at += len(piece)


def _keep(stream: _Stream, piece: memoryview) -> "asyncio.Future[Any]":
    """The next bytes: two threads write and hash them."""
    at = stream.at
    stream.at += len(piece)
    return asyncio.gather(
        asyncio.to_thread(_write_at, stream.file, piece, at), asyncio.to_thread(stream.computes.update, piece)
    )


def _write_at(file: int, piece: memoryview, at: int) -> None:
    left = piece
    while left:
        left = left[os.pwrite(file, left, at + len(piece) - len(left)) :]
    # The disk begins now, so there is little left to wait for at the end.
    begin_writing(file, at, len(piece))
