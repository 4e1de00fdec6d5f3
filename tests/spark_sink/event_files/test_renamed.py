"""Segments of schema version 3, whose columns had other names, give every reader what newer ones give.

Spark gets the mixed ones only: that it gives what is given without it is proved beside each reader.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_sink.schema import FLOWS, LIFECYCLES, REQUESTS
from spark_sink.tables import COLUMNS, GAPS, LIFECYCLE, read_table
from spark_sink.time_travel import table_at
from spark_sink.time_travel.segment_reader import SegmentReader
from spark_sink.time_travel.spark_reader import SparkReader
from spark_sink.timestamps import moment_at
from spark_sink.what_if.local import LocalEngine
from spark_sink.what_if.output import as_json
from spark_sink.what_if.question import Question
from spark_sink.what_if.simulation import simulate
from spark_sink.what_if.spark import SparkEngine
from tests.spark_sink.data_source.world import reader_of, run
from tests.spark_sink.pipeline.batches import two_days
from tests.spark_sink.pipeline.folders import EventSource, run_once
from tests.spark_sink.records import made_old
from tests.spark_sink.time_travel.histories import random_history, write_segments
from tests.spark_sink.what_if.histories import History as Replayed


def both(tmp_path: Path, fill: Callable[[Path], object]) -> tuple[Path, Path]:
    """A folder of events, and the same with every second segment as it was before."""
    new, mixed = tmp_path / "new", tmp_path / "mixed"
    fill(new)
    shutil.copytree(new, mixed)
    made_old(mixed)
    return new, mixed


@pytest.mark.parametrize("source", [FLOWS, LIFECYCLES, REQUESTS])
def test_the_data_source_gives_the_same_rows(tmp_path: Path, source: str) -> None:
    def fill(folder: Path) -> None:
        folder.mkdir()
        broker = run(folder)
        for _ in range(4):
            broker.seal(20)

    def rows(folder: Path) -> list[dict[str, Any]]:
        reader = reader_of(folder, source)
        return [row for part in reader.whole() for batch in reader.read(part) for row in batch.to_pylist()]

    new, mixed = both(tmp_path, fill)
    assert rows(mixed) == rows(new) != []


@pytest.mark.parametrize("has_spark", [False, pytest.param(True, marks=pytest.mark.spark)])
def test_time_travel_gives_the_same_tables(tmp_path: Path, has_spark: bool, request: pytest.FixtureRequest) -> None:
    history = random_history(7, 200, snapshot_ms=20_000)
    new, mixed = both(tmp_path, lambda folder: write_segments(folder, history, roll_ms=10_000))
    spark = request.getfixturevalue("spark") if has_spark else None

    def told(reader: Any, at_ms: int) -> dict[str, Any]:
        return table_at(reader, moment_at(at_ms * 1000)).to_json()

    for row in history.rows[-20:-19] if has_spark else history.rows[::20]:
        reader = SegmentReader(mixed)
        expected = told(SegmentReader(new), row.at_ms)
        assert told(reader if spark is None else SparkReader(spark, reader), row.at_ms) == expected


@pytest.mark.parametrize("has_spark", [False, pytest.param(True, marks=pytest.mark.spark)])
def test_a_replay_gives_the_same(tmp_path: Path, has_spark: bool, request: pytest.FixtureRequest) -> None:
    def fill(folder: Path) -> None:
        for epoch in (1, 2, 3, 4):
            history = Replayed(epoch).start(lb_method="random")
            for number in (1, 2, 3):
                history.join(number, "orders")
            if epoch > 2:
                history.flow(1, "orders", 300)
            for number in range(30 if epoch < 3 else 0):
                history.ask(1 + number % 3, "orders")
            history.write(folder)

    question = Question(chooser="p2c")

    def told(engine: Any) -> dict[str, Any]:
        answer = as_json(simulate(engine, question))
        return answer | {"notes": sorted(answer["notes"])}  # Spark reads files in the order of their sizes

    new, mixed = both(tmp_path, fill)
    expected = told(LocalEngine(events=new, tables=None, question=question))
    engine: Any = LocalEngine(events=mixed, tables=None, question=question)
    if has_spark:
        engine = SparkEngine(request.getfixturevalue("spark"), events=str(mixed), tables="", question=question)
    assert told(engine) == expected
    assert expected["requests"] == 60 + 600


def tables_of(tables: Path) -> dict[str, list[str]]:
    return {table: sorted(map(str, read_table(tables, table).to_pylist())) for table in COLUMNS}


@pytest.mark.parametrize("has_spark", [False, pytest.param(True, marks=pytest.mark.spark)])
def test_the_pipeline_makes_the_same_tables(tmp_path: Path, has_spark: bool, request: pytest.FixtureRequest) -> None:
    made = []
    for events in both(tmp_path, two_days):
        tables = tmp_path / f"tables of {events.name}"
        if has_spark and events.name == "mixed":
            run_once(request.getfixturevalue("spark"), events, tables)
        else:
            EventSource(events, tables).run()
        made.append(tables_of(tables))
        assert not [row for row in read_table(tables, GAPS).to_pylist() if row["reason"] == "bad-file"]
    assert made[0] == made[1]
    assert all(made[0][table] for table in ("requests", LIFECYCLE, "sessions", "traffic"))
