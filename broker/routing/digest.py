"""The digest of a routing table: one number that says whether two tables hold the same routes.

    mark of a route   = BLAKE2b-16 of  route id, service, then name and value of each of its distinct tags, sorted;
                        before each text its length in UTF-8 bytes, u32 big-endian
    digest of a table = sum of the marks modulo 2^128, as 32 hex digits

A sum knows no order and can be taken back, so a route that comes or goes costs one mark, however many there are. It is
made of what events tell of a route, so that whoever has the events can make it again. Knows no table.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from rsocket_wire.wire.ints import u32_bytes

_MARK_BYTES: Final = 16
_MODULUS: Final = 1 << (8 * _MARK_BYTES)


class Digest:
    """Of the routes that were added and not taken out again."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, mark: int) -> None:
        """A route came; `mark` is that of `route_mark`."""
        self._sum = (self._sum + mark) % _MODULUS

    def take(self, mark: int) -> None:
        """A route that was added went."""
        self._sum = (self._sum - mark) % _MODULUS

    @property
    def text(self) -> str:
        """32 hex digits."""
        return f"{self._sum:0{2 * _MARK_BYTES}x}"


def distinct(tags: Sequence[tuple[str, str | None]]) -> dict[str, str | None]:
    """A map of tags, as event files have it: the values of a repeated name stand together, "eu,us"."""
    values: dict[str, str | None] = {}
    for name, value in tags:
        if name in values:
            values[name] = f"{values[name]},{value}"
        else:
            values[name] = value
    return values


def route_mark(route_id: str, service: str, tags: Sequence[tuple[str, str | None]]) -> int:
    """The number that stands for a route in a digest; `route_id` is uuid text. No value and an empty one are the same,
    and so are `distinct` tags and those that they were made of."""
    parts = [_part(route_id), _part(service)]
    values = distinct(tags)
    for name in sorted(values):
        parts.append(_part(name))
        parts.append(_part(values[name] or ""))
    return int.from_bytes(blake2b(b"".join(parts), digest_size=_MARK_BYTES).digest(), "big")


def _part(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")  # never raises
    return u32_bytes(len(raw)) + raw
