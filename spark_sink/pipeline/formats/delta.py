"""Tables of Delta: files lie where plain ones do, and a file is in its table when the log of the table says so.

    <tables>/<table>/date=2026-11-20/batch-<number>-<part>.parquet
    <tables>/<table>/_delta_log/<version>.json

A batch writes its files first and then makes one commit for each table. The commit holds the number of the batch as
Delta's application transaction, under the id of the tables. So a repetition sees which tables have the batch already,
and leaves these alone: what a log names is never written again, since readers may be at it.

Whoever else writes the log may win the race for a version. Then the commit is made anew, upon that one: delta-rs itself
would go on, and would not see that a file that it removes is gone already.
"""

import contextlib
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_sink.delta_log import DATE, LOG, check_path, library, names_in, open_log
from spark_sink.errors import BadFolder, SinkError, first_line
from spark_sink.pipeline.filesystems import FileSystem, LocalFileSystem
from spark_sink.tables import CHECKPOINTS, COLUMNS, DIED_SUFFIX, table_schema

# How long a file stays that is in no table any more, so that who reads an older version can end; and how long older
# versions can be asked for. Each batch of these is a file in the log, and makes each commit slower: 720 in an hour.
KEPT: Final = "interval 1 hours"
SETTINGS: Final = {
    "delta.deletedFileRetentionDuration": KEPT,
    "delta.logRetentionDuration": KEPT,
    "delta.checkpointInterval": "10",  # versions; a commit reads those since: 8 ms of CPU, and 16 with 20 or with 5
}
CLEAN_EVERY_S: Final = 1800.0  # all folders are listed then
CLEANED: Final = "cleaned"  # beside the checkpoint: when that was
COMMIT_TRIES: Final = 10  # somebody else has made a commit between two steps of ours so often

_DIED: Final = re.compile(rf"(.*?)(\.\d+)?{re.escape(DIED_SUFFIX)}")


