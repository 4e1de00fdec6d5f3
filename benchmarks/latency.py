"""What a broker adds to a request that is alone, and what it forwards at most: `python -m benchmarks.latency`.

Added latency: one connection with one request in flight, in a closed loop, through each broker and to a service that
callers connect to themselves; added is the difference to the latter within the same round. Streams: CPU time per item
of a broker that has nothing else to do. Generator, pinning, warm-up and interleaving are those of compare.py.
"""

import sys
from collections.abc import Sequence
from statistics import median
from typing import Final

import click
from rich.console import Console

from benchmarks.compare import Comparison
from benchmarks.contestants import COMPILED, DIRECT, NATS, OURS, RELAY, contestants, direct
from benchmarks.figures import Figures, Row, table_of
from benchmarks.machine import build_programs

ALONE: Final = Row("request_response", 1, 1)
STREAMS: Final = Row("request_stream", 16, 4)
ITEMS_PER_S: Final = 1e6  # per core: the promise


def added_us(via: Figures, without: Figures, key: str) -> float:
    """The median over the rounds of what is added."""
    return median(one - other for one, other in zip(via.values(key), without.values(key), strict=False))


def print_latencies(console: Console, results: Sequence[Figures], without: Figures) -> None:
    """One line for each way."""
    title = f"latency of {ALONE.name}, µs: medians over {len(without.rounds)} rounds"
    table = table_of(title, "through", "p50", "min … max", "p99", "added p50", "added p99", "CPU µs/request")
    for figures in results:
        p50 = figures.values("p50_us")
        added = [f"{added_us(figures, without, key):.1f}" for key in ("p50_us", "p99_us")]
        table.add_row(
            figures.name,
            f"{median(p50):.1f}",
            f"{min(p50):.1f} … {max(p50):.1f}",
            f"{median(figures.values('p99_us')):.1f}",
            *(["", ""] if figures is without else added),
            f"{median(figures.values('cpu_us_per_request')):.1f}",
            style="bold" if figures.name in OURS else None,
        )
    console.print(table)


def print_streams(console: Console, results: Sequence[Figures]) -> None:
    """One line for each core."""
    title = f"{STREAMS.name}: items forwarded; the promise, compiled: {ITEMS_PER_S / 1e6:g} million/s per core"
    table = table_of(title, "core", "CPU µs/item", "min … max", "million items/s per core", "items/s in the run")
    for figures in results:
        cpu = figures.values("cpu_us_per_item")
        ran = median(figures.values("items_per_s"))
        table.add_row(
            figures.name,
            f"{median(cpu):.3f}",
            f"{min(cpu):.3f} … {max(cpu):.3f}",
            f"{1 / median(cpu):.2f}",
            f"{ran:,.0f}".replace(",", " "),
        )
    console.print(table)


@click.command()
@click.option("--seconds", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Of each run.")
@click.option("--rounds", type=click.IntRange(1), default=15, show_default=True)
def main(seconds: float, rounds: int) -> None:
    """Added latency of one request in flight, and streams forwarded per core."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    build_programs()
    known = {runner.name: runner for runner in contestants()}
    comparison = Comparison(console, seconds, rounds)
    comparison.run_row(ALONE, [direct(), *(known[name] for name in (COMPILED, NATS, RELAY))])
    comparison.run_row(STREAMS, [known[name] for name in OURS])
    alone = [figures for figures in comparison.results if figures.row is ALONE]
    without = [figures for figures in alone if figures.name == DIRECT]
    if not without:
        raise click.ClickException("nothing could be measured")
    print_latencies(console, alone, without[0])
    print_streams(console, [figures for figures in comparison.results if figures.row is STREAMS])
    if comparison.is_failed or any(figures.errors for figures in comparison.results):
        sys.exit(1)


if __name__ == "__main__":
    main()
