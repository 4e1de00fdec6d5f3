"""Time of a routing lookup among 100 000 routes, and of a choice among 10 to 100 000: `python benchmarks/lookup.py`.

Runs lookup_timing.py and lookup_choices.py once with each core, compiled and interpreted, pinned to one CPU.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to be run as a file, from anywhere

from benchmarks.contestants import COMPILED, OURS, CannotStart, core_folder
from benchmarks.machine import BUILD, ROOT, choose_cpus


def measure(folder: Path, module: str) -> dict[str, Any]:
    """What a working half measures in microseconds with the `broker` package in this folder."""
    empty = BUILD / "empty"  # `python -m` puts the working directory first
    empty.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}"],
        cwd=empty,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, choose_cpus()[0]),
    )
    if done.returncode != 0:
        raise click.ClickException(f"{module} failed with the core in {folder.relative_to(ROOT)}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def lookups(measured: dict[str, dict[str, float]]) -> Table:
    """A row for each kind of address, a column for each core."""
    table = Table(title="µs per routing lookup, 100 000 routes")
    table.add_column("address")
    for name in measured:
        table.add_column(name, justify="right")
    for what in next(iter(measured.values())):
        table.add_row(what, *(f"{figures[what]:.3f}" for figures in measured.values()))
    return table


def choices(name: str, measured: dict[str, dict[str, float]]) -> Table:
    """A row for each chooser, a column for each number of routes."""
    table = Table(title=f"µs per request to a known address that so many routes match, {name}")
    table.add_column("who is chosen")
    for size in next(iter(measured.values())):
        table.add_column(f"{int(size):,}", justify="right")
    for what, figures in measured.items():
        table.add_row(what, *(f"{figure:.3f}" for figure in figures.values()))
    return table


@click.command()
def main() -> None:
    """Microseconds per routing lookup, and per choice."""
    console = Console()
    found: dict[str, dict[str, float]] = {}
    tables: list[Table] = []
    for name in OURS:
        try:
            folder = core_folder(name == COMPILED)
        except CannotStart as error:
            console.print(f"{name}: left out: {error}", highlight=False, markup=False)
            continue
        found[name] = measure(folder, "lookup_timing")
        tables.append(choices(name, measure(folder, "lookup_choices")))
    if not found:
        raise click.ClickException("nothing could be measured")
    for table in [lookups(found), *tables]:
        console.print(table)


if __name__ == "__main__":
    main()
