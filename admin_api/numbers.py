"""Metrics that are one number, or one for each value of a label: a row for each, and all of it stands there.

Beside each name stands what becomes of it where several workers are one broker: `counter` and `gauge` are added up,
`alike` is what all of them know. Metrics with more labels, and histograms, stand in `metrics`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from admin_api.processes import BrokerProcess, GatewayProcess, state_of
from broker.core import Core
from broker.views import cluster_queries, queries
from broker.views.feed import UP, FeedView
from broker.views.queries import EventState
from broker.views.samwise import SamwiseView

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
    alike("broker_ready", "1 when requests of peers are accepted", lambda of: float(state_of(of.process) == "ready")),
    gauge("broker_connections", "Open connections", lambda of: _transports(of.core), "transport"),
    counter(
        "broker_connections_accepted",
        "Accepted connections, including refused ones",
        lambda of: queries.connections_accepted(of.core),
    ),
    counter(
        "broker_connections_closed",
        "Closed connections",
        lambda of: of.core.lifecycle.limits.closed.by_reason,
        "reason",
    ),
    counter(
        "broker_connections_admitted",
        "Connections that proved who they are, where that is judged",
        lambda of: of.core.lifecycle.admission.admitted_n,
    ),
    counter(
        "broker_credentials_refused",
        "Connections whose credentials were missing, refused or have expired, let in or not",
        lambda of: of.core.lifecycle.admission.refused,
        "word",
    ),
    counter(
        "broker_requests_denied",
        "Requests that the role of their caller does not allow, refused or with `observe` let through",
        lambda of: of.core.engine.denials.by_end,
        "end",
    ),
    gauge("broker_sessions", "Resumable connections", lambda of: of.sessions.open),
    gauge("broker_sessions_suspended", "Resumable connections without a socket", lambda of: of.sessions.suspended),
    counter("broker_sessions_resumed", "Resumptions of connections", lambda of: of.sessions.resumed),
    gauge("broker_sessions_retained_bytes", "Frame bytes kept for resumption", lambda of: of.sessions.retained_bytes),
    gauge("broker_streams", "Requests in flight, each counted once", lambda of: of.core.in_flight_n),
    # What strangers make the process do
    counter(
        "broker_connections_unaccepted",
        "Connections closed at once because the last file descriptors are reserved",
        lambda of: of.edge.unaccepted,
    ),
    counter(
        "broker_descriptors_exhausted",
        "Checks, one per second, that found no free file descriptor",
        lambda of: of.edge.none_left,
    ),
    # What passes through the process
    counter("broker_frames_received", "Frames received on all connections", lambda of: of.core.frames_in),
    counter(
        "broker_ignored_frames",
        "Frames that the RSocket protocol says to ignore, mostly late ones",
        lambda of: of.engine.ignored,
    ),
    counter(
        "broker_requests_dropped",
        "Fire-and-forget and METADATA_PUSH requests dropped because a buffer was full",
        lambda of: of.engine.drops.total_n,
    ),
    counter(
        "broker_lost_metadata_entries",
        "Composite metadata entries that could not be translated for a route's metadata MIME type",
        lambda of: of.engine.mime_pairs.lost_entries_n,
    ),
    counter(
        "broker_transport_bytes",
        "Bytes received (in) and given to the transports (out) on all connections",
        lambda of: {"in": of.bytes.received, "out": of.bytes.sent},
        "direction",
    ),
    gauge("broker_buffered_bytes", "Bytes waiting in the broker, updated once a second", lambda of: of.bytes.buffered),
    # Routing
    alike("broker_routes", "Routes of the whole cluster", lambda of: of.table.size()),
    gauge(
        "broker_route_states",  # several workers: by the rules of STATES
        "Routes that get no requests or fewer, by reason; a route may have several",
        lambda of: queries.route_states(of.core),
        "state",
    ),
    alike("broker_drains", "Drains of routes, tags and brokers", lambda of: len(of.core.lifecycle.drains.all())),
    counter("broker_route_ejections", "Ejections of routes", lambda of: of.protection.ejected),
    counter("broker_route_reliefs", "Ejections of routes that ended", lambda of: of.protection.relieved),
    counter(
        "broker_route_ejections_spared",
        "Failing routes not ejected because too many of their service were",
        lambda of: of.protection.spared,
    ),
    counter(
        "broker_breaker_refusals", "Requests refused because too many were in flight", lambda of: of.refusals, "service"
    ),
    counter(
        "broker_panics",
        "Requests routed as if no route was ejected or unhealthy, because too many were",
        lambda of: of.protection.panics,
    ),
    gauge("broker_sticky_choices", "Stored choices of sticky routing", lambda of: of.query.sticky.size()),
    gauge("broker_waiting_requests", "Requests that wait for a route", lambda of: of.waiting.requests),
    gauge("broker_waiting_bytes", "Bytes of frames of requests that wait for a route", lambda of: of.waiting.bytes),
    counter("broker_waited_requests", "Requests that ever waited for a route", lambda of: of.waiting.waited),
    alike("broker_services", "Services that have a route", lambda of: len(of.table.loads.services)),
    alike("broker_service_routes", "Routes of each service", lambda of: of.service_routes, "service"),
    alike("broker_routing_tags", "Different tags of routes", lambda of: of.table.index.size()),
    alike("broker_routing_generation", "Number of the routing table's last change", lambda of: of.table.generation),
    counter("broker_lookup_cache_hits", "Requests with a cached address", lambda of: of.query.hits),
    counter("broker_lookup_cache_misses", "Requests with an address that was not cached", lambda of: of.query.misses),
    gauge("broker_lookup_cache_entries", "Addresses in the lookup cache", lambda of: of.query.remembered()),
    counter(
        "broker_unknown_methods",
        "Addresses with an unknown LBMethod or ShardMethod",
        lambda of: of.query.unknown_methods,
    ),
    # What is between brokers
    gauge("broker_links", "Connections to other brokers", lambda of: cluster_queries.link_states(of.core), "state"),
    alike(
        "broker_link_lag_seconds",
        "Round-trip time of the latest heartbeat of the link to each broker",
        lambda of: cluster_queries.link_lags(of.core),
        "broker",
    ),
    alike(
        "broker_cluster_brokers",
        "Known brokers of the cluster, including this one",
        lambda of: cluster_queries.broker_states(of.core),
        "state",
    ),
    gauge(
        "broker_remote_routes",  # several workers: those that no worker has, see `backends.metrics`
        "Routes of other brokers",
        lambda of: of.table.masks.remote.size(),
    ),
    counter("broker_loops_refused", "Requests that would pass a broker twice", lambda of: of.hops.loops_refused),
    counter(
        "broker_annotations_refused",
        "Requests refused for their router annotations, including loops",
        lambda of: of.hops.refused,
        "reason",
    ),
    counter(
        "broker_retries",
        "Requests routed once more because another broker's decision was stale",
        lambda of: of.hops.retried_n,
    ),
    counter(
        "broker_digest_mismatches",
        "Comparisons of state with neighbouring brokers that led to an exchange",
        lambda of: of.cluster.digest_mismatches,
    ),
    counter(
        "broker_adverts",
        "Announcements of routes by other brokers; ignored: not newer than what was known",
        lambda of: {"applied": of.cluster.replication.applied_n, "ignored": of.cluster.adverts_ignored},
        "result",
    ),
    counter(
        "broker_routes_unsaid",
        "Routes that could not be announced to other brokers, for a value of more than 127 bytes",
        lambda of: of.cluster.replication.unadvertised_n,
    ),
    counter("broker_handshakes_refused", "Refused handshakes of links", lambda of: of.cluster.refused, "word"),
    counter(
        "broker_events_dropped",
        "Lost events: in the core, or by the writer of files",
        lambda of: {"core": of.core.events_dropped} | ({"files": of.files.dropped} if of.files is not None else {}),
        "where",
    ),
)
EVENT_FILES: Final[tuple[Number[EventState], ...]] = (
    counter("broker_event_records_written", "Records given to the writer of event files", lambda of: of.written),
    counter("broker_event_records_sealed", "Records in sealed event files", lambda of: of.sealed),
    counter("broker_event_files_sealed", "Sealed event files", lambda of: of.segments),
    counter("broker_event_writer_restarts", "Restarts of the writer of event files", lambda of: of.restarts),
    gauge(
        "broker_event_backlog_bytes",
        "Bytes of events waiting for the writer of event files and in it",
        lambda of: of.backlog_bytes + of.held_bytes,
    ),
    gauge("broker_event_log_bytes", "Bytes in the write-ahead log of event files", lambda of: of.wal_bytes),
    counter("broker_event_records_recovered", "Records found in logs of killed writers", lambda of: of.recovered),
    counter("broker_event_files_removed", "Event files removed by retention", lambda of: of.removed),
    gauge("broker_event_unread_bytes", "Bytes of event files kept only for a reader", lambda of: of.unread_bytes),
    gauge(
        "broker_event_silent_readers",
        "Readers of event files whose last report is too old",
        lambda of: of.silent_readers,
    ),
    counter("broker_event_requests", "Single requests among the records of event files", lambda of: of.single_requests),
    gauge("broker_event_defined_flows", "Flows that records of single requests refer to", lambda of: of.defined_flows),
    gauge("broker_event_free_bytes", "Free bytes on the disk of the event files", lambda of: of.free_bytes),
    gauge("broker_event_writer_failing", "1 while event files cannot be written", lambda of: int(of.error != "")),
)
# Of the Samwise gateway, which is one for all workers. Its counters begin anew with each of its processes. Labels are
# words of its own, and destinations: it counts a thousand by name, and others together.
SAMWISE_UP: Final[Number[bool]] = gauge("samwise_gateway_up", "1 when these metrics include the gateway", float)
SAMWISE_RESTARTS: Final[Number[GatewayProcess]] = counter(
    "samwise_gateway_restarts", "Restarts of the gateway by the broker", lambda of: of.restarts
)
SAMWISE: Final[tuple[Number[SamwiseView], ...]] = (
    gauge("samwise_callers", "Open connections of callers", lambda of: of.callers),
    counter("samwise_callers_refused", "Connections of callers that were one too many", lambda of: of.callers_refused),
    gauge("samwise_requests_waiting", "Requests of callers without an answer", lambda of: of.requests_waiting),
    counter("samwise_messages_accepted", "Messages that were stored", lambda of: of.accepted),
    counter("samwise_requests_refused", "Refused requests", lambda of: of.refused, "reason"),
    counter(
        "samwise_quirks_accepted", "Accepted messages as only libsamwise writes them", lambda of: of.quirks, "quirk"
    ),
    counter("samwise_messages_delivered", "Messages that all have acknowledged", lambda of: of.delivered),
    counter("samwise_messages_died", "Messages that became dead letters", lambda of: of.died),
    counter("samwise_events_dropped", "Records for event files that are lost", lambda of: of.events_dropped),
    gauge(
        "samwise_stored_messages",
        "Stored messages: waiting for delivery, or dead letters",
        lambda of: {"waiting": of.waiting, "dead": of.dead},
        "state",
    ),
    gauge(
        "samwise_stored_bytes",
        "Bytes of stored messages: waiting for delivery, or dead letters",
        lambda of: {"waiting": of.waiting_bytes, "dead": of.dead_bytes},
        "state",
    ),
    gauge(
        "samwise_oldest_message_age_seconds",
        "Age of the message that waits longest; 0 when none waits",
        lambda of: of.oldest_age_s or 0.0,
    ),
    gauge("samwise_deliveries_under_way", "Deliveries that wait for an acknowledgement", lambda of: of.under_way),
    counter(
        "samwise_deliveries_acknowledged",
        "Acknowledged deliveries",
        lambda of: {each.name: each.acknowledged for each in of.destinations},
        "destination",
    ),
    counter(
        "samwise_deliveries_retried",
        "Deliveries that were begun again",
        lambda of: {each.name: each.retried for each in of.destinations},
        "destination",
    ),
    counter(
        "samwise_deliveries_failed",
        "Deliveries that were not acknowledged",
        lambda of: {each.name: each.failed for each in of.destinations},
        "destination",
    ),
    gauge(
        "samwise_destination_up",
        "1 when the destination is connected",
        lambda of: {each.name: float(each.is_up) for each in of.destinations if each.is_up is not None},
        "destination",
    ),
)
# Of the feed, likewise. Labels are names of folders; with those of sinks, and of consumers, of which a folder has 256.
FEED_UP: Final[Number[bool]] = gauge("feed_up", "1 when these metrics include the feed", float)
FEED_RESTARTS: Final[Number[GatewayProcess]] = counter(
    "feed_restarts", "Restarts of the feed by the broker", lambda of: of.restarts
)
FEED: Final[tuple[Number[FeedView], ...]] = (
    counter("feed_events_dropped", "Records for event files that are lost", lambda of: of.events_dropped),
    gauge(
        "feed_files",
        "Announced files, links and folders that are there",
        lambda of: {each.name: each.files for each in of.posted},
        "folder",
    ),
    gauge(
        "feed_files_waiting",
        "Files that were found and are not announced yet",
        lambda of: {each.name: each.waiting for each in of.posted},
        "folder",
    ),
    counter("feed_posts", "Posts", lambda of: {each.name: each.last_post for each in of.posted}, "folder"),
    gauge(
        "feed_posts_unconfirmed",
        "Posts behind the last one up to which a sink has confirmed all",
        lambda of: {f"{each.name}/{sink.name}": sink.waiting for each in of.posted for sink in each.sinks},
        "sink",
    ),
    gauge(
        "feed_sink_up",
        "1 when the sink takes posts",
        lambda of: {f"{each.name}/{sink.name}": float(sink.state == UP) for each in of.posted for sink in each.sinks},
        "sink",
    ),
    counter(
        "feed_mirror_posts",
        "Posts that a mirror has received",
        lambda of: {each.name: each.received for each in of.mirrors},
        "mirror",
    ),
    counter(
        "feed_mirror_done",
        "Files that are there for it, links and removals too",
        lambda of: {each.name: each.done for each in of.mirrors},
        "mirror",
    ),
    counter("feed_mirror_bytes", "Bytes of these", lambda of: {each.name: each.bytes for each in of.mirrors}, "mirror"),
    counter(
        "feed_mirror_repeats",
        "Posts of what was there already",
        lambda of: {each.name: each.repeats for each in of.mirrors},
        "mirror",
    ),
    counter(
        "feed_mirror_refused",
        "Posts that may not be carried out",
        lambda of: {each.name: each.refused for each in of.mirrors},
        "mirror",
    ),
    counter(
        "feed_mirror_given_up",
        "Posts that were given up after the last try",
        lambda of: {each.name: each.given_up for each in of.mirrors},
        "mirror",
    ),
    gauge(
        "feed_mirror_retries",
        "Posts that wait for another try",
        lambda of: {each.name: each.retries for each in of.mirrors},
        "mirror",
    ),
    counter(
        "feed_winnow_passed",
        "Posts that were passed on",
        lambda of: {each.name: each.passed for each in of.winnowed},
        "winnower",
    ),
    counter(
        "feed_winnow_repeats",
        "Posts that were repeats and are not passed on",
        lambda of: {each.name: each.repeats for each in of.winnowed},
        "winnower",
    ),
    gauge(
        "feed_consumer_missing",
        "Announced files that a consumer has not reported to have",
        lambda of: {f"{each.name}/{one.name}": one.missing for each in of.posted for one in each.consumers},
        "consumer",
    ),
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
