"""Time of one routing lookup among 100 000 routes, compiled and interpreted: `python benchmarks/lookup.py`.

Runs lookup_timing.py once with each core, pinned to one CPU, and shows both.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to be run as a file, from anywhere

from benchmarks.contestants import COMPILED, OURS, CannotStart, core_folder
from benchmarks.machine import BUILD, ROOT, choose_cpus


def measure(folder: Path) -> dict[str, float]:
    """Microseconds per lookup with the `broker` package in this folder, by what was measured."""
    empty = BUILD / "empty"  # `python -m` puts the working directory first
    empty.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.lookup_timing"],
        cwd=empty,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, choose_cpus()[0]),
    )
    if done.returncode != 0:
        raise click.ClickException(f"the lookups failed with the core in {folder.relative_to(ROOT)}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@click.command()
def main() -> None:
    """Microseconds per routing lookup."""
    console = Console()
    measured: dict[str, dict[str, float]] = {}
    for name in OURS:
        try:
            measured[name] = measure(core_folder(name == COMPILED))
        except CannotStart as error:
            console.print(f"{name}: left out: {error}", highlight=False, markup=False)
    if not measured:
        raise click.ClickException("nothing could be measured")
    table = Table(title="µs per routing lookup, 100 000 routes")
    table.add_column("address")
    for name in measured:
        table.add_column(name, justify="right")
    for what in next(iter(measured.values())):
        table.add_row(what, *(f"{figures[what]:.3f}" for figures in measured.values()))
    console.print(table)


if __name__ == "__main__":
    main()
