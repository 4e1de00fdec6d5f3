"""Disks on which somebody is stopped at any moment: killed, or told that something failed."""

import os
from collections.abc import Callable
from pathlib import Path

from spark_sink.event_files.layout import Disk


class Killed(BaseException):
    """Nothing that is not on the disk yet will be."""


class QuickDisk(Disk):
    """It waits for no disk: what a killed process has written is there all the same."""

    def write_synced(self, path: Path, data: bytes | memoryview) -> None:
        path.write_bytes(data)

    def sync_folder(self, folder: Path) -> None:
        assert folder.is_dir()

    def sync_data(self, handle: int) -> None:
        pass


class StoppingDisk(QuickDisk):
    """Its moment number `stop_at` is the last one: `end` is called there. Moments are before each step, and when half
    of the bytes are written; after a step it looks as before the next one."""

    def __init__(self, stop_at: int = 0, end: Callable[[], None] = lambda: None) -> None:
        self.moments = 0
        self._stop_at = stop_at
        self._end = end

    def _moment(self) -> None:
        self.moments += 1
        if self.moments == self._stop_at:
            self._end()

    def write_synced(self, path: Path, data: bytes | memoryview) -> None:
        self._moment()
        super().write_synced(path, data[: len(data) // 2])
        self._moment()
        super().write_synced(path, data)

    def append(self, handle: int, data: bytes) -> None:
        self._moment()
        super().append(handle, data[: len(data) // 2])
        self._moment()
        super().append(handle, data[len(data) // 2 :])

    def create(self, path: Path) -> int:
        self._moment()
        return super().create(path)

    def lock(self, path: Path) -> int | None:
        self._moment()
        return super().lock(path)

    def close(self, handle: int) -> None:
        self._moment()
        super().close(handle)

    def rename(self, old: Path, new: Path) -> None:
        self._moment()
        super().rename(old, new)

    def sync_folder(self, folder: Path) -> None:
        self._moment()
        super().sync_folder(folder)

    def remove(self, path: Path) -> None:
        self._moment()
        super().remove(path)


class KillingDisk(StoppingDisk):
    """The process is killed there, and its locks go with it."""

    def __init__(self, stop_at: int = 0) -> None:
        super().__init__(stop_at, self._kill)
        self._handles: set[int] = set()
        self._is_dead = False

    def _kill(self) -> None:
        self.release()
        self._is_dead = True
        raise Killed

    def release(self) -> None:
        """The locks."""
        for handle in self._handles:
            os.close(handle)
        self._handles.clear()

    def create(self, path: Path) -> int:
        handle = super().create(path)
        self._handles.add(handle)
        return handle

    def lock(self, path: Path) -> int | None:
        handle = super().lock(path)
        if handle is not None:
            self._handles.add(handle)
        return handle

    def close(self, handle: int) -> None:
        if not self._is_dead:  # else it is a finally that a killed process does not reach
            super().close(handle)
            self._handles.discard(handle)


def killed(moment: int, work: Callable[[Disk], object]) -> bool:
    """Do it until this moment; False: it was done before."""
    try:
        work(KillingDisk(moment))
    except Killed:
        return True
    return False
