"""What becomes of files, as records for event files: of one table of the configuration, at whom they are told.

    posted, reported    at a poster                    each a row
    mirrored, refused, failed    at a mirror           each a row
    repeated, passed    at a mirror, at a winnower     counted: a row once in a while, told by `tell_counts`

Segments that hold such records are files, too, and may be announced and mirrored: of these nothing is told, or each
would be followed by another one for ever.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from broker.events import FileRecord
from spark_sink.event_files.layout import parts_of
from spark_sink.feed.posts import Post

MAX_PATH_CHARACTERS: Final = 4_096  # of a path, or a URL; the rest is cut
MAX_REASON_CHARACTERS: Final = 255
_SOURCE: Final = "files"  # of these segments
_NO_SEQ: Final = 0  # whoever is told gives each its number
_NS_PER_MS: Final = 1_000_000

Tell = Callable[[FileRecord], None]  # raises nothing and waits for nothing


class FileRecords:
    """Of one table. Without somebody to tell it does nothing."""

    def __init__(self, feed: str = "", tell: Tell | None = None) -> None:
        """`feed`: the name of the table."""
        self._feed: Final = feed
        self._tell: Final = tell
        self._counts: Final[Counter[str]] = Counter()  # by outcome, since they were told

    def add(
        self,
        outcome: str,
        post: Post,
        *,
        size: int = 0,
        code: int = 0,
        reason: str = "",
        consumer: str = "",
        tries: int = 0,
    ) -> None:
        """One thing has become of one post."""
        if self._tell is None or _is_of_records(post.rel_path):
            return
        at_ns = time.time_ns()
        self._tell(
            FileRecord(
                _NO_SEQ,
                at_ns // _NS_PER_MS,
                self._feed,
                outcome,
                posted_at_ms=max(0, post.pub_time_ns // _NS_PER_MS),
                after_ms=(at_ns - post.pub_time_ns) // _NS_PER_MS,
                path=post.rel_path[:MAX_PATH_CHARACTERS],
                operation="" if post.file_op is None else post.file_op.kind,
                base_url=post.base_url[:MAX_PATH_CHARACTERS],
                consumer=consumer,
                code=code,
                reason=reason[:MAX_REASON_CHARACTERS],
                tries=tries,
                bytes=size,
            )
        )

    def count(self, outcome: str, post: Post) -> None:
        """The same, told as a number with others."""
        if self._tell is not None and not _is_of_records(post.rel_path):
            self._counts[outcome] += 1

    def tell_counts(self) -> None:
        """A row for each count."""
        if self._tell is None:
            return
        at_ms = time.time_ns() // _NS_PER_MS
        for outcome, files in sorted(self._counts.items()):
            self._tell(FileRecord(_NO_SEQ, at_ms, self._feed, outcome, posted_at_ms=at_ms, files=files))
        self._counts.clear()


def _is_of_records(path: str) -> bool:
    """Is it a segment of the source `files`?"""
    folder, _, name = path.rpartition("/")
    return folder.rpartition("/")[2] == _SOURCE and parts_of(name)[1] > 0
