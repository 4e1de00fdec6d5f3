"""What a list can be searched for and sorted by, before the views of a part of it are made.

Decides what a search finds and in which order. Which fields a list has stands beside its query (`queries`), how a
search stands in a question is the REST API's (`admin_api.parameters`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from broker.views.schemas import Part

DESCENDING: Final = "-"  # in front of the field

T = TypeVar("T")


class Fields(Generic[T]):
    """The fields of one list, by their names in its view: how each is read off an item of which no view is made yet."""

    def __init__(self, texts: Mapping[str, Callable[[T], str]], numbers: Mapping[str, Callable[[T], float]]) -> None:
        """`texts` can be searched for and sorted by, `numbers` sorted by."""
        self.texts: Final = texts
        self.numbers: Final = numbers

    @property
    def orders(self) -> tuple[str, ...]:
        """What the list can be sorted by: each field, and with DESCENDING in front."""
        names = [*self.texts, *self.numbers]
        return tuple(order for name in names for order in (name, f"{DESCENDING}{name}"))

    def find(self, items: Iterable[T], part: Part) -> list[T]:
        """Those that are wanted, in the wanted order; in the order in which they come unless one is wanted."""
        found = list(items)
        for name, values in part.only:
            value_of = self.texts[name]
            found = [each for each in found if value_of(each) in values]
        if part.sort:
            name = part.sort.removeprefix(DESCENDING)
            key: Callable[[T], Any] = self.texts[name] if name in self.texts else self.numbers[name]
            found.sort(key=key, reverse=part.sort.startswith(DESCENDING))
        return found


def sort_views(views: list[Any], order: str) -> None:
    """The same of views, in place. `order`: not empty."""
    views.sort(key=attrgetter(order.removeprefix(DESCENDING)), reverse=order.startswith(DESCENDING))
