"""What is to be done for a post: a post in, a decision out. Knows no clock, no disk and no network.

refused ◄── what may not be here          Refused: a report says why
ignored ◄── reports, patterns, removals   nothing is said
repeat  ◄── winnowing                     a report says that it is here already
else    ──► write │ fetch │ fetch a block │ link │ hard link │ rename │ remove │ make a folder
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import msgspec

from spark_sink.feed.consumer.fetching import SCHEMES, host_of, is_inplace
from spark_sink.feed.consumer.places import BadPlace, names_of
from spark_sink.feed.consumer.turns import Claim, claims_of
from spark_sink.feed.consumer.winnow import PATH, Remembered, Winnow
from spark_sink.feed.errors import shown
from spark_sink.feed.identity import identity_of, is_checked
from spark_sink.feed.posts import DIRECTORY, HLINK, LINK, REMOVE, RENAME, Post
from spark_sink.feed.reports import BAD_MESSAGE, NOT_MODIFIED, UNAVAILABLE

MAX_POSTS: Final = 1_000_000  # that are remembered
TTL_S: Final = 3_600.0  # how long each is remembered; sr3 has 300


class Refused(msgspec.Struct, frozen=True):
    """Nothing is done, and a report says so."""

    code: int
    text: str


class Ignored(msgspec.Struct, frozen=True):
    """Nothing is done, and nothing is said."""


class Write(msgspec.Struct, frozen=True):
    """The post has the content, of a block where `is_block`."""

    names: list[str]
    content: bytes
    is_block: bool = False


class Fetch(msgspec.Struct, frozen=True):
    """The file is to be had from a host; a block of it, where `is_block`."""

    names: list[str]
    host: str
    is_block: bool = False


class MakeLink(msgspec.Struct, frozen=True):
    """A symbolic link."""

    names: list[str]
    target: str


class MakeHardLink(msgspec.Struct, frozen=True):
    """Another name of a file; without it, `otherwise`."""

    names: list[str]
    target: list[str]
    otherwise: "Fetch | Write | Refused"


class Rename(msgspec.Struct, frozen=True):
    """A file that is here gets another name; without it, `otherwise`."""

    before: list[str]
    names: list[str]
    otherwise: "Fetch | Write | MakeLink | MakeFolder | Refused"


class Remove(msgspec.Struct, frozen=True):
    """It is to go."""

    names: list[str]
    is_folder: bool


class MakeFolder(msgspec.Struct, frozen=True):
    """A folder is to be there."""

    names: list[str]


Decision = Refused | Ignored | Write | Fetch | MakeLink | MakeHardLink | Rename | Remove | MakeFolder


@dataclass(frozen=True, kw_only=True)
class MirrorOptions:
    """What is mirrored, and how."""

    accept: Sequence[str] = ()  # regular expressions, one of which is found in relPath; empty: all
    reject: Sequence[str] = ()  # the same, of which none may be found
    basis: str = PATH  # of winnowing; see `winnow`
    max_posts: int = MAX_POSTS
    ttl_s: float = TTL_S
    removes: bool = False  # removals are carried out
    strip: str = ""  # a path at the source: old names that begin with it are those below it
    schemes: Sequence[str] = field(default=SCHEMES)


class Mirror:
    """One folder's. Moments are seconds since 1970."""

    def __init__(self, options: MirrorOptions) -> None:
        """ValueError: a pattern is no regular expression."""
        self._options: Final = options
        self._accept: Final = [_pattern(each) for each in options.accept]
        self._reject: Final = [_pattern(each) for each in options.reject]
        self.winnow: Final = Winnow(basis=options.basis, max_posts=options.max_posts, ttl_s=options.ttl_s)

    def decide(self, post: Post, now: float) -> Decision:
        """What is to be done."""
        path = post.rel_path
        if post.is_report or (self._accept and not any(each.search(path) for each in self._accept)):
            return Ignored()
        if any(each.search(path) for each in self._reject):
            return Ignored()
        operation = post.file_op
        if operation is not None and operation.kind == REMOVE and not self._options.removes:
            return Refused(UNAVAILABLE, "removals are not carried out here")  # D-87
        try:
            if self.winnow.is_repeat(post, now):  # first of all: in a mesh, most posts are
                return Refused(NOT_MODIFIED, "it is here already")
            return self._decide(post, names_of(post.place))
        except BadPlace as error:
            return Refused(BAD_MESSAGE, str(error))

    def done(self, post: Post, now: float) -> list[Remembered]:
        """It was carried out. Given back is what has to be kept."""
        kept = [self.winnow.remember(post, now)]
        operation = post.file_op
        if operation is not None and operation.kind == RENAME:
            kept.append(self.winnow.remember_vacated(self.stripped(operation.value), post, now))
        return kept

    def stripped(self, path: str) -> str:
        """A former name, without the path that it begins with at its source."""
        base = self._options.strip.rstrip("/")
        return path[len(base) + 1 :] if base and path.startswith(f"{base}/") else path

    def _decide(self, post: Post, names: list[str]) -> Decision:
        operation = post.file_op
        if operation is None:
            return self._data(post, names)
        if operation.kind == LINK:
            return MakeLink(names, operation.value)
        if operation.kind == REMOVE:
            return Remove(names, operation.is_directory)
        if operation.kind == DIRECTORY:
            return MakeFolder(names)
        if operation.kind == HLINK:
            return MakeHardLink(names, _beside(names, operation.value), self._data(post, names))
        otherwise: Fetch | Write | MakeLink | MakeFolder | Refused
        if operation.link:
            otherwise = MakeLink(names, operation.link)
        else:
            otherwise = MakeFolder(names) if operation.is_directory else self._data(post, names)
        return Rename(names_of(self.stripped(operation.value)), names, otherwise)

    def _data(self, post: Post, names: list[str]) -> Write | Fetch | Refused:
        if post.content is not None:
            is_block = is_inplace(post)
            if post.size is not None and len(post.content) != post.size and not is_block:
                text = f"content: has {len(post.content)} bytes, {post.size} are announced"
                return Refused(BAD_MESSAGE, text)
            identity = post.identity
            # A block of sr3 has the digest of more than is in it (D-91): that is compared when the file is whole.
            if identity is not None and is_checked(identity) and not is_block:
                found = identity_of(identity.method, post.content)
                if found != identity:
                    text = f"content: its {identity.method} is {found.value}, {identity.value} is announced"
                    return Refused(BAD_MESSAGE, text)
            return Write(names, post.content, is_block)
        try:
            scheme, host = _scheme_and_host(post.base_url)
        except ValueError as error:
            return Refused(BAD_MESSAGE, f"baseUrl: {shown(post.base_url)} is no URL: {error}")
        if scheme not in self._options.schemes:
            known = " and ".join(self._options.schemes)
            return Refused(UNAVAILABLE, f"baseUrl: {shown(post.base_url)}: files are fetched over {known}")
        if not host:
            return Refused(BAD_MESSAGE, f"baseUrl: {shown(post.base_url)} names no host")
        return Fetch(names, host, is_inplace(post))


