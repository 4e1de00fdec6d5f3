"""Numbers with units, as people write them, for texts that advise the number alone; and numbers of things in texts.

Nothing is read so: a unit that is understood in one place and not in another misleads.
"""

import re
from typing import Final

_SECONDS: Final = {
    **dict.fromkeys(("ms", "msec", "millis"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
_BYTES: Final = {"": 1.0, "b": 1.0, "byte": 1.0, "bytes": 1.0} | {
    letter + end: float(1 << shift)
    for letter, shift in (("k", 10), ("m", 20), ("g", 30), ("t", 40))
    for end in ("", "b", "ib")
}
UNITS: Final[dict[str, dict[str, float]]] = {
    "seconds": {"": 1.0, **_SECONDS},
    "bytes": _BYTES,
    "percent": {"": 1.0, "%": 1.0},
    "": {"": 1.0, "k": 1e3, "m": 1e6},
}
_NUMBER: Final = re.compile(r"([+-]?[0-9]+(?:[_,' ][0-9]{3})*)(\.[0-9]+)?\s*([a-zA-Z%]*)")


def meant_number(text: str, unit: str, is_whole: bool) -> float | None:
    """What a text says that is no number of this unit, one of UNITS; None: nothing that is sure.

    >>> meant_number("5s", "seconds", False), meant_number("10MB", "bytes", True)
    (5.0, 10485760.0)
    >>> meant_number("10k", "", True), meant_number("5s", "", True)
    (10000.0, None)
    """
    found = _NUMBER.fullmatch(text.strip().strip("\"'"))
    if found is None:
        return None
    factor = UNITS.get(unit, UNITS[""]).get(found[3].lower())
    if factor is None:
        return None
    number = round(float(re.sub(r"[_,' ]", "", found[1]) + (found[2] or "")) * factor, 6)
    return None if is_whole and number != int(number) else number


def counted(number: int, noun: str) -> str:
    """`1 request`, `2 requests`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
