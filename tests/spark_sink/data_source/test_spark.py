"""The data source as Spark uses it; what needs no JVM is asked of the classes themselves."""

import importlib
import inspect
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_sink.errors import BadOptions, MissingPart
from spark_sink.schema import FLOWS, LIFECYCLES, REQUESTS
from tests.spark_sink.data_source.world import STREAM, Name, archive, run, segments

pytest.importorskip("pyspark", reason="Spark: pip install -e '.[spark]'")

from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType, TimestampType

from spark_sink.data_source import spark as spark_module
from spark_sink.data_source.spark import READ_ONLY, RSocketBroker

FEW = StructType(
    [
        StructField("seq", LongType()),
        StructField("tags", MapType(StringType(), StringType())),
        StructField("event_time", TimestampType()),
    ]
)


def source(folder: Path, **options: str) -> Any:
    return RSocketBroker({"source": LIFECYCLES, "path": str(folder), **options})


def test_options_are_checked_when_the_format_is_loaded() -> None:
    assert RSocketBroker.name() == "rsocket_broker"
    with pytest.raises(BadOptions, match="source must be"):
        RSocketBroker({"path": "x"})


def test_latest_offset_has_both_signatures(tmp_path: Path) -> None:
    one = run(tmp_path)
    one.take(100)
    reader = pickle.loads(pickle.dumps(source(tmp_path))).streamReader(FEW)
    assert len(inspect.signature(reader.latestOffset).parameters) == 2
    start = reader.initialOffset()
    assert start == {STREAM: 0}
    assert reader.latestOffset() == reader.latestOffset(start) == {STREAM: 10}
    assert reader.reportLatestOffset() == {STREAM: 10}
    partitions = pickle.loads(pickle.dumps(reader.partitions(start, {STREAM: 10})))
    found = [seq for each in partitions for batch in reader.read(each) for seq in batch["seq"].to_pylist()]
    assert found == [seq for _, _, seq in one.names[LIFECYCLES]]
    reader.commit({STREAM: 10})
    reader.stop()


def test_rows_are_record_batches_with_the_columns_that_were_asked_for(tmp_path: Path) -> None:
    run(tmp_path).take(20)
    reader = source(tmp_path).reader(FEW)
    [partition] = reader.partitions()
    [batch] = reader.read(partition)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema == spark_module.columns_of(FEW, LIFECYCLES)
    assert list(reader.read(type(partition)(None))) == []


def test_a_schema_with_a_column_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOptions, match="lifecycle have no column speed"):
        source(tmp_path).reader(StructType([StructField("seq", LongType()), StructField("speed", LongType())]))


def test_limits_of_spark_4_2(tmp_path: Path) -> None:
    limits = pytest.importorskip("pyspark.sql.streaming.datasource")
    run(tmp_path).take(100)
    reader = source(tmp_path, maxRecordsPerTrigger="4").streamReader(FEW)
    assert reader.getDefaultReadLimit() == limits.ReadMaxRows(4)
    assert source(tmp_path).streamReader(FEW).getDefaultReadLimit() == limits.ReadAllAvailable()
    start = reader.initialOffset()
    assert reader.latestOffset(start, limits.ReadMaxRows(4)) == {STREAM: 4}
    assert reader.latestOffset(start, limits.ReadAllAvailable()) == {STREAM: 10}
    assert isinstance(reader, limits.SupportsTriggerAvailableNow)
    reader.prepareForTriggerAvailableNow()
    run(tmp_path, 1_700_000_000_001).take(100)
    assert reader.latestOffset(start, limits.ReadAllAvailable())[STREAM] == 10


def imported_with(monkeypatch: pytest.MonkeyPatch, **modules: Any) -> str:
    """What the module says when it is imported and these modules are missing (None) or others."""
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name.replace("__", "."), module)
    monkeypatch.delitem(sys.modules, "spark_sink.data_source.spark")
    with pytest.raises(MissingPart) as raised:
        importlib.import_module("spark_sink.data_source.spark")
    return str(raised.value)


def test_without_pyspark_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said = imported_with(monkeypatch, pyspark=None)
    assert 'needs pyspark 4.1 or newer: pip install "rsocket-broker[spark]"' in said


def test_with_a_pyspark_that_is_too_old_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "needs pyspark 4.1 or newer" in imported_with(monkeypatch, pyspark__sql__datasource=None)
    monkeypatch.undo()
    monkeypatch.setattr("pyspark.__version__", "4.0.5")
    assert imported_with(monkeypatch) == 'format("rsocket_broker") needs pyspark 4.1 or newer, this is 4.0.5'


# With Spark


def loaded(reads: Any, folder: Path, source: str = FLOWS, **options: str) -> Any:
    frame = reads.format("rsocket_broker").option("source", source).options(**options).load(str(folder))
    return frame.select("broker_id", "epoch", "seq")


@pytest.mark.spark
def test_a_query_that_dies_in_a_batch_and_begins_again_reads_every_record_once(spark: Any, tmp_path: Path) -> None:
    """The batch is done again under its number, after its output was written and its logs have become segments."""
    spark.dataSource.register(RSocketBroker)
    folder = tmp_path / "the events"
    one, two = run(folder), run(folder, broker=2)
    for each in (one, two):
        each.take(50)
    batches: list[tuple[int, list[Name]]] = []

    def take(batch: Any, number: int) -> None:
        batches.append((number, sorted(tuple(row) for row in batch.collect())))
        if len(batches) == 1:
            raise RuntimeError("killed")

    def start() -> Any:
        frame = loaded(spark.readStream, folder, maxRecordsPerTrigger="80")
        query = frame.writeStream.option("checkpointLocation", str(tmp_path / "state")).foreachBatch(take)
        return query.trigger(availableNow=True).start()

    with pytest.raises(Exception, match="killed"):
        start().awaitTermination()
    for each in (one, two):
        each.seal(20)
        archive(folder, FLOWS, segments(folder)[0])
    start().awaitTermination()
    if spark.version < "4.2":  # where "available now" is one batch
        start().awaitTermination()
    assert [number for number, _ in batches] == [0, 0, 1]
    assert batches[0] == batches[1]
    assert sorted(name for _, rows in batches[1:] for name in rows) == sorted(one.names[FLOWS] + two.names[FLOWS])


@pytest.mark.spark
def test_batches_of_all_sources(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(RSocketBroker)
    one = run(tmp_path)
    one.seal(60)
    one.take(30)
    for source in (FLOWS, LIFECYCLES, REQUESTS):
        assert sorted(map(tuple, loaded(spark.read, tmp_path, source).collect())) == one.names[source]
    whole = spark.read.format("rsocket_broker").option("source", LIFECYCLES).load(str(tmp_path))
    assert whole.filter("tags['region'] in ('eu', 'us')").count() == 9
    with pytest.raises(Exception, match="source must be flows, lifecycle, requests, messages or files, not 'flow'"):
        loaded(spark.read, tmp_path, "flow").count()
    with pytest.raises(Exception, match=re.escape(READ_ONLY)):
        whole.write.format("rsocket_broker").option("source", "flows").mode("append").save(str(tmp_path))
