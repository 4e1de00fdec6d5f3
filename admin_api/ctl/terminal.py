"""What commands print: tables, JSON, durations.

Everything that a peer named is shown without control characters, so that nobody writes into the operator's terminal.
"""

import json
from collections.abc import Sequence
from typing import Any

import click

from spark_sink.terminal import console_of, print_rows
from spark_sink.timestamps import span_text


def print_json(body: dict[str, Any], is_line: bool = False) -> None:
    """As the API gives it; on one line of several answers."""
    click.echo(json.dumps(body, indent=None if is_line else 2))


def print_table(columns: tuple[str, ...], rows: Sequence[Sequence[str]], nothing: str = "") -> None:
    """A table, or the word for an empty one; a column that begins with > is right-aligned."""
    if rows or not nothing:
        print_rows(console_of(), columns, rows)
    else:
        click.echo(nothing)


def age(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `5 h 2 min`, `4 d 1 h`."""
    return span_text(int(seconds * 1_000_000))