def claims_of_decision(decision: Decision) -> list[Claim]:
    """The places that it is about; see `turns`."""
    match decision:
        case Refused() | Ignored():
            return []
        case Rename(before, names):
            return [*claims_of(before), *claims_of(names)]
        case MakeHardLink(names, target):
            return [*claims_of(target, is_shared=True), *claims_of(names)]
        case MakeFolder(names):  # what is below may come before it
            return claims_of(names, is_shared=True)
        case Fetch(names, _, is_block) | Write(names, _, is_block):
            return claims_of(names, is_shared=is_block)
        case _:
            return claims_of(decision.names)


def _beside(names: list[str], path: str) -> list[str]:
    """A path that is relative to the folder of a file, or absolute. BadPlace: it leads out."""
    if path.startswith("/"):
        return names_of(path)
    found = names[:-1]
    for step in path.split("/"):
        if step == "..":
            if not found:
                raise BadPlace(f"{shown(path)} is outside of the folder that is mirrored")
            found.pop()
        elif step not in ("", "."):
            found.append(step)
    return names_of("/".join(found))


@lru_cache(maxsize=1_024)
def _scheme_and_host(base_url: str) -> tuple[str, str]:
    """ValueError: it is no URL."""
    return urlsplit(base_url).scheme, host_of(base_url)


def _pattern(text: str) -> "re.Pattern[str]":
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
