"""What a mirror or a winnower remembers, for its event loop: a disk that takes nothing is waited for, for ever."""

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from client_sdk.clock import Clock
from spark_sink.feed.consumer.memory_tables import MemoryTables
from spark_sink.feed.transactions import Transactions

DISK_PAUSE_S: Final = 1.0  # until a disk that takes nothing is tried again

R = TypeVar("R")
_log: Final = logging.getLogger("spark_sink.feed")


class Memory:
    """One file, from `open` to `close`."""

    def __init__(self, path: Path, clock: Clock, *, is_synced: bool = True) -> None:
        """`is_synced`: what was done survives a power failure, too."""
        self.trouble = ""  # why the disk did not take something the last time; empty: it did
        self._path: Final = path
        self._clock: Final = clock
        self._is_synced: Final = is_synced
        self._transactions: Final = Transactions[MemoryTables]("feed memory")

    async def open(self) -> None:
        """MemoryFileError: it cannot be used."""
        await self._transactions.open(lambda: MemoryTables(self._path, is_synced=self._is_synced))

    async def close(self) -> None:
        """After what was asked before is done."""
        await self._transactions.close()

    async def do(self, work: Callable[[MemoryTables], R]) -> R:
        """What it gives, when it is on the disk."""
        while True:
            try:
                result = await self._transactions.do(work)
            except sqlite3.Error as error:
                if str(error) != self.trouble:
                    _log.error("feed memory: %s: %s", self._path, error)
                self.trouble = str(error)
                await self._clock.sleep(DISK_PAUSE_S)
            else:
                self.trouble = ""
                return result
