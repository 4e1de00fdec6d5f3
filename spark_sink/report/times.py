"""Time in reports: the bins of the plots over time."""

from datetime import datetime
from typing import Any, Final

import numpy as np

from spark_sink.timestamps import moment_at

MINUTE_S: Final = 60
MINUTE_US: Final = MINUTE_S * 1_000_000
MAX_BINS: Final = 120  # bars that a page can show side by side
_DAY_S: Final = 86_400
_MINUTES_S: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
STEPS_S: Final = (1, 2, 5, 10, 15, 30, *_MINUTES_S, _DAY_S, 7 * _DAY_S, 28 * _DAY_S)


class Bins:
    """Equal pieces of the time that the records span."""

    def __init__(self, times_us: Any, grain_s: int = MINUTE_S) -> None:
        """`times_us`: begins of pieces of `grain_s`, int64 array, microseconds since the epoch; no bin is shorter."""
        if len(times_us) == 0:
            self.step_s, self.first_us, self.count = grain_s, 0, 0
            return
        low, high = int(times_us.min()), int(times_us.max()) + grain_s * 1_000_000
        steps = (
            *(step_s for step_s in STEPS_S if step_s >= grain_s),
            STEPS_S[-1] * (1 + (high - low) // (MAX_BINS // 2 * STEPS_S[-1] * 1_000_000)),
        )
        for step_s in steps:
            step_us = step_s * 1_000_000
            first_us = low // step_us * step_us
            count = -(-(high - first_us) // step_us)
            if count <= MAX_BINS:
                break
        self.step_s = step_s
        self.first_us = first_us
        self.count = count

    def of(self, times_us: Any) -> Any:
        """The number of the bin of each of these times, int64 array."""
        return np.clip((times_us - self.first_us) // (self.step_s * 1_000_000), 0, max(0, self.count - 1))

    def starts(self) -> list[datetime]:
        """When each bin begins."""
        return [moment_at(self.first_us + number * self.step_s * 1_000_000) for number in range(self.count)]

    def sums(self, rows: Any, row_count: int, times_us: Any, values: Any) -> Any:
        """Sums of values by row number and bin: int64 array of shape (row_count, count)."""
        sums = np.zeros(row_count * self.count, np.int64)
        np.add.at(sums, rows * self.count + self.of(times_us), values)
        return sums.reshape(row_count, self.count)
