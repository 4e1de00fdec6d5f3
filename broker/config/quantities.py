"""Times and sizes as samd's configuration writes them, "5s" and "10M": a number and a letter.

Decides what the letters mean. `M` is milliseconds of a time and MiB of a size; a text without a letter is neither,
because samd would take it for milliseconds and a TOML number is seconds.
"""

import re
from typing import Final

TIME: Final = "time"  # forms of options
SIZE: Final = "size"
TIMES: Final = {"M": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}  # seconds
SIZES: Final = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}  # bytes
_TEXT: Final = re.compile(r"([0-9]{1,15}) ?([A-Za-z]{1,2})")


def find_time_s(text: str) -> float | None:
    """Seconds; None: the text is no time."""
    found = _TEXT.fullmatch(text)
    return int(found[1]) * TIMES[found[2]] if found is not None and found[2] in TIMES else None


def find_size_bytes(text: str) -> int | None:
    """None: the text is no size."""
    found = _TEXT.fullmatch(text)
    return int(found[1]) * SIZES[found[2]] if found is not None and found[2] in SIZES else None
