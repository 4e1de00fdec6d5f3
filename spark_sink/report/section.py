"""One table of the report as texts, and what belongs together with it in a chapter."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from spark_sink.report.facts import Facts
from spark_sink.report.figures import Plot
from spark_sink.report.reading import Record
from spark_sink.report.texts import (
    PERCENTILES,
    bytes_of,
    count_of,
    duration_of,
    latencies_of,
    latency_of,
    moment_of,
    named,
    number_of,
    plain,
    share_of,
    short_ids,
)
from spark_sink.report.times import Bins

BRIEF_ROWS: Final = 10  # of a table on a terminal
NOTHING: Final = "Nothing is recorded."
SPARK_WIDTH: Final = 40  # characters

Cell: TypeAlias = str | int | None  # a text, a count, or nothing
Draw: TypeAlias = Callable[[Facts], Plot | None]
Format: TypeAlias = Callable[..., Cell]


def _percentile(place: int, latencies_us: Sequence[int] | None) -> str:
    return latencies_of(latencies_us)[place]


FORMATS: Final[dict[str, Format]] = {
    "": lambda value: value,  # a name or a count
    "bytes": bytes_of,
    "duration": duration_of,
    "fixed": "{:.2f}".format,
    "latency": latency_of,
    "moment": moment_of,
    "share": share_of,
    **{name: partial(_percentile, place) for place, name in enumerate(PERCENTILES)},
}
LATENCIES: Final = " | ".join(f">{name} = {name}(latencies_us)" for name in PERCENTILES)  # columns


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
    columns: list[str]
    numeric: list[str]  # which of them are numbers
    rows: list[list[str]]
    note: str  # a sentence below the table, or empty
    nothing: str  # in the place of a table without rows
    is_brief: bool  # also on a terminal, its first rows
    plot: str  # name of the plot that shows the same; empty: the table is all
    draw: Draw | None  # makes that plot, or None where there is nothing to draw


@dataclass(frozen=True)
class Chapter:
    name: str  # of the page's anchor
    title: str
    sections: list[Section]


def table(
    title: str,
    columns: str | Sequence[str],
    rows: Iterable[Sequence[Cell]],
    note: str = "",
    nothing: str = NOTHING,
    *,
    of: tuple[int, str] = (0, ""),
    is_brief: bool = True,
    plot: tuple[str, Draw] | None = None,
) -> Section:
    """`columns`: their heads, `name | >count`, or a list of them; `>` before those of numbers. `of`: how many rows
    there are in all, and their noun. `plot`: its name, and what makes it. Whatever text comes here, none of it steers a
    terminal or a browser."""
    heads = columns.split(" | ") if isinstance(columns, str) else columns
    cells = [[named(cell) if isinstance(cell, str) else number_of(cell) for cell in row] for row in rows]
    numeric = [plain(head[1:]) for head in heads if head.startswith(">")]
    heads = [plain(head.removeprefix(">")) for head in heads]
    note = " ".join(filter(None, (note, shown_of(len(cells), *of))))
    name, draw = plot or ("", None)
    return Section(title, heads, numeric, cells, note, nothing, is_brief, name, draw if cells else None)


def of_records(
    title: str, columns: str, rows: Sequence[Record], *texts: str, formats: Mapping[str, Format] = {}, **more: Any
) -> Section:
    """The `table` of these records. `columns`: `head`, `head = name` or `head = format(name, name)`, one of FORMATS, of
    `formats`, or `route`, which shortens the ids of a column; without a name the head is the name."""
    formats = FORMATS | dict(formats)
    heads, cells = [], []
    for column in columns.split(" | "):
        head, _, source = column.partition(" = ")
        form, _, names = (source or head.removeprefix(">")).rpartition("(")
        values = [row.pick(names.rstrip(")").replace(",", "")) for row in rows]
        make = short_ids(one for [one] in values).__getitem__ if form == "route" else formats[form]
        cells.append([make(*one) for one in values])
        heads.append(head)
    return table(title, heads, zip(*cells, strict=True), *texts, **more)


def over_time(
    title: str,
    bins: Bins,
    names: Sequence[str],
    lines: Iterable[Iterable[Cell]],
    plot: tuple[str, Draw],
    nothing: str = "",
) -> Section:
    """Of the cells of each of the names, one per bin. `nothing`: what is said in the place of the table, or empty."""
    rows = [] if nothing else [[moment_of(start), *row] for start, *row in zip(bins.starts(), *lines, strict=True)]
    heads = ["from (UTC)", *(f">{named(name)}" for name in names)]
    return table(title, heads, rows, nothing=nothing or NOTHING, is_brief=False, plot=plot)


def shown_of(shown: int, total: int, noun: str) -> str:
    """Says what is left out; empty when nothing is."""
    return f"{number_of(shown)} of {count_of(total, noun)} are shown." if shown < total else ""
