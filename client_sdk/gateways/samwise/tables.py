"""What the store keeps, as tables of one SQLite file. Knows no threads, no asyncio and no clock.

    waiting   id uid stored_at_ms bytes tries_n due_at_ms lane acknowledged_by reason publish
    dead      id uid stored_at_ms bytes tries_n dead_at_ms     acknowledged_by reason publish
    totals    next_id waiting_n waiting_bytes dead_n dead_bytes        (one row)

A message of `waiting` is new, or at hand in memory, as long as it has neither `due_at_ms` nor `lane`. With `due_at_ms`
it was tried and is tried again then; with `lane` it waits until the first of its lane finds a destination. Only these
two are in indexes: a message that passes without trouble is one row that is appended and deleted.

The row of `totals` is true while the file is closed. While it is open its counts are NULL, and its `next_id` is above
all ids that were given: after a crash the rows are counted, and no id is given twice. Written in each transaction it
took a third of the time of one.

Large columns stand last, so that a row is looked through without reading them. Deleted rows leave free pages, which
the next ones take; of more than KEPT_PAGES the file is cut, a step at a time (auto_vacuum = incremental), since moving
pages in each transaction would cost all callers time.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct, structs

from broker.config.folders import sync_folder
from client_sdk.gateways.samwise.values import Message, Publish, Refused

SCHEMA: Final = 1  # PRAGMA user_version
MAX_ROWS: Final = 100  # of one statement; sqlite3 lets other threads run before and after each, which takes its time
MAX_SCANNED: Final = 2_000  # rows looked at in one reading of new messages: some ms, in which no caller gets its answer
PAGE_BYTES: Final = 2_048  # of a new file; a commit writes each page whole that it has changed
# Of the log, until another thread waits for the disk to have it, and it is moved into the file itself: for this all
# others wait, 2 ms where the disk has it, 17 where it had not, and 90 to 250 with 32 MiB.
WAL_BYTES: Final = 8 * 1024 * 1024
# Of the disk, which messages do not take: moving the whole log into the file, and the log anew, which the delivery of
# what is stored takes. On a disk filled to its end by messages none of them could be delivered, and none given back.
SPARE_BYTES: Final = 64 * 1024 * 1024
SPARE_PART: Final = 4  # of a small disk so many parts, and the log is shorter
KEPT_PAGES: Final = 32_768  # 64 MiB of free pages stay in the file
FREED_PAGES: Final = 512  # given back in one step
RESERVED_IDS: Final = 1_000  # that a transaction writes into the file before they are given

# Of the write-ahead log of SQLite.
_LOG_HEADER_BYTES, _SALT_AT, _SALT_BYTES = 32, 16, 8
_FRAME_HEADER_BYTES, _SALT_AT_OF_FRAME = 24, 8
_STEP_BYTES: Final = 1024 * 1024  # of zeros written at once

_COLUMNS: Final = "id, uid, stored_at_ms, tries_n, acknowledged_by, publish"
_CREATE: Final = f"""
CREATE TABLE waiting (id INTEGER PRIMARY KEY, uid TEXT NOT NULL, stored_at_ms INTEGER NOT NULL, bytes INTEGER NOT NULL,
    tries_n INTEGER NOT NULL DEFAULT 0, due_at_ms INTEGER, lane TEXT, acknowledged_by TEXT NOT NULL DEFAULT '[]',
    reason TEXT NOT NULL DEFAULT '', publish BLOB NOT NULL);
CREATE INDEX waiting_due ON waiting (due_at_ms, id) WHERE due_at_ms IS NOT NULL;
CREATE INDEX waiting_lane ON waiting (lane, id) WHERE lane IS NOT NULL;
CREATE TABLE dead (id INTEGER PRIMARY KEY, uid TEXT NOT NULL, stored_at_ms INTEGER NOT NULL, bytes INTEGER NOT NULL,
    tries_n INTEGER NOT NULL, dead_at_ms INTEGER NOT NULL, acknowledged_by TEXT NOT NULL, reason TEXT NOT NULL,
    publish BLOB NOT NULL);
