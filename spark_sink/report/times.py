"""Time in reports: the bins of the plots over time."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from spark_sink.timestamps import moment_at

SECOND_US: Final = 1_000_000
MINUTE_S: Final = 60
MINUTE_US: Final = MINUTE_S * SECOND_US
MAX_BINS: Final = 120  # bars that a page can show side by side
_DAY_S: Final = 86_400
_MINUTES_S: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
STEPS_S: Final = (1, 2, 5, 10, 15, 30, *_MINUTES_S, _DAY_S, 7 * _DAY_S, 28 * _DAY_S)


@dataclass(frozen=True)
class Bins:
    """Equal pieces of the time that the records span."""

    step_s: int
    first_us: int
    count: int

    def of(self, us: str) -> str:
        """SQL: the number of the bin of a moment, which is in one."""
        return f"(({us} - {self.first_us}) // {self.step_s * SECOND_US})"

    def lines(self, rows: Iterable[Sequence[Any]], empty: Any = None) -> defaultdict[Any, list[Any]]:
        """By key the value of each bin, of rows of key, number of the bin and value. `empty`: where there is no row."""
        lines: defaultdict[Any, list[Any]] = defaultdict(lambda: [empty] * self.count)
        for key, number, value in rows:
            lines[key][number] = value
        return lines

    def starts(self) -> list[datetime]:
        """When each bin begins."""
        return [moment_at(self.first_us + number * self.step_s * SECOND_US) for number in range(self.count)]


def bins_of(low_us: int | None, high_us: int | None, grain_s: int = MINUTE_S) -> Bins:
    """Begins of the first and of the last piece of `grain_s`; None: there is none. No bin is shorter than a piece."""
    if low_us is None or high_us is None:
        return Bins(grain_s, 0, 0)
    end_us = high_us + grain_s * SECOND_US
    longest = STEPS_S[-1] * (1 + (end_us - low_us) // (MAX_BINS // 2 * STEPS_S[-1] * SECOND_US))
    for step_s in (*(step_s for step_s in STEPS_S if step_s >= grain_s), longest):
        step_us = step_s * SECOND_US
        first_us = low_us // step_us * step_us
        count = -(-(end_us - first_us) // step_us)
        if count <= MAX_BINS:
            break
    return Bins(step_s, first_us, count)
