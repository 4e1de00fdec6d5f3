"""The options that bound what peers may ask for: section [limits]. See `broker.config.options`."""

from dataclasses import dataclass
from typing import Final

from broker.config.option import CORE, option
from broker.connections.guesses import WRONG_PER_S
from rsocket_wire.wire.tags import MAX_TAGS

MAX_ROUTE_TAGS: Final = MAX_TAGS - 3  # a ROUTE_ADD has ServiceName, RouteId and the state (D-63) beside them


@dataclass(frozen=True)
class LimitOptions:
    """Limits per connection and in all. At a limit the connection or request is refused, with the reason."""

    setup_timeout_s: float = option(
        CORE.setup_timeout_s,
        "Time for a new connection to send its SETUP, after which it is closed: an idle socket costs memory.",
        "5.0",
        within=(0.1, 60),
    )
    max_connections: int = option(
        CORE.max_connections,
        "Connections at the same time, over all listeners; the next one is closed at once. Each needs a file "
        "descriptor (ulimit -n); the broker raises its limit as far as it may.",
        "100000",
        "connections",
        within=(1, 1_000_000),
    )
    max_connections_per_address: int = option(
        CORE.max_connections_per_address,
        "Connections from one IP address (of IPv6: from one /64). Unix sockets have none. Half of "
        "max_connections, so that one host cannot take all places; all clients behind a proxy share its address. "
        "0: no limit.",
        "100",
        "connections",
        within=(0, 1_000_000),
    )
    max_connections_per_principal: int = option(
        CORE.max_connections_per_principal,
        "Connections of one principal: the identity by which a connection is admitted (auth.mode), by its certificate "
        "where tls.client_ca is set, or the user at the other end of a Unix socket; other connections have none. 0: no "
        "limit.",
        "100",
        "connections",
        within=(0, 1_000_000),
    )
    max_wrong_logins_per_s: int = option(
        WRONG_PER_S,
        "Wrong passwords and tokens of connections per second and address (of IPv6: a /64), with bursts of ten times "
        "as many; beyond it logins from there wait for their turn, and others are verified first. Raise it where many "
        "clients share the address of a proxy. 0: no limit.",
        "20",
        "logins per second",
        within=(0, 1_000_000),
    )
    max_lifetime_s: float = option(
        CORE.max_lifetime_s,
        "Silence after which a connection counts as lost, even if its SETUP announced a longer max lifetime, but "
        "never less than two of its keepalive intervals. A host that crashed closes nothing, and its routes would "
        "still get requests.",
        "60.0",
        within=(1, 86_400),
    )
    max_keepalives_per_s: int = option(
        CORE.max_keepalives_per_s,
        "KEEPALIVEs with the RESPOND flag per second and connection, with bursts of ten times as many; beyond it "
        "the connection is closed with over-limit. Clients send one every few seconds. 0: no limit.",
        "100",
        "frames per second",
        within=(0, 1_000_000),
    )
    max_route_setups_per_s: int = option(
        CORE.max_route_setups_per_s,
        "ROUTE_SETUPs per second and connection, with bursts of ten times as many; beyond it the connection is "
        "closed with over-limit. Each changes the routing table and invalidates all cached lookups. 0: no limit.",
        "1",
        "frames per second",
        within=(0, 1_000_000),
    )
    min_fragment_bytes: int = option(
        CORE.min_fragment_bytes,
        "Size below which a fragment that is not the last counts as small, including its three bytes of length. "
        "64 is the smallest size that rsocket-java can be set to. 0: none is small.",
        "256",
        within=(0, 65_536),
    )
    max_small_fragments_per_s: int = option(
        CORE.max_small_fragments_per_s,
        "Small fragments per second and connection, with bursts of ten times as many; beyond it the connection is "
        "closed with over-limit. Each costs as much as a large one. 0: no limit.",
        "100",
        "frames per second",
        within=(0, 1_000_000),
    )
    max_frame_bytes: int = option(
        CORE.max_frame_bytes,
        "Longest frame that a peer may send; a longer one closes its connection. The default is RSocket's maximum.",
        "1048576",
        within=(64, 16_777_215),
    )
    max_metadata_bytes: int = option(
        CORE.max_metadata_bytes,
        "Metadata of fragmented requests that one connection may have in reassembly. Beyond it, or beyond half of "
        "it once an ADDRESS is there, a request whose ADDRESS maps are complete goes on, and the rest of its "
        "metadata is forwarded as it comes; any other is refused.",
        "65536",
        within=(64, 16_777_215),
    )
    max_streams_per_connection: int = option(
        CORE.max_streams_per_connection,
        "Requests in flight that one connection may have started; the next one is refused with over-limit.",
        "1000",
        "requests",
        within=(1, 1_000_000),
    )
    max_tags_per_route: int = option(
        CORE.max_tags_per_route,
        "Tags of one ROUTE_SETUP; one more refuses the route. Bounds what a client can add to the index.",
        "16",
        "tags",
        within=(1, MAX_ROUTE_TAGS),
    )
    max_waiting: int = option(
        CORE.max_waiting,
        "Requests that wait for a route at the same time when routing.no_route is wait; the next one is refused "
        "at once.",
        "1000",
        "requests",
        within=(1, 1_000_000),
    )
    max_waiting_per_connection: int = option(
        CORE.max_waiting_per_connection,
        "The same for one connection, so that one caller cannot take all places.",
        "100",
        "requests",
        within=(1, 1_000_000),
    )
    max_waiting_bytes: int = option(
        CORE.max_waiting_bytes,
        "Bytes of the frames of waiting requests of one connection; a request that would exceed it is refused.",
        "1048576",
        within=(1024, 1_073_741_824),
    )
    max_pending_bytes: int = option(
        CORE.max_pending_bytes,
        "Bytes that wait for one slow connection. Beyond it, the request that holds most of them ends with "
        "over-limit; the connection stays open.",
        "16777216",
        within=(65_536, 1_073_741_824),
    )
    max_buffered_bytes: int = option(
        CORE.max_buffered_bytes,
        "Bytes that are buffered for and of all connections together: unread output, incomplete frames and "
        "requests, held items and requests. Beyond it, the requests that hold most output end with over-limit; "
        "once a second, if other buffers exceed it, the connections that hold most are closed.",
        "268435456",
        within=(1_048_576, 1_099_511_627_776),
    )
    stuck_s: float = option(
        10.0,
        "Time in which a connection with unread output must read some of it; else it is closed with slow-peer. "
        "Callers that send requests to it wait at most that long.",
        "30.0",
        within=(0.1, 3600),
    )
    max_multicast_routes: int = option(
        CORE.max_multicast_routes,
        "Routes that one multicast may reach, those at other brokers included; one that matches more is refused with "
        "over-limit. 0: no limit. A multicast costs its sender one frame, and the broker one for each route.",
        "500",
        "routes",
        within=(0, 1_000_000),
    )
    multicast_prefetch_n: int = option(
        CORE.multicast_prefetch_n,
        "Items that a multicast stream requests from each route ahead of the caller, so that routes work in parallel.",
        "128",
        "items",
        within=(1, 65_536),
    )
    multicast_branch_bytes: int = option(
        CORE.multicast_branch_bytes,
        "Bytes of prefetched items of one route in a multicast stream; at the limit no more items are requested "
        "from the route. The window of each route follows the sizes of its items; one item is always allowed. 1 "
        "MiB is a full prefetch of 32 KiB items.",
        "262144",
        within=(1024, 1_073_741_824),
    )
    multicast_buffer_bytes: int = option(
        CORE.multicast_buffer_bytes,
        "Bytes of prefetched items of all multicast streams of one connection together. A stream that would "
        "exceed it ends with over-limit.",
        "4194304",
        within=(65_536, 1_073_741_824),
    )
    resume_ttl_s: float = option(
        CORE.resume_ttl_s,
        "Time for which a resumable connection may be without a socket before it counts as lost. Long enough for "
        "a client to get a network again, short enough for the requests that wait for it. 0: a SETUP that asks "
        "for resumption is refused.",
        "120.0",
        within=(0, 3600),
    )
    resume_buffer_bytes: int = option(
        CORE.resume_buffer_bytes,
        "Sent frames that are kept for one resumable connection, in case they must be sent again. Should exceed "
        "what can be in transit. Without a socket, one frame more ends the session.",
        "8388608",
        within=(1024, 1_073_741_824),
    )
    resume_total_bytes: int = option(
        CORE.resume_total_bytes,
        "Sent frames that are kept for all resumable connections together.",
        "67108864",
        within=(1024, 68_719_476_736),
    )
    max_lookup_cache: int = option(
        CORE.max_lookup_cache,
        "Addresses whose matching routes are cached until the routing table changes. Further addresses are looked "
        "up in the index each time. 0: no cache.",
        "65536",
        "addresses",
        within=(0, 1_048_576),
    )
