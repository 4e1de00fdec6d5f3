"""What operators see, as plain immutable values with the names and the order of their fields in JSON.

Moments are milliseconds since the epoch (`_at_ms`), durations seconds (`_s`), latencies microseconds (`_us`). Beside a
field stands how several workers' values become one (`merge`), where the view is merged at all. A field `worker` is
there only if there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from broker.views.merge import ANY, BY_NAME, FIRST, FIRST_SET, KEY, LEAST, MAX, MIN, SUM, outside, weighted_by

T = TypeVar("T")
V = TypeVar("V")

# States of routes, see routing.health.masks. Brokers tell each other of those that all workers know alike.
STATES: Final = {"draining": MAX, "full": SUM, "unleased": SUM, "ejected": SUM, "unhealthy": MAX, "congested": MAX}


class Moment(msgspec.Struct, frozen=True):
    """One moment on both clocks: monotonic seconds as the core counts them, and milliseconds since the epoch."""

    now: float
    at_ms: int

    def since(self, at: float) -> float:
        """Seconds that have passed since a monotonic moment; 0 before it."""
        return round(max(0.0, self.now - at), 3)

    def until(self, at: float) -> float:
        """Seconds that are left until a monotonic moment; 0 behind it."""
        return round(max(0.0, at - self.now), 3)

    def age_s(self, at_ms: int) -> float:
        """Seconds on the wall clock since `at_ms`; never negative: the clock may go back."""
        return max(0, self.at_ms - at_ms) / 1000


class Part(msgspec.Struct, frozen=True):
    """Which part of a list is wanted, of which items of it, and in which order."""

    offset: int = 0
    limit: int = 100
    only: tuple[tuple[str, frozenset[str]], ...] = ()  # fields, and the values of each of which an item has one
    sort: str = ""  # a field, "-" in front: the greatest first; empty: as the list stands (`search.Fields`)

    def listed(self, found: Sequence[T], view: Callable[[T], V]) -> Listed[V]:
        """The views of this part of all that was found."""
        items = [view(each) for each in found[self.offset : self.offset + self.limit]]
        return Listed(items, len(found), self.offset, self.limit)


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list, and how long the whole is."""

    items: list[T]
    total: int
    offset: int
    limit: int


class TagView(msgspec.Struct, frozen=True):
    """One tag of a route. Two tags may have the same key; `value` None is a tag without a value."""

    key: str  # full name: "io.rsocket.routing.Region", "user"
    name: str  # short name: "region", "user"
    value: str | None


class RouteView(msgspec.Struct, frozen=True):
    """One route."""

    route_id: str
    service: str
    tags: list[TagView]  # those that requests are matched with, the default tags included
    broker: str  # name of the broker that has it
    is_local: bool  # that is this one
    connection_id: int | None  # None: it is not local
    peer: str  # "tcp 10.0.0.4:5123"; empty: it is not local
    joined_at_ms: int  # this broker's table
    age_s: float
    requests: int  # begun there by this broker, ever
    in_flight: int  # begun and not ended
    awaited: int  # request/responses among them
    weight: int  # its tag `weight`
    states: list[str]  # of STATES; empty: nothing speaks against it
    errors_in_a_row: int
    ejections: int  # that count towards the length of the next one
    ejected_s: float  # still; 0: it is not ejected
    grants: int | None  # requests that its connection still takes; None: it does not say (no LEASE)
    worker: int | UnsetType | None = UNSET  # that has it; None: another broker has


class ServiceView(msgspec.Struct, frozen=True):
    """All routes of one service name."""

    service: Annotated[str, KEY]
    routes: Annotated[int, MAX]
    remote: Annotated[int, outside("routes")]  # routes that other brokers have
    requests: Annotated[int, SUM]  # begun at the routes that are there now
    in_flight: Annotated[int, SUM]
    awaited: Annotated[int, SUM]  # request/responses among them
    ejected: Annotated[int, MAX]  # routes
    is_refusing: Annotated[bool, ANY]  # a request was refused within the last second, because too many were in flight
    refused: Annotated[int, SUM]  # requests for that reason, ever


