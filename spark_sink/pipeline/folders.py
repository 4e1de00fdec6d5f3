"""Which events folder may be made into which tables, and that one pipeline at a time does so.

    <tables>/_checkpoints/events_folder     the events folder that the tables are made of
    <tables>/_checkpoints/format            whether they are plain files or tables of Delta
    <tables>/_checkpoints/id                which tables these are, wherever they lie
    <events>/_pipeline.json                 the tables that its segments go into

A segment that was read lies in the archive and is found by nobody any more. So a second folder of tables would lack it,
and say nothing: it is refused, as are tables of two events folders, and tables whose checkpoint is gone.
"""

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from rsocket_wire.files import missing_advice, system_reason
from spark_sink.errors import BadFolder
from spark_sink.event_files.layout import ARCHIVE, Disk, recover
from spark_sink.pipeline.filesystems import FileSystem, LocalFileSystem
from spark_sink.pipeline.formats.choice import FORMAT, choose_format, format_of
from spark_sink.schema import COLUMNS as SOURCE_COLUMNS
from spark_sink.tables import CHECKPOINTS, COLUMNS, day_folders

EVENTS_FOLDER: Final = "events_folder"
ID: Final = "id"
MADE_INTO: Final = "_pipeline.json"


class MadeInto(msgspec.Struct):
    """What an events folder says of its tables."""

    id: str
    tables: str  # where they were last, for people


def judge_folders(events: FileSystem, tables: FileSystem, *, is_once: bool, wanted: str | None = None) -> str:
    """Refuse what would give wrong tables; nothing is made or changed. The id of the tables. BadFolder: says what to
    do. MissingPart.

    `wanted`: the format that somebody has asked for; None: whatever the tables are."""
    try:
        if not events.exists(""):
            advice = "" if "://" in events.root else missing_advice(events.root, "folder")
            raise BadFolder(f"there is no events folder {events.root}{advice}")
        if events.root == tables.root:
            raise BadFolder(f"{events.root} cannot hold events and tables: give a folder of their own to the tables")
        names = [name for source in SOURCE_COLUMNS for name in events.names(source) if name[0] not in "._"]
        if is_once and not any(name.endswith(".parquet") for name in names) and not events.names(ARCHIVE):
            raise BadFolder(f"the events folder {events.root} holds no segments yet: is a broker writing to it?")
        if not tables.exists(CHECKPOINTS) and any(
            name[0] not in "._" for folder in day_folders(tables.names) for name in tables.names(folder)
        ):
            raise BadFolder(
                f"{tables.root} holds tables without their checkpoint: reading again would count twice; remove them"
            )
        if any(name.isdigit() for name in tables.names(CHECKPOINTS)):
            raise BadFolder(
                f"{tables.root} holds tables of an older version: "
                f"rsocket-broker pipeline upgrade --tables {tables.root} makes tables of this one of them"
            )
        choose_format(tables, wanted)
        made_of = _told(tables, f"{CHECKPOINTS}/{EVENTS_FOLDER}")
        if made_of not in (None, events.root):
            raise BadFolder(f"{tables.root} is made of {made_of} and not of {events.root}")
        tables_id = _told(tables, f"{CHECKPOINTS}/{ID}") or uuid.uuid4().hex
        _check_made_into(events, tables, tables_id)
        return tables_id
    except OSError as error:
        raise BadFolder(f"the folders of the pipeline cannot be read: {error}") from error


def check_folders(events: FileSystem, tables: FileSystem, *, is_once: bool, wanted: str | None = None) -> None:
    """The same, then make what the query needs and say in each folder which the other one is. Only once Spark runs: or
    a start that came to nothing would bind the events to tables that hold nothing of them. BadFolder."""
    tables_id = judge_folders(events, tables, is_once=is_once, wanted=wanted)
    try:
        chosen = choose_format(tables, wanted)
        for folder in (*SOURCE_COLUMNS, ARCHIVE):  # Spark would make the archive for everybody to read
            events.make(folder)
        for folder in (CHECKPOINTS, *COLUMNS):
            tables.make(folder)
        tables.write(CHECKPOINTS, FORMAT, chosen.encode())  # first: without it they are plain files
        tables.write(CHECKPOINTS, EVENTS_FOLDER, events.root.encode())
        tables.write(CHECKPOINTS, ID, tables_id.encode())
        format_of(tables).prepare()
        events.write("", MADE_INTO, msgspec.json.encode(MadeInto(tables_id, tables.root)))
    except OSError as error:
        raise BadFolder(f"the folders of the pipeline cannot be made: {error}") from error


def remove_leftovers(tables: FileSystem) -> None:
    """Hidden files of a pipeline that was killed; only while no other one writes these tables."""
    if isinstance(tables, LocalFileSystem):
        for folder in day_folders(tables.names):
            recover(Path(tables.file(folder)), "", time.time(), Disk())


@contextlib.contextmanager
def locked(events: Path | None, tables: Path | None) -> Iterator[None]:
    """No other pipeline here uses these folders meanwhile. BadFolder: one does. None: not of this machine."""
    with contextlib.ExitStack() as stack:
        if tables is not None:
            with _told_as(f"the folder of tables {tables} cannot be written"):
                Disk().make_folder(tables)
                sentence = f"another pipeline writes the tables in {tables}"
                stack.enter_context(LocalFileSystem(tables).locked("_lock", sentence))
        if events is not None:
            with _told_as(f"the events folder {events} cannot be read"):
                if events.is_dir():  # else it is told
                    sentence = f"another pipeline reads the events in {events}"
                    stack.enter_context(LocalFileSystem(events).locked("", sentence))
        yield


@contextlib.contextmanager
def _told_as(sentence: str) -> Iterator[None]:
    """BadFolder, with this sentence and what the system says."""
    try:
        yield
    except OSError as error:
        raise BadFolder(f"{sentence}: {system_reason(error)}") from error


def _check_made_into(events: FileSystem, tables: FileSystem, tables_id: str) -> None:
    path = events.file(MADE_INTO)
    data = _told(events, MADE_INTO)
    if data is None:
        return
    try:
        told = msgspec.json.decode(data, type=MadeInto)
    except msgspec.MsgspecError as error:
        raise BadFolder(f"{path} does not say which tables are made of these events: {error}") from error
    if told.id != tables_id:
        raise BadFolder(
            f"the events in {events.root} go into tables in {told.tables}, and not into these in {tables.root}: one "
            f"pipeline reads each of them once. To make tables anew, move the segments below "
            f"{events.file(ARCHIVE)} back into their folders and remove {path}"
        )


def _told(place: FileSystem, name: str) -> str | None:
    """What a small file says; None: there is none."""
    try:
        return place.read(name).decode(errors="replace")
    except FileNotFoundError:
        return None
