"""A copy of a segment under another number is read by nobody twice; the tables are in `pipeline/test_known.py`."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_sink.event_files.folder import list_folder
from spark_sink.event_files.layout import ARCHIVE
from spark_sink.event_files.store import copies_among
from spark_sink.schema import FLOWS, LIFECYCLES, REQUESTS
from spark_sink.time_travel import table_at
from spark_sink.timestamps import moment_at
from spark_sink.what_if.local import LocalEngine
from spark_sink.what_if.question import Question
from spark_sink.what_if.spark import SparkEngine
from tests.spark_sink.data_source.world import read_part, reader_of
from tests.spark_sink.pipeline.batches import seal_requests
from tests.spark_sink.pipeline.folders import seal
from tests.spark_sink.records import NOON_MS, copied, events, header_with

SOURCES = (FLOWS, LIFECYCLES, REQUESTS)


def filled(folder: Path) -> Path:
    """Three segments of flows and lifecycle, and one of requests."""
    for number in (1, 2, 3):
        first_seq = 20 * number - 19
        header = header_with(first_number=number)
        seal(folder, events(number, 20, NOON_MS + number * 1000, first_seq=first_seq), header=header)
    seal_requests(folder, range(1000, 1020))
    return folder


def why(copy: Path) -> str:
    return f"its footer has the number {int(copy.stem[-10:]) - 9000}: it is a copy, or was renamed"


def test_segments_say_their_numbers(tmp_path: Path) -> None:
    filled(tmp_path)
    for path in tmp_path.glob("*/*.parquet"):
        assert int(pq.read_metadata(path).metadata[b"rsocket_broker.number"]) == int(path.stem[-10:])


@pytest.mark.parametrize("source", SOURCES)
def test_data_source_gives_each_record_once_and_what_comes_behind_a_copy(
    tmp_path: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def seqs(folder: Path) -> list[int]:
        reader = reader_of(folder, source, failOnDataLoss="false")
        return [seq for part in reader.whole() for *_, seq in read_part(reader, part)]

    expected = seqs(filled(tmp_path))
    capsys.readouterr()
    copies = [path for path in copied(tmp_path, 1, 2, 4) if path.parent.name == source]
    assert seqs(tmp_path) == expected
    told = capsys.readouterr().err
    assert all(f"{source}/{path.name} is passed over: {why(path)}" in told for path in copies[-1:])


def test_what_if_counts_each_request_once_and_names_the_copies(tmp_path: Path) -> None:
    filled(tmp_path)
    copies = [path for path in copied(tmp_path, 1, 2, 4) if path.parent.name != LIFECYCLES]
    here = LocalEngine(events=tmp_path, tables=None, question=Question())
    assert sum(here.totals()["rows"].to_pylist()) == 20
    assert sorted(here.problems) == sorted(f"{path} is passed over: {why(path)}" for path in copies)


def test_time_travel_sees_the_same_table_and_names_the_copies(tmp_path: Path) -> None:
    at = moment_at(NOON_MS * 1000 + 3_600_000_000)
    before = table_at(filled(tmp_path), at)
    copies = copied(tmp_path, 1, 2, 4)
    after = table_at(tmp_path, at)
    assert (after.routes, after.digest, after.last_seq) == (before.routes, before.digest, before.last_seq)
    assert set(after.problems) - set(before.problems) <= {f"{path} is passed over: {why(path)}" for path in copies}
    assert len(after.problems) > len(before.problems)


def test_copies_are_found_in_the_archive_and_segments_of_equal_size_are_none(tmp_path: Path) -> None:
    filled(tmp_path)
    [path] = (tmp_path / REQUESTS).glob("*-0000000004.parquet")
    copy = tmp_path / ARCHIVE / "x" / REQUESTS / path.name.replace("-0000000004", "-0000009004")
    copy.parent.mkdir(parents=True)
    shutil.copy(path, copy)
    same = path.with_name(path.name.replace("-0000000004", "-0000000005"))
    same.write_bytes(bytes(path.stat().st_size))  # torn
    assert copies_among(tmp_path, list_folder(tmp_path).files(REQUESTS)) == {copy: why(copy)}


@pytest.mark.spark
def test_what_if_on_spark_counts_each_request_once(spark: Any, tmp_path: Path) -> None:
    filled(tmp_path)
    copies = [path for path in copied(tmp_path, 1, 2, 4) if path.parent.name != LIFECYCLES]
    on_spark = SparkEngine(spark, events=str(tmp_path), tables="", question=Question())
    assert sum(on_spark.totals()["rows"].to_pylist()) == 20
    assert sorted(on_spark.problems) == sorted(f"{path} is passed over: {why(path)}" for path in copies)
