"""Which of the names that there are is the one that is meant."""

import difflib
import re
from collections.abc import Iterable
from typing import Final

LIKE: Final = 0.65  # how alike two names are, of 1, before one is proposed for the other


def meant(given: str, known: Iterable[str]) -> str:
    """The name that is probably meant, as a question; all that there are, where none is near."""
    names = sorted(known)
    return near(given, names) or f"it has {', '.join(names)}"


def near(given: str, known: Iterable[str], like: float = LIKE) -> str:
    """The name that is probably meant, as a question; nothing where none is so alike. Capitals hardly count."""
    alike = [each for each in known if _likeness(given.lower(), each.lower()) >= like]
    if not alike:
        return ""
    best = max(alike, key=lambda each: (_likeness(given.lower(), each.lower()), _likeness(given, each)))
    return f"did you mean {best}?"


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, one).ratio()


def hyphened(text: str) -> str:
    """As words of errors are written: `out-of-stock` for "OutOfStock" and for "Out of stock"."""
    split = re.sub("(?<=[a-z0-9])(?=[A-Z])", "-", text).lower()
    return re.sub("[^a-z0-9]+", "-", split).strip("-")
