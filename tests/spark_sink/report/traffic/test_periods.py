from datetime import timedelta
from pathlib import Path

from spark_sink.report.facts import read_facts
from spark_sink.report.reading import Record
from tests.spark_sink.report import reference
from tests.spark_sink.report.tables import NOON, histogram, rolled_up, traffic_row, write

MINUTE = timedelta(minutes=1)


def test_the_period_before_is_as_long_and_ends_where_this_one_begins(tmp_path: Path) -> None:
    rows = [traffic_row(requests=place + 1, minute=NOON + place * MINUTE) for place in range(-40, 20)]
    rows = [row | {"requests": abs(row["requests"]) + 1} | histogram([2000]) for row in rows]
    rows += [traffic_row(requests=7, minute=NOON - 3 * MINUTE, outcome="error")]
    write(tmp_path, {"traffic": rows} | rolled_up({"traffic": rows}))
    told = read_facts(tmp_path, NOON).before
    begin = NOON - 20 * MINUTE
    mine = [row for row in rows if begin <= row["minute"] < NOON]
    requests, errors = sum(map(reference.requests, mine)), sum(map(reference.errors, mine))
    times = {"from_us": reference.us(begin), "to_us": reference.us(NOON)}
    assert told == Record(requests=requests, errors=errors, p99_us=2000, **times)


def test_there_is_none_where_the_tables_begin_later_or_all_is_told(tmp_path: Path) -> None:
    rows = [traffic_row(minute=NOON + place * MINUTE) for place in range(10)]
    write(tmp_path, {"traffic": rows})
    assert read_facts(tmp_path).before is None
    assert read_facts(tmp_path, NOON + 3 * MINUTE).before is None
    assert read_facts(tmp_path, NOON + 5 * MINUTE).before is not None
