"""/metrics: the broker's numbers for Prometheus, made when they are asked for; nothing is counted twice for it.

Names: `broker_` noun, unit in the name, `_total` for what only grows. Requests and their bytes, items and latencies are
those of ended requests, added up at the end of each flow interval, as in `/api/v1/traffic`.

Service names come from peers, and every label value costs lines in each answer (and memory in Prometheus), so only the
first `MAX_SERVICES` of them have their own; the rest are counted together as `(other)`. Names that were only ever asked
for in vain are bounded by themselves (`MAX_REFUSED`): a caller that makes names up cannot take the places of services.
Which names are first never changes in a run, so counters never go back.

A broker with 300 services has some 15 000 lines, for which prometheus-client needs 100 ms. So they are written in
pieces of a few ms, and the loop forwards in between; no piece looks at what another one was looking at.

The flow histograms have 16 buckets per octave of microseconds; the `le` bounds are powers of two of a microsecond, at
which both agree exactly.
"""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import accumulate, batched, islice
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from admin_api.admin import Admin
from broker import VERSION, views
from broker.core import Core
from broker.edge.event_pipe import PipeState
from broker.events import bucket_of
from broker.forwarding.flows import OUTCOME_NAMES, REJECTED, Counts

MAX_SERVICES: Final = 300  # names with a line of their own; 300 of them make an answer of some 20 ms
MAX_REFUSED: Final = 50  # names of services of which requests were only refused
OTHER: Final = "(other)"
BOUNDS_US: Final = tuple(1 << power for power in range(6, 27))  # 64 us … 67 s
WITH_ANSWER: Final = ("request_response", "request_stream", "request_channel")  # the others end as they begin

_BOUNDS: Final = [repr(bound / 1e6) for bound in BOUNDS_US] + ["+Inf"]
_REFUSED: Final = OUTCOME_NAMES[REJECTED]
_LIMITS: Final = [bucket_of(bound) for bound in BOUNDS_US]  # the first flow bucket that is beyond the bound


