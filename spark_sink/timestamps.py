"""Moments as people write them, and as they are shown.

    2026-11-22T12:00:00.250Z     ISO, with a zone
    2026-11-22 12:00             ISO, without one: UTC
    2026-11-22                   its first moment, UTC
    10 minutes ago               of seconds, minutes, hours, days or weeks; also without "ago"
    now

Knows no clock: what "now" means is passed in. All moments are UTC.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from spark_sink.errors import BadMoment

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?) ?(s|sec|second|min|minute|h|hour|d|day|week)s?(?: ago)?", re.ASCII)
_UNIT_S: Final = {
    "s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400,
    "week": 604_800,
}  # fmt: skip
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
HOW: Final = 'write "2026-11-22T12:00:00Z", "2026-11-22 12:00" (UTC), "10 minutes ago" or "now"'


def moment_of(text: str, now: datetime) -> datetime:
    """The moment that the text names, UTC; `now` has a zone. BadMoment: it names none."""
    words = " ".join(text.split()).lower()
    if words == "now":
        return now.astimezone(UTC)
    ago = _AGO.fullmatch(words)
    try:
        if ago is not None:
            return now.astimezone(UTC) - timedelta(seconds=float(ago[1]) * _UNIT_S[ago[2]])
        moment = datetime.fromisoformat(text.strip())
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadMoment(f"{text!r} is not a time; {HOW}") from None
    if moment < EPOCH:
        raise BadMoment(f"{text!r} is before 1970; {HOW}")
    return moment


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970; one without a zone is UTC."""
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - EPOCH) // timedelta(microseconds=1)


def moment_at(us: int) -> datetime:
    """The moment so many microseconds after 1970."""
    return EPOCH + timedelta(microseconds=us)


def moment_text(moment: datetime) -> str:
    """`2026-11-22 12:00:00.250`, always UTC, milliseconds when there are any."""
    moment = moment.astimezone(UTC).replace(tzinfo=None)
    has_millis = moment.microsecond and moment.microsecond % 1000 == 0
    return moment.isoformat(" ", "milliseconds" if has_millis else "auto")


def span_text(us: int) -> str:
    """How long: `0.4 s`, `12 s`, `3 min 20 s`, `5 h 2 min`, `4 d 1 h`."""
    seconds = us / 1_000_000
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    units = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
    size, name, below, below_name = next(unit for unit in units if whole >= unit[0])
    return f"{whole // size} {name} {whole % size // below} {below_name}"
