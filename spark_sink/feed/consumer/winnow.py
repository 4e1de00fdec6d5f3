"""Which posts are repeats: a bounded memory of what is there, by fingerprints.

"Propagating only the first occurrence of a datum received downstream, based on its fingerprint": of several sources of
the same data the fastest one is followed, and a post that comes back in a circle goes no further.

A fingerprint is made of what is announced, never of where it is to be had (D-89):

    data with an identity     method, value and relPath; by DATA method and value alone
    data without one          relPath, mtime or else pubTime, and size; also with `cod`, whose digest is not known yet
    `random`                  the same, and its value: "unconditional copy"
    an operation              its kind, its values, the identity if there is one, and relPath
    a block                   as data, and its number

A repeat is a post whose fingerprint is remembered, unless something else has come to its place since then and the post
is younger than that. So a file that gets its former content again, or is put again after it was removed, is no repeat,
and an old post that took the longer way is one.

Knows no clock: `now` is passed in.
"""

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import msgspec

from spark_sink.feed.identity import COD, RANDOM
from spark_sink.feed.posts import Post

PATH: Final = "path"  # the same data under another path is no repeat
DATA: Final = "data"  # it is one
BASES: Final = (PATH, DATA)
HASH_BYTES: Final = 16  # of fingerprints and places: as short for a path of 500 KiB, and no two have the same one


class Remembered(msgspec.Struct, frozen=True, gc=False):  # a million of them are not walked for cycles
    """One post, as it is kept over restarts."""

    fingerprint: bytes  # HASH_BYTES
    place: bytes  # HASH_BYTES of `Post.place`; of a block four more, its number
    pub_time_ns: int  # since 1970
    at: float  # seconds since 1970: when it was remembered


class Winnow:
    """The memory: at most `max_posts` of the last `ttl_s` seconds; beyond either, the oldest go first."""

    def __init__(self, *, basis: str = PATH, max_posts: int, ttl_s: float) -> None:
        self.basis: Final = basis
        self.max_posts: Final = max_posts
        self.ttl_s: Final = ttl_s
        # By fingerprint, the oldest first. Not a plain dict, which passes over the places of all that were forgotten.
        self._posts: Final[OrderedDict[bytes, Remembered]] = OrderedDict()
        self._latest: Final[dict[bytes, Remembered]] = {}  # by place: the last one there that is in `_posts`

    def __len__(self) -> int:
        """Posts that are remembered."""
        return len(self._posts)

    def is_repeat(self, post: Post, now: float) -> bool:
        """Whether it announces what was remembered less than ttl_s ago, and is still there."""
        known = self._posts.get(fingerprint_of(post, self.basis))
        if known is None or known.at + self.ttl_s <= now:
            return False
        place = place_of(post)
        return not any(
            latest.fingerprint != known.fingerprint and latest.at >= known.at and latest.pub_time_ns < post.pub_time_ns
            for latest in self._latest_at(place)
        )

    def is_outdated(self, post: Post) -> bool:
        """Whether something else has come to its place, and is younger."""
        own = fingerprint_of(post, self.basis)
        return any(
            latest.fingerprint != own and latest.pub_time_ns > post.pub_time_ns
            for latest in self._latest_at(place_of(post))
        )

    def remember(self, post: Post, now: float) -> Remembered:
        """What this post announces is there. Given back is what has to be written to keep it."""
        return self._add(Remembered(fingerprint_of(post, self.basis), place_of(post), post.pub_time_ns, now), now)

    def remember_vacated(self, place: str, post: Post, now: float) -> Remembered:
        """By this post, a rename, nothing is at the former place any more. Given back is what has to be written."""
        path = place.removeprefix("/")
        return self._add(Remembered(_hashed("vacated", path), _hashed(path), post.pub_time_ns, now), now)

    def load(self, kept: Iterable[Remembered], now: float) -> None:
        """What was kept before a restart, the oldest first."""
        for one in kept:
            self._add(one, now)

    def expire(self, now: float) -> float:
        """Forgets what is too old. Given back: what was remembered before that need not be kept any more."""
        while self._posts:
            first = next(iter(self._posts.values()))
            if first.at + self.ttl_s > now and len(self._posts) <= self.max_posts:
                return first.at
            self._forget(first)
        return now

    def _add(self, one: Remembered, now: float) -> Remembered:
        before = self._posts.get(one.fingerprint)
        if before is not None:
            self._forget(before)  # it goes to the end of the order
        self._posts[one.fingerprint] = one
        # What is at a block's place is at its file's, too.
        self._latest[one.place] = self._latest[one.place[:HASH_BYTES]] = one
        self.expire(now)
        return one

    def _forget(self, one: Remembered) -> None:
        del self._posts[one.fingerprint]
        for place in (one.place, one.place[:HASH_BYTES]):
            if self._latest.get(place) is one:
                del self._latest[place]

    def _latest_at(self, place: bytes) -> Iterable[Remembered]:
        """The last one at this place; of a block also what replaced its whole file."""
        latest = self._latest.get(place)
        if latest is not None:
            yield latest
        if len(place) > HASH_BYTES:
            whole = self._latest.get(place[:HASH_BYTES])
            if whole is not None and len(whole.place) == HASH_BYTES:
                yield whole


def fingerprint_of(post: Post, basis: str) -> bytes:
    """HASH_BYTES; two posts with the same ones announce the same."""
    identity, file_op = post.identity, post.file_op
    path = post.rel_path.removeprefix("/")
    number = "" if post.blocks is None else str(post.blocks.number)
    if file_op is not None:
        named = () if identity is None else (identity.method, identity.value)
        folder = "directory" if file_op.is_directory else ""
        return _hashed(file_op.kind, file_op.value, folder, file_op.link, file_op.hlink, path, number, *named)
    if identity is None or identity.method in (COD, RANDOM):
        # "the md5sum will be assumed": of data that nobody has read there is none.
        moment = post.pub_time_ns if post.mtime_ns is None else post.mtime_ns
        value = identity.value if identity is not None and identity.method == RANDOM else ""
        return _hashed("", path, str(moment), str(post.size), number, value)
    return _hashed(identity.method, identity.value, number, *(() if basis == DATA else (path,)))


def place_of(post: Post) -> bytes:
    """Where what it announces is to be; a slash before the path makes no difference."""
    file = _hashed(post.place.removeprefix("/"))
    return file if post.blocks is None else file + post.blocks.number.to_bytes(4, "big")


def _hashed(*parts: str) -> bytes:
    return blake2b(repr(parts).encode(), digest_size=HASH_BYTES).digest()
