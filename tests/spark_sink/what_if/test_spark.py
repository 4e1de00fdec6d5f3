"""The engine on Spark gives what the engine without it gives, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from broker.events import ROUTE_SEEN, TABLE_DIGEST
from spark_sink.errors import BadFolder
from spark_sink.event_files.layout import ARCHIVE
from spark_sink.schema import LIFECYCLES, REQUESTS
from spark_sink.tables import LIFECYCLE, ROUTES, table_schema
from spark_sink.tables import REQUESTS as REQUEST_TABLE
from spark_sink.what_if.local import LocalEngine
from spark_sink.what_if.output import as_json
from spark_sink.what_if.question import Question
from spark_sink.what_if.simulation import simulate
from spark_sink.what_if.spark import SparkEngine
from tests.spark_sink.what_if.histories import START_US, History, tags_of

pytestmark = pytest.mark.spark


def mixed(folder: Path) -> Path:
    """Two epochs with requests, one of them in the archive, and one with flows."""
    for epoch in (1, 2, 3):
        history = History(epoch).start(lb_method="random")
        for number in (1, 2, 3):
            history.join(number, "orders", zone="ab"[number % 2]).join(10 + number, "stock", zone="b")
        if epoch == 3:
            history.flow(1, "orders", 2500).flow(11, "stock", 30)
        else:
            for number in range(20):
                history.ask(1 + number % 3, "orders").ask(11 + number % 3, "stock")
            history.leave(3, "orders").ask(0, "billing").ask(1, "orders")
        history.write(folder)
    for source in (LIFECYCLES, REQUESTS):
        copied = folder / source / "copy.parquet"
        copied.write_bytes(next((folder / source).glob("*-2-*.parquet")).read_bytes())
        archive = folder / ARCHIVE / "somewhere" / "deep" / source
        archive.mkdir(parents=True)
        for path in (folder / source).glob("*-1-0000000001.parquet"):
            path.rename(archive / path.name)
    return folder


def test_events_give_the_same_with_and_without_spark(spark: Any, tmp_path: Path) -> None:
    """All of a question by a path, which its folders are found below; what is read by a URI, where Spark finds them."""
    events = mixed(tmp_path / "events")
    question = Question(chooser="p2c", without=(("zone", "a"),), copies_of=(("zone", "b"),))
    here = LocalEngine(events=events, tables=None, question=question)
    expected = as_json(simulate(here, question))
    assert expected["requests"] == 2 * 42 + 2530
    on_spark = simulate(SparkEngine(spark, events=str(events), tables="", question=question), question)
    assert as_json(on_spark) == expected
    by_uri = SparkEngine(spark, events=f"file://{events}", tables="", question=Question())
    assert sorted(by_uri.lifecycle().to_pylist(), key=str) == sorted(here.lifecycle().to_pylist(), key=str)


def test_tables_give_the_same_with_and_without_spark(spark: Any, tmp_path: Path) -> None:
    """Of an epoch without its beginning, whose snapshot stands in the table `routes`."""
    history = History()
    seen = [
        history.tell(ROUTE_SEEN, number, "orders", tags_of(number, "orders"), detail="").lifecycle[-1]
        for number in (1, 2)
    ]
    history.tell(TABLE_DIGEST, tags={"routes": "2"})
    for number in range(50):
        history.ask(1 + number % 2, "orders")
    made = history.tables()
    lifecycle = made[LIFECYCLES].filter(pc.not_equal(made[LIFECYCLES]["kind"], ROUTE_SEEN))
    snapshots = (
        made[LIFECYCLES]
        .slice(0, len(seen))
        .append_column("seen_at", made[LIFECYCLES]["event_time"].slice(0, len(seen)))
    )
    for table, rows in ((LIFECYCLE, lifecycle), (ROUTES, snapshots), (REQUEST_TABLE, made[REQUESTS])):
        folder = tmp_path / table / "date=2023-11-14"
        folder.mkdir(parents=True)
        pq.write_table(rows.select(table_schema(table).names), folder / "one.parquet")
    question = Question(until_us=START_US + 40_000)
    here = simulate(LocalEngine(events=None, tables=tmp_path, question=question), question)
    assert here.result.requests == 36
    assert "the replay starts at the snapshot" in here.notes[0]
    on_spark = simulate(SparkEngine(spark, events="", tables=str(tmp_path), question=question), question)
    assert as_json(on_spark) == as_json(here)


def test_a_uri_of_nothing_is_empty(spark: Any, tmp_path: Path) -> None:
    assert SparkEngine(spark, events=f"file://{tmp_path}/no", tables="", question=Question()).lifecycle().num_rows == 0


def test_a_file_that_vanishes_is_told(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = History().start().join(1, "orders").write(tmp_path)
    [there] = (events / LIFECYCLES).glob("*.parquet")
    paths = [there, there.with_name("gone.parquet")]
    monkeypatch.setattr("spark_sink.what_if.spark.paths_for_spark", lambda *_: paths)
    engine = SparkEngine(spark, events=str(events), tables="", question=Question())
    with pytest.raises(BadFolder, match=rf"^{events} cannot be read: .*/gone\.parquet"):
        engine.lifecycle()
