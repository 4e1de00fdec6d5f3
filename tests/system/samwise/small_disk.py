"""`python -m tests.system.samwise.small_disk BYTES COMMAND …`: the command on a disk of so many bytes.

No file may grow beyond them (RLIMIT_FSIZE), and the system says that all files of a folder together may not, which a
user cannot have for real: mounting needs root. Who raises the limit of the process frees the disk.
"""

import os
import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Final

from broker.commands.main import main

_system_statvfs: Final = os.statvfs


def statvfs(folder: Path) -> "os.statvfs_result | SimpleNamespace":
    """As `os.statvfs`, of the small disk."""
    whole = _system_statvfs(folder)
    disk_bytes, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if disk_bytes == hard:
        return whole
    free_bytes = max(0, disk_bytes - sum(file.stat().st_size for file in folder.iterdir()))
    size = whole.f_frsize
    return SimpleNamespace(f_frsize=size, f_blocks=disk_bytes // size, f_bavail=free_bytes // size)


if __name__ == "__main__":
    given_bytes = int(sys.argv.pop(1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (given_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    os.statvfs = statvfs  # type: ignore[assignment]
    main()
