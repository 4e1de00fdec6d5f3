"""Metrics that are one number, or one for each value of a label: a row for each, and all of it stands there.

Beside each name stands what becomes of it where several workers are one broker: `counter` and `gauge` are added up,
`alike` is what all of them know. Metrics with more labels, and histograms, stand in `metrics`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from admin_api.processes import BrokerProcess, state_of
from broker.core import Core
from broker.views import cluster_queries, queries
from broker.views.queries import EventState

T = TypeVar("T")


class Look:
    """What metrics are made of, at one moment."""

    def __init__(self, process: BrokerProcess, service_routes: Mapping[str, int], refusals: Mapping[str, int]) -> None:
        """Both by service, of no more of them than have lines of their own."""
        self.process: Final = process
        self.service_routes: Final = service_routes
        self.refusals: Final = refusals  # of breakers
        self.core: Final = process.core
        self.query: Final = self.core.query
        self.table: Final = self.core.table
        self.engine: Final = self.core.engine
        self.hops: Final = self.core.engine.annotations
        self.cluster: Final = self.core.cluster
        self.edge: Final = process.edge()
        self.sessions: Final = queries.sessions(self.core)
        self.waiting: Final = queries.waiting(self.core)
        self.protection: Final = queries.protection(self.core)
        self.bytes: Final = queries.bytes_view(self.core)
        self.files: Final = process.event_state()  # None: no event files are written


class Number(NamedTuple, Generic[T]):
    """A metric that is one number or, with a label, one for each value of it."""

    kind: type[CounterMetricFamily | GaugeMetricFamily]
    name: str
    text: str
    value: Callable[[T], float | Mapping[str, float]]
    label: str
    is_alike: bool = False  # all workers of a broker know the same, and the largest counts; else they are added up

    def family(self, of: T) -> Metric:
        """The metric at this moment."""
        value = self.value(of)
        if not isinstance(value, Mapping):
            return self.kind(self.name, self.text, value)
        family = self.kind(self.name, self.text, labels=[self.label])
        for name, number in value.items():
            family.add_metric([name], number)
        return family


Value: TypeAlias = Callable[[T], float | Mapping[str, float]]


def counter(name: str, text: str, value: Value[T], label: str = "") -> Number[T]:
    """What only grows."""
    return Number(CounterMetricFamily, name, text, value, label)


def gauge(name: str, text: str, value: Value[T], label: str = "") -> Number[T]:
    """What each worker has for itself."""
    return Number(GaugeMetricFamily, name, text, value, label)


def alike(name: str, text: str, value: Value[T], label: str = "") -> Number[T]:
    """What all workers know alike, or what no sum makes sense of."""
    return Number(GaugeMetricFamily, name, text, value, label, is_alike=True)


def _transports(core: Core) -> Mapping[str, int]:
    return Counter(map(queries.transport_of, core.peers()))


# Labels are words of the broker itself, or bounded: by `cluster.max_links`, or as `Look` says.
NUMBERS: Final[tuple[Number[Look], ...]] = (
    alike("broker_ready", "1 when requests of peers are taken", lambda of: float(state_of(of.process) == "ready")),
    gauge("broker_connections", "Connections that are not gone yet", lambda of: _transports(of.core), "transport"),
    counter(
        "broker_connections_accepted",
        "Connections that ever came, refused ones included",
        lambda of: queries.connections_accepted(of.core),
    ),
    counter("broker_connections_closed", "Connections that ended", lambda of: of.core.closed_by_reason, "reason"),
    gauge("broker_sessions", "Connections that survive a broken socket", lambda of: of.sessions.open),
    gauge("broker_sessions_suspended", "Such connections without a socket", lambda of: of.sessions.suspended),
    counter("broker_sessions_resumed", "Times that such a connection came back", lambda of: of.sessions.resumed),
    gauge("broker_sessions_retained_bytes", "Frames kept for such connections", lambda of: of.sessions.retained_bytes),
    gauge("broker_streams", "Requests in flight, counted where they begin", lambda of: queries.streams(of.core)),
    # What strangers make the process do
    counter(
        "broker_connections_unaccepted",
        "Connections closed at once because the last file descriptors are kept for other things",
        lambda of: of.edge.unaccepted,
    ),
    counter(
        "broker_descriptors_exhausted",
        "Looks, one in a second, that found no file descriptor left",
        lambda of: of.edge.none_left,
    ),
    # What passes through the process
    counter("broker_frames_received", "Frames of all connections", lambda of: of.core.frames_in),
    counter(
        "broker_ignored_frames",
        "Frames that the protocol says to ignore, late ones above all",
        lambda of: of.engine.ignored,
    ),
    counter(
        "broker_requests_dropped",
        "Fire-and-forgets and pushes that found no room where their route is",
        lambda of: of.engine.drops.total_n,
    ),
    counter(
        "broker_lost_metadata_entries",
        "Entries of composite metadata that routes of other mime types could not be given",
        lambda of: of.engine.lost_entries_n,
    ),
    counter(
        "broker_transport_bytes",
        "Bytes of all connections",
        lambda of: {"in": of.bytes.received, "out": of.bytes.sent},
        "direction",
    ),
    gauge(
        "broker_buffered_bytes", "Bytes that wait in the broker, looked at once a second", lambda of: of.bytes.buffered
    ),
    # Routing
    alike("broker_routes", "Routes", lambda of: of.table.size()),
    gauge(
        "broker_route_states",  # several workers: by the rules of STATES
        "Routes that requests keep away from, and why",
        lambda of: queries.route_states(of.core),
        "state",
    ),
    alike("broker_drains", "Routes, tags and brokers that are drained", lambda of: len(of.core.drains.all())),
    counter("broker_route_ejections", "Times that a route was ejected", lambda of: of.protection.ejected),
    counter(
        "broker_route_reliefs", "Times that an ejected route got requests again", lambda of: of.protection.relieved
    ),
    counter(
        "broker_route_ejections_spared",
        "Times that too many were ejected for one more",
        lambda of: of.protection.spared,
    ),
    counter(
        "broker_breaker_refusals", "Requests refused because too many were in flight", lambda of: of.refusals, "service"
    ),
    counter(
        "broker_panics",
        "Requests whose routes were chosen as if none was ejected or unhealthy",
        lambda of: of.protection.panics,
    ),
    gauge("broker_sticky_choices", "Choices that are remembered", lambda of: of.query.sticky.size()),
    gauge("broker_waiting_requests", "Requests that wait for a route", lambda of: of.waiting.requests),
    gauge("broker_waiting_bytes", "Bytes of their frames", lambda of: of.waiting.bytes),
    counter("broker_waited_requests", "Requests that ever waited for a route", lambda of: of.waiting.waited),
    alike("broker_services", "Services that have a route", lambda of: len(of.table.loads.services)),
    alike("broker_service_routes", "Routes of each service", lambda of: of.service_routes, "service"),
    alike("broker_routing_tags", "Different tags that routes carry", lambda of: of.table.index.size()),
    alike("broker_routing_generation", "Number of the routing table's last change", lambda of: of.table.generation),
    counter("broker_lookup_cache_hits", "Requests whose address was remembered", lambda of: of.query.hits),
    counter("broker_lookup_cache_misses", "Requests whose address was not remembered", lambda of: of.query.misses),
    gauge("broker_lookup_cache_entries", "Addresses that are remembered", lambda of: of.query.remembered()),
    counter(
        "broker_unknown_methods",
        "Addresses whose LBMethod or ShardMethod nobody knows",
        lambda of: of.query.unknown_methods,
    ),
    # What is between brokers
    gauge("broker_links", "Connections to other brokers", lambda of: cluster_queries.link_states(of.core), "state"),
    alike(
        "broker_link_lag_seconds",
        "Of the latest hello, there and back",
        lambda of: cluster_queries.link_lags(of.core),
        "broker",
    ),
    alike(
        "broker_cluster_brokers",
        "Brokers that are known, this one included",
        lambda of: cluster_queries.broker_states(of.core),
        "state",
    ),
    gauge(
        "broker_remote_routes",  # several workers: those that no worker has, see `backends.metrics`
        "Routes that other brokers have",
        lambda of: of.table.masks.remote.size(),
    ),
    counter("broker_loops_refused", "Requests that had been here before", lambda of: of.hops.loops_refused),
    counter(
        "broker_annotations_refused",
        "Requests whose router annotations were refused",
        lambda of: of.hops.refused,
        "reason",
    ),
    counter(
        "broker_retries",
        "Requests sent once more because the broker before knew an old table",
        lambda of: of.hops.retried_n,
    ),
    counter(
        "broker_digest_mismatches",
        "Comparisons with neighbours that led to an exchange",
        lambda of: of.cluster.digest_mismatches,
    ),
    counter(
        "broker_adverts",
        "What other brokers said of routes; ignored: no news",
        lambda of: {"applied": of.cluster.adverts_applied, "ignored": of.cluster.adverts_ignored},
        "result",
    ),
    counter(
        "broker_routes_unsaid",
        "Times that other brokers could not be told of a route",
        lambda of: of.cluster.routes_unadvertised,
    ),
    counter("broker_handshakes_refused", "Connections that became no links", lambda of: of.cluster.refused, "word"),
    counter(
        "broker_events_dropped",
        "Events that were lost: nobody took them, or the files' writer",
        lambda of: {"core": of.core.events_dropped} | ({"files": of.files.dropped} if of.files is not None else {}),
        "where",
    ),
)
EVENT_FILES: Final[tuple[Number[EventState], ...]] = (
    counter("broker_event_records_written", "Records handed to the writer", lambda of: of.written),
    counter("broker_event_records_sealed", "Records in sealed files", lambda of: of.sealed),
    counter("broker_event_files_sealed", "Sealed files", lambda of: of.segments),
    counter("broker_event_writer_restarts", "Writers that died", lambda of: of.restarts),
    gauge(
        "broker_event_backlog_bytes", "Waiting for the writer, and in it", lambda of: of.backlog_bytes + of.held_bytes
    ),
    gauge("broker_event_log_bytes", "In the writer's log, not in files yet", lambda of: of.wal_bytes),
    counter("broker_event_records_recovered", "Records found in logs of killed writers", lambda of: of.recovered),
    counter("broker_event_files_removed", "Files removed, too old or too many", lambda of: of.removed),
    gauge("broker_event_unread_bytes", "In files that are kept only for a reader", lambda of: of.unread_bytes),
    gauge(
        "broker_event_silent_readers",
        "Readers that have not said for long what they read",
        lambda of: of.silent_readers,
    ),
    counter("broker_event_requests", "Single requests among the records", lambda of: of.single_requests),
    gauge("broker_event_defined_flows", "Flows that single requests name", lambda of: of.defined_flows),
    gauge("broker_event_free_bytes", "Free where the event files are", lambda of: of.free_bytes),
    gauge("broker_event_writer_failing", "1: files cannot be written now", lambda of: int(of.error != "")),
)
# Names of gauges of which every worker shows the same thing. Those of prometheus-client have no row above.
ALIKE: Final = frozenset(
    {
        "broker_build_info",
        "process_max_fds",
        "process_start_time_seconds",
        "python_info",
        *(each.name for each in NUMBERS if each.is_alike),
    }
)
