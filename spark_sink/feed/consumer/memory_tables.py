"""What a consumer keeps over restarts, as tables of one SQLite file. Knows no threads, no asyncio and no clock.

remembered  fingerprint place pub_time_ns at              the memory of `winnow`
retries     id host due_at tries reason body source       posts that are tried again
outgoing    seq queue body                                posts and reports that a sink has not confirmed yet
blocks      part number method value body                 blocks of files that are not whole
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import astuple

from spark_sink.errors import SinkError
from spark_sink.feed.consumer.winnow import Remembered
from spark_sink.feed.identity import Identity

SCHEMA: Final = 2  # PRAGMA user_version
FILE_MODE: Final = 0o640
MAX_RETRIES: Final = 100_000  # posts that wait for another try; of more the oldest are given up
MAX_REPORTS: Final = 100_000  # that wait for one sink; of more the oldest are gone

_CREATE: Final = f"""
CREATE TABLE remembered (fingerprint BLOB PRIMARY KEY, place BLOB NOT NULL, pub_time_ns INTEGER NOT NULL,
    at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX remembered_at ON remembered (at);
CREATE TABLE retries (id INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT NOT NULL, due_at REAL NOT NULL,
    tries INTEGER NOT NULL, reason TEXT NOT NULL, body BLOB NOT NULL, source TEXT NOT NULL DEFAULT '');
CREATE INDEX retries_due ON retries (host, due_at);
CREATE TABLE outgoing (seq INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX outgoing_queue ON outgoing (queue, seq);
CREATE TABLE blocks (part TEXT NOT NULL, number INTEGER NOT NULL, method TEXT NOT NULL, value TEXT NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (part, number)) WITHOUT ROWID;
PRAGMA user_version = {SCHEMA};
"""
# Of a file of schema 1: where its retries come from is not known.
_UPGRADE: Final = f"""
ALTER TABLE retries ADD COLUMN source TEXT NOT NULL DEFAULT '';
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
    source: str = ""  # that it came from, `Source.name`; empty: it is not known


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
        self.waiting: Counter[str] = Counter()  # retries, by host
        self.outgoing: Counter[str] = Counter()  # by queue
        try:
            self._open(is_synced)
            self._count()
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
        elif version == 1:
            for statement in _UPGRADE.split(";\n"):
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
        with suppress(sqlite3.Error):
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            self._count()

    def close(self) -> None:
        """The file is free for others."""
        self.connection.close()

    # The memory

    def remember(self, one: Remembered) -> None:
        self.connection.execute("REPLACE INTO remembered VALUES (?, ?, ?, ?)", astuple(one))

    def forget_before(self, at: float) -> None:
        """What was remembered before."""
        self.connection.execute("DELETE FROM remembered WHERE at < ?", (at,))

    def remembered(self) -> list[Remembered]:
        """All, the oldest first."""
        rows = self.connection.execute("SELECT fingerprint, place, pub_time_ns, at FROM remembered ORDER BY at")
        return [Remembered(*row) for row in rows]

    # Retries

    def add_retry(
        self, host: str, due_at: float, tries: int, reason: str, body: bytes, source: str
    ) -> tuple[int, list[Retry]]:
        """Its number, and those that are given up for it."""
        cursor = self.connection.execute(
            "INSERT INTO retries (host, due_at, tries, reason, body, source) VALUES (?, ?, ?, ?, ?, ?)",
            (host, due_at, tries, reason, body, source),
        )
        self.waiting[host] += 1
        oldest = self._retries("ORDER BY id LIMIT ?", max(0, self.waiting.total() - MAX_RETRIES))
        for each in oldest:
            self.end_retry(each.id)
        return cursor.lastrowid or 0, oldest

    def take_due(self, now: float, max_n: Callable[[str], int]) -> list[Retry]:
        """Due ones, of each host the earliest, as many as `max_n` says."""
        found = []
        for host in list(self.waiting):
            room_n = max_n(host)
            if room_n > 0:
                found += self._retries("WHERE host = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?", host, now, room_n)
        return found

    def postpone(self, id: int, due_at: float, tries: int, reason: str) -> None:
        """It has failed again."""
        self.connection.execute(
            "UPDATE retries SET due_at = ?, tries = ?, reason = ? WHERE id = ?", (due_at, tries, reason, id)
        )

    def end_retry(self, id: int) -> None:
        """It is done with, or given up."""
        row = self.connection.execute("DELETE FROM retries WHERE id = ? RETURNING host", (id,)).fetchone()
        if row is not None:
            self.waiting[row[0]] -= 1
            if not self.waiting[row[0]]:
                del self.waiting[row[0]]

    # Outgoing

    def add_outgoing(self, queue: str, body: bytes, max_n: int | None = None) -> None:
        """Behind all others of this queue. `max_n`: of more the first ones are gone."""
        self.connection.execute("INSERT INTO outgoing (queue, body) VALUES (?, ?)", (queue, body))
        self.outgoing[queue] += 1
        if max_n is not None and self.outgoing[queue] > max_n:
            first = self.connection.execute("SELECT min(seq) FROM outgoing WHERE queue = ?", (queue,)).fetchone()
            self.end_outgoing(queue, first)

    def first_outgoing(self, queue: str, max_n: int) -> list[tuple[int, bytes]]:
        """The first ones: number and body."""
        find = "SELECT seq, body FROM outgoing WHERE queue = ? ORDER BY seq LIMIT ?"
        return list(self.connection.execute(find, (queue, max_n)))

    def end_outgoing(self, queue: str, seqs: Iterable[int]) -> None:
        """They are confirmed."""
        ended = [(seq,) for seq in seqs]
        self.connection.executemany("DELETE FROM outgoing WHERE seq = ?", ended)
        self.outgoing[queue] -= len(ended)

    def move_outgoing(self, queue: str, seqs: Iterable[int], to: str) -> None:
        """They wait behind all others of the queue `to`, of which the first ones beyond MAX_REPORTS are gone."""
        moved = list(seqs)
        for seq in moved:
            (body,) = self.connection.execute("SELECT body FROM outgoing WHERE seq = ?", (seq,)).fetchone()
            self.add_outgoing(to, body, MAX_REPORTS)
        self.end_outgoing(queue, moved)

    def keep_queues(self, queues: Iterable[str]) -> None:
        """Of all others nothing is sent any more."""
        for queue in self.outgoing.keys() - set(queues):
            self.connection.execute("DELETE FROM outgoing WHERE queue = ?", (queue,))
            del self.outgoing[queue]

    # Blocks

    def blocks(self, part: str) -> dict[int, Identity | None]:
        """Of a file that is not whole: those that are there, with what the end of the file has to tell of them."""
        rows = self.connection.execute("SELECT number, method, value FROM blocks WHERE part = ?", (part,))
        return {number: Identity(method, value) if method else None for number, method, value in rows}

    def add_block(self, part: str, number: int, unsure: Identity | None, body: bytes) -> None:
        """It is there. `body`: of its post, which is passed on when the file is whole."""
        method, value = ("", "") if unsure is None else (unsure.method, unsure.value)
        self.connection.execute("REPLACE INTO blocks VALUES (?, ?, ?, ?, ?)", (part, number, method, value, body))

    def block_posts(self, part: str) -> list[bytes]:
        """Bodies, by their numbers."""
        rows = self.connection.execute("SELECT body FROM blocks WHERE part = ? ORDER BY number", (part,))
        return [body for (body,) in rows]

    def end_blocks(self, part: str) -> None:
        """The file is whole, or given up."""
        self.connection.execute("DELETE FROM blocks WHERE part = ?", (part,))

    def _retries(self, where: str, *values: float | str) -> list[Retry]:
        rows = self.connection.execute(
            f"SELECT id, host, due_at, tries, reason, body, source FROM retries {where}", values
        )
        return [Retry(*row) for row in rows]

    def _count(self) -> None:
        run = self.connection.execute
        self.waiting = Counter(dict(run("SELECT host, count(*) FROM retries GROUP BY host")))
        self.outgoing = Counter(dict(run("SELECT queue, count(*) FROM outgoing GROUP BY queue")))
