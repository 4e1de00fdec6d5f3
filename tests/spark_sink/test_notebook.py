"""What docs/spark/events.md shows to whoever opens the tables in a notebook is true of every table."""

import importlib
import random
from pathlib import Path
from typing import Any

import pytest

from broker.events import (
    CHANGED,
    DELIVERED,
    EVENTS_DROPPED,
    POSTED,
    ROUTE_LEFT,
    ROUTE_SEEN,
    FileRecord,
    FlowRecord,
    MessageRecord,
)
from spark_sink.tables import COLUMNS, TRAFFIC, read_table
from tests.conftest import missing
from tests.spark_sink.pipeline.batches import seal_requests, told
from tests.spark_sink.pipeline.folders import BEFORE_MIDNIGHT_MS, DOCUMENT, run_once, seal
from tests.spark_sink.records import events, flow, header_with

LIBRARIES = ("duckdb", "pandas", "polars", "spark_sink")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tables have rows, of two days."""
    folder = tmp_path_factory.mktemp("notebook")
    seal(folder / "events", events(1, 200, BEFORE_MIDNIGHT_MS))
    seen = told(301, ROUTE_SEEN, route_id="r", service="orders")
    left = told(302, ROUTE_LEFT, route_id="r", service="orders", reason="closed")
    lost = told(303, EVENTS_DROPPED, tags=[("records", "3")], reason="backlog-full")
    changed = told(307, CHANGED, principal="token:ci", tags=[("operation", "drain"), ("subject", "broker")])
    reached = MessageRecord(304, BEFORE_MIDNIGHT_MS, "0" * 32, "orders", "new", "a", DELIVERED, "", 0, 1, 1)
    called = flow(random.Random(1), 306)._replace(principal="jwt:orders-7", requests=0, histogram=[])
    posted = FileRecord(305, BEFORE_MIDNIGHT_MS, "data", POSTED, BEFORE_MIDNIGHT_MS, path="a")
    seal(folder / "events", [seen, left, lost, reached, posted, called, changed], header=header_with(first_number=50))
    seal_requests(folder / "events", range(1000, 1050))
    run_once(None, folder / "events", folder / "tables")
    return folder / "tables"


def snippets(library: str) -> list[str]:
    """The lines of the chapter on tables that begin with this name."""
    chapter = DOCUMENT.read_text(encoding="utf-8").partition("\n## Tables\n")[2]
    lines = [line.strip() for line in chapter.splitlines()]
    return [line for line in lines if line.startswith(f"{library}.")][:2]


def run(snippet: str, tables: Path, table: str, **names: Any) -> Any:
    """What it gives, of another table."""
    text = snippet.replace("TABLES", str(tables)).replace(TRAFFIC, table)
    return eval(text, names | {"Path": Path})


def requests_by_service() -> dict[str, int]:
    expected: dict[str, int] = {}
    for record in events(1, 200, BEFORE_MIDNIGHT_MS):
        if isinstance(record, FlowRecord):
            expected[record.service] = expected.get(record.service, 0) + record.requests
    return expected


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_library_reads_every_table(tables: Path, library: str) -> None:
    names = {library: module(library)}
    reading, _ = snippets(library)
    for table in COLUMNS:
        rows, columns = run(reading, tables, table, **names).shape
        assert rows == read_table(tables, table).num_rows > 0, table
        assert columns in (len(COLUMNS[table]), len(COLUMNS[table]) + 1), "and the date"


@pytest.mark.parametrize(
    "library, pairs",
    [
        ("duckdb", lambda sums: sums.fetchall()),
        ("pandas", lambda sums: sums.items()),
        ("polars", lambda sums: sums.iter_rows()),
        ("spark_sink", lambda sums: zip(*sums.to_pydict().values(), strict=True)),
    ],
)
def test_each_library_adds_up_what_the_broker_counted(tables: Path, library: str, pairs: Any) -> None:
    assert (
        dict(pairs(run(snippets(library)[1], tables, TRAFFIC, **{library: module(library)}))) == requests_by_service()
    )


@pytest.mark.spark
def test_spark_reads_and_adds_up_every_table(spark: Any, tables: Path) -> None:
    reading, adding = snippets("spark")
    for table in COLUMNS:
        assert run(reading, tables, table, spark=spark).count() == read_table(tables, table).num_rows
    assert dict(run(adding, tables, TRAFFIC, spark=spark).collect()) == requests_by_service()


def module(library: str) -> Any:
    try:
        importlib.import_module("spark_sink.tables")
        return importlib.import_module(library)
    except ImportError:
        missing(f"no {library}: pip install {library}")
