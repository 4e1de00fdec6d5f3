"""What a consumer asks of a poster over RSocket, and what is said beside each post.

    service `feed`, tags exchange and origin
      request_stream    "posts"   {"topic": "v03.post.#", "since": 41}    posts behind that number, then those to come
      request_response  "origin"                                          {"origin": "<16 digits>"}
      request_response  "report"  a report                                1: of a post that is here, 0: of none

An item is the body of a post; an entry of its metadata, MIME, has its origin, its number there, and its topic. `topic`
is a pattern or a list of them, absent: all posts. `since` is a number, or one for each origin, as a request to several
posters needs; absent: all that the log has. Fields that are not known are ignored.
"""

from typing import Final

import msgspec

from client_sdk.metadata import entry_bytes, read_entries
from spark_sink.feed.topics import MAX_PATTERN_LEVELS

SERVICE: Final = "feed"
POSTS: Final = "posts"
ORIGIN: Final = "origin"
REPORT: Final = "report"
MIME: Final = "application/vnd.rsocket-broker.feed+json"
MAX_PATTERNS: Final = 256  # of one request
MAX_SINCE: Final = 9_223_372_036_854_775_807  # what a log can count to


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a stream of posts."""

    topic: str | list[str] = "#"
    since: int | dict[str, int] = 0

    @property
    def patterns(self) -> list[str]:
        """One at least, unless nothing is wanted."""
        return [self.topic] if isinstance(self.topic, str) else self.topic

    def since_of(self, origin: str) -> int:
        """Behind which number of this log; 0: all."""
        return self.since if isinstance(self.since, int) else self.since.get(origin, 0)


class Item(msgspec.Struct, frozen=True):
    """What is said beside a post."""

    origin: str  # of the log that it is in
    seq: int  # there
    topic: str  # with dots


class Found(msgspec.Struct, frozen=True):
    """What a poster says of itself."""

    origin: str


_ASKED: Final = msgspec.json.Decoder(Asked)
_ITEM: Final = msgspec.json.Decoder(Item)
_FOUND: Final = msgspec.json.Decoder(Found)


def write(value: Asked | Found) -> bytes:
    """As JSON."""
    return msgspec.json.encode(value)


def read_asked(data: bytes) -> Asked:
    """ValueError: it is none, or wants more than may be wanted. No data is `{}`."""
    asked = _ASKED.decode(data or b"{}")
    if len(asked.patterns) > MAX_PATTERNS:
        raise ValueError(f"topic has {len(asked.patterns)} patterns, {MAX_PATTERNS} are allowed")
    for pattern in asked.patterns:
        if pattern.count(".") >= MAX_PATTERN_LEVELS:
            raise ValueError(f"a pattern has more than {MAX_PATTERN_LEVELS} levels: {pattern[:60]!r}")
    numbers = [asked.since] if isinstance(asked.since, int) else asked.since.values()
    if not all(0 <= number <= MAX_SINCE for number in numbers):
        raise ValueError(f"since must be 0..{MAX_SINCE}")
    return asked


def read_found(data: bytes) -> Found:
    """ValueError: it is none."""
    return _FOUND.decode(data)


def item_metadata(item: Item) -> bytes:
    """Composite metadata with this entry."""
    return entry_bytes(MIME, msgspec.json.encode(item))


def read_item(metadata: bytes | None) -> Item:
    """ValueError: there is none."""
    for mime, content in read_entries(metadata or b"") or ():
        if mime == MIME:
            return _ITEM.decode(content)
    raise ValueError(f"an item without an entry {MIME}")
