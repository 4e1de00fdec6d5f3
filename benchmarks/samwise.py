"""What the Samwise gateway takes beside samd: `SAMD=…/samd python -m benchmarks.samwise`.

Answers a second and CPU per message, with one caller and with 64, in front of the same RabbitMQ broker. Each run is a
new process with an empty store; the callers are one program in C. Without SAMD only the gateway is measured. The method
is told in README.md.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from rich.console import Console

from benchmarks.contestants import RUN_LIMIT_S, START_LIMIT_S, core_folder, plain_environment
from benchmarks.figures import table_of
from benchmarks.machine import BUILD, COMMAND, CannotMeasure, build_programs, describe_machine, end
from client_sdk.gateways.samwise.endpoint.client import SamwiseClient
from client_sdk.gateways.samwise.values import Status
from tests.client_sdk.gateways.samwise.rabbitmq import FOLDERS, RabbitNodes

SAMD: Final = "samd"
NAMES: Final = ("gateway, os", "gateway, fsync", SAMD)
CALLERS: Final = (1, 64)
STOP_LIMIT_S: Final = 10.0
CONNECT_S: Final = 1.0  # to RabbitMQ, of which samd says nothing that callers could hear
_SAMD_FILE: Final = """\
endpoint = "ipc://{folder}/s"
db
    bdb
        transactions = no
        home = {folder}
        file = core.db
buffer
    retry
        count = 3
        interval = 5s
        threshold = 10s
    size = 1M
backend
    type = rmq
    backends
        broker-1
            host = localhost
            port = {port}
            user = guest
            pass = guest
            heartbeat = 3
            tries = 3
            interval = 5s
"""
_GATEWAY_FILE: Final = """\
[samwise]
endpoints = ["ipc://{folder}/s"]
dir = "{folder}/store"
durability = "{durability}"
backend = "rabbitmq"
[samwise.rabbitmq.broker-1]
port = {port}
"""


def gateway_file(folder: str, port: int, durability: str) -> str:
    """The configuration of a gateway whose files are in this folder."""
    return _GATEWAY_FILE.format(folder=folder, port=port, durability=durability)


def gateway_command(file: Path) -> list[str]:
    """Runs a gateway with this configuration."""
    return [*COMMAND, "samwise", "serve", "--config", str(file)]


@contextlib.contextmanager
def rabbitmq(port: int | None) -> Iterator[int]:
    """The port of the RabbitMQ broker there or, without a port, of a new one that ends with the block. CannotMeasure
    where it is not installed."""
    if port is not None:
        yield port
        return
    if shutil.which("rabbitmq-server", path=os.pathsep.join((*FOLDERS, os.environ.get("PATH", "")))) is None:
        raise CannotMeasure("rabbitmq-server is not installed (Debian: apt install rabbitmq-server)")
    name = "rabbit-1"
    with tempfile.TemporaryDirectory(prefix="rabbitmq-") as folder, RabbitNodes(Path(folder), (name,)) as nodes:
        yield nodes.nodes[name].port


@contextlib.contextmanager
def running(name: str, samd: str, port: int, more: str = "", *, core: Path) -> Iterator[tuple[int, str]]:
    """One of NAMES, with an empty store: its process id and its endpoint. `more`: of the gateway's configuration.
    `core`: the folder of its packages. CannotMeasure."""
    with tempfile.TemporaryDirectory(prefix="samwise-") as folder:
        file = Path(folder) / "file"
        if name == SAMD:
            file.write_text(_SAMD_FILE.format(folder=folder, port=port))
            command = [samd, str(file)]
        else:
            file.write_text(gateway_file(folder, port, name.rpartition(" ")[2]) + more)
            command = gateway_command(file)
        environment = {**plain_environment(), "PYTHONPATH": str(core)}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        try:
            limit = time.monotonic() + START_LIMIT_S
            while not (Path(folder) / "s").exists():
                if process.poll() is not None or time.monotonic() > limit:
                    raise CannotMeasure(f"{name} does not listen, status {process.returncode}")
                time.sleep(0.02)
            if name == SAMD:
                time.sleep(CONNECT_S)
            while name != SAMD and "destination broker-1: up" not in (said := status_of(f"ipc://{folder}/s")):
                if time.monotonic() > limit:
                    raise CannotMeasure(f"{name} has no RabbitMQ: {said}")
                time.sleep(0.02)
            yield process.pid, f"ipc://{folder}/s"
        finally:
            end(process, STOP_LIMIT_S)  # samd misses a signal now and then


def status_of(endpoint: str) -> str:
    """What a gateway says of itself."""
    with SamwiseClient(endpoint) as client:
        return client.ask(Status(120)).text


def measure(pid: int, endpoint: str, callers_n: int, seconds: float, rate: int | None = None) -> dict[str, Any]:
    """What the callers report; CannotMeasure when one is refused or gets no answer. `rate`: messages a second; None: as
    many as are answered."""
    words = ["--endpoint", endpoint, "--connections", str(callers_n), "--seconds", str(seconds), "--cpu-of", str(pid)]
    if rate is not None:
        words += ["--rate", str(rate)]
    command = [str(BUILD / "samwise_load"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + RUN_LIMIT_S)
    if done.returncode:
        raise CannotMeasure(f"{' '.join(words)}: {done.stderr.strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def show(console: Console, rounds: dict[tuple[str, int], list[dict[str, Any]]]) -> None:
    """Medians over the rounds; the rate beside samd is taken within each round."""
    table = table_of(
        "Messages through RabbitMQ", "who", "callers", "answers/s", "of samd's", "CPU µs", "p50 µs", "p99 µs"
    )
    for (name, callers_n), reports in rounds.items():
        theirs = rounds.get((SAMD, callers_n), [])
        pairs = zip(reports, theirs, strict=False)
        ratios = [one["requests_per_s"] / other["requests_per_s"] for one, other in pairs]
        keys = ("cpu_us_per_request", "p50_us", "p99_us")
        middles = [f"{median(report[key] for report in reports):,.0f}" for key in keys]
        rate = f"{median(report['requests_per_s'] for report in reports):,.0f}"
        table.add_row(name, str(callers_n), rate, f"{median(ratios):.2f}" if ratios else "", *middles)
    console.print(table)


@click.command()
@click.option("--callers", "callers", type=click.IntRange(1), multiple=True, default=CALLERS, show_default=True)
@click.option("--seconds", type=click.FloatRange(0.1), default=5.0, show_default=True, help="Of each run.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--interpreted", is_flag=True, help="The gateway, which is compiled otherwise.")
@click.option("--port", type=click.IntRange(1, 65535), help="Of a RabbitMQ broker here; one is started otherwise.")
def main(callers: tuple[int, ...], seconds: float, rounds: int, interpreted: bool, port: int | None) -> None:
    """Compare the Samwise gateway with samd, whose program the variable SAMD names."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    samd = os.environ.get("SAMD", "")
    names = [name for name in NAMES if samd or name != SAMD]
    build_programs(("samwise_load",))
    console.print(describe_machine(), highlight=False)
    core = core_folder(not interpreted)
    results: dict[tuple[str, int], list[dict[str, Any]]] = {(name, n): [] for n in callers for name in names}
    with rabbitmq(port) as rabbit_port:
        for number in range(rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                for callers_n in callers:
                    with running(name, samd, rabbit_port, core=core) as (pid, endpoint):
                        results[name, callers_n].append(measure(pid, endpoint, callers_n, seconds))
    show(console, results)


if __name__ == "__main__":
    main()
