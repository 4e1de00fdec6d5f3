"""Settings of the writer: when it makes files, how much it holds."""

from typing import Final

import msgspec

ROLL_S: Final = 1.0  # seconds; how old a record may get before it is in a file
ROLL_BYTES: Final = 16 << 20  # of frames in a log; a hundred thousand records, sealed in half a second
MAX_HELD_BYTES: Final = 64 << 20  # of frames that wait in memory for a folder that cannot be written
MAX_ERROR_TEXT: Final = 300  # characters; a line of state fits a pipe as a whole


class Settings(msgspec.Struct, frozen=True):
    """When files are made, and what is left free."""

    roll_s: float = ROLL_S
    roll_bytes: int = ROLL_BYTES
    max_held_bytes: int = MAX_HELD_BYTES
    min_free_bytes: int = 0
    sync_s: float = 0.0  # how often the log is synced to the disk; 0: never