class DeltaTables:
    """Those of one folder of this machine. Every method raises OSError and SinkError."""

    def __init__(self, tables: LocalFileSystem) -> None:
        self._tables: Final = tables
        self._number = 0  # of the batch
        self._done: set[str] = set()  # tables that have this batch since an earlier try
        self._adds: Final = defaultdict[str, list[str]](list)  # table -> files of the batch, "date=…/name"
        self._gone: Final = defaultdict[str, set[str]](set)  # table -> brokers' runs whose row is taken away
        self._found: dict[str, list[str]] | None = None  # folder of a day -> files; None: nobody has asked

    @staticmethod
    def check(tables: FileSystem) -> None:
        """BadFolder: there can be none in this folder. MissingPart."""
        if not isinstance(tables, LocalFileSystem):
            raise BadFolder(f"tables of Delta are written to folders of this machine only, and {tables.root} is none")
        library()
        check_path(Path(tables.root))

    def prepare(self) -> None:
        """Each table has a log, or readers would find files that are in no table yet; and all columns that this version
        writes, or who reads the log would not find those."""
        delta = library()
        for table in COLUMNS:
            folder, schema = Path(self._tables.file(table)), _schema(table)
            log = open_log(folder) if (folder / LOG).is_dir() else None
            there = {field.name for field in log.schema().fields} if log is not None else set()
            new = [field for field in schema.fields if field.name not in there]
            with self._told(table):
                if log is None:
                    create = delta.transaction.create_table_with_add_actions
                    create(str(folder), schema, [], mode="ignore", partition_by=[DATE], configuration=SETTINGS)
                elif new:
                    log.alter.add_columns(new)
            if new:
                self._sync(table, self._open(table).version())

    def begin(self, number: int, *, is_again: bool) -> None:
        """The next files are of this batch."""
        self._number = number
        if is_again:
            app = self._app()
            self._done = {table for table in COLUMNS if (self._open(table).transaction_version(app) or 0) >= number}

    def write(self, folder: str, name: str, content: bytes | memoryview) -> None:
        """A file of the batch. That of a run of a broker replaces those that tell the same, and has a name of its
        own."""
        if folder.partition("/")[0] in self._done:
            return
        if name.endswith(DIED_SUFFIX):
            self.remove(folder, name)
            name = f"{name.removesuffix(DIED_SUFFIX)}.{self._number}{DIED_SUFFIX}"
        self._tables.write(folder, name, content)
        self._add(folder, name)

    def take(self, folder: str, name: str, source: FileSystem, file: str) -> None:
        """A file of another place, as `LocalFileSystem.take`."""
        if folder.partition("/")[0] not in self._done:
            self._tables.take(folder, name, source, file)
            self._add(folder, name)

    def remove(self, folder: str, name: str) -> None:
        """The row of a run of a broker, whichever batch has written it, and for which day."""
        self._gone[folder.partition("/")[0]].add(_run_of(name))

    def commit(self) -> None:
        """The files of the batch are in the tables, table by table."""
        delta, app = library(), self._app()
        for table in sorted({*self._adds, *self._gone} - self._done):
            self._commit(table, self._adds[table], self._gone[table], [delta.Transaction(app, self._number)])
        for kept in (self._adds, self._gone, self._done):
            kept.clear()

    def folders(self) -> list[str]:
        """`traffic/date=2026-11-20` and so on, sorted; only those that have files."""
        return sorted(self._live())

    def names(self, folder: str) -> list[str]:
        """Of the files of a day, as they were when `folders` was asked first."""
        return self._live().get(folder, [])

    def remove_days(self, folders: list[str]) -> None:
        """With all their files; these lie there for `KEPT`."""
        gone = defaultdict[str, set[str]](set)
        for table, _, day in (folder.partition("/") for folder in folders):
            gone[table].add(day)
        for table, days in gone.items():
            self._commit(table, [], days)

    def replace(self, folder: str, work: str, new: Collection[str], old: Collection[str]) -> bool:
        """Files in the folder `work` take the place of others, in one commit; what they say together is the same.
        False: one of the old ones was taken away meanwhile."""
        table, _, day = folder.partition("/")
        gone = {f"{day}/{name}" for name in old}
        for name in new:
            self._tables.move(f"{work}/{name}", f"{folder}/{name}")
        self._tables.sync(folder)
        return self._commit(table, [f"{day}/{name}" for name in new], gone, is_data=False)

    def clean(self) -> None:
        """Remove files that have been in no table for `KEPT`, or for as long as somebody has set the table to. No
        batch may be written meanwhile."""
        stamp = Path(self._tables.file(f"{CHECKPOINTS}/{CLEANED}"))
        if stamp.exists() and time.time() - stamp.stat().st_mtime < CLEAN_EVERY_S:
            return
        for table in COLUMNS:
            with self._told(table):
                self._open(table).vacuum(dry_run=False, full=True)
        self._tables.write(CHECKPOINTS, CLEANED, b"")

    def _commit(
        self, table: str, adds: list[str], gone: set[str], txn: list[Any] | None = None, *, is_data: bool = True
    ) -> bool:
        """One version of a table. `gone`: files, whole days ("date=…") and runs of brokers. `is_data`: its rows change;
        else all of `gone` has to be there. False: it is not, so nothing was done."""
        delta, schema = library(), _schema(table)
        once = delta.CommitProperties(max_commit_retries=0, app_transactions=txn)
        actions = [self._add_action(table, name, is_data) for name in adds]
        for _ in range(COMMIT_TRIES):
            log = self._open(table)
            old = [name for name in names_in(log) if _kinds_of(name) & gone] if gone else []
            if not is_data and len(old) < len(gone):
                return False
            now_ms = time.time_ns() // 1_000_000
            remove = delta.transaction.RemoveAction
            removed = [remove(name, is_data, now_ms, None, _partition(name)) for name in old]
            if not actions and not removed:
                return True
            with self._told(table), contextlib.suppress(delta.exceptions.CommitFailedError):
                log.create_write_transaction([*actions, *removed], "append", schema, [DATE], commit_properties=once)
                self._sync(table, log.version() + 1)
                return True
        raise SinkError(f"the log of the table {table} in {self._tables.root} changes all the time")

    @contextlib.contextmanager
    def _told(self, table: str) -> Iterator[None]:
        try:
            yield
        except library().exceptions.DeltaError as error:
            text = f"the log of the table {table} in {self._tables.root} cannot be written: {first_line(error)}"
            raise SinkError(text) from error

    def _open(self, table: str) -> Any:
        log = open_log(Path(self._tables.file(table)))
        if log is None:
            raise BadFolder(f"the table {table} in {self._tables.root} has lost its log: make the tables anew")
        return log

    def _live(self) -> dict[str, list[str]]:
        if self._found is None:
            self._found = {}
            for table in COLUMNS:
                for path in sorted(names_in(self._open(table))):
                    day, _, name = path.rpartition("/")
                    self._found.setdefault(f"{table}/{day}", []).append(name)
        return self._found

    def _app(self) -> str:
        return self._tables.read(f"{CHECKPOINTS}/id").decode()

    def _add(self, folder: str, name: str) -> None:
        table, _, day = folder.partition("/")
        self._adds[table].append(f"{day}/{name}")

    def _add_action(self, table: str, name: str, is_data: bool) -> Any:
        path = self._tables.file(f"{table}/{name}")
        told = os.stat(path)
        stats = json.dumps({"numRecords": pq.read_metadata(path).num_rows})
        return library().transaction.AddAction(
            name, told.st_size, _partition(name), told.st_mtime_ns // 1_000_000, is_data, stats
        )

    def _sync(self, table: str, version: int) -> None:
        """The library does not wait for the disk, and the batch is said to be done after this."""
        for name in (f"{version:020d}.json", f"{version:020d}.checkpoint.parquet", "_last_checkpoint"):
            try:
                with open(self._tables.file(f"{table}/{LOG}/{name}"), "rb") as file:
                    self._tables.disk.sync_data(file.fileno())
            except FileNotFoundError:
                continue  # a checkpoint is written now and then
        self._tables.sync(f"{table}/{LOG}")


def _schema(table: str) -> Any:
    return library().Schema.from_arrow(table_schema(table).append(pa.field(DATE, pa.string())))


def _partition(name: str) -> Mapping[str, str]:
    return {DATE: name.partition("/")[0].removeprefix(f"{DATE}=")}


def _run_of(name: str) -> str:
    """The run of a broker that a file tells of; "": it is of another kind."""
    match = _DIED.fullmatch(name)
    return match[1] if match is not None else ""


def _kinds_of(name: str) -> set[str]:
    """All that takes this file away from its table: itself, its day, its run of a broker."""
    day, _, file = name.partition("/")
    return {name, day, _run_of(file)}
