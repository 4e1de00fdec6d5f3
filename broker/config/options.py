"""Every option of the broker: its name, type, default, unit, range, reason and example.

An option is declared once, as an annotated field of its section's class below or in `broker.config.cluster_options`;
the command line, the environment, the TOML file, the table in `docs/configuration.md` and the output of `rsocket-broker
check --options` all come from that line. How options are read and checked is the matter of `broker.config.load`; the
broker does not know who reads them.
"""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from broker.config.cluster_options import AnnotationOptions, ClusterOptions, Locality
from broker.config.option import Option, option
from broker.config.toml import either, toml_text
from broker.config.urls import Listen
from rsocket_wire.wire.tags import MAX_TAGS, MAX_VALUE_BYTES

VARIABLE_PREFIX: Final = "RSB_"
MAX_NAME_BYTES: Final = 255  # D-06: what a BROKER_INFO or a service's name can hold
CHOOSERS: Final = ("round_robin", "random", "weighted", "least_busy", "power_of_two", "peak_ewma")
MAX_ONE_OF: Final = 1_000_000  # requests, of which one is written
WRAPPERS: Final = ("zone_first", "sticky")  # of another chooser, which stands behind a colon
MAX_SERVICES: Final = 1000  # tables [service.NAME]: a file that people still read

MAX_ROUTE_TAGS: Final = MAX_TAGS - 3  # a ROUTE_ADD has ServiceName, RouteId and the state (D-63) beside them
MAX_WORKERS: Final = 256  # each is linked to each

