"""One Spark session for the whole run, with the settings of a short job; and folders of a pipeline."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_sink.errors import MissingPart
from spark_sink.session import open_session
from tests.conftest import missing
from tests.spark_sink.pipeline.folders import EventSource


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    try:
        session = open_session("local[2]")
    except MissingPart as error:
        missing(str(error))
    # Code made for each query costs more than it saves on a hundred rows: a fifth of the time of these tests.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    session.stop()


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path) -> EventSource:
    """Of `events` into `tables`, plain ones or of the format that is the parameter."""
    return EventSource(tmp_path / "events", tmp_path / "tables", getattr(request, "param", None))
