"""What Spark's file source says of the segments that it has found: which belong to a batch, and which are done.

    <checkpoint>/offsets/<batch>          last line {"logOffset": 41}: up to there the batch goes
    <checkpoint>/commits/<batch>          the batch is done
    <checkpoint>/sources/0/<offset>       v1, then one line {"path": …, "timestamp": …, "batchId": <offset>} per file
    <checkpoint>/sources/0/<offset>.compact   the same of all offsets so far

The batch itself is not asked for its files: Spark knows no way to name them without reading them, and a file that is
torn, foreign or gone would end the query. Spark writes these logs before the batch begins, and repeats the batch from
them after a crash. The form has been the same since Spark 2; another one ends the pipeline in a sentence.
"""

from typing import Any, Final

import msgspec

from spark_sink.errors import SinkError
from spark_sink.pipeline.filesystems import FileSystem, unescaped

_VERSION: Final = "v1"
_COMPACT: Final = ".compact"


class _End(msgspec.Struct):
    """A batch's line."""

    logOffset: int


class _Entry(msgspec.Struct):
    """A file's line."""

    path: str
    timestamp: int
    batchId: int


class Found:
    """A file that the source has found."""

    __slots__ = ("changed_s", "file", "offset")

    def __init__(self, entry: _Entry) -> None:
        self.file: Final = unescaped(entry.path)  # the whole name
        self.changed_s: Final = entry.timestamp / 1000  # wall time
        self.offset: Final = entry.batchId  # of the log


class SourceLog:
    """The log of one checkpoint. Every method raises OSError, and SinkError when the log is not understood."""

    def __init__(self, place: FileSystem, checkpoint: str) -> None:
        """`checkpoint`: its folder in the place."""
        self._place: Final = place
        self._checkpoint: Final = checkpoint

    def batch(self, batch_id: int) -> list[Found]:
        """The files of a batch, in the order of the log."""
        first = self._end(batch_id - 1) + 1 if batch_id > 0 else 0
        last = self._end(batch_id)
        return [one for offset in range(first, last + 1) for one in self._at(offset)]

    def done(self) -> list[Found]:
        """The files of all batches that are done."""
        batches = [int(name) for name in self._place.names(f"{self._checkpoint}/commits") if name.isdigit()]
        return self.up_to(max(batches)) if batches else []

    def up_to(self, batch_id: int) -> list[Found]:
        """The files of this batch and all before it."""
        end = self._end(batch_id)
        names = self._place.names(f"{self._checkpoint}/sources/0")
        compacts = [int(name.removesuffix(_COMPACT)) for name in names if name.endswith(_COMPACT) and name[0] != "."]
        newest = max(compacts, default=-1)
        found = self._entries(f"{newest}{_COMPACT}") if compacts else []
        for offset in range(newest + 1, end + 1):
            found += self._entries(f"{offset}")
        return [one for one in found if one.offset <= end]

    def _at(self, offset: int) -> list[Found]:
        try:
            return self._entries(f"{offset}")
        except FileNotFoundError:
            return [one for one in self._entries(f"{offset}{_COMPACT}") if one.offset == offset]

    def _end(self, batch_id: int) -> int:
        name = f"{self._checkpoint}/offsets/{batch_id}"
        end: _End = self._parsed(name, (self._lines(name) or [b""])[-1], _End)
        return end.logOffset

    def _entries(self, name: str) -> list[Found]:
        name = f"{self._checkpoint}/sources/0/{name}"
        return [Found(self._parsed(name, line, _Entry)) for line in self._lines(name)]

    def _lines(self, name: str) -> list[bytes]:
        """All behind the version."""
        version, *lines = self._place.read(name).splitlines() or [b""]
        if version != _VERSION.encode():
            raise SinkError(f"{name} is not the log of a file source as this program knows it: {version[:20]!r}")
        return lines

    def _parsed(self, name: str, line: bytes, kind: Any) -> Any:
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.MsgspecError as error:
            raise SinkError(f"{name} is not the log of a file source as this program knows it: {error}") from error
