"""What a consumer keeps over restarts, as tables of one SQLite file. Knows no threads, no asyncio and no clock.

remembered  fingerprint place pub_time_ns at              the memory of `winnow`
retries     id host due_at tries reason body              posts that are tried again
reports     seq body                                      reports that no one has confirmed yet
positions   source origin seq                             up to where posts of an RSocket source are done with
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from spark_sink.errors import SinkError
from spark_sink.feed.consumer.winnow import Remembered
from spark_sink.feed.identity import Identity

SCHEMA: Final = 1  # PRAGMA user_version
FILE_MODE: Final = 0o640
MAX_RETRIES: Final = 100_000  # posts that wait for another try; of more the oldest are given up
MAX_REPORTS: Final = 100_000  # that wait to be sent; of more the oldest are gone

_CREATE: Final = f"""
CREATE TABLE remembered (fingerprint BLOB PRIMARY KEY, place BLOB NOT NULL, pub_time_ns INTEGER NOT NULL,
    at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX remembered_at ON remembered (at);
CREATE TABLE retries (id INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT NOT NULL, due_at REAL NOT NULL,
    tries INTEGER NOT NULL, reason TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX retries_due ON retries (due_at);
CREATE TABLE reports (seq INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL);
CREATE TABLE blocks (part TEXT NOT NULL, number INTEGER NOT NULL, method TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (part, number)) WITHOUT ROWID;
CREATE TABLE positions (source TEXT NOT NULL, origin TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (source, origin)) WITHOUT ROWID;
PRAGMA user_version = {SCHEMA};
"""


class MemoryFileError(SinkError):
    """The file cannot be used; the text names it and says why."""


class Retry(NamedTuple):
    """A post that is tried again."""

    id: int
    host: str
    due_at: float  # seconds since 1970
    tries: int  # that have failed
    reason: str  # of the last one
    body: bytes


class MemoryTables:
    """One file, which one process writes."""

    def __init__(self, path: Path, *, is_synced: bool = True) -> None:
        """MemoryFileError: it is no such file, or another consumer uses it."""
        self.path: Final = path
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            self.connection: Final = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise MemoryFileError(f"{path}: {error}") from error
        try:
            self._open(is_synced)
        except sqlite3.Error as error:
            self.connection.close()
            text = "another consumer uses it" if "locked" in str(error) else str(error)
            raise MemoryFileError(f"{path}: {text}") from error
        except MemoryFileError:
            self.connection.close()
            raise

    def _open(self, is_synced: bool) -> None:
        run = self.connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
        run("BEGIN EXCLUSIVE")
        (version,) = run("PRAGMA user_version").fetchone()
        if version == 0 and run("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            for statement in _CREATE.split(";\n"):
                run(statement)
        elif version != SCHEMA:
            raise MemoryFileError(f"{self.path}: it has schema {version}, this version reads {SCHEMA}")
        run("COMMIT")

    def begin(self) -> None:
        """Of a transaction."""
        self.connection.execute("BEGIN")

    def commit(self) -> None:
        """All since `begin` is there for good."""
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """All is as it was at `begin`."""
        if self.connection.in_transaction:
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")

    def close(self) -> None:
        """The file is free for others."""
        self.connection.close()

    # The memory

    def remember(self, one: Remembered) -> None:
        self.connection.execute("REPLACE INTO remembered VALUES (?, ?, ?, ?)", one)

    def forget_before(self, at: float) -> None:
        """What was remembered before."""
        self.connection.execute("DELETE FROM remembered WHERE at < ?", (at,))

    def remembered(self) -> list[Remembered]:
        """All, the oldest first."""
        rows = self.connection.execute("SELECT fingerprint, place, pub_time_ns, at FROM remembered ORDER BY at")
        return [Remembered(*row) for row in rows]

    # Retries

    def add_retry(self, host: str, due_at: float, tries: int, reason: str, body: bytes) -> list[Retry]:
        """Those that are given up for it."""
        self.connection.execute(
            "INSERT INTO retries (host, due_at, tries, reason, body) VALUES (?, ?, ?, ?, ?)",
            (host, due_at, tries, reason, body),
        )
        (n,) = self.connection.execute("SELECT count(*) FROM retries").fetchone()
        if n <= MAX_RETRIES:
            return []
        oldest = list(self._retries("ORDER BY id LIMIT ?", n - MAX_RETRIES))
        for each in oldest:
            self.end_retry(each.id)
        return oldest

    def last_retry(self) -> int:
        """The number of the one that was added last."""
        (id,) = self.connection.execute("SELECT max(id) FROM retries").fetchone()
        return int(id)

    def take_due(self, now: float, hosts: frozenset[str], max_n: int) -> list[Retry]:
        """Due ones, but for those of these hosts, the earliest first."""
        found = []
        for each in self._retries("WHERE due_at <= ? ORDER BY due_at, id", now):
            if each.host not in hosts:
                found.append(each)
                if len(found) == max_n:
                    break
        return found

    def postpone(self, id: int, due_at: float, tries: int, reason: str) -> None:
        """It has failed again."""
        self.connection.execute(
            "UPDATE retries SET due_at = ?, tries = ?, reason = ? WHERE id = ?", (due_at, tries, reason, id)
        )

    def end_retry(self, id: int) -> None:
        """It is done with, or given up."""
        self.connection.execute("DELETE FROM retries WHERE id = ?", (id,))

    def next_due_at(self) -> float | None:
        """Of the earliest; None: none waits."""
        (at,) = self.connection.execute("SELECT min(due_at) FROM retries").fetchone()
        found: float | None = at
        return found

    def retries_n(self) -> int:
        """How many wait."""
        (n,) = self.connection.execute("SELECT count(*) FROM retries").fetchone()
        return int(n)

    # Reports

    def add_report(self, body: bytes) -> None:
        """Behind all others."""
        cursor = self.connection.execute("INSERT INTO reports (body) VALUES (?)", (body,))
        self.connection.execute("DELETE FROM reports WHERE seq <= ?", ((cursor.lastrowid or 0) - MAX_REPORTS,))

    def reports(self, max_n: int) -> list[tuple[int, bytes]]:
        """The first ones: number and body."""
        return list(self.connection.execute("SELECT seq, body FROM reports ORDER BY seq LIMIT ?", (max_n,)))

    def end_reports(self, to_seq: int) -> None:
        """They are confirmed up to this one."""
        self.connection.execute("DELETE FROM reports WHERE seq <= ?", (to_seq,))

    # Blocks

    def blocks(self, part: str) -> dict[int, Identity | None]:
        """Of a file that is not whole: those that are there, with what the end of the file has to tell of them."""
        rows = self.connection.execute("SELECT number, method, value FROM blocks WHERE part = ?", (part,))
        return {number: Identity(method, value) if method else None for number, method, value in rows}

    def add_block(self, part: str, number: int, unsure: Identity | None) -> None:
        """It is there."""
        method, value = ("", "") if unsure is None else (unsure.method, unsure.value)
        self.connection.execute("REPLACE INTO blocks VALUES (?, ?, ?, ?)", (part, number, method, value))

    def end_blocks(self, part: str) -> None:
        """The file is whole, or given up."""
        self.connection.execute("DELETE FROM blocks WHERE part = ?", (part,))

    # Positions

    def positions(self, source: str) -> dict[str, int]:
        """By origin: up to which number all is done with."""
        return dict(self.connection.execute("SELECT origin, seq FROM positions WHERE source = ?", (source,)))

    def set_position(self, source: str, origin: str, seq: int) -> None:
        """All up to this one is done with."""
        self.connection.execute("REPLACE INTO positions VALUES (?, ?, ?)", (source, origin, seq))

    def _retries(self, where: str, value: float) -> Iterator[Retry]:
        rows = self.connection.execute(f"SELECT id, host, due_at, tries, reason, body FROM retries {where}", (value,))
        return (Retry(*row) for row in rows)