class ConnectionView(msgspec.Struct, frozen=True):
    """One connection that is not gone yet. The mime types are empty and the lifetime 0 before its SETUP."""

    connection_id: int
    peer: str
    transport: str  # tcp, tls, ws, wss, unix
    state: str  # connecting (no SETUP yet), open, suspended (no socket), ending (its last bytes are being written)
    route_id: str  # empty: it offers no route (D-17)
    service: str
    principal: str  # its identity, as `jwt:orders-7`; empty: anonymous
    metadata_mime: str
    data_mime: str
    lifetime_s: float  # silence after which it counts as lost
    connected_at_ms: int
    age_s: float
    idle_s: float  # since something arrived
    requests: int  # it made, ever
    streams_begun: int  # its requests in flight
    streams_served: int  # requests in flight that it serves
    bytes_in: int  # that the broker received
    bytes_out: int
    worker: int | UnsetType = UNSET  # that has it


class ClosedConnectionView(msgspec.Struct, frozen=True):
    """One connection that ended."""

    connection_id: int
    peer: str
    reason: str  # a code word of docs/errors.md, or "left"
    detail: str  # a sentence for people
    route_id: str
    service: str
    connected_at_ms: int
    closed_at_ms: int
    duration_s: float
    bytes_in: int
    bytes_out: int
    worker: int | UnsetType = UNSET  # that has it


class DrainView(msgspec.Struct, frozen=True):
    """Something that gets no new requests, because somebody said so."""

    kind: Annotated[str, KEY]  # route, tag or broker
    name: Annotated[str, KEY]  # Route Id, `region=eu`, or empty
    began_at_ms: Annotated[int, MIN]
    age_s: Annotated[float, MAX]
    grace_s: Annotated[float, FIRST]  # for the requests of each connection, from its turn on
    spread_s: Annotated[float, FIRST]  # over which the turns are spread
    close: bool  # its connections are closed; else they only get nothing new
    routes: Annotated[int, MAX]  # that it drains now
    connections_left: Annotated[int, SUM]  # that are still to be closed


class BrokerView(msgspec.Struct, frozen=True):
    """One broker of the cluster, this one included."""

    name: str  # in traces
    broker_id: Annotated[str, KEY]
    is_self: bool
    state: str  # reachable, draining (reachable, and about to leave) or unreachable
    urls: list[str]  # where brokers reach it
    client_urls: list[str]  # where clients do
    hops: Annotated[int | None, LEAST]  # links on the way; None: there is no way
    cost: int | None  # of them together
    next_hop: str  # name; empty: itself, or no way
    routes: int  # that it has, in this broker's table
    annotations_version: int  # router annotations that it speaks; 0: none
    info_at_ms: int  # when it said all this, by its own clock


class LinkView(msgspec.Struct, frozen=True):
    """One connection to another broker, or to one that is about to prove that it is one."""

    name: str  # of the broker at the other end; empty before it said so
    broker_id: str  # the same
    connection_id: int
    peer: str  # "tcp 10.0.0.4:5123"
    url: str  # that was dialled; empty: it has dialled us
    direction: str  # dialled, accepted
    state: str  # handshake, up
    since_s: float  # it is in this state
    lag_us: int | None  # of the latest hello, there and back; None: none has come back yet
    is_agreed: bool  # both ends knew the same at the last comparison
    mismatches: int  # comparisons that led to an exchange
    has_other_roles: bool  # the other end has roles, and not those of this broker
    annotations_version: int  # the lower one of both ends; 0: none, or not up yet
    pending_bytes: int  # written to it and not taken yet
    streams: int  # requests in flight, in both directions
    worker: int | UnsetType = UNSET  # that has it


class DialView(msgspec.Struct, frozen=True):
    """One URL that leads to no link."""

    url: str
    attempts: int  # in a row
    error: str  # of the latest one
    next_s: float  # until the next one; 0: it is being made
    worker: int | UnsetType = UNSET  # that dials


class LinksView(Listed[LinkView], frozen=True):
    """A part of the list of links, and all dials that fail."""

    dials: list[DialView]


class PathView(msgspec.Struct, frozen=True):
    """One way that requests took to get here."""

    ingress: Annotated[str, KEY]  # broker that a client asked; empty: ways beyond those that are told apart
    way: Annotated[list[str], KEY]  # names from there to this broker, both included
    hops: Annotated[int, FIRST]  # links
    requests: Annotated[int, SUM]  # ever
    idle_s: Annotated[float, MIN]  # since the last one


class RedirectView(msgspec.Struct, frozen=True):
    """One service whose requests go to another one."""

    service: Annotated[str, KEY]
    to: str
    set_at_ms: Annotated[int, FIRST]
    age_s: Annotated[float, FIRST]
    broker_id: str  # where it was set
    broker: str  # its name; empty: that broker is not known any more


