"""The tables through DuckDB: files that are exchanged, differ or have odd names; nothing is left or loaded."""

import importlib
import re
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_sink.errors import BadFolder
from spark_sink.report.facts import read_facts
from spark_sink.report.reading import TableReader, read_tables
from spark_sink.tables import RETRIES, TRAFFIC
from tests.spark_sink.report.tables import NOON, traffic_row, write

ROOT = Path(__file__).resolve().parents[3]
DAY = f"{TRAFFIC}/date=2026-11-20"


def requests_of(reader: TableReader) -> int:
    [(count,)] = reader.rows(f"SELECT sum(requests)::BIGINT FROM {reader.rows_of(TRAFFIC)}")
    assert isinstance(count, int)
    return count


def write_batches(folder: Path, count: int = 40) -> None:
    for batch in range(count):
        write(folder, {"traffic": [traffic_row(requests=batch)]}, f"000001-{batch:010d}.parquet")


@pytest.mark.parametrize("when", ["before the first question", "after it"])
def test_a_day_that_is_compacted_while_it_is_read_is_read_once(tmp_path: Path, when: str) -> None:
    """The folder is exchanged with one of other files, as compaction does it: neither a row twice nor one less."""
    write_batches(tmp_path)
    write(tmp_path / "new", {"traffic": [traffic_row(requests=sum(range(40)))]}, "compact-000001.parquet")
    tries: list[int] = []

    def read(reader: TableReader) -> list[int]:
        tries.append(0)
        found = [requests_of(reader)] if when == "after it" else []
        if len(tries) == 1:
            (tmp_path / DAY).rename(tmp_path / "old")
            (tmp_path / "new" / DAY).rename(tmp_path / DAY)
        return [*found, requests_of(reader)]

    assert set(read_tables(tmp_path, read)) == {sum(range(40))}
    assert len(tries) == 2


def test_files_that_vanish_again_and_again_are_one_sentence(tmp_path: Path) -> None:
    def read(reader: TableReader) -> int:
        (tmp_path / DAY / f"{len(tries)}.parquet").unlink()
        tries.append(0)
        return requests_of(reader)

    tries: list[int] = []
    for number in range(RETRIES + 1):
        write(tmp_path, {"traffic": [traffic_row()]}, f"{number}.parquet")
    with pytest.raises(BadFolder, match="vanish while they are read") as raised:
        read_tables(tmp_path, read)
    assert (len(tries), "\n" in str(raised.value)) == (RETRIES, False)


@pytest.mark.parametrize("lacking", ["a.parquet", "b.parquet", "both"])
def test_a_column_that_a_file_lacks_is_empty(tmp_path: Path, lacking: str) -> None:
    for name in ("a.parquet", "b.parquet"):
        write(tmp_path, {"traffic": [traffic_row(word="x")]}, name)
        if lacking in (name, "both"):
            path = tmp_path / DAY / name
            pq.write_table(pq.read_table(path).drop_columns(["word"]), path)

    def words(reader: TableReader) -> list[str]:
        return sorted(word for (word,) in reader.rows(f"SELECT word FROM {reader.rows_of(TRAFFIC)}"))

    assert read_tables(tmp_path, words) == (["", ""] if lacking == "both" else ["", "x"])


def test_a_file_that_ends_too_early_is_one_sentence_with_its_table(tmp_path: Path) -> None:
    write_batches(tmp_path, 3)
    path = tmp_path / DAY / "000001-0000000001.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(BadFolder, match="a file of the table traffic in ") as raised:
        read_facts(tmp_path)
    assert "\n" not in str(raised.value)


def test_names_of_folders_are_no_patterns_and_no_sql(tmp_path: Path) -> None:
    folder = tmp_path / "it's [a-z]*?"
    write(folder, {"traffic": [traffic_row("'; DROP TABLE x; --", route_id="'r'")]})
    assert read_facts(folder).traffic.services == ["'; DROP TABLE x; --"]


def test_what_memory_does_not_hold_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spilled"))
    (tmp_path / "spilled").mkdir()
    write_batches(tmp_path / "tables", 2)

    def read(reader: TableReader) -> int:
        reader.rows("SET memory_limit = '20MB'")
        reader.make("many", "SELECT range AS n, 'text ' || range AS name FROM range(2_000_000)")
        assert list((tmp_path / "spilled").glob("*/*"))
        return requests_of(reader)

    assert read_tables(tmp_path / "tables", read) == 1
    assert list((tmp_path / "spilled").iterdir()) == []


def test_nothing_is_loaded_from_the_network(tmp_path: Path) -> None:
    write(tmp_path, {"traffic": [traffic_row(minute=NOON)]})

    def refused(reader: TableReader) -> str:
        with pytest.raises(reader.error) as raised:
            reader.rows("SELECT * FROM read_parquet('https://127.0.0.1:1/a.parquet')")
        return str(raised.value)

    assert "httpfs" in read_tables(tmp_path, refused)


def test_limits_are_listed_with_their_numbers() -> None:
    text = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8").partition("## Bounds of the report\n")[2]
    listed = re.findall(r"^\| `([\w.]+)\.(\w+)` \| ([^|]+) \|", text.partition("\n## ")[0], re.MULTILINE)
    assert len(listed) == 4
    for module, name, value in listed:
        assert str(getattr(importlib.import_module(f"spark_sink.report.{module}"), name)) == value.replace(",", "")
