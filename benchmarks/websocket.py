"""What WebSocket costs beside TCP, with and without TLS: `python -m benchmarks.websocket [--quick] [--interpreted]`.

    caller process ──► broker, a process of its own ──► service process
                  scheme                          scheme                    client_sdk at both ends

One broker listens on tcp, ws, tls and wss; callers take turns in each round. The table shows the broker's CPU time per
request and the requests per CPU second of the caller, medians over the rounds, and ratios taken within each round.
"""

import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

import click
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.contestants import CannotStart, core_folder
from benchmarks.machine import BUILD, CannotMeasure, choose_cpus, describe_commit, describe_machine

SCHEMES: Final = ("tcp", "ws", "tls", "wss")
BESIDE: Final = {"ws": "tcp", "wss": "tls"}
BARS: Final = {"broker": 2.0, "caller": 0.5}  # at most, at least: what WebSocket may cost beside the same without it
IN_FLIGHT_N: Final = 64
DATA: Final = b"x" * 100
WARM_UP: Final = 0.2
START_LIMIT_S: Final = 20.0


class Run:
    """What one caller process said: requests, CPU seconds of the broker's process and its own."""

    def __init__(self, said: str) -> None:
        figures = json.loads(said)
        self.broker_us: Final = figures["broker_s"] * 1e6 / figures["done"]
        self.caller_rate: Final = figures["done"] / figures["caller_s"]
        self.rate: Final = figures["done"] / figures["wall_s"]


class Place:
    """A broker with a listener for each scheme."""

    def __init__(self, cpus: set[int], folder: Path, keys: Path) -> None:
        make_certificate(keys)
        self.certificate: Final = keys / "localhost.pem"
        self._environment: Final = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RSB_")},
            "PYTHONPATH": os.pathsep.join((str(folder), str(Path(__file__).resolve().parents[1]))),
        }
        listen = [word for scheme in SCHEMES for word in ("--listen", f"{scheme}://localhost:0")]
        self._process: Final = subprocess.Popen(
            [sys.executable, "-m", "broker", *listen, "--admin", "off"],
            cwd=keys,
            env={
                **self._environment,
                "RSB_TLS__CERTIFICATE": str(self.certificate),
                "RSB_TLS__KEY": str(keys / "localhost.key"),
            },
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
        service = self._start("service", scheme)
        try:
            assert service.stdout is not None  # asked for with PIPE
            if "ready" not in service.stdout.readline():
                raise CannotMeasure(f"the service over {scheme} did not start")
            caller = self._start("caller", scheme, str(self._process.pid), str(seconds))
            said, _ = caller.communicate(timeout=seconds + START_LIMIT_S)
        finally:
            service.terminate()
            service.communicate()
        if caller.returncode:
            raise CannotMeasure(f"the caller over {scheme} failed")
        return Run(said)

    def stop(self) -> None:
        """Ends the broker."""
        self._process.terminate()
        self._process.communicate()

    def _start(self, role: str, scheme: str, *words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "benchmarks.websocket", role, self.urls[scheme], str(self.certificate), *words]
        return subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE, text=True)


def make_certificate(folder: Path) -> None:
    """One for localhost that signs itself; CannotMeasure without the program openssl."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(folder / "localhost.key"), "-out", str(folder / "localhost.pem")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotMeasure(f"no certificate could be made with openssl: {error}") from error


async def call(url: str, certificate: str, broker_pid: int, seconds: float) -> None:
    """Keeps IN_FLIGHT_N requests open; prints what a Run reads."""
    from client_sdk import address, connect

    done = 0
    echo = address("echo")
    async with connect(url, ssl=ssl.create_default_context(cafile=certificate)) as client:

        async def ask() -> None:
            nonlocal done
            while True:
                await client.request_response(echo, DATA)
                done += 1

        tasks = [asyncio.create_task(ask()) for _ in range(IN_FLIGHT_N)]
        await asyncio.sleep(seconds * WARM_UP)
        before = (done, cpu_s(broker_pid), time.process_time(), time.monotonic())
        await asyncio.sleep(seconds * (1 - WARM_UP))
        after = (done, cpu_s(broker_pid), time.process_time(), time.monotonic())
        for task in tasks:
            if task.done():
                task.result()  # a caller that failed makes the figures worthless
            task.cancel()
    names = ("done", "broker_s", "caller_s", "wall_s")
    print(json.dumps({name: new - old for name, old, new in zip(names, before, after, strict=True)}))


async def serve(url: str, certificate: str) -> None:
    """Echoes until it is ended."""
    from client_sdk import Service, connect

    service = Service("echo")

    @service.request_response()
    async def answer(data: bytes) -> bytes:
        return data

    async with connect(url, service=service, ssl=ssl.create_default_context(cafile=certificate)):
        print("ready", flush=True)
        await asyncio.Event().wait()


def cpu_s(pid: int) -> float:
    """CPU time of all threads of a process so far."""
    parts = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(part.read_text().split()[0]) for part in parts) / 1e9


def ratios(rows: dict[str, list[Run]], scheme: str, figure: str) -> list[float]:
    """One of each round: this scheme by the one that it stands beside."""
    pairs = zip(rows[scheme], rows[BESIDE[scheme]], strict=True)
    return [getattr(mine, figure) / getattr(other, figure) for mine, other in pairs]


def print_table(console: Console, rows: dict[str, list[Run]]) -> None:
    table = Table(title=f"client_sdk, one connection each, {IN_FLIGHT_N} in flight, {len(DATA)} bytes")
    table.add_column("scheme")
    for column in ("broker, CPU µs/request", "beside", "caller, requests/CPU s", "beside", "requests/s"):
        table.add_column(column, justify="right")
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
    broker_cpus, other_cpus = choose_cpus()
    os.sched_setaffinity(0, broker_cpus | other_cpus)
    rows: dict[str, list[Run]] = {scheme: [] for scheme in SCHEMES}
    with tempfile.TemporaryDirectory() as keys:
        try:
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
        except (CannotMeasure, CannotStart) as error:
            raise click.ClickException(str(error)) from error
    console.print(f"{describe_machine()}; {describe_commit()}; {'interpreted' if interpreted else 'compiled'}")
    print_table(console, rows)
    BUILD.mkdir(parents=True, exist_ok=True)
    figures = {scheme: [vars(run) for run in runs] for scheme, runs in rows.items()}
    (BUILD / "websocket.json").write_text(json.dumps(figures))
    missed = [scheme for scheme in BESIDE if median(ratios(rows, scheme, "broker_us")) > BARS["broker"]]
    missed += [scheme for scheme in ("ws",) if median(ratios(rows, scheme, "caller_rate")) < BARS["caller"]]
    if missed and not quick:
        raise click.ClickException(f"beyond the bars: {', '.join(missed)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["caller"]:
        uvloop.run(call(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])))
    elif sys.argv[1:2] == ["service"]:
        uvloop.run(serve(sys.argv[2], sys.argv[3]))
    else:
        main()
