"""spark_sink.report.feed: what became of files, added up in plain Python as well."""

import random
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from spark_sink.report.chapters import chapters
from spark_sink.report.facts import read_facts
from spark_sink.report.feed.facts import HAS_IT, MAX_CONSUMERS, MAX_LACKING, files_of
from spark_sink.report.reading import Record, read_tables
from tests.spark_sink.report import reference
from tests.spark_sink.report.tables import NOON, Row, origin, write

Key = tuple[str, str]  # a feed and a path or a consumer


def row(outcome: str, path: str, posted_s: float, after_ms: int = 5, **values: Any) -> Row:
    posted_at = NOON + timedelta(seconds=posted_s)
    times = {"posted_at": posted_at, "event_time": posted_at + timedelta(milliseconds=after_ms), "after_ms": after_ms}
    return origin(6) | times | {"epoch": 1, "feed": "data", "outcome": outcome, "path": path, "files": 1} | values


def told(folder: Path, rows: list[Row]) -> Record:
    write(folder, {"files": rows})
    return read_tables(folder, lambda reader: files_of(reader, 0))


def made(rng: random.Random) -> list[Row]:
    rows: list[Row] = []
    for second in range(200):
        path, feed = f"f{rng.randrange(40)}", rng.choice(["data", "more"])
        rows.append(row("posted", path, second, feed=feed, operation=rng.choice(["", "", "rename", "remove"])))
        for consumer in ("u@a", "u@b", "<b>@c"):
            if rng.random() < 0.4:
                code, after_ms = rng.choice([201, 205, 304, 417, 499]), rng.randrange(-5, 100_000)
                rows.append(row("reported", path, second, after_ms, feed=feed, consumer=consumer, code=code))
    return rows


def test_who_has_and_lacks_what_equals_plain_python(tmp_path: Path) -> None:
    rows = made(random.Random(4))
    standing: dict[tuple[str, str], Any] = {}
    has: defaultdict[Key, set[Key]] = defaultdict(set)
    took: defaultdict[Key, list[int]] = defaultdict(list)
    reports: defaultdict[Key, int] = defaultdict(int)
    for each in rows:  # by the time of their posts
        key = each["feed"], each["path"]
        if each["outcome"] == "posted":
            standing.pop(key, None)
            for paths in has.values():
                paths.discard(key)
            if each["operation"] != "remove":
                standing[key] = each["posted_at"]
            continue
        consumer = each["feed"], each["consumer"]
        reports[consumer] += 1
        if each["code"] in HAS_IT:
            took[consumer].append(each["after_ms"])
            if key in standing:
                has[consumer].add(key)
    consumers: list[tuple[Any, ...]] = []
    lacking: defaultdict[tuple[int, str, str], list[str]] = defaultdict(list)
    for consumer in reports:
        lacks = [(at, key) for key, at in standing.items() if key[0] == consumer[0] and key not in has[consumer]]
        for at, key in lacks:
            lacking[reference.us(at), *key].append(consumer[1])
        since_us = reference.us(min(lacks)[0]) if lacks else None
        percentiles = [reference.percentile(took[consumer], part) for part in (0.5, 0.99)]
        numbers = (reports[consumer], len(has[consumer]), len(lacks), since_us, *percentiles, max(took[consumer]))
        consumers.append((*consumer, *numbers))
    found = told(tmp_path, rows)
    consumers.sort(key=lambda each: (-each[4], each))
    assert [tuple(vars(each).values()) for each in found.consumers] == consumers[:MAX_CONSUMERS]
    oldest = [(feed, path, us, ", ".join(sorted(names))) for (us, feed, path), names in sorted(lacking.items())]
    assert [tuple(vars(each).values()) for each in found.lacking] == oldest[:MAX_LACKING]
    assert (found.consumer_count, found.lacking_count) == (len(consumers), len(oldest))


def test_files_have_a_chapter_where_there_are_any(tmp_path: Path) -> None:
    mirror = origin(7) | {"feed": "mirror"}
    write(
        tmp_path / "with",
        {
            "files": [
                row("posted", "a", 0, bytes=7),
                row("posted", "b", 1),
                row("reported", "a", 0, 70_000, consumer="u@h", code=201),
                row("reported", "b", 1, consumer="u@h", code=499),
                row("mirrored", "a", 0, -3, bytes=2048, **mirror),
                row("repeated", "", 0, files=12, **mirror),
                row("refused", "../c", 2, code=417, reason="it leads out", **mirror),
                row("failed", "b", 1, code=499, reason="404 | <b>", tries=9, **mirror),
            ]
        },
    )
    [chapter] = [each for each in chapters(read_facts(tmp_path / "with")) if each.name == "files"]
    feeds, consumers, lacking, trouble = (section.rows for section in chapter.sections)
    assert feeds == [
        ["broker-7", "mirror", "0", "1", "2.0 KiB", "12", "0", "1", "1", "-3.00 ms", "-3.00 ms", "-3.00 ms"],
        ["broker-6", "data", "2", "0", "0 B", "0", "0", "0", "0", "-", "-", "-"],
    ]
    assert consumers == [
        ["data", "u@h", "2", "1", "1", "2026-11-20 12:00:01", "1 min 10 s", "1 min 10 s", "1 min 10 s"]
    ]
    assert lacking == [["data", "b", "2026-11-20 12:00:01", "u@h"]]
    assert trouble == [
        ["broker-7", "mirror", "failed", "499", "404 | <b>", "1", "9", "2026-11-20 12:00:01"],
        ["broker-7", "mirror", "refused", "417", "it leads out", "1", "0", "2026-11-20 12:00:02"],
    ]
    write(tmp_path / "without", {"gaps": [origin(1) | {"event_time": NOON, "epoch": 1}]})
    assert "files" not in [each.name for each in chapters(read_facts(tmp_path / "without"))]
