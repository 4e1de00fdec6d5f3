"""The settings of one core: limits and policies, with units and reasons. Plain values, no files.

The declaration of each: its name, type and default. The option of a configuration beside it, in
`broker.config.sections`, takes its default from here and says how users set it.
"""

from dataclasses import dataclass, field

from broker.access.roles import Role
from broker.routing.policies import Policy
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES


@dataclass(frozen=True)
class Settings:
    """One broker's settings; the same for all its connections."""

    # Routing
    policy: Policy = field(default_factory=Policy)  # of services without their own
    policies: dict[str, Policy] = field(default_factory=dict)  # by service name
    zone: str = ""  # of this broker; empty: it is in none
    locality: str = "local"  # local: this broker's own routes come first; even: they do not
    no_route: str = "reject"  # what a request does that no route matches now: reject, or wait
    no_route_timeout_s: float = 5.0  # how long it waits at most
    strict_hints: bool = False  # D-12: hints among the tags take part in the AND

    # Requests
    max_streams_per_connection: int = 10_000  # begun by the peer and not ended
    max_waiting: int = 10_000  # requests that wait for a route
    max_waiting_per_connection: int = 1_000  # requests
    max_waiting_bytes: int = 4 << 20  # of the frames of requests that wait, per connection
    max_lookup_cache: int = 16_384  # addresses that are remembered
    multicast_on_leave: str = "ignore"  # D-14: ignore, or error
    max_multicast_routes: int = 0  # that one multicast may reach; 0: any number
    multicast_prefetch_n: int = 32  # items asked of a branch before the caller has room
    multicast_branch_bytes: int = 1 << 20  # D-44: what the items of one branch may take
    multicast_buffer_bytes: int = 16 << 20  # of one caller's multicast streams: items it did not ask for yet

    # Connections. D-43: 0 is no bound of those per address, per principal and per second, and of small fragments.
    setup_timeout_s: float = 2.0  # a connection that says nothing is not worth a socket
    max_connections: int = 50_000
    max_connections_per_address: int = 25_000
    max_connections_per_principal: int = 25_000
    max_lifetime_s: float = 300.0  # of silence, whatever the SETUP promised
    max_keepalives_per_s: int = 10  # of one connection, those that want an answer
    max_route_setups_per_s: int = 10  # of one connection
    min_fragment_bytes: int = 64  # with its length; shorter ones are small
    max_small_fragments_per_s: int = 1000  # of one connection
    max_frame_bytes: int = MAX_FRAME_BYTES
    max_metadata_bytes: int = 256 << 10  # of fragmented requests, per connection, until it is whole
    max_tags_per_route: int = 64
    max_pending_bytes: int = 64 << 20  # for one connection, see `BackPressure.shed`
    max_buffered_bytes: int = 1 << 30  # of all connections together
    resume_ttl_s: float = 60.0  # a broken connection may be resumed for so long; 0: never (D-39)
    resume_buffer_bytes: int = 1 << 20  # of one session: frames that may have to be sent again
    resume_total_bytes: int = 256 << 20  # of all sessions
    drain_grace_s: float = 10.0  # for the streams of a route that drains
    drain_spread_s: float = 30.0  # over which connections that drain are told to go

    # Admission: see `connections.admission`
    auth_mode: str = "off"  # off, observe or required
    auth_accept: tuple[str, ...] = ()  # kinds of identities
    roles: tuple[Role, ...] = ()  # none: who is let in may announce and address what it likes

    # Router annotations
    broker_name: str = ""  # in traces, unique in a cluster; empty: made from the broker's id
    annotations_from_clients: str = "reject"  # reject, strip or accept: see `interbroker.ingress`
    annotations_to_clients: str = "strip"  # strip, or keep
    require_annotations: bool = True  # of other brokers: without them no loop could be seen
    max_hops: int = 0  # brokers that a request may pass; 0: as many as are known

    # Events
    flow_interval_s: float = 1.0  # between flow records
    single_requests: int = 0  # one of so many is an event of its own; 0: none is
    snapshot_s: float = 0.0  # between snapshots of the table, see `event_log.snapshots`; 0: none
