"""The pipeline over a Hadoop file system that is no local disk: Hadoop's own viewfs, whose files lie in a folder here.

Once as one that renames, and once taken for an object store, whose files get their name at once."""

from pathlib import Path
from typing import Any

import pytest

from spark_sink.errors import BadFolder
from spark_sink.event_files.layout import ARCHIVE
from spark_sink.pipeline import filesystems as places
from spark_sink.pipeline.compaction import compact
from spark_sink.pipeline.filesystems import HadoopFileSystem, filesystem_of
from spark_sink.pipeline.spark import SparkEngine
from spark_sink.schema import FLOWS
from spark_sink.schema import REQUESTS as REQUEST_SOURCE
from tests.spark_sink.pipeline.batches import seal_requests
from tests.spark_sink.pipeline.folders import BEFORE_MIDNIGHT_MS, assert_tables_tell, request_seqs, seal
from tests.spark_sink.pipeline.folders import run_once as run
from tests.spark_sink.records import HEADER, events, header_with

pytestmark = pytest.mark.spark


@pytest.fixture
def root(spark: Any, tmp_path: Path) -> str:
    """The URI of `tmp_path`."""
    conf = spark._jsc.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.pipe.link./data", f"file://{tmp_path}")
    conf.set("fs.viewfs.impl.disable.cache", "true")  # or the next test has the folder of this one
    return "viewfs://pipe/data"


@pytest.mark.parametrize("is_store", [False, True])
def test_tables_on_hadoop_tell_each_record_once(
    spark: Any, tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch, is_store: bool
) -> None:
    monkeypatch.setattr(places, "OBJECT_STORES", frozenset({"viewfs"} if is_store else ()))
    first = events(1, 60, BEFORE_MIDNIGHT_MS)
    seal(tmp_path / "events", first)
    seal_requests(tmp_path / "events", range(1000, 1100))
    (tmp_path / "events" / FLOWS / f"{HEADER.broker_id}-1-0000000001.parquet").write_text("torn")
    uris: Any = (f"{root}/events", f"{root}/x/../tables")
    run(spark, *uris)
    second = [] if is_store else events(2, 40, BEFORE_MIDNIGHT_MS, first_seq=61)
    if second:
        seal(tmp_path / "events", second, header=header_with(first_number=100))
        run(spark, *uris)
    assert_tables_tell(tmp_path / "tables", [*first, *second])
    assert request_seqs(tmp_path / "tables") == list(range(1000, 1100))
    assert not list((tmp_path / "events").glob("[flr]*/*.parquet"))
    assert len(list((tmp_path / "events" / ARCHIVE).rglob("*.parquet"))) == (4 if is_store else 6)
    compact(filesystem_of(f"{root}/tables", spark), SparkEngine(spark), "2023-11-17")
    assert_tables_tell(tmp_path / "tables", [*first, *second])
    assert len(list((tmp_path / "tables" / "traffic").glob("*/*.parquet"))) == 2


@pytest.mark.parametrize("is_store", [False, True])
def test_place_on_hadoop_does_what_a_local_one_does(
    spark: Any, tmp_path: Path, root: str, monkeypatch: pytest.MonkeyPatch, is_store: bool
) -> None:
    monkeypatch.setattr(places, "OBJECT_STORES", frozenset({"viewfs"} if is_store else ()))
    place = HadoopFileSystem(f"{root}/x", spark)
    assert (place.names("a"), place.exists("a")) == ([], False)
    for text in (b"old", b"new"):
        place.write("a", "file", text)
    assert (place.names("a"), place.read("a/file")) == (["file"], b"new")
    assert (tmp_path / "x" / "a" / "file").read_bytes() == b"new"
    for _time in (1, 2):
        place.take("b", "taken", place, place.file("a/file"))
    assert (place.names("b"), place.read("b/taken")) == (["taken"], b"new")
    place.write("b", "other", b"123456")
    place.move("b/other", "c/d/taken")
    place.move("b/taken", "c/d/taken")
    assert (place.names("b"), place.names("c/d"), place.read("c/d/taken")) == ([], ["taken"], b"new")
    assert [place.content(place.file("a/file"), last) for last in (2, 3, 4)] == [b"ew", b"new", b"new"]
    with pytest.raises(FileNotFoundError):
        place.read("a/nothing")
    place.remove("c")
    place.remove("c")
    assert not place.exists("c")


def test_hadoop_file_system_that_is_unknown_is_one_sentence(spark: Any) -> None:
    with pytest.raises(BadFolder, match=r"nothing://host/x cannot be reached: .*No FileSystem for scheme"):
        filesystem_of("nothing://host/x", spark)


def test_names_that_spark_logs_are_those_of_the_place(spark: Any, tmp_path: Path, root: str) -> None:
    seal_requests(tmp_path / "events", range(1, 10))
    place = HadoopFileSystem(f"{root}/events/", spark)
    [found] = spark.read.parquet(f"{root}/events/{REQUEST_SOURCE}").inputFiles()
    assert found == place.file(f"{REQUEST_SOURCE}/{place.names(REQUEST_SOURCE)[0]}")
