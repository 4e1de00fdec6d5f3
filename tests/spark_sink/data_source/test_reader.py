"""Every record once, whatever happens to the files between two looks."""

import pickle
import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from broker.events import EVENTS_DROPPED, LifecycleEvent, WriterState
from spark_sink.data_source import catalog
from spark_sink.data_source import reader as reader_module
from spark_sink.data_source.options import Offsets, options_of
from spark_sink.data_source.reader import EventReader, limited
from spark_sink.errors import BadFolder, BadOptions, LostRows
from spark_sink.event_files.folder import EventFile
from spark_sink.event_files.layout import LOG_FOLDER, Disk, seal, segment_name
from spark_sink.schema import ARROW_SCHEMAS, FLOWS, LIFECYCLES, REQUESTS
from spark_sink.writer.retention import Retention
from spark_sink.writer.settings import Settings
from tests.spark_sink.data_source.world import (
    STREAM,
    Name,
    Run,
    archive,
    deaths,
    names_of,
    read_part,
    reader_of,
    run,
    segments,
)
from tests.spark_sink.records import HEADER


class Query:
    """What Spark does: offsets into a log first, then parts, then rows; a batch that failed is done again as it was."""

    def __init__(self, folder: Path, source: str, **options: str) -> None:
        self.folder, self.source, self.options = folder, source, options
        self.log: list[Offsets] = []
        self.rows: list[Name] = []
        self.restart()

    def restart(self) -> None:
        """Killed at any point: what is left is the log of offsets and the rows of batches that were done."""
        self.reader = reader_of(self.folder, self.source, **self.options)

    def step(self, rng: random.Random, between: list[Run] | None = None) -> None:
        if not self.log:
            self.log.append(self.reader.initial_offset())
        start = self.log[-1]
        end = self.reader.latest_offset(start, rng.choice([0, 7, 50, 1000]))
        assert all(end.get(stream, rows) >= rows for stream, rows in start.items())
        if between and rng.random() < 0.5:
            disturb(self.folder, between, rng)
        parts = self.reader.parts(start, end)
        if between and rng.random() < 0.5:
            disturb(self.folder, between, rng)
        if rng.random() < 0.3:  # the batch fails halfway, and the query begins again
            for part in parts[:1]:
                read_part(pickle.loads(pickle.dumps(self.reader)), part)
            self.restart()
            parts = self.reader.parts(start, end)
        worker = pickle.loads(pickle.dumps(self.reader))
        self.rows += [name for part in parts for name in read_part(worker, part)]
        self.reader.commit(end)
        self.log.append(end)


def disturb(folder: Path, runs: list[Run], rng: random.Random) -> None:
    """Something of what happens to an events folder."""
    one = rng.choice([run for run in runs if not run.is_dead])
    what = rng.random()
    if what < 0.45:
        one.take(rng.randint(1, 60))
    elif what < 0.7:
        one.roll()
    elif what < 0.8:
        one.kill()
    elif what < 0.95:
        source = rng.choice([FLOWS, LIFECYCLES, REQUESTS])
        for path in segments(folder, source)[: rng.randint(0, 3)]:
            archive(folder, source, path)
    elif len(runs) < 8:  # the broker is killed and starts again, or another one does
        broker = rng.randint(1, 3)
        epoch = max((run.header.epoch for run in runs), default=0) + 1
        for dead in runs:
            if dead.header.broker_id.endswith(str(broker)) and not dead.is_dead:
                dead.abandon()
        runs.append(run(folder, epoch, broker))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("source", [FLOWS, LIFECYCLES, REQUESTS])
