"""What has the name of a file and is something else: nobody waits for it, follows it or ends for it."""

import os
import random
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from broker.events import WriterState
from spark_sink.errors import BadFile, BadFolder, NoFile
from spark_sink.event_files.folder import LOG, EventFile, list_folder
from spark_sink.event_files.layout import (
    ARCHIVE,
    Disk,
    check_file,
    open_file,
    paths_for_spark,
    seal,
    segment_name,
    wal_name,
)
from spark_sink.event_files.store import SegmentFile
from spark_sink.pipeline.batch import never_read
from spark_sink.pipeline.filesystems import LocalFileSystem
from spark_sink.pipeline.folders import MADE_INTO, check_folders
from spark_sink.pipeline.pipeline import compact_tables
from spark_sink.report.facts import read_facts
from spark_sink.schema import FLOWS, LIFECYCLES, REQUESTS
from spark_sink.tables import GAPS, LIFECYCLE, TRAFFIC, read_table
from spark_sink.time_travel import table_at
from spark_sink.time_travel.segment_reader import SegmentReader
from spark_sink.time_travel.spark_reader import SparkReader
from spark_sink.time_travel.table_reader import TableReader
from spark_sink.timestamps import moment_at
from spark_sink.what_if.local import LocalEngine
from spark_sink.what_if.question import Question
from spark_sink.what_if.spark import SparkEngine
from spark_sink.writer.retention import READERS, Retention
from spark_sink.writer.settings import Settings
from tests.spark_sink.data_source.world import read_part, reader_of
from tests.spark_sink.pipeline import folders as pipeline_folders
from tests.spark_sink.pipeline.batches import seal_requests
from tests.spark_sink.pipeline.folders import EventSource, assert_tables_tell
from tests.spark_sink.records import (
    HEADER,
    NOON_MS,
    WALL_S,
    begun,
    events,
    header_with,
    rows_frame,
    sealed_seqs,
    writer_of,
)
from tests.spark_sink.time_travel.histories import History, random_history, write_segments
from tests.spark_sink.writer.test_crashes import killed_log, put_log

WAIT_S = 60  # of a test; who waits for a FIFO waits for ever


def put_socket(path: Path) -> None:
    """By a short name: sockets take no long ones."""
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


def put_device(path: Path) -> None:
    """Zeros without end."""
    try:
        os.mknod(path, 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


def put_link(path: Path) -> None:
    """To a good segment, where there is one."""
    path.symlink_to(next((each for each in sorted(path.parent.iterdir()) if each.is_file()), "/etc/passwd"))


KINDS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "FIFO": ("a FIFO", os.mkfifo),
    "socket": ("a socket", put_socket),
    "device": ("a device", put_device),
    "folder": ("a folder", Path.mkdir),
    "link": ("a symbolic link", put_link),
    "link to nothing": ("a symbolic link", lambda path: path.symlink_to(path.with_name("nothing"))),
    "link to itself": ("a symbolic link", lambda path: path.symlink_to(path)),
}
ALL = pytest.mark.parametrize("kind", KINDS)


def put(path: Path, kind: str) -> str:
    """What is wrong with it, in a sentence."""
    path.parent.mkdir(parents=True, exist_ok=True)
    KINDS[kind][1](path)
    return f"it is {KINDS[kind][0]} and not a file"


NEVER = ("folder", "link to nothing", "link to itself")  # by any engine; so they stay where they are


@pytest.fixture(autouse=True)
def nobody_waits() -> Iterator[None]:
    def late(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"it takes more than {WAIT_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(WAIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@ALL
def test_it_is_not_opened_and_called_by_its_name(tmp_path: Path, kind: str) -> None:
    why = put(tmp_path / "x", kind)
    for look in (check_file, open_file):
        with pytest.raises(NoFile, match=f"^{why}$"):
            look(tmp_path / "x")


def test_what_takes_the_place_of_a_file_between_look_and_opening_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "x", "FIFO")
    monkeypatch.setattr("spark_sink.event_files.layout.check_file", lambda _: None)
    with pytest.raises(NoFile, match="a FIFO"):
        open_file(tmp_path / "x")


