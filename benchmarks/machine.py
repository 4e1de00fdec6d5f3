"""The machine that measures: which CPUs to pin to, what to call it, the C compiler, and processes on it.

Knows Linux only: the CPU time of a broker is read from /proc, so the benchmarks run nowhere else.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build" / "bench"
LOAD_SOURCES: Final = ROOT / "benchmarks" / "load"
PROGRAMS: Final = ("rsocket_load", "nats_load", "relay")
COMMAND: Final = (sys.executable, "-c", "from broker.commands.script import main; main()")  # rsocket-broker
LIBRARIES: Final = {"samwise_load": ("-lzmq",)}  # of programs that need more than the C library


class CannotMeasure(click.ClickException):
    """Something that a person has to mend before anything can be measured: ends the command with one sentence."""


def choose_cpus() -> tuple[set[int], set[int]]:
    """CPUs for the broker and for the load generator: one each, of different cores where there are several.

    With a single CPU both get it, and their figures are only good for the CPU time.
    """
    allowed = sorted(os.sched_getaffinity(0))
    broker = allowed[-1]
    siblings = _siblings_of(broker)
    others = [cpu for cpu in allowed if cpu not in siblings] or [cpu for cpu in allowed if cpu != broker] or [broker]
    return {broker}, {others[0]}


def describe_machine() -> str:
    """CPU model, how many, kernel: what a figure has to be read with."""
    model = platform.machine()
    for line in _text_of(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{os.cpu_count()} x {model}, {platform.system()} {platform.release()}"


def describe_commit() -> str:
    """The commit that was measured, `+` behind it when the tree had changes; empty outside of a git repository."""
    git = shutil.which("git")
    if git is None:
        return ""
    answers = [
        subprocess.run([git, "-C", str(ROOT), *words], capture_output=True, text=True)
        for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain"])
    ]
    if answers[0].returncode != 0:
        return ""
    return answers[0].stdout.strip() + ("+" if answers[1].stdout.strip() else "")


def build_programs(programs: Sequence[str] = PROGRAMS) -> None:
    """Compiles these C programs into build/bench unless they are up to date; CannotMeasure without a compiler."""
    BUILD.mkdir(parents=True, exist_ok=True)
    newest = max(source.stat().st_mtime for source in LOAD_SOURCES.iterdir())
    for program in programs:
        target = BUILD / program
        if target.exists() and target.stat().st_mtime > newest:
            continue
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise CannotMeasure("the load generators need a C compiler (Debian: apt install gcc libc6-dev; or set CC)")
        command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(target), str(LOAD_SOURCES / f"{program}.c")]
        command += LIBRARIES.get(program, ())
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise CannotMeasure(f"{' '.join(command)} failed: {result.stderr.strip()}")


def empty_folder() -> Path:
    """To start `python -m` in, which puts the working directory first: no package may lie there."""
    folder = BUILD / "empty"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def start_module(
    name: str, *words: object, folder: Path = ROOT, cpus: set[int] | None = None, err: int | None = None, **more: str
) -> "subprocess.Popen[str]":
    """`python -m benchmarks.NAME WORD…` with the packages in this folder; its standard input and output are pipes.

    `cpus`: to run on; None: on those of this process. `err`: its standard error, as for Popen. `more`: variables.
    """
    return subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.{name}", *map(str, words)],
        cwd=empty_folder(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]), **more},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=err,
        text=True,
        preexec_fn=None if cpus is None else lambda: os.sched_setaffinity(0, cpus),
    )


def say(process: "subprocess.Popen[str]", text: str) -> None:
    """A line on its standard input."""
    assert process.stdin is not None  # `start_module` has made it a pipe
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def hear(process: "subprocess.Popen[str]") -> str:
    """The next line of its standard output; CannotMeasure when it has ended instead."""
    assert process.stdout is not None  # likewise
    line = process.stdout.readline()
    if not line:
        raise CannotMeasure(f"{process.args!r} failed, see above")
    return line.rstrip("\n")


def stop(process: "subprocess.Popen[str]") -> None:
    """Ends it."""
    process.terminate()
    process.communicate()


def end(process: "subprocess.Popen[bytes]", limit_s: float) -> None:
    """Ends it, by force when it does not end within this time."""
    process.terminate()
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def resident_kib(pid: int) -> int:
    """VmRSS of a process; CannotMeasure when it is gone."""
    for line in _text_of(Path(f"/proc/{pid}/status")).splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise CannotMeasure(f"the process with id {pid} is gone")


def _siblings_of(cpu: int) -> set[int]:
    """The CPUs that share a core with this one, itself among them."""
    text = _text_of(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
    siblings = {cpu}
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        siblings.update(range(int(first), int(last or first) + 1))
    return siblings


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""
