"""Checkpoints one after another, and what is moved into the archive when one ends.

    <tables>/_checkpoints/000001/     Spark's checkpoint of the first generation

A file that is done and in the archive is found by nobody; so a new checkpoint, which knows no file, reads exactly what
no generation has read. The highest number counts. To begin the next one: remove what a batch that never ended has
written, archive what is done, make the next folder, remove the old one. Killed between any two of these, the same steps
are done again by whoever starts next.
"""

import contextlib
import os
from collections.abc import Iterator

from spark_sink.event_files.layout import SUFFIX, is_segment
from spark_sink.pipeline.batch import batch_name, generation_folder, remove_batch
from spark_sink.pipeline.compaction import publishing
from spark_sink.pipeline.filesystems import FileSystem, LocalFileSystem
from spark_sink.pipeline.segment_files import archived
from spark_sink.pipeline.source_log import Found, SourceLog
from spark_sink.schema import COLUMNS
from spark_sink.tables import CHECKPOINTS, REQUESTS


def current_generation(tables: FileSystem) -> int:
    """Its number; older ones are removed, and the first one is made. OSError."""
    numbers = sorted(int(name) for name in tables.names(CHECKPOINTS) if name.isdigit())
    for old in numbers[:-1]:
        tables.remove(generation_folder(old))
    if not numbers:
        tables.make(generation_folder(1))
    return numbers[-1] if numbers else 1


def next_generation(events: FileSystem, tables: FileSystem, generation: int) -> int:
    """Begin a new checkpoint after a generation whose query has ended. OSError: do it again."""
    folder = generation_folder(generation)
    offsets = [int(name) for name in tables.names(f"{folder}/offsets") if name.isdigit()]
    commits = [int(name) for name in tables.names(f"{folder}/commits") if name.isdigit()]
    with publishing(tables):
        for batch_id in range(max(commits, default=-1) + 1, max(offsets, default=-1) + 1):
            remove_batch(tables, batch_name(generation, batch_id), keep=set())
            _remove_requests(events, tables, SourceLog(tables, folder).batch(batch_id))
    archive_done(events, tables, generation)
    tables.make(generation_folder(generation + 1))
    tables.remove(folder)
    return generation + 1


def archive_done(events: FileSystem, tables: FileSystem, generation: int) -> list[str]:
    """Move what is done into the archive: of what the checkpoint knows only files that lie in the folders themselves.
    What is below a folder or a link among them is of somebody else, and stays.

    Gives, as sentences, the files that nobody will ever read: OSError."""
    live = [f"{source}/{name}" for source in COLUMNS for name in events.names(source) if name[0] not in "._"]
    log = SourceLog(tables, generation_folder(generation))
    done = {found.file for found in log.done()} if live else set()
    never = []
    for name in live:
        file = events.file(name)
        if file in done:
            if events.exists(archived(file)):
                never.append(f"{file} is never read: a file of this name was read before")
                continue
            with contextlib.suppress(FileNotFoundError):  # somebody has removed it
                events.move(name, archived(file))
    return [*never, *_foreign_names(events)]


def _remove_requests(events: FileSystem, tables: FileSystem, found: list[Found]) -> None:
    """What the next generation reads again: else a compaction takes it for done until then."""
    names = {one.file.rpartition("/")[2] for one in found if not events.exists(archived(one.file))}
    for day in tables.names(REQUESTS):
        for name in names.intersection(tables.names(f"{REQUESTS}/{day}")):
            tables.remove(f"{REQUESTS}/{day}/{name}")


def _foreign_names(events: FileSystem) -> Iterator[str]:
    for source in COLUMNS:
        for name in events.names(source):
            if isinstance(events, LocalFileSystem) and is_segment(name) and _is_hidden(events.file(f"{source}/{name}")):
                yield f"{events.file(source)}/{name} is never read: it is a folder, or a link to one or to nothing"
                continue
            is_text = name.isprintable()  # bytes that are no UTF-8 are not, and Java finds no such file
            if name[0] != "." and (name[0] == "_" or not name.endswith(SUFFIX) or not is_text):
                file = f"{events.file(source)}/{name}".encode(errors="backslashreplace").decode()
                yield f"{file} is never read: a segment is named <broker>-<epoch>-<number>{SUFFIX}"


def _is_hidden(path: str) -> bool:
    """Spark finds no file of this name, and so no batch tells of it."""
    return os.path.isdir(path) or (os.path.islink(path) and not os.path.exists(path))
