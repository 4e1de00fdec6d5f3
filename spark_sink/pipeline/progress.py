"""How far the pipeline is: the one batch that was begun last, its files, and whether it is done.

    <tables>/_checkpoints/batch.json     {"number": 41, "is_done": false, "files": ["/events/flows/…", …]}

The number and the files are written before anything else of a batch is, so whoever starts after a crash does the same
batch with the same files under the same number again, and its files replace those of the first try. A batch that is
done was read for ever: its files are moved into the archive, where nobody finds them, and only then the next one
begins. So a file that lies in its folder was not read, or is named here. Spark's own checkpoint decides nothing: each
start begins with a new one.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from spark_sink.errors import SinkError
from spark_sink.pipeline.filesystems import FileSystem
from spark_sink.tables import CHECKPOINTS

BATCH: Final = "batch.json"

T = TypeVar("T")


class Progress(msgspec.Struct, frozen=True):
    """The batch that was begun last; number 0: none was."""

    number: int = 0
    is_done: bool = True
    files: list[str] = []  # whole names

    @property
    def done(self) -> int:
        """The number of the last batch that is done: no file of it or of an earlier one is written again."""
        return self.number if self.is_done else self.number - 1


def read_state(tables: FileSystem, name: str, decode: Callable[[bytes], T], cure: str = "") -> T | None:
    """What a file of the pipeline's state says; None: it is not there. OSError; SinkError: it is not what was written,
    and the cure."""
    try:
        return decode(tables.read(f"{CHECKPOINTS}/{name}"))
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise SinkError(f"{tables.file(CHECKPOINTS)}/{name} cannot be read: {error}{cure}") from error


def read_progress(tables: FileSystem) -> Progress:
    """OSError; SinkError."""
    return read_state(tables, BATCH, msgspec.json.Decoder(Progress).decode) or Progress()


def write_progress(tables: FileSystem, progress: Progress) -> None:
    """Whole or not at all. OSError."""
    tables.write(CHECKPOINTS, BATCH, msgspec.json.encode(progress))
