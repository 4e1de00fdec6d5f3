"""What WebSocket costs beside TCP, with and without TLS: `python -m benchmarks.websocket [--quick] [--interpreted]`.

    caller process ──► broker, a process of its own ──► service process
                  scheme                          scheme                    client_sdk at both ends

One broker listens on tcp, ws, tls and wss; callers take turns in each round. The table shows the broker's CPU time per
request and the requests per CPU second of the caller, medians over the rounds, and ratios taken within each round.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

import click
from rich.console import Console

from benchmarks import machine
from benchmarks.contestants import core_folder, plain_environment
from benchmarks.figures import table_of
from benchmarks.machine import BUILD, CannotMeasure
from benchmarks.sdk import call
from benchmarks.sdk_clients import DATA

SCHEMES: Final = ("tcp", "ws", "tls", "wss")
BESIDE: Final = {"ws": "tcp", "wss": "tls"}
BARS: Final = {"broker": 2.0, "caller": 0.5}  # at most, at least: what WebSocket may cost beside the same without it
IN_FLIGHT_N: Final = 64


class Run:
    """What one caller process said, of its own and of the broker's process."""

    def __init__(self, figures: dict[str, float]) -> None:
        self.broker_us: Final = figures["other_cpu_s"] * 1e6 / figures["done"]
        self.caller_rate: Final = figures["done"] / figures["cpu_s"]
        self.rate: Final = figures["done"] / figures["wall_s"]


class Place:
    """A broker with a listener for each scheme."""

    def __init__(self, cpus: set[int], folder: Path, keys: Path) -> None:
        make_certificate(keys)
        self._folder: Final = folder
        self._certificate: Final = keys / "localhost.pem"
        listen = [word for scheme in SCHEMES for word in ("--listen", f"{scheme}://localhost:0")]
        tls = {"RSB_TLS__CERTIFICATE": str(self._certificate), "RSB_TLS__KEY": str(keys / "localhost.key")}
        self._process: Final = subprocess.Popen(
            [sys.executable, "-m", "broker", *listen, "--admin", "off"],
            cwd=keys,
            env={**plain_environment(), "PYTHONPATH": str(folder), **tls},
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
        assert self._process.stderr is not None  # asked for with PIPE
        said = ""
        for said in self._process.stderr:  # warnings may come first
            if "listening" in said:
                break
        self.urls: Final = {url.split(":")[0]: url for url in re.findall(r"\w+://localhost:\d+", said)}
        if set(self.urls) != set(SCHEMES):
            self.stop()
            raise CannotMeasure(f"the broker did not start: {said.strip()}")

    def measure(self, scheme: str, seconds: float) -> Run:
        """One caller and one service, from their start to their end."""
        service = self._start("service", "client_sdk", self.urls[scheme])
        try:
            machine.hear(service)
            words = ("caller", "client_sdk", "request_response", self.urls[scheme])
            return Run(call(self._start(*words, seconds, IN_FLIGHT_N, self._process.pid), seconds))
        finally:
            machine.stop(service)

    def stop(self) -> None:
        """Ends the broker."""
        self._process.terminate()
        self._process.communicate()

    def _start(self, *words: object) -> "subprocess.Popen[str]":
        return machine.start_module("sdk_clients", *words, folder=self._folder, SSL_CERT_FILE=str(self._certificate))


def make_certificate(folder: Path) -> None:
    """One for localhost that signs itself; CannotMeasure without the program openssl."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(folder / "localhost.key"), "-out", str(folder / "localhost.pem")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotMeasure(f"no certificate could be made with openssl: {error}") from error


def ratios(rows: dict[str, list[Run]], scheme: str, figure: str) -> list[float]:
    """One of each round: this scheme by the one that it stands beside."""
    pairs = zip(rows[scheme], rows[BESIDE[scheme]], strict=True)
    return [getattr(mine, figure) / getattr(other, figure) for mine, other in pairs]


def print_table(console: Console, rows: dict[str, list[Run]]) -> None:
    title = f"client_sdk, one connection each, {IN_FLIGHT_N} in flight, {len(DATA)} bytes"
    columns = ("broker, CPU µs/request", "beside", "caller, requests/CPU s", "beside", "requests/s")
    table = table_of(title, "scheme", *columns)
    for scheme, runs in rows.items():
        cells = ["", ""]
        if scheme in BESIDE:
            for at, figure in enumerate(("broker_us", "caller_rate")):
                found = ratios(rows, scheme, figure)
                cells[at] = f"{median(found):.2f} ({min(found):.2f} … {max(found):.2f}) x {BESIDE[scheme]}"
        table.add_row(
            scheme,
            f"{median(run.broker_us for run in runs):.2f}",
            cells[0],
            f"{median(run.caller_rate for run in runs):,.0f}",
            cells[1],
            f"{median(run.rate for run in runs):,.0f}",
        )
    console.print(table)


@click.command()
@click.option("--quick", is_flag=True, help="Does it all still run? One short round.")
@click.option("--interpreted", is_flag=True, help="Broker and clients run interpreted.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--seconds", default=3.0, show_default=True, help="Of each run, a fifth of it to warm up.")
def main(quick: bool, interpreted: bool, rounds: int, seconds: float) -> None:
    """Measures WebSocket beside TCP; fails when the medians miss the bars."""
    if quick:
        rounds, seconds = 1, 0.5
    console = Console(width=140)
    broker_cpus, other_cpus = machine.choose_cpus()
    os.sched_setaffinity(0, broker_cpus | other_cpus)
    rows: dict[str, list[Run]] = {scheme: [] for scheme in SCHEMES}
    with tempfile.TemporaryDirectory() as keys:
        folder = core_folder(is_compiled=not interpreted)
        place = Place(broker_cpus, folder, Path(keys))
        os.sched_setaffinity(0, other_cpus)
        try:
            for number in range(rounds):
                at = number % len(SCHEMES)
                for scheme in SCHEMES[at:] + SCHEMES[:at]:
                    rows[scheme].append(place.measure(scheme, seconds))
        finally:
            place.stop()
    core = "interpreted" if interpreted else "compiled"
    console.print(machine.describe_machine(), machine.describe_commit(), core, sep="; ")
    print_table(console, rows)
    BUILD.mkdir(parents=True, exist_ok=True)
    figures = {scheme: [vars(run) for run in runs] for scheme, runs in rows.items()}
    (BUILD / "websocket.json").write_text(json.dumps(figures))
    missed = [scheme for scheme in BESIDE if median(ratios(rows, scheme, "broker_us")) > BARS["broker"]]
    missed += [scheme for scheme in ("ws",) if median(ratios(rows, scheme, "caller_rate")) < BARS["caller"]]
    if missed and not quick:
        raise click.ClickException(f"beyond the bars: {', '.join(missed)}")


if __name__ == "__main__":
    main()