class Metrics:
    """The registry of one broker."""

    def __init__(self, admin: Admin) -> None:
        self._registry: Final = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._registry.register(BrokerCollector(admin))

    def render(self, accept: str) -> tuple[bytes, str]:
        """The text and its content type, in the format that the Accept header asks for: Prometheus or OpenMetrics."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class BrokerCollector(Collector):
    """Looks at the broker each time that it is asked."""

    def __init__(self, admin: Admin) -> None:
        self._admin: Final = admin

    def describe(self) -> list[Metric]:
        """Nothing: registering must not look at the broker yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families."""
        admin = self._admin
        core = admin.core
        build = {"version": VERSION, "core": views.CORE}
        yield InfoMetricFamily("broker_build", "What runs: version, and whether the core is compiled", build)
        ready = admin.is_ready and not admin.is_stopping
        yield GaugeMetricFamily("broker_ready", "1 when requests of peers are taken", float(ready))
        yield from _connections(core)
        yield from _routing(core)
        yield from _traffic(core)
        yield from _events(core, admin.event_state())


def _connections(core: Core) -> Iterator[Metric]:
    transports: dict[str, int] = {}
    for peer in core.peers():
        transport = views.transport_of(peer)
        transports[transport] = transports.get(transport, 0) + 1
    yield _gauges("broker_connections", "Connections that are not gone yet", "transport", transports)
    yield CounterMetricFamily(
        "broker_connections_accepted",
        "Connections that ever came, refused ones included",
        views.connections_accepted(core),
    )
    closed = CounterMetricFamily("broker_connections_closed", "Connections that ended", labels=["reason"])
    for reason, number in core.closed_by_reason.items():
        closed.add_metric([reason], number)
    yield closed
    yield GaugeMetricFamily("broker_streams", "Requests in flight, counted where they begin", views.streams(core))
    yield CounterMetricFamily(
        "broker_ignored_frames", "Frames that the protocol says to ignore, late ones above all", core.engine.ignored
    )


def _routing(core: Core) -> Iterator[Metric]:
    query = core.query
    routes = views.service_routes(core)
    yield GaugeMetricFamily("broker_routes", "Routes", core.table.size())
    yield GaugeMetricFamily("broker_services", "Services that have a route", len(routes))
    yield _gauges("broker_service_routes", "Routes of each service", "service", _first(routes))
    yield GaugeMetricFamily("broker_routing_tags", "Different tags that routes carry", core.table.index.size())
    yield GaugeMetricFamily(
        "broker_routing_generation", "Number of the routing table's last change", core.table.generation
    )
    yield CounterMetricFamily("broker_lookup_cache_hits", "Requests whose address was remembered", query.hits)
    yield CounterMetricFamily("broker_lookup_cache_misses", "Requests whose address was not remembered", query.misses)
    yield GaugeMetricFamily("broker_lookup_cache_entries", "Addresses that are remembered", query.remembered())
    yield CounterMetricFamily(
        "broker_unknown_methods", "Addresses with an LBMethod that names no chooser", query.unknown_methods
    )


def _traffic(core: Core) -> Iterator[Metric]:
    sums = _Sums(core.engine.flows.totals)
    labels = ["service", "model", "routing", "outcome", "code"]
    requests = CounterMetricFamily("broker_requests", "Ended requests; code is the broker's own error", labels=labels)
    for key, number in sums.requests.items():
        requests.add_metric(key, number)
    yield requests
    labels = ["service", "model", "direction"]
    items = CounterMetricFamily("broker_items", "Payloads: in from callers, out from routes", labels=labels)
    sizes = CounterMetricFamily("broker_bytes", "Bytes of frames: in from callers, out from routes", labels=labels)
    latencies = HistogramMetricFamily(
        "broker_request_duration_seconds",
        "From the first frame of a request to its end, where there is an answer",
        labels=["service", "model"],
    )
    for pair, volume in sums.volumes.items():
        items.add_metric([*pair, "in"], volume.items_in)
        items.add_metric([*pair, "out"], volume.items_out)
        sizes.add_metric([*pair, "in"], volume.bytes_in)
        sizes.add_metric([*pair, "out"], volume.bytes_out)
        if pair[1] in WITH_ANSWER:
            latencies.add_metric(pair, volume.buckets(), volume.latency_sum_us / 1e6)
    yield items
    yield sizes
    yield latencies


def _events(core: Core, files: PipeState | None) -> Iterator[Metric]:
    dropped = CounterMetricFamily(
        "broker_events_dropped", "Events that were lost: nobody took them, or the files' writer", labels=["where"]
    )
    dropped.add_metric(["core"], core.events_dropped)
    if files is not None:
        dropped.add_metric(["files"], files.dropped)
        yield CounterMetricFamily("broker_event_records_written", "Records handed to the writer", files.written)
        yield CounterMetricFamily("broker_event_records_sealed", "Records in sealed files", files.sealed)
        yield CounterMetricFamily("broker_event_files_sealed", "Sealed files", files.segments)
        yield CounterMetricFamily("broker_event_writer_restarts", "Writers that died", files.restarts)
        yield GaugeMetricFamily(
            "broker_event_backlog_bytes", "Waiting for the writer, and in it", files.backlog_bytes + files.held_bytes
        )
    yield dropped


class _Volume:
    """What requests of one service and model moved, and how long they took."""

    __slots__ = ("_counts", "bytes_in", "bytes_out", "items_in", "items_out", "latency_sum_us")

    def __init__(self) -> None:
        self.items_in = 0
        self.items_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.latency_sum_us = 0
        self._counts = [0] * len(_BOUNDS)

    def add(self, counts: Counts) -> None:
        self.items_in += counts.items_in
        self.items_out += counts.items_out
        self.bytes_in += counts.bytes_in
        self.bytes_out += counts.bytes_out
        self.latency_sum_us += counts.latency_sum_us
        for bucket, number in counts.histogram.items():
            self._counts[bisect_right(_LIMITS, bucket)] += number

    def buckets(self) -> list[tuple[str, float]]:
        """Bound and number up to it, as Prometheus wants them."""
        return list(zip(_BOUNDS, accumulate(self._counts), strict=True))


class _Sums:
    """The totals of all flows by the labels that metrics have. Requests that were refused moved nothing."""

    def __init__(self, totals: dict[tuple[str, str, str, str, str], Counts]) -> None:
        self.requests: Final[dict[tuple[str, str, str, str, str], int]] = {}
        self.volumes: Final[dict[tuple[str, str], _Volume]] = {}
        served: set[str] = set()
        refused: set[str] = set()
        for (name, model, routing, outcome, code), counts in totals.items():  # in the order of their first request
            is_refused = outcome == _REFUSED
            service = _place(name, refused if is_refused else served, MAX_REFUSED if is_refused else MAX_SERVICES)
            key = (service, model, routing, outcome, code)
            self.requests[key] = self.requests.get(key, 0) + counts.requests
            if not is_refused:
                volume = self.volumes.get((service, model))
                if volume is None:
                    volume = self.volumes[service, model] = _Volume()
                volume.add(counts)


def _place(name: str, names: set[str], limit: int) -> str:
    """The label of a service: its name while there are places."""
    if name not in names:
        if len(names) >= limit:
            return OTHER
        names.add(name)
    return name


def _first(numbers: dict[str, int]) -> dict[str, int]:
    """The first MAX_SERVICES of them, and the sum of the rest."""
    first = dict(islice(numbers.items(), MAX_SERVICES))
    rest = sum(numbers.values()) - sum(first.values())
    return {**first, OTHER: rest} if rest else first


def _gauges(name: str, text: str, label: str, numbers: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, number in numbers.items():
        family.add_metric([value], number)
    return family
