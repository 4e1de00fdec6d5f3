"""Tables without Spark: where their files lie, and reading some columns, some days, and while files are exchanged."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_sink.errors import BadFolder
from spark_sink.pipeline.rows import gap_row
from spark_sink.tables import (
    COLUMNS,
    GAPS,
    PARTIALS,
    RETRIES,
    SESSIONS,
    TIMES,
    check_tables,
    read_files,
    read_table,
    table_schema,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def gap(at: datetime, reason: str) -> dict[str, Any]:
    return gap_row(at, ("b", "one", 1), (1, 2), reason, "")


def write(tables: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    folder = tables / GAPS / f"date={rows[0]['event_time']:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, table_schema(GAPS)), folder / name)
    return folder / name


def test_every_table_has_its_time() -> None:
    assert set(COLUMNS) == set(TIMES)
    assert all(TIMES[table] in table_schema(table).names for table in COLUMNS)
    assert all(COLUMNS[partial.name] == partial.columns for partial in PARTIALS)


def test_some_columns_since_a_moment_are_read_and_days_before_it_are_not_opened(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", [gap(NOON, "a"), gap(NOON + timedelta(hours=1), "b")])
    old = write(tmp_path, "1.parquet", [gap(NOON - timedelta(days=1), "old")])
    assert sorted(read_table(tmp_path, GAPS, ["reason"])["reason"].to_pylist()) == ["a", "b", "old"]
    old.write_text("nobody looks into it")
    table = read_table(tmp_path, GAPS, ["reason", "event_time"], NOON + timedelta(minutes=1))
    assert table.to_pylist() == [{"reason": "b", "event_time": NOON + timedelta(hours=1)}]
    east = datetime.fromisoformat("2026-11-21T00:30:00+13:00")  # in UTC it is the day before
    assert read_table(tmp_path, GAPS, ["reason"], east)["reason"].to_pylist() == ["a", "b"]


def test_table_that_nobody_made_is_empty_with_its_columns(tmp_path: Path) -> None:
    assert read_table(tmp_path, GAPS).schema == table_schema(GAPS)
    assert read_table(tmp_path, GAPS, ["event_time"]).schema.names == ["event_time"]


def test_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", [gap(NOON, "a")]).write_text("no")
    with pytest.raises(BadFolder, match=r"the table gaps .*1\.parquet"):
        read_table(tmp_path, GAPS)


@pytest.mark.parametrize("table, name, old", [(GAPS, "event_time", "at"), (SESSIONS, "ended_as", "end")])
def test_tables_of_an_older_version_are_refused_with_the_command_that_renames_their_columns(
    tmp_path: Path, table: str, name: str, old: str
) -> None:
    write(tmp_path, "new.parquet", [gap(NOON, "a")])
    names = [old if column == name else column for column in table_schema(table).names]
    folder = tmp_path / table / "date=2026-11-19"
    folder.mkdir(parents=True)
    pq.write_table(table_schema(table).empty_table().rename_columns(names), folder / "old.parquet")
    told = f"the table {table} in {tmp_path} .* {old} .* pipeline upgrade --tables {tmp_path}"
    for read in (check_tables, lambda tables: read_table(tables, table)):
        with pytest.raises(BadFolder, match=told):
            read(tmp_path)


def test_files_that_are_exchanged_while_they_are_read_are_read_again_and_told_if_they_vanish_for_ever(
    tmp_path: Path,
) -> None:
    path, tries = write(tmp_path, "1.parquet", [gap(NOON, "a")]), list[list[str]]()

    def read(files: list[str]) -> int:
        tries.append(files)
        if len(tries) < RETRIES:
            raise FileNotFoundError("1.parquet")
        return len(files)

    assert read_files(tmp_path, GAPS, None, read) == 1
    assert tries == [[str(path)]] * RETRIES

    def never(_files: list[str]) -> int:
        raise FileNotFoundError("1.parquet")

    with pytest.raises(BadFolder, match="vanish while they are read"):
        read_files(tmp_path, GAPS, None, never)
