"""The log of posts, as tables of one SQLite file. Knows no threads, no asyncio and no clock.

    posts      seq state at_ms topic rel_path number pub_time before body       (before: of a rename the old path)
    files      rel_path kind size mtime_ns device inode names_n target place is_sealed method value first_seq
    sinks      name confirmed_to                 all posts up to it are confirmed by this sink
    confirmed  sink seq                          those beyond
    consumers  name first_at_ms last_at_ms       who has reported
    reports    seq consumer code has_it elapsed message at_ms        the last one of each consumer for each post

`files` is what the folder held when it was posted. A post STANDS for a file as long as it is the last one of it; all
blocks of a file stand for it. One that says that a name is gone, a removal or a rename that was followed by another
post, is GONE; all others are SUPERSEDED, and nobody is sent them any more: their data is not there. What stands is kept
as long as its file is there, so who comes late finds the whole folder; of the others the oldest go (`trim`).
"""

import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from spark_sink.feed.errors import BadPost, PostLogError
from spark_sink.feed.identity import Identity
from spark_sink.feed.posts import REMOVE, Post
from spark_sink.feed.producer.scanning import Entry
from spark_sink.feed.reports import DOWNLOADED, NOT_MODIFIED, RESET, TRANSFORMED, Report
from spark_sink.feed.times import read_time
from spark_sink.feed.topics import dirs_of

SCHEMA: Final = 1  # PRAGMA user_version
STANDS: Final = 0
GONE: Final = 1
SUPERSEDED: Final = 2

KEEP_POSTS: Final = 100_000  # posts that stand for no file; then the oldest of them go
KEEP_S: Final = 30 * 86_400.0  # how long these are kept at most
MAX_CONSUMERS: Final = 256  # that reports are kept of, besides required ones; reports of more are refused
MAX_NAME_CHARACTERS: Final = 255  # of a consumer; a longer name is cut
MAX_MESSAGE_CHARACTERS: Final = 300  # of what a report says; the rest is cut
TRIMMED_N: Final = 1_000  # posts that are removed in one transaction at most
FILE_MODE: Final = 0o640

# Codes after which the consumer has the file: written, transformed, written and recomputed, there before.
HAS_IT: Final = frozenset((DOWNLOADED, TRANSFORMED, RESET, NOT_MODIFIED))

_CREATE: Final = f"""
CREATE TABLE origin (id TEXT NOT NULL);
CREATE TABLE posts (seq INTEGER PRIMARY KEY AUTOINCREMENT, state INTEGER NOT NULL, at_ms INTEGER NOT NULL,
    topic TEXT NOT NULL, rel_path TEXT NOT NULL, number INTEGER NOT NULL, pub_time TEXT NOT NULL,
    before TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX posts_path ON posts (rel_path, seq);
CREATE INDEX posts_old ON posts (seq) WHERE state > {STANDS};
CREATE TABLE files (rel_path TEXT PRIMARY KEY, kind TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    device INTEGER NOT NULL, inode INTEGER NOT NULL, names_n INTEGER NOT NULL, target TEXT NOT NULL,
    place TEXT NOT NULL, is_sealed INTEGER NOT NULL, method TEXT NOT NULL, value TEXT NOT NULL,
    first_seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE sinks (name TEXT PRIMARY KEY, confirmed_to INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE confirmed (sink TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (sink, seq)) WITHOUT ROWID;
CREATE TABLE consumers (name TEXT PRIMARY KEY, first_at_ms INTEGER NOT NULL, last_at_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE reports (seq INTEGER NOT NULL, consumer TEXT NOT NULL, code INTEGER NOT NULL, has_it INTEGER NOT NULL,
    elapsed TEXT NOT NULL, message TEXT NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (seq, consumer)) WITHOUT ROWID;
PRAGMA user_version = {SCHEMA};
"""
_HAS: Final = "EXISTS (SELECT 1 FROM reports WHERE reports.seq = posts.seq AND consumer = ? AND has_it)"
_FILE_COLUMNS: Final = "kind, size, mtime_ns, device, inode, names_n, target, place, is_sealed"


class Logged(NamedTuple):
    """A post in the log."""

    seq: int
    topic: str  # dotted, not escaped
    rel_path: str
    body: bytes


