"""What happened, from the tables: partials merged, percentiles taken, as sections of rows for a terminal and Markdown.

Reads with pyarrow and needs no Spark and no Java. `build_report` decides every number; the two printers only lay out.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from broker.events import EVENTS_DROPPED, KIND_NAMES
from spark_sink.errors import BadFolder
from spark_sink.histograms import merged, percentile_us
from spark_sink.sessions import sessions_of
from spark_sink.tables import (
    CALLERS,
    FAILED_OUTCOMES,
    LIFECYCLE,
    MAX_COLUMN,
    SUM_COLUMNS,
    TRAFFIC,
    has_tables,
    read_table,
)

TOP_CALLERS: Final = 10
MAX_ROUTES: Final = 30  # rows; a report is read by a person
NO_NAME: Final = "-"  # stands for an empty name
SHORT_ID: Final = 8  # characters of a route id; the tables have all of it


class Section:
    """One table of the report; cells are texts, `numeric` says which columns are numbers."""

    __slots__ = ("columns", "note", "numeric", "rows", "title")

    def __init__(
        self, title: str, columns: Sequence[str], numeric: Sequence[str], rows: list[list[str]], note: str = ""
    ) -> None:
        self.title: Final = title
        rows = [[_plain(cell) for cell in row] for row in rows]
        self.columns: Final = columns
        self.numeric: Final = frozenset(numeric)
        self.rows: Final = rows
        self.note: Final = note  # a sentence below the table, or empty


class Report:
    """A headline and sections."""

    __slots__ = ("headline", "sections")

    def __init__(self, headline: str, sections: list[Section]) -> None:
        self.headline: Final = headline
        self.sections: Final = sections


def build_report(tables: Path) -> Report:
    """Everything that the tables tell. BadFolder: there are none, or they cannot be read."""
    if not tables.is_dir():
        raise BadFolder(f"there is no folder {tables}: make tables with rsocket-broker pipeline run --tables {tables}")
    if not has_tables(tables):
        raise BadFolder(f"{tables} holds no tables: make some with rsocket-broker pipeline run --tables {tables}")
    traffic = read_table(tables, TRAFFIC)
    lifecycle = read_table(tables, LIFECYCLE).sort_by([("at", "ascending"), ("seq", "ascending")])
    sections = [
        _traffic(traffic),
        _volume(traffic),
        _outcomes(traffic),
        _callers(read_table(tables, CALLERS)),
        _routes(lifecycle),
        _lifecycle(lifecycle),
    ]
    return Report(_headline(traffic, lifecycle), sections)


def print_report(report: Report, console: Console) -> None:
    """To a terminal."""
    console.print(report.headline, style="bold", markup=False, highlight=False)
    for section in report.sections:
        console.print()
        console.print(section.title, style="bold", markup=False, highlight=False)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in section.columns:
            table.add_column(column, justify="right" if column in section.numeric else "left", overflow="fold")
        for row in section.rows:
            table.add_row(*map(Text, row))  # names come from strangers and are no markup
        console.print(table)
        if section.note:
            console.print(section.note, style="dim", markup=False, highlight=False)


def markdown_report(report: Report) -> str:
    """The same as a Markdown file."""
    lines = ["# What the broker did", "", report.headline]
    for section in report.sections:
        lines += ["", f"## {section.title}", ""]
        lines.append(f"| {' | '.join(section.columns)} |")
        lines.append(f"| {' | '.join('---:' if column in section.numeric else '---' for column in section.columns)} |")
        lines += [f"| {' | '.join(map(_escaped, row))} |" for row in section.rows]
        if section.note:
            lines += ["", section.note]
    return "\n".join(lines) + "\n"


def _headline(traffic: pa.Table, lifecycle: pa.Table) -> str:
    times = pa.chunked_array([*traffic["minute"].chunks, *lifecycle["at"].chunks], pa.timestamp("us", "UTC"))
    brokers = set(traffic["broker_id"].unique().to_pylist()) | set(lifecycle["broker_id"].unique().to_pylist())
    requests = _count(_sum(traffic["requests"]), "request")
    span = pa.compute.min_max(times)
    first, last = (_moment(span[key].as_py()) for key in ("min", "max"))
    return f"{requests} through {_count(len(brokers), 'broker')}, {first} to {last} UTC"


def _traffic(traffic: pa.Table) -> Section:
    """Per service and model; percentiles of the merged histograms."""
    keys = ["service", "model"]
    groups, rows = _grouped(traffic, keys)
    failed = np.isin(traffic["outcome"].to_numpy(zero_copy_only=False).astype(str), FAILED_OUTCOMES)
    errors = np.zeros(len(rows), np.int64)
    np.add.at(errors, groups, np.where(failed, traffic["requests"].to_numpy(), 0))
    histograms = merged(groups, len(rows), traffic["latency_buckets"], traffic["latency_counts"])
    rows_of = sorted(range(len(rows)), key=lambda index: (rows[index]["service"], rows[index]["model"]))
    cells = [
        [
            rows[index]["service"] or NO_NAME,
            rows[index]["model"],
            _number(rows[index]["requests"]),
            _number(int(errors[index])),
            *(
                _latency(min(percentile_us(histograms[index], fraction), rows[index][MAX_COLUMN]))
                for fraction in (0.5, 0.99)
            ),
            _latency(rows[index][MAX_COLUMN]),
        ]
        for index in rows_of
    ]
    numeric = ["requests", "errors", "p50", "p99", "max"]
    note = f"Errors: outcome {', '.join(FAILED_OUTCOMES)}. Percentiles are at most 1/32 from the truth."
    return Section("Traffic per service and model", ["service", "model", *numeric], numeric, cells, note)


def _volume(traffic: pa.Table) -> Section:
    _, rows = _grouped(traffic, ["service", "model"])
    cells = [
        [
            row["service"] or NO_NAME,
            row["model"],
            _number(row["items_in"]),
            _number(row["items_out"]),
            _bytes(row["bytes_in"]),
            _bytes(row["bytes_out"]),
        ]
        for row in sorted(rows, key=lambda row: (row["service"], row["model"]))
    ]
    numeric = ["items in", "items out", "bytes in", "bytes out"]
    return Section("Payloads and bytes", ["service", "model", *numeric], numeric, cells)


def _outcomes(traffic: pa.Table) -> Section:
    _, rows = _grouped(traffic, ["outcome", "word"])
    total = sum(row["requests"] for row in rows)
    rows.sort(key=lambda row: (-row["requests"], row["outcome"], row["word"]))
    cells = [
        [
            row["outcome"],
            row["word"] or NO_NAME,
            _number(row["requests"]),
            f"{100 * row['requests'] / max(1, total):.2f} %",
        ]
        for row in rows
    ]
    return Section("Outcomes", ["outcome", "code word", "requests", "share"], ["requests", "share"], cells)


def _callers(callers: pa.Table) -> Section:
    _, rows = _grouped(callers, ["caller_service", "caller_route", "service"])
    rows.sort(key=lambda row: (-row["requests"], row["caller_service"], row["caller_route"], row["service"]))
    cells = [
        [
            row["caller_service"] or NO_NAME,
            _short(row["caller_route"]),
            row["service"] or NO_NAME,
            _number(row["requests"]),
            _bytes(row["bytes_in"]),
            _bytes(row["bytes_out"]),
        ]
        for row in rows[:TOP_CALLERS]
    ]
    numeric = ["requests", "bytes in", "bytes out"]
    return Section(
        "Top callers", ["caller", "caller's route", "called", *numeric], numeric, cells, _shown(len(cells), len(rows))
    )


def _routes(lifecycle: pa.Table) -> Section:
    """One row per stay of a route, by service, the longest first."""
    sessions = sessions_of(lifecycle.to_pylist())
    sessions.sort(key=lambda session: (session.service, -session.uptime_ms, session.route_id))
    cells = [
        [
            session.service or NO_NAME,
            _short(session.route_id),
            _moment(session.joined_at),
            _duration(session.uptime_ms),
            NO_NAME if session.requests is None else _number(session.requests),
            session.end + (f": {session.reason}" if session.reason not in ("", session.end) else ""),
        ]
        for session in sessions[:MAX_ROUTES]
    ]
    columns = ["service", "route", "joined", "uptime", "requests", "end"]
    return Section("Routes", columns, ["uptime", "requests"], cells, _shown(len(cells), len(sessions)))


def _lifecycle(lifecycle: pa.Table) -> Section:
    counts = lifecycle.group_by("event").aggregate([([], "count_all"), ("at", "min"), ("at", "max")]).to_pylist()
    place = {name: number for number, name in KIND_NAMES.items()}
    counts.sort(key=lambda row: (place.get(row["event"], len(place) + 1), row["event"]))
    cells = [
        [row["event"], _number(row["count_all"]), _moment(row["at_min"]), _moment(row["at_max"])] for row in counts
    ]
    gaps = [dict(row["tags"]) for row in lifecycle.to_pylist() if row["kind"] == EVENTS_DROPPED]
    missing = sum(int(gap.get("records") or 0) for gap in gaps)
    note = f"{_count(missing, 'record')} are missing: see the EventsDropped events." if gaps else ""
    return Section("Lifecycle events", ["event", "count", "first", "last"], ["count"], cells, note)


def _grouped(partials: pa.Table, keys: list[str]) -> tuple[Any, list[dict[str, Any]]]:
    """Partials merged by these keys: the group number of each partial (int64 array), and one row per group."""
    numbers: dict[tuple[Any, ...], int] = {}
    columns = [partials[key].to_pylist() for key in keys]
    groups = np.fromiter((numbers.setdefault(key, len(numbers)) for key in zip(*columns, strict=True)), np.int64)
    rows = [dict(zip(keys, key, strict=True)) for key in numbers]
    for name in SUM_COLUMNS:
        sums = np.zeros(len(rows), np.int64)
        np.add.at(sums, groups, partials[name].to_numpy())
        _fill(rows, name, sums)
    maxima = np.zeros(len(rows), np.int64)
    np.maximum.at(maxima, groups, partials[MAX_COLUMN].to_numpy())
    _fill(rows, MAX_COLUMN, maxima)
    return groups, rows


def _fill(rows: list[dict[str, Any]], name: str, values: Any) -> None:
    for row, value in zip(rows, values.tolist(), strict=True):
        row[name] = value


def _sum(column: pa.ChunkedArray) -> int:
    return int(pa.compute.sum(column).as_py() or 0)


def _shown(shown: int, total: int) -> str:
    return f"{shown} of {_number(total)} are shown." if shown < total else ""


def _plain(text: str) -> str:
    """Without control characters: names come from strangers, and terminals obey."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _short(route_id: str) -> str:
    return route_id[:SHORT_ID] or NO_NAME


def _count(number: int, noun: str) -> str:
    return f"{_number(number)} {noun}" + ("" if number == 1 else "s")


def _number(number: int) -> str:
    return f"{number:,}"


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _latency(us: int) -> str:
    if us < 1000:
        return f"{us} µs"
    return f"{us / 1000:.2f} ms" if us < 1_000_000 else f"{us / 1_000_000:.2f} s"


def _duration(ms: int) -> str:
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def _moment(at: datetime | None) -> str:
    return NO_NAME if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
