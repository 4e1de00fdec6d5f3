import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from spark_sink.cli import report
from spark_sink.pipeline.pipeline import Pipeline
from tests.spark_sink.pipeline.folders import run_command, seal
from tests.spark_sink.records import events
from tests.spark_sink.report.tables import traffic_row, write


def test_missing_events_folder_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    result = run_command(tmp_path, "--once")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "there is no events folder" in result.stderr


def test_missing_pyspark_is_one_sentence_and_status_9(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    seal(tmp_path / "events", events(1, 10))
    result = run_command(tmp_path, "--once")
    assert (result.exit_code, result.stderr.count("\n")) == (9, 1)
    assert 'pip install "rsocket-broker[spark]"' in result.stderr


@pytest.mark.parametrize("options", [["--every", "5s"], ["--once", "--every", "5 seconds"]])
def test_triggers_that_make_no_sense_are_refused(tmp_path: Path, options: list[str]) -> None:
    assert run_command(tmp_path, *options).exit_code == 2


@pytest.mark.parametrize(
    "options, every", [([], "5 seconds"), (["--once"], None), (["--every", "2 minutes"], "2 minutes")]
)
def test_trigger_reaches_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], every: str | None
) -> None:
    seen = []
    monkeypatch.setattr(Pipeline, "run", lambda self: seen.append(self.every))
    assert run_command(tmp_path, *options).exit_code == 0
    assert seen == [every]


def test_report_prints_and_writes_markdown_and_the_page(tmp_path: Path) -> None:
    write(tmp_path / "tables", {"traffic": [traffic_row(requests=3)]})
    page, markdown = tmp_path / "report.html", tmp_path / "report.md"
    result = CliRunner().invoke(report, [str(tmp_path / "tables"), "--html", str(page), "--out", str(markdown)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Requests per service and model" in result.output
    assert result.output.endswith(f"written to {markdown}\nwritten to {page}\n")
    assert markdown.read_text(encoding="utf-8").startswith("# Broker report\n")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>\n")


def test_report_is_written_before_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`report … --html F | head` ends the process while it prints."""

    def print_to_nobody(*_: object) -> None:
        raise SystemExit(1)

    monkeypatch.setattr("spark_sink.report.printers.print_report", print_to_nobody)
    write(tmp_path / "tables", {"traffic": [traffic_row()]})
    page, markdown = tmp_path / "report.html", tmp_path / "report.md"
    result = CliRunner().invoke(report, [str(tmp_path / "tables"), "--html", str(page), "--out", str(markdown)])
    assert (result.exit_code, page.exists(), markdown.exists()) == (1, True, True)


def test_report_since_a_moment_leaves_out_what_was_before(tmp_path: Path) -> None:
    write(tmp_path / "tables", {"traffic": [traffic_row()]})
    for since, text in (
        ("2026-11-20T11:59", "1.00 ms"),
        ("2026-11-20T12:01", "no records since 2026-11-20 12:01:00 UTC"),
    ):
        result = CliRunner().invoke(report, [str(tmp_path / "tables"), "--since", since])
        assert (result.exit_code, result.stderr, text in result.output) == (0, "", True)


def test_since_that_is_no_time_is_refused_with_examples(tmp_path: Path) -> None:
    result = CliRunner().invoke(report, [str(tmp_path), "--since", "noon"])
    assert result.exit_code == 2
    assert "'noon' is not a time; write " in result.stderr


def test_report_without_duckdb_is_one_sentence_and_status_9(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    write(tmp_path / "tables", {"traffic": [traffic_row()]})
    result = CliRunner().invoke(report, [str(tmp_path / "tables")])
    text = 'the report needs duckdb: pip install "rsocket-broker[report]"\n'
    assert (result.exit_code, result.stdout, result.stderr) == (9, "", text)


def test_page_without_plotly_is_one_sentence_and_status_9(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    write(tmp_path / "tables", {"traffic": [traffic_row()]})
    result = CliRunner().invoke(report, [str(tmp_path / "tables"), "--html", str(tmp_path / "report.html")])
    text = 'the page with plots needs plotly: pip install "rsocket-broker[report]"\n'
    assert (result.exit_code, result.stdout, result.stderr) == (9, "", text)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("folder, text", [("none", "is not there: rsocket-broker pipe"), (".", "holds no tables")])
def test_report_without_tables_is_one_sentence_and_status_2(tmp_path: Path, folder: str, text: str) -> None:
    result = CliRunner().invoke(report, [str(tmp_path / folder)])
    assert (result.exit_code, result.stderr.count("\n"), text in result.stderr) == (2, 1, True)


@pytest.mark.parametrize("option", ["--out", "--html"])
def test_report_that_cannot_be_written_is_one_sentence_and_status_2(tmp_path: Path, option: str) -> None:
    write(tmp_path / "tables", {"traffic": [traffic_row()]})
    result = CliRunner().invoke(report, [str(tmp_path / "tables"), option, str(tmp_path / "no" / "report")])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