CREATE TABLE totals (next_id INTEGER, waiting_n INTEGER, waiting_bytes INTEGER, dead_n INTEGER, dead_bytes INTEGER);
INSERT INTO totals VALUES (1, 0, 0, 0, 0);
PRAGMA user_version = {SCHEMA};
"""

NOBODY: Final[frozenset[str]] = frozenset()
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Publish).decode

Put: TypeAlias = tuple[Publish, str, int, bytes]  # message, uid, when (ms since the epoch), message as it is stored
Row: TypeAlias = tuple[Any, ...]  # _COLUMNS, bytes, and what else a query asks for


class StoreError(Exception):
    """The file cannot be used: the text says which and why."""


class Totals(Struct, frozen=True):
    """What is stored."""

    next_id: int
    waiting_n: int
    waiting_bytes: int
    dead_n: int
    dead_bytes: int
    oldest_at_ms: int | None = None  # when the message was stored that waits longest; None: none waits


@dataclass(frozen=True, slots=True)
class Letter:
    """A stored message as operators see it."""

    message: Message
    reason: str  # of the last failure; empty: none yet
    due_at_ms: int | None  # when it is tried again; None: as soon as a destination takes it, or never
    dead_at_ms: int | None  # since when it is a dead letter; None: it is not


def encode_publish(publish: Publish) -> bytes:
    """As it is stored: names and values, so that later versions may add some."""
    return _encode(replace(publish, quirks=()) if publish.quirks else publish)


class Tables:
    """One file, which nobody else has open. Methods that take lists do so because callers' work is put together."""

    def __init__(self, path: Path, *, is_synced: bool, max_messages: int, max_bytes: int) -> None:
        """`is_synced`: what is committed survives a power failure, too. StoreError: it is in use, or not ours."""
        self.path: Final = path
        self.max_messages: Final = max_messages
        self.max_bytes: Final = max_bytes
        self.max_log_bytes = WAL_BYTES  # less on a small disk
        self._is_oldest_known = True  # `totals` says when the oldest message was stored
        try:
            self._disk: Final = _Disk(path.parent)
            _create(path)
            self.connection: Final = sqlite3.connect(
                path, timeout=0, isolation_level=None, cached_statements=256, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"store {path}: {error}") from error
        try:
            self._open(is_synced)
            self._log_fd: Final = os.open(f"{path}-wal", os.O_RDWR | os.O_CREAT, 0o600)
            self._reserve_log()
        except (OSError, sqlite3.Error) as error:
            self.connection.close()
            is_locked = "locked" in str(error)
            raise StoreError(f"store {path}: {'another gateway uses it' if is_locked else error}") from error
        except StoreError:
            self.connection.close()
            raise
        (page_bytes,) = self.connection.execute("PRAGMA page_size").fetchone()
        self._frame_bytes: Final = _FRAME_HEADER_BYTES + page_bytes
        next_id, *counts = self.connection.execute("SELECT * FROM totals").fetchone()
        self._reserved_id = self._written_id = 0  # ids below may be given; 0: the row of totals is true
        if counts[0] is None:  # a crash
            self._reserved_id = self._written_id = next_id
            counts = [each for table in ("waiting", "dead") for each in self._counts(table)]
        self._written = self.totals = structs.replace(Totals(next_id, *counts), oldest_at_ms=self._oldest_at_ms())

    def _open(self, is_synced: bool) -> None:
        run = self.connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")  # until it is closed or the process ends, however that happens
        run(f"PRAGMA page_size = {PAGE_BYTES}")  # both before there are tables
        run("PRAGMA auto_vacuum = INCREMENTAL")
        run("PRAGMA journal_mode = WAL")
        run(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
        self.max_log_bytes = min(WAL_BYTES, self._disk.spare_bytes // 2)
        run("PRAGMA wal_autocheckpoint = 0")  # those whose commit it was would wait in the loop: `shorten_log`
        # The file of the log stays; what a large transaction has added is cut, and takes its time.
        run(f"PRAGMA journal_size_limit = {self.max_log_bytes * 5 // 4}")
        run("BEGIN EXCLUSIVE")
        (version,) = run("PRAGMA user_version").fetchone()
        if version == 0 and run("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            for statement in _CREATE.split(";\n"):
                run(statement)
        elif version != SCHEMA:
            raise StoreError(f"store {self.path}: it has schema {version}, this version reads {SCHEMA}")
        run("COMMIT")

    def _reserve_log(self) -> None:
        """Gives the log its size, in zeros, which SQLite takes for the end of it. A sync that changes no size waits for
        its own bytes alone, and not for the journal of the file system: 0.3 instead of 0.6 to 3.6 ms a commit."""
        size = os.fstat(self._log_fd).st_size
        with suppress(OSError):  # a full disk: it grows as it is written
            while size < self.max_log_bytes:
                size += os.pwrite(self._log_fd, bytes(min(_STEP_BYTES, self.max_log_bytes - size)), size)

    def close(self) -> None:
        """The file is whole and free for others."""
        if self._reserved_id:
            with suppress(sqlite3.Error):  # on a full disk: they are counted at the next start
                self._write_row(*structs.astuple(self.totals)[:-1])
        self.connection.close()
        os.close(self._log_fd)

    # Transactions

    def begin(self) -> None:
        self.connection.execute("BEGIN")

    def write_totals(self) -> None:
        """The last thing before `commit`: whatever happens then, a start finds what is stored."""
        is_reserved = self.totals.next_id <= self._reserved_id
        if self.totals != self._written and not is_reserved:
            self._reserved_id = self.totals.next_id + RESERVED_IDS
            self._write_row(self._reserved_id, None, None, None, None)
        if not self._is_oldest_known:
            self.totals = structs.replace(self.totals, oldest_at_ms=self._oldest_at_ms())
            self._is_oldest_known = True

    def commit(self) -> None:
        """When it returns, all since `begin` is there for good."""
        self.connection.execute("COMMIT")
        self._written, self._written_id = self.totals, self._reserved_id

    def rollback(self) -> None:
        """All is as it was at `begin`."""
        self.totals, self._reserved_id = self._written, self._written_id
        if self.connection.in_transaction:  # a full disk has ended it already
            with suppress(sqlite3.Error):  # then the next one cannot begin, and comes here again
                self.connection.execute("ROLLBACK")

    @property
    def log_is_long(self) -> bool:
        """`sync_log` is due, and then `shorten_log`."""
        return self._log_has(self.max_log_bytes)

    @property
    def log_is_too_long(self) -> bool:
        """`shorten_log` is overdue."""
        return self._log_has(self.max_log_bytes * 5 // 4)

    def sync_log(self) -> None:
        """Waits until the disk has it. In a thread of its own, if nobody may wait; until `close` at last."""
        with suppress(OSError):
            os.fdatasync(self._log_fd)

    def shorten_log(self) -> None:
        """Moves it into the file, and waits for the disk. A full disk leaves it as it is."""
        with suppress(sqlite3.Error):
            self.connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()  # cutting the file would take 80 ms

    def free_pages(self) -> bool:
        """Gives a step of what is free back to the disk; False: nothing more to give."""
        free = self._free_pages_n()
        if free <= KEPT_PAGES:
            return False
        self.connection.execute(f"PRAGMA incremental_vacuum({min(FREED_PAGES, free - KEPT_PAGES)})").fetchall()
        return True

    # Callers

    def put(self, puts: list[Put]) -> list[Message | Refused]:
        """Stores them in this order. For each what is stored, or why it is not."""
        results: list[Message | Refused] = []
        rows: list[tuple[object, ...]] = []
        now = self.totals
        next_id, stored_n, stored_bytes = now.next_id, now.waiting_n + now.dead_n, now.waiting_bytes + now.dead_bytes
        added_bytes = 0
        for publish, uid, at_ms, encoded in puts:
            size = len(encoded)
            if stored_n + len(rows) >= self.max_messages:
                text = f"buffer full: {self.max_messages} messages are stored, no more may be (max_messages)"
                results.append(Refused(text, "full"))
            elif stored_bytes + added_bytes + size > self.max_bytes:
                has = f"{stored_bytes + added_bytes} bytes are stored"
                text = f"buffer full: {has}, {size} more are over {self.max_bytes} (max_bytes)"
                results.append(Refused(text, "full"))
            elif not self._disk.has_room(added_bytes + size, self._free_pages_n):
                results.append(Refused(f"not stored: the disk is full but for {self._disk.spare_bytes} bytes", "disk"))
            else:
                rows.append((next_id, uid, at_ms, size, encoded))
                message = Message(
                    id=next_id, uid=uid, stored_at_ms=at_ms, tries_n=0, acknowledged_by=NOBODY, publish=publish
                )
                results.append(message)
                added_bytes += size
                next_id += 1
        for at in range(0, len(rows), MAX_ROWS):
            some = rows[at : at + MAX_ROWS]
            self.connection.execute(_insert(len(some)), [value for row in some for value in row])
        self._disk.took(added_bytes)
        self._is_oldest_known &= now.oldest_at_ms is not None
        self._count(len(rows), added_bytes, next_id=next_id)
        return results

    # Delivery

    def delivered(self, ids: list[int]) -> None:
        """They are done with. Ids that are not there are nothing."""
        self._delete("waiting", ids)

    def acknowledged(self, changes: list[tuple[int, Iterable[str]]]) -> None:
        """Who has acknowledged each, all in all."""
        rows = [(json.dumps(sorted(names)), id) for id, names in changes]
        self.connection.executemany("UPDATE waiting SET acknowledged_by = ? WHERE id = ?", rows)

    def later(self, changes: list[tuple[int, int, int, str]]) -> None:
        """id, when it is due (ms since the epoch), tries, why it failed."""
        rows = [(due_at_ms, tries_n, reason, id) for id, due_at_ms, tries_n, reason in changes]
        self.connection.executemany("UPDATE waiting SET due_at_ms = ?, tries_n = ?, reason = ? WHERE id = ?", rows)

    def park(self, changes: list[tuple[int, str, int, str]]) -> None:
        """id, lane, tries, why it failed (empty: it did not)."""
        rows = [(lane, tries_n, reason, id) for id, lane, tries_n, reason in changes]
        self.connection.executemany("UPDATE waiting SET lane = ?, tries_n = ?, reason = ? WHERE id = ?", rows)

    def bury(self, changes: list[tuple[int, int, str, int]]) -> None:
        """id, tries, the last reason, since when it is dead (ms since the epoch)."""
        for id, tries_n, reason, at_ms in changes:
            moved = self.connection.execute(
                "INSERT INTO dead SELECT id, uid, stored_at_ms, bytes, ?, ?, acknowledged_by, ?, publish"
                " FROM waiting WHERE id = ?",
                (tries_n, at_ms, reason, id),
            )
            if moved.rowcount:
                self._count_dead(1, self._delete("waiting", [id]))

    def read_new(self, after_id: int, max_n: int, max_bytes: int) -> tuple[list[Message], int]:
        """The new ones behind this id, in order, and the id up to which there are no others."""
        first = self.connection.execute("SELECT min(id) FROM waiting WHERE id > ?", (after_id,)).fetchone()[0]
        if first is None:
            return [], self.totals.next_id - 1
        last = min(first + MAX_SCANNED, self.totals.next_id) - 1
        messages, is_all = self._read(
            f"SELECT {_COLUMNS}, bytes FROM waiting"
            " WHERE id BETWEEN ? AND ? AND due_at_ms IS NULL AND lane IS NULL ORDER BY id",
            (first, last),
            max_n,
            max_bytes,
        )
        return messages, last if is_all else messages[-1].id

    def take_due(self, now_ms: int, max_n: int, max_bytes: int) -> tuple[list[Message], int | None]:
        """Those that are due, the earliest first, and when the next one is; None: no other waits for a moment."""
        messages, _ = self._read(
            f"SELECT {_COLUMNS}, bytes FROM waiting WHERE due_at_ms <= ? ORDER BY due_at_ms, id",
            (now_ms,),
            max_n,
            min(max_bytes, self._disk.taken_bytes),
        )
        self._at_hand(messages)
        return messages, self.next_due_at_ms()

    def take_lane(self, lane: str, max_n: int, max_bytes: int) -> tuple[list[Message], bool]:
        """The first ones of a lane, and whether these were all."""
        query = f"SELECT {_COLUMNS}, bytes FROM waiting WHERE lane = ? ORDER BY id"
        messages, is_all = self._read(query, (lane,), max_n, min(max_bytes, self._disk.taken_bytes))
        self._at_hand(messages)
        return messages, is_all

    def next_due_at_ms(self) -> int | None:
        """When the next message is due that was tried before (ms since the epoch); None: none."""
        found: int | None = self.connection.execute(
            "SELECT min(due_at_ms) FROM waiting WHERE due_at_ms IS NOT NULL"
        ).fetchone()[0]
        return found

    def limit_due(self, latest_at_ms: int) -> None:
        """None is due later than this: clocks were set back, or the configuration changed."""
        self.connection.execute("UPDATE waiting SET due_at_ms = ? WHERE due_at_ms > ?", (latest_at_ms, latest_at_ms))

    def lanes(self) -> list[str]:
        """Those in which messages wait."""
        found: list[str] = []
        lane = self.connection.execute("SELECT min(lane) FROM waiting WHERE lane IS NOT NULL").fetchone()[0]
        while lane is not None:  # from one to the next by the index: a million messages may be in one
            found.append(lane)
            lane = self.connection.execute("SELECT min(lane) FROM waiting WHERE lane > ?", (lane,)).fetchone()[0]
        return found

    # Operators

    def list_waiting(self, after_id: int, max_n: int, max_bytes: int) -> list[Letter]:
        """A page of those that wait, by id; empty: there are no others."""
        query = f"SELECT {_COLUMNS}, bytes, reason, due_at_ms FROM waiting WHERE id > ? ORDER BY id"
        return [Letter(_message(row), row[7], row[8], None) for row in self._rows(query, (after_id,), max_n, max_bytes)]

    def list_dead(self, after_id: int, max_n: int, max_bytes: int) -> list[Letter]:
        """A page of dead letters, by id; empty: there are no others."""
        query = f"SELECT {_COLUMNS}, bytes, reason, dead_at_ms FROM dead WHERE id > ? ORDER BY id"
        return [Letter(_message(row), row[7], None, row[8]) for row in self._rows(query, (after_id,), max_n, max_bytes)]

    def requeue(self, ids: Sequence[int], now_ms: int) -> int:
        """Dead letters are tried again, as often as others, where they are not acknowledged; how many there were."""
        n = 0
        for id in ids:
            self.connection.execute(
                "INSERT INTO waiting (id, uid, stored_at_ms, bytes, due_at_ms, acknowledged_by, reason, publish)"
                " SELECT id, uid, stored_at_ms, bytes, ?, acknowledged_by, reason, publish FROM dead WHERE id = ?",
                (now_ms, id),
            )
            (found,) = self.connection.execute("SELECT changes()").fetchone()
            if found:
                n += 1
                self._is_oldest_known = False
                self._count(1, self._delete("dead", [id]))
        return n

    def remove(self, ids: Sequence[int]) -> int:
        """They are gone, dead or waiting; how many there were."""
        before = self.totals.waiting_n + self.totals.dead_n
        self._delete("waiting", ids)
        self._delete("dead", ids)
        return before - self.totals.waiting_n - self.totals.dead_n

    # Helpers

    def _log_has(self, size: int) -> bool:
        """Whether the log has so many bytes, as of a commit since `shorten_log`.

        Its file has as many as it ever had. A frame is of the log as it is now where it has the salt of the header.
        https://www.sqlite.org/fileformat2.html#the_write_ahead_log
        """
        at = _LOG_HEADER_BYTES + size // self._frame_bytes * self._frame_bytes
        salt = os.pread(self._log_fd, _SALT_BYTES, at + _SALT_AT_OF_FRAME)
        return len(salt) == _SALT_BYTES and salt == os.pread(self._log_fd, _SALT_BYTES, _SALT_AT)

    def _free_pages_n(self) -> int:
        found: int = self.connection.execute("PRAGMA freelist_count").fetchone()[0]
        return found

    def _write_row(self, *values: int | None) -> None:
        self.connection.execute(
            "UPDATE totals SET next_id = ?, waiting_n = ?, waiting_bytes = ?, dead_n = ?, dead_bytes = ?", values
        )

    def _counts(self, those: str, values: Sequence[int] = ()) -> tuple[int, int]:
        """How many rows these are, and how many bytes they have."""
        query = f"SELECT count(*), ifnull(sum(bytes), 0) FROM {those}"
        found: tuple[int, int] = self.connection.execute(query, values).fetchone()
        return found

    def _delete(self, table: str, ids: Sequence[int]) -> int:
        """How many bytes they had."""
        freed = 0
        for at in range(0, len(ids), MAX_ROWS):
            some = ids[at : at + MAX_ROWS]
            those = f"{table} WHERE id IN ({_marks(len(some))})"
            n, size = self._counts(those, some)
            self.connection.execute(f"DELETE FROM {those}", some)
            freed += size
            if table == "waiting":
                self._count(-n, -size)
                self._is_oldest_known = False
            else:
                self._count_dead(-n, -size)
        return freed

    def _at_hand(self, messages: list[Message]) -> None:
        ids = [(message.id,) for message in messages]
        self.connection.executemany("UPDATE waiting SET due_at_ms = NULL, lane = NULL WHERE id = ?", ids)

    def _read(self, query: str, values: tuple[object, ...], max_n: int, max_bytes: int) -> tuple[list[Message], bool]:
        """As many as fit, one at least, and whether these were all."""
        rows = self._rows(query, values, max_n + 1, max_bytes)
        is_all = len(rows) <= max_n and sum(row[6] for row in rows) <= max_bytes
        return [_message(row) for row in (rows if is_all else rows[: max(1, min(max_n, len(rows) - 1))])], is_all

    def _rows(self, query: str, values: tuple[object, ...], max_n: int, max_bytes: int) -> list[Row]:
        """As many as it takes to be over max_bytes."""
        rows = []
        cursor = self.connection.execute(query + " LIMIT ?", (*values, max_n))
        for row in cursor:
            rows.append(row)
            max_bytes -= row[6]
            if max_bytes < 0:
                break
        cursor.close()
        return rows

    def _count(self, n: int, size: int, *, next_id: int | None = None) -> None:
        now = self.totals
        self.totals = structs.replace(
            now,
            next_id=next_id or now.next_id,
            waiting_n=now.waiting_n + n,
            waiting_bytes=now.waiting_bytes + size,
        )

    def _count_dead(self, n: int, size: int) -> None:
        self.totals = structs.replace(
            self.totals, dead_n=self.totals.dead_n + n, dead_bytes=self.totals.dead_bytes + size
        )

    def _oldest_at_ms(self) -> int | None:
        row = self.connection.execute("SELECT stored_at_ms FROM waiting ORDER BY id LIMIT 1").fetchone()
        return row[0] if row else None


class _Disk:
    """Where the file is, and what is free there. Asks the system seldom, which lets other threads run meanwhile."""

    def __init__(self, folder: Path) -> None:
        """OSError."""
        self._folder: Final = folder
        whole = os.statvfs(folder)
        self.spare_bytes: Final = min(SPARE_BYTES, whole.f_blocks * whole.f_frsize // SPARE_PART)
        self.taken_bytes: Final = self.spare_bytes // 4  # of messages taken at once: each is written again, whole
        self._known_bytes = 0  # that messages may take until the system is asked again

    def has_room(self, size: int, free_pages_n: Callable[[], int]) -> bool:
        """Whether messages of this size may be stored; there are so many pages in the file that nobody uses."""
        if 2 * size > self._known_bytes:  # each is written twice, to the log and from there to the file
            now = os.statvfs(self._folder)
            room = now.f_bavail * now.f_frsize + free_pages_n() * PAGE_BYTES - self.spare_bytes
            self._known_bytes = min(room, max(2 * size, self.spare_bytes // 8))
        return 2 * size <= self._known_bytes

    def took(self, size: int) -> None:
        """Messages of this size were stored."""
        self._known_bytes -= 2 * size


def _create(path: Path) -> None:
    """An empty file that nobody else reads. One that is there is left alone: closing it would end the locks that this
    process has on it (POSIX)."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        sync_folder(path.parent)  # so that a power failure does not take the file away


def _message(row: Row) -> Message:
    return Message(
        id=row[0],
        uid=row[1],
        stored_at_ms=row[2],
        tries_n=row[3],
        acknowledged_by=frozenset(json.loads(row[4])),
        publish=_decode(row[5]),
    )


@cache
def _marks(n: int) -> str:
    return ", ".join("?" * n)


@cache
def _insert(n: int) -> str:
    return f"INSERT INTO waiting (id, uid, stored_at_ms, bytes, publish) VALUES {', '.join(['(?, ?, ?, ?, ?)'] * n)}"
