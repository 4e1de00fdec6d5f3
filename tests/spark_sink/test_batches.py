from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from broker.events import KIND_NAMES, ROUTE_JOINED, FlowRecord, LifecycleEvent
from spark_sink.batches import parquet_bytes, segment_metadata, tables_of
from spark_sink.events import ARROW_SCHEMAS
from spark_sink.frames import decode_rows
from tests.spark_sink.records import HEADER, NOON_MS, Event, events, rows_frame

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ORIGIN = {"broker_id": HEADER.broker_id, "broker_name": HEADER.broker_name, "epoch": HEADER.epoch}


def tables(records: list[Event]) -> dict[str, pa.Table]:
    return tables_of(HEADER, decode_rows(rows_frame(records)))


def flow_row(record: FlowRecord) -> dict[str, Any]:
    """What must stand in the file, said in plain Python."""
    names = ["caller_route", "caller_service", "route_id", "service", "tags", "model", "routing", "outcome", "word"]
    names += ["requests", "items_in", "items_out", "bytes_in", "bytes_out", "latency_sum_us", "latency_max_us"]
    return ORIGIN | {
        "seq": record.seq,
        "at": EPOCH + timedelta(milliseconds=record.at_ms),
        "started_at": EPOCH + timedelta(milliseconds=record.at_ms - record.interval_ms),
        "interval_ms": record.interval_ms,
        **{name: getattr(record, name) for name in names},
        "latency_buckets": [bucket for bucket, _ in record.histogram],
        "latency_counts": [count for _, count in record.histogram],
    }


def lifecycle_row(event: LifecycleEvent) -> dict[str, Any]:
    names = ["seq", "kind", "route_id", "service", "peer", "reason", "detail", "uptime_ms", "requests"]
    return ORIGIN | {
        "at": EPOCH + timedelta(milliseconds=event.at_ms),
        "event": KIND_NAMES[event.kind],
        "tags": event.tags,
        **{name: getattr(event, name) for name in names},
    }


def test_tables_hold_exactly_what_the_records_say() -> None:
    records = events(seed=1, count=200)
    made = tables(records)
    assert made["flows"].to_pylist() == [flow_row(one) for one in records if isinstance(one, FlowRecord)]
    assert made["lifecycle"].to_pylist() == [lifecycle_row(one) for one in records if isinstance(one, LifecycleEvent)]


def test_source_without_records_has_no_table() -> None:
    assert set(tables(events(seed=1, count=3))) == {"flows"}


def test_repeated_tag_keeps_all_its_values_under_one_key() -> None:
    event = LifecycleEvent(ROUTE_JOINED, 1, NOON_MS, tags=[("region", "eu"), ("zone", "b"), ("region", "us")])
    assert tables([event])["lifecycle"]["tags"].to_pylist() == [[("region", "eu,us"), ("zone", "b")]]


def test_unknown_kind_of_a_newer_broker_is_kept_with_its_number() -> None:
    assert tables([LifecycleEvent(77, 1, NOON_MS)])["lifecycle"]["event"].to_pylist() == ["Kind77"]


def test_file_has_plain_columns_zstd_and_says_what_it_is() -> None:
    table = tables(events(seed=1, count=50))["flows"]
    file = pq.ParquetFile(pa.BufferReader(parquet_bytes(table, segment_metadata(HEADER, "flows"))))
    metadata = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
    assert metadata == {
        "rsocket_broker.schema_version": "1",
        "rsocket_broker.source": "flows",
        "rsocket_broker.broker_id": HEADER.broker_id,
        "rsocket_broker.broker_name": HEADER.broker_name,
        "rsocket_broker.epoch": str(HEADER.epoch),
        "rsocket_broker.broker_version": "",
    }
    group = file.metadata.row_group(0)
    assert {group.column(number).compression for number in range(group.num_columns)} == {"ZSTD"}
    assert file.read().cast(ARROW_SCHEMAS["flows"]) == table
