"""What a hop costs: `python benchmarks/hop.py`. CPU time of a request over two brokers, both together, against one.

Two linked brokers on one CPU. The callers are always at the first one; the service is there (one broker does all) or at
the second one (a hop). Both runs of a round use the same two processes, so that memory layouts do not differ.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to be run as a file, from anywhere

from benchmarks.contestants import CannotStart, Contestant, RunningBroker, core_folder
from benchmarks.figures import Row
from benchmarks.machine import BUILD, CannotMeasure, build_programs, choose_cpus, describe_machine

RUN_LIMIT_S: Final = 40.0  # for a run beyond its --seconds
LINKED_S: Final = 1.0  # for the brokers to be linked; a generator that came before would count errors
SECRET: Final = "a secret for benchmarks only"
MOST: Final = 2.2  # times the CPU of a local request: the promise
ROWS: Final = (
    Row("request_response", 1, 64),
    Row("request_response", 16, 16),
    Row("request_response", 16, 64),
    Row("request_stream", 16, 4),
)


def member(name: str, peer_port: int, is_compiled: bool) -> Contestant:
    """One broker of the cluster; it dials the other one, if that has a port."""

    def prepare() -> tuple[list[str], dict[str, str]]:
        peers = f"tcp://127.0.0.1:{peer_port}" if peer_port else ""
        environment = {
            "PYTHONPATH": str(core_folder(is_compiled)),
            "RSB_BROKER__NAME": name,
            "RSB_CLUSTER__SECRET": SECRET,
            **({"RSB_CLUSTER__PEERS": peers} if peers else {}),
        }
        return [sys.executable, "-m", "broker", "--listen", "tcp://127.0.0.1:0", "--admin", "off"], environment

    return Contestant(name, "rsocket_load", prepare)


def measure(one: RunningBroker, other: RunningBroker, row: Row, seconds: float, cpus: set[int]) -> dict[str, Any]:
    """What the generator reports with callers at `one` and the service at `other`; CannotMeasure."""
    ports = ["--port", str(one.port), "--service-port", str(other.port)]
    pids = f"{one.pid}" if one is other else f"{one.pid},{other.pid}"
    done = subprocess.run(
        [str(BUILD / "rsocket_load"), *ports, "--cpu-of", pids, *row.arguments(seconds)],
        capture_output=True,
        text=True,
        timeout=seconds + RUN_LIMIT_S,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    if done.returncode != 0 or done.stderr.strip():
        raise CannotMeasure(f"{row.name}: {done.stderr.strip() or done.returncode}")
    report: dict[str, Any] = json.loads(done.stdout)
    if report["errors"]:
        raise CannotMeasure(f"{row.name}: {report['errors']} errors")
    return report


def show(console: Console, results: dict[str, list[tuple[float, float]]]) -> None:
    """Medians over the rounds; ratios are taken within each round."""
    table = Table(title=f"CPU µs per request, or per item of a stream; the promise, compiled: {MOST} times")
    for column in ("traffic", "one broker", "a hop, both together", "times", "min … max"):
        table.add_column(column, justify="left" if column == "traffic" else "right")
    for name, pairs in results.items():
        ratios = [hop / local for local, hop in pairs]
        table.add_row(
            name,
            f"{median(local for local, _ in pairs):.2f}",
            f"{median(hop for _, hop in pairs):.2f}",
            f"{median(ratios):.2f}",
            f"{min(ratios):.2f} … {max(ratios):.2f}",
        )
    console.print(table)


@click.command()
@click.option("--seconds", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Of each run.")
@click.option("--rounds", type=click.IntRange(1), default=9, show_default=True)
@click.option("--interpreted", is_flag=True, help="The core as it is in the source tree.")
def main(seconds: float, rounds: int, interpreted: bool) -> None:
    """Compare a request over a hop with a local one."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    results: dict[str, list[tuple[float, float]]] = {row.name: [] for row in ROWS}
    try:
        build_programs()
        broker_cpus, load_cpus = choose_cpus()
        console.print(describe_machine(), highlight=False)
        for _ in range(rounds):
            one = member("one", 0, not interpreted).start(broker_cpus)
            try:
                two = member("two", one.port, not interpreted).start(broker_cpus)
                try:
                    time.sleep(LINKED_S)
                    for row in ROWS:
                        unit = "cpu_us_per_item" if row.model == "request_stream" else "cpu_us_per_request"
                        local = measure(one, one, row, seconds, load_cpus)[unit]
                        hop = measure(one, two, row, seconds, load_cpus)[unit]
                        results[row.name].append((local, hop))
                finally:
                    two.stop()
            finally:
                one.stop()
    except (CannotMeasure, CannotStart, subprocess.TimeoutExpired) as error:
        raise click.ClickException(str(error)) from error
    show(console, results)


if __name__ == "__main__":
    main()