@ALL
def test_no_segment_is_named_and_passed_over_by_the_pipeline(source: EventSource, kind: str) -> None:
    records = events(1, 40)
    pipeline_folders.seal(source.events, records)
    seal_requests(source.events, range(1000, 1020))
    whys = {}
    for folder in (FLOWS, LIFECYCLES, REQUESTS):
        path = source.events / folder / segment_name(HEADER.broker_id, HEADER.epoch, 9)
        whys[f"{path}: {put(path, kind)}"] = "bad-file"
    if kind in NEVER:
        whys = {}
    source.run()
    assert_tables_tell(source.tables, records)
    told = {row["detail"]: row["reason"] for row in read_table(source.tables, GAPS).to_pylist()}
    assert {detail: reason for detail, reason in told.items() if reason == "bad-file"} == whys


@ALL
def test_what_stands_for_the_note_of_the_tables_is_refused(tmp_path: Path, kind: str) -> None:
    pipeline_folders.seal(tmp_path / "events", events(1, 10))
    why = put(tmp_path / "events" / MADE_INTO, kind)
    with pytest.raises(BadFolder, match=rf"{MADE_INTO} cannot be read: {why}; remove it"):
        check_folders(LocalFileSystem(tmp_path / "events"), LocalFileSystem(tmp_path / "tables"), is_once=True)


@ALL
def test_time_travel_names_it_and_goes_on(tmp_path: Path, kind: str) -> None:
    history = random_history(11, 100, snapshot_ms=20_000)
    write_segments(tmp_path, history)
    places = [tmp_path / source / segment_name(*origin(history), 900) for source in (LIFECYCLES, FLOWS)]
    places.append(tmp_path / "_tmp" / wal_name(*origin(history), 901))
    whys = [f"{path} is passed over: {put(path, kind)}" for path in places]
    table = table_at(tmp_path, moment_at(history.at_ms * 1000))
    assert (table.digest, sorted(table.problems)) == (history.digests[-1], sorted(whys))


def origin(history: History) -> tuple[str, int]:
    return history.header.broker_id, history.header.epoch


@ALL
def test_readers_of_one_file_say_so(tmp_path: Path, kind: str) -> None:
    why = put(tmp_path / "x", kind)
    with pytest.raises(BadFile, match=why):
        SegmentFile(tmp_path / "x", EventFile("b-1", 1, FLOWS, FLOWS))


@ALL
def test_what_if_and_the_data_source_do_without_it(tmp_path: Path, kind: str) -> None:
    pipeline_folders.seal(tmp_path, events(1, 40))
    seal_requests(tmp_path, range(1000, 1020))
    for source in (FLOWS, LIFECYCLES, REQUESTS):
        put(tmp_path / source / segment_name(HEADER.broker_id, HEADER.epoch, 9), kind)
        put(tmp_path / ARCHIVE / source / segment_name(HEADER.broker_id, HEADER.epoch, 10), kind)
    put(tmp_path / "_tmp" / wal_name(HEADER.broker_id, HEADER.epoch, 11), kind)
    here = LocalEngine(events=tmp_path, tables=None, question=Question())
    assert sum(here.totals()["rows"].to_pylist()) == 20
    for source, count in ((FLOWS, 36), (LIFECYCLES, 4), (REQUESTS, 20)):
        assert all(file.number < 9 for file in list_folder(tmp_path).files(source, LOG))
        reader = reader_of(tmp_path, source)
        assert sum(len(read_part(reader, part)) for part in reader.whole()) == count


@ALL
def test_writer_takes_it_for_no_log_no_segment_and_no_reader(tmp_path: Path, kind: str) -> None:
    """Neither at its start nor later; and a log whose segments are not there is made into segments."""
    put_log(tmp_path, killed_log(tmp_path / "log"))
    other = HEADER.broker_id.replace("7", "8")
    strange = [tmp_path / "_tmp" / wal_name(broker_id, 7, 900) for broker_id in (HEADER.broker_id, other)]
    strange.append(tmp_path / FLOWS / segment_name(other, 1, 9))
    strange.append(tmp_path / READERS / "somebody.json")
    for path in strange:
        put(path, kind)
    said: list[str] = []
    header = header_with(first_frame=4)
    writer = writer_of(tmp_path, header, say=said.append, settings=Settings(keep_s=1e9))
    for now in (0.0, 400.0, 800.0):
        writer.begin(now, WALL_S) if not now else writer.tick(now, WALL_S + now)
    writer.take(rows_frame(events(2, 5, first_seq=10)), 800.0, WALL_S)
    assert writer.seal_all(800.0, WALL_S)
    assert all(os.path.lexists(path) for path in strange)
    (tmp_path / FLOWS / strange[2].name).rename(tmp_path / "away")
    assert sealed_seqs(tmp_path) == list(range(1, 15))
    names = sorted(str(path.relative_to(tmp_path)) for path in strange[:3])
    assert said[0] == f"{tmp_path} holds foreign files: {', '.join(names)}"
    why = f"{strange[3]} is no valid reader report; all files are kept for it: it is {KINDS[kind][0]} and not a file"
    assert said[1:2] == [why]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "folder"])
