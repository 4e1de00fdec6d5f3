"""Which service somebody may have meant whose name nobody has: one letter more, less or another, or two swapped.

    "ehco" -> echo      "order" -> orders      "Orders" -> orders

Decides what a refusal may suggest. Bounded in names and in looks, because strangers can ask for ever new names.
"""

from typing import Final

from broker.routing.reach import Reach
from broker.routing.table import Table
from rsocket_wire.wire.keys import SERVICE_NAME
from rsocket_wire.wire.tags import Tag

MIN_LETTERS: Final = 4  # of a name; shorter ones are all alike
MAX_NAMES: Final = 256  # that one look compares, some 0.1 ms in all
MAX_LOOKS: Final = 64  # while the table stays the same; then nothing is suggested until it changes


class NearNames:
    """Of the services of one table."""

    def __init__(self, table: Table) -> None:
        self._table: Final = table
        self._generation = -1  # of the table, that `_looks_n` is of
        self._looks_n = 0

    def find(self, name: str, reach: Reach | None) -> str:
        """A service whose name is nearly this one, empty for none; of those only that `reach` leaves, if it is one."""
        if len(name) < MIN_LETTERS:
            return ""
        if self._table.generation != self._generation:
            self._generation = self._table.generation
            self._looks_n = 0
        self._looks_n += 1
        if self._looks_n > MAX_LOOKS:
            return ""
        for compared_n, other in enumerate(self._table.loads.services):
            if compared_n == MAX_NAMES:
                break
            if other != name and is_near(name, other) and self._is_asked_for(other, reach):
                return other
        return ""

    def _is_asked_for(self, name: str, reach: Reach | None) -> bool:
        """Routes have this name as a tag, which need not be so, and the caller may address one of them. D-98"""
        slots = self._table.index.find(Tag(SERVICE_NAME, name.encode()).token())
        return slots is not None and (reach is None or slots.meets(reach.slots()))


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
