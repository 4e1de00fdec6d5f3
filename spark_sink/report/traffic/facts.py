"""What the traffic tables say: requests per service over time, outcomes, latencies.

Latencies are those of requests that reached a route and whose model has an answer: a broker refuses in microseconds,
and a service that is refused half of its requests would look fast; what nobody answers ends when it was passed on. The
plots over time show one interaction model, for a stream that is open for a day is no slow answer: `request_response` if
there was any, otherwise the model with the most requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_sink.report.reading import TableReader
from spark_sink.report.times import Bins
from spark_sink.report.traffic.grains import Source, totals_of
from spark_sink.report.traffic.latencies import FRACTIONS, P99, Percentiles, buckets_of, percentiles_of
from spark_sink.tables import FAILED_OUTCOMES, TRAFFIC

TOP_SERVICES: Final = 8  # colours that a person can tell apart
TOP_LATENCIES: Final = 20  # rows of the plots of latencies per service
MAX_ROWS: Final = 50  # rows of a table; a report is read by a person
REJECTED: Final = "rejected"
DEADLINE: Final = "deadline"  # code word
CALLS: Final = "request_response"
UNANSWERED: Final = ("fire_and_forget", "metadata_push")  # models without an end that a caller waits for
SIZES: Final = ("items_in", "items_out", "bytes_in", "bytes_out")

IS_ERROR: Final = f"outcome IN {FAILED_OUTCOMES}"
HAS_LATENCY: Final = f"(outcome <> '{REJECTED}' AND model NOT IN {UNANSWERED})"
_KEYS: Final = "broker_id, broker_name, service, route_id, model, routing, outcome, word"
_SUMS: Final = ", ".join(f"sum({name})::BIGINT AS {name}" for name in ("requests", "branches", *SIZES))
_ERRORS: Final = f"CASE WHEN {IS_ERROR} THEN sum(requests) ELSE 0 END::BIGINT AS errors"


@dataclass(frozen=True)
class ServiceModel:
    """The requests to one service of one model."""

    service: str
    model: str
    requests: int
    errors: int
    sizes: tuple[int, ...]  # as SIZES
    latencies_us: Percentiles | None  # as FRACTIONS; None: no request has one
    max_us: int


@dataclass(frozen=True)
class Outcome:
    outcome: str
    word: str
    requests: int


@dataclass(frozen=True)
class Deadline:
    """Requests to one service that had no end in the time that their callers gave them."""

    service: str
    requests: int  # all
    deadlines: int


@dataclass(frozen=True)
class Latencies:
    """Of one interaction model."""

    model: str  # empty: no request has a latency
    all_us: Percentiles | None  # as FRACTIONS
    over_time: list[Percentiles | None]  # per bin
    services: list[str]  # those with the most requests of this model
    service_count: int
    of_services: list[Percentiles]  # per service, as FRACTIONS
    p99_over_time: list[list[int | None]]  # per service and bin


@dataclass(frozen=True)
class Traffic:
    bins: Bins
    seconds: int  # from the begin of the first to the end of the last piece with requests
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
    service_errors_over_time: list[list[int]]  # as over_time
    deadlines: list[Deadline]  # the most first
    latencies: Latencies


def traffic_of(reader: TableReader, source: Source) -> Traffic:
    """All of it; `source`: of what is told over time. Leaves the tables `sums` and `timed` for those who come after:
    requests of the whole time by all keys, and histograms of those with a latency by service, route and model."""
    totals = totals_of(reader, TRAFFIC, source.begin_us)
    slowest = "max(latency_max_us) AS slowest"
    reader.make("sums", f"SELECT {_KEYS}, {_SUMS}, {_ERRORS}, {slowest} FROM {totals} GROUP BY {_KEYS}")
    reader.make("timed", buckets_of(totals, "service, route_id, model", HAS_LATENCY))
    [(requests, errors)] = reader.rows("SELECT sum(requests)::BIGINT, sum(errors)::BIGINT FROM sums")
    services, service_count = reader.top("service", "sums", TOP_SERVICES)
    outcomes, _ = reader.top("outcome, word", "sums", MAX_ROWS)
    rows, row_count = _rows(reader)
    names = sorted({outcome for outcome, _, _ in outcomes})
    over_time, failed, ended = _over_time(reader, source, [service for service, _ in services], names)
    return Traffic(
        bins=source.bins,
        seconds=source.seconds,
        requests=requests or 0,
        errors=errors or 0,
        service_count=service_count,
        services=[service for service, _ in services],
        service_requests=[count for _, count in services],
        over_time=over_time,
        all_over_time=[sum(counts) for counts in zip(*over_time, strict=True)],
        rows=rows,
        row_count=row_count,
        outcomes=[Outcome(*row) for row in outcomes],
        outcome_names=names,
        outcomes_over_time=ended,
        errors_over_time=[sum(counts) for counts in zip(*failed, strict=True)],
        service_errors_over_time=failed,
        deadlines=_deadlines(reader),
        latencies=_latencies(reader, source),
    )


def _over_time(
    reader: TableReader, source: Source, services: Sequence[str], outcomes: Sequence[str]
) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Per bin: requests of each of the services and of all others, their errors, and requests by outcome."""
    bins = source.bins
    reader.number("places", ["service"], [(service,) for service in services])
    counts, failed = ([[0] * bins.count for _ in range(len(services) + 1)] for _ in range(2))
    ended = {outcome: [0] * bins.count for outcome in outcomes}
    for number, place, outcome, count in reader.each(
        f"SELECT {bins.of('us')} AS number, place, outcome, sum(requests)::BIGINT "
        f"FROM {source.rows} LEFT JOIN places USING (service) GROUP BY number, place, outcome"
    ):
        place = len(services) if place is None else place
        counts[place][number] += count
        failed[place][number] += count if outcome in FAILED_OUTCOMES else 0
        if outcome in ended:
            ended[outcome][number] += count
    return counts, failed, list(ended.values())


