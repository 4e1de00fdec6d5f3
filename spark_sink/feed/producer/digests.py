"""The digests that files were posted with, for who serves them: read from the log of posts, beside who writes it."""

import os
import sqlite3
import threading
from pathlib import Path
from typing import Final
from urllib.parse import quote

from spark_sink.feed.identity import METHODS


class PostedDigests:
    """Of one folder. Any thread."""

    def __init__(self, log: Path) -> None:
        """`log`: of posts; it may come later."""
        self._log: Final = log
        self._lock: Final = threading.Lock()
        self._connection: sqlite3.Connection | None = None  # None: the log could not be read the last time

    def find(self, path: str, stat: os.stat_result) -> str | None:
        """`sha512:…` of the file with this relPath, as it is now; None: it was not posted so, or it is not known."""
        with self._lock:
            try:
                row = (
                    self._opened()
                    .execute("SELECT size, mtime_ns, method, value FROM files WHERE rel_path = ?", (path,))
                    .fetchone()
                )
            except (sqlite3.Error, UnicodeEncodeError):
                self._close()
                return None
        if row is None or row[:2] != (stat.st_size, stat.st_mtime_ns) or row[2] not in METHODS:
            return None
        return f"{row[2]}:{row[3]}"

    def close(self) -> None:
        """It is opened again when it is asked."""
        with self._lock:
            self._close()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            url = f"file:{quote(os.path.abspath(self._log))}?mode=ro"
            self._connection = sqlite3.connect(url, uri=True, timeout=0.2, check_same_thread=False)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
