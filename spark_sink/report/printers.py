"""The chapters on a terminal, in short, and as a Markdown file, whole."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from spark_sink.report.chapters import chapters, headline, warning
from spark_sink.report.facts import Facts
from spark_sink.report.section import BRIEF_ROWS, SPARK_WIDTH, Section
from spark_sink.report.texts import length_of, moment_of, rate_of, shortened, sparkline
from spark_sink.terminal import print_rows

TITLE: Final = "Broker report"
WIDTH: Final = 100  # columns that the terminal form needs
MAX_NAME: Final = 26  # characters of a cell that is no number
MAX_LAST: Final = 40  # of the last one
MAX_TIME_COLUMNS: Final = 12  # of a Markdown table; the page has the wider ones


def nothing_of(facts: Facts) -> str:
    """What is said of tables without a row."""
    return "The tables hold no records" + (f" since {moment_of(facts.since)} UTC." if facts.since else ".")


def print_report(facts: Facts, console: Console) -> None:
    """To a terminal."""
    if facts.is_empty:
        console.print(nothing_of(facts), markup=False, highlight=False)
        return
    for one in headline(facts):
        line = Text(f"{one.label:>16}  ", "dim")
        line.append(one.value, "bold red" if one.is_bad else "bold")
        line.append(f"  {one.note}", "dim")
        console.print(line)
    said = warning(facts)
    if said:
        console.print()
        console.print(said, style="bold red", markup=False, highlight=False)
    traffic = facts.traffic
    if traffic.bins.count > 1:
        line = Text(f"\n{'over time':>16}  ", "dim")
        line.append(sparkline(traffic.all_over_time, SPARK_WIDTH))
        peak = rate_of(max(traffic.all_over_time), traffic.bins.step_s)
        line.append(f"  requests, up to {peak}; {length_of(traffic.bins.step_s)} or more per block", "dim")
        console.print(line)
    for section in (section for chapter in chapters(facts) for section in chapter.sections if section.is_brief):
        _print_section(section, console)


def _print_section(section: Section, console: Console) -> None:
    console.print()
    console.print(section.title, style="bold", markup=False, highlight=False)
    if not section.rows:
        console.print(section.nothing, style="dim", markup=False, highlight=False)
        return
    columns = [f">{column}" if column in section.numeric else column for column in section.columns]
    print_rows(console, columns, [_short_cells(section, row) for row in section.rows[:BRIEF_ROWS]])
    left = len(section.rows) - BRIEF_ROWS
    notes = [f"{left} more rows are in the page and in the Markdown."] if left > 0 else []
    notes += [section.note] if section.note else []
    if notes:
        console.print(" ".join(notes), style="dim", markup=False, highlight=False)


def _short_cells(section: Section, row: Sequence[str]) -> list[str]:
    last = len(row) - 1
    return [
        cell if section.columns[place] in section.numeric else shortened(cell, MAX_LAST if place == last else MAX_NAME)
        for place, cell in enumerate(row)
    ]


def markdown_report(facts: Facts) -> str:
    """The same as a Markdown file, every row of every table."""
    lines = [f"# {TITLE}"]
    if facts.is_empty:
        return "\n".join([*lines, "", nothing_of(facts)]) + "\n"
    said = warning(facts)
    if said:
        lines += ["", f"**{_escaped(said)}**"]
    figures = headline(facts)
    lines += ["", *_table(["", "", ""], [], [[one.label, one.value, one.note] for one in figures])]
    for chapter in chapters(facts):
        lines += ["", f"## {chapter.title}"]
        for section in chapter.sections:
            lines += ["", f"### {_escaped(section.title)}", ""]
            if not section.rows:
                lines.append(section.nothing)
            elif len(section.columns) > MAX_TIME_COLUMNS:
                lines.append(f"{len(section.rows)} rows of {len(section.columns)} columns are in the page.")
            else:
                lines += _table(section.columns, section.numeric, section.rows)
                if section.note:
                    lines += ["", _escaped(section.note)]
    return "\n".join(lines) + "\n"


def _table(columns: Sequence[str], numeric: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(map(_escaped, columns))} |"]
    lines.append(f"| {' | '.join('---:' if column in numeric else '---' for column in columns)} |")
    return lines + [f"| {' | '.join(map(_escaped, row))} |" for row in rows]


def _escaped(text: str) -> str:
    """So that Markdown shows it as it is."""
    for character in "\\`*_[]|":
        text = text.replace(character, f"\\{character}")
    return text.replace("&", "&amp;").replace("<", "&lt;")
