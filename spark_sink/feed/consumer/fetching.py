"""Fetches what a post announces, compares it, and puts it in its place: whole, or not at all.

    small   one request ──► memory ──► size, digest ──► hidden file, synced ──► its name
    large   Range from where it broke off ──► hidden file, piece by piece ──► size, digest ──► its name
    block   Range of the block ──► its bytes in a hidden file; when all blocks are there ──► its name

Over http and https, on the host that the post names and on no other. What broke off is resumed, also by the next
process, where a digest will tell whether the whole is right; otherwise it is fetched anew. "The sum … allows to confirm
that the file received is what was sent": what differs is never under its name.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from spark_sink.errors import SinkError
from spark_sink.feed.blocks import INPLACE, Blocks, file_bytes_of, range_of
from spark_sink.feed.consumer.places import Places
from spark_sink.feed.consumer.winnow import PATH, fingerprint_of
from spark_sink.feed.identity import Digest, Identity, cod_method, digest, identity_of, is_checked, value_of
from spark_sink.feed.posts import Post

if TYPE_CHECKING:
    import aiohttp

SMALL_BYTES: Final = 1 << 20  # of a file that is fetched into memory
PIECE_BYTES: Final = 1 << 20  # of a large one at a time
CONNECT_S: Final = 10.0
SILENT_S: Final = 60.0  # of a server, after which the request has failed
MAX_REDIRECTS: Final = 3
MAX_CONNECTIONS: Final = 256  # of all hosts
SCHEMES: Final = ("http", "https")
# Answers after which another try can have another end.
_AGAIN: Final = frozenset((404, 408, 416, 425, 429))


class NotFetched(SinkError):
    """It was not fetched; the text says why. `is_final`: another try would have the same end."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final: Final = is_final


@dataclass(frozen=True, slots=True)
class Fetched:
    """What is there now."""

    size: int  # bytes that were fetched
    is_whole: bool = True  # the file is in its place; else it waits for other blocks
    computed: Identity | None = None  # of `cod`: what it has
    unsure: Identity | None = None  # of a block: what the end of the file has to tell of it


