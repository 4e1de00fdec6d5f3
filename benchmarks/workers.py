"""How much several workers carry against one: `python -m benchmarks.workers`. The method is told in README.md.

Two kinds of traffic: services at all workers, where every request stays at the worker that it came to with `--locality
local`, and is for any of them else; and one service, where those of all workers but one take a hop. Where there is no
CPU left for the load generator, each worker is held to a share of one: then the generator has room, and what is carried
can be compared.
"""

import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from rich.console import Console

from benchmarks.contestants import Contestant, RunningBroker, measure, ours
from benchmarks.figures import Row, table_of
from benchmarks.machine import build_programs, describe_machine
from benchmarks.shares import Shares

LINKED_S: Final = 1.0  # for the workers to be linked; a generator that came before would count errors
ROWS: Final = (
    Row("request_response", 16, 64, services=16),  # of 16 connections each of two workers gets some: all, once in 2^15
    Row("request_response", 16, 64, services=1),
)
KINDS: Final = ("services at all workers", "one service")
SHARE: Final = 0.4  # of a CPU for each of two workers on two: the generator needs a fifth of what both do together
USED: Final = 0.95  # of the shares at least, or it was not the workers that were measured


def serving(workers_n: int, is_compiled: bool, locality: str) -> Contestant:
    """Our broker with so many workers; 1 is the broker without a supervisor."""

    flags = ("--admin", "off", "--workers", str(workers_n))
    return ours(f"{workers_n} workers", is_compiled, *flags, RSB_SERVER__WORKER_LOCALITY=locality)


def processes_of(broker: RunningBroker) -> list[int]:
    """The process that was started and its workers."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text()
    return [broker.pid, *map(int, children.split())]


def choose_cpus(workers_n: int) -> tuple[set[int], set[int], bool]:
    """CPUs for the workers and for the generator, and whether they have to share them."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) > workers_n:
        return set(allowed[1 : workers_n + 1]), {allowed[0]}, False
    return set(allowed), set(allowed), True


def run(
    runner: Contestant, workers_n: int, row: Row, seconds: float, cpus: tuple[set[int], set[int]], share: float
) -> dict[str, Any]:
    """What the generator reports of one run; CannotStart, CannotMeasure.

    `cpus`: for the workers and for the generator. `share`: of a CPU that each worker is held to; 0: it has one.
    """
    broker = runner.start(cpus[0])
    shares = Shares(share) if share else None
    try:
        time.sleep(LINKED_S)
        processes = processes_of(broker)
        if shares is not None:
            shares.hold(processes[-workers_n:])  # not the supervisor, which forwards nothing
        report = measure(broker, row.arguments(seconds), seconds, cpus[1], processes)
    finally:
        broker.stop()
        if shares is not None:
            shares.release()
    # What the workers used of what they could have had.
    report["used"] = report["requests_per_s"] * report["cpu_us_per_request"] / 1e6 / workers_n / (share or 1.0)
    return report


def show(console: Console, title: str, runs: dict[int, list[dict[str, Any]]]) -> None:
    """One table: medians over the rounds; ratios are taken within each round."""
    columns = ("requests/s", "against one", "used", "CPU µs/request", "by CPU alone", "generator busy")
    table = table_of(title, "workers", *columns, left_n=0)
    ones = runs[1]
    for workers_n, reports in runs.items():
        pairs = list(zip(reports, ones, strict=True))
        carried = median(mine["requests_per_s"] / one["requests_per_s"] for mine, one in pairs)
        by_cpu = median(workers_n * one["cpu_us_per_request"] / mine["cpu_us_per_request"] for mine, one in pairs)
        table.add_row(
            str(workers_n),
            f"{median(each['requests_per_s'] for each in reports):,.0f}",
            f"{carried:.2f}",
            f"{median(each['used'] for each in reports):.2f}",
            f"{median(each['cpu_us_per_request'] for each in reports):.2f}",
            f"{by_cpu:.2f}",
            f"{median(each['load_busy'] for each in reports):.2f}",
        )
    console.print(table)
    if any(median(each["used"] for each in reports) < USED for reports in runs.values()):
        console.print(f"less than {USED:.0%} was used: a worker waited for another one, or others wanted the machine")


@click.command()
@click.option("--workers", "workers_n", type=click.IntRange(2, 64), default=2, show_default=True)
@click.option("--seconds", type=click.FloatRange(0.1), default=4.0, show_default=True, help="Of each run.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--locality", type=click.Choice(("even", "local")), default="even", show_default=True)
@click.option("--interpreted", is_flag=True, help="The core as it is in the source tree.")
@click.option(
    "--share",
    type=click.FloatRange(0.0, 1.0),
    help=f"Of a CPU that each worker is held to, 0: to none.  [default: {SHARE} where CPUs must be shared]",
)
def main(workers_n: int, seconds: float, rounds: int, locality: str, interpreted: bool, share: float | None) -> None:
    """Compare several workers with one."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    runners = {number: serving(number, not interpreted, locality) for number in (1, workers_n)}
    build_programs()
    broker_cpus, load_cpus, is_shared = choose_cpus(workers_n)
    console.print(describe_machine(), highlight=False)
    if share is None:
        share = SHARE if is_shared else 0.0
    if share:
        console.print(f"each worker is held to {share:.0%} of a CPU, the generator has the rest")
    elif is_shared:
        console.print("workers and generator share all CPUs: what CPU time says is what a core more would carry")
    for row, kind in zip(ROWS, KINDS, strict=True):
        runs: dict[int, list[dict[str, Any]]] = {number: [] for number in runners}
        for _ in range(rounds):
            for number, runner in runners.items():
                runs[number].append(run(runner, number, row, seconds, (broker_cpus, load_cpus), share))
        show(console, f"{kind}: {row.name}", runs)


if __name__ == "__main__":
    main()
