"""What event files cost a broker under load: `python -m benchmarks.event_files`. CPU per request, latency.

Real broker processes over loopback: without event files, with flow records, with every request besides. CPU time is the
broker's own (its writer is another process, see sink.py), at full speed and at a steady rate; the latency at that rate
counts from the moment at which a request was due. The broker has one CPU, the generator another; the writer may run on
both, as it would anywhere.
"""

import os
import shutil
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from rich.console import Console

from benchmarks.contestants import Contestant, RunningBroker, measure, ours
from benchmarks.figures import Row, table_of
from benchmarks.machine import BUILD, build_programs, choose_cpus, describe_machine

EVENTS: Final = BUILD / "event-files"
ROW: Final = Row("request_response", 16, 16)
NONE: Final = "none"
MODES: Final = (NONE, "flows", "all")
MOST_US: Final = {"flows": 0.5, "all": 1.5}  # CPU per request beyond a broker without: the promise
MOST_TIMES: Final = 2.0  # the p99 of one without


def contestant(mode: str, is_compiled: bool) -> Contestant:
    """A broker that writes these events."""

    variables = {} if mode == NONE else {"RSB_EVENTS__DIR": str(EVENTS), "RSB_EVENTS__REQUESTS": mode}
    return ours(f"events {mode}", is_compiled, **variables)


def free_writers(broker: RunningBroker) -> None:
    """The broker's children get all CPUs: it is the broker that is held to one."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    for child in children:
        for thread in os.listdir(f"/proc/{child}/task"):
            os.sched_setaffinity(int(thread), range(os.cpu_count() or 1))


def show(console: Console, title: str, rounds: dict[str, list[dict[str, Any]]]) -> None:
    """Medians over the rounds; what is added, and how many times, is taken within each round."""
    columns = ("requests/s", "CPU µs/request", "added µs", "p50 µs", "p99 µs", "times p99", "load busy")
    table = table_of(title, "events", *columns)
    for mode, reports in rounds.items():
        pairs = list(zip(reports, rounds[NONE], strict=True))
        added = median(one["cpu_us_per_request"] - base["cpu_us_per_request"] for one, base in pairs)
        times = median(one["p99_us"] / base["p99_us"] for one, base in pairs)

        def middle(key: str, reports: list[dict[str, Any]] = reports) -> float:
            return float(median(report[key] for report in reports))

        table.add_row(
            mode,
            f"{middle('requests_per_s'):,.0f}",
            f"{middle('cpu_us_per_request'):.2f}",
            "" if mode == NONE else f"{added:+.2f}",
            f"{middle('p50_us'):.0f}",
            f"{middle('p99_us'):.0f}",
            "" if mode == NONE else f"{times:.2f}",
            f"{middle('load_busy'):.2f}",
        )
    console.print(table)


@click.command()
@click.option("--seconds", type=click.FloatRange(0.5), default=5.0, show_default=True, help="Of each run.")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True)
@click.option("--rate", type=click.IntRange(100), default=20_000, show_default=True, help="Requests a second.")
@click.option("--interpreted", is_flag=True, help="The core as it is in the source tree.")
def main(seconds: float, rounds: int, rate: int, interpreted: bool) -> None:
    """Compare a broker with event files with one without."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    steady = Row(ROW.model, 16, 64)
    kinds = {
        f"as fast as they are completed, {ROW.name}": ROW.arguments(seconds),
        f"{rate:,} a second, over 16 connections": [*steady.arguments(seconds), "--rate", str(rate)],
    }
    results: dict[str, dict[str, list[dict[str, Any]]]] = {kind: {mode: [] for mode in MODES} for kind in kinds}
    try:
        build_programs()
        broker_cpus, load_cpus = choose_cpus()
        console.print(describe_machine(), highlight=False)
        for number in range(rounds):
            for mode in MODES[number % 3 :] + MODES[: number % 3]:
                shutil.rmtree(EVENTS, ignore_errors=True)
                broker = contestant(mode, not interpreted).start(broker_cpus)
                try:
                    if mode != NONE:
                        time.sleep(1.0)  # the writer has loaded what it needs
                        free_writers(broker)
                    for kind, arguments in kinds.items():
                        results[kind][mode].append(measure(broker, arguments, seconds, load_cpus))
                finally:
                    broker.stop()
    finally:
        shutil.rmtree(EVENTS, ignore_errors=True)
    for kind, of_kind in results.items():
        show(console, kind, of_kind)
    promises = ", ".join(f"{mode} {most} µs" for mode, most in MOST_US.items())
    console.print(
        f"The promise, compiled: added at most {promises}; p99 at most {MOST_TIMES:g} times.", highlight=False
    )


if __name__ == "__main__":
    main()
