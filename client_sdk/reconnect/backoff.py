"""How long to wait before an attempt to connect. Knows nothing of connections; chance comes in as a function."""

import random
from collections.abc import Callable
from typing import Final

FIRST_DELAY_S: Final = 0.1
MAX_DELAY_S: Final = 1.5  # a service shall be back within 2 s of its broker


class Backoff:
    """Delays that double up to a bound, each shortened by chance so that clients do not come back in step."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        """`chance` gives numbers in [0, 1)."""
        self._chance: Final = chance
        self._delay_s = FIRST_DELAY_S

    def next_s(self) -> float:
        """Seconds to wait before the next attempt: half to all of the current delay."""
        delay_s = self._delay_s
        self._delay_s = min(delay_s * 2, MAX_DELAY_S)
        return delay_s * (0.5 + self._chance() / 2)

    def part_s(self, within_s: float) -> float:
        """Seconds to wait before the first attempt of one of many that have so long for it together."""
        return within_s * self._chance()

    def reset(self) -> None:
        """An attempt succeeded: the next delay is a first one."""
        self._delay_s = FIRST_DELAY_S
