"""Files that are no segments, or are damaged: named, counted and passed over."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_sink.event_files.layout import ARCHIVE
from spark_sink.pipeline.batch import never_read
from spark_sink.schema import ARROW_SCHEMAS as SOURCE_SCHEMAS
from spark_sink.schema import FLOWS, LIFECYCLES, REQUESTS
from spark_sink.tables import COLUMNS, GAPS, read_table, table_schema
from tests.spark_sink.pipeline.batches import gaps, seal_requests
from tests.spark_sink.pipeline.folders import EventSource, assert_tables_tell, request_seqs, seal
from tests.spark_sink.records import HEADER, events, header_with


def segment_like(path: Path, table: pa.Table, **metadata: str) -> None:
    told = {"schema_version": "3", "source": path.parent.name, "broker_id": "b", "broker_name": "b", "epoch": "1"}
    pairs = {f"rsocket_broker.{key}": value for key, value in (told | metadata).items()}
    pq.write_table(table.replace_schema_metadata(pairs), path)


def test_files_that_are_no_segments_are_named_counted_and_passed_over(
    source: EventSource, capsys: pytest.CaptureFixture[str]
) -> None:
    records = events(8, 20)
    seal(source.events, records)
    seal_requests(source.events, range(100, 110))
    flows = source.events / FLOWS
    good = pq.read_table(next(flows.iterdir()))
    (flows / "foreign.parquet").write_text("no parquet")
    (flows / "b-1-0000000001.parquet").write_bytes(next(flows.glob("7f3a*")).read_bytes()[:-10])
    (flows / "b-1-0000000002.parquet").touch()
    pq.write_table(pa.table({"a": [1]}), flows / "b-1-0000000003.parquet")
    segment_like(flows / "b-1-0000000004.parquet", good, schema_version="99")
    segment_like(flows / "b-1-0000000005.parquet", good, source=LIFECYCLES)
    place = good.schema.get_field_index("requests")
    texts = good.set_column(place, "requests", good["requests"].cast(pa.string()))
    segment_like(flows / "b-1-0000000006.parquet", texts)
    segment_like(flows / "b-1-0000000007.parquet", good.drop_columns(["seq"]))
    segment_like(flows / "c-1-0000000008.parquet", good)
    (source.events / "requests" / "b-1-0000000009.parquet").write_bytes(os.urandom(5000))
    broken = bytearray(next(flows.glob("7f3a*")).read_bytes())
    broken[-400:-8] = b"\xff" * 392  # the footer's end is good, and not what is before it
    (flows / "b-1-0000000010.parquet").write_bytes(broken)
    writer = source.writer()
    source.run(writer)
    assert_tables_tell(source.tables, records)
    assert request_seqs(source.tables) == list(range(100, 110))
    whys = {
        row["detail"].partition(": ")[0].rpartition("/")[2]: row["detail"].partition(": ")[2]
        for row in read_table(source.tables, GAPS).to_pylist()
        if row["reason"] == "bad-file"
    }
    assert {name: why[:34] for name, why in sorted(whys.items())} == {
        "b-1-0000000001.parquet": "it is torn, or no Parquet file: Pa",
        "b-1-0000000002.parquet": "it is torn: there is nothing in it",
        "b-1-0000000003.parquet": "its footer does not say rsocket_br",
        "b-1-0000000004.parquet": "it is of schema version 99 and thi",
        "b-1-0000000005.parquet": "its footer says that it is of 'lif",
        "b-1-0000000006.parquet": "its column requests is string and ",
        "b-1-0000000007.parquet": "it has no column seq",
        "b-1-0000000009.parquet": "it is torn, or no Parquet file: Pa",
        "b-1-0000000010.parquet": "it is torn, or no Parquet file: Co",
        "c-1-0000000008.parquet": "its footer says that it is of the ",
        "foreign.parquet": "its name is not <broker>-<epoch>-<",
    }
    assert writer.bad_files == 11
    lines = capsys.readouterr().err.splitlines()
    assert sum("is passed over: " in line for line in lines) == 11
    assert "11 bad files so far" in lines[-1]


def test_files_with_a_good_footer_and_bad_pages_are_found_when_reading_fails(source: EventSource) -> None:
    records = events(8, 40)
    seal(source.events, records[:20])
    seal(source.events, records[20:], header=header_with(first_number=2))
    seal_requests(source.events, range(1, 50))
    seal_requests(source.events, range(50, 90))
    bad = [source.events / FLOWS / f"{HEADER.broker_id}-{HEADER.epoch}-0000000002.parquet"]
    bad.append(max((source.events / REQUESTS).iterdir()))
    for path in bad:
        data = bytearray(path.read_bytes())
        data[4:800] = b"\xff" * 796
        path.write_bytes(data)
    source.run()
    gaps = [row["detail"] for row in read_table(source.tables, GAPS).to_pylist() if row["reason"] == "bad-file"]
    why = ": its footer is good and its content is not: "
    assert sorted(gap.partition(why)[0] for gap in gaps) == sorted(map(str, bad))
    assert_tables_tell(source.tables, [record for record in records if record.seq <= 20 or record.seq % 10 == 0])
    assert request_seqs(source.tables) == list(range(1, 50))


def test_requests_with_other_columns_get_those_of_the_table(source: EventSource) -> None:
    seal_requests(source.events, range(1, 50))
    folder = source.events / REQUESTS
    [path] = folder.iterdir()
    table = pq.read_table(path)
    path.unlink()
    older, newer = table.drop_columns(["branches", "emptied_by"]), table.append_column("more", table["seq"])
    segment_like(folder / "b-1-0000000001.parquet", older, schema_version="2")
    segment_like(folder / "b-1-0000000002.parquet", newer)
    source.run()
    for file in source.tables.glob("requests/*/*.parquet"):
        assert pq.read_schema(file).remove_metadata() == table_schema("requests")
    assert request_seqs(source.tables) == sorted([*range(1, 50), *range(1, 50)])


def test_rows_without_what_every_record_has_are_told_and_the_others_go_on(source: EventSource) -> None:
    records = events(8, 20)
    seal(source.events, records)
    for folder, name in ((FLOWS, "started_at"), (LIFECYCLES, "kind")):
        good = pq.read_table(next((source.events / folder).glob("7f3a*")))
        place = good.schema.get_field_index(name)
        nothing = good.set_column(place, name, pa.nulls(good.num_rows, good.schema.field(name).type))
        segment_like(source.events / folder / "b-1-0000000001.parquet", nothing)
        segment_like(source.events / folder / "b-1-0000000002.parquet", good.drop_columns([name]))
    source.run()
    assert_tables_tell(source.tables, records)
    whys = [row["detail"].partition(": ")[2] for row in read_table(source.tables, GAPS).to_pylist()]
    assert sorted(why for why in whys if why.startswith("it")) == [
        "it has no column kind",
        "it has no column started_at",
        "it has rows without kind",
        "it has rows without started_at",
    ]


def test_empty_segments_are_files_without_rows(source: EventSource) -> None:
    for folder in SOURCE_SCHEMAS:
        (source.events / folder).mkdir(exist_ok=True)
        segment_like(source.events / folder / "b-1-0000000001.parquet", SOURCE_SCHEMAS[folder].empty_table())
    source.run()
    assert gaps(source.tables) == []
    assert all(read_table(source.tables, table).num_rows == 0 for table in COLUMNS)


def test_segment_that_comes_back_from_the_archive_is_not_counted_again(source: EventSource) -> None:
    records = events(8, 20)
    seal(source.events, records)
    source.run()
    assert list(never_read(source.places[0])) == []
    for path in list((source.events / ARCHIVE).rglob("*.parquet")):
        (source.events / path.parent.name / path.name).write_bytes(path.read_bytes())
    for _start in (1, 2):
        source.run()
        assert [text.partition(" is never read: ")[2] for text in never_read(source.places[0])] == [
            "a file of this name was read before and lies in _archive"
        ] * 2
    assert_tables_tell(source.tables, records)
    assert [gap[0] for gap in gaps(source.tables) if gap[0] == "bad-file"] == [], "nothing is missing"


def test_names_that_are_never_found_are_told(source: EventSource) -> None:
    for name in (
        "_b-1-0000000001.parquet",
        "b-1-0000000001.json",
        ".hidden",
        os.fsdecode(b"\xff-1-0000000001.parquet"),
    ):
        (source.events / FLOWS / name).touch()
    texts = list(never_read(source.places[0]))
    assert [text.partition(" is never read")[0].rpartition("/")[2] for text in texts] == [
        "_b-1-0000000001.parquet",
        "b-1-0000000001.json",
        "\\udcff-1-0000000001.parquet",
    ]
