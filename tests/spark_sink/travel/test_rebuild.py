import random
from datetime import timedelta
from pathlib import Path

import pytest

from spark_sink.travel import table_at
from spark_sink.travel.moments import moment_at
from spark_sink.travel.segment_reader import SegmentReader
from spark_sink.travel.values import EQUAL
from tests.spark_sink.travel.histories import History, random_history, write_segments


def test_at_1000_random_instants_of_random_histories_the_table_is_the_true_one(tmp_path: Path) -> None:
    dice = random.Random(5)
    first = random_history(1, 1500)
    later = random_history(2, 900, epoch=first.header.epoch + 1, at_ms=first.at_ms + 5000)
    other = random_history(3, 600, number=2, snapshot_ms=0)
    for history in (first, later, other):
        write_segments(tmp_path, history)
    reader = SegmentReader(tmp_path)
    for history, count in ((first, 500), (later, 350), (other, 150)):
        begin_ms, end_ms = history.rows[0].at_ms, history.rows[-1].at_ms
        for _ in range(count):
            at_ms = dice.randint(begin_ms, end_ms)
            table = table_at(reader, moment_at(at_ms * 1000), history.header.broker_id)
            assert (table.epoch, table.digest) == (history.header.epoch, history.digest_at(at_ms)), at_ms
            assert (table.is_complete, table.gaps, table.problems) == (True, (), ())
            assert all(check.is_equal for check in table.checks)
