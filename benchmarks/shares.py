"""Processes held to a share of a CPU each, so that one machine can carry more of them than it has CPUs.

Uses the quotas of Linux's cgroups, of either version: a process that has used its share of a period waits for the next
one. That needs root, or a cgroup that was given away. Knows nothing of brokers.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from benchmarks.machine import CannotMeasure

PERIOD_US: Final = 20_000  # short beside a run, and some slices of 5 ms, in which the kernel gives quotas out
FIRST: Final = 10  # times the weight of others: who is held to a share gets it, whoever else wants the machine
MOUNTS: Final = Path("/proc/self/mounts")


def find_controller(mounts: str) -> tuple[Path, bool] | None:
    """Where the cgroups that have CPU quotas are mounted, and whether they are of version 2; None: nowhere.

    `mounts`: the text of /proc/self/mounts.
    """
    found: tuple[Path, bool] | None = None
    for line in mounts.splitlines():
        _, place, kind, options, *_ = line.split(" ")
        if kind == "cgroup" and "cpu" in options.split(","):
            return Path(place), False
        if kind == "cgroup2" and "cpu" in _text_of(Path(place) / "cgroup.controllers").split():
            found = Path(place), True
    return found


class Shares:
    """Each process that is held gets a cgroup of its own; `release` removes them, when the processes have ended."""

    def __init__(self, share: float) -> None:
        """`share`: of one CPU, for each process. CannotMeasure where quotas cannot be set."""
        self._share: Final = share
        self.folders: Final[list[Path]] = []  # of those that are held
        found = find_controller(MOUNTS.read_text())
        if found is None:
            raise CannotMeasure("no cgroups with CPU quotas are mounted: workers cannot be held to a share of a CPU")
        self._root, self._is_v2 = found

    def hold(self, pids: list[int]) -> None:
        """From now on none of them gets more; CannotMeasure."""
        quota_us = int(self._share * PERIOD_US)
        try:
            if self._is_v2 and "cpu" not in _text_of(self._root / "cgroup.subtree_control").split():
                (self._root / "cgroup.subtree_control").write_text("+cpu")
            for pid in pids:
                folder = self._root / f"rsocket-broker-bench-{os.getpid()}-{pid}"
                folder.mkdir()
                self.folders.append(folder)
                if self._is_v2:
                    (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
                    (folder / "cpu.weight").write_text(str(100 * FIRST))
                else:
                    (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                    (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
                    (folder / "cpu.shares").write_text(str(1024 * FIRST))
                (folder / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise CannotMeasure(f"workers cannot be held to a share of a CPU: {error}") from error

    def release(self) -> None:
        """Removes the cgroups in which nobody is any more."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        self.folders.clear()


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""
