"""What commands say on a terminal: sentences and tables of names that come from strangers, and how a command ends."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NoReturn

import click

from spark_sink.errors import BadMoment, SinkError
from spark_sink.timestamps import moment_of

if TYPE_CHECKING:
    from rich.console import Console, OverflowMethod

SHORT_ID: Final = 8  # digits of an id
WIDTH: Final = 200  # columns where the output is no terminal and says no width


def plain(text: str) -> str:
    """Without control and direction characters: names come from strangers, and terminals and browsers obey."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def short_id(route_id: str) -> str:
    """Its first digits, as all commands show it."""
    return plain(route_id[:SHORT_ID])


def short_ids(route_ids: Iterable[str]) -> dict[str, str]:
    """What each is called beside the others: its first digits, or all of it where another one begins with the same."""
    ids = set(route_ids)
    counts = Counter(one[:SHORT_ID] for one in ids)
    return {one: short_id(one) if counts[one[:SHORT_ID]] == 1 else plain(one) for one in ids}


def console_of() -> Console:
    """Of standard output; a file or a log gets whole lines."""
    from rich.console import Console  # late, here and below: a third of what a command needs to start

    is_wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=WIDTH if is_wide else None)


def say(console: Console, text: str, style: str = "") -> None:
    """A sentence."""
    console.print(plain(text), style=style, markup=False, highlight=False, soft_wrap=True)


def print_rows(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], overflow: OverflowMethod = "fold"
) -> None:
    """A table; columns whose heads begin with `>` are numbers. `overflow`: of cells that are too long."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD if columns else None, show_header=bool(columns), pad_edge=False)
    for column in columns:
        is_number = column.startswith(">")
        table.add_column(column.removeprefix(">"), justify="right" if is_number else "left", overflow=overflow)
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))  # no markup
    console.print(table)


def moment_option(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    """The moment that an option names, see `moments`; events are as exact as a millisecond."""
    now = datetime.now(UTC)
    try:
        return None if value is None else moment_of(value, now.replace(microsecond=now.microsecond // 1000 * 1000))
    except BadMoment as error:
        raise click.BadParameter(str(error)) from error


def end(error: SinkError, *, is_hanging: bool = False) -> NoReturn:
    """The command fails: one sentence on standard error, and the exit status of the error. `is_hanging`: see
    `end_now`."""
    click.echo(f"{error}", err=True)
    if is_hanging:
        end_now(error.exit_status)
    sys.exit(error.exit_status)


def end_now(status: int) -> NoReturn:
    """The process ends though a thread of it hangs, which the interpreter would wait for, or stumble over."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
