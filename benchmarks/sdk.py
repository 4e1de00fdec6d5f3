"""What a client costs: `python -m benchmarks.sdk [--quick] [--interpreted]`.

    caller process ──► broker, a process of its own ──► echo, a process of its own     the caller's CPU time counts
    client_sdk     ──► broker                        ──► service process               the service's CPU time counts

The libraries take turns in each round; the table shows medians over the rounds, and ratios taken within each round.
All on uvloop, 100 bytes, 256 requests in flight. client_sdk and rsocket-py go through the same broker, with the same
ADDRESS; nats-py through nats-server.
"""

import json
import os
import subprocess
from pathlib import Path
from statistics import median
from typing import Final

import click
from rich.console import Console

from benchmarks import contestants as brokers
from benchmarks import machine
from benchmarks.figures import table_of
from benchmarks.machine import BUILD, CannotMeasure, hear, say, start_module, stop

CALLERS: Final = ("client_sdk", "rsocket-py", "nats-py")
MODELS: Final = ("request_response", "fire_and_forget", "request_stream", "request_stream x16")
SERVICE: Final = "service of request_response"
CALL_LIMIT_S: Final = 60.0  # from the start of a caller to its end, beyond its seconds


class Place:
    """A broker, and which process stands behind it."""

    def __init__(self, name: str, kind: str, cpus: set[int], folder: Path) -> None:
        found = next(one for one in brokers.contestants() if one.name == name)
        self.broker: Final = found.start(cpus)
        self.kind: Final = kind
        self.url: Final = f"{'nats' if kind == 'nats' else 'tcp'}://127.0.0.1:{self.broker.port}"
        self._folder: Final = folder

    def start(self, module: str, *words: object) -> "subprocess.Popen[str]":
        """A service; returns when it can be asked."""
        # What rsocket-py's says on standard error is a warning of each stream that it has just ended.
        process = start_module(module, *words, folder=self._folder, err=subprocess.DEVNULL)
        hear(process)
        return process

    def call(self, library: str, model: str, seconds: float) -> dict[str, float]:
        """One caller process from its start to its end."""
        words = ("caller", library, model, self.url, seconds)
        return call(start_module("sdk_clients", *words, folder=self._folder), seconds)


def call(process: "subprocess.Popen[str]", seconds: float) -> dict[str, float]:
    """What a caller of `sdk_clients`, which calls for so long, says at its end."""
    try:
        said, _ = process.communicate(timeout=seconds + CALL_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        process.kill()
        raise CannotMeasure(f"{process.args!r} did not end within {error.timeout:.0f} s") from error
    if process.returncode:
        raise CannotMeasure(f"{process.args!r} failed, see above")
    figures: dict[str, float] = json.loads(said.splitlines()[-1])
    return figures


def measure_caller(place: Place, library: str, model: str, seconds: float) -> float:
    """Requests (or items) per CPU second of the caller."""
    echo = place.start("sdk_echo", place.kind, place.broker.port)
    try:
        figures = place.call(library, model, seconds)
    finally:
        stop(echo)
    return figures["done"] / figures["cpu_s"]


def measure_service(place: Place, library: str, seconds: float) -> float:
    """Requests per CPU second of the service; the caller's time is not in it."""
    service = place.start("sdk_clients", "service", library, place.url)
    try:
        marks = []
        done = 0.0
        for is_after in (False, True):
            if is_after:
                done = place.call("nats-py" if library == "nats-py" else "client_sdk", "request_response", seconds)[
                    "done_in_all"
                ]
            say(service, "")
            marks.append(float(hear(service)))
    finally:
        stop(service)
    return done / (marks[1] - marks[0])


def print_table(console: Console, rates: dict[tuple[str, str], list[float]], callers: list[str]) -> None:
    """A row for each model: requests per CPU second of each library, and ours over the others."""
    title = "requests, or items of streams, per CPU second: medians over the rounds"
    table = table_of(title, "model", *callers, *(f"ratio to {caller}" for caller in callers[1:]))
    for model in (*MODELS, SERVICE):
        if (model, callers[0]) not in rates:
            continue
        cells = [f"{median(rates[model, caller]):,.0f}" for caller in callers]
        for other in callers[1:]:
            ratios = [one / two for one, two in zip(rates[model, callers[0]], rates[model, other], strict=True)]
            cells.append(f"{median(ratios):.2f} ({min(ratios):.2f} … {max(ratios):.2f})")
        table.add_row(model, *cells)
    console.print(table)


@click.command()
@click.option("--quick", is_flag=True, help="Does it all still run? One short round.")
@click.option("--interpreted", is_flag=True, help="The clients run interpreted; the broker is compiled all the same.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--seconds", default=3.0, show_default=True, help="Of each run, a fifth of it to warm up.")
@click.option("--only", default="", help="Models, separated by commas.")
@click.option("--libraries", default=",".join(CALLERS), show_default=True)
def main(quick: bool, interpreted: bool, rounds: int, seconds: float, only: str, libraries: str) -> None:
    """Measures what our client, rsocket-py's and nats-py cost per request."""
    if quick:
        rounds, seconds = 1, 0.5
    callers: list[str] = [name for name in CALLERS if name in libraries.split(",")]
    models = [model for model in (*MODELS, SERVICE) if not only or model in only.split(",")]
    console = Console(width=160)
    broker_cpus, other_cpus = machine.choose_cpus()
    os.sched_setaffinity(0, broker_cpus | other_cpus)
    rates: dict[tuple[str, str], list[float]] = {}
    places: dict[str, Place] = {}
    try:
        folder = brokers.core_folder(is_compiled=not interpreted)
        BUILD.mkdir(parents=True, exist_ok=True)
        for kind, name in (("rsocket", brokers.COMPILED), ("nats", brokers.NATS)):
            if kind == "rsocket" or "nats-py" in callers:
                places[kind] = Place(name, kind, broker_cpus, folder)
        for number in range(rounds):
            for model in models:
                turns = callers[number % len(callers) :] + callers[: number % len(callers)]
                for library in turns:
                    place = places["nats" if library == "nats-py" else "rsocket"]
                    if model == SERVICE:
                        rate = measure_service(place, library, seconds)
                    else:
                        rate = measure_caller(place, library, model, seconds)
                    rates.setdefault((model, library), []).append(rate)
    finally:
        for place in places.values():
            place.broker.stop()
    core = "interpreted" if interpreted else "compiled"
    console.print(machine.describe_machine(), machine.describe_commit(), core, sep="; ")
    print_table(console, rates, callers)
    (BUILD / "sdk.json").write_text(json.dumps({f"{model}, {name}": rates[model, name] for model, name in rates}))


if __name__ == "__main__":
    main()
