"""What happens at the bounds of time travel: the answer is the same, or says what is left out."""

from pathlib import Path

import numpy as np
import pytest

from spark_sink.history import logs
from spark_sink.history.records import gaps_between, ranges_of
from spark_sink.time_travel import rebuild, segment_reader, table_at
from spark_sink.time_travel.segment_reader import SegmentReader
from spark_sink.time_travel.values import EQUAL
from spark_sink.timestamps import moment_at
from tests.spark_sink.time_travel.histories import random_history, write_segments


@pytest.mark.parametrize("module, name, bound", [(logs, "MAX_KEPT", 20), (segment_reader, "MAX_PIECES", 1)])
def test_answers_do_not_depend_on_what_is_kept_or_on_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, name: str, bound: int
) -> None:
    history = random_history(5, 150, snapshot_ms=20_000)
    write_segments(tmp_path, history)
    monkeypatch.setattr(module, name, bound)
    reader = SegmentReader(tmp_path)
    for row in history.rows[::15]:
        table = table_at(reader, moment_at(row.at_ms * 1000))
        assert (table.digest, table.verdict) == (history.digest_at(row.at_ms), EQUAL)


def test_what_is_kept_is_forgotten_when_it_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = random_history(5, 150)
    write_segments(tmp_path, history, roll_ms=500)
    monkeypatch.setattr(logs, "MAX_KEPT", 20)
    reader = SegmentReader(tmp_path)
    [run] = reader.runs()
    for number in reader.logs.known(run).tolist():
        reader.logs.places(run, number)
        last = sum(len(found) for (_, *of), found in reader.logs._lists.items() if of == [run.stream, number])
        assert reader.logs._kept_n <= 20 + last


def test_gaps_beyond_the_bound_are_one_that_covers_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "MAX_GAPS", 3)
    history = random_history(6, 100, snapshot_ms=0)
    lost = list(range(5, 61, 5))
    write_segments(tmp_path, history, [row for row in history.rows if row.seq not in lost])
    gaps = table_at(tmp_path, moment_at(history.at_ms * 1000)).gaps
    assert [(gap.first_seq, gap.last_seq, gap.records) for gap in gaps] == [(5, 5, 1), (10, 10, 1), (15, 60, 10)]
    assert gaps[-1].detail == "10 gaps"


def test_gaps_are_what_no_range_holds() -> None:
    there = [ranges_of(np.array(numbers)) for numbers in ((9,), (1, 2), (3, 8), (5, 4), (0, 1, 2))]
    assert gaps_between(there, 1, 10) == [(6, 7), (10, 10)]
    assert gaps_between(there, 6, 6) == [(6, 6)]
    assert gaps_between(there, 2, 5) == []
    assert gaps_between([], 2, 5) == [(2, 5)]
