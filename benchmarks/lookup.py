"""Time of a routing lookup among 100 000 routes, and of a choice among 10 to 100 000: `python -m benchmarks.lookup`.

Runs lookup_timing.py and lookup_choices.py once with each core, compiled and interpreted, pinned to one CPU.
"""

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.contestants import COMPILED, OURS, CannotStart, core_folder
from benchmarks.figures import table_of
from benchmarks.machine import ROOT, CannotMeasure, choose_cpus, start_module


def measure(folder: Path, module: str) -> dict[str, Any]:
    """What a working half measures in microseconds with the `broker` package in this folder."""
    done = start_module(module, cpus=choose_cpus()[0], folder=folder)
    said, _ = done.communicate()
    if done.returncode != 0:
        raise CannotMeasure(f"{module} failed with the core in {folder.relative_to(ROOT)}")
    figures: dict[str, Any] = json.loads(said)
    return figures


def lookups(measured: dict[str, dict[str, float]]) -> Table:
    """A row for each kind of address, a column for each core."""
    table = table_of("µs per routing lookup, 100 000 routes", "address", *measured)
    for what in next(iter(measured.values())):
        table.add_row(what, *(f"{figures[what]:.3f}" for figures in measured.values()))
    return table


def choices(name: str, measured: dict[str, dict[str, float]]) -> Table:
    """A row for each chooser, a column for each number of routes."""
    sizes = [f"{int(size):,}" for size in next(iter(measured.values()))]
    title = f"µs per request to a known address that so many routes match, {name}"
    table = table_of(title, "who is chosen", *sizes)
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
