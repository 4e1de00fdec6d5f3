"""Requests, outcomes and latencies against plain Python on random tables."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.events import bucket_of
from spark_sink.report.facts import read_facts
from spark_sink.report.traffic.facts import (
    MAX_ROWS,
    SIZES,
    TOP_LATENCIES,
    TOP_SERVICES,
)
from spark_sink.report.traffic.latencies import FRACTIONS
from tests.spark_sink.report import reference
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import NOON, Row, traffic_row, write


def latencies_of(rows: list[Row]) -> list[int]:
    return [latency for row in reference.timed(rows) for latency in row["latencies"]]


def assert_near(told: list[int] | None, values: list[int]) -> None:
    """Percentiles as near as promised, none beyond the slowest; None for no values."""
    if not values:
        assert told is None
        return
    assert told is not None
    assert all(reference.is_close(us, values, fraction) for us, fraction in zip(told, FRACTIONS, strict=True))
    assert max(told) <= max(values)


def test_counts_of_services_over_time(case: Case) -> None:
    rows, traffic = case.rows["traffic"], case.facts.traffic
    counts = reference.sums(rows, ["service"], reference.requests)
    top = reference.top(counts, TOP_SERVICES)
    assert (traffic.requests, traffic.errors) == (sum(map(reference.requests, rows)), sum(map(reference.errors, rows)))
    assert traffic.service_count == sum(1 for count in counts.values() if count)
    assert [(name,) for name in traffic.services] == top
    assert traffic.service_requests == [counts[key] for key in top]
    starts, step_s = traffic.bins.starts(), traffic.bins.step_s
    series = [[row for row in rows if (row["service"],) == key] for key in top]
    series.append([row for row in rows if (row["service"],) not in top])
    assert traffic.over_time == [reference.per_bin(mine, starts, step_s, reference.requests) for mine in series]
    assert traffic.all_over_time == reference.per_bin(rows, starts, step_s, reference.requests)


def test_outcomes(case: Case) -> None:
    rows, traffic = case.rows["traffic"], case.facts.traffic
    counts = reference.sums(rows, ["outcome", "word"], reference.requests)
    assert [(row.outcome, row.word, row.requests) for row in traffic.outcomes] == [
        (*key, counts[key]) for key in reference.top(counts, 100)
    ]
    starts, step_s = traffic.bins.starts(), traffic.bins.step_s
    expected = {
        name: reference.per_bin((row for row in rows if row["outcome"] == name), starts, step_s, reference.requests)
        for name in {row["outcome"] for row in rows}
    }
    assert dict(zip(traffic.outcome_names, traffic.outcomes_over_time, strict=True)) == expected
    assert traffic.errors_over_time == reference.per_bin(rows, starts, step_s, reference.errors)


def test_services_and_models(case: Case) -> None:
    rows, traffic = case.rows["traffic"], case.facts.traffic
    keys = ["service", "model"]
    counts = reference.sums(rows, keys, reference.requests)
    failed = reference.sums(rows, keys, reference.errors)
    assert traffic.row_count == sum(1 for count in counts.values() if count) > MAX_ROWS
    assert [(row.service, row.model) for row in traffic.rows] == reference.top(counts, MAX_ROWS)
    for told in traffic.rows:
        mine = [row for row in rows if (row["service"], row["model"]) == (told.service, told.model)]
        key = told.service, told.model
        assert (told.requests, told.errors) == (counts[key], failed[key])
        assert told.sizes == [sum(row[name] for row in mine) for name in SIZES]
        assert_near(told.latencies_us, latencies_of(mine))
        assert told.max_us == max(latencies_of(mine), default=0)


def test_latencies_over_time_and_of_services(case: Case) -> None:
    traffic = case.facts.traffic
    told = traffic.latencies
    rows = [row for row in reference.timed(case.rows["traffic"]) if row["model"] == "request_response"]
    assert told.model == "request_response"
    assert_near(told.all_us, latencies_of(rows))
    counts = reference.sums(rows, ["service"], reference.requests)
    assert [(name,) for name in told.services] == reference.top(counts, TOP_LATENCIES)
    assert told.service_count == sum(1 for count in counts.values() if count)
    starts, step = traffic.bins.starts(), timedelta(seconds=traffic.bins.step_s)
    for start, percentiles in zip(starts, told.over_time, strict=True):
        assert_near(percentiles, latencies_of([row for row in rows if start <= row["minute"] < start + step]))
    for service, percentiles, line in zip(told.services, told.of_services, told.p99_over_time, strict=True):
        mine = [row for row in rows if row["service"] == service]
        assert_near(percentiles, latencies_of(mine))
        for start, p99 in zip(starts, line, strict=True):
            values = latencies_of([row for row in mine if start <= row["minute"] < start + step])
            assert (p99 is None) == (not values)
            assert p99 is None or reference.is_close(p99, values, 0.99)


def traffic_of(folder: Path, *rows: Row) -> Any:
    write(folder, {"traffic": list(rows)})
    return read_facts(folder).traffic


def test_percentiles_are_of_all_requests_and_not_of_batches(tmp_path: Path) -> None:
    write(tmp_path, {"traffic": [traffic_row(requests=98)]}, "a.parquet")
    slow = {"latency_buckets": [bucket_of(25_000)], "latency_counts": [2], "latency_max_us": 30_000}
    write(tmp_path, {"traffic": [traffic_row(requests=2) | slow]}, "b.parquet")
    told = read_facts(tmp_path).traffic.latencies.all_us
    assert told is not None
    assert told[0] == told[1] == pytest.approx(1000, rel=1 / 32)
    assert told[2] == told[3] == pytest.approx(25_000, rel=1 / 32)


def test_requests_that_were_refused_have_no_latency(tmp_path: Path) -> None:
    fast = {"latency_buckets": [3], "latency_counts": [100], "latency_max_us": 3}
    refused = traffic_row(requests=100, outcome="rejected", word="no-route") | fast
    traffic = traffic_of(tmp_path, refused, traffic_row(requests=1))
    row = traffic.rows[0]
    assert (row.requests, row.errors, row.latencies_us, row.max_us) == (101, 100, [1000] * 4, 1000)
    assert traffic.latencies.all_us == [1000] * 4


def test_what_nobody_answers_has_no_latency(tmp_path: Path) -> None:
    """It ends when it was passed on: 0 µs would say that a service is fast."""
    rows = [traffic_row(requests=9, model=model) for model in ("fire_and_forget", "metadata_push")]
    traffic = traffic_of(tmp_path, *rows)
    assert [(row.requests, row.latencies_us, row.max_us) for row in traffic.rows] == [(9, None, 0)] * 2
    assert traffic.latencies.all_us is None


def test_only_refused_requests_have_no_percentiles(tmp_path: Path) -> None:
    traffic = traffic_of(tmp_path, traffic_row(outcome="rejected"))
    assert (traffic.rows[0].latencies_us, traffic.rows[0].max_us) == (None, 0)
    latencies = traffic.latencies
    assert (latencies.model, latencies.all_us, latencies.over_time, latencies.services) == ("", None, [None], [])


@pytest.mark.parametrize("other, told", [("metadata_push", "request_stream"), ("request_response", "request_response")])
def test_calls_are_told_even_where_streams_are_more_and_streams_where_there_are_no_calls(
    tmp_path: Path, other: str, told: str
) -> None:
    rows = [traffic_row(requests=9, model="request_stream"), traffic_row(model=other)]
    assert traffic_of(tmp_path, *rows).latencies.model == told


def test_percentile_is_never_beyond_the_slowest(tmp_path: Path) -> None:
    slow = {"latency_buckets": [48], "latency_counts": [1], "latency_max_us": 65}  # a bucket of 64 to 67
    assert traffic_of(tmp_path, traffic_row() | slow).latencies.all_us == [65] * 4


def test_a_name_that_is_null_is_an_empty_one(tmp_path: Path) -> None:
    rows = [traffic_row("", 2), traffic_row(requests=3) | {"service": None}, traffic_row("b", 1, minute=NOON)]
    assert traffic_of(tmp_path, *rows).services == ["", "b"]