class Posting(NamedTuple):
    """What is posted of one path, and what is known of it then."""

    path: str
    posts: Sequence[Post]  # more than one: its blocks; none: nothing is said of it
    entry: Entry | None  # None: it is gone
    identity: Identity | None = None  # of the whole file
    before: str = ""  # of a rename the path that is gone


class Heard(NamedTuple):
    """A report that has come."""

    post: Post
    report: Report
    at_ms: int

    @property
    def consumer(self) -> str:
        """Who reports, `user@host`."""
        return f"{self.report.user}@{self.report.host}"[:MAX_NAME_CHARACTERS]


class PostRow(NamedTuple):
    """A post, for operators."""

    seq: int
    stands: bool  # for a file that is there
    at_ms: int
    topic: str
    rel_path: str
    number: int  # of the block; -1: it is about the whole file
    pub_time: str


class ReportRow(NamedTuple):
    """What a consumer has said of a post, the last time."""

    consumer: str
    code: int
    has_it: bool
    message: str
    at_ms: int


class ConsumerRow(NamedTuple):
    """A consumer, and how far it is."""

    name: str
    first_at_ms: int
    last_at_ms: int
    has_n: int  # of the posts that stand for a file
    failed_n: int  # of these, reported and not there
    missing_n: int  # not there
    missing_since_ms: int | None  # when the first of these was posted; None: none is missing


