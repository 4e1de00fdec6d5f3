"""Settings of the writer: when it makes files, how much it holds, and for how long files are kept."""

from typing import Final

import msgspec

ROLL_S: Final = 1.0  # how old a record may get before it is in a file
ROLL_BYTES: Final = 16 << 20  # of frames in a log; a hundred thousand records, sealed in half a second
READER_TIMEOUT_S: Final = 86_400.0
MAX_HELD_BYTES: Final = 64 << 20  # of frames that wait in memory for a folder that cannot be written
MAX_ERROR_TEXT: Final = 300  # characters; a line of state fits a pipe as a whole


class Settings(msgspec.Struct, frozen=True):
    """Named like the options of the command line; of bytes to leave and of what is kept 0 is no bound."""

    roll_s: float = ROLL_S
    roll_bytes: int = ROLL_BYTES
    max_held_bytes: int = MAX_HELD_BYTES
    min_free_bytes: int = 0  # left to others
    sync_s: float = 0.0  # how often the log is synced to the disk; 0: never
    keep_s: float = 0.0  # of a segment, since it was sealed
    keep_bytes: int = 0  # of all segments, the archive included
    reader_timeout_s: float = READER_TIMEOUT_S  # after which a reader that says nothing is told of
    ignore_silent_readers: bool = False  # such a reader keeps nothing any more

    @property
    def is_bounded(self) -> bool:
        """Is anything ever removed?"""
        return self.keep_s > 0 or self.keep_bytes > 0
