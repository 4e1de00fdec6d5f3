"""The examples for Spark, in the session of all tests; tests/examples runs the others."""

import runpy
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker.events import FlowRecord, bucket_of
from spark_sink.columns import BIGINT, BIGINTS, TAGS, TEXT
from spark_sink.tables import COLUMNS, table_schema
from tests.spark_sink.data_source.world import run
from tests.spark_sink.records import NOON_MS

EXAMPLES = Path(__file__).parents[3] / "examples"
EMPTY = {TEXT: "", BIGINT: 0, BIGINTS: [], TAGS: {}}


def run_example(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *said: str) -> str:
    """What it prints."""
    monkeypatch.setattr(sys, "argv", [name, *said])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def write(tables: Path, table: str, *rows: dict[str, Any]) -> None:
    """These rows; columns that are not named are empty, times are noon."""
    whole = [{column.name: row.get(column.name, EMPTY.get(column.kind)) for column in COLUMNS[table]} for row in rows]
    times = [column.name for column in COLUMNS[table] if column.kind == "timestamp"]
    for row in whole:
        row |= dict.fromkeys(times, NOON_MS * 1000)
    folder = tables / table / "date=2023-11-15"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(whole, table_schema(table)), folder / "0-0000000000.parquet")


def cells(text: str, first: str) -> list[str]:
    """The cells of the line of a shown table that begins with this."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    [row] = [row for row in rows if row[0] == first]
    return row


@pytest.mark.spark
def test_the_five_questions_have_answers(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def traffic(route: str, requests: int, us: int, outcome: str = "completed", word: str = "") -> dict[str, Any]:
        histogram = {"latency_buckets": [bucket_of(us)], "latency_counts": [requests]}
        return {
            "service": "orders",
            "route_id": route,
            "requests": requests,
            "outcome": outcome,
            "word": word,
        } | histogram

    write(
        tmp_path,
        "traffic",
        traffic("r1", 90, 640),
        traffic("r1", 6, 640),
        traffic("r2", 4, 20_480, "error"),
        {"service": "mail", "outcome": "rejected", "word": "no-route", "requests": 3},
    )
    write(tmp_path, "callers", {"caller_service": "web", "service": "orders", "requests": 100, "bytes_in": 7})
    write(tmp_path, "rejections", {"service": "mail", "word": "no-route", "emptied_by": "region=mars", "requests": 3})
    stays = [{"route_id": "r1", "service": "orders", "uptime_ms": uptime, "reason": "left"} for uptime in (70, 50)]
    write(tmp_path, "sessions", *stays)
    said = run_example("spark_questions.py", capsys, monkeypatch, str(tmp_path))
    slow, calls, fails, even, comes = (answer.partition("\n")[2] for answer in said.split("?")[1:])
    assert cells(slow, "orders") == ["orders", "100", "640", "640", "20480"]
    assert cells(calls, "web") == ["web", "orders", "100", "7"]
    assert cells(fails, "orders") == ["orders", "error", "", "", "4"]
    assert cells(fails, "mail") == ["mail", "rejected", "no-route", "region=mars", "3"]
    assert cells(even, "orders") == ["orders", "2", "100", "1.92"]  # 96 of one route, 50 on an average
    assert cells(comes, "orders") == ["orders", "2", "1", "50", "[left]"]


@pytest.mark.spark
def test_the_alert_tells_a_service_that_fails_too_often(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def flow(seq: int, service: str, requests: int, outcome: str, word: str = "") -> FlowRecord:
        texts = ("", "web", "", "r1", service, f"service={service}", "request_response", "unicast", outcome, word, "")
        return FlowRecord(seq, NOON_MS, 1000, *texts, requests, 0, 0, 0, 0, 0, 0, 0, [], "")

    one = run(tmp_path / "events")
    one.say(
        [
            flow(1, "orders", 90, "completed"),
            flow(2, "orders", 8, "error"),
            flow(3, "orders", 2, "rejected", "no-route"),
            flow(4, "mail", 100, "completed"),
            flow(5, "mail", 5, "error"),
            flow(6, "rare", 3, "error"),
        ]
    )
    said = run_example("spark_alert.py", capsys, monkeypatch, str(tmp_path / "events"))
    assert [line for line in said.splitlines() if "ALERT" in line] == [
        "12:00:00 ALERT orders: 10 of 100 requests failed (10.0 %): no-route"
    ]
