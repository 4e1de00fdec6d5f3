"""What operators see, as plain immutable values with the names and the order of their fields in JSON.

Moments are milliseconds since the epoch (`_at_ms`), durations seconds (`_s`), latencies microseconds (`_us`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeAlias, TypeVar

import msgspec

from broker.edge.event_pipe import PipeState

T = TypeVar("T")

EventFilesView: TypeAlias = PipeState  # what the edge says of itself is a plain value already


class Moment(msgspec.Struct, frozen=True):
    """One moment on both clocks: monotonic seconds as the core counts them, and milliseconds since the epoch."""

    now: float
    at_ms: int


class Part(msgspec.Struct, frozen=True):
    """Which part of a list is wanted."""

    offset: int = 0
    limit: int = 100


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


class ServiceView(msgspec.Struct, frozen=True):
    """All routes of one service name."""

    service: str
    routes: int
    remote: int  # routes that other brokers have
    requests: int  # begun at the routes that are there now
    in_flight: int
    awaited: int  # request/responses among them
    ejected: int  # routes
    is_refusing: bool  # a request was refused within the last second, because too many were in flight
    refused: int  # requests for that reason, ever


class ConnectionView(msgspec.Struct, frozen=True):
    """One connection that is not gone yet. The mime types are empty and the lifetime 0 before its SETUP."""

    connection_id: int
    peer: str
    transport: str  # tcp, tls, ws, wss, unix
    state: str  # connecting (no SETUP yet), open, suspended (no socket), ending (its last bytes are being written)
    route_id: str  # empty: it offers no route (D-17)
    service: str
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


class DrainView(msgspec.Struct, frozen=True):
    """Something that gets no new requests, because somebody said so."""

    kind: str  # route, tag or broker
    name: str  # Route Id, `region=eu`, or empty
    began_at_ms: int
    age_s: float
    grace_s: float  # for the requests of each connection, from its turn on
    spread_s: float  # over which the turns are spread
    close: bool  # its connections are closed; else they only get nothing new
    routes: int  # that it drains now
    connections_left: int  # that are still to be closed


class BrokerView(msgspec.Struct, frozen=True):
    """One broker of the cluster, this one included."""

    name: str  # in traces
    broker_id: str
    is_self: bool
    state: str  # reachable, draining (reachable, and about to leave) or unreachable
    urls: list[str]  # where brokers reach it
    client_urls: list[str]  # where clients do
    hops: int | None  # links on the way; None: there is no way
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
    annotations_version: int  # the lower one of both ends; 0: none, or not up yet
    pending_bytes: int  # written to it and not taken yet
    streams: int  # requests in flight, in both directions


class DialView(msgspec.Struct, frozen=True):
    """One URL that leads to no link."""

    url: str
    attempts: int  # in a row
    error: str  # of the latest one
    next_s: float  # until the next one; 0: it is being made


class LinksView(msgspec.Struct, frozen=True):
    """A part of the list of links, and all dials that fail."""

    items: list[LinkView]
    total: int
    offset: int
    limit: int
    dials: list[DialView]


class PathView(msgspec.Struct, frozen=True):
    """One way that requests took to get here."""

    ingress: str  # broker that a client asked; empty: ways beyond those that are told apart
    way: list[str]  # names from there to this broker, both included
    hops: int  # links
    requests: int  # ever
    idle_s: float  # since the last one


class RedirectView(msgspec.Struct, frozen=True):
    """One service whose requests go to another one."""

    service: str
    to: str
    set_at_ms: int
    age_s: float
    broker_id: str  # where it was set
    broker: str  # its name; empty: that broker is not known any more


class ClusterView(msgspec.Struct, frozen=True):
    """The brokers that know each other, in one look."""

    name: str  # of this broker, in traces
    brokers: int  # that are known, this one included
    reachable: int  # the same
    links: int
    links_up: int
    remote_routes: int
    redirects: int


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

    service: str
    model: str
    routing: str
    outcome: str
    code: str  # code word of the broker's own error, or empty
    requests: int
    items_in: int  # payloads of the caller
    items_out: int  # payloads of the route
    bytes_in: int  # from caller to route
    bytes_out: int
    latency_mean_us: int
    latency_p50_us: int  # percentiles are at most 1/32 wrong, see broker.events
    latency_p95_us: int
    latency_p99_us: int
    latency_max_us: int


class ServiceDetailView(msgspec.Struct, frozen=True):
    """One service with its routes and its traffic."""

    service: ServiceView
    policy: Mapping[str, object]  # what is in use for it: the keys that [service.NAME] may have
    routes: Listed[RouteView]
    traffic: list[TrafficView]


class LookupView(msgspec.Struct, frozen=True):
    """How addresses are resolved."""

    hits: int  # requests whose address was remembered
    misses: int
    remembered: int  # addresses
    unknown_methods: int  # addresses whose LBMethod or ShardMethod nobody knows; the default was taken


class WaitingView(msgspec.Struct, frozen=True):
    """Requests that wait for a route."""

    requests: int  # now
    bytes: int  # of their frames
    waited: int  # that ever did


class ProtectionView(msgspec.Struct, frozen=True):
    """What was done against routes that fail and services that are asked too much, ever."""

    ejected: int  # times that a route was
    relieved: int  # times that one got requests again because its time was over
    spared: int  # times that one was not ejected because too many of its service were
    breakers_opened: int
    refused: int  # requests, because too many were in flight
    panics: int  # requests for which routes were chosen from as if none was ejected or unhealthy


class SessionsView(msgspec.Struct, frozen=True):
    """Connections that survive a broken socket, because their SETUP asked for it."""

    open: int  # suspended ones included
    suspended: int  # without a socket now
    resumed: int  # times that one came back, ever
    retained_bytes: int  # of frames that may have to be sent again


class DurationsView(msgspec.Struct, frozen=True):
    """How long something took, ever; percentiles are at most 1/32 wrong."""

    number: int  # of what was measured
    p50_us: int
    p99_us: int
    max_us: int


class BytesView(msgspec.Struct, frozen=True):
    """Bytes of all connections, those that are gone included; of RSocket only, not of TLS or WebSocket."""

    received: int
    sent: int  # handed to the transports
    buffered: int  # waiting in the broker when it was last added up, which it is once a second


class EdgeView(msgspec.Struct, frozen=True):
    """What strangers make the process do, ever."""

    lines: Mapping[tuple[str, bool], int]  # about them, by kind and whether they were written
    unaccepted: int  # connections closed at once because the last file descriptors are for other things
    none_left: int  # looks, one in a second, that found no descriptor left


class StatusView(msgspec.Struct, frozen=True):
    """The broker in one look."""

    broker_id: str
    name: str
    version: str
    core: str  # compiled or interpreted
    state: str  # starting, ready, draining or stopping
    started_at_ms: int
    uptime_s: float
    listeners: list[str]
    connections: int  # not gone yet
    connections_accepted: int  # ever
    cluster: ClusterView
    routes: int  # of the whole cluster
    services: int
    tags: int  # different ones that routes carry
    generation: int  # number of the routing table's last change
    streams: int  # requests in flight, counted where they begin
    requests: int  # ended, ever; see TrafficView
    lookups: LookupView
    waiting: WaitingView
    drains: int
    route_states: Mapping[str, int]  # routes in each of STATES; one may be in several
    protection: ProtectionView
    sticky_choices: int  # that are remembered
    sessions: SessionsView
    frames: int  # received, ever
    ignored_frames: int
    dropped_requests: int
    lost_metadata_entries: int  # that routes of other mime types could not be given
    bytes: BytesView
    added_latency: DurationsView  # by the broker, per frame: from the arrival of its bytes to the end of that writing
    loop_lag: DurationsView  # how late the broker's timer, every 50 ms, was
    events_dropped: int  # nobody took them in time
    event_files: EventFilesView | None  # None: no event files are written
    config: Mapping[str, Mapping[str, object]]  # section, key, value
