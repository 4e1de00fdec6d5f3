"""The machine that measures: which CPUs to pin to, what to call it, and the C compiler.

Knows Linux only: the CPU time of a broker is read from /proc, so the benchmarks run nowhere else.
"""

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build" / "bench"
LOAD_SOURCES: Final = ROOT / "benchmarks" / "load"
PROGRAMS: Final = ("rsocket_load", "nats_load", "relay")


class CannotMeasure(Exception):
    """Something that a person has to mend before anything can be measured; str() is one sentence."""


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


def build_programs() -> None:
    """Compiles the C programs into build/bench unless they are up to date; CannotMeasure without a compiler."""
    BUILD.mkdir(parents=True, exist_ok=True)
    newest = max(source.stat().st_mtime for source in LOAD_SOURCES.iterdir())
    for program in PROGRAMS:
        target = BUILD / program
        if target.exists() and target.stat().st_mtime > newest:
            continue
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise CannotMeasure("the load generators need a C compiler (Debian: apt install gcc libc6-dev; or set CC)")
        command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(target), str(LOAD_SOURCES / f"{program}.c")]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise CannotMeasure(f"{' '.join(command)} failed: {result.stderr.strip()}")


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