class Fetcher:
    """One client of HTTP, from `start` to `close`."""

    def __init__(self, places: Places, *, per_host_n: int) -> None:
        self._places: Final = places
        self._per_host_n: Final = per_host_n
        self._session: aiohttp.ClientSession | None = None  # from `start` to `close`

    async def start(self) -> None:
        """Connects nowhere yet."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENT_S)
        connector = aiohttp.TCPConnector(limit=MAX_CONNECTIONS, limit_per_host=self._per_host_n)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, headers={"Accept-Encoding": "identity"}
        )

    async def close(self) -> None:
        """Ends all connections."""
        if self._session is not None:
            await self._session.close()

    async def fetch(self, post: Post, names: list[str]) -> Fetched:
        """The whole file of the post, into its place. NotFetched, OSError."""
        if post.size is not None and post.size <= SMALL_BYTES:
            return await self._fetch_small(post, names)
        return await self._fetch_large(post, names)

    async def fetch_block(
        self, post: Post, blocks: Blocks, names: list[str], there: Mapping[int, Identity | None]
    ) -> Fetched:
        """One block of a file; with the last one that was missing the file is in its place. `there`: those that were
        fetched before, with what the end of the file has to tell of them. NotFetched, OSError."""
        start, length = range_of(blocks)
        content = await self._read_block(post, start, length)
        unsure = _unsure_of(post, content)
        part = part_of(post, blocks)
        file = await asyncio.to_thread(self._places.open_part, names, part)
        try:
            await asyncio.to_thread(os.pwrite, file, content, start)
            all_there = {**there, blocks.number: unsure}
            is_whole = len(all_there) == blocks.count
            if is_whole:
                size = file_bytes_of(blocks)
                if size is not None:
                    await asyncio.to_thread(os.ftruncate, file, size)
                await asyncio.to_thread(_check_ends, post, file, blocks.size, all_there)
                await asyncio.to_thread(self._places.put_part, names, part, file, post.mtime_ns, post.mode)
            else:
                await asyncio.to_thread(os.fsync, file)
        finally:
            os.close(file)
        return Fetched(length, is_whole, unsure=unsure)

    async def _read_block(self, post: Post, start: int, length: int) -> bytes:
        subject = f"{post.url}: the block at {start}"
        data = bytearray()
        async with self._answer(post.url, (start, start + length - 1) if length else None) as response:
            if response.status == 200 and start:
                raise NotFetched(f"{post.url}: the server knows no ranges", is_final=True)
            async for piece in response.content.iter_chunked(PIECE_BYTES):
                data += piece
                if len(data) >= length and response.status == 200:
                    break  # the whole file, of which this is the first block
                if len(data) > length:
                    raise NotFetched(f"{subject} has more than {length} bytes")
        if len(data) < length:
            raise NotFetched(f"{subject} has {len(data)} bytes, {length} were announced")
        return bytes(data[:length])

    async def _fetch_small(self, post: Post, names: list[str]) -> Fetched:
        size = post.size
        data = bytearray()
        async with self._answer(post.url, None) as response:
            async for piece in response.content.iter_any():
                data += piece
                if size is not None and len(data) > size:
                    raise NotFetched(f"{post.url}: has more than the {size} bytes that were announced")
        content = bytes(data)
        computed = _compare(post, content)
        await asyncio.to_thread(self._places.put, names, content, post.mtime_ns, post.mode)
        return Fetched(len(content), computed=computed)

    async def _fetch_large(self, post: Post, names: list[str]) -> Fetched:
        part = part_of(post, None)
        file = await asyncio.to_thread(self._places.open_part, names, part)
        try:
            fetched = await self._collect(post, file)
        except NotFetched as error:
            if error.is_final or not is_checked(post.identity):
                await asyncio.to_thread(self._places.drop_part, names, part)
            raise
        else:
            await asyncio.to_thread(self._places.put_part, names, part, file, post.mtime_ns, post.mode)
            return fetched
        finally:
            os.close(file)

    async def _collect(self, post: Post, file: int) -> Fetched:
        """All bytes of it, those that are in the file included, compared."""
        method = post.identity.method if post.identity is not None and is_checked(post.identity) else None
        computes = digest(method or cod_method(post.identity) or "sha512")
        at = os.fstat(file).st_size if method is not None else 0
        if post.size is not None and at > post.size:
            at = 0
        await asyncio.to_thread(_feed, computes, file, at)
        if at and at == post.size:
            pass  # it broke off behind the last byte
        else:
            at = await self._append(post, file, at, computes)
        if post.size is not None and at != post.size:
            raise NotFetched(f"{post.url}: has {at} bytes, {post.size} were announced")
        found = value_of(computes)
        if method is not None and post.identity is not None and found != post.identity.value:
            await asyncio.to_thread(os.ftruncate, file, 0)
            raise NotFetched(_differs(post, found))
        asked = cod_method(post.identity)
        return Fetched(at, computed=None if asked is None else Identity(asked, found))

    async def _append(self, post: Post, file: int, at: int, computes: Digest) -> int:
        async with self._answer(post.url, (at, None) if at else None) as response:
            if at and response.status != 206:
                await asyncio.to_thread(os.ftruncate, file, 0)
                raise NotFetched(f"{post.url}: cannot be resumed, it is fetched anew")
            if not at:
                await asyncio.to_thread(os.ftruncate, file, 0)
            writing: asyncio.Future[None] | None = None
            try:
                async for piece in response.content.iter_chunked(PIECE_BYTES):
                    if post.size is not None and at + len(piece) > post.size:
                        raise NotFetched(f"{post.url}: has more than the {post.size} bytes that were announced")
                    if writing is not None:
                        await writing
                    # While the thread writes and hashes, the next piece comes.
                    writing = asyncio.ensure_future(asyncio.to_thread(_keep, file, piece, at, computes))
                    at += len(piece)
            finally:
                if writing is not None:
                    await writing
        return at

    @contextlib.asynccontextmanager
    async def _answer(self, url: str, span: "tuple[int, int | None] | None") -> "AsyncIterator[aiohttp.ClientResponse]":
        """The answer with the bytes; NotFetched for any other, and where there is none."""
        import aiohttp

        session = self._session
        assert session is not None  # it has started
        headers = {} if span is None else {"Range": f"bytes={span[0]}-{'' if span[1] is None else span[1]}"}
        at = url
        try:
            for _ in range(MAX_REDIRECTS + 1):
                async with session.get(at, headers=headers, allow_redirects=False) as response:
                    if response.status in (301, 302, 303, 307, 308):
                        at = _redirected(url, at, response.headers.get("Location", ""))
                        continue
                    if response.status not in (200, 206):
                        is_final = 400 <= response.status < 500 and response.status not in _AGAIN
                        raise NotFetched(f"{url}: {response.status} {response.reason}", is_final=is_final)
                    if span is not None and response.status == 206:
                        _check_span(url, span[0], response.headers.get("Content-Range", ""))
                    yield response
                    return
            raise NotFetched(f"{url}: more than {MAX_REDIRECTS} redirects", is_final=True)
        except (aiohttp.InvalidURL, ValueError) as error:
            raise NotFetched(f"{url}: it is no URL: {error}", is_final=True) from None
        except TimeoutError:
            raise NotFetched(f"{url}: no answer") from None
        except aiohttp.ClientError as error:
            raise NotFetched(f"{url}: {' '.join(str(error).split()) or type(error).__name__}") from None


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


def _compare(post: Post, content: bytes) -> Identity | None:
    """NotFetched when it is not what was announced. Given back is what `cod` asks for."""
    if post.size is not None and len(content) != post.size:
        raise NotFetched(f"{post.url}: has {len(content)} bytes, {post.size} were announced")
    method = cod_method(post.identity)
    if method is not None:
        return identity_of(method, content)
    if post.identity is not None and is_checked(post.identity):
        found = identity_of(post.identity.method, content)
        if found != post.identity:
            raise NotFetched(_differs(post, found.value))
    return None


def _unsure_of(post: Post, content: bytes) -> Identity | None:
    """None: the block is what was announced, or nothing can be compared. Else the bytes up to the end of the file have
    to have this digest, as sr3 computes it. D-91"""
    announced = post.identity
    if announced is None or not is_checked(announced) or identity_of(announced.method, content) == announced:
        return None
    return announced


def _check_ends(post: Post, file: int, block_bytes: int, there: Mapping[int, Identity | None]) -> None:
    """NotFetched: a block is neither what was announced, nor is what follows it."""
    for number, announced in there.items():
        if announced is None:
            continue
        made = digest(announced.method)
        _feed(made, file, os.fstat(file).st_size, number * block_bytes)
        if value_of(made) != announced.value:
            raise NotFetched(f"{post.url}: block {number} has not the {announced.method} that was announced")


def _differs(post: Post, found: str) -> str:
    assert post.identity is not None
    return f"{post.url}: its {post.identity.method} is {found}, {post.identity.value} was announced"


def _redirected(first: str, at: str, location: str) -> str:
    to = urljoin(at, location)
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


def _keep(file: int, piece: bytes, at: int, computes: Digest) -> None:
    os.pwrite(file, piece, at)
    computes.update(piece)
