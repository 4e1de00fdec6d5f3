"""One table of the report as texts, and what belongs together with it in a chapter."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from spark_sink.report.texts import count_of, moment_of, number_of, plain
from spark_sink.report.times import Bins
from spark_sink.report.traffic.latencies import FRACTIONS

BRIEF_ROWS: Final = 10  # of a table on a terminal
NOTHING: Final = "Nothing is recorded."
SPARK_WIDTH: Final = 40  # characters
PERCENTILES: Final = tuple(f"p{100 * fraction:g}" for fraction in FRACTIONS)


@dataclass(frozen=True)
class Figure:
    """One of the numbers that come first."""

    label: str
    value: str
    note: str = ""
    is_bad: bool = False


@dataclass(frozen=True)
class Section:
    """One table of the report; cells are texts."""

    title: str
    columns: Sequence[str]
    numeric: Sequence[str]  # which of them are numbers
    rows: list[list[str]]
    note: str = ""  # a sentence below the table, or empty
    nothing: str = NOTHING  # in the place of a table without rows
    is_brief: bool = False  # also on a terminal, its first rows
    plot: str = ""  # name of the plot that shows the same; empty: the table is all

    def __post_init__(self) -> None:
        """Whatever text comes here, none of it steers a terminal or a browser."""
        object.__setattr__(self, "columns", list(map(plain, self.columns)))
        object.__setattr__(self, "numeric", list(map(plain, self.numeric)))
        object.__setattr__(self, "rows", [list(map(plain, row)) for row in self.rows])


@dataclass(frozen=True)
class Chapter:
    name: str  # of the page's anchor
    title: str
    sections: list[Section] = field(default_factory=list)


def over_time(
    title: str, bins: Bins, names: Sequence[str], lines: Iterable[Iterable[str]], plot: str, nothing: str = ""
) -> Section:
    """Of the cells of each of the names, one per bin. `nothing`: what is said in the place of the table, or empty."""
    cells = [] if nothing else [[moment_of(start), *row] for start, *row in zip(bins.starts(), *lines, strict=True)]
    return Section(title, ["from (UTC)", *names], names, cells, nothing=nothing or NOTHING, plot=plot)


def shown_of(shown: int, total: int, noun: str) -> str:
    """Says what is left out; empty when nothing is."""
    return f"{number_of(shown)} of {count_of(total, noun)} are shown." if shown < total else ""
