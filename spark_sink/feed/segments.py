"""The sealed segments of an events folder as files that are served: each by the name of its post, `<source>/<name>`,
wherever it lies, in the archive too. Nothing else of the folder is served."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spark_sink.event_files.folder import SOURCES
from spark_sink.event_files.layout import ARCHIVE, parts_of
from spark_sink.feed.opening import open_below

LOOK_S: Final = 1.0  # between looks for folders in the archive, at least: whoever asks for nothing must not cause many
MAX_FOLDERS: Final = 1_000  # in the archive, that hold segments; those of more are not found


class SegmentsPlace:
    """See `spark_sink.feed.files.Place`. Any thread."""

    def __init__(self, events: Path) -> None:
        self._events: Final = events
        self._lock: Final = threading.Lock()
        self._archived: dict[str, list[tuple[str, ...]]] = {}  # source -> folders in the archive, as names
        self._looked_at = float("-inf")  # monotonic

    def open(self, names: Sequence[bytes]) -> tuple[int, os.stat_result]:
        """As `Place` says."""
        source, name = (os.fsdecode(each) for each in names) if len(names) == 2 else ("", "")
        if source not in SOURCES or not parts_of(name)[1]:
            raise FileNotFoundError(2, "it is no segment", b"/".join(names))
        for folder in ((source,), *self._archived.get(source, ())):
            try:
                return open_below(self._events, (*folder, name))
            except OSError:
                continue  # it is not there, or was moved just now: then the archive has it
        for folder in self._look().get(source, ()):
            try:
                return open_below(self._events, (*folder, name))
            except OSError:
                continue
        raise FileNotFoundError(2, "there is no such segment", name)

    def _look(self) -> dict[str, list[tuple[str, ...]]]:
        """Folders of the archive by source, perhaps as they were LOOK_S ago."""
        with self._lock:
            if time.monotonic() - self._looked_at >= LOOK_S:
                self._archived = _folders(self._events)
                self._looked_at = time.monotonic()
            return self._archived


def _folders(events: Path) -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for count, (folder, _, _) in enumerate(os.walk(events / ARCHIVE)):
        if count >= MAX_FOLDERS:
            break
        names = Path(folder).relative_to(events).parts
        if names[-1] in SOURCES:
            found.setdefault(names[-1], []).append(names)
    return found
