"""Opens a file below a folder for reading, name by name, so that no link and no `..` leads out of it.

The system follows no link for us: each folder is opened below the one before with O_NOFOLLOW, so it does not matter who
changes what meanwhile. Used where a name comes from somebody else, or where somebody else may write into the folder.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a FIFO would wait


def open_below(root: Path, names: Sequence[str | bytes]) -> tuple[int, os.stat_result]:
    """A descriptor of the regular file with these names one below the other, and what it is.

    OSError: there is none, something on the way is a link, or it may not be read. `root` itself may be a link.
    """
    if not names or any(name in ("", ".", "..", b"", b".", b"..") for name in names):
        raise FileNotFoundError(2, "no name of a file", os.fspath(root))
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names[:-1]:
            below = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        file = os.open(names[-1], _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(2, "it is no file", os.fsdecode(names[-1]))
    except BaseException:
        os.close(file)
        raise
    return file, found