def test_segment_replaces_what_has_its_name(tmp_path: Path, kind: str) -> None:
    """Its hidden name, too: at the first try, or at the second."""
    for name in ("b-1-0000000001.parquet", ".b-1-0000000001.parquet"):
        put(tmp_path / kind / name, kind)
    for _ in range(2):
        try:
            seal(tmp_path / kind, "b-1-0000000001.parquet", b"data", Disk())
            break
        except OSError:
            continue
    assert [(path.name, path.read_bytes()) for path in (tmp_path / kind).iterdir()] == [
        ("b-1-0000000001.parquet", b"data")
    ]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "folder"])
def test_log_that_was_left_behind_becomes_a_segment_though_something_has_its_name(tmp_path: Path, kind: str) -> None:
    put_log(tmp_path, killed_log(tmp_path / "log"))
    put(tmp_path / FLOWS / segment_name(HEADER.broker_id, HEADER.epoch, 1), kind)
    begun(tmp_path).end()
    assert sealed_seqs(tmp_path) == list(range(1, 10))


@ALL
def test_retention_counts_and_removes_files_only(tmp_path: Path, kind: str) -> None:
    path = tmp_path / FLOWS / segment_name(HEADER.broker_id, HEADER.epoch, 1)
    put(path, kind)
    state = WriterState()
    said: list[str] = []
    Retention(tmp_path, Settings(keep_s=1.0, keep_bytes=1), Disk(), said.append, said.append).look(4e9, state)
    assert (os.path.lexists(path), state.removed, said) == (True, 0, [])


@pytest.mark.parametrize("kind", ["FIFO", "socket", "device", "folder"])
def test_readers_of_tables_name_it_in_a_sentence(source: EventSource, tmp_path: Path, kind: str) -> None:
    pipeline_folders.seal(source.events, events(1, 40))
    source.run()
    [day] = {path.parent for path in (tmp_path / "tables").glob("traffic/*/*")}
    path = day / "compact-000009.parquet"
    sentence = f"a file of the table {TRAFFIC} in {source.tables} cannot be read: {path}: {put(path, kind)}"
    for read in (read_facts, lambda tables: read_table(tables, TRAFFIC)):
        with pytest.raises(BadFolder) as raised:
            read(source.tables)
        assert str(raised.value) == sentence
    with pytest.raises(NoFile, match=f"it is {KINDS[kind][0]} and not a file"):
        compact_tables(str(source.tables), "2100-01-01")


def test_tables_that_are_spread_by_links_are_read(source: EventSource, tmp_path: Path) -> None:
    records = events(1, 40)
    pipeline_folders.seal(source.events, records)
    source.run()
    (tmp_path / "other disk").mkdir()
    for path in list(source.tables.glob("*/*/*.parquet")):
        moved = path.rename(tmp_path / "other disk" / f"{path.parent.parent.name}-{path.name}")
        path.symlink_to(moved)
    assert_tables_tell(source.tables, records)
    assert read_facts(source.tables).traffic.requests > 0


@pytest.mark.parametrize("kind", ["FIFO", "socket", "device", "folder"])
def test_time_travel_in_tables_passes_it_over(source: EventSource, tmp_path: Path, kind: str) -> None:
    pipeline_folders.seal(source.events, events(1, 40))
    source.run()
    [day] = {path.parent for path in (tmp_path / "tables").glob("lifecycle/*/*")}
    path = day / "000009-0000000009.parquet"
    why = put(path, kind)
    table = table_at(TableReader(source.tables), moment_at(NOON_MS * 1000 + 3_600_000_000))
    assert f"{path} is passed over: it cannot be read ({why})" in table.problems


def test_spark_gets_the_files_one_by_one_where_something_else_is_among_them(tmp_path: Path) -> None:
    files = [tmp_path / segment_name("b", 1, number) for number in (1, 2)]
    for path in files:
        path.touch()
    (tmp_path / ".hidden.parquet").mkdir()
    assert paths_for_spark(tmp_path) == [tmp_path]
    put(tmp_path / segment_name("b", 1, 3), "FIFO")
    assert paths_for_spark(tmp_path) == files


