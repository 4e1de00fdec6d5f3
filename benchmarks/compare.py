"""Our broker beside its neighbours, in one run: `python -m benchmarks.compare`. The method is told in README.md.

Every measurement: start one broker on one CPU, the load generator on another, read what the generator reports, stop the
broker. The brokers of a row take turns within each round, so that a noisy minute of the machine meets all of them.
"""

import json
import platform
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import click
from rich.console import Console

from benchmarks.contestants import OURS, CannotStart, Contestant, RunningBroker, contestants, generate
from benchmarks.figures import MODELS, Figures, Row, print_table, rows_for, write_json
from benchmarks.machine import BUILD, ROOT, CannotMeasure, build_programs, choose_cpus

LATEST: Final = ROOT / "benchmarks" / "results" / "latest.json"
QUICK: Final = BUILD / "quick.json"
PARTIAL: Final = BUILD / "partial.json"
BETWEEN_S: Final = 0.1  # for the sockets of the run before to be gone


def nobody(broker: RunningBroker) -> AbstractContextManager[None]:
    """The generator has the broker for itself."""
    return nullcontext()


class Comparison:
    """Runs the rows and keeps what came out. `is_failed` after anything that was told about one of ours."""

    def __init__(self, console: Console, seconds: float, rounds: int) -> None:
        self.results: Final[list[Figures]] = []
        self.is_failed = False
        self._console: Final = console
        self._seconds: Final = seconds
        self._rounds: Final = rounds
        self._broker_cpus, self._load_cpus = choose_cpus()
        self._left_out: Final[set[str]] = set()
        if self._broker_cpus == self._load_cpus:
            console.print("only one CPU: brokers and generator share it, latencies say little")

    def run_row(self, row: Row, runners: list[Contestant]) -> None:
        """All rounds of one row."""
        figures = {runner.name: Figures(runner.name, row) for runner in runners}
        for number in range(self._rounds):
            for runner in runners[number % len(runners) :] + runners[: number % len(runners)]:
                if runner.name in self._left_out:
                    continue
                with self._console.status(f"{row.name}: round {number + 1} of {self._rounds}, {runner.name}"):
                    report = self.measure(runner, row)
                if report is not None:
                    figures[runner.name].rounds.append(report)
        self.results.extend(figures[runner.name] for runner in runners if figures[runner.name].rounds)

    def measure(
        self, runner: Contestant, row: Row, beside: Callable[[RunningBroker], AbstractContextManager[None]] = nobody
    ) -> dict[str, Any] | None:
        """One measurement, or None when it failed: then the reason is printed. `beside`: who else uses the broker."""
        try:
            broker = runner.start(self._broker_cpus)
        except CannotStart as error:
            self._left_out.add(runner.name)
            self._tell(runner, f"left out: {error}")
            return None
        try:
            with beside(broker):
                arguments = row.arguments(self._seconds)
                done = generate(runner.generator, broker.port, [broker.pid], arguments, self._seconds, self._load_cpus)
        except CannotMeasure as error:
            self._tell(runner, f"{row.name}: {error}")
            return None
        finally:
            broker.stop()
            time.sleep(BETWEEN_S)
        if done.stderr.strip():
            self._tell(runner, f"{row.name}: {done.stderr.strip()}")
        if done.returncode != 0:
            return None
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def _tell(self, runner: Contestant, text: str) -> None:
        self._console.print(f"{runner.name}: {text}", highlight=False, markup=False)
        self.is_failed = self.is_failed or runner.name in OURS


def chosen_runners(only: str | None) -> list[Contestant]:
    """Those whose name contains `only`; all without it. click.BadParameter when none does."""
    known = contestants()
    chosen = [runner for runner in known if only is None or only in runner.name]
    if not chosen:
        raise click.BadParameter(f"known are: {', '.join(runner.name for runner in known)}", param_hint="--only")
    return chosen


def chosen_models(models: str | None) -> tuple[str, ...]:
    """The models of a list with commas; all without it."""
    chosen = tuple(models.split(",")) if models else MODELS
    unknown = [model for model in chosen if model not in MODELS]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}: known are {', '.join(MODELS)}", param_hint="--models")
    return chosen


@click.command()
@click.option("--quick", is_flag=True, help="A smoke test under a minute; writes build/bench/quick.json instead.")
@click.option("--seconds", type=click.FloatRange(0.1), help="Of each run, its warm-up of 20 % included. [default: 4]")
@click.option("--rounds", type=click.IntRange(1), help="Of each row; medians are shown. [default: 5]")
@click.option("--only", metavar="NAME", help="Only brokers whose name contains this; does not write latest.json.")
@click.option("--models", metavar="A,B", help="Only these models; does not write latest.json.")
def main(quick: bool, seconds: float | None, rounds: int | None, only: str | None, models: str | None) -> None:
    """Compare CPU time per request and latency of our broker and its neighbours."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    runners, wanted = chosen_runners(only), chosen_models(models)
    build_programs()
    comparison = Comparison(console, seconds or (0.4 if quick else 4.0), rounds or (1 if quick else 5))
    rows = {row.name: row for runner in runners for row in rows_for(runner.name, quick) if row.model in wanted}
    for name, row in rows.items():
        takers = [runner for runner in runners if any(row.name == name for row in rows_for(runner.name, quick))]
        comparison.run_row(row, takers)
    if not comparison.results:
        raise click.ClickException("nothing could be measured")
    print_table(console, comparison.results)
    path = QUICK if quick else PARTIAL if only or models else LATEST
    write_json(path, comparison.results, f"{platform.python_implementation()} {platform.python_version()}")
    console.print(f"written: {path.relative_to(ROOT)}", highlight=False)
    if comparison.is_failed or any(figures.errors for figures in comparison.results if figures.name in OURS):
        sys.exit(1)


if __name__ == "__main__":
    main()
