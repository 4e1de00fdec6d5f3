"""The tables of a real broker equal what its load counted itself."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spark_sink.pipeline import DELTA, PARQUET
from spark_sink.tables import CALLERS, GAPS, REJECTIONS, REQUESTS, TRAFFIC, read_table
from tests.conftest import StartBroker
from tests.spark_sink.pipeline.folders import run_once
from tests.system.events.test_events_truth import OPTIONS, counted, kill_the_writer
from tests.system.support.counted_load import CountedLoad


@pytest.mark.parametrize("table_format", [PARQUET, DELTA])
async def test_tables_equal_what_the_load_counted_though_writer_and_pipeline_end_in_between(
    start_broker: StartBroker, tmp_path: Path, table_format: str
) -> None:
    """With Spark: see test_mirrored."""
    events, tables = tmp_path / "events", tmp_path / "tables"
    broker = start_broker("--events", str(events), "--admin", "127.0.0.1:0", **OPTIONS)
    async with CountedLoad(broker.url("tcp")) as load:
        await load.run(2)
        await load.run_while(kill_the_writer(broker))
        await load.run_while(asyncio.to_thread(run_once, None, events, tables, table_format=table_format))
        await load.lose_a_service()
        await load.lose_a_caller()
    broker.signal()
    assert await asyncio.to_thread(broker.wait) == 0
    await asyncio.to_thread(run_once, None, events, tables)
    for table in (TRAFFIC, REQUESTS):
        assert counted(read_table(tables, table).to_pylist()) == load.counts, table
    of_callers, rejected = Counter[Any](), Counter[Any]()
    for (service, model, routing, outcome), requests in load.counts.items():
        of_callers[service, model, outcome] += requests
        if outcome == "rejected":
            rejected[service, routing] += requests
    told: Counter[Any] = Counter()
    for row in read_table(tables, CALLERS).to_pylist():
        told[row["service"], row["model"], row["outcome"]] += row["requests"]
    assert told == of_callers
    refused: Counter[Any] = Counter()
    for row in read_table(tables, REJECTIONS).to_pylist():
        refused[row["service"], row["routing"]] += row["requests"]
    assert refused == rejected
    assert read_table(tables, GAPS).num_rows == 0
