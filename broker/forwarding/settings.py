"""What can be set about the core: limits and policies, with units and reasons. Plain values, no files."""

from typing import Final

from broker.routing.policies import Policy
from rsocket_wire.rsocket.framing import MAX_FRAME_BYTES


class Settings:
    """One broker's settings; the same for all its connections."""

    __slots__ = (
        "annotations_from_clients",
        "annotations_to_clients",
        "broker_name",
        "drain_grace_s",
        "drain_spread_s",
        "flow_interval_s",
        "max_buffered_bytes",
        "max_connections",
        "max_connections_per_address",
        "max_connections_per_principal",
        "locality",
        "max_frame_bytes",
        "max_hops",
        "max_keepalives_per_s",
        "max_lifetime_s",
        "max_lookup_cache",
        "max_metadata_bytes",
        "max_pending_bytes",
        "max_route_setups_per_s",
        "max_small_fragments_per_s",
        "max_streams_per_connection",
        "max_tags_per_route",
        "max_waiting",
        "max_waiting_bytes",
        "max_waiting_per_connection",
        "min_fragment_bytes",
        "multicast_branch_bytes",
        "multicast_buffer_bytes",
        "multicast_on_leave",
        "multicast_prefetch_n",
        "no_route",
        "no_route_timeout_s",
        "policies",
        "policy",
        "require_annotations",
        "resume_buffer_bytes",
        "resume_total_bytes",
        "resume_ttl_s",
        "setup_timeout_s",
        "single_requests",
        "snapshot_s",
        "strict_hints",
        "zone",
    )

    def __init__(
        self,
        policy: Policy | None = None,
        policies: dict[str, Policy] | None = None,
        strict_hints: bool = False,
        multicast_on_leave: str = "ignore",
        multicast_prefetch_n: int = 32,
        multicast_branch_bytes: int = 1 << 20,
        multicast_buffer_bytes: int = 16 << 20,
        setup_timeout_s: float = 2.0,
        flow_interval_s: float = 1.0,
        max_connections: int = 50_000,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_metadata_bytes: int = 256 << 10,
        max_streams_per_connection: int = 10_000,
        max_tags_per_route: int = 64,
        max_lookup_cache: int = 16_384,
        resume_ttl_s: float = 60.0,
        resume_buffer_bytes: int = 1 << 20,
        resume_total_bytes: int = 256 << 20,
        zone: str = "",
        no_route: str = "reject",
        no_route_timeout_s: float = 5.0,
        max_waiting: int = 10_000,
        max_waiting_per_connection: int = 1_000,
        max_waiting_bytes: int = 4 << 20,
        drain_grace_s: float = 10.0,
        drain_spread_s: float = 30.0,
        max_connections_per_address: int = 25_000,
        max_connections_per_principal: int = 25_000,
        max_keepalives_per_s: int = 10,
        max_route_setups_per_s: int = 10,
        min_fragment_bytes: int = 64,
        max_small_fragments_per_s: int = 1000,
        max_lifetime_s: float = 300.0,
        max_buffered_bytes: int = 1 << 30,
        broker_name: str = "",
        annotations_from_clients: str = "reject",
        annotations_to_clients: str = "strip",
        require_annotations: bool = True,
        max_hops: int = 0,
        locality: str = "local",
        max_pending_bytes: int = 64 << 20,
        single_requests: int = 0,
        snapshot_s: float = 0.0,
    ) -> None:
        self.policy: Final = policy if policy is not None else Policy()  # of services without their own
        self.policies: Final[dict[str, Policy]] = policies if policies is not None else {}  # by service name
        self.strict_hints: Final = strict_hints  # D-12: hints among the tags take part in the AND
        self.multicast_on_leave: Final = multicast_on_leave  # D-14: ignore, or error
        self.multicast_prefetch_n: Final = multicast_prefetch_n  # items asked of a branch before the caller has room
        self.multicast_branch_bytes: Final = multicast_branch_bytes  # D-44: what the items of one branch may take
        self.multicast_buffer_bytes: Final = (
            multicast_buffer_bytes  # of one caller's multicast streams: items it did not ask for yet
        )
        self.setup_timeout_s: Final = setup_timeout_s  # a connection that says nothing is not worth a socket
        self.flow_interval_s: Final = flow_interval_s  # between flow records
        self.max_connections: Final = max_connections
        self.max_frame_bytes: Final = max_frame_bytes
        self.max_metadata_bytes: Final = max_metadata_bytes  # gathered, per connection, until it is whole
        self.max_streams_per_connection: Final = max_streams_per_connection  # begun by the peer and not ended
        self.max_tags_per_route: Final = max_tags_per_route
        self.max_lookup_cache: Final = max_lookup_cache  # addresses that are remembered
        self.resume_ttl_s: Final = resume_ttl_s  # a broken connection may be resumed for so long; 0: never (D-39)
        self.resume_buffer_bytes: Final = resume_buffer_bytes  # of one session: frames that may have to be sent again
        self.resume_total_bytes: Final = resume_total_bytes  # of all sessions
        self.zone: Final = zone  # of this broker; empty: it is in none
        self.no_route: Final = no_route  # what a request does that no route matches now: reject, or wait
        self.no_route_timeout_s: Final = no_route_timeout_s  # how long it waits at most
        self.max_waiting: Final = max_waiting  # requests
        self.max_waiting_per_connection: Final = max_waiting_per_connection  # requests
        self.max_waiting_bytes: Final = max_waiting_bytes  # of the frames of requests that wait, per connection
        self.drain_grace_s: Final = drain_grace_s  # for the streams of a route that drains
        self.drain_spread_s: Final = drain_spread_s  # over which connections that drain are told to go
        # D-43. 0 of one of the six that follow is no bound.
        self.max_connections_per_address: Final = max_connections_per_address
        self.max_connections_per_principal: Final = max_connections_per_principal
        self.max_keepalives_per_s: Final = max_keepalives_per_s  # of one connection, those that want an answer
        self.max_route_setups_per_s: Final = max_route_setups_per_s  # of one connection
        self.min_fragment_bytes: Final = min_fragment_bytes  # with its length; shorter ones are small
        self.max_small_fragments_per_s: Final = max_small_fragments_per_s  # of one connection
        self.max_lifetime_s: Final = max_lifetime_s  # of silence, whatever the SETUP promised
        self.max_buffered_bytes: Final = max_buffered_bytes  # of all connections together, see `Crowd.weigh`
        self.broker_name: Final = broker_name  # in traces, unique in a cluster; empty: made from the broker's id
        self.annotations_from_clients: Final = annotations_from_clients  # reject, strip or accept: see `hops`
        self.annotations_to_clients: Final = annotations_to_clients  # strip, or keep
        self.require_annotations: Final = require_annotations  # of other brokers: without them no loop could be seen
        self.max_hops: Final = max_hops  # brokers that a request may pass; 0: as many as are known
        self.locality: Final = locality  # local: this broker's own routes come first; even: they do not
        self.max_pending_bytes: Final = max_pending_bytes  # for one connection, see `Core._shed`
        self.single_requests: Final = single_requests  # one of so many is an event of its own; 0: none is
        self.snapshot_s: Final = snapshot_s  # between snapshots of the table, see `event_log.snapshots`; 0: none
