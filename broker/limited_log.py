"""Lines about what strangers do: a few of a kind for each address and second, and a number in place of the others.

    … warning peer tcp 10.0.0.4:5123: closed after 2.0 s: setup-timeout: no SETUP within 2.0 s     at most LINES_PER_S
    … warning 10.0.0.4: 1481 more like it within a second: PeerClosed (setup-timeout)

So nobody fills a disk, or hides what others say, with what costs him a packet (D-67). Decides which lines are written;
what they tell it does not know. All are counted, by what they are about and whether they were written (`lines`).

    0 ──────── any line ──────── 300 ──── first line of an address ──── 400 ──── numbers of the second before ──── 500
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

LINES_PER_S: Final = 10  # of one kind, about one address
MAX_LINES_PER_S: Final = 500  # about all of them: a restart of thousands of clients is told by numbers, too
NUMBERS_PER_S: Final = 100  # of these lines are for numbers; the last one stands for all that have no other
FIRST_LINES_PER_S: Final = 100  # of them are for addresses that have written nothing yet, LINES_PER_S of each kind
MAX_ADDRESSES: Final = 1000  # kinds and addresses that are told apart in one second; the others are counted together
SECOND_S: Final = 1.0
OTHERS: Final = "others"


class Count:
    """How many lines of a kind there were about an address in this second, and how many of them were not written."""

    __slots__ = ("level", "lines_n", "unwritten_n")

    def __init__(self) -> None:
        self.lines_n = 0
        self.unwritten_n = 0
        self.level = logging.DEBUG  # of the gravest of them


class LimitedLog:
    """One process's lines about strangers."""

    def __init__(
        self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic, lines_per_s: int = LINES_PER_S
    ) -> None:
        """`clock`: seconds, monotonic. `lines_per_s`: of one kind, about one address."""
        # By kind without what stands in brackets, and whether they were written; ever.
        self.lines: Final[dict[tuple[str, bool], int]] = {}
        self._logger: Final = logger
        self._clock: Final = clock
        self._lines_per_s: Final = lines_per_s
        self._counts: dict[tuple[str, str], Count] = {}  # of this second, by kind and address
        self._lines_n = 0  # written in this second, without numbers
        self._written: set[str] = set()  # addresses about which these are; bounded by them
        self._firsts: dict[str, int] = {}  # of FIRST_LINES_PER_S those that each kind has had
        self._ends_at = 0.0  # this second
        self._timer: asyncio.TimerHandle | None = None  # None: nothing was left unwritten in this second

    def say(self, kind: str, address: str, level: int, text: str) -> None:
        """The line is written, or counted."""
        if self.admits(kind, address, level):
            self._logger.log(level, "%s", text)

    def admits(self, kind: str, address: str, level: int) -> bool:
        """Another line of this kind, `PeerClosed (setup-timeout)`, is to be written now; it is counted in any case.

        A level that is not logged is none: nothing is counted.
        """
        if not self._logger.isEnabledFor(level):
            return False
        if self._clock() >= self._ends_at:
            self.flush()
        key = (kind, address)
        if key not in self._counts and len(self._counts) >= MAX_ADDRESSES:
            key = (kind, OTHERS)
        count = self._counts.setdefault(key, Count())
        count.lines_n += 1
        is_written = count.lines_n <= self._lines_per_s and self._has_room(kind, address)
        name = (kind.partition(" (")[0], is_written)
        self.lines[name] = self.lines.get(name, 0) + 1
        if is_written:
            self._lines_n += 1
            self._written.add(address)
            return True
        count.unwritten_n += 1
        count.level = max(count.level, level)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SECOND_S, self.flush)
        return False

    def flush(self) -> None:
        """Tells what was not written, and begins a new second."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counts, self._counts = self._counts, {}
        self._lines_n = 0
        self._written.clear()
        self._firsts.clear()
        self._ends_at = self._clock() + SECOND_S
        unwritten = [(key, count) for key, count in counts.items() if count.unwritten_n]
        if len(unwritten) > NUMBERS_PER_S:
            unwritten.sort(key=lambda each: (-each[1].level, -each[1].unwritten_n))
        told = unwritten if len(unwritten) <= NUMBERS_PER_S else unwritten[: NUMBERS_PER_S - 1]
        for (kind, address), count in told:
            text = f"{address}: {count.unwritten_n} more like it within a second: {kind}"
            self._logger.log(count.level, "%s", text)
        rest = [count for _, count in unwritten[len(told) :]]
        if rest:
            text = f"{OTHERS}: {sum(count.unwritten_n for count in rest)} more within a second"
            self._logger.log(rest[0].level, "%s", f"{text}, of {len(rest)} kinds and addresses")

    def _has_room(self, kind: str, address: str) -> bool:
        """There is room for a line in this second; for the last ones only if it is the first of its address."""
        left_n = MAX_LINES_PER_S - NUMBERS_PER_S - self._lines_n
        if left_n > FIRST_LINES_PER_S:
            return True
        if left_n <= 0 or address in self._written or self._firsts.get(kind, 0) >= LINES_PER_S:
            return False
        self._firsts[kind] = self._firsts.get(kind, 0) + 1
        return True


STRANGERS: Final = LimitedLog(logging.getLogger("broker"))  # of this process, which has one log
