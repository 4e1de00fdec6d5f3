"""The options that bound what peers may ask for: section [limits]. See `broker.config.options`."""

from dataclasses import dataclass
from typing import Final

from broker.config.option import CORE, option
from rsocket_wire.wire.tags import MAX_TAGS

MAX_ROUTE_TAGS: Final = MAX_TAGS - 3  # a ROUTE_ADD has ServiceName, RouteId and the state (D-63) beside them


@dataclass(frozen=True)
class LimitOptions:
    """How much one peer, and all of them, may ask for. At a limit the peer or request is refused and told so."""

    setup_timeout_s: float = option(
        CORE.setup_timeout_s,
        "A connection that has not sent its SETUP by then is closed: a socket that says nothing costs memory.",
        "5.0",
        "seconds",
        within=(0.1, 60),
    )
    max_connections: int = option(
        CORE.max_connections,
        "Connections at one time, over all listeners; one more is closed at once. Each needs a file descriptor "
        "(ulimit -n), of which the broker takes as many as it may.",
        "100000",
        "connections",
        within=(1, 1_000_000),
    )
    max_connections_per_address: int = option(
        CORE.max_connections_per_address,
        "The same from one IP address, of IPv6 from one /64; Unix sockets have none. Half of max_connections, so that "
        "one host cannot take all places; it is also what a proxy, behind which all clients have its address, may "
        "bring. 0: no bound.",
        "100",
        "connections",
        within=(0, 1_000_000),
    )
    max_connections_per_principal: int = option(
        CORE.max_connections_per_principal,
        "The same of one principal: the subject of the client's certificate where tls.client_ca is set, the user at "
        "the other end of a Unix socket; other connections have none. 0: no bound.",
        "100",
        "connections",
        within=(0, 1_000_000),
    )
    max_lifetime_s: float = option(
        CORE.max_lifetime_s,
        "Silence after which a connection counts as lost even if its SETUP promised to be silent for longer, but not "
        "before two of its keepalive intervals: a host that is gone says so to nobody, and its routes get requests.",
        "60.0",
        "seconds",
        within=(1, 86_400),
    )
    max_keepalives_per_s: int = option(
        CORE.max_keepalives_per_s,
        "KEEPALIVEs that one connection may have answered in a second, ten times as many at once; one more closes it "
        "with over-limit. Clients send one in some seconds. 0: no bound.",
        "100",
        "frames per second",
        within=(0, 1_000_000),
    )
    max_route_setups_per_s: int = option(
        CORE.max_route_setups_per_s,
        "ROUTE_SETUPs that one connection may send in a second, ten times as many at once; one more closes it with "
        "over-limit. Each changes the routing table, and all addresses are looked up anew. 0: no bound.",
        "1",
        "frames per second",
        within=(0, 1_000_000),
    )
    min_fragment_bytes: int = option(
        CORE.min_fragment_bytes,
        "A fragment that others follow and that is shorter, its length of three bytes included, is small. 64 is the "
        "least that rsocket-java can be set to. 0: none is small.",
        "256",
        "bytes",
        within=(0, 65_536),
    )
    max_small_fragments_per_s: int = option(
        CORE.max_small_fragments_per_s,
        "Small fragments that one connection may send in a second, ten times as many at once; one more closes it with "
        "over-limit: each costs as much as a large one. 0: no bound.",
        "100",
        "frames per second",
        within=(0, 1_000_000),
    )
    max_frame_bytes: int = option(
        CORE.max_frame_bytes,
        "Longest frame that a peer may send; a longer one closes its connection. The default is the longest that "
        "RSocket can say.",
        "1048576",
        "bytes",
        within=(64, 16_777_215),
    )
    max_metadata_bytes: int = option(
        CORE.max_metadata_bytes,
        "How much of fragmented requests' metadata one connection may have gathered until it is whole. Half of it "
        "where an ADDRESS has come: such a request goes on then, and so does one of which the maps of its ADDRESS have "
        "come; any other is refused. What comes later is passed on, not gathered.",
        "65536",
        "bytes",
        within=(64, 16_777_215),
    )
    max_streams_per_connection: int = option(
        CORE.max_streams_per_connection,
        "Requests in flight that one connection may have begun; one more is refused with over-limit.",
        "1000",
        "requests",
        within=(1, 1_000_000),
    )
    max_tags_per_route: int = option(
        CORE.max_tags_per_route,
        "Tags of one ROUTE_SETUP; one more refuses the route. Bounds what a client can put into the index.",
        "16",
        "tags",
        within=(1, MAX_ROUTE_TAGS),
    )
    max_waiting: int = option(
        CORE.max_waiting,
        "Requests that may wait for a route at one time when routing.no_route is wait; one more is refused at once.",
        "1000",
        "requests",
        within=(1, 1_000_000),
    )
    max_waiting_per_connection: int = option(
        CORE.max_waiting_per_connection,
        "The same for the requests of one connection, so that one caller cannot take all places.",
        "100",
        "requests",
        within=(1, 1_000_000),
    )
    max_waiting_bytes: int = option(
        CORE.max_waiting_bytes,
        "Bytes of the frames of requests that wait for a route, of one connection; one that would pass it is refused.",
        "1048576",
        "bytes",
        within=(1024, 1_073_741_824),
    )
    max_pending_bytes: int = option(
        CORE.max_pending_bytes,
        "Bytes that may wait for one connection that reads more slowly than others send to it; beyond it the request "
        "that has most of them ends with over-limit. The connection stays.",
        "16777216",
        "bytes",
        within=(65_536, 1_073_741_824),
    )
    max_buffered_bytes: int = option(
        CORE.max_buffered_bytes,
        "Bytes that may wait in the broker for and of all connections together: output that is not read, frames and "
        "requests that are not whole, items and requests that are held. Beyond it the requests for which most "
        "waits end with over-limit; what else is held is looked at once a second, and the connections that hold most "
        "are closed.",
        "268435456",
        "bytes",
        within=(1_048_576, 1_099_511_627_776),
    )
    stuck_s: float = option(
        10.0,
        "Time in which a connection that has bytes waiting must take some of them; else it is closed with slow-peer. "
        "Callers that send it requests wait that long at most.",
        "30.0",
        "seconds",
        within=(0.1, 3600),
    )
    multicast_prefetch_n: int = option(
        CORE.multicast_prefetch_n,
        "Items that a multicast stream asks of each route ahead of the caller: a route answers while another is "
        "waited for.",
        "128",
        "items",
        within=(1, 65_536),
    )
    multicast_branch_bytes: int = option(
        CORE.multicast_branch_bytes,
        "Bytes that the items of one route, fetched and not yet asked for, may take in a multicast stream; at it the "
        "route is asked for no more. The window of each route follows the sizes seen, so that they fit; one item it "
        "may always send. 1 MiB is a whole prefetch of 32 KiB items.",
        "262144",
        "bytes",
        within=(1024, 1_073_741_824),
    )
    multicast_buffer_bytes: int = option(
        CORE.multicast_buffer_bytes,
        "Bytes of items, fetched and not yet asked for, that the multicast streams of one connection may hold; all of "
        "their routes share them. A stream that would hold more ends with over-limit.",
        "4194304",
        "bytes",
        within=(65_536, 1_073_741_824),
    )
    resume_ttl_s: float = option(
        CORE.resume_ttl_s,
        "How long a connection whose SETUP asked for resumption may be without a socket before it counts as lost: long "
        "enough for a client to get a network again, short enough for requests that wait for it. 0 refuses such a "
        "SETUP.",
        "120.0",
        "seconds",
        within=(0, 3600),
    )
    resume_buffer_bytes: int = option(
        CORE.resume_buffer_bytes,
        "Frames kept for one such connection, in case they have to be sent again. Should exceed what can be on the "
        "way; without a socket, one frame more ends the session.",
        "8388608",
        "bytes",
        within=(1024, 1_073_741_824),
    )
    resume_total_bytes: int = option(
        CORE.resume_total_bytes,
        "Frames kept for all such connections together.",
        "67108864",
        "bytes",
        within=(1024, 68_719_476_736),
    )
    max_lookup_cache: int = option(
        CORE.max_lookup_cache,
        "Addresses whose matching routes are remembered until the routing table changes. More addresses are still "
        "answered, by one AND over the index each. 0 remembers none.",
        "65536",
        "addresses",
        within=(0, 1_048_576),
    )
