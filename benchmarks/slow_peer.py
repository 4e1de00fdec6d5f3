"""What a slow or stopped peer costs the others: `python -m benchmarks.slow_peer`.

The others are the traffic of compare.py. Beside them in turn: nobody; a consumer that reads 20 KiB/s of the streams
that it asked for; one that reads nothing; and, in longer runs, a service that is fed and answers, and one that is fed
and has got SIGSTOP before the window. All within each round, each with a broker of its own; ratios are taken within the
round and are medians. A consumer that reads nothing is ended after `limits.stuck_s` (10 s), its runs are shorter.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from statistics import median
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from benchmarks.compare import Comparison, nobody
from benchmarks.contestants import OURS, Contestant, RunningBroker, contestants
from benchmarks.figures import Figures, Row, table_of
from benchmarks.machine import CannotMeasure, build_programs, choose_cpus, hear, start_module

Beside = Callable[[RunningBroker], AbstractContextManager[None]]

SLOW_BYTES_PER_S: Final = 20 << 10
MOST: Final = 1.05  # times what it costs without the slow one: the promise
MOST_STOPPED: Final = 2.0  # times the p99
STREAMS: Final = Row("request_stream", 16, 4)
REQUESTS: Final = Row("request_response", 16, 16)
HEAD: Final = ("traffic", "beside", "CPU µs each", "ratio", "each/s", "ratio", "p99 µs", "ratio")


@contextmanager
def process(broker: RunningBroker, role: str, *words: object, is_awaited: bool = True) -> Iterator[int]:
    """One process of `beside.py`; its process id. `is_awaited`: it says when it is ready."""
    started = start_module("beside", role, broker.port, *words, cpus=choose_cpus()[1])
    try:
        if is_awaited:
            hear(started)
        yield started.pid
        if started.poll() is not None and role != "feeder":  # it ends with the service that it feeds
            raise CannotMeasure(f"the {role} beside was ended, see above")
    finally:
        started.kill()
        said = started.communicate()[0]
    if not is_awaited and not said:
        raise CannotMeasure(f"the {role} beside got nothing")


def consumer(bytes_per_s: int) -> Beside:
    """Ready only when the generator's service is there."""

    @contextmanager
    def beside(broker: RunningBroker) -> Iterator[None]:
        with process(broker, "consumer", bytes_per_s, is_awaited=False):
            yield

    return beside


def service(is_stopped: bool) -> Beside:
    """A service that is fed."""

    @contextmanager
    def beside(broker: RunningBroker) -> Iterator[None]:
        with process(broker, "service") as pid, process(broker, "feeder"):
            if is_stopped:
                os.kill(pid, signal.SIGSTOP)
            yield

    return beside


CONSUMERS: Final = {
    "nobody": nobody,
    "consumer of 20 KiB/s": consumer(SLOW_BYTES_PER_S),
    "consumer of nothing": consumer(0),
}
SERVICES: Final = {"a fed service": service(is_stopped=False), "one that is stopped": service(is_stopped=True)}


def run(comparison: Comparison, runner: Contestant, row: Row, cases: dict[str, Beside], rounds: int) -> list[Figures]:
    """All rounds of one row; a figure for each case, the first one is what the others are compared with."""
    figures = [Figures(name, row) for name in cases]
    for number in range(rounds):
        reports = {}
        for at in range(len(figures)):
            each = figures[(at + number) % len(figures)]
            reports[each.name] = comparison.measure(runner, row, cases[each.name])
        if all(reports.values()):  # else the rounds would not be pairs
            for each in figures:
                each.rounds.append(reports[each.name] or {})
    return figures


def ratio(figures: Figures, to: Figures, key: str) -> float:
    """Within each round, the median."""
    return median(mine / other for mine, other in zip(figures.values(key), to.values(key), strict=True))


def add_rows(table: Table, runner: Contestant, results: Sequence[Figures]) -> None:
    """One line for each case."""
    first = results[0]
    one, rate = ("item", "items") if first.row is STREAMS else ("request", "requests")
    keys = (f"cpu_us_per_{one}", f"{rate}_per_s", "p99_us")
    for figures in results:
        cells = []
        for key in keys:
            middle = median(figures.values(key))
            cells.append(f"{middle:.3f}" if middle < 10 else f"{middle:,.0f}".replace(",", " "))
            cells.append("" if figures is first else f"{ratio(figures, first, key):.2f}")
        title = f"{first.row.name}, {runner.name.removeprefix('rsocket-broker ')}" if figures is first else ""
        table.add_row(title, figures.name, *cells)
    table.add_section()


def show(console: Console, table: Table, is_failed: bool) -> None:
    """Prints what was measured; ends the command with status 1 when something failed."""
    if not table.rows:
        raise click.ClickException("nothing could be measured")
    console.print(table)
    if is_failed:
        sys.exit(1)


@click.command()
@click.option("--seconds", type=click.FloatRange(1.0, 9.0), default=4.0, show_default=True, help="Of each run.")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True)
@click.option("--stopped-seconds", type=click.FloatRange(1.0), default=30.0, show_default=True)
@click.option("--stopped-rounds", type=click.IntRange(0), default=3, show_default=True, help="0 leaves them out.")
@click.option("--only", metavar="NAME", default="", help="Only brokers of ours whose name contains this.")
def main(seconds: float, rounds: int, stopped_seconds: float, stopped_rounds: int, only: str) -> None:
    """CPU time, rate and p99 of others beside a slow consumer, and beside a stopped service."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    build_programs()
    title = f"medians and ratios over the rounds; the promise: a slow consumer costs the others at most {MOST:g} times"
    table = table_of(f"{title}, a stopped service makes their p99 at most {MOST_STOPPED:g} times", *HEAD, left_n=2)
    is_failed = False
    for runner in contestants():
        if runner.name not in OURS or only not in runner.name:
            continue
        short, long = Comparison(console, seconds, rounds), Comparison(console, stopped_seconds, stopped_rounds)
        for comparison, row, cases, times in (
            (short, STREAMS, CONSUMERS, rounds),
            (short, REQUESTS, CONSUMERS, rounds),
            (long, REQUESTS, SERVICES, stopped_rounds),
        ):
            results = run(comparison, runner, row, cases, times)
            if results[0].rounds:
                add_rows(table, runner, results)
            is_failed = is_failed or comparison.is_failed or any(figures.errors for figures in results)
    show(console, table, is_failed)


if __name__ == "__main__":
    main()
