"""Times of posts: `pubTime`, `mtime`, `atime` and `elapsedTime`, in UTC, and nanoseconds since the epoch.

    20150813T161959.854    YYYYMMDDTHHMMSS. and decimals of seconds
    20150813161959         read as well: without T, and without decimals

Section "THE FIXED HEADERS": "The datestamp is always in the UTC timezone", so there is no zone. Written are six
decimals, and nine where there are so many.
"""

import re
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final

from spark_sink.feed.errors import BadPost, shown

# D-81: the example 201506011357.345 has no seconds, and is no time. Neither is one with a zone.
_TIME: Final = re.compile(r"(\d{8})T?(\d\d)(\d\d)(\d\d)(?:\.(\d+))?", re.ASCII)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_SECOND_NS: Final = 1_000_000_000
MAX_TIME_CHARACTERS: Final = 64  # of a time: more are refused before they are looked at


def time_text(ns: int, field: str = "pubTime") -> str:
    """The moment so many nanoseconds after 1970; BadPost unless it is in the years 1 to 9999."""
    seconds, fraction = divmod(ns, _SECOND_NS)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise BadPost(field, f"{ns} ns from 1970 are in none of the years 1 to 9999") from None
    decimals = f"{fraction:09d}"
    # Not strftime: it writes years below 1000 with fewer digits.
    day = f"{moment.year:04d}{moment.month:02d}{moment.day:02d}"
    clock = f"{moment.hour:02d}{moment.minute:02d}{moment.second:02d}"
    return f"{day}T{clock}.{decimals.removesuffix('000')}"


def read_time(field: str, text: str) -> int:
    """Nanoseconds since 1970; digits beyond them are left out. BadPost: the text is no time."""
    match = _TIME.fullmatch(text) if len(text) <= MAX_TIME_CHARACTERS else None
    day_s = _day_of(match[1]) if match is not None else None
    if match is None or day_s is None:
        raise _bad_time(field, text)
    hour, minute, second = int(match[2]), int(match[3]), int(match[4])
    if hour > 23 or minute > 59 or second > 59:
        raise _bad_time(field, text)
    fraction = match[5] or ""
    return (day_s + hour * 3600 + minute * 60 + second) * _SECOND_NS + int(fraction[:9].ljust(9, "0"))


def _bad_time(field: str, text: str) -> BadPost:
    return BadPost(field, f"{shown(text)} is no time of the form YYYYMMDDTHHMMSS.ss")


@lru_cache(maxsize=64)
def _day_of(digits: str) -> int | None:
    """Seconds from 1970 to the beginning of this day; None: there is no such day."""
    try:
        day = date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:
        return None
    return (day.toordinal() - _EPOCH_DAY) * 86_400
