"""What the traffic table says: requests per service over time, outcomes, latencies.

Latencies are those of requests that reached a route and whose model has an answer: a broker refuses in microseconds,
and a service that is refused half of its requests would look fast; what nobody answers ends when it was passed on. The
plots over time show one interaction model, for a stream that is open for a day is no slow answer: `request_response` if
there was any, otherwise the model with the most requests.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_sink.histograms import BUCKETS, merged, percentile_us
from spark_sink.report.groups import chosen, encoded, group, is_in, micros, numbers
from spark_sink.report.times import Bins
from spark_sink.tables import FAILED_OUTCOMES, MAX_COLUMN

FRACTIONS: Final = (0.5, 0.9, 0.99, 0.999)
TOP_SERVICES: Final = 8  # colours that a person can tell apart
TOP_LATENCIES: Final = 20  # rows of the plots of latencies per service
MAX_ROWS: Final = 50  # rows of a table; a report is read by a person
REJECTED: Final = "rejected"
CALLS: Final = "request_response"
UNANSWERED: Final = ("fire_and_forget", "metadata_push")  # models without an end that a caller waits for
SIZES: Final = ("items_in", "items_out", "bytes_in", "bytes_out")


@dataclass(frozen=True)
class ServiceModel:
    """The requests to one service of one model."""

    service: str
    model: str
    requests: int
    errors: int
    sizes: tuple[int, ...]  # as SIZES
    latencies_us: tuple[int, ...] | None  # as FRACTIONS; None: no request has one
    max_us: int


@dataclass(frozen=True)
class Outcome:
    outcome: str
    word: str
    requests: int


@dataclass(frozen=True)
class Latencies:
    """Of one interaction model."""

    model: str  # empty: no request has a latency
    all_us: tuple[int, ...] | None  # as FRACTIONS
    over_time: list[tuple[int, ...] | None]  # per bin
    services: list[str]  # those with the most requests of this model
    service_count: int
    of_services: list[tuple[int, ...]]  # per service, as FRACTIONS
    p99_over_time: list[list[int | None]]  # per service and bin


@dataclass(frozen=True)
class Traffic:
    bins: Bins
    requests: int
    errors: int
    service_count: int
    services: list[str]  # those with the most requests, the first is the busiest
    service_requests: list[int]
    over_time: list[list[int]]  # per service of `services`, then all others: requests per bin
    all_over_time: list[int]
    rows: list[ServiceModel]  # the most requests first
    row_count: int
    outcomes: list[Outcome]
    outcome_names: list[str]
    outcomes_over_time: list[list[int]]  # per name: requests per bin
    errors_over_time: list[int]
    latencies: Latencies


def traffic_of(table: pa.Table) -> Traffic:
    """All of it. `table`: partials of `traffic`."""
    times = micros(table, "minute")
    bins = Bins(times)
    requests = numbers(table, "requests")
    failed = np.where(is_in(table, "outcome", FAILED_OUTCOMES), requests, 0)
    services = group(table, ["service"])
    per_service = services.sums(requests)
    top = services.top(per_service, TOP_SERVICES)
    names, codes = encoded(table["outcome"])
    rows, row_count = _rows(table, requests, failed)
    return Traffic(
        bins=bins,
        requests=int(requests.sum()),
        errors=int(failed.sum()),
        service_count=int((per_service > 0).sum()),
        services=[services.key(number)[0] for number in top],
        service_requests=[int(per_service[number]) for number in top],
        over_time=bins.sums(chosen(services, top), len(top) + 1, times, requests).tolist(),
        all_over_time=bins.sums(0, 1, times, requests)[0].tolist(),
        rows=rows,
        row_count=row_count,
        outcomes=_outcomes(table, requests),
        outcome_names=names.to_pylist(),
        outcomes_over_time=bins.sums(codes, len(names), times, requests).tolist(),
        errors_over_time=bins.sums(0, 1, times, failed)[0].tolist(),
        latencies=_latencies(table, requests, times, bins),
    )


def _rows(table: pa.Table, requests: Any, failed: Any) -> tuple[list[ServiceModel], int]:
    """Per service and model, those with the most requests; and how many there are."""
    groups = group(table, ["service", "model"])
    per_group, errors = groups.sums(requests), groups.sums(failed)
    top = groups.top(per_group, MAX_ROWS)
    timed = _has_latency(table)
    kept = np.where(timed, chosen(groups, top), len(top))
    histograms = merged(kept, len(top) + 1, table["latency_buckets"], table["latency_counts"])
    maxima = groups.maxima(np.where(timed, numbers(table, MAX_COLUMN), 0))
    sizes = [groups.sums(numbers(table, name)) for name in SIZES]
    rows = []
    for place, number in enumerate(top):
        service, model = groups.key(number)
        largest = int(maxima[number])
        latencies = _percentiles(histograms[place], largest)
        counts = tuple(int(column[number]) for column in sizes)
        totals = int(per_group[number]), int(errors[number])
        rows.append(ServiceModel(service, model, *totals, counts, latencies, largest))
    return rows, int((per_group > 0).sum())


def _outcomes(table: pa.Table, requests: Any) -> list[Outcome]:
    groups = group(table, ["outcome", "word"])
    sums = groups.sums(requests)
    outcomes = []
    for number in groups.top(sums, groups.count):
        outcome, word = groups.key(number)
        outcomes.append(Outcome(outcome, word, int(sums[number])))
    return outcomes


def _latencies(table: pa.Table, requests: Any, times: Any, bins: Bins) -> Latencies:
    timed = _has_latency(table)
    model = _main_model(table, np.where(timed, requests, 0))
    table = table.filter(pa.array(timed & is_in(table, "model", [model])))
    if model == "" or len(table) == 0:
        return Latencies("", None, [None] * bins.count, [], 0, [], [])
    times, requests = micros(table, "minute"), numbers(table, "requests")
    services = group(table, ["service"])
    per_service = services.sums(requests)
    top = services.top(per_service, TOP_LATENCIES)
    rows = chosen(services, top)
    cells = rows * bins.count + bins.of(times)
    count = (len(top) + 1) * bins.count
    histograms = merged(cells, count, table["latency_buckets"], table["latency_counts"])
    flat = np.zeros(count, np.int64)
    np.maximum.at(flat, cells, numbers(table, MAX_COLUMN))
    histograms, largest = histograms.reshape(len(top) + 1, bins.count, BUCKETS), flat.reshape(len(top) + 1, bins.count)
    per_bin = histograms.sum(axis=0)
    p99 = [
        [_percentile(histograms[row, place], 0.99, int(largest[row, place])) for place in range(bins.count)]
        for row in range(len(top))
    ]
    of_services = [_percentiles(histograms[row].sum(axis=0), int(largest[row].max())) for row in range(len(top))]
    return Latencies(
        model,
        _percentiles(per_bin.sum(axis=0), int(largest.max())),
        [_percentiles(per_bin[place], int(largest[:, place].max())) for place in range(bins.count)],
        [services.key(number)[0] for number in top],
        int((per_service > 0).sum()),
        [percentiles or (0,) * len(FRACTIONS) for percentiles in of_services],
        p99,
    )


def _has_latency(table: pa.Table) -> Any:
    """For each row whether its latencies say something about the service, bool array."""
    return ~is_in(table, "outcome", [REJECTED]) & ~is_in(table, "model", UNANSWERED)


def _main_model(table: pa.Table, requests: Any) -> str:
    models = group(table, ["model"])
    sums = models.sums(requests)
    names = [models.key(number)[0] for number in models.top(sums, models.count)]
    return CALLS if CALLS in names else next(iter(names), "")


def _percentiles(histogram: Any, largest: int) -> tuple[int, ...] | None:
    if not histogram.any():
        return None
    return tuple(min(percentile_us(histogram, fraction), largest) for fraction in FRACTIONS)


def _percentile(histogram: Any, fraction: float, largest: int) -> int | None:
    return min(percentile_us(histogram, fraction), largest) if histogram.any() else None
