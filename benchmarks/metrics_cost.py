"""What counting costs: `python -m benchmarks.metrics_cost`. CPU time per forwarded request, counted and not.

The broker has no switch for it, so what is compared is the broker and a copy of it in which the methods that count have
lost their bodies; the calls are still made. Not in it is what only somebody who asks costs (REST, /metrics). The
core and its shell run on a wire that is only memory (`core_rounds.py`): with sockets the share would be smaller. Both
processes live all the time and take turns of a fraction of a second on one CPU.
"""

import ast
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Final

import click
from rich.console import Console

from benchmarks.contestants import COMPILED, OURS, CannotStart, core_folder
from benchmarks.figures import table_of
from benchmarks.machine import BUILD, ROOT, choose_cpus, hear, say, start_module, stop
from broker.build_hook import PACKAGES, compile_tree, compiled_modules

MOST: Final = 1.05  # times the CPU time without counting: the promise
COUNTING: Final = (
    ("broker/forwarding/traffic/flows.py", "Flow", "count"),
    ("broker/event_log/histogram.py", "Histogram", "add"),
)


class Rounds:
    """A `core_rounds` process with the `broker` package of a folder."""

    def __init__(self, folder: Path) -> None:
        self._process: Final = start_module("core_rounds", cpus=choose_cpus()[0], folder=folder)
        self.figures: Final[list[float]] = []  # µs per request, by round
        hear(self._process)

    def measure(self, seconds: float) -> None:
        """One round."""
        say(self._process, f"{seconds}")
        self.figures.append(float(hear(self._process)))

    def end(self) -> None:
        """Ends the process."""
        stop(self._process)


def without_counting(is_compiled: bool) -> Path:
    """The folder with the copy that counts nothing, made anew when a source has changed."""
    target = BUILD / ("uncounted-compiled" if is_compiled else "uncounted")
    digest = hashlib.sha256(f"{sys.version} {COUNTING}".encode())
    for path in sorted((ROOT / "broker").rglob("*.py")):
        digest.update(path.read_bytes())
    stamp = target / "source.sha256"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return target
    shutil.rmtree(target, ignore_errors=True)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, target / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for file, owner, method in COUNTING:
        empty(target / file, owner, method)
    if is_compiled:
        try:
            compile_tree(target, compiled_modules())
        except subprocess.CalledProcessError as error:
            raise CannotStart("the copy could not be compiled, its compiler said why") from error
    stamp.write_text(digest.hexdigest())
    return target


def empty(path: Path, owner: str, method: str) -> None:
    """Takes the body of a method away that returns nothing."""
    text = path.read_text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name == owner:
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == method:
                    lines = text.splitlines(keepends=True)
                    lines[each.body[0].lineno - 1 : each.end_lineno] = ["        return\n"]
                    path.write_text("".join(lines))
                    return
    raise click.ClickException(f"{path.name} has no {owner}.{method} any more: COUNTING in this file has to follow")


def compare(name: str, rounds: int, seconds: float) -> tuple[list[float], list[float]]:
    """µs per request of each round, counted and not."""
    is_compiled = name == COMPILED
    counted, uncounted = Rounds(core_folder(is_compiled)), Rounds(without_counting(is_compiled))
    try:
        for number in range(rounds):
            for each in (counted, uncounted) if number % 2 else (uncounted, counted):
                each.measure(seconds)
    finally:
        counted.end()
        uncounted.end()
    return counted.figures, uncounted.figures


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=30, show_default=True)
@click.option("--seconds", type=click.FloatRange(0.05), default=0.3, show_default=True, help="Of each run.")
@click.option("--only", metavar="NAME", default="", help="Only cores whose name contains this.")
def main(rounds: int, seconds: float, only: str) -> None:
    """CPU time of a forwarded request/response with and without counting."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    title = f"CPU µs per request, {rounds} rounds; the promise: at most {MOST:g} times"
    ratios = ("ratio, median of rounds", "ratio of the smallest")
    table = table_of(title, "core", "counted", "min", "not counted", "min", *ratios)
    for name in OURS:
        if only not in name:
            continue
        try:
            counted, uncounted = compare(name, rounds, seconds)
        except CannotStart as error:
            console.print(f"{name}: left out: {error}", highlight=False, markup=False)
            continue
        ratio = median(mine / other for mine, other in zip(counted, uncounted, strict=True))
        figures = (
            median(counted),
            min(counted),
            median(uncounted),
            min(uncounted),
            ratio,
            min(counted) / min(uncounted),
        )
        table.add_row(name, *(f"{figure:.3f}" for figure in figures))
    if not table.rows:
        raise click.ClickException("nothing could be measured")
    console.print(table)


if __name__ == "__main__":
    main()
