"""What counting costs: `python benchmarks/metrics_cost.py`. CPU time per forwarded request, counted and not.

The broker has no switch for it, so what is compared is the broker and a copy of it in which the methods that count have
lost their bodies; the calls are still made. Not in it is what only somebody who asks costs (REST, /metrics). The
core and its shell run on a wire that is only memory (`core_rounds.py`): with sockets the share would be smaller. Both
processes live all the time and take turns of a fraction of a second on one CPU.
"""

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Final

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to be run as a file, from anywhere

from benchmarks.contestants import COMPILED, OURS, CannotStart, core_folder
from benchmarks.machine import BUILD, ROOT, choose_cpus
from broker.build_hook import PACKAGES, compile_tree, compiled_modules

MOST: Final = 1.05  # times the CPU time without counting: the promise
COUNTING: Final = (
    ("broker/forwarding/traffic/flows.py", "Flow", "count"),
    ("broker/event_log/histogram.py", "Durations", "add"),
    ("broker/edge/shell.py", "Shell", "_measure"),
)


class Rounds:
    """A `core_rounds` process with the `broker` package of a folder."""

    def __init__(self, folder: Path) -> None:
        empty = BUILD / "empty"  # `python -m` puts the working directory first
        empty.mkdir(parents=True, exist_ok=True)
        self._process: Final = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.core_rounds"],
            cwd=empty,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, choose_cpus()[0]),
        )
        self._folder: Final = folder
        self.figures: Final[list[float]] = []  # µs per request, by round
        self._line()

    def measure(self, seconds: float) -> None:
        """One round."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        self.figures.append(float(self._line()))

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise click.ClickException(f"the core in {self._folder.relative_to(ROOT)} failed, see above")
        return line


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
    table = Table(title=f"CPU µs per request, {rounds} rounds; the promise: at most {MOST:g} times")
    for column in ("core", "counted", "min", "not counted", "min", "ratio, median of rounds", "ratio of the smallest"):
        table.add_column(column, justify="left" if column == "core" else "right")
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
