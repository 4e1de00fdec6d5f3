"""What a bench has measured, as a table and as JSON."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

import click

from broker.commands.bench.latencies import Latencies
from broker.commands.bench.plan import Plan
from rsocket_wire.models import ONE_WAY, STREAMS
from spark_sink.terminal import print_facts

PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)
CLOSED: Final = (
    "closed loop: a caller that waits asks nothing, so slow moments count too little (coordinated omission); --rate "
    "counts from when each request was due"
)
OPEN: Final = "open loop: latencies count from when each request was due"
ARRIVAL: Final = "no answers: latencies are until the service had the request"


class Measured(NamedTuple):
    """The outcome."""

    plan: Plan
    url: str
    seconds: float  # that were counted
    latencies: Latencies
    errors: dict[str, int]  # code word -> requests
    items_n: int  # of streams
    is_interrupted: bool

    def per_s(self, number: float) -> int:
        """So many a second."""
        return round(number / self.seconds) if self.seconds else 0


def show(measured: Measured, is_json: bool) -> None:
    """Prints it."""
    if is_json:
        click.echo(json.dumps(as_json(measured), indent=2))
    else:
        print_facts(rows_of(measured))


def as_json(measured: Measured) -> dict[str, object]:
    """All of it, latencies in microseconds."""
    plan, latencies = measured.plan, measured.latencies
    return {
        "url": measured.url,
        **plan._asdict(),
        "seconds": round(measured.seconds, 3),
        "is_interrupted": measured.is_interrupted,
        "requests": latencies.number,
        "requests_per_s": measured.per_s(latencies.number),
        "items": measured.items_n,
        "items_per_s": measured.per_s(measured.items_n),
        "errors": measured.errors,
        "is_open_loop": plan.rate_per_s is not None,
        "latency_us": {
            "mean": latencies.mean_us,
            **{f"p{percent:g}": latencies.percentile_us(percent) for percent in PERCENTILES},
            "max": latencies.max_us,
        },
    }


def rows_of(measured: Measured) -> list[tuple[str, str]]:
    """The same for people."""
    plan, latencies = measured.plan, measured.latencies
    of_items = f", {plan.items_n:,} items" if plan.model in STREAMS else ""
    rate = "" if plan.rate_per_s is None else f", {plan.rate_per_s:,g} a second"
    rows = [
        ("what", f"{plan.model} ({plan.target}) of {plan.payload_bytes:,} bytes{of_items}, through {measured.url}"),
        ("who", f"{plan.callers_n:,} callers, {plan.in_flight_n:,} in flight each{rate}; {plan.services_n:,} routes"),
        ("measured", f"{measured.seconds:.1f} s" + (", interrupted" if measured.is_interrupted else "")),
        ("requests", f"{latencies.number:,}, {measured.per_s(latencies.number):,} a second"),
    ]
    if plan.model in STREAMS:
        rows.append(("items", f"{measured.items_n:,}, {measured.per_s(measured.items_n):,} a second"))
    rows.append(("latency µs", f"mean {latencies.mean_us:,}, max {latencies.max_us:,}"))
    rows.append(("", ", ".join(f"p{percent:g} {latencies.percentile_us(percent):,}" for percent in PERCENTILES)))
    errors = ", ".join(f"{number:,} {word}" for word, number in sorted(measured.errors.items()))
    rows.append(("errors", errors or "none"))
    rows.append(("", OPEN if plan.rate_per_s is not None else CLOSED))
    if plan.model in ONE_WAY:
        rows.append(("", ARRIVAL))
    return rows
