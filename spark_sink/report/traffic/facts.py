"""What the traffic tables say: requests per service over time, outcomes, latencies.

Latencies are those of requests that reached a route and whose model has an answer: a broker refuses in microseconds,
and a service that is refused half of its requests would look fast; what nobody answers ends when it was passed on. The
plots over time show one interaction model, for a stream that is open for a day is no slow answer: `request_response` if
there was any, otherwise the model with the most requests.
"""

from collections import defaultdict
from typing import Any, Final

from spark_sink.report.reading import Record, TableReader
from spark_sink.report.traffic.grains import Source, totals_of
from spark_sink.report.traffic.latencies import FRACTIONS, P99, buckets_of, percentiles, percentiles_of
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


def traffic_of(reader: TableReader, source: Source) -> Record:
    """All of it; `source`: of what is told over time. Leaves the tables `sums` and `timed` for those who come after:
    requests of the whole time by all keys, and histograms of those with a latency by service, route and model."""
    totals = totals_of(reader, TRAFFIC, source.begin_us)
    slowest = "max(latency_max_us) AS slowest"
    reader.make("sums", f"SELECT {_KEYS}, {_SUMS}, {_ERRORS}, {slowest} FROM {totals} GROUP BY {_KEYS}")
    reader.make("timed", buckets_of(totals, "service, route_id, model", HAS_LATENCY))
    [(requests, errors)] = reader.rows("SELECT sum(requests)::BIGINT, sum(errors)::BIGINT FROM sums")
    bins = source.bins
    services = reader.top("busiest", "service", "sums", TOP_SERVICES)
    outcomes = reader.top("ended", "outcome, word", "sums", MAX_ROWS).rows
    names = sorted({row.outcome for row in outcomes})
    rows, row_count = _rows(reader)
    reader.make(
        "counts",
        f"SELECT {bins.of('us')} AS number, coalesce(place, {TOP_SERVICES}) AS place, outcome, "
        f"sum(told.requests)::BIGINT AS n FROM {source.rows} AS told LEFT JOIN busiest USING (service) GROUP BY ALL",
    )

    def over_time(key: str, where: str = "true") -> defaultdict[Any, list[int]]:
        return bins.lines(
            reader.rows(f"SELECT {key}, number, sum(n)::BIGINT FROM counts WHERE {where} GROUP BY ALL"), 0
        )

    places = [*range(len(services.rows)), TOP_SERVICES]  # of the services, then of all others
    by_service, failed, by_outcome = over_time("place"), over_time("place", IS_ERROR), over_time("outcome")
    return Record(
        bins=bins,
        seconds=source.seconds,  # from the begin of the first to the end of the last piece with requests
        requests=requests or 0,
        errors=errors or 0,
        service_count=services.count,
        services=[row.service for row in services.rows],  # those with the most requests, the first is the busiest
        service_requests=[row.requests for row in services.rows],
        over_time=[by_service[place] for place in places],
        all_over_time=over_time("0")[0],
        rows=rows,  # per service and model, the most requests first
        row_count=row_count,
        outcomes=outcomes,
        outcome_names=names,
        outcomes_over_time=[by_outcome[name] for name in names],
        errors_over_time=over_time("0", IS_ERROR)[0],
        service_errors_over_time=[failed[place] for place in places],
        deadlines=reader.records(
            "SELECT service, sum(requests)::BIGINT AS requests, "
            f"coalesce(sum(requests) FILTER (word = '{DEADLINE}'), 0)::BIGINT AS deadlines "
            f"FROM sums GROUP BY service HAVING deadlines > 0 ORDER BY deadlines DESC, service LIMIT {TOP_LATENCIES}"
        ),
        latencies=_latencies(reader, source),
    )


def _rows(reader: TableReader) -> tuple[list[Record], int]:
    """Per service and model, those with the most requests; and how many there are. `sizes`: as SIZES."""
    sizes = ", ".join(f"sum({name})::BIGINT" for name in SIZES)
    slowest = f"coalesce(max(slowest) FILTER ({HAS_LATENCY}), 0)"
    more = f", sum(errors)::BIGINT AS errors, [{sizes}] AS sizes, {slowest} AS max_us"
    count = reader.top("shown", "service, model", "sums", MAX_ROWS, more).count
    latencies = percentiles("(FROM timed JOIN shown USING (service, model))", "place")
    return reader.records(
        "SELECT service, model, requests, errors, sizes, latencies_us, max_us "
        f"FROM shown LEFT JOIN ({latencies}) USING (place) ORDER BY place"
    ), count


def _latencies(reader: TableReader, source: Source) -> Record:
    """Of one interaction model; its name is empty if no request has a latency. All latencies are as FRACTIONS."""
    bins = source.bins
    models = [row.model for row in reader.top("models", "model", f"(FROM sums WHERE {HAS_LATENCY})", MAX_ROWS).rows]
    model = CALLS if CALLS in models else next(iter(models), "")
    reader.make("answered", "FROM timed WHERE model = ?", [model])
    everything = percentiles_of(reader, "answered", "model").get((model,))
    model = model if everything else None  # nothing is of that
    top = reader.top(
        "places", "service", f"(FROM sums WHERE {HAS_LATENCY} AND model = ?)", TOP_LATENCIES, values=[model]
    )
    rows = f"(SELECT *, {bins.of('us')} AS number FROM {source.rows} LEFT JOIN places USING (service))"
    reader.make("binned", buckets_of(rows, "place, number", f"{HAS_LATENCY} AND model = ?"), [model])
    of_services = percentiles_of(reader, "(FROM answered JOIN places USING (service))", "place")
    over_time = percentiles_of(reader, "binned", "number")
    of_both = percentiles_of(reader, "binned", "place, number")
    lines = bins.lines((*key, latencies[P99]) for key, latencies in of_both.items())
    places = range(len(top.rows))
    return Record(
        model=model or "",
        all_us=everything,
        over_time=[over_time.get((number,)) for number in range(bins.count)],
        services=[row.service for row in top.rows],  # those with the most requests of this model
        service_count=top.count,
        of_services=[of_services.get((place,), [0] * len(FRACTIONS)) for place in places],
        p99_over_time=[lines[place] for place in places],
    )
