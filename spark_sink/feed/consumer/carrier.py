"""Carries out what was decided: on the disk below one folder, and over HTTP.

Blocks of a file come side by side into one hidden file; the memory has those that are there. The last one puts the file
in its place, so a name is never that of a file with holes; then all their posts are passed on (D-95).
"""

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import Collection
from typing import Final

from spark_sink.feed.blocks import Blocks, file_bytes_of, range_of
from spark_sink.feed.consumer.fetching import (
    Differs,
    Fetched,
    Fetcher,
    check_ends,
    compare,
    part_of,
    unsure_of,
)
from spark_sink.feed.consumer.http_client import NotFetched
from spark_sink.feed.consumer.memory import Memory
from spark_sink.feed.consumer.mirror import (
    Decision,
    Fetch,
    MakeFolder,
    MakeHardLink,
    MakeLink,
    Refused,
    Remove,
    Rename,
    Write,
)
from spark_sink.feed.consumer.places import Places
from spark_sink.feed.consumer.turns import Turns, claims_of
from spark_sink.feed.consumer.writing import Writing
from spark_sink.feed.identity import Identity
from spark_sink.feed.posts import Post

KEEP_PARTS_S: Final = 7 * 86_400.0  # how long a file that is not whole is kept for its next try


class Carrier:
    """Of one folder, from `start` to `stop`."""

    def __init__(self, places: Places, memory: Memory, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: of https; None: with the certificates of the system."""
        self._places: Final = places
        self._memory: Final = memory
        self._writing: Final = Writing(places)
        self._fetcher: Final = Fetcher(places, self._writing, tls)
        self._parts: Final = Turns()  # who changes what is known of a hidden file

    async def start(self) -> None:
        """Connects nowhere yet. What a process that was killed has left goes, unless it may be resumed."""
        await asyncio.to_thread(self._places.clean, time.time() - KEEP_PARTS_S)

    async def stop(self) -> None:
        """Ends all connections."""
        self._fetcher.close()
        await self._writing.close()

    def hurry(self, urls: Collection[str]) -> None:
        """What is fetched there can be had elsewhere."""
        self._fetcher.hurry(urls)

    async def carry_out(self, post: Post, decision: Decision) -> Fetched:
        """It is done when this returns. NotFetched, BadPlace, OSError."""
        places = self._places
        match decision:
            case Write(names, content, is_block):
                if is_block:
                    return await self._block(post, names, content)
                await self._writing.put(names, content, post.mtime_ns, post.mode)
                return Fetched(len(content), computed=compare(post, content))
            case Fetch(names, _, is_block):
                return await (self._block(post, names, None) if is_block else self._fetcher.fetch(post, names))
            case MakeLink(names, target):
                await asyncio.to_thread(places.symlink, names, target)
            case MakeHardLink(names, target, otherwise):
                try:
                    await asyncio.to_thread(places.hardlink, names, target)
                except (FileNotFoundError, NotADirectoryError):
                    return await self.carry_out(post, otherwise)
            case Rename(before, names, otherwise):
                try:
                    await asyncio.to_thread(places.rename, before, names)
                except (FileNotFoundError, NotADirectoryError):
                    if await asyncio.to_thread(places.find, names) is None:
                        return await self.carry_out(post, otherwise)
            case Remove(names, is_folder):
                await asyncio.to_thread(lambda: places.remove(names, is_folder=is_folder))
            case MakeFolder(names):
                await asyncio.to_thread(places.make_folder, names)
            case Refused(_, text):
                raise NotFetched(text, is_final=True)
        return Fetched(0)

    async def give_up(self, post: Post, decision: Decision) -> None:
        """Nobody goes on with what there is of it."""
        if isinstance(decision, Fetch) and not decision.is_block:
            await asyncio.to_thread(self._places.drop_part, decision.names, part_of(post, None))

    async def _block(self, post: Post, names: list[str], content: bytes | None) -> Fetched:
        blocks = post.blocks
        assert blocks is not None  # `decide` has seen it
        part = part_of(post, blocks)
        start, length = range_of(blocks)
        if content is not None and len(content) != length:
            raise Differs(f"content: has {len(content)} bytes, the block has {length}")
        async with self._parts.turn(claims_of([part])):
            if await self._is_whole(post, blocks, names, part):
                return Fetched(0, part=part)
            file = await asyncio.to_thread(self._places.open_part, names, part)
        try:
            if content is None:
                unsure = await self._fetcher.fetch_block(post, blocks, file)
            else:
                unsure = await asyncio.to_thread(_put_block, post, file, content, start)
            async with self._parts.turn(claims_of([part])):
                return await self._add(post, blocks, names, part, file, unsure)
        finally:
            os.close(file)

    async def _is_whole(self, post: Post, blocks: Blocks, names: list[str], part: str) -> bool:
        """Whether all blocks are in their place, though the memory does not know it: the process was killed between."""
        there = await self._memory.do(lambda tables: tables.blocks(part))
        if not there or await asyncio.to_thread(self._places.has_part, names, part):
            return False
        found = await asyncio.to_thread(self._places.find, names)
        is_all = len(there) == blocks.count and found is not None and found.st_size == file_bytes_of(blocks)
        if is_all and found is not None and post.mtime_ns in (None, found.st_mtime_ns):
            return True
        await self._memory.do(lambda tables: tables.end_blocks(part))
        return False

    async def _add(
        self, post: Post, blocks: Blocks, names: list[str], part: str, file: int, unsure: Identity | None
    ) -> Fetched:
        """One more is there; the last one puts the file in its place."""
        body = post.encode()
        _, length = range_of(blocks)
        await self._memory.do(lambda tables: tables.add_block(part, blocks.number, unsure, body))
        there = await self._memory.do(lambda tables: tables.blocks(part))
        if len(there) < blocks.count:
            return Fetched(length, is_whole=False)
        try:
            await asyncio.to_thread(check_ends, post, blocks, file, there)
        except Differs:
            await self._memory.do(lambda tables: tables.end_blocks(part))
            await asyncio.to_thread(self._places.drop_part, names, part)
            raise
        with contextlib.suppress(FileNotFoundError):  # by a post of the same block that came twice
            await asyncio.to_thread(self._places.put_part, names, part, file, post.mtime_ns, post.mode)
        return Fetched(length, part=part)


def _put_block(post: Post, file: int, content: bytes, start: int) -> Identity | None:
    """As `Fetcher.fetch_block`. In a thread."""
    at = 0
    while at < len(content):
        at += os.pwrite(file, content[at:], start + at)
    os.fsync(file)
    return unsure_of(post, content)
