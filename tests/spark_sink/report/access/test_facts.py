"""What the report says of identities equals plain Python, and has a chapter where there are any."""

import random
from datetime import timedelta
from pathlib import Path

from spark_sink.report.access.facts import MAX_ACCESS, MAX_CHANGES, MAX_DENIALS
from spark_sink.report.chapters import chapters
from spark_sink.report.facts import read_facts
from tests.spark_sink.report import reference
from tests.spark_sink.report.tables import NOON, Row, event_row, origin, write


def made(seed: int, count: int, **choices: list[str]) -> list[Row]:
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        at = NOON + timedelta(seconds=rng.randrange(3600))
        times = {"minute": at.replace(second=0), "first_at": at, "last_at": at + timedelta(seconds=rng.randrange(60))}
        named = {name: rng.choice(values) for name, values in choices.items()}
        rows.append(origin(rng.randint(1, 3)) | times | named | {"times": rng.randint(1, 99)})
    return rows


def told(rows: list[Row], keys: list[str]) -> set[tuple[object, ...]]:
    counts = reference.sums(rows, keys, lambda row: row["times"])
    found = set()
    for key, count in counts.items():
        own = [row for row in rows if tuple(row[name] for name in keys) == key]
        first, last = min(row["first_at"] for row in own), max(row["last_at"] for row in own)
        found.add((*key, count, reference.us(first), reference.us(last)))
    return found


def test_identities_and_denials_equal_plain_python(tmp_path: Path) -> None:
    who = {"principal": ["", "jwt:orders-7", "user:<b>"], "role": ["", "orders"]}
    ends = {"event": ["Admitted", "AuthRefused"], "word": [""], "reason": ["", "no"]}
    asked = {"asked": ["announce", "address"], "service": ["orders"], "tag": ["region"], "tag_value": ["mars"]}
    admissions, denials = made(1, 60, **ends, **who), made(2, 60, **who, **asked, reason=["why"])
    write(tmp_path, {"lifecycle": [event_row("BrokerStarted")], "access": admissions, "denials": denials})
    access = read_facts(tmp_path).access
    keys = ["event", "principal", "role", "word", "reason"]
    assert {tuple(vars(row).values()) for row in access.rows} == told(admissions, keys)
    keys = ["principal", "role", "asked", "service", "tag", "tag_value", "reason"]
    assert {tuple(vars(row).values()) for row in access.denied_rows} == told(denials, keys)
    assert (access.count, access.denied_count) == (len(access.rows), len(access.denied_rows))
    assert access.count <= MAX_ACCESS
    assert access.denied_count <= MAX_DENIALS
    events = [row.event for row in access.rows]
    assert events == sorted(events, reverse=True)  # who was refused comes first
    admitted = sum(row["times"] for row in admissions if row["event"] == "Admitted")
    assert (access.admitted, access.denied) == (admitted, sum(row["times"] for row in denials))
    since = read_facts(tmp_path, NOON + timedelta(minutes=30)).access
    assert since.denied == sum(row["times"] for row in denials if row["minute"] >= NOON + timedelta(minutes=30))


def test_changes_equal_plain_python_and_the_latest_is_first(tmp_path: Path) -> None:
    who = {"principal": ["token:local", "token:<b>", ""], "role": ["admin", "operator"], "peer": ["admin 10.0.0.4"]}
    what = {"operation": ["drain", "close"], "subject": [f"service-{number}" for number in range(9)]}
    changes = made(3, 80, **who, **what, word=["", "role-not-enough"])
    write(tmp_path, {"lifecycle": [event_row("BrokerStarted")], "changes": changes})
    access = read_facts(tmp_path).access
    keys = ["principal", "role", "peer", "operation", "subject", "word"]
    rows = [tuple(vars(row).values()) for row in access.changed_rows]
    assert len(rows) == MAX_CHANGES < access.changed_count == len(told(changes, keys))
    assert set(rows) < told(changes, keys)
    ends = [row.last_us for row in access.changed_rows]
    assert ends == sorted(ends, reverse=True)
    [chapter] = [each for each in chapters(read_facts(tmp_path)) if each.name == "access"]
    assert [len(section.rows) for section in chapter.sections] == [0, 0, MAX_CHANGES]


def test_identities_have_a_chapter_where_there_are_any(tmp_path: Path) -> None:
    [row] = made(1, 1, event=["Admitted"], principal=["jwt:orders-7"], role=["orders"], word=[""], reason=[""])
    write(tmp_path / "with", {"lifecycle": [event_row("BrokerStarted")], "access": [row]})
    [chapter] = [each for each in chapters(read_facts(tmp_path / "with")) if each.name == "access"]
    assert chapter.sections[0].rows[0][:6] == ["jwt:orders-7", "orders", "Admitted", "-", "-", str(row["times"])]
    assert chapter.sections[1].rows == []
    write(tmp_path / "without", {"lifecycle": [event_row("BrokerStarted")]})
    assert "access" not in [each.name for each in chapters(read_facts(tmp_path / "without"))]