class RevocationView(msgspec.Struct, frozen=True):
    """One identity whose credentials hold no longer, if they were issued before some moment."""

    principal: Annotated[str, KEY]
    is_of_file: Annotated[bool, KEY]  # of `auth.revocations`; else an operator of the cluster has set it
    before_ms: Annotated[int, FIRST]  # that moment, since the epoch
    set_at_ms: Annotated[int, FIRST]  # 0: it is of the file
    broker_id: str  # where it was set; empty: it is of the file
    broker: str  # its name; empty: that broker is not known any more


class ClusterView(msgspec.Struct, frozen=True):
    """The brokers that know each other, in one look."""

    name: str  # of this broker, in traces
    brokers: Annotated[int, MAX]  # that are known, this one included
    reachable: Annotated[int, MAX]  # the same
    links: Annotated[int, SUM]
    links_up: Annotated[int, SUM]
    remote_routes: Annotated[int, MAX]  # several workers: see `backends.workers`
    redirects: Annotated[int, MAX]


class LimitView(msgspec.Struct, frozen=True):
    """One limit in use."""

    name: str  # limits.max_connections
    value: object
    unit: str
    default: object
    takes: str  # "a whole number from 1 to 1000000"
    why: str


class TrafficView(msgspec.Struct, frozen=True):
    """Ended requests since the broker started. They are added up at the end of each flow interval, so the last moment
    is not in it. Bytes are those of frames."""

    service: Annotated[str, KEY]
    model: Annotated[str, KEY]
    routing: Annotated[str, KEY]
    outcome: Annotated[str, KEY]
    code: Annotated[str, KEY]  # code word of the broker's own error, or empty
    requests: Annotated[int, SUM]
    items_in: Annotated[int, SUM]  # payloads of the caller
    items_out: Annotated[int, SUM]  # payloads of the route
    bytes_in: Annotated[int, SUM]  # from caller to route
    bytes_out: Annotated[int, SUM]
    latency_mean_us: Annotated[int, weighted_by("requests")]
    latency_p50_us: Annotated[int, MAX]  # percentiles are at most 1/32 wrong, see broker.events
    latency_p95_us: Annotated[int, MAX]
    latency_p99_us: Annotated[int, MAX]
    latency_max_us: Annotated[int, MAX]


class ServiceDetailView(msgspec.Struct, frozen=True):
    """One service with its routes and its traffic."""

    service: ServiceView
    policy: Mapping[str, object]  # what is in use for it: the keys that [service.NAME] may have
    routes: Listed[RouteView]
    traffic: list[TrafficView]


class LookupView(msgspec.Struct, frozen=True):
    """How addresses are resolved."""

    hits: Annotated[int, SUM]  # requests whose address was remembered
    misses: Annotated[int, SUM]
    remembered: Annotated[int, SUM]  # addresses
    unknown_methods: Annotated[int, SUM]  # addresses whose LBMethod or ShardMethod nobody knows; the default was taken


class WaitingView(msgspec.Struct, frozen=True):
    """Requests that wait for a route."""

    requests: Annotated[int, SUM]  # now
    bytes: Annotated[int, SUM]  # of their frames
    waited: Annotated[int, SUM]  # that ever did


class ProtectionView(msgspec.Struct, frozen=True):
    """What was done against routes that fail and services that are asked too much, ever."""

    ejected: Annotated[int, SUM]  # times that a route was
    relieved: Annotated[int, SUM]  # times that one got requests again because its time was over
    spared: Annotated[int, SUM]  # times that one was not ejected because too many of its service were
    breakers_opened: Annotated[int, SUM]
    refused: Annotated[int, SUM]  # requests, because too many were in flight
    panics: Annotated[int, SUM]  # requests for which routes were chosen from as if none was ejected or unhealthy


class SessionsView(msgspec.Struct, frozen=True):
    """Connections that survive a broken socket, because their SETUP asked for it."""

    open: Annotated[int, SUM]  # suspended ones included
    suspended: Annotated[int, SUM]  # without a socket now
    resumed: Annotated[int, SUM]  # times that one came back, ever
    retained_bytes: Annotated[int, SUM]  # of frames that may have to be sent again


class DurationsView(msgspec.Struct, frozen=True):
    """How long something took, ever; percentiles are at most 1/32 wrong."""

    number: Annotated[int, SUM]  # of what was measured
    p50_us: Annotated[int, MAX]
    p99_us: Annotated[int, MAX]
    max_us: Annotated[int, MAX]


