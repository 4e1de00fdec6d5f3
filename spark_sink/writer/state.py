"""What the writer tells of itself, and how it is told to be."""

from typing import Final

import msgspec

ROLL_S: Final = 1.0  # seconds; how old a record may get before it is in a file
ROLL_BYTES: Final = 16 << 20  # of frames in a log; a hundred thousand records, sealed in half a second
MAX_HELD_BYTES: Final = 64 << 20  # of frames that wait in memory for a folder that cannot be written
MAX_ERROR_TEXT: Final = 300  # characters; a line of state fits a pipe as a whole


class WriterState(msgspec.Struct):
    """How the writer is, for the broker. Counts are of the broker's epoch, over all writers of it, and only grow."""

    frames: int = 0  # number of the last frame that survives this process: in a log, in files, or told as dropped
    sealed: int = 0  # records of the broker that are in files
    sealed_requests: int = 0  # requests that these records count
    sealed_seq: int = 0  # the highest sequence number among them
    dropped: int = 0  # records that are told as dropped, or will be
    dropped_requests: int = 0
    segments: int = 0  # files
    next_number: int = 0  # of the next log and its files
    held_bytes: int = 0  # of frames that wait in memory
    wal_bytes: int = 0  # of logs that are no files yet
    recovered: int = 0  # records that this process found in logs of writers that were killed
    torn_bytes: int = 0  # at the ends of these logs
    free_bytes: int = 0  # of the file system
    removed: int = 0  # files removed because of their age or of all their sizes
    unread_bytes: int = 0  # of files that would have been removed, if their readers had read them
    silent_readers: int = 0
    error: str = ""  # why the last try failed; empty: it did not


class Settings(msgspec.Struct, frozen=True):
    """When files are made, and what is left free."""

    roll_s: float = ROLL_S
    roll_bytes: int = ROLL_BYTES
    max_held_bytes: int = MAX_HELD_BYTES
    min_free_bytes: int = 0
    sync_s: float = 0.0  # how often the log is synced to the disk; 0: never
