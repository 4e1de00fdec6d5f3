"""What a hop costs: `python -m benchmarks.hop`. CPU time of a request over two brokers, both together, against one.

Two linked brokers on one CPU. The callers are always at the first one; the service is there (one broker does all) or at
the second one (a hop). Both runs of a round use the same two processes, so that memory layouts do not differ.
"""

import contextlib
import sys
import time
from statistics import median
from typing import Final

import click
from rich.console import Console

from benchmarks.contestants import Contestant, measure, ours
from benchmarks.figures import Row, table_of
from benchmarks.machine import build_programs, choose_cpus, describe_machine

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

    variables = {"RSB_BROKER__NAME": name, "RSB_CLUSTER__SECRET": SECRET}
    if peer_port:
        variables["RSB_CLUSTER__PEERS"] = f"tcp://127.0.0.1:{peer_port}"
    return ours(name, is_compiled, **variables)


def show(console: Console, results: dict[str, list[tuple[float, float]]]) -> None:
    """Medians over the rounds; ratios are taken within each round."""
    title = f"CPU µs per request, or per item of a stream; the promise, compiled: {MOST} times"
    table = table_of(title, "traffic", "one broker", "a hop, both together", "times", "min … max")
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
    build_programs()
    broker_cpus, load_cpus = choose_cpus()
    console.print(describe_machine(), highlight=False)
    for _ in range(rounds):
        with contextlib.ExitStack() as stack:
            one = member("one", 0, not interpreted).start(broker_cpus)
            stack.callback(one.stop)
            two = member("two", one.port, not interpreted).start(broker_cpus)
            stack.callback(two.stop)
            time.sleep(LINKED_S)
            for row in ROWS:
                unit = "cpu_us_per_item" if row.model == "request_stream" else "cpu_us_per_request"
                # Callers at the first one, the service there or at the second one.
                at_one, at_two = ([*row.arguments(seconds), "--service-port", f"{each.port}"] for each in (one, two))
                local = measure(one, at_one, seconds, load_cpus)[unit]
                hop = measure(one, at_two, seconds, load_cpus, [one.pid, two.pid])[unit]
                results[row.name].append((local, hop))
    show(console, results)


if __name__ == "__main__":
    main()
