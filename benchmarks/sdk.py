"""What a client costs: `python benchmarks/sdk.py [--quick] [--interpreted]`.

    caller process ──► broker, a process of its own ──► echo, a process of its own     the caller's CPU time counts
    client_sdk     ──► broker                        ──► service process               the service's CPU time counts

The libraries take turns in each round; the table shows medians over the rounds, and ratios taken within each round.
All on uvloop, 100 bytes, 256 requests in flight. client_sdk and rsocket-py go through the same broker, with the same
ADDRESS; nats-py through nats-server.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Final

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to be run as a file, from anywhere

from benchmarks import contestants as brokers
from benchmarks.machine import BUILD, CannotMeasure, choose_cpus, describe_commit, describe_machine

CALLERS: Final = ("client_sdk", "rsocket-py", "nats-py")
MODELS: Final = ("request_response", "fire_and_forget", "request_stream", "request_stream x16")
SERVICE: Final = "service of request_response"
HERE: Final = Path(__file__).resolve().parent
START_LIMIT_S: Final = 20.0


class Place:
    """A broker, and which process stands behind it."""

    def __init__(self, name: str, kind: str, cpus: set[int], folder: Path) -> None:
        found = next(one for one in brokers.contestants() if one.name == name)
        self.broker: Final = found.start(cpus)
        self.kind: Final = kind
        self._folder: Final = folder

    def start_echo(self) -> "subprocess.Popen[str]":
        """The cheap service; returns when it can be asked."""
        return self._await_ready([str(HERE / "sdk_echo.py"), self.kind, str(self.broker.port)])

    def start_service(self, library: str) -> "subprocess.Popen[str]":
        """The service whose CPU time counts."""
        return self._await_ready([str(HERE / "sdk_clients.py"), "service", library, str(self.broker.port)])

    def call(self, library: str, model: str, seconds: float) -> dict[str, float]:
        """One caller process from its start to its end."""
        words = ["caller", library, model, str(self.broker.port), str(seconds)]
        result = subprocess.run(
            [sys.executable, str(HERE / "sdk_clients.py"), *words],
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=seconds + START_LIMIT_S,
        )
        if result.returncode:
            raise CannotMeasure(f"{library}, {model}: {result.stderr.strip().splitlines()[-1]}")
        figures: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
        return figures

    def _await_ready(self, words: list[str]) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, *words],
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # rsocket-py's warns of each stream that it has just ended
            text=True,
        )
        assert process.stdout is not None  # asked for with PIPE
        if "ready" not in process.stdout.readline():
            raise CannotMeasure(f"{' '.join(words)} did not start")
        return process

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self._folder)}


def stop(process: "subprocess.Popen[str]") -> None:
    """Ends a service."""
    process.terminate()
    process.communicate()


def measure_caller(place: Place, library: str, model: str, seconds: float) -> float:
    """Requests (or items) per CPU second of the caller."""
    echo = place.start_echo()
    try:
        figures = place.call(library, model, seconds)
    finally:
        stop(echo)
    return figures["done"] / figures["cpu_s"]


def measure_service(place: Place, library: str, seconds: float) -> float:
    """Requests per CPU second of the service; the caller's time is not in it."""
    service = place.start_service(library)
    assert service.stdin is not None  # asked for with PIPE
    assert service.stdout is not None
    try:
        marks = []
        done = 0.0
        for is_after in (False, True):
            if is_after:
                done = place.call("nats-py" if library == "nats-py" else "client_sdk", "request_response", seconds)[
                    "done_in_all"
                ]
            service.stdin.write("\n")
            service.stdin.flush()
            marks.append(float(service.stdout.readline()))
    finally:
        stop(service)
    return done / (marks[1] - marks[0])


def print_table(console: Console, rates: dict[tuple[str, str], list[float]], callers: list[str]) -> None:
    """A row for each model: requests per CPU second of each library, and ours over the others."""
    table = Table(title="requests, or items of streams, per CPU second: medians over the rounds")
    table.add_column("model")
    for caller in callers:
        table.add_column(caller, justify="right")
    for caller in callers[1:]:
        table.add_column(f"ratio to {caller}", justify="right")
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
    broker_cpus, other_cpus = choose_cpus()
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
    except (CannotMeasure, brokers.CannotStart) as error:
        raise click.ClickException(str(error)) from error
    finally:
        for place in places.values():
            place.broker.stop()
    console.print(f"{describe_machine()}; {describe_commit()}; {'interpreted' if interpreted else 'compiled'}")
    print_table(console, rates, callers)
    (BUILD / "sdk.json").write_text(json.dumps({f"{model}, {name}": rates[model, name] for model, name in rates}))


if __name__ == "__main__":
    main()
