import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from broker.events import DEFINITION_FIELDS, KIND_NAMES, OUTCOME_NAMES, ROUTE_JOINED, FlowRecord, LifecycleEvent
from spark_sink.event_files.batches import FrameRows, parquet_bytes, tables_of
from spark_sink.event_files.footer import segment_metadata
from spark_sink.event_files.frames import Header, decode_rows
from spark_sink.schema import ARROW_SCHEMAS
from tests.spark_sink.records import (
    HEADER,
    NOON_MS,
    DefinitionFields,
    RequestFields,
    arrow_of,
    definition,
    events,
    header_with,
    request,
    rows_frame,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ORIGIN = {"broker_id": HEADER.broker_id, "broker_name": HEADER.broker_name, "epoch": HEADER.epoch}


def flow_row(record: FlowRecord) -> dict[str, Any]:
    """What must stand in the file, said in plain Python."""
    names = ["caller_route", "caller_service", "principal", "route_id", "service", "address", "model", "routing"]
    names += ["outcome", "word", "emptied_by", "requests", "branches", "items_in", "items_out", "bytes_in", "bytes_out"]
    names += ["latency_sum_us", "latency_max_us", "address_frame"]
    return ORIGIN | {
        "seq": record.seq,
        "event_time": EPOCH + timedelta(milliseconds=record.at_ms),
        "started_at": EPOCH + timedelta(milliseconds=record.at_ms - record.interval_ms),
        "interval_ms": record.interval_ms,
        **{name: getattr(record, name) for name in names},
        "latency_buckets": [bucket for bucket, _ in record.histogram],
        "latency_counts": [count for _, count in record.histogram],
    }


def request_row(row: RequestFields, flow: DefinitionFields) -> dict[str, Any]:
    _, seq, started_us, duration_us, _, outcome, choice, ended, key_hash, branches, *sizes = row
    items_in, items_out, bytes_in, bytes_out = sizes
    return ORIGIN | {
        "seq": seq,
        "event_time": EPOCH + timedelta(microseconds=started_us + duration_us),
        "started_at": EPOCH + timedelta(microseconds=started_us),
        "duration_us": duration_us,
        **dict(zip(DEFINITION_FIELDS[1:], flow[2:], strict=True)),
        "outcome": OUTCOME_NAMES[outcome],
        "branches": branches,
        "items_in": items_in,
        "items_out": items_out,
        "bytes_in": bytes_in,
        "bytes_out": bytes_out,
        "choice": choice,
        "ended": ended,
        "key_hash": key_hash,
        "weight": 10,
    }


def lifecycle_row(event: LifecycleEvent) -> dict[str, Any]:
    names = ["seq", "kind", "route_id", "service", "peer", "reason", "detail", "uptime_ms", "requests", "choices"]
    names += ["principal", "role"]
    return ORIGIN | {
        "event_time": EPOCH + timedelta(milliseconds=event.at_ms),
        "event": KIND_NAMES[event.kind],
        "tags": event.tags,
        **{name: getattr(event, name) for name in names},
    }


def test_tables_hold_exactly_what_the_records_say() -> None:
    records = events(seed=1, count=200)
    made = arrow_of(rows_frame(records))
    assert made["flows"].to_pylist() == [flow_row(one) for one in records if isinstance(one, FlowRecord)]
    assert made["lifecycle"].to_pylist() == [lifecycle_row(one) for one in records if isinstance(one, LifecycleEvent)]


def made_of(frames: list[list[object]], header: Header = HEADER) -> dict[str, pa.Table]:
    """Tables of these frames of rows, one after the other."""
    known: dict[int, Any] = {}
    return tables_of(header, [FrameRows(decode_rows(msgspec.msgpack.encode(rows)), known) for rows in frames], known)


def test_requests_are_told_with_what_their_flow_means() -> None:
    rng = random.Random(5)
    flows = [definition(number, service=f"service-{number % 3}") for number in (7, 8, 9, 2**40)]
    requests = [request(rng, seq, rng.choice(flows)[1]) for seq in range(1, 101)]
    frames: list[list[object]] = [[*flows[:2], *requests[:0]], [*flows[2:], *requests[:50]], [*requests[50:]]]
    rows = made_of(frames, header_with(weight=10))["requests"].to_pylist()
    assert rows == [request_row(row, {flow[1]: flow for flow in flows}[row[4]]) for row in requests]


def test_requests_of_an_unknown_flow_are_told_as_a_gap() -> None:
    rng = random.Random(6)
    flow = definition(1)
    requests = [request(rng, seq, 1 if seq % 2 else 5) for seq in range(1, 9)]
    [frame] = [FrameRows(decode_rows(msgspec.msgpack.encode([flow, *requests])), {})]
    assert (frame.records, frame.lost, frame.first_seq, frame.last_seq) == (8, 4, 1, 8)
    made = made_of([[flow, *requests]])
    assert made["requests"]["seq"].to_pylist() == [1, 3, 5, 7]
    [gap] = made["lifecycle"].to_pylist()
    assert (gap["seq"], gap["event"], gap["reason"]) == (8, "EventsDropped", "unknown-flow")
    assert dict(gap["tags"]) == {"records": "4", "first_seq": "2", "last_seq": "8"}


def test_outcome_of_a_newer_broker_is_kept_with_its_number() -> None:
    row = (2, 1, NOON_MS * 1000, 5, 1, 77, 0, 0, -1, 0, 0, 0, 0, 0)
    assert made_of([[definition(1), row]])["requests"]["outcome"].to_pylist() == ["outcome77"]


def test_source_without_records_has_no_table() -> None:
    assert set(arrow_of(rows_frame(events(seed=1, count=3)))) == {"flows"}


def test_repeated_tag_keeps_all_its_values_under_one_key() -> None:
    event = LifecycleEvent(ROUTE_JOINED, 1, NOON_MS, tags=[("region", "eu"), ("zone", "b"), ("region", "us")])
    assert arrow_of(rows_frame([event]))["lifecycle"]["tags"].to_pylist() == [[("region", "eu,us"), ("zone", "b")]]


def test_unknown_kind_of_a_newer_broker_is_kept_with_its_number() -> None:
    assert arrow_of(rows_frame([LifecycleEvent(77, 1, NOON_MS)]))["lifecycle"]["event"].to_pylist() == ["Kind77"]


def test_file_has_plain_columns_zstd_and_says_what_it_is() -> None:
    table = arrow_of(rows_frame(events(seed=1, count=50)))["flows"]
    file = pq.ParquetFile(pa.BufferReader(parquet_bytes(table, segment_metadata(HEADER, "flows", 41))))
    metadata = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
    assert metadata == {
        "rsocket_broker.schema_version": "4",
        "rsocket_broker.source": "flows",
        "rsocket_broker.broker_id": HEADER.broker_id,
        "rsocket_broker.broker_name": HEADER.broker_name,
        "rsocket_broker.epoch": str(HEADER.epoch),
        "rsocket_broker.broker_version": "",
        "rsocket_broker.first_row": "41",
    }
    group = file.metadata.row_group(0)
    assert {group.column(number).compression for number in range(group.num_columns)} == {"ZSTD"}
    assert file.read().cast(ARROW_SCHEMAS["flows"]) == table


def test_numbers_that_grow_from_row_to_row_stand_in_the_file_as_differences() -> None:
    """Without that a request takes a quarter more."""
    rng = random.Random(7)
    table = made_of([[definition(1), *(request(rng, seq, 1) for seq in range(1, 100))]])["requests"]
    group = pq.read_metadata(pa.BufferReader(parquet_bytes(table, {}))).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert {column.path_in_schema for column in columns if "DELTA_BINARY_PACKED" in column.encodings} == {
        *("seq", "event_time", "started_at", "choice", "ended"),
    }
