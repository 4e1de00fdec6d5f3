"""How numbers, times and names of the report look to a person."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from spark_sink import terminal
from spark_sink.report.traffic.latencies import FRACTIONS
from spark_sink.terminal import plain as plain
from spark_sink.timestamps import moment_at

NO_NAME: Final = "-"  # stands for an empty name
PERCENTILES: Final = tuple(f"p{100 * fraction:g}" for fraction in FRACTIONS)
_BLOCKS: Final = "▁▂▃▄▅▆▇█"


def named(text: str | None) -> str:
    """The name, or what stands for none."""
    return plain(text) if text else NO_NAME


def shortened(text: str, limit: int) -> str:
    """At most so many characters; the middle is left out, since names differ at both ends."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[-tail:]}"


def short_id(some_id: str) -> str:
    return terminal.short_id(some_id) or NO_NAME


def short_ids(route_ids: Iterable[str]) -> dict[str, str]:
    """See `terminal`; no route is called as what has no name."""
    return {one: name or NO_NAME for one, name in terminal.short_ids(route_ids).items()}


def count_of(number: int, noun: str) -> str:
    return f"{number_of(number)} {noun}" + ("" if number == 1 else "s")


def number_of(number: int | None) -> str:
    return NO_NAME if number is None else f"{number:,}"


def share_of(part: int, total: int) -> str:
    return f"{100 * part / max(1, total):.2f} %"


def rate_of(count: float, seconds: float) -> str:
    """So many in this time, per second."""
    rate = count / max(1, seconds)
    return f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.1f}/s" if rate >= 1 else f"{rate:.2g}/s"


def change_of(now: int, before: int) -> str:
    """`+12 %`; nothing where there was nothing before."""
    return f"{100 * (now - before) / before:+,.0f} %" if before else NO_NAME


def bytes_of(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def latency_of(us: int | None) -> str:
    if us is None:
        return NO_NAME
    if us < 1000:
        return f"{us} µs"
    return f"{us / 1000:.2f} ms" if us < 1_000_000 else f"{us / 1_000_000:.2f} s"


def latencies_of(percentiles: Sequence[int] | None) -> list[str]:
    """Of each of PERCENTILES."""
    return [latency_of(us) for us in percentiles or (None,) * len(PERCENTILES)]


def end_of(end: str, reason: str) -> str:
    """How a stay ended: `left: keepalive-timeout`; one word where both are the same."""
    return plain(end if reason in ("", end) else f"{end}: {reason}")


def duration_of(ms: int | None) -> str:
    if ms is None:
        return NO_NAME
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def elapsed_of(ms: int | None) -> str:
    """As a latency below a minute, and as a duration from there on."""
    return NO_NAME if ms is None else latency_of(ms * 1000) if ms < 60_000 else duration_of(ms)


def step_of(seconds: int) -> str:
    """The length of a bin: `minute`, `5 minutes`, `hour`."""
    units = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
    size, noun = next((size, noun) for size, noun in units if seconds % size == 0)
    return noun if seconds == size else f"{seconds // size} {noun}s"


def length_of(seconds: int) -> str:
    """`1 minute`, `5 minutes`."""
    step = step_of(seconds)
    return step if step[0].isdigit() else f"1 {step}"


def moment_of(at: datetime | int | None) -> str:
    """`at`: a moment, or µs."""
    at = moment_at(at) if isinstance(at, int) else at
    return NO_NAME if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def span_of(first: datetime | int | None, last: datetime | int | None) -> str:
    """`2026-11-22 21:22:53 to 21:22:57 UTC`: the day once where it is one."""
    begin, end = moment_of(first), moment_of(last)
    day = begin[:11]
    return f"{begin} to {end[len(day) :] if end.startswith(day) else end} UTC"


def sparkline(values: list[int], width: int) -> str:
    """One block per value, or per few values where there are more than `width`; nothing for a single value."""
    if len(values) < 2:
        return ""
    per_block = -(-len(values) // width)
    sums = [sum(values[first : first + per_block]) for first in range(0, len(values), per_block)]
    largest = max(sums)
    if largest == 0:
        return _BLOCKS[0] * len(sums)
    return "".join(_BLOCKS[-(-value * (len(_BLOCKS) - 1) // largest)] for value in sums)
