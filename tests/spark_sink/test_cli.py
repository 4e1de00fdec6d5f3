import sys
import types
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from spark_sink import pipeline as pipeline_module
from spark_sink import session as session_module
from spark_sink.cli import pipeline, report
from spark_sink.errors import MissingPart
from spark_sink.pipeline import Pipeline
from tests.spark_sink.records import NOON_MS, events
from tests.spark_sink.test_pipeline import seal
from tests.spark_sink.test_report import make_tables


def run_pipeline(tmp_path: Path, *options: str) -> Result:
    folders = ["--events", str(tmp_path / "events"), "--tables", str(tmp_path / "tables")]
    return CliRunner().invoke(pipeline, ["run", *folders, *options])


def test_missing_events_folder_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    result = run_pipeline(tmp_path, "--once")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "there is no events folder" in result.stderr


def test_missing_pyspark_is_one_sentence_and_status_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    seal(tmp_path / "events", events(1, 10))
    result = run_pipeline(tmp_path, "--once")
    assert (result.exit_code, result.stderr.count("\n")) == (3, 1)
    assert 'pip install "rsocket-broker[spark]"' in result.stderr


def test_missing_java_is_one_sentence_and_status_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = types.ModuleType("pyspark.sql")
    installed.__dict__["SparkSession"] = None
    monkeypatch.setitem(sys.modules, "pyspark", types.ModuleType("pyspark"))
    monkeypatch.setitem(sys.modules, "pyspark.sql", installed)

    def no_java() -> Path:
        raise MissingPart("Spark needs Java")

    monkeypatch.setattr(session_module, "ensure_java", no_java)
    seal(tmp_path / "events", events(1, 10))
    result = run_pipeline(tmp_path, "--once")
    assert (result.exit_code, result.stderr) == (3, "Spark needs Java\n")


def test_second_pipeline_on_the_same_tables_is_refused(tmp_path: Path) -> None:
    seal(tmp_path / "events", events(1, 10))
    (tmp_path / "tables").mkdir()
    with pipeline_module.locked(tmp_path / "tables"):
        result = run_pipeline(tmp_path, "--once")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "another pipeline writes the tables" in result.stderr


@pytest.mark.parametrize("options", [["--every", "5s"], ["--once", "--every", "5 seconds"]])
def test_triggers_that_make_no_sense_are_refused(tmp_path: Path, options: list[str]) -> None:
    assert run_pipeline(tmp_path, *options).exit_code == 2


@pytest.mark.parametrize(
    "options, every", [([], "5 seconds"), (["--once"], None), (["--every", "2 minutes"], "2 minutes")]
)
def test_trigger_reaches_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], every: str | None
) -> None:
    seen = []
    monkeypatch.setattr(Pipeline, "run", lambda self: seen.append(self.every))
    assert run_pipeline(tmp_path, *options).exit_code == 0
    assert seen == [every]


def test_report_prints_and_writes_markdown(tmp_path: Path) -> None:
    make_tables(tmp_path / "tables", events(1, 50, NOON_MS))
    result = CliRunner().invoke(report, [str(tmp_path / "tables"), "--out", str(tmp_path / "report.md")])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Traffic per service and model" in result.output
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("# What the broker did\n")


@pytest.mark.parametrize("is_there", [False, True])
def test_report_without_tables_is_one_sentence_and_status_2(tmp_path: Path, is_there: bool) -> None:
    folder = tmp_path / "tables"
    if is_there:
        folder.mkdir()
    result = CliRunner().invoke(report, [str(folder)])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


def test_report_that_cannot_be_written_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    make_tables(tmp_path / "tables", events(1, 50))
    result = CliRunner().invoke(report, [str(tmp_path / "tables"), "--out", str(tmp_path / "no" / "report.md")])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
