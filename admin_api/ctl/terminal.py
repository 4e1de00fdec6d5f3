"""What commands print: tables, JSON, durations.

Everything that a peer named is shown without control characters, so that nobody writes into the operator's terminal.
"""

import json
import os
from typing import Any, Final

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH: Final = 200  # columns, where the output is no terminal and says no width


def print_json(body: dict[str, Any]) -> None:
    """As the API gives it."""
    click.echo(json.dumps(body, indent=2))


def print_table(columns: tuple[str, ...], rows: list[tuple[str, ...]], nothing: str = "") -> None:
    """A table, or the word for an empty one; a column that begins with > is right-aligned."""
    if not rows and nothing:
        click.echo(nothing)
        return
    table = Table(box=box.SIMPLE_HEAD if columns else None, show_header=bool(columns), pad_edge=False)
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=PIPE_WIDTH)
    console.print(table)


def clean(text: str) -> str:
    """On one line and without control characters."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def age(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `5 h 2 min`, `4 d 1 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    for size, name, below, below_name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // below} {below_name}"
    raise AssertionError  # 60 and above is at least a minute
