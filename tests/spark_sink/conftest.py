"""One Spark session for the whole run, with the settings of a short job; and folders of a pipeline."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_sink.errors import MissingPart
from spark_sink.session import LITTLE_WORK_JAVA, open_session
from tests.conftest import missing
from tests.spark_sink.pipeline.folders import EventSource

# Code made for each query costs more than it saves on a hundred rows: a fifth of the time of these tests.
WITHOUT_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    try:
        session = open_session("local[2]")
    except MissingPart as error:
        missing(str(error))
    for key, value in WITHOUT_CODE.items():
        session.conf.set(key, value)
    yield session
    session.stop()


@pytest.fixture
def short_spark(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark that a test starts has the settings of a short job, too."""
    folder = tmp_path_factory.mktemp("spark-conf")
    settings = WITHOUT_CODE | {"spark.driver.extraJavaOptions": LITTLE_WORK_JAVA}
    (folder / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path) -> EventSource:
    """Of `events` into `tables`, plain ones or of the format that is the parameter."""
    return EventSource(tmp_path / "events", tmp_path / "tables", getattr(request, "param", None))