ShardMethod = Literal["rendezvous", "maglev", "ring", "jump", "modulo"]
NoRoute = Literal["reject", "wait"]
Changes = Literal["local", "all", "off"]
OnLeave = Literal["ignore", "error"]
Sync = Literal["none", "second"]
SilentReaders = Literal["keep", "ignore"]
TlsVersion = Literal["1.2", "1.3"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


@dataclass(frozen=True)
class BrokerOptions:
    """Who this broker is."""

    name: str = option(
        "broker",
        "What people call this broker: in the REST API, in logs and in events; in a cluster also in traces, where each "
        'needs a name of its own. "broker" is none: in traces it is broker- and the first 8 digits of the id.',
        '"eu-1"',
        within=(1, MAX_NAME_BYTES),
    )
    id: str = option(
        "",
        "Id of this broker in frames and events. Empty: a new random one at each start, which suits a broker whose "
        "events nobody joins across restarts.",
        '"6f1c7a52-5d1e-4f0b-9a55-0f6f0a3f0c11"',
        form="uuid",
    )


@dataclass(frozen=True)
class ServerOptions:
    """Where peers come in, and how the process ends."""

    listen: tuple[Listen, ...] = option(
        (Listen("tcp", "127.0.0.1", 7000), Listen("ws", "127.0.0.1", 7001)),
        "Where peers connect: tcp, tls, ws, wss with host and port (0: any free one), unix with an absolute path. "
        "Only this machine by default, because a broker without TLS asks nobody who they are.",
        '["tls://0.0.0.0:7000", "unix:///run/rsocket-broker.sock"]',
        flag="--listen",
        form="URL",
    )
    origins: tuple[str, ...] = option(
        (),
        "Web pages that may open a WebSocket here beside those from the same host and port: where they are from, as "
        "browsers say it. Any other page could ask and answer in the name of whoever looks at it. A program that is no "
        "browser says no origin, and may.",
        '["https://shop.example", "http://localhost:3000"]',
        form="origin",
    )
    names: tuple[str, ...] = option(
        (),
        "Names by which clients on WebSocket, other brokers that dial ws or wss, and users of the REST API reach this "
        "broker, beside the machine's own and those in listen, admin.listen, cluster.advertise and "
        "cluster.client_urls; of a container or a service, too. Addresses and localhost are always taken; any other "
        "name could be that of a stranger's page, made to lead here, and gets 421.",
        '["broker.shop.example"]',
        form="name",
    )
    workers: int = option(
        1,
        "Processes that accept on the same ports and are brokers of one cluster inside this machine: one core carries "
        "one of them. 0: one for each core that may be used. Limits hold for each of them.",
        "0",
        "processes",
        within=(0, MAX_WORKERS),
        flag="--workers",
    )
    worker_locality: Locality = option(
        "even",
        "Who answers when routes at several workers match: even, all alike; local, those at the caller's worker as "
        "long as there are any. To which worker a route came is chance, so with local some may get nothing; but where "
        "each service has connections to all workers, no request takes the way over another one.",
        '"local"',
    )
    stop_grace_s: float = option(
        10.0,
        "How long requests in flight may take to end after SIGTERM or SIGINT; new ones are refused meanwhile, but for "
        "half of that time at most not those of clients that are about to move to another broker. "
        "Below the 30 s after which most supervisors kill.",
        "25.0",
        "seconds",
        within=(0, 3600),
    )
    drain_grace_s: float = option(
        10.0,
        "How long requests in flight on a connection that is drained may take to end, from the moment when it is its "
        "turn, unless whoever drains says otherwise. As long as those of a broker that stops.",
        "60.0",
        "seconds",
        within=(0, 3600),
    )
    drain_spread_s: float = option(
        30.0,
        "The turns of the connections of one drain are spread over this time, unless whoever drains says otherwise: "
        "clients that all come back in one moment are a flood.",
        "120.0",
        "seconds",
        within=(0, 3600),
    )


@dataclass(frozen=True)
class TlsOptions:
    """Certificates: of the tls and wss listeners, and of the links to other brokers."""

    certificate: str = option(
        "",
        "The broker's certificate and those between it and the root, PEM. Required by tls and wss listeners; shown to "
        "brokers that are dialled, too.",
        '"/etc/rsocket-broker/broker.pem"',
        form="file",
    )
    key: str = option(
        "",
        "The certificate's private key, PEM, without a password. Required by tls and wss listeners.",
        '"/etc/rsocket-broker/broker.key"',
        form="file",
    )
    client_ca: str = option(
        "",
        "Roots, PEM. When set, a client must show a certificate that one of them signed.",
        '"/etc/rsocket-broker/clients.pem"',
        form="file",
    )
    min_version: TlsVersion = option("1.2", "The oldest TLS that is spoken; 1.0 and 1.1 are broken.", '"1.3"')


@dataclass(frozen=True)
class AdminOptions:
    """REST API and metrics."""

    listen: Listen | None = option(
        Listen("http", "127.0.0.1", 7070),
        "Where the REST API and the metrics listen; off switches them off. Only this machine by default, because they "
        "ask nobody who they are and name every route and peer.",
        '"off"',
        flag="--admin",
        form="HOST:PORT",
    )
    changes: Changes = option(
        "local",
        "Who may drain, redirect and close connections through the REST API: local, who asks from this machine; all, "
        "whoever reaches the listener; off, nobody. A listener that others reach for its metrics is no way in.",
        '"off"',
    )


@dataclass(frozen=True)
class EventOptions:
    """What happened, as files."""

    dir: str = option(
        "",
        "Where event files go; made when it is not there. Empty: no event files.",
        '"/var/lib/rsocket-broker/events"',
        flag="--events",
        form="directory",
    )
    roll_s: float = option(
        1.0,
        "A file is sealed, and readers see it, when it is this old. Longer means fewer files, later seen.",
        "60.0",
        "seconds",
        within=(0.1, 3600),
    )
    flow_interval_s: float = option(
        1.0,
        "Requests are counted per caller, route and outcome for this long, then the counts are one record.",
        "10.0",
        "seconds",
        within=(0.1, 3600),
    )
    requests: str = option(
        "flows",
        "What is written of requests. flows: the counts alone; all: each request that ended as a row of its own, too, "
        "some 1.3 ms of the broker's CPU for a thousand, files included; 1/N: one of N of them, each as likely as any "
        "other.",
        '"1/100"',
        form="requests",
    )
    snapshot_s: float = option(
        60.0,
        "So often all routes of the table are written, with a digest of it: whoever wants to know a table of the past "
        "begins with one of these. 0: never.",
        "600.0",
        "seconds",
        within=(0, 86_400),
    )
    min_free_bytes: int = option(
        64 << 20,
        "As much of the file system of events.dir is left to others: Spark's checkpoint may share it. Records then "
        "wait in memory, and beyond a bound they are dropped and counted.",
        "1073741824",
        "bytes",
        within=(0, 1 << 50),
    )
    sync: Sync = option(
        "none",
        "How often the log that records go to first is synced to the disk: none, when the kernel likes; second, each "
        "second. Only a power failure makes a difference; killed processes lose nothing either way.",
        '"second"',
    )
    keep_s: float = option(
        0.0,
        "How long a file is kept after it was sealed, unless a declared reader has not read it. 0: for ever.",
        "604800.0",
        "seconds",
        within=(0, 3_153_600_000),
    )
    keep_bytes: int = option(
        0,
        "While all files are larger together the oldest is removed, unless a declared reader has not read it. 0: no "
        "bound.",
        "10737418240",
        "bytes",
        within=(0, 1 << 50),
    )
    reader_timeout_s: float = option(
        86_400.0,
        "A declared reader that says nothing for so long is told of in the log and counted.",
        "3600.0",
        "seconds",
        within=(1, 31_536_000),
    )
    silent_readers: SilentReaders = option(
        "keep",
        "What such a reader has not read: keep, which may fill the disk up to min_free_bytes; ignore, it is removed "
        "like everything else.",
        '"ignore"',
    )


@dataclass(frozen=True)
class RoutingOptions:
    """Who answers when several could, and what happens when nobody does."""

    chooser: str = option(
        "round_robin",
        "How one of several matching routes is chosen for a unicast request that does not say it itself.",
        '"zone_first:peak_ewma"',
        form="chooser",
        per_service=True,
    )
    shard_method: ShardMethod = option(
        "rendezvous",
        "How the owner of a shard key is found for a request that does not say it itself. With rendezvous the fewest "
        "keys move when routes come and go.",
        '"maglev"',
        per_service=True,
    )
    sticky_ttl_s: float = option(
        300.0,
        "How long a choice by StickyRouteKey is kept without being used. 0: none is kept.",
        "3600.0",
        "seconds",
        within=(0, 86_400),
        per_service=True,
    )
    slow_start_s: float = option(
        0.0,
        "The share of a new route grows for so long from a tenth to the whole, so that it can warm up. 0: the whole "
        "at once.",
        "30.0",
        "seconds",
        within=(0, 3600),
        per_service=True,
    )
    panic_percent: int = option(
        50,
        "When more than so many of a hundred matching routes are ejected or call themselves unhealthy, something else "
        "is wrong, and requests go to all of them as if none was. 0 or 100: never.",
        "30",
        "percent",
        within=(0, 100),
        per_service=True,
    )
    zone: str = option(
        "",
        "The zone that this broker is in: the value of the tag Zone that routes nearby have. Empty: it is in none.",
        '"eu-1a"',
        within=(0, MAX_VALUE_BYTES),
    )
    no_route: NoRoute = option(
        "reject",
        "What becomes of a request that no route matches now: reject, it is refused at once; wait, it waits for one.",
        '"wait"',
    )
    no_route_timeout_s: float = option(
        5.0,
        "How long such a request waits at most, then it is refused. No longer than callers usually wait.",
        "1.5",
        "seconds",
        within=(0.001, 3600),
    )
    strict_hints: bool = option(
        False,
        "Whether hints (LBMethod, ShardKey, ShardMethod, StickyRouteKey) among an ADDRESS's tags must match a "
        "route's tags like any other. Off, because clients that write the one-map ADDRESS can say hints nowhere "
        "else.",
        "true",
    )
    multicast_on_leave: OnLeave = option(
        "ignore",
        "What a route that is lost in the middle of a multicast stream does to it: ignore, it counts as complete; "
        "error, the stream ends with route-lost.",
        '"error"',
    )


@dataclass(frozen=True)
class ProtectionOptions:
    """When a route gets no requests for its own good, or that of its callers. The defaults are Envoy's."""

    eject_after_errors: int = option(
        5,
        "A route that answers so many requests in a row with an error is ejected: it gets none for a while. 0: never.",
        "20",
        "errors",
        within=(0, 1_000_000),
        per_service=True,
    )
    eject_s: float = option(
        30.0,
        "How long a route is ejected for the first time; for the second time twice as long, and so on.",
        "5.0",
        "seconds",
        within=(0.001, 86_400),
        per_service=True,
    )
    eject_max_s: float = option(
        300.0,
        "How long a route is ejected at most, however often it was before.",
        "60.0",
        "seconds",
        within=(0.001, 86_400),
        per_service=True,
    )
    eject_max_percent: int = option(
        10,
        "At most so many of a hundred routes of a service are ejected at one time, but one always may be: what hits "
        "all of them is no fault of a route. 0: none is.",
        "50",
        "percent",
        within=(0, 100),
        per_service=True,
    )
    max_in_flight_per_route: int = option(
        1024,
        "Request/responses that may be in flight at one route; one more goes to another route or, when all have as "
        "many, is refused with over-limit. While others ask, one caller gets no more than half. 0: no limit.",
        "64",
        "requests",
        within=(0, 1_000_000),
        per_service=True,
    )
    max_in_flight_per_service: int = option(
        0,
        "Request/responses that may be in flight at all routes of a service together; one more is refused with "
        "over-limit. While others ask, one caller gets no more than half. 0: no limit, because the routes have theirs.",
        "4096",
        "requests",
        within=(0, 100_000_000),
        per_service=True,
    )


@dataclass(frozen=True)
class LimitOptions:
    """How much one peer, and all of them, may ask for. At a limit the peer or request is refused and told so."""

    setup_timeout_s: float = option(
        2.0,
        "A connection that has not sent its SETUP by then is closed: a socket that says nothing costs memory.",
        "5.0",
        "seconds",
        within=(0.1, 60),
    )
    max_connections: int = option(
        50_000,
        "Connections at one time, over all listeners; one more is closed at once. Each needs a file descriptor "
        "(ulimit -n), of which the broker takes as many as it may.",
        "100000",
        "connections",
        within=(1, 1_000_000),
    )
    max_connections_per_address: int = option(
        25_000,
        "The same from one IP address, of IPv6 from one /64; Unix sockets have none. Half of max_connections, so that "
        "one host cannot take all places; it is also what a proxy, behind which all clients have its address, may "
        "bring. 0: no bound.",
        "100",
        "connections",
        within=(0, 1_000_000),
    )
    max_connections_per_principal: int = option(
        25_000,
        "The same of one principal: the subject of the client's certificate where tls.client_ca is set, the user at "
        "the other end of a Unix socket; other connections have none. 0: no bound.",
        "100",
        "connections",
        within=(0, 1_000_000),
    )
    max_lifetime_s: float = option(
        300.0,
        "Silence after which a connection counts as lost even if its SETUP promised to be silent for longer, but not "
        "before two of its keepalive intervals: a host that is gone says so to nobody, and its routes get requests.",
        "60.0",
        "seconds",
        within=(1, 86_400),
    )
    max_keepalives_per_s: int = option(
        10,
        "KEEPALIVEs that one connection may have answered in a second, ten times as many at once; one more closes it "
        "with over-limit. Clients send one in some seconds. 0: no bound.",
        "100",
        "frames per second",
        within=(0, 1_000_000),
    )
    max_route_setups_per_s: int = option(
        10,
        "ROUTE_SETUPs that one connection may send in a second, ten times as many at once; one more closes it with "
        "over-limit. Each changes the routing table, and all addresses are looked up anew. 0: no bound.",
        "1",
        "frames per second",
        within=(0, 1_000_000),
    )
    min_fragment_bytes: int = option(
        64,
        "A fragment that others follow and that is shorter, its length of three bytes included, is small. 64 is the "
        "least that rsocket-java can be set to. 0: none is small.",
        "256",
        "bytes",
        within=(0, 65_536),
    )
    max_small_fragments_per_s: int = option(
        1000,
        "Small fragments that one connection may send in a second, ten times as many at once; one more closes it with "
        "over-limit: each costs as much as a large one. 0: no bound.",
        "100",
        "frames per second",
        within=(0, 1_000_000),
    )
    max_frame_bytes: int = option(
        16_777_215,
        "Longest frame that a peer may send; a longer one closes its connection. The default is the longest that "
        "RSocket can say.",
        "1048576",
        "bytes",
        within=(64, 16_777_215),
    )
    max_metadata_bytes: int = option(
        262_144,
        "How much of fragmented requests' metadata one connection may have gathered until it is whole. Half of it "
        "where an ADDRESS has come: such a request goes on then, and so does one of which the maps of its ADDRESS have "
        "come; any other is refused. What comes later is passed on, not gathered.",
        "65536",
        "bytes",
        within=(64, 16_777_215),
    )
    max_streams_per_connection: int = option(
        10_000,
        "Requests in flight that one connection may have begun; one more is refused with over-limit.",
        "1000",
        "requests",
        within=(1, 1_000_000),
    )
    max_tags_per_route: int = option(
        64,
        "Tags of one ROUTE_SETUP; one more refuses the route. Bounds what a client can put into the index.",
        "16",
        "tags",
        within=(1, MAX_ROUTE_TAGS),
    )
    max_waiting: int = option(
        10_000,
        "Requests that may wait for a route at one time when routing.no_route is wait; one more is refused at once.",
        "1000",
        "requests",
        within=(1, 1_000_000),
    )
    max_waiting_per_connection: int = option(
        1_000,
        "The same for the requests of one connection, so that one caller cannot take all places.",
        "100",
        "requests",
        within=(1, 1_000_000),
    )
    max_waiting_bytes: int = option(
        4_194_304,
        "Bytes of the frames of requests that wait for a route, of one connection; one that would pass it is refused.",
        "1048576",
        "bytes",
        within=(1024, 1_073_741_824),
    )
    max_pending_bytes: int = option(
        67_108_864,
        "Bytes that may wait for one connection that reads more slowly than others send to it; beyond it the request "
        "that has most of them ends with over-limit. The connection stays.",
        "16777216",
        "bytes",
        within=(65_536, 1_073_741_824),
    )
    max_buffered_bytes: int = option(
        1_073_741_824,
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
        32,
        "Items that a multicast stream asks of each route ahead of the caller: a route answers while another is "
        "waited for.",
        "128",
        "items",
        within=(1, 65_536),
    )
    multicast_branch_bytes: int = option(
        1_048_576,
        "Bytes that the items of one route, fetched and not yet asked for, may take in a multicast stream; at it the "
        "route is asked for no more. The window of each route follows the sizes seen, so that they fit; one item it "
        "may always send. 1 MiB is a whole prefetch of 32 KiB items.",
        "262144",
        "bytes",
        within=(1024, 1_073_741_824),
    )
    multicast_buffer_bytes: int = option(
        16_777_216,
        "Bytes of items, fetched and not yet asked for, that the multicast streams of one connection may hold; all of "
        "their routes share them. A stream that would hold more ends with over-limit.",
        "4194304",
        "bytes",
        within=(65_536, 1_073_741_824),
    )
    resume_ttl_s: float = option(
        60.0,
        "How long a connection whose SETUP asked for resumption may be without a socket before it counts as lost: long "
        "enough for a client to get a network again, short enough for requests that wait for it. 0 refuses such a "
        "SETUP.",
        "120.0",
        "seconds",
        within=(0, 3600),
    )
    resume_buffer_bytes: int = option(
        1_048_576,
        "Frames kept for one such connection, in case they have to be sent again. Should exceed what can be on the "
        "way; without a socket, one frame more ends the session.",
        "8388608",
        "bytes",
        within=(1024, 1_073_741_824),
    )
    resume_total_bytes: int = option(
        268_435_456,
        "Frames kept for all such connections together.",
        "67108864",
        "bytes",
        within=(1024, 68_719_476_736),
    )
    max_lookup_cache: int = option(
        16_384,
        "Addresses whose matching routes are remembered until the routing table changes. More addresses are still "
        "answered, by one AND over the index each. 0 remembers none.",
        "65536",
        "addresses",
        within=(0, 1_048_576),
    )


@dataclass(frozen=True)
class LogOptions:
    """What the process says on standard error."""

    level: LogLevel = option(
        "info",
        "The least important lines that are written. info has one line when a peer comes and one when it goes, "
        "none per request.",
        '"warning"',
    )
    format: LogFormat = option("text", "text for people, json (one object a line) for collectors.", '"json"')


@dataclass(frozen=True)
class Config:
    """All options; `Config()` holds the defaults. Values are checked by `load`, not here.

    `service` holds only what the tables of services say; the rest of a service's options are those of all.
    """

    broker: BrokerOptions = field(default_factory=BrokerOptions)
    server: ServerOptions = field(default_factory=ServerOptions)
    tls: TlsOptions = field(default_factory=TlsOptions)
    admin: AdminOptions = field(default_factory=AdminOptions)
    events: EventOptions = field(default_factory=EventOptions)
    routing: RoutingOptions = field(default_factory=RoutingOptions)
    protection: ProtectionOptions = field(default_factory=ProtectionOptions)
    limits: LimitOptions = field(default_factory=LimitOptions)
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    annotations: AnnotationOptions = field(default_factory=AnnotationOptions)
    log: LogOptions = field(default_factory=LogOptions)
    service: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # by name, then by key


@dataclass(frozen=True)
class OptionDoc:
    """One option as it is declared above, for `docs/configuration.md` and `rsocket-broker check --options`."""

    section: str
    key: str
    hint: Any  # the field's type
    default: object
    option: Option

    @property
    def name(self) -> str:
        """`server.listen`."""
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        """`RSB_SERVER__LISTEN`."""
        return f"{VARIABLE_PREFIX}{self.section}__{self.key}".upper()

    @property
    def default_text(self) -> str:
        """The default as TOML."""
        if isinstance(self.default, tuple):
            return toml_text([str(item) for item in self.default])
        return toml_text(self.default.address if isinstance(self.default, Listen) else self.default)

    @property
    def is_list(self) -> bool:
        """It has several values; the form is that of each."""
        return isinstance(self.default, tuple)

    @property
    def may_be_empty(self) -> bool:
        """It is a list that may have no value."""
        return self.default == ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it may be; empty when it is not one of a few words."""
        return get_args(self.hint) if get_origin(self.hint) is Literal else ()

    @property
    def takes(self) -> str:
        """What values it takes, so that "must be …" makes a sentence: `a whole number from 1 to 128`."""
        low, high = (str(int(end)) if end == int(end) else f"{end:.15g}" for end in self.option.within)
        if self.words:
            return either([toml_text(word) for word in self.words])
        if self.hint is bool:
            return "true or false"
        if self.hint in (int, float):
            return f"a {'whole ' if self.hint is int else ''}number from {low} to {high}"
        forms = {
            "": f"printable text of {low} to {high} bytes",
            "chooser": f"{either([toml_text(word) for word in (*CHOOSERS, *WRAPPERS)])}, the last two with or without "
            'another behind a colon ("sticky:random")',
            "requests": '"flows", "all" or "1/N" with N from 2 to 1000000',
            "uuid": "a uuid or empty",
            "file": "the path of a file or empty",
            "directory": "the path of a directory or empty",
            "HOST:PORT": 'HOST:PORT or "off"',
            "URL": f"a list of {'' if self.may_be_empty else 'one or more '}URLs",
            "dial": "a list of URLs",
            "subject": "a list of printable texts",
            "origin": 'a list of origins, or "null"',
            "name": "a list of host names",
        }
        return forms[self.option.form]


def is_chooser(text: str) -> bool:
    """The name of a chooser, with or without another one within it."""
    outer, colon, inner = text.partition(":")
    if not colon:
        return outer in CHOOSERS or outer in WRAPPERS
    return outer in WRAPPERS and (inner in CHOOSERS or text == "sticky:zone_first")


def one_of_requests(text: str) -> int:
    """Of how many requests one is written: 0 for `flows`, 1 for `all`, N for `1/N`; -1: it is none of these."""
    if text in ("flows", "all"):
        return int(text == "all")
    number = text.removeprefix("1/")
    is_number = text.startswith("1/") and number.isascii() and number.isdigit() and len(number) <= 7
    return int(number) if is_number and 2 <= int(number) <= MAX_ONE_OF else -1


def describe() -> list[OptionDoc]:
    """Every option, section by section, in the order of the classes above."""
    return list(OPTIONS.values())


def options_markdown() -> str:
    """The tables of `docs/configuration.md`; a test holds the two equal."""
    lines: list[str] = []
    for section, kind in SECTIONS.items():
        lines += [f"### [{section}]", "", kind.__doc__ or "", ""]
        lines += ["| key | default | unit | takes | what and why | example |", "|---|---|---|---|---|---|"]
        for doc in describe():
            if doc.section == section:
                why = doc.option.why + (f" Flag: `{doc.option.flag}`." if doc.option.flag else "")
                cells = [f"`{doc.key}`", f"`{doc.default_text}`", doc.option.unit, doc.takes, why]
                lines.append(f"| {' | '.join(cells)} | `{doc.option.example}` |")
        lines.append("")
    keys = ", ".join(f"`{key}`" for key in SERVICE_KEYS)
    lines += ["### [service.NAME]", "", SERVICE_TEXT, "", f"Keys: {keys}.", ""]
    lines += ["```toml", *_service_toml(), "```", ""]
    return "\n".join(lines)


def options_toml() -> str:
    """A configuration file that holds every option at its default, with unit, reason and example beside it."""
    lines: list[str] = []
    for section, kind in SECTIONS.items():
        lines += [f"[{section}]  # {kind.__doc__}", ""]
        for doc in describe():
            if doc.section == section:
                lines += textwrap.wrap(doc.option.why, 110, initial_indent="# ", subsequent_indent="# ")
                unit = f" ({doc.option.unit})" if doc.option.unit else ""
                lines += [f"# {doc.takes}{unit}; example: {doc.option.example}; {doc.variable}"]
                lines += [f"{doc.key} = {doc.default_text}", ""]
    lines += textwrap.wrap(SERVICE_TEXT.replace("`", ""), 110, initial_indent="# ", subsequent_indent="# ")
    lines += ["#", *(f"# {line}" for line in _service_toml()), ""]
    return "\n".join(lines)


def _service_toml() -> list[str]:
    """A table of a service with all that may stand in it, as an example."""
    return [
        '[service."orders.eu"]',
        *(f"{key} = {doc.option.example}  # default: {doc.name}" for key, doc in SERVICE_KEYS.items()),
    ]


SERVICE_TEXT: Final = (
    "What is different for the routes of one service, NAME: some of the keys of `[routing]` and `[protection]`; those "
    f"that are not here are as there. At most {MAX_SERVICES} services, names of 1 to {MAX_NAME_BYTES} bytes, quoted "
    "where TOML wants it. Only in the file: variables and flags have no place for a service's name."
)
SECTIONS: Final[dict[str, Any]] = {  # section -> its class
    name: kind for name, kind in get_type_hints(Config).items() if is_dataclass(kind)
}
OPTIONS: Final = {  # name -> what it is, in the order of the classes above
    f"{section}.{each.name}": OptionDoc(section, each.name, hint, each.default, each.metadata["option"])
    for section, kind in SECTIONS.items()
    for each, hint in zip(fields(kind), get_type_hints(kind).values(), strict=True)
}
SERVICE_KEYS: Final = {doc.key: doc for doc in OPTIONS.values() if doc.option.per_service}
