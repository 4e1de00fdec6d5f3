"""Gives memory back to the system when much of what waited for slow peers has gone.

The C library keeps what was freed in pieces smaller than `process.LARGE_BLOCK_BYTES`: 853 MiB stayed resident after a
hundred slow readers had left. Decides when it is worth a look through its heap (some ms for each 100 MiB).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Final

TRIM_BYTES: Final = 32 << 20  # less of what was held before than this is not worth it


class Memory:
    """What waits in one broker, looked at once in a while."""

    def __init__(self, trim: Callable[[], object] | None = None) -> None:
        """`trim`: what gives memory back; None is the C library's way, or nothing where it knows none."""
        self._trim = trim if trim is not None else _system_trim()
        self._most_bytes = 0  # that were held since memory was given back

    def look(self, held_bytes: int, most_bytes: int) -> None:
        """So much waits now, and waited at most since the last look: when half of that has gone, memory goes back."""
        self._most_bytes = max(self._most_bytes, most_bytes, held_bytes)
        if held_bytes * 2 <= self._most_bytes and self._most_bytes - held_bytes >= TRIM_BYTES:
            self._most_bytes = held_bytes
            self._trim()


def _system_trim() -> Callable[[], object]:
    with contextlib.suppress(OSError, AttributeError):
        trim = ctypes.CDLL(None).malloc_trim  # glibc's
        return lambda: trim(0)
    return lambda: None
