"""Random tables, as rows and as files of several batches, and what the report makes of them."""

from pathlib import Path

import pytest

from spark_sink.report.facts import Facts, read_facts
from tests.spark_sink.report.tables import Made, Rows, write


class Case:
    """Rows of all tables and the facts of the same."""

    def __init__(self, rows: Rows, facts: Facts, folder: Path) -> None:
        self.rows = rows
        self.facts = facts
        self.folder = folder


@pytest.fixture(scope="session", params=[1, 2])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """In three batches, so that no dictionary, minute or snapshot is in one file."""
    rows = Made(request.param).rows
    folder = tmp_path_factory.mktemp("tables")
    for batch in range(3):
        write(folder, {table: mine[batch::3] for table, mine in rows.items()}, f"batch-{batch:010d}.parquet")
    return Case(rows, read_facts(folder), folder)