@ALL
def test_what_no_batch_tells_of_is_told_beside_them(source: EventSource, kind: str) -> None:
    pipeline_folders.seal(source.events, events(1, 40))
    path = source.events / FLOWS / segment_name(HEADER.broker_id, HEADER.epoch, 9)
    put(path, kind)
    told = [f"{path} is never read: it is a folder, or a link to one or to nothing"] if kind in NEVER else []
    assert list(never_read(source.places[0])) == told


# With Spark, which opens what it finds


def odd(folder: Path, header: Any, first: int = 901) -> None:
    """One of each kind."""
    for number, kind in enumerate(KINDS):
        put(folder / segment_name(header.broker_id, header.epoch, first + number), kind)


@pytest.mark.spark
def test_pipeline_with_spark_reads_the_segments_and_nothing_else(spark: Any, tmp_path: Path) -> None:
    records = events(1, 40)
    folder, tables = tmp_path / "events", tmp_path / "tables"
    pipeline_folders.seal(folder, records, each=20)
    odd(folder / FLOWS, HEADER)
    pipeline_folders.run_once(spark, folder, tables)
    assert_tables_tell(tables, records)
    told = {row["detail"].rpartition(": ")[2] for row in read_table(tables, GAPS).to_pylist()}
    assert {f"it is a {name} and not a file" for name in ("FIFO", "socket", "device", "symbolic link")} <= told


@pytest.mark.spark
def test_pipeline_moves_nothing_out_of_a_folder_that_a_link_leads_to(spark: Any, tmp_path: Path) -> None:
    records = events(1, 40)
    folder, tables, other = tmp_path / "events", tmp_path / "tables", tmp_path / "other"
    pipeline_folders.seal(folder, records[:20])
    other.mkdir()
    (other / "precious.parquet").write_bytes(b"of somebody else")
    link = folder / FLOWS / segment_name(HEADER.broker_id, HEADER.epoch, 901)
    link.symlink_to(other)
    pipeline_folders.run_once(spark, folder, tables)
    pipeline_folders.seal(folder, records[20:], header=header_with(first_number=2))
    pipeline_folders.run_once(spark, folder, tables)
    assert_tables_tell(tables, records)
    assert (other / "precious.parquet").read_bytes() == b"of somebody else"
    assert [path.name for path in (folder / FLOWS).iterdir()] == [link.name]
    assert len(list((folder / ARCHIVE).rglob("*.parquet"))) == 4


@pytest.mark.spark
def test_what_if_on_spark_reads_the_segments_and_nothing_else(spark: Any, tmp_path: Path) -> None:
    pipeline_folders.seal(tmp_path, events(1, 40))
    seal_requests(tmp_path, range(1000, 1020))
    odd(tmp_path / REQUESTS, HEADER)
    (tmp_path / ARCHIVE / "x").mkdir(parents=True)
    odd(tmp_path / ARCHIVE / "x" / REQUESTS, HEADER, 921)
    on_spark = SparkEngine(spark, events=str(tmp_path), tables="", question=Question())
    here = LocalEngine(events=tmp_path, tables=None, question=Question())
    assert sorted(on_spark.totals().to_pylist(), key=str) == sorted(here.totals().to_pylist(), key=str)
    assert sum(here.totals()["rows"].to_pylist()) == 20


@pytest.mark.spark
def test_time_travel_with_spark_reads_the_segments_and_nothing_else(spark: Any, tmp_path: Path) -> None:
    history = random_history(31, 100, snapshot_ms=30_000)
    write_segments(tmp_path, history, roll_ms=20_000)
    odd(tmp_path / LIFECYCLES, history.header)
    at = moment_at(history.at_ms * 1000)
    with_spark, without = table_at(SparkReader(spark, SegmentReader(tmp_path)), at), table_at(tmp_path, at)
    assert (with_spark.digest, with_spark.digest) == (history.digests[-1], without.digest)


@pytest.mark.spark
def test_what_if_of_tables_on_spark_names_it_in_a_sentence(spark: Any, source: EventSource, tmp_path: Path) -> None:
    seal_requests(source.events, range(1000, 1020))
    pipeline_folders.seal(source.events, [*events(random.randrange(99), 20)])
    source.run()
    [day] = {path.parent for path in (tmp_path / "tables").glob("lifecycle/*/*")}
    why = put(day / "000009-0000000009.parquet", "FIFO")
    with pytest.raises(BadFolder, match=rf"a file of the table {LIFECYCLE} in .* cannot be read: .*: {why}"):
        SparkEngine(spark, events="", tables=str(source.tables), question=Question()).lifecycle()
