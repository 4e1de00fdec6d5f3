"""What a worker says to its supervisor on its standard output: one line of JSON, when it is ready or cannot start. Then
every BEAT_S an empty line, as long as its loop turns.
"""

from __future__ import annotations

from typing import Final

import msgspec

BEAT: Final = b"\n"
BEAT_S: Final = 1.0


class StartReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """That line."""

    name: str = ""  # in traces; empty: it cannot start
    error: str = ""  # why not, a sentence

    def encode(self) -> bytes:
        """With the end of the line."""
        return msgspec.json.encode(self) + b"\n"

    @staticmethod
    def decode(line: bytes) -> StartReport | None:
        """None when it is none: the worker ended before it said anything."""
        try:
            return msgspec.json.decode(line, type=StartReport)
        except msgspec.MsgspecError:
            return None
