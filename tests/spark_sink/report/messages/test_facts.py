from pathlib import Path

from spark_sink.report.chapters import chapters
from spark_sink.report.facts import read_facts
from spark_sink.report.messages.facts import MAX_DEAD, MAX_DESTINATIONS
from tests.spark_sink.report import reference
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import NOON, Row, origin, write


def test_messages_equal_plain_python(case: Case) -> None:
    rows, told = case.rows["messages"], case.facts.messages
    delivered = [row for row in rows if row["outcome"] == "delivered"]
    keys = ["exchange", "destination"]
    counts = reference.sums(delivered, keys, lambda row: 1)
    again = reference.sums(delivered, keys, lambda row: row["tries"] > 1)
    expected = []
    for key in reference.top(counts, MAX_DESTINATIONS):
        took = [row["after_ms"] for row in delivered if tuple(row[name] for name in keys) == key]
        percentiles = (reference.percentile(took, part) for part in (0.5, 0.99))
        expected.append((*key, counts[key], again[key], *percentiles, max(took)))
    assert [tuple(vars(row).values()) for row in told.rows] == expected
    assert (told.delivered, told.count) == (len(delivered), len(counts))


def test_dead_letters_equal_plain_python(case: Case) -> None:
    rows, told = case.rows["messages"], case.facts.messages
    dead = [row for row in rows if row["outcome"] == "dead"]
    keys = ["exchange", "reason"]
    counts = reference.sums(dead, keys, lambda row: 1)
    expected = []
    for key in reference.top(counts, MAX_DEAD):
        own = [row for row in dead if tuple(row[name] for name in keys) == key]
        last_us = max(reference.us(row["event_time"]) for row in own)
        expected.append((*key, counts[key], max(row["tries"] for row in own), last_us))
    assert [tuple(vars(row).values()) for row in told.dead_rows] == expected
    assert (told.dead, told.dead_count) == (len(dead), len(counts))


def message(after_ms: int) -> Row:
    outcome = {"outcome": "delivered", "exchange": "orders", "destination": "a", "tries": 1}
    return origin(5) | {"event_time": NOON, "epoch": 1, "after_ms": after_ms} | outcome


def test_messages_have_a_chapter_where_there_are_any(tmp_path: Path) -> None:
    write(tmp_path / "with", {"messages": [message(5), message(70_000)]})
    [chapter] = [each for each in chapters(read_facts(tmp_path / "with")) if each.name == "messages"]
    assert chapter.sections[0].rows == [["orders", "a", "2", "0", "5.00 ms", "1 min 10 s", "1 min 10 s"]]
    assert chapter.sections[1].rows == []
    write(tmp_path / "without", {"gaps": [origin(1) | {"event_time": NOON, "epoch": 1}]})
    assert "messages" not in [each.name for each in chapters(read_facts(tmp_path / "without"))]
