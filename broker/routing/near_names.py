"""Which tag somebody may have meant that no route has: of a value with a slip of the hand, with other letters or key.

    service=ehco     -> service=echo        one letter more, less or another, or two swapped
    region=EU        -> region=eu           upper and lower case
    service=a.create -> service=a           and its route create
    name=orders      -> service=orders      the value is the name of a service
    regoin=eu        -> region=eu           the same slips in a key
    instance=a       -> instance_name=a     the beginning of a key
    region           -> region=eu           a value that is missing

Decides what a refusal may suggest. Bounded in tags and in looks, because strangers can ask for ever new names.
"""

from typing import Final

from broker.routing.reach import Reach
from broker.routing.table import Table
from rsocket_wire.wire.keys import ROUTE_ID, SERVICE_NAME, Key
from rsocket_wire.wire.tags import Tag

NO_PATTERNS: Final = (
    "an address has no wildcards: leave a tag out for any value, and make it a multicast for all routes that match"
)
MIN_LETTERS: Final = 4  # of a name; shorter ones are all alike
MAX_NAMES: Final = 256  # that one look compares, some 0.1 ms in all
MAX_TAGS_SEEN: Final = 1024  # of all keys, among which one look finds these names; both 1.2 ms interpreted
MAX_LOOKS: Final = 64  # while the table stays the same; then nothing is suggested until it changes


class NearNames:
    """Of the tags of one table."""

    def __init__(self, table: Table) -> None:
        self._table: Final = table
        self._generation = -1  # of the table, that `_looks_n` is of
        self._looks_n = 0

    def find(self, tag: Tag, reach: Reach | None) -> str:
        """What to ask for in place of this tag, `service=orders`, empty for nothing; only what `reach` leaves, if it is
        one.
        """
        if self._table.generation != self._generation:
            self._generation = self._table.generation
            self._looks_n = 0
        self._looks_n += 1
        value = tag.value
        if self._looks_n > MAX_LOOKS or tag.key == ROUTE_ID:
            return ""
        if not value:
            return "" if tag.key == SERVICE_NAME else self._find_value(tag.key, "", reach)
        for other in (value.lower(), value.upper()):
            if other != value and self._is_asked_for(Tag(tag.key, other.encode()), reach):
                return str(Tag(tag.key, other.encode()))
        if tag.key == SERVICE_NAME:
            return self._find_service(value, reach)
        if self._is_asked_for(Tag(SERVICE_NAME, value.encode()), reach):
            return str(Tag(SERVICE_NAME, value.encode()))
        return self._find_value(tag.key, value, reach) or self._find_key(tag.key, value, reach)

    def _find_value(self, key: Key, value: str, reach: Reach | None) -> str:
        """A value near this one; any for an empty one."""
        for other in self._table.index.some_values_of(key, MAX_TAGS_SEEN)[:MAX_NAMES]:
            near = Tag(key, other.encode())
            if (not value or is_near(value, other)) and self._is_asked_for(near, reach):
                return str(near)
        return ""

    def _find_key(self, key: Key, value: str, reach: Reach | None) -> str:
        for other in self._table.index.some_keys_of(value, MAX_TAGS_SEEN)[:MAX_NAMES]:
            near = Tag(other, value.encode())
            is_meant = is_near(key.short_name, other.short_name) or other.short_name == f"{key.short_name}_name"
            if is_meant and self._is_asked_for(near, reach):
                return str(near)
        return ""

    def _find_service(self, name: str, reach: Reach | None) -> str:
        for compared_n, other in enumerate(self._table.loads.services):
            if compared_n == MAX_NAMES:
                break
            near = Tag(SERVICE_NAME, other.encode())
            if other != name and is_near(name, other) and self._is_asked_for(near, reach):
                return str(near)
        for separator in "./:":
            service, _, route = name.partition(separator)
            named = Tag(SERVICE_NAME, service.encode())
            if service and route and self._is_asked_for(named, reach):
                return f"{named} with the route {route!r}"
        return ""

    def _is_asked_for(self, tag: Tag, reach: Reach | None) -> bool:
        """Routes have this tag, and the caller may address one of them. D-98

        A service's name need not be one: a route may carry another ServiceName.
        """
        slots = self._table.index.find(tag.token())
        return slots is not None and (reach is None or slots.meets(reach.slots()))


def is_pattern(value: str) -> bool:
    """As others subscribe by: `orders.*`, `orders.>` and `orders.#`, `orders/+`."""
    return "*" in value or (value[-1:] in (">", "#", "+") and value[-2:-1] in "./:")


def is_near(name: str, other: str) -> bool:
    """One typing error is between the two names; another number is none: instance-1 is not instance-2."""
    longer, shorter = (name, other) if len(name) >= len(other) else (other, name)
    more_n = len(longer) - len(shorter)
    if more_n > 1 or len(shorter) < MIN_LETTERS:
        return False
    begin = 0  # letters that both begin with
    while begin < len(shorter) and longer[begin] == shorter[begin]:
        begin += 1
    end = 0  # letters that both end with, behind these
    while end < len(shorter) - begin and longer[len(longer) - 1 - end] == shorter[len(shorter) - 1 - end]:
        end += 1
    left_n = len(shorter) - begin - end  # letters between
    if more_n:
        return left_n == 0 and not longer[begin].isdigit()
    if left_n == 1:
        return not (longer[begin].isdigit() and shorter[begin].isdigit())
    if left_n == 2 and longer[begin] == shorter[begin + 1] and longer[begin + 1] == shorter[begin]:
        return not longer[begin].isdigit()
    return longer.lower() == shorter.lower()
