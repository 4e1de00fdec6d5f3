from pathlib import Path

from spark_sink.report.facts import read_facts
from spark_sink.report.traffic.callers import MAX_CALLERS, MAX_REFUSALS
from tests.spark_sink.report import reference
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import NOON, origin, write


def test_callers_equal_plain_python(case: Case) -> None:
    rows, told = case.rows["callers"], case.facts.callers
    keys = ["caller_service", "caller_route", "service"]
    counts = reference.sums(rows, keys, reference.requests)
    failed = reference.sums(rows, keys, reference.errors)
    sizes = [reference.sums(rows, keys, lambda row, name=name: int(row[name])) for name in ("bytes_in", "bytes_out")]  # type: ignore[misc]
    top = reference.top(counts, MAX_CALLERS)
    assert [tuple(vars(row).values()) for row in told.rows] == [
        (*key, counts[key], failed[key], sizes[0][key], sizes[1][key]) for key in top
    ]
    assert (told.count, told.requests) == (sum(1 for count in counts.values() if count), sum(counts.values()))


def test_rejections_equal_plain_python(case: Case) -> None:
    rows, told = case.rows["rejections"], case.facts.rejections
    keys = ["service", "caller_service", "address", "word", "emptied_by"]
    counts = reference.sums(rows, keys, reference.requests)
    assert [tuple(vars(row).values()) for row in told.rows] == [
        (*key, counts[key]) for key in reference.top(counts, MAX_REFUSALS)
    ]
    assert (told.count, told.requests) == (sum(1 for count in counts.values() if count), sum(counts.values()))
    tags = reference.sums([row for row in rows if row["emptied_by"]], ["emptied_by"], reference.requests)
    words = reference.sums(rows, ["word"], reference.requests)
    for ranking, expected in ((told.by_tag, tags), (told.by_word, words)):
        top = reference.top(expected, MAX_REFUSALS)
        assert list(zip(ranking.names, ranking.requests, strict=True)) == [(key[0], expected[key]) for key in top]
        assert ranking.count == sum(1 for count in expected.values() if count)
        assert ranking.others == sum(expected.values()) - sum(expected[key] for key in top)


def test_rejections_without_a_tag_are_in_no_ranking_of_tags(tmp_path: Path) -> None:
    row = origin(1) | {"minute": NOON, "service": "orders", "word": "overloaded", "requests": 5}
    write(tmp_path, {"rejections": [row]})
    told = read_facts(tmp_path).rejections
    assert (told.requests, told.by_tag.names, told.by_tag.count, told.by_word.names) == (5, [], 0, ["overloaded"])
