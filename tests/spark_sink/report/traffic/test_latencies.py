"""Percentiles of added histograms against the latencies themselves."""

import math
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.events import MAX_BUCKET, bucket_high_us, bucket_low_us, bucket_of
from spark_sink.report.reading import TableReader
from spark_sink.report.traffic.grains import SINGLES
from spark_sink.report.traffic.latencies import FRACTIONS, buckets_of, middle_us, percentiles_of
from tests.spark_sink.report.tables import histogram

ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 10**9), max_size=20)), max_size=10)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> TableReader:
    folder = tmp_path_factory.mktemp("tables")
    return TableReader(folder, str(folder / "spilled"), is_mixed=False)


def keep(reader: TableReader, rows: list[tuple[str, list[int]]]) -> None:
    """The table `rows`."""
    reader.make("rows", "SELECT '' AS name, [0] AS latency_buckets, [0] AS latency_counts, 0 AS latency_max_us LIMIT 0")
    for name, latencies in rows:
        made = histogram(latencies)
        values = [name, made["latency_buckets"], made["latency_counts"], made["latency_max_us"]]
        reader.rows("INSERT INTO rows VALUES (?, ?, ?, ?)", values)


def middle(bucket: int, slowest: int) -> int:
    """What a bucket tells: at most 1/32 from all that is in it."""
    low, high = bucket_low_us(bucket), bucket_high_us(bucket)
    told = (low + high - 1) // 2
    assert max(told - low, high - 1 - told) <= low / 32 + 1
    return min(told, slowest)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(rows=ROWS)
def test_percentiles_are_in_the_buckets_of_the_true_ones(
    reader: TableReader, rows: list[tuple[str, list[int]]]
) -> None:
    keep(reader, rows)
    expected: dict[str, list[int]] = defaultdict(list)
    for name, latencies in rows:
        expected[name] += latencies
    told = percentiles_of(reader, f"({buckets_of('rows', 'name', 'true')})", "name")
    assert set(told) == {(name,) for name, latencies in expected.items() if latencies}
    for (name,), percentiles in told.items():
        latencies = sorted(expected[name])
        for fraction, us in zip(FRACTIONS, percentiles, strict=True):
            truth = latencies[math.ceil(fraction * len(latencies)) - 1]
            assert us == middle(bucket_of(truth), latencies[-1])


def test_the_middle_of_a_bucket_is_near_what_is_in_it(reader: TableReader) -> None:
    told = reader.rows(f"SELECT {middle_us('n', '1::BIGINT << 62')} FROM range({MAX_BUCKET}) AS buckets(n) ORDER BY n")
    assert told == [(middle(bucket, 2**62),) for bucket in range(MAX_BUCKET)]


def test_lists_that_do_not_fit_and_odd_buckets_do_no_harm(reader: TableReader) -> None:
    keep(reader, [])
    reader.rows("INSERT INTO rows VALUES ('a', [5, 7], [2], 9), ('a', NULL, NULL, NULL), ('b', [-3, 99999], [1, 1], 8)")
    told = percentiles_of(reader, f"({buckets_of('rows', 'name', 'true')})", "name")
    assert told == {("a",): [5] * len(FRACTIONS), ("b",): [8] * len(FRACTIONS)}


@given(us=st.integers(0, 2**45))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_a_single_request_is_in_the_bucket_that_a_broker_counts_it_in(reader: TableReader, us: int) -> None:
    columns = (
        "0 AS us, '' AS broker_id, '' AS service, '' AS model, '' AS routing, '' AS outcome, '' AS word, 1 AS weight"
    )
    [([bucket],)] = reader.rows(
        f"SELECT latency_buckets FROM {SINGLES.format(rows=f'(SELECT {columns}, ?::BIGINT AS duration_us)')}", [us]
    )
    assert min(bucket, MAX_BUCKET) == bucket_of(us)
