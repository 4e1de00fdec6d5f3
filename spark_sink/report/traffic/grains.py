"""Which tables of sums are read for which time: minutes, hours, days, or single requests by the second.

The tables of all three grains tell of the same requests, as long as their files are kept: a grain serves if its files
begin with the day with which the report begins. Plots over time take the coarsest that has a row for each bin, if that
are not too many rows; totals take as few rows as cover the same time exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_sink.report.reading import END_US, TableReader
from spark_sink.report.times import SECOND_US, Bins, bins_of
from spark_sink.tables import DAY, GRAINS, HOUR, MINUTE, REQUESTS, TRAFFIC

GRAIN_S: Final = {MINUTE: 60, HOUR: 3600, DAY: 86_400}
MAX_ROWS: Final = 6_000_000  # of a grain, for plots that a coarser one serves, too: some 15 s of CPU
MAX_SECONDS: Final = 300  # of a span that is told by single requests, where they were recorded
MAX_APART: Final = 0.1  # of the sums: then single requests are a sample, or of some brokers, and tell too little

# Single requests as rows of `traffic`. The number of a bucket is that of `broker.events.bucket_of`.
_OCTAVE: Final = "(length(bin(greatest(duration_us, 16))) - 5)"
SINGLES: Final = (
    f"(SELECT us // {SECOND_US} * {SECOND_US} AS us, broker_id, service, model, routing, outcome, word, "
    f"greatest(weight, 1) AS requests, [greatest(weight, 1)] AS latency_counts, duration_us AS latency_max_us, "
    f"[CASE WHEN duration_us < 32 THEN duration_us ELSE ({_OCTAVE} << 4) + (duration_us >> {_OCTAVE}) END] "
    f"AS latency_buckets FROM {{rows}})"
)


@dataclass(frozen=True)
class Source:
    """What plots over time are made of."""

    rows: str  # a subquery
    begin_us: int  # of the report: what was asked for, rounded down to the grain
    low_us: int | None  # begin of the first and of the last piece with requests; None: there are none
    high_us: int | None
    grain_s: int

    @property
    def bins(self) -> Bins:
        return bins_of(self.low_us, self.high_us, self.grain_s)

    @property
    def seconds(self) -> int:
        """The time that it spans."""
        if self.low_us is None or self.high_us is None:
            return 0
        return (self.high_us - self.low_us) // SECOND_US + self.grain_s


def usable_grains(reader: TableReader, table: str, since_us: int) -> list[str]:
    """Those that reach back to the beginning of what is asked, or to that of the tables; the finest first."""
    days = {grain: reader.days(table_of(table, GRAIN_S[grain]), since_us) for grain in GRAINS}
    first = min((mine[0] for mine in days.values() if mine), default="")
    return [grain for grain in GRAINS if days[grain][:1] == [first]]


def source_of(reader: TableReader, since_us: int) -> Source:
    """From `since_us` on the coarsest grain of `traffic` that fills the plots, or the finest with few enough rows."""
    source: Source | None = None
    for grain in usable_grains(reader, TRAFFIC, since_us)[::-1] or [MINUTE]:
        size_us = GRAIN_S[grain] * SECOND_US
        begin_us = since_us // size_us * size_us
        rows = reader.rows_of(table_of(TRAFFIC, GRAIN_S[grain]), begin_us)
        [(low_us, high_us, count)] = reader.rows(f"SELECT min(us), max(us), count(*) FROM {rows}")
        if source is not None and count > MAX_ROWS:
            break
        source = Source(rows, begin_us, low_us, high_us, GRAIN_S[grain])
        if source.bins.step_s > source.grain_s:
            break
    assert source is not None  # there is a grain
    return source


def by_the_second(reader: TableReader, source: Source) -> Source:
    """The same from single requests, where the span is short and they tell of all; otherwise as it is."""
    if not 0 < source.seconds <= MAX_SECONDS:
        return source
    rows = SINGLES.format(rows=reader.rows_of(REQUESTS, source.begin_us))
    [(requests,)] = reader.rows(f"SELECT sum(requests)::BIGINT FROM {source.rows}")
    [(low_us, high_us, told)] = reader.rows(f"SELECT min(us), max(us), sum(requests) FROM {rows}")
    if abs((told or 0) - requests) > MAX_APART * requests:
        return source
    return Source(rows, source.begin_us, low_us, high_us, 1)


def totals_of(reader: TableReader, table: str, begin_us: int, end_us: int = END_US) -> str:
    """A subquery: each request of the time once, in few rows."""
    grains = usable_grains(reader, table, begin_us) or [MINUTE]
    pieces = _pieces(grains, begin_us, end_us)
    parts = [
        f"SELECT * FROM {reader.rows_of(table_of(table, GRAIN_S[grain]), low, high)}" for grain, low, high in pieces
    ]
    return f"({' UNION ALL BY NAME '.join(parts)})"


def _pieces(grains: Sequence[str], begin_us: int, end_us: int) -> list[tuple[str, int, int]]:
    """The coarsest grain where it is within the time, finer ones before and behind it."""
    *finer, grain = grains
    size_us = GRAIN_S[grain] * SECOND_US
    if not finer:
        return [(grain, begin_us // size_us * size_us, end_us)] if begin_us < end_us else []
    low_us, high_us = -(-begin_us // size_us) * size_us, end_us // size_us * size_us
    if low_us >= high_us:
        return _pieces(finer, begin_us, end_us)
    return [*_pieces(finer, begin_us, low_us), (grain, low_us, high_us), *_pieces(finer, high_us, end_us)]


def table_of(table: str, grain_s: int) -> str:
    """The name of the table of these sums by this grain."""
    return {GRAIN_S[grain]: table if grain == MINUTE else f"{table}_by_{grain}" for grain in GRAINS}[grain_s]
