"""Folders that options name: made where a process starts, so whoever starts it hears at once that one cannot be."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from rsocket_wire.errors import BrokerError

FOLDER_MODE: Final = 0o750  # messages, and who asks for what, are nobody else's business


def make_folder(option: str, path: str) -> None:
    """It is there afterwards, and so are those that it is in; also after a power failure, where the system can do that.
    BrokerError "bad-config" with the name of the option."""
    folder = Path(path).absolute()
    try:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        os.makedirs(folder, FOLDER_MODE, exist_ok=True)
        for each in missing:
            with suppress(OSError):  # a folder that may not be read, or a file system that does not know this
                sync_folder(each.parent)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise BrokerError("bad-config", f"{option}: {path}: {reason}") from None


def sync_folder(folder: Path) -> None:
    """Waits until the names in it are on the disk. OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
