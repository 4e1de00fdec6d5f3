"""Processes that tests start: a broker, and other Python modules of the tests. All run what the tests import."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from spark_sink.event_files.local_token import find_local_token
from tests.system.support.waits import WAIT_S

ROOT = Path(__file__).parents[3]
START_S = 30.0  # a cold Python with all imports on a busy machine
LISTENING = "listening "
RUN_S = 60.0  # a program to its end; a machine that is busy with other tests takes longer
FEW = 10_000  # connections that a broker of the tests lets in: no machine has too few descriptors for them, and says so


def import_path() -> str:
    """PYTHONPATH of this process: who has it finds what the tests found, the compiled core where they run on that."""
    return os.pathsep.join([*(each or os.getcwd() for each in sys.path), str(ROOT)])


def run_python(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`python ARGUMENTS…` to its end, with this process's import path and without its options of a broker."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RSB_")}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**environment, "PYTHONPATH": import_path()},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


class Python:
    """`python -m MODULE …` with this process's import path; standard output by lines, standard error in a file."""

    def __init__(self, log: Path, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._log = log
        self._command = [sys.executable, "-m", module, *arguments]
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("RSB_")}
        self._environment = {**inherited, "PYTHONPATH": import_path(), "PYTHONUNBUFFERED": "1", **environment}
        self._process: subprocess.Popen[str] | None = None  # None until it is started
        self.lines: list[str] = []  # of standard output, as far as they were read

    @property
    def process(self) -> "subprocess.Popen[str]":
        """The started process."""
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    @property
    def errors(self) -> str:
        """Standard error up to now."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def output(self) -> str:
        """All that it said."""
        return "\n".join(self.lines) + "\n" + self.errors

    def launch(self) -> None:
        """Starts it and waits for nothing."""
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                cwd=self._log.parent,
            )

    def read_lines(self, count: int) -> None:
        """Reads so many lines of standard output, fewer if it ends; a process that hangs is killed."""
        watchdog = threading.Timer(START_S, self.process.kill)
        watchdog.start()
        assert self.process.stdout is not None
        try:
            for _ in range(count):
                line = self.process.stdout.readline()
                if not line:
                    break
                self.lines.append(line.rstrip("\n"))
        finally:
            watchdog.cancel()

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def wait(self, longest_s: float = WAIT_S) -> int:
        """Waits for the end; the exit status, negative for a signal."""
        return self.process.wait(longest_s)

    def end(self) -> None:
        """Ends it for certain: SIGTERM twice, then SIGKILL."""
        process = self.process
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            if process.poll() is not None:
                break
            process.send_signal(number)
            try:
                process.wait(2.0)
            except subprocess.TimeoutExpired:
                continue
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


class BrokerProcess(Python):
    """`python -m broker …` without the admin API unless asked for. Keyword names are options: `limits__max_tags=3`."""

    def __init__(self, log: Path, arguments: Sequence[str], options: Mapping[str, object]) -> None:
        if "--admin" not in arguments:
            arguments = (*arguments, "--admin", "off")
        options = {"limits__max_connections": FEW, **options}
        environment = {f"RSB_{name.upper()}": str(value) for name, value in options.items()}
        super().__init__(log, "broker", arguments, environment)
        self._listens = arguments.count("--listen")
        self.urls: list[str] = []

    def start(self) -> None:
        """Starts it and waits until it listens; AssertionError with what it said if it does not."""
        self.launch()
        self.read_lines(self._listens)
        self.urls = [line.removeprefix(LISTENING) for line in self.lines if line.startswith(LISTENING)]
        assert len(self.urls) == self._listens, f"the broker does not listen: {self.output}"

    def fails(self) -> tuple[int, list[str]]:
        """Exit status and the lines on standard error, of one that cannot start and says nothing else."""
        self.launch()
        self.read_lines(100)
        try:
            status = self.wait(START_S)
        finally:
            self.end()
        assert self.lines == []
        return status, self.errors.splitlines()

    def url(self, scheme: str) -> str:
        """The first URL of this scheme."""
        return next(url for url in self.urls if url.startswith(f"{scheme}://"))

    @cached_property
    def admin_url(self) -> str:
        """Where the admin API is, of a broker that was started with `--admin`: its last line says so."""
        self.read_lines(1)
        return self.lines[-1].removeprefix(LISTENING).rstrip("/")

    def ask_admin(self, path: str, method: str = "GET") -> str:
        """What the admin API answers."""
        token = {"Authorization": f"Bearer {find_local_token(self.admin_url)}"}
        with urllib.request.urlopen(
            urllib.request.Request(self.admin_url + path, headers=token, method=method), timeout=WAIT_S
        ) as answer:
            return str(answer.read().decode())

    def view(self, path: str, method: str = "GET") -> dict[str, Any]:
        """What the admin API shows there."""
        shown: dict[str, Any] = json.loads(self.ask_admin(f"/api/v1/{path}", method))
        return shown
