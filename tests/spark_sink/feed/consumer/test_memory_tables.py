"""spark_sink.feed.consumer.memory_tables: what is kept over restarts, and over versions."""

import sqlite3
from pathlib import Path

import pytest

from spark_sink.feed.consumer.memory_tables import MemoryFileError, MemoryTables, Retry
from spark_sink.feed.consumer.winnow import Remembered
from spark_sink.feed.identity import Identity

# As the first version made it.
SCHEMA_1 = """
CREATE TABLE remembered (fingerprint BLOB PRIMARY KEY, place BLOB NOT NULL, pub_time_ns INTEGER NOT NULL,
    at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX remembered_at ON remembered (at);
CREATE TABLE retries (id INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT NOT NULL, due_at REAL NOT NULL,
    tries INTEGER NOT NULL, reason TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX retries_due ON retries (host, due_at);
CREATE TABLE outgoing (seq INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX outgoing_queue ON outgoing (queue, seq);
CREATE TABLE blocks (part TEXT NOT NULL, number INTEGER NOT NULL, method TEXT NOT NULL, value TEXT NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (part, number)) WITHOUT ROWID;
PRAGMA user_version = 1;
INSERT INTO remembered VALUES (x'01', x'02', 3, 4.0);
INSERT INTO retries VALUES (7, 'h', 5.0, 2, 'because', x'0a');
INSERT INTO outgoing VALUES (1, 'posts r', x'0b');
INSERT INTO blocks VALUES ('p', 0, 'md5', 'v', x'0c');
"""


def test_a_file_of_schema_1_is_upgraded_with_all_that_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "m.memory"
    with sqlite3.connect(path) as made:
        made.executescript(SCHEMA_1)
    made.close()
    for own in ([], [Retry(8, "h", 6.0, 0, "new", b"\x0d", "s")]):  # what is upgraded is opened as any other
        tables = MemoryTables(path)
        assert tables.remembered() == [Remembered(b"\x01", b"\x02", 3, 4.0)]
        assert tables.take_due(9.0, lambda _: 9) == [Retry(7, "h", 5.0, 2, "because", b"\x0a", ""), *own]
        assert tables.first_outgoing("posts r", 9) == [(1, b"\x0b")]
        assert tables.blocks("p") == {0: Identity("md5", "v")}
        if not own:
            tables.add_retry("h", 6.0, 0, "new", b"\x0d", "s")
        tables.close()


def test_a_file_of_a_later_schema_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "m.memory") as made:
        made.execute("PRAGMA user_version = 3")
    made.close()
    with pytest.raises(MemoryFileError, match="it has schema 3, this version reads 2"):
        MemoryTables(tmp_path / "m.memory")