def _rows(reader: TableReader) -> tuple[list[ServiceModel], int]:
    """Per service and model, those with the most requests; and how many there are."""
    top, count = reader.top("service, model", "sums", MAX_ROWS, ("errors", *SIZES))
    reader.number("shown", ["service", "model"], top)
    percentiles = percentiles_of(reader, "(FROM timed JOIN shown USING (service, model))", "place")
    answered = f"sums JOIN shown USING (service, model) WHERE {HAS_LATENCY}"
    slowest: dict[int, int] = dict(reader.rows(f"SELECT place, max(slowest) FROM {answered} GROUP BY place"))
    return [
        ServiceModel(
            *(service, model, requests, errors, tuple(sizes)), percentiles.get((place,)), slowest.get(place) or 0
        )
        for place, (service, model, requests, errors, *sizes) in enumerate(top)
    ], count


def _deadlines(reader: TableReader) -> list[Deadline]:
    rows = reader.rows(
        f"SELECT service, sum(requests)::BIGINT, coalesce(sum(requests) FILTER (word = '{DEADLINE}'), 0)::BIGINT AS n "
        f"FROM sums GROUP BY service HAVING n > 0 ORDER BY n DESC, service LIMIT {TOP_LATENCIES}"
    )
    return [Deadline(*row) for row in rows]


def _latencies(reader: TableReader, source: Source) -> Latencies:
    bins = source.bins
    models = [model for model, _ in reader.top("model", f"(FROM sums WHERE {HAS_LATENCY})", MAX_ROWS)[0]]
    model = CALLS if CALLS in models else next(iter(models), "")
    reader.make("answered", "FROM timed WHERE model = ?", [model])
    [everything] = percentiles_of(reader, "answered", "model").values() or [None]
    if everything is None:
        return Latencies("", None, [None] * bins.count, [], 0, [], [])
    top, count = reader.top("service", f"(FROM sums WHERE {HAS_LATENCY} AND model = ?)", TOP_LATENCIES, (), [model])
    reader.number("places", ["service"], top)
    rows = f"(SELECT *, {bins.of('us')} AS number FROM {source.rows} LEFT JOIN places USING (service))"
    reader.make("binned", buckets_of(rows, "place, number", f"{HAS_LATENCY} AND model = ?"), [model])
    of_services = percentiles_of(reader, "(FROM answered JOIN places USING (service))", "place")
    over_time = percentiles_of(reader, "binned", "number")
    lines = percentiles_of(reader, "binned", "place, number")
    return Latencies(
        model,
        everything,
        [over_time.get((number,)) for number in range(bins.count)],
        [service for service, _ in top],
        count,
        [of_services.get((place,), (0,) * len(FRACTIONS)) for place in range(len(top))],
        [
            [mine[P99] if (mine := lines.get((place, number))) else None for number in range(bins.count)]
            for place in range(len(top))
        ],
    )
