from pathlib import Path

import pyarrow as pa
import pytest

from broker import events
from spark_sink import schema, tables
from spark_sink.columns import Column

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "spark" / "events.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "columns", [*schema.COLUMNS.values(), *(of for name, of in tables.COLUMNS.items() if "_by_" not in name)]
)
def test_document_shows_the_columns_of_every_file_and_table(columns: tuple[Column, ...]) -> None:
    lines = ["| column | type | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{column.name}` | `{column.kind}` | {column.meaning} |" for column in columns]
    assert "\n".join(lines) in DOCUMENT


@pytest.mark.parametrize("partial", tables.ROLL_UPS)
def test_document_shows_the_time_of_every_roll_up(partial: tables.Partial) -> None:
    time = partial.keys[0]
    assert f"`{partial.name}`" in DOCUMENT
    assert f"| `{time.name}` | `{time.kind}` | {time.meaning} |" in DOCUMENT


def test_no_column_needs_quotes_in_sql() -> None:
    duckdb = pytest.importorskip("duckdb")
    words = dict(duckdb.sql("SELECT keyword_name, keyword_category FROM duckdb_keywords()").fetchall())
    names = {column.name for found in (schema.COLUMNS, tables.COLUMNS) for each in found.values() for column in each}
    assert [name for name in names if words.get(name, "unreserved") != "unreserved"] == []


def test_document_names_every_kind_of_event() -> None:
    assert all(f"| {number} | {name} |" in DOCUMENT for number, name in events.KIND_NAMES.items())


@pytest.mark.parametrize(
    "fields, meanings, columns",
    [
        (events.FLOW_FIELDS, events.FLOW_MEANINGS, schema.FLOW_COLUMNS),
        (events.LIFECYCLE_FIELDS, events.LIFECYCLE_MEANINGS, schema.LIFECYCLE_COLUMNS),
    ],
)
def test_every_field_of_a_record_has_a_meaning_and_its_columns_once(
    fields: tuple[str, ...], meanings: dict[str, str], columns: tuple[Column, ...]
) -> None:
    assert set(fields) == set(meanings)
    expected = [column.name for name in fields for column in schema.field_columns(name, meanings)]
    assert sorted(column.name for column in columns) == sorted(["broker_id", "broker_name", "epoch", *expected])


def test_every_field_of_a_request_and_of_its_flow_has_a_column() -> None:
    made = {"started_at_us": "started_at", "flow": "service"}  # a flow becomes the columns of its definition
    names = {made.get(name, name) for name in (*events.REQUEST_FIELDS, *events.DEFINITION_FIELDS)}
    assert {column.name for column in schema.REQUEST_COLUMNS} == names | {
        *("broker_id", "broker_name", "epoch", "event_time", "weight")
    }


def test_a_column_has_one_type_in_all_files() -> None:
    kinds = {(column.name, column.kind) for columns in schema.COLUMNS.values() for column in columns}
    assert len(kinds) == len({name for name, _ in kinds})


@pytest.mark.parametrize("source", [schema.FLOWS, schema.LIFECYCLES, schema.REQUESTS])
def test_every_number_is_a_bigint_and_every_time_is_utc_in_microseconds(source: str) -> None:
    kinds = {str(field.type) for field in schema.ARROW_SCHEMAS[source]}
    assert kinds <= {
        "string",
        "int64",
        "timestamp[us, tz=UTC]",
        "list<item: int64>",
        "list<element: int64>",
        str(pa.map_(pa.string(), pa.string())),
    }


def test_spark_and_arrow_name_the_same_columns_in_the_same_order() -> None:
    for source, columns in schema.ARROW_SCHEMAS.items():
        assert [column.split(" ")[0] for column in schema.SPARK_SCHEMAS[source].split(", ")] == columns.names
