"""`rsocket-broker bench`: its options. What is measured stands in `plan`, how in `load`, what is shown in `output`."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import click

from broker import exit_status
from broker.commands import terminal
from broker.commands.bench.plan import MAX_RATE, TARGETS, UNICAST, Plan
from rsocket_wire.models import MODELS, STREAMS
from spark_sink.number_types import Count, Number


@click.command(epilog=exit_status.EPILOG)
@terminal.with_connection_options
@click.option(
    "--model",
    type=click.Choice(MODELS),
    metavar="MODEL",
    default=MODELS[0],
    show_default=True,
    help=f"One of {', '.join(MODELS)}.",
)
@click.option("--to", "target", type=click.Choice(TARGETS), default=UNICAST, show_default=True, help="How to address.")
@click.option("--services", "services_n", default=1, show_default=True, type=Count(1, 1000), help="Routes.")
@click.option("--connections", "callers_n", default=4, show_default=True, type=Count(1, 1000), help="Of callers.")
@click.option("--in-flight", "in_flight_n", default=16, show_default=True, type=Count(1, 4096), help="Of each.")
@click.option(
    "--rate",
    "rate_per_s",
    type=Number(0, MAX_RATE, min_open=True),
    metavar="N",
    help="Begin so many a second in all, answered or not (open loop).",
)
@click.option("--payload-bytes", default=100, show_default=True, type=Count(0, 1 << 20), help="Of an item.")
@click.option("--items", "items_n", default=10, show_default=True, type=Count(1, 1 << 20), help="Of a stream.")
@click.option("--keys", "keys_n", default=1000, show_default=True, type=Count(1), help="Of shard requests.")
@click.option("--seconds", default=5.0, show_default=True, type=Number(0.1, 3600), help="Of measuring.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def bench(place: terminal.Place, /, is_json: bool, **given: Any) -> None:
    """Measure latency and throughput of requests through a broker.

    Callers and an echoing service of its own are in this process, which costs more than the broker does. Ctrl-C ends
    it, and what was measured is shown. URL: the broker, as of `call`.
    """
    plan = Plan(**given)
    if plan.items_n != 10 and plan.model not in STREAMS:
        raise click.UsageError(f"--items is for {' and '.join(STREAMS)}")

    def main() -> Coroutine[Any, Any, int]:
        from broker.commands.bench.load import measure  # late: the client

        return measure(place, plan, is_json)

    terminal.run(main)
