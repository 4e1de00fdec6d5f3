import os
import random
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_sink.errors import BadFolder
from spark_sink.event_files.folder import MAX_FOREIGN
from spark_sink.event_files.layout import segment_name
from spark_sink.time_travel import Gap, TableAt, table_at
from spark_sink.time_travel.segment_reader import SegmentReader
from spark_sink.time_travel.values import EQUAL
from spark_sink.timestamps import moment_at
from tests.spark_sink.records import NOON_MS
from tests.spark_sink.time_travel.histories import History, random_history, write_log, write_segments


def at_end(events: Path, history: History) -> TableAt:
    return table_at(events, moment_at(history.at_ms * 1000))


def long_history() -> History:
    return random_history(11, 300, snapshot_ms=20_000)


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A long one, whose segments are in `tmp_path`."""
    history = long_history()
    write_segments(tmp_path, history)
    return history


def lifecycle_files(events: Path) -> list[Path]:
    return sorted((events / "lifecycle").glob("*.parquet"))


def test_archived_segments_are_read_where_they_lie(tmp_path: Path) -> None:
    history = long_history()
    write_segments(
        tmp_path,
        history,
        place=lambda source, number: tmp_path / "_archive" / "var" / source if number % 3 else tmp_path / source,
    )
    table = at_end(tmp_path, history)
    assert (table.digest, table.is_complete) == (history.digests[-1], True)


def test_segment_in_both_places_counts_once(tmp_path: Path, history: History) -> None:
    shutil.copytree(tmp_path / "lifecycle", tmp_path / "_archive" / "lifecycle")
    assert at_end(tmp_path, history).is_complete


def test_segment_that_moves_to_the_archive_while_it_is_read_is_found_there(tmp_path: Path, history: History) -> None:
    reader = SegmentReader(tmp_path)
    (tmp_path / "_archive" / "x").mkdir(parents=True)
    for source in ("lifecycle", "flows"):
        shutil.move(tmp_path / source, tmp_path / "_archive" / "x" / source)
    table = table_at(reader, moment_at(history.at_ms * 1000))
    assert (table.digest, table.is_complete) == (history.digests[-1], True)


def test_logs_without_segments_are_read_up_to_their_torn_end(tmp_path: Path) -> None:
    history = long_history()
    number = write_segments(tmp_path, history, history.rows[:-40])
    write_log(tmp_path, history, history.rows[-40:-20], number)
    write_log(tmp_path, history, history.rows[-20:], number + 1, torn=b"RSBW\x00\x00")
    table = at_end(tmp_path, history)
    assert (table.digest, table.is_complete) == (history.digests[-1], True)


def test_folder_with_only_a_log_is_enough(tmp_path: Path) -> None:
    history = long_history()
    write_log(tmp_path, history, history.rows, 1)
    assert at_end(tmp_path, history).digest == history.digests[-1]


def test_log_of_which_only_some_segments_are_there_yet_counts_once(tmp_path: Path) -> None:
    history = long_history()
    number = write_segments(tmp_path, history, history.rows[:-40])
    write_segments(tmp_path, history, history.rows[-40:], number, roll_ms=10**9)
    name = segment_name(history.header.broker_id, history.header.epoch, number)
    (tmp_path / "lifecycle" / name).unlink()
    write_log(tmp_path, history, history.rows[-40:], number)
    assert at_end(tmp_path, history).is_complete


def test_torn_segment_is_named_and_its_numbers_are_missing(tmp_path: Path, history: History) -> None:
    torn = lifecycle_files(tmp_path)[-2]
    whole = torn.read_bytes()
    torn.write_bytes(whole[: len(whole) // 2])
    table = at_end(tmp_path, history)
    assert len(table.problems) == 1
    assert table.problems[0].startswith(f"{torn} is passed over: it is no whole Parquet file (")
    assert not table.is_complete
    assert table.gaps


def test_segment_with_damaged_columns_is_named(tmp_path: Path, history: History) -> None:
    damaged = lifecycle_files(tmp_path)[-2]
    data = bytearray(damaged.read_bytes())
    data[4:600] = os.urandom(596)
    damaged.write_bytes(data)
    table = at_end(tmp_path, history)
    assert [problem.split(" is passed over")[0] for problem in table.problems] == [str(damaged)]
    assert not table.is_complete


def test_files_that_are_no_segments_are_named_and_passed_over(tmp_path: Path, history: History) -> None:
    for number in range(MAX_FOREIGN + 1):
        (tmp_path / "lifecycle" / f"part-{number}.parquet").write_bytes(b"PAR1")
    (tmp_path / "lifecycle" / ".hidden-1-0000000001.parquet").write_bytes(b"")
    (tmp_path / "lifecycle" / "README").write_text("hello")
    table = at_end(tmp_path, history)
    assert (table.digest, table.gaps, table.is_complete) == (history.digests[-1], (), False)
    assert len(table.problems) in (MAX_FOREIGN, MAX_FOREIGN + 1)  # README may be among those that were found first
    assert table.problems[0].endswith(" is passed over: it is not named like a segment")
    assert table.problems[-1] == "2 more files are none of a writer of events"


def test_segment_of_another_broker_under_this_ones_name_is_no_part_of_it(tmp_path: Path, history: History) -> None:
    other = random_history(12, 300, number=2)
    write_segments(tmp_path / "other", other)
    wrong = lifecycle_files(tmp_path)[-1]
    shutil.copy(lifecycle_files(tmp_path / "other")[-1], wrong)
    table = at_end(tmp_path, history)
    assert table.problems == (
        f"{wrong} is passed over: its footer has the broker_id '{other.header.broker_id}', not "
        f"'{history.header.broker_id}'",
    )


def test_bad_log_is_named(tmp_path: Path) -> None:
    history = long_history()
    number = write_segments(tmp_path, history)
    log = write_log(tmp_path, history, history.rows[:1], number)
    log.write_bytes(b"garbage")
    assert at_end(tmp_path, history).problems == (f"{log} is passed over: of 7 bytes the first are no head of a log",)


def test_removed_segments_are_missing_numbers(tmp_path: Path, history: History) -> None:
    for removed in lifecycle_files(tmp_path)[::-1]:
        seqs = pq.read_table(removed)["seq"].to_pylist()
        if seqs[-1] < history.seq and len(seqs) == seqs[-1] - seqs[0] + 1:
            break
    removed.unlink()
    assert at_end(tmp_path, history).gaps == (Gap(seqs[0], seqs[-1], len(seqs), "missing", ""),)


def test_no_folder_and_empty_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(BadFolder, match=r"there is no events folder .*/no; write the path of a folder that is there"):
        SegmentReader(tmp_path / "no")
    with pytest.raises(BadFolder, match="is no folder of events"):
        SegmentReader(tmp_path)
    (tmp_path / "flows").mkdir()
    with pytest.raises(BadFolder, match="holds no events yet"):
        SegmentReader(tmp_path)


def test_of_a_long_run_only_the_files_that_are_needed_are_opened(tmp_path: Path) -> None:
    """A file a second and a snapshot every ten: files of the two minutes behind the instant, and footers on the way."""
    history = History()
    rng = random.Random(3)
    for second in range(1000):
        history.at_ms = NOON_MS + second * 1000
        if second % 10 == 9:
            history.snapshot()
        elif history.table and rng.random() < 0.5:
            history.leave(rng.choice(list(history.table)))
        else:
            history.join(f"{rng.randrange(10**9):032x}", "orders", [], "unix")
    write_segments(tmp_path, history)
    assert len(lifecycle_files(tmp_path)) == 900
    reader = SegmentReader(tmp_path)
    table = table_at(reader, moment_at((NOON_MS + 505_500) * 1000))
    assert (table.is_complete, table.verdict) == (True, EQUAL)
    assert reader.logs.opened < 330
