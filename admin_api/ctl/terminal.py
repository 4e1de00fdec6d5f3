"""What commands print: tables, JSON, durations.

Everything that a peer named is shown without control characters, so that nobody writes into the operator's terminal.
"""

import json
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any, Final

import click

from spark_sink.terminal import WIDTH, console_of, plain, print_rows
from spark_sink.timestamps import span_text

GAP: Final = 2  # columns between a name and what it stands for
MIN_WIDTH: Final = 20  # columns of that, however narrow the terminal is


def print_json(body: dict[str, Any], is_line: bool = False) -> None:
    """As the API gives it; on one line of several answers."""
    click.echo(json.dumps(body, indent=None if is_line else 2))


def print_table(columns: tuple[str, ...], rows: Sequence[Sequence[str]], nothing: str = "") -> None:
    """A table, or the word for an empty one; a column that begins with > is right-aligned. No columns: names and what
    they stand for."""
    if not rows and nothing:
        click.echo(nothing)
        return
    if columns:
        print_rows(console_of(), columns, rows, overflow="ellipsis")
    else:
        _print_facts(rows)


def _print_facts(rows: Sequence[Sequence[str]]) -> None:
    """Without the library for tables: to import it would take `status` a third of its CPU."""
    width = shutil.get_terminal_size((WIDTH, 1)).columns
    names_width = max((len(name) for name, _ in rows), default=0) + GAP
    for name, fact in rows:
        lines = textwrap.wrap(plain(fact), max(width - names_width, MIN_WIDTH), break_on_hyphens=False) or [""]
        for beside, line in zip([plain(name)] + [""] * len(lines), lines, strict=False):
            click.echo(f"{beside:{names_width}}{line}".rstrip())


def age(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `5 h 2 min`, `4 d 1 h`."""
    return span_text(int(seconds * 1_000_000))
