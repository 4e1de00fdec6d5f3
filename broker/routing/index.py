"""The tag index: for every tag the set of slots that carry it.

    token (key and value)      slots, a roaring bitmap
    ServiceName=orders    ->   0 1   3     7 …
    Region=eu             ->   0     3 4   7 …
                               AND
    orders in eu          ->   0     3     7

Decides which slots match tags. Does not know what a slot stands for: `table` gives slots to routes and takes them back.
"""

from broker.routing.bitmaps import Slots
from rsocket_wire.wire.keys import Key, key_of
from rsocket_wire.wire.tags import Tag


class TagIndex:
    """Sets of slots by tag token (`Tag.token()`). A tag that nobody carries has no entry."""

    def __init__(self) -> None:
        self._slots: dict[bytes, Slots] = {}  # bounded by routes times tags per route, both limited

    def add(self, slot: int, tokens: list[bytes]) -> None:
        """The slot carries these tags."""
        for token in tokens:
            slots = self._slots.get(token)
            if slots is None:
                slots = self._slots[token] = Slots()
            slots.add(slot)

    def remove(self, slot: int, tokens: list[bytes]) -> None:
        """The slot carries these tags no longer: exactly those that were added."""
        for token in tokens:
            slots = self._slots.get(token)
            if slots is not None:
                slots.discard(slot)
                if slots.size() == 0:
                    del self._slots[token]

    def find(self, token: bytes) -> Slots | None:
        """The slots that carry the tag, live: do not change them. None when nobody does."""
        return self._slots.get(token)

    def values_of(self, key: Key) -> list[tuple[str, Slots]]:
        """All values of a key, an empty text for none, and the slots that carry each: a look at every tag."""
        begin = Tag(key, None).token()
        at = len(begin)
        return [
            (token[at:].decode("utf-8", "replace"), slots)
            for token, slots in self._slots.items()
            if token.startswith(begin)
        ]

    def some_values_of(self, key: Key, most_n: int) -> list[str]:
        """As `values_of`, without those for none: the values among so many tags of any keys, the oldest first."""
        begin = Tag(key, None).token()
        at = len(begin)
        found: list[str] = []
        for seen_n, token in enumerate(self._slots):
            if seen_n == most_n:
                break
            if len(token) > at and token.startswith(begin):
                found.append(token[at:].decode("utf-8", "replace"))
        return found

    def some_keys_of(self, value: str, most_n: int) -> list[Key]:
        """Text and well-known keys with this value, among so many tags of any keys, the oldest first."""
        end = b"\x00" + value.encode()
        found: list[Key] = []
        for seen_n, token in enumerate(self._slots):
            if seen_n == most_n:
                break
            if token.endswith(end):
                key = key_of(token[: -len(end)])
                if key is not None:
                    found.append(key)
        return found

    def size(self) -> int:
        """How many different tags are carried."""
        return len(self._slots)