class PostTables:
    """One file, which one process writes. All methods but `begin` and `commit` are for a transaction."""

    def __init__(self, path: Path, *, required: Collection[str] = (), is_synced: bool = True) -> None:
        """`required`: consumers whose reports are kept, however many others there are. `is_synced`: what is committed
        survives a power failure, too. PostLogError: it is no log of posts."""
        self.path: Final = path
        self._required: Final = frozenset(required)
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            self.connection: Final = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise PostLogError(f"log of posts {path}: {error}") from error
        try:
            self._open(is_synced)
            (self.origin,) = self.connection.execute("SELECT id FROM origin").fetchone()
        except sqlite3.Error as error:
            self.connection.close()
            raise PostLogError(f"log of posts {path}: {error}") from error
        except PostLogError:
            self.connection.close()
            raise

    def _open(self, is_synced: bool) -> None:
        run = self.connection.execute
        run("PRAGMA journal_mode = WAL")  # who reads does not wait for who writes
        run(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
        run("BEGIN IMMEDIATE")
        (version,) = run("PRAGMA user_version").fetchone()
        if version == 0 and run("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            for statement in _CREATE.split(";\n"):
                run(statement)
            run("INSERT INTO origin VALUES (?)", (os.urandom(8).hex(),))
        elif version != SCHEMA:
            raise PostLogError(f"log of posts {self.path}: it has schema {version}, this version reads {SCHEMA}")
        run("COMMIT")

    def close(self) -> None:
        """The file is whole."""
        self.connection.close()

    def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """When it returns, all since `begin` is there for good."""
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """All is as it was at `begin`."""
        if self.connection.in_transaction:  # a full disk has ended it already
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")

    # At the start

    def keep_sinks(self, names: Sequence[str]) -> None:
        """These are the sinks there are; what was confirmed by others is forgotten."""
        run = self.connection.execute
        for (name,) in run("SELECT name FROM sinks").fetchall():
            if name not in names:
                run("DELETE FROM sinks WHERE name = ?", (name,))
                run("DELETE FROM confirmed WHERE sink = ?", (name,))
        self.connection.executemany("INSERT OR IGNORE INTO sinks VALUES (?, 0)", [(name,) for name in names])

    def known(self) -> dict[str, Entry]:
        """What the folder held, by relPath."""
        rows = self.connection.execute(f"SELECT rel_path, {_FILE_COLUMNS} FROM files")
        return {path: Entry._make((*values, bool(is_sealed))) for path, *values, is_sealed in rows}

    def confirmed(self, sink: str) -> tuple[int, set[int]]:
        """Up to which post a sink has confirmed all, and those beyond."""
        run = self.connection.execute
        (to,) = run("SELECT confirmed_to FROM sinks WHERE name = ?", (sink,)).fetchone()
        return to, {seq for (seq,) in run("SELECT seq FROM confirmed WHERE sink = ?", (sink,))}

    # Writing

    def append(self, posting: Posting, prefix: str, at_ms: int) -> None:
        """The posts of one path, behind all others."""
        run = self.connection.execute
        first = self.last_seq()
        for post in posting.posts:
            topic = ".".join([prefix, *dirs_of(post.rel_path)])
            number = -1 if post.blocks is None else post.blocks.number
            is_gone = post.file_op is not None and post.file_op.kind == REMOVE
            run(
                "INSERT INTO posts (state, at_ms, topic, rel_path, number, pub_time, before, body) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    GONE if is_gone else STANDS,
                    at_ms,
                    topic,
                    post.rel_path,
                    number,
                    post.pub_time,
                    posting.before,
                    post.encode(),
                ),
            )
        for path in filter(None, (posting.path, posting.before)):
            run(
                f"UPDATE posts SET state = CASE before WHEN '' THEN {SUPERSEDED} ELSE {GONE} END "
                f"WHERE rel_path = ? AND seq <= ? AND state < {SUPERSEDED}",
                (path, first),
            )
        if posting.before:
            run("DELETE FROM files WHERE rel_path = ?", (posting.before,))
        if posting.entry is None:
            run("DELETE FROM files WHERE rel_path = ?", (posting.path,))
        else:
            method, value = ("", "") if posting.identity is None else (posting.identity.method, posting.identity.value)
            run(
                f"INSERT OR REPLACE INTO files VALUES ({', '.join('?' * 13)})",
                (posting.path, *posting.entry, method, value, first + 1),
            )

    def confirm(self, sink: str, seqs: Iterable[int]) -> None:
        """A sink has confirmed these."""
        self.connection.executemany("INSERT OR IGNORE INTO confirmed VALUES (?, ?)", [(sink, seq) for seq in seqs])

    def confirm_to(self, sink: str, to_seq: int) -> None:
        """It has confirmed all up to this one."""
        run = self.connection.execute
        run("UPDATE sinks SET confirmed_to = ? WHERE name = ?", (to_seq, sink))
        run("DELETE FROM confirmed WHERE sink = ? AND seq <= ?", (sink, to_seq))

    def report(self, heard: Heard) -> bool:
        """Keeps it, unless a later one came before; False: of no post that is here, or of one consumer too many."""
        run = self.connection.execute
        post, report = heard.post, heard.report
        number = -1 if post.blocks is None else post.blocks.number
        found = run(
            "SELECT seq FROM posts WHERE rel_path = ? AND pub_time = ? AND number = ? ORDER BY seq DESC LIMIT 1",
            (post.rel_path, post.pub_time, number),
        ).fetchone()
        if found is None:
            return False
        consumer = heard.consumer
        if run("SELECT 1 FROM consumers WHERE name = ?", (consumer,)).fetchone() is None:
            others = {name for (name,) in run("SELECT name FROM consumers")} - self._required
            if consumer not in self._required and len(others) >= MAX_CONSUMERS:
                return False
            run("INSERT INTO consumers VALUES (?, ?, ?)", (consumer, heard.at_ms, heard.at_ms))
        else:
            run("UPDATE consumers SET last_at_ms = ? WHERE name = ?", (heard.at_ms, consumer))
        key, has_it, elapsed = (found[0], consumer), report.code in HAS_IT, report.elapsed[:MAX_NAME_CHARACTERS]
        last = run("SELECT elapsed FROM reports WHERE seq = ? AND consumer = ?", key).fetchone()
        if last is not None and _is_earlier(elapsed, last[0]):  # one that waited while its poster was away
            run("UPDATE reports SET has_it = max(has_it, ?) WHERE seq = ? AND consumer = ?", (has_it, *key))
            return True
        run(
            "INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET code = excluded.code, "
            "has_it = max(has_it, excluded.has_it), elapsed = excluded.elapsed, message = excluded.message, "
            "at_ms = excluded.at_ms",
            (*key, report.code, has_it, elapsed, report.message[:MAX_MESSAGE_CHARACTERS], heard.at_ms),
        )
        return True

    def trim(self, keep_n: int, before_ms: int) -> int:
        """Removes posts that stand for no file: those before that moment, and the oldest beyond `keep_n`; TRIMMED_N at
        most. How many these were."""
        run = self.connection.execute
        old = f"FROM posts WHERE state > {STANDS} ORDER BY seq"
        most = run(f"SELECT seq {old} DESC LIMIT 1 OFFSET ?", (keep_n,)).fetchone()
        seqs = [
            seq
            for seq, at_ms in run(f"SELECT seq, at_ms {old} LIMIT {TRIMMED_N}").fetchall()
            if at_ms < before_ms or (most is not None and seq <= most[0])
        ]
        for table in ("posts", "reports"):
            self.connection.executemany(f"DELETE FROM {table} WHERE seq = ?", [(seq,) for seq in seqs])
        return len(seqs)

    # Reading

    def last_seq(self) -> int:
        """Of all posts that there ever were; 0: there was none."""
        row = self.connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'posts'").fetchone()
        return 0 if row is None else int(row[0])

    def read(self, after_seq: int, max_n: int, max_bytes: int) -> list[Logged]:
        """Posts behind this number, in order, without those that are superseded; one at least, if there is one."""
        found: list[Logged] = []
        left = max_bytes
        rows: Iterator[Any] = self.connection.execute(
            f"SELECT seq, topic, rel_path, body FROM posts WHERE seq > ? AND state < {SUPERSEDED} ORDER BY seq LIMIT ?",
            (after_seq, max_n),
        )
        for row in rows:
            left -= len(row[3])
            if found and left < 0:
                break
            found.append(Logged(*row))
        return found

    def identity_of(self, path: str) -> Identity | None:
        """As what is there under this name was posted; None: as nothing, or in blocks, or it is not known."""
        row = self.connection.execute("SELECT method, value FROM files WHERE rel_path = ?", (path,)).fetchone()
        return Identity(*row) if row is not None and row[0] else None

    def posts(self, after_seq: int, max_n: int, path: str = "", without: str = "") -> list[PostRow]:
        """Posts behind this number that are not superseded, in order. `path`: only those of this relPath; `without`:
        only those of files that this consumer has not got."""
        where, given = ["seq > ?", f"state < {SUPERSEDED}"], [str(after_seq)]
        if path:
            where.append("rel_path = ?")
            given.append(path)
        if without:
            where += [f"state = {STANDS}", f"NOT {_HAS}"]
            given.append(without)
        rows = self.connection.execute(
            f"SELECT seq, state = {STANDS}, at_ms, topic, rel_path, number, pub_time FROM posts "
            f"WHERE {' AND '.join(where)} ORDER BY seq LIMIT ?",
            (*given, max_n),
        )
        return [PostRow(row[0], bool(row[1]), *row[2:]) for row in rows]

    def reports_of(self, seq: int) -> list[ReportRow]:
        """The last report of each consumer, by its name."""
        rows = self.connection.execute(
            "SELECT consumer, code, has_it, message, at_ms FROM reports WHERE seq = ? ORDER BY consumer", (seq,)
        )
        return [ReportRow(row[0], row[1], bool(row[2]), *row[3:]) for row in rows]

    def consumers(self) -> list[ConsumerRow]:
        """Who has reported, by name, and what they have and lack of the posts that stand for a file."""
        run = self.connection.execute
        (standing_n,) = run(f"SELECT count(*) FROM posts WHERE state = {STANDS}").fetchone()
        counts = {
            name: (has_n, failed_n)
            for name, has_n, failed_n in run(
                "SELECT consumer, sum(has_it), sum(NOT has_it) FROM reports JOIN posts USING (seq) "
                f"WHERE state = {STANDS} GROUP BY consumer"
            )
        }
        found = []
        for name, first_at_ms, last_at_ms in run("SELECT * FROM consumers ORDER BY name").fetchall():
            has_n, failed_n = counts.get(name, (0, 0))
            since = None
            if has_n < standing_n:
                since = run(
                    f"SELECT at_ms FROM posts WHERE state = {STANDS} AND NOT {_HAS} ORDER BY seq LIMIT 1", (name,)
                ).fetchone()
            missing_n = standing_n - has_n
            found.append(ConsumerRow(name, first_at_ms, last_at_ms, has_n, failed_n, missing_n, since and since[0]))
        return found

    def unreported(self, consumer: str) -> Iterator[str]:
        """relPath of posts that stand for a file that the consumer has not got, in order."""
        rows = self.connection.execute(
            f"SELECT rel_path FROM posts WHERE state = {STANDS} AND NOT {_HAS} ORDER BY seq", (consumer,)
        )
        return (path for (path,) in rows)


def _is_earlier(elapsed: str, other: str) -> bool:
    """Of two moments as reports say them; False where one of them is none."""
    try:
        return read_time("elapsedTime", elapsed) < read_time("elapsedTime", other)
    except BadPost:
        return False