class BytesView(msgspec.Struct, frozen=True):
    """Bytes of all connections, those that are gone included; of RSocket only, not of TLS or WebSocket."""

    received: Annotated[int, SUM]
    sent: Annotated[int, SUM]  # handed to the transports
    buffered: Annotated[int, SUM]  # waiting in the broker when it was last added up, which it is once a second


class EdgeView(msgspec.Struct, frozen=True):
    """What strangers make the process do, ever."""

    lines: Mapping[tuple[str, bool], int]  # about them, by kind and whether they were written
    unaccepted: int  # connections closed at once because the last file descriptors are for other things
    none_left: int  # looks, one in a second, that found no descriptor left


class WorkerView(msgspec.Struct, frozen=True):
    """One worker, as the supervisor sees it."""

    number: int  # from 1
    name: str  # of its broker, in traces; empty before it was ready for the first time
    pid: int  # 0: it does not run
    state: str  # starting, ready, waiting (to be started again), stopping or ended
    restarts: int
    ready_at_ms: int  # since when it is ready, epoch; 0: it is not


class EventFilesView(msgspec.Struct, frozen=True):
    """How event files are written; counts are of records since the broker started, and only grow."""

    pid: Annotated[int, FIRST]  # of the writer; 0: none runs
    backlog_bytes: Annotated[int, SUM]  # waiting for the pipe
    held_bytes: Annotated[int, SUM]  # waiting in the writer
    written: Annotated[int, SUM]  # handed to the pipe
    sealed: Annotated[int, SUM]  # in files
    dropped: Annotated[int, SUM]  # lost: no room here or there, or taken by a writer that died
    segments: Annotated[int, SUM]  # files
    restarts: Annotated[int, SUM]  # of the writer
    error: Annotated[str, FIRST_SET]  # why files cannot be written, or the writer not started; empty: all is well
    wal_bytes: Annotated[int, SUM]  # in the writer's log, which is no file yet
    recovered: Annotated[int, SUM]  # records that were found in logs of writers that were killed
    torn_bytes: Annotated[int, SUM]  # at the ends of these logs
    free_bytes: Annotated[int, MAX]  # where the files are
    removed: Annotated[int, SUM]  # files, because of their age or of the size of all
    unread_bytes: Annotated[int, SUM]  # of files that are kept only because a reader has not read them
    silent_readers: Annotated[int, SUM]  # that have not said for long what they read
    single_requests: Annotated[int, SUM]  # rows of single requests that came here
    defined_flows: Annotated[int, SUM]  # that the latest of them name


class StatusView(msgspec.Struct, frozen=True):
    """The broker in one look."""

    broker_id: str
    name: str
    version: str
    core: str  # compiled or interpreted
    state: str  # starting, ready, draining or stopping
    started_at_ms: Annotated[int, MIN]
    uptime_s: Annotated[float, MAX]
    listeners: list[str]
    connections: Annotated[int, SUM]  # not gone yet
    connections_accepted: Annotated[int, SUM]  # ever
    cluster: ClusterView
    routes: Annotated[int, MAX]  # of the whole cluster
    services: Annotated[int, MAX]
    tags: Annotated[int, MAX]  # different ones that routes carry
    generation: Annotated[int, MAX]  # number of the routing table's last change
    streams: Annotated[int, SUM]  # requests in flight, counted where they begin
    requests: Annotated[int, SUM]  # ended, ever; see TrafficView
    lookups: LookupView
    waiting: WaitingView
    drains: Annotated[int, MAX]
    route_states: Annotated[Mapping[str, int], BY_NAME(STATES)]  # routes in each of STATES; one may be in several
    protection: ProtectionView
    sticky_choices: Annotated[int, SUM]  # that are remembered
    sessions: SessionsView
    frames: Annotated[int, SUM]  # received, ever
    ignored_frames: Annotated[int, SUM]
    dropped_requests: Annotated[int, SUM]
    lost_metadata_entries: Annotated[int, SUM]  # that routes of other mime types could not be given
    bytes: BytesView
    added_latency: DurationsView  # by the broker, per frame: from the arrival of its bytes to the end of that writing
    loop_lag: DurationsView  # how late the broker's timer, every 50 ms, was
    events_dropped: Annotated[int, SUM]  # nobody took them in time
    event_files: EventFilesView | None  # None: no event files are written
    config: Mapping[str, Mapping[str, object]]  # section, key, value

    workers: list[WorkerView] | UnsetType = UNSET  # by number