def test_every_record_is_read_once_whatever_happens_to_the_files(
    tmp_path: Path, source: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(reader_module, "PART_ROWS", 40)
    runs = [run(tmp_path, 1_700_000_000_000, 1)]
    runs[0].take(5)
    query = Query(tmp_path, source)
    for _ in range(15):
        for _ in range(rng.randint(0, 5)):
            disturb(tmp_path, runs, rng)
        query.step(rng, runs)
    for _ in range(200):
        query.step(rng)
        if query.log[-1] == query.log[-2] == query.reader.latest_offset(query.log[-1], 0):
            break
    expected = sorted([name for one in runs for name in one.names[source]] + deaths(tmp_path, source))
    assert sorted(query.rows) == expected
    batch = reader_of(tmp_path, source)
    assert sorted(name for part in batch.whole() for name in read_part(batch, part)) == expected
    assert set(query.log[-1]) >= {one.stream for one in runs if one.names[source]}


def test_rows_are_those_of_the_schema_from_log_segment_and_archive(tmp_path: Path) -> None:
    one = run(tmp_path)
    one.take(40)
    for source in (FLOWS, LIFECYCLES, REQUESTS):
        reader = reader_of(tmp_path, source)
        [part] = reader.whole()
        log = list(reader.read(part))
        assert log[0].schema == ARROW_SCHEMAS[source]
        if source == REQUESTS:
            one.roll()
        again = reader_of(tmp_path, source)
        assert [batch.to_pylist() for part in again.whole() for batch in again.read(part)] == [
            batch.to_pylist() for batch in log
        ]


def test_a_gap_that_is_told_late_is_read_though_its_number_is_an_old_one(tmp_path: Path) -> None:
    """EventsDropped takes the number of the last record that is missing, and comes behind records with higher ones."""
    one = run(tmp_path)
    one.take(20)
    reader = reader_of(tmp_path, LIFECYCLES)
    middle = reader.latest_offset(reader.initial_offset())
    told = LifecycleEvent(EVENTS_DROPPED, 3, 0, tags=[("records", "1"), ("first_seq", "3"), ("last_seq", "3")])
    one.say([told])
    assert [seq for _, _, seq in names_of(reader, middle, reader.latest_offset(middle))] == [3]


def test_end_of_a_log_that_is_torn_is_not_there_yet(tmp_path: Path) -> None:
    one = run(tmp_path)
    one.take(30)
    [log] = (tmp_path / LOG_FOLDER).glob("*.wal")
    whole = log.read_bytes()
    one.take(30)
    longer = log.read_bytes()
    reader = reader_of(tmp_path)
    for length in (len(whole) - 1, len(whole), len(longer) - 1):
        log.write_bytes(longer[:length])
        assert reader.latest_offset({}) == {STREAM: 27 if length >= len(whole) else 0}
    log.write_bytes(longer)
    assert reader.latest_offset({}) == {STREAM: 54}


def test_a_log_that_is_being_made_is_not_there_yet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(tmp_path).take(10)
    (tmp_path / LOG_FOLDER / f"{STREAM}-0000000002.wal").write_bytes(b"RSB")
    assert reader_of(tmp_path).latest_offset() == {STREAM: 9}
    assert capfd.readouterr().err == ""


def test_a_log_that_was_empty_when_it_was_seen_hides_no_segment_of_its_number(tmp_path: Path) -> None:
    one = run(tmp_path)
    one.seal(10)
    log = tmp_path / LOG_FOLDER / f"{STREAM}-0000000002.wal"
    head = log.read_bytes()
    log.write_bytes(b"")
    reader = reader_of(tmp_path)
    assert reader.latest_offset() == {STREAM: 9}
    log.write_bytes(head)
    one.seal(10)
    end = reader.latest_offset({STREAM: 9})
    assert names_of(reader, {STREAM: 9}, end) == one.names[FLOWS][9:]


def test_foreign_and_torn_files_are_named_once_and_passed_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    one = run(tmp_path)
    one.seal(20)
    [segment] = segments(tmp_path)
    stem = segment.name[:-16]
    (tmp_path / FLOWS / "notes.parquet").write_text("foreign")
    (tmp_path / FLOWS / f"{stem}0000007.parquet").write_bytes(segment.read_bytes()[:-5])
    (tmp_path / FLOWS / f"{stem}0000008.parquet").write_bytes(b"")
    (tmp_path / FLOWS / "another-1-0000000001.parquet").write_bytes(segment.read_bytes())
    (tmp_path / LOG_FOLDER / f"{stem}0000009.wal").write_bytes(bytes(5000))
    reader = reader_of(tmp_path)
    start = reader.initial_offset()
    for _ in range(3):
        assert names_of(reader, start, reader.latest_offset(start)) == one.names[FLOWS]
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 5
    for name in ("notes.parquet", "0000007.parquet", "0000008.parquet", "another-1-0000000001", "0000009.wal"):
        assert len([line for line in said if name in line and "passed over" in line]) == 1


def removed(tmp_path: Path) -> tuple[Run, EventReader, Offsets]:
    """Three segments; the reader was behind the first when the second was removed."""
    one = run(tmp_path)
    for _ in range(3):
        one.seal(20)
    segments(tmp_path)[1].unlink()
    return one, reader_of(tmp_path), {STREAM: 18}


def test_what_was_removed_before_it_was_read_is_an_error_with_the_numbers(tmp_path: Path) -> None:
    _, reader, start = removed(tmp_path)
    end = reader.latest_offset(start)
    with pytest.raises(LostRows) as raised:
        reader.parts(start, end)
    text = str(raised.value)
    assert f"flows of {STREAM}: the 18 rows 18 to 35 are not in {tmp_path} any more" in text
    assert "failOnDataLoss=false" in text


def test_it_goes_on_and_says_it_when_told_to(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one, _, start = removed(tmp_path)
    reader = reader_of(tmp_path, failOnDataLoss="false")
    assert names_of(reader, start, reader.latest_offset(start)) == one.names[FLOWS][36:]
    assert "the 18 rows 18 to 35 are not in" in capfd.readouterr().err


def test_removed_between_plan_and_reading(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one = run(tmp_path)
    one.seal(20)
    for fails in ("true", "false"):
        one.seal(20)
        reader = reader_of(tmp_path, failOnDataLoss=fails)
        start = reader.initial_offset()
        parts = reader.parts(start, reader.latest_offset(start))
        segments(tmp_path)[0].unlink()
        if fails == "true":
            with pytest.raises(LostRows, match="rows 0 to 17 are not in"):
                [read_part(reader, part) for part in parts]
        else:
            read = [name for part in parts for name in read_part(reader, part)]
            assert read == one.names[FLOWS][36:]
    assert "the 18 rows 18 to 35 are not in" in capfd.readouterr().err


def test_a_segment_whose_pages_are_torn_is_lost(tmp_path: Path) -> None:
    one = run(tmp_path)
    one.seal(200)
    [segment] = segments(tmp_path)
    data = segment.read_bytes()
    segment.write_bytes(data[:4] + bytes(len(data) // 3) + data[4 + len(data) // 3 :])
    reader = reader_of(tmp_path)
    [part] = reader.whole()
    with pytest.raises(LostRows, match=segment.name):
        read_part(reader, part)


def test_a_segment_with_other_columns_is_named(tmp_path: Path) -> None:
    one = run(tmp_path)
    one.seal(20)
    [segment] = segments(tmp_path)
    table = pq.read_table(segment)
    pq.write_table(table.drop(["requests"]).replace_schema_metadata(pq.read_metadata(segment).metadata), segment)
    reader = reader_of(tmp_path)
    [part] = reader.whole()
    with pytest.raises(LostRows, match=rf"{segment.name}: it has no column requests"):
        read_part(reader, part)


def test_a_query_that_starts_now_does_not_miss_what_was_removed_before(tmp_path: Path) -> None:
    one, reader, _ = removed(tmp_path)
    segments(tmp_path)[0].unlink()
    start = reader.initial_offset()
    assert start == {STREAM: 36}
    assert names_of(reader, start, reader.latest_offset(start)) == one.names[FLOWS][36:]


def test_begin_of_a_run_that_was_removed_while_nobody_read_is_an_error(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    run(tmp_path).take(10)
    start = reader.initial_offset()
    two = run(tmp_path, HEADER.epoch + 1)
    for _ in range(2):
        two.seal(20)
    (tmp_path / FLOWS / f"{two.stream}-0000000001.parquet").unlink()
    with pytest.raises(LostRows, match=f"flows of {two.stream}: the 18 rows 0 to 17"):
        reader.parts(start, reader.latest_offset(start))


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_mirror_whose_segments_come_in_any_order_is_read_as_the_original(
    tmp_path: Path, scheme: str, capfd: pytest.CaptureFixture[str]
) -> None:
    one = run(tmp_path / "original")
    for _ in range(5):
        one.seal(20)
    first, second, third, fourth, fifth = segments(tmp_path / "original")
    mirror = tmp_path / "mirror"
    (mirror / FLOWS).mkdir(parents=True)
    reader = EventReader(options_of({"source": FLOWS, "path": f"{scheme}{mirror}"}))

    def comes(path: Path) -> None:
        shutil.copy(path, mirror / FLOWS)

    comes(second)
    offset = reader.initial_offset()
    assert offset == reader.latest_offset(offset) == {}  # the first one may come
    comes(first)
    comes(fourth)
    offsets = [{}, *reads(reader, offset)]
    assert f"the rows {offsets[-1][STREAM]} to " in capfd.readouterr().err
    comes(fifth)
    assert reads(reader, offsets[-1]) == []
    again = EventReader(options_of({"source": FLOWS, "path": f"{scheme}{mirror}"}))
    assert [name for part in again.whole() for name in read_part(again, part)] == names_of(reader, {}, offsets[-1])
    comes(third)
    offsets += reads(again, offsets[-1])
    got = [name for start, end in pairwise(offsets) for name in names_of(again, start, end)]
    assert got == one.names[FLOWS]


def test_what_has_not_come_to_a_mirror_for_an_hour_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    one = run(tmp_path)
    for _ in range(4):
        one.seal(20)
    shutil.rmtree(tmp_path / LOG_FOLDER)
    first, _, third, _ = segments(tmp_path)
    first.unlink()
    monkeypatch.setattr(catalog, "GAP_S", 0.0)
    [middle] = reads(reader_of(tmp_path), {})  # a mirror may begin in the middle
    assert "begins with the row 18\n" in capfd.readouterr().err
    third.unlink()
    reader = reader_of(tmp_path)
    offset = {STREAM: 36}
    with pytest.raises(LostRows, match="rows 36 to 53 "):
        reader.parts(offset, reader.latest_offset(offset))
    assert middle == reader.latest_offset(offset) == {STREAM: 72}
    assert reader_of(tmp_path).initial_offset() == {STREAM: 18}


def reads(reader: EventReader, start: Offsets) -> list[Offsets]:
    """Where a query ends that begins there; none: there is nothing to read. Raises as `parts` does."""
    end = reader.latest_offset(start)
    if end == start:
        return []
    names_of(reader, start, end)
    return [end]


def test_latest_begins_behind_what_is_there(tmp_path: Path) -> None:
    one = run(tmp_path)
    one.take(20)
    reader = reader_of(tmp_path, startingOffsets="latest")
    start = reader.initial_offset()
    one.take(20)
    two = run(tmp_path, HEADER.epoch + 1)
    two.take(10)
    assert names_of(reader, start, reader.latest_offset(start)) == one.names[FLOWS][18:] + two.names[FLOWS]
    with pytest.raises(BadOptions, match="reads nothing"):
        reader.whole()


def test_offsets_begin_there_and_others_at_the_earliest(tmp_path: Path) -> None:
    one, two = run(tmp_path), run(tmp_path, broker=2)
    one.take(20)
    two.take(20)
    reader = reader_of(tmp_path, startingOffsets=f'{{"{STREAM}": 10}}')
    start = reader.initial_offset()
    assert start == {STREAM: 10, two.stream: 0}
    assert names_of(reader, start, reader.latest_offset(start)) == one.names[FLOWS][10:] + two.names[FLOWS]


def test_spark_before_4_2_says_no_start_and_the_offset_goes_on_from_the_last_one(tmp_path: Path) -> None:
    one = run(tmp_path)
    one.take(100)
    reader = reader_of(tmp_path, maxRecordsPerTrigger="50")
    assert reader.initial_offset() == {STREAM: 0}
    assert [reader.latest_offset() for _ in range(3)] == [{STREAM: 50}, {STREAM: 90}, {STREAM: 90}]
    again = reader_of(tmp_path, maxRecordsPerTrigger="50")  # after a restart it knows none, so all is read
    assert again.latest_offset() == {STREAM: 90}
    replayed = reader_of(tmp_path, maxRecordsPerTrigger="50")  # unless Spark does the last batch again
    replayed.parts({STREAM: 0}, {STREAM: 20})
    assert replayed.latest_offset() == {STREAM: 70}


def test_available_now_ends_at_what_is_there_at_its_start(tmp_path: Path) -> None:
    one = run(tmp_path)
    one.take(20)
    reader = reader_of(tmp_path)
    start = reader.initial_offset()
    reader.stop_at_latest()
    one.take(20)
    run(tmp_path, HEADER.epoch + 1).take(10)
    end = reader.latest_offset(start)
    assert (end[STREAM], reader.latest_offset(end, 5) == end, sum(end.values())) == (18, True, 18)


def test_a_file_that_cannot_be_seen_does_not_turn_the_offset_back(tmp_path: Path) -> None:
    one = run(tmp_path)
    one.take(20)
    reader = reader_of(tmp_path)
    assert reader.latest_offset({STREAM: 40, "gone-1700000000001": 7}) == {STREAM: 40, "gone-1700000000001": 7}


def test_a_stream_without_files_leaves_the_offset_when_a_later_one_is_there(tmp_path: Path) -> None:
    run(tmp_path).take(20)
    assert reader_of(tmp_path).latest_offset({"gone-1600000000000": 7}) == {STREAM: 18}


def test_a_folder_that_is_not_mounted_is_an_error_and_not_empty(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    with pytest.raises(BadFolder, match="is no folder of events: it holds none of flows"):
        reader.latest_offset({STREAM: 4})


@pytest.mark.parametrize(
    "start, end, most, expected",
    [
        ({}, {"a": 10, "b": 100, "c": 100}, 90, {"a": 10, "b": 40, "c": 40}),
        ({"b": 60}, {"a": 10, "b": 100}, 1000, {"a": 10, "b": 100}),
        ({"a": 10}, {"a": 10, "b": 5}, 1, {"a": 10, "b": 1}),
        ({}, {"a": 3, "b": 3}, 1, {"a": 0, "b": 1}),
        ({}, {}, 1, {}),
    ],
)
def test_a_bound_is_shared_by_the_streams(start: Offsets, end: Offsets, most: int, expected: Offsets) -> None:
    assert limited(start, end, most) == expected


def look(folder: Path) -> WriterState:
    """Retention that would remove everything that is read."""
    state = WriterState()
    Retention(folder, Settings(keep_s=1.0), Disk(), print, print).look(4e9, state)
    return state


def test_a_declared_reader_keeps_what_it_has_not_read_of_its_source(tmp_path: Path) -> None:
    one = run(tmp_path)
    for _ in range(3):
        one.seal(20)
    reader = reader_of(tmp_path, reader="alerts")
    start = reader.initial_offset()
    look(tmp_path)
    assert (len(segments(tmp_path)), len(segments(tmp_path, REQUESTS))) == (3, 0)
    middle = reader.latest_offset(start, 40)
    assert len(names_of(reader, start, middle)) == 40
    reader.commit(middle)
    look(tmp_path)
    assert len(segments(tmp_path)) == 1
    end = reader.latest_offset(middle)
    assert names_of(reader, middle, end) == one.names[FLOWS][40:]
    reader.commit(end)
    look(tmp_path)
    assert segments(tmp_path) == []


def test_a_declared_reader_keeps_nothing_of_streams_without_its_source(tmp_path: Path) -> None:
    run(tmp_path).seal(20)
    seal(tmp_path / LIFECYCLES, segment_name("gateway", 7, 1), b"of a gateway that counts no flows", Disk())
    reader = reader_of(tmp_path, reader="alerts")
    reader.commit(reader.latest_offset(reader.initial_offset()))
    look(tmp_path)
    assert segments(tmp_path, LIFECYCLES) == []


def test_a_day_of_small_segments_is_planned_with_a_look_at_few_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = run(tmp_path)
    for _ in range(100):
        one.seal(2)
    reader = reader_of(tmp_path)
    looks: list[str] = []
    read = reader._store.read

    def looked(_: Any, file: EventFile, last: int | None = None) -> bytes:
        if last is not None:
            looks.append(file.place)
        return read(file, last)

    monkeypatch.setattr(type(reader._store), "read", looked)
    start, end = {STREAM: 170}, reader.latest_offset({STREAM: 170})
    assert len(names_of(reader, start, end)) == len(one.names[FLOWS]) - 170
    assert len(looks) < 25


def test_files_beyond_those_that_are_remembered_are_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "MAX_KNOWN", 3)
    one = run(tmp_path)
    for _ in range(8):
        one.seal(20)
    reader = reader_of(tmp_path)
    start = reader.initial_offset()
    end = reader.latest_offset(start)
    assert names_of(reader, start, end) == names_of(reader, start, end) == one.names[FLOWS]
    assert len(reader._catalog._spans) <= 3


def test_bad_files_beyond_those_that_are_remembered_are_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalog, "MAX_TOLD", 2)
    run(tmp_path).take(20)
    (tmp_path / FLOWS).mkdir(exist_ok=True)
    for name in "abc":
        (tmp_path / FLOWS / f"{name}.txt").touch()
    reader = reader_of(tmp_path)
    for _ in range(2):
        assert reader.latest_offset() == {STREAM: 18}
        assert len(reader._catalog._told) <= 2
    said = capfd.readouterr().err.splitlines()
    assert {line.partition(" is no event file")[0].rpartition("/")[2] for line in said} == {"a.txt", "b.txt", "c.txt"}
    assert 4 <= len(said) <= 6
