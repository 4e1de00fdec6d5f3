"""What commands say on a terminal: sentences and tables of names that come from strangers, and how a command ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

import click

from rsocket_wire.files import system_reason
from spark_sink.errors import BadFolder, BadMoment, SinkError
from spark_sink.timestamps import moment_of

if TYPE_CHECKING:
    from rich.console import Console

SHORT_ID: Final = 8  # digits of an id
WIDTH: Final = 200  # columns where the output is no terminal and says no width
GAP: Final = 2  # columns between a name and what it stands for, and between two cells
MIN_WIDTH: Final = 20  # columns of what a name stands for, however narrow the terminal is
MAX_CELL_LINES: Final = 4  # of a cell in a table; more are read better beside a name


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


def console_of(width: int = WIDTH) -> Console:
    """Of standard output; a file or a log gets lines of that width."""
    from rich.console import Console  # late, here and below: a third of what a command needs to start

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            """The command says how it ends, not the library."""
            raise BrokenPipeError

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Terminal(width=None if is_terminal or "COLUMNS" in os.environ else width)


def say(console: Console, text: str, style: str = "") -> None:
    """A sentence."""
    console.print(plain(text), style=style, markup=False, highlight=False, soft_wrap=True)


def print_rows(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; columns whose heads begin with `>` are numbers. Where it does not fit, one row below the other: nothing
    is cut."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    heads = [column.removeprefix(">") for column in columns]
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = _widths(heads, cells, console.width)
    if widths is None:
        for number, row in enumerate(cells):
            for line in [""] * bool(number) + fact_lines(list(zip(heads, row, strict=True)), console.width):
                say(console, line)
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for column, head, width in zip(columns, heads, widths, strict=True):
        table.add_column(head, justify="right" if column.startswith(">") else "left", width=width)
    for row in cells:
        table.add_row(*map(Text, row))  # no markup
    console.print(table)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Names and what they stand for, without the library for tables: to import it takes `ctl status` a third of its
    CPU."""
    for line in fact_lines(facts, shutil.get_terminal_size((WIDTH, 1)).columns):
        click.echo(line)


def fact_lines(facts: Sequence[tuple[str, str]], width: int) -> list[str]:
    """The same, folded beside their names."""
    names_width = max((len(name) for name, _ in facts), default=0) + GAP
    found = []
    for name, fact in facts:
        lines = _wrapped(plain(fact), max(width - names_width, MIN_WIDTH)) or [""]
        for beside, line in zip([plain(name)] + [""] * len(lines), lines, strict=False):
            found.append(f"{beside:{names_width}}{line}".rstrip())
    return found


def _wrapped(text: str, width: int) -> list[str]:
    """Between words only: a path that is cut can't be copied."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _widths(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """The columns that a table of this width gives to each; None: it would cut words, or be high instead of wide."""
    from rich.cells import cell_len

    columns = [[head, *(row[number] for row in rows)] for number, head in enumerate(heads)]
    widths = [max(map(cell_len, column)) for column in columns]
    least = [max((cell_len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    if excess > sum(widths) - sum(least):
        return None
    for _ in range(excess):
        widest = max((n for n in range(len(widths)) if widths[n] > least[n]), key=widths.__getitem__)
        widths[widest] -= 1
    is_high = any(
        len(cell) > width * MAX_CELL_LINES or len(_wrapped(cell, width)) > MAX_CELL_LINES
        for column, width in zip(columns, widths, strict=True)
        for cell in column
        if len(cell) > width
    )
    return None if is_high else widths


@contextlib.contextmanager
def heeding_interruptions() -> Iterator[None]:
    """An interruption ends this, also where a library swallows it or makes an error of its own of it, as DuckDB."""
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            raise KeyboardInterrupt from None


def write_text(path: Path, text: str) -> None:
    """The whole of a file that an option names. BadFolder."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadFolder(f"{path} cannot be written: {system_reason(error)}") from None


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
