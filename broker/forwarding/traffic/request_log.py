"""Single requests: each one that ended, or one of so many, as a row of integers for the event files.

What a request has in common with others stands behind the number of its flow: texts never pass here. A number stands
for one flow in one interval of the flow records, is defined before the first row that has it, is forgotten with the
interval, and is never used again.

    flow ends a request ──> add ──> rows, definitions, forgotten ──take──> pipe to the writer

Decides which of N requests is written: one of each N that end one after the other, at a place that is drawn. Every Nth
would be the same route for ever where routes take turns. The chance is the same in each run. Knows no clock: it is told
what the wall says.
"""

from binascii import b2a_base64
from typing import Final

from broker.events import DEFINITION
from broker.routing.query import Query
from broker.routing.rng import Rng

MAX_ROWS: Final = 100_000  # rows that nobody has taken, some 40 MB; later ones are dropped, counted and told
SEED: Final = 20_261_122  # of the places that are drawn: they shall be the same in each run
_STEADY_US: Final = 2_000  # the wall clock says whole milliseconds: below this it has not been put


class RequestRows:
    """Some of them, to be handed on without a look at each."""

    def __init__(
        self, definitions: list[tuple[object, ...]], rows: list[tuple[object, ...]], forgotten: list[int]
    ) -> None:
        self.definitions: Final = definitions  # rows of `DEFINITION_FIELDS`: of flows that were not defined before
        self.rows: Final = rows  # of `REQUEST_FIELDS`
        self.forgotten: Final = forgotten  # flow numbers that no later row has


class RequestLog:
    """The single requests of one broker that nobody has taken yet."""

    def __init__(self, query: Query, every_n: int = 0) -> None:
        """`every_n`: one of so many requests is written; 1: all; 0: none."""
        self.every_n: Final = every_n
        self.latest_seq = 0  # 1, 2, 3 … over the events, flow records and single requests of one broker's run
        self.query: Final = query
        self._rng: Final = Rng(SEED)
        self._turn = 0  # of the N requests among which one is written
        self._place = 0  # which of them it is
        self.base_us = 0.0  # wall clock, less the monotonic one
        self._flow_n = 0  # numbers given
        self.rows: list[tuple[object, ...]] = []  # as `REQUEST_FIELDS` says, at most MAX_ROWS: see `Flow.count`
        # Of flows that the rows name: no more than there are rows, since both are taken together.
        self.definitions: list[tuple[object, ...]] = []
        self.forgotten: list[int] = []  # numbers whose interval is over: who counts once more has another one
        # Rows that were dropped since the gap was told last.
        self.dropped_n = 0
        self.first_dropped = 0  # their numbers
        self.last_dropped = 0

    def set_clock(self, now: float, at_ms: int) -> None:
        """Sets what the wall clock says at a monotonic moment."""
        base_us = at_ms * 1000.0 - now * 1e6
        if not -_STEADY_US < base_us - self.base_us < _STEADY_US:
            self.base_us = base_us

    def draw(self) -> int:
        """Draws the number of an ended request's row, which is to join `rows`; 0: it has none. `every_n` is not 0."""
        every_n = self.every_n
        if every_n > 1:
            turn = self._turn
            if turn == 0:
                self._place = self._rng.below(every_n)
            self._turn = turn + 1 if turn + 1 < every_n else 0
            if turn != self._place:
                return 0
        seq = self.latest_seq + 1
        self.latest_seq = seq
        if len(self.rows) >= MAX_ROWS:
            self._drop(seq)
            return 0
        return seq

    def define(self, texts: tuple[object, ...]) -> int:
        """Returns a flow's number from now on. `texts`: what its requests have in common, see `DEFINITION_FIELDS`."""
        self._flow_n += 1
        self.definitions.append((DEFINITION, self._flow_n, *texts))
        return self._flow_n

    def take(self) -> RequestRows | None:
        """Takes what has come since the last call; None: nothing."""
        if not self.rows and not self.forgotten:
            return None
        taken = RequestRows(self.definitions, self.rows, self.forgotten)
        self.definitions = []
        self.rows = []
        self.forgotten = []
        return taken

    def _drop(self, seq: int) -> None:
        if not self.dropped_n:
            self.first_dropped = seq
        self.dropped_n += 1
        self.last_dropped = seq


def address_text(raw: bytes) -> str:
    """Returns the bytes of an ADDRESS as event files have them."""
    text: str = b2a_base64(raw, newline=False).decode()
    return text
