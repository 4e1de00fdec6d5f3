"""What one has after `pip install`, and what it took: `python -m benchmarks.footprint`.

Builds the wheel of this checkout interpreted and compiled, installs each into an environment of its own and asks that
one: wall and CPU time of pip, bytes of the wheel, the environment and its largest packages, CPU time of what users
start most often, and memory of an idle broker. `--pure` leaves out the compiled one, which takes most of the time.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

import click

from benchmarks.machine import ROOT, describe_machine, resident_kib

ROUNDS: Final = 5  # of each start; the first, which may still read from the disk, counts like the others: a median
LARGEST_N: Final = 5
MB: Final = 1_000_000
SETTLE_S: Final = 1.0  # from the log's line to a broker that has started all of its parts
AWAY: Final = {"PYTHONSAFEPATH": "1", "PYTHONPATH": ""}  # modules of the environment, not of the checkout
STARTS: Final = {
    "python": ["python", "-c", "pass"],
    "import client_sdk": ["python", "-c", "import client_sdk"],
    "from client_sdk import connect, Service": ["python", "-c", "from client_sdk import connect, Service"],
    "from client_sdk.sync import connect": ["python", "-c", "from client_sdk.sync import connect"],
    "rsocket-broker --help": ["rsocket-broker", "--help"],
    "rsocket-broker ctl status, nobody there": ["rsocket-broker", "ctl", "status", "--admin", "http://127.0.0.1:1"],
    "rsocket-broker check (all but to listen)": ["rsocket-broker", "check"],
}


class Cost:
    """Of a program that has ended: seconds on the wall, CPU seconds with its children."""

    def __init__(self, wall_s: float, cpu_s: float) -> None:
        self.wall_s: Final = wall_s
        self.cpu_s: Final = cpu_s


def cost_of(command: list[str], environment: Mapping[str, str] = AWAY, statuses: tuple[int, ...] = (0,)) -> Cost:
    """Runs it to its end. ClickException with what it said, if its exit status is another."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in statuses:
            said.seek(0)
            text = said.read().decode(errors="replace")[-2000:]
            raise click.ClickException(f"{' '.join(command)} ended with {process.returncode}:\n{text}")
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime)


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def install(folder: Path, is_pure: bool) -> list[tuple[str, str]]:
    """A wheel and an environment with it in `folder`; rows of figures."""
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    cost_of([sys.executable, "-m", "venv", str(folder)])
    empty = bytes_in(folder)
    choice = {"RSOCKET_BROKER_PURE": "1" if is_pure else ""}
    build = cost_of([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder / "wheels"), str(ROOT)], choice)
    (wheel,) = (folder / "wheels").iterdir()
    wheel_bytes = wheel.stat().st_size
    rest = cost_of([*pip, "install", str(wheel)])
    wheel.unlink()
    packages = next((folder / "lib").glob("python3*/site-packages"))
    sizes = sorted(((bytes_in(path), path.name) for path in packages.iterdir() if path.is_dir()), reverse=True)
    largest = [f"{name} {size / MB:.0f}" for size, name in sizes if name != "pip"][:LARGEST_N]
    return [
        ("wheel, built from source", f"{build.wall_s:.0f} s, {build.cpu_s:.0f} s of CPU, {wheel_bytes / MB:.1f} MB"),
        ("what it needs, from the index or pip's cache", f"{rest.wall_s:.0f} s, {rest.cpu_s:.0f} s of CPU"),
        ("environment without pip", f"{(bytes_in(folder) - empty) / MB:.0f} MB"),
        ("of which", ", ".join(largest)),
    ]


def starts(folder: Path) -> list[tuple[str, str]]:
    """Rows of what a start costs, in that environment, away from the checkout."""
    rows: list[tuple[str, str]] = []
    for name, (program, *arguments) in STARTS.items():
        command = [str(folder / "bin" / program), *arguments]
        costs = [cost_of(command, statuses=(0, 3)) for _ in range(ROUNDS)]
        rows.append((name, f"{median(cost.cpu_s for cost in costs):.2f} s of CPU"))
    return [*rows, ("a broker without connections", f"{idle_mb(folder):.0f} MB resident")]


def idle_mb(folder: Path) -> float:
    """Of a broker that listens, and whose REST API has been asked nothing."""
    command = [
        str(folder / "bin" / "rsocket-broker"),
        "serve",
        "--listen",
        "tcp://127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | AWAY)
    try:
        assert broker.stdout is not None
        for line in broker.stdout:
            if b"listening" in line:
                time.sleep(SETTLE_S)
                return resident_kib(broker.pid) * 1024 / MB
        raise click.ClickException("the broker ended before it listened")
    finally:
        broker.terminate()
        broker.communicate()


@click.command(help=__doc__)
@click.option("--pure", is_flag=True, help="The interpreted one alone.")
def main(pure: bool) -> None:
    click.echo(describe_machine())
    for is_pure in (True,) if pure else (True, False):
        with tempfile.TemporaryDirectory() as folder:
            click.echo(f"\n{'interpreted (RSOCKET_BROKER_PURE=1)' if is_pure else 'compiled'}")
            for name, cost in install(Path(folder), is_pure) + starts(Path(folder)):
                click.echo(f"{name:<46}{cost}")


if __name__ == "__main__":
    main()
