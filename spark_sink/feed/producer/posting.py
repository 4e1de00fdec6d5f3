"""What is said of a change: reads the file that has changed, and makes its posts.

Sections "identity", "Parts" and "content": which identity, blocks above one size, content below another. In a thread:
reading and computing take as long as the file is large. What changes while it is read is not posted.
"""

import os
import posixpath
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from spark_sink.errors import SinkError
from spark_sink.feed.blocks import INPLACE, Block, blocks_of, plan
from spark_sink.feed.identity import ARBITRARY, COD, METHODS, RANDOM, SHA512, Identity, digest, is_checked, value_of
from spark_sink.feed.opening import open_below
from spark_sink.feed.posts import DIRECTORY, HLINK, LINK, REMOVE, RENAME, FileOp, Post, make_post
from spark_sink.feed.producer.post_tables import Posting
from spark_sink.feed.producer.scanning import FILE, Change, Entry

NONE: Final = "none"
READ_BYTES: Final = 1 << 20  # of a file at a time
MAX_POSTED_BLOCKS: Final = 1_000  # of a file, whose posts hold them all in their manifest: larger files, larger blocks
MAX_INLINE_BYTES: Final = 256 * 1024  # of content, which base64 makes a third larger, within MAX_POST_BYTES


class BadIdentity(SinkError):
    """No way to identify files; the text says which there are."""


class PostOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What posts say, but for the file itself."""

    base_url: str
    identity: str = SHA512  # md5, sha512; `cod,md5`, `cod,sha512`; random; `arbitrary,VALUE`; none
    inline_bytes: int = 0  # files up to this size are in their posts; 0: none
    block_bytes: int = 0  # larger files are posted in blocks of this size; 0: none
    source: str = ""
    from_cluster: str = ""
    to_clusters: str = ""
    extra: Mapping[str, object] = {}  # headers of the user
    has_removals: bool = True  # False: what is gone is not posted

    def __post_init__(self) -> None:
        check_identity(self.identity)


class PubTimes:
    """pubTimes that no two posts share, so that a report says which one it is of. Any thread."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """`clock_ns`: nanoseconds since the epoch."""
        self._clock_ns: Final = clock_ns
        self._lock: Final = threading.Lock()
        self._last_ns = 0

    def next_ns(self) -> int:
        """Now, or a microsecond after the last one."""
        with self._lock:
            self._last_ns = max(self._clock_ns() // 1000 * 1000, self._last_ns + 1000)
            return self._last_ns


def check_identity(text: str) -> None:
    """BadIdentity unless it is one of `PostOptions.identity`."""
    method, _, value = text.partition(",")
    is_good = not value if method in (*METHODS, RANDOM, NONE) else method in (COD, ARBITRARY) and bool(value)
    if not is_good or (method == COD and value not in METHODS):
        raise BadIdentity(
            f"identity: {text!r} is none of md5, sha512, cod,md5, cod,sha512, random, arbitrary,VALUE and none"
        )


def find_posting(change: Change, root: Path, place: str, options: PostOptions, times: PubTimes) -> Posting | None:
    """What is posted of a change; None: it is not there as it was found, any more. `place`: of the file, below root.

    BadPost: a post cannot say it. OSError: it cannot be read. Of a rename the identity is added by `renamed`.
    """
    entry = change.entry
    post = _Poster(change, options, times)
    if change.kind == FILE:
        return _file(post, root, place)
    if change.kind == REMOVE:
        gone = FileOp(REMOVE, is_directory=entry.kind == DIRECTORY)
        return Posting(change.path, [post.made(file_op=gone)] if options.has_removals else [], None)
    if change.kind == DIRECTORY:
        mode = os.lstat(root / place).st_mode
        made = post.made(file_op=FileOp(DIRECTORY, is_directory=True), mode=mode, mtime_ns=entry.mtime_ns)
    elif change.kind == LINK:
        made = post.made(file_op=FileOp(LINK, entry.target), mtime_ns=entry.mtime_ns)
    else:  # HLINK; as in sr3: seen from the folder of the new name
        target = posixpath.relpath(change.other, posixpath.dirname(change.path) or ".")
        made = post.made(file_op=FileOp(HLINK, target), size=entry.size, mtime_ns=entry.mtime_ns)
    return Posting(change.path, [made], entry)


def renamed(change: Change, identity: Identity | None, options: PostOptions, times: PubTimes) -> Posting:
    """What is posted of a file with a new name. `identity`: as it was posted under the name before. BadPost."""
    entry = change.entry
    made = _Poster(change, options, times).made(
        file_op=FileOp(RENAME, change.other), identity=identity, size=entry.size, mtime_ns=entry.mtime_ns
    )
    return Posting(change.path, [made], entry, identity, before=change.other)


class _Poster(NamedTuple):
    """Makes posts of one path."""

    change: Change
    options: PostOptions
    times: PubTimes

    def made(self, **said: Any) -> Post:
        """A post that says this, and what all posts do. BadPost."""
        options = self.options
        return make_post(
            options.base_url,
            self.change.path,
            self.times.next_ns(),
            source=options.source,
            from_cluster=options.from_cluster,
            to_clusters=options.to_clusters,
            extra=options.extra,
            **said,
        )


def _file(post: _Poster, root: Path, place: str) -> Posting | None:
    entry, options = post.change.entry, post.options
    opened, stat = open_below(root, place.split("/"))
    with os.fdopen(opened, "rb", buffering=0) as file:
        if not _is_as(stat, entry):
            return None
        said = {"mtime_ns": stat.st_mtime_ns, "atime_ns": stat.st_atime_ns, "mode": stat.st_mode}
        block_bytes = _block_bytes(entry.size, options.block_bytes)
        identity: Identity | None = None
        if block_bytes:
            posts = list(_blocks(post, file, block_bytes, said))
        else:
            has_content = options.inline_bytes > 0 and entry.size <= min(options.inline_bytes, MAX_INLINE_BYTES)
            content = b"".join(_read(file, entry.size)) if has_content else None
            identity = _identity(options.identity, _read(file, entry.size) if content is None else [content])
            posts = [post.made(identity=identity, size=entry.size, content=content, **said)]
        if not _is_as(os.fstat(file.fileno()), entry):
            return None
    return Posting(post.change.path, posts, entry, identity)


def _blocks(post: _Poster, file: FileIO, block_bytes: int, said: Mapping[str, int]) -> Iterator[Post]:
    """Each with the manifest of all, which sr3 needs (D-85)."""
    size = post.change.entry.size
    lengths = [length for _, length in plan(size, block_bytes)]
    identities = [_identity(post.options.identity, _read(file, length)) for length in lengths]
    manifest = {
        number: Block(length, identity.value if is_checked(identity) and identity is not None else "")
        for number, (length, identity) in enumerate(zip(lengths, identities, strict=True))
    }
    for blocks, length, identity in zip(blocks_of(INPLACE, size, block_bytes), lengths, identities, strict=True):
        whole = msgspec.structs.replace(blocks, manifest=manifest)
        yield post.made(identity=identity, size=length, blocks=whole, **said)


def _block_bytes(file_bytes: int, block_bytes: int) -> int:
    """Of each block of a file of this size; 0: it is posted as a whole."""
    if not block_bytes or file_bytes <= block_bytes:
        return 0
    return max(block_bytes, -(-file_bytes // MAX_POSTED_BLOCKS))


def _identity(text: str, chunks: Iterable[bytes]) -> Identity | None:
    """Of these bytes, which are read only where their digest is wanted."""
    method, _, value = text.partition(",")
    if method in METHODS:
        made = digest(method)
        for chunk in chunks:
            made.update(chunk)
        return Identity(method, value_of(made))
    if method == NONE:
        return None
    # "for algorithms for which no value makes sense, a random integer is generated".
    return Identity(method, str(random.randrange(10_000)) if method == RANDOM else value)


def _read(file: FileIO, size: int) -> Iterator[bytes]:
    """The next bytes of a file, so many or what is there."""
    while size > 0 and (chunk := file.read(min(size, READ_BYTES))):
        size -= len(chunk)
        yield chunk


def _is_as(stat: os.stat_result, entry: Entry) -> bool:
    """Is a file, which is open, the one that was found?"""
    return (stat.st_size, stat.st_mtime_ns, stat.st_dev, stat.st_ino) == entry[1:5]
