"""What happened, as records: the broker's log, its metrics and its event files are all made of these.

The core appends them and knows nobody who reads them. A lifecycle event tells one thing that happened; a flow record
counts the requests of one caller to one route in one interval. Both are plain values; `row()` is the tuple that
travels to the writer of event files, its first item the record type, the others in the order of the field tables here.

The latency histogram has 16 buckets per octave of microseconds, so that a bucket is at most 1/16 wide and histograms
of any brokers and intervals merge by adding:

    us       0 1 2 … 31 | 32 33  34 35 … 62 63 | 64 … 67  68 … 71  …
    bucket   0 1 2 … 31 |   32     33  …   47  |    48       49    …
"""

from typing import Final

LIFECYCLE: Final = 0
FLOW: Final = 1
REQUEST: Final = 2
DEFINITION: Final = 3  # of a flow number; no event, it has no sequence number

BROKER_STARTED: Final = 1
BROKER_STOPPED: Final = 2
ROUTE_JOINED: Final = 3
ROUTE_LEFT: Final = 4
ROUTE_REPLACED: Final = 5
PEER_CONNECTED: Final = 6
PEER_CLOSED: Final = 7
EVENTS_DROPPED: Final = 8
ROUTE_EJECTED: Final = 9
ROUTE_RELIEVED: Final = 10
BREAKER_OPENED: Final = 11
BREAKER_CLOSED: Final = 12
DRAIN_STARTED: Final = 13
DRAIN_ENDED: Final = 14
PEER_SUSPENDED: Final = 15
PEER_RESUMED: Final = 16
LINK_UP: Final = 17
LINK_DOWN: Final = 18
BROKER_JOINED: Final = 19
BROKER_LEFT: Final = 20
ANNOTATIONS_REFUSED: Final = 21
REDIRECT_SET: Final = 22
REDIRECT_REMOVED: Final = 23
DIGEST_MISMATCH: Final = 24
ROUTE_ADDED: Final = 25
ROUTE_REMOVED: Final = 26
TABLE_DIGEST: Final = 27
ROUTE_SEEN: Final = 28
SLOW_PEER_ENDED: Final = 29
BROKER_DIED: Final = 30  # told by the writer of event files, for a broker that could not
REQUESTS_DROPPED: Final = 31
ROUTE_UNSAID: Final = 32

KIND_NAMES: Final[dict[int, str]] = {
    BROKER_STARTED: "BrokerStarted",
    BROKER_STOPPED: "BrokerStopped",
    ROUTE_JOINED: "RouteJoined",
    ROUTE_LEFT: "RouteLeft",
    ROUTE_REPLACED: "RouteReplaced",
    PEER_CONNECTED: "PeerConnected",
    PEER_CLOSED: "PeerClosed",
    EVENTS_DROPPED: "EventsDropped",
    ROUTE_EJECTED: "RouteEjected",
    ROUTE_RELIEVED: "RouteRelieved",
    BREAKER_OPENED: "BreakerOpened",
    BREAKER_CLOSED: "BreakerClosed",
    DRAIN_STARTED: "DrainStarted",
    DRAIN_ENDED: "DrainEnded",
    PEER_SUSPENDED: "PeerSuspended",
    PEER_RESUMED: "PeerResumed",
    LINK_UP: "LinkUp",
    LINK_DOWN: "LinkDown",
    BROKER_JOINED: "BrokerJoined",
    BROKER_LEFT: "BrokerLeft",
    ANNOTATIONS_REFUSED: "AnnotationsRefused",
    REDIRECT_SET: "RedirectSet",
    REDIRECT_REMOVED: "RedirectRemoved",
    DIGEST_MISMATCH: "DigestMismatch",
    ROUTE_ADDED: "RouteAdded",
    ROUTE_REMOVED: "RouteRemoved",
    TABLE_DIGEST: "TableDigest",
    ROUTE_SEEN: "RouteSeen",
    SLOW_PEER_ENDED: "SlowPeerEnded",
    BROKER_DIED: "BrokerDied",
    REQUESTS_DROPPED: "RequestsDropped",
    ROUTE_UNSAID: "RouteUnsaid",
}

LIFECYCLE_FIELDS: Final = (
    "kind",
    "seq",
    "at_ms",
    "route_id",
    "service",
    "tags",
    "peer",
    "reason",
    "detail",
    "uptime_ms",
    "requests",
    "choices",
)
FLOW_FIELDS: Final = (
    "seq",
    "at_ms",
    "interval_ms",
    "caller_route",
    "caller_service",
    "route_id",
    "service",
    "address",
    "model",
    "routing",
    "outcome",
    "word",
    "emptied_by",
    "requests",
    "branches",
    "items_in",
    "items_out",
    "bytes_in",
    "bytes_out",
    "latency_sum_us",
    "latency_max_us",
    "histogram",
    "address_frame",
)
# A request that ended, as integers; what its flow number means a definition says, sent before its first use.
REQUEST_FIELDS: Final = (
    "seq",
    "started_at_us",
    "duration_us",
    "flow",
    "outcome",
    "order",
    "ended",
    "key_hash",
    "branches",
    "items_in",
    "items_out",
    "bytes_in",
    "bytes_out",
)
DEFINITION_FIELDS: Final = (
    "flow",
    "caller_route",
    "caller_service",
    "route_id",
    "service",
    "address",
    "model",
    "routing",
    "word",
    "emptied_by",
    "address_frame",
)
NO_KEY: Final = -1  # `key_hash` of a request that is no shard request

_LINEAR: Final = 32  # below this every microsecond is a bucket of its own
MAX_BUCKET: Final = 16 * 36  # 2^40 us is twelve days: nothing real is slower


class LifecycleEvent:
    """One thing that happened. Texts are empty and numbers 0 where the kind has no use for them."""

    __slots__ = (
        "at_ms",
        "choices",
        "detail",
        "kind",
        "peer",
        "reason",
        "requests",
        "route_id",
        "seq",
        "service",
        "tags",
        "uptime_ms",
    )

    def __init__(
        self,
        kind: int,
        seq: int,
        at_ms: int,
        route_id: str = "",
        service: str = "",
        tags: list[tuple[str, str]] | None = None,
        peer: str = "",
        reason: str = "",
        detail: str = "",
        uptime_ms: int = 0,
        requests: int = 0,
        choices: int = 0,
    ) -> None:
        self.kind: Final = kind
        self.seq: Final = seq  # 1, 2, 3 … over all records of this broker's run
        self.at_ms: Final = at_ms  # milliseconds since the epoch
        self.route_id: Final = route_id  # canonical uuid text
        self.service: Final = service
        self.tags: Final[list[tuple[str, str]]] = tags if tags is not None else []  # names and values
        self.peer: Final = peer  # "tcp 10.0.0.4:5123"
        self.reason: Final = reason  # a code word, see errors.CODE_WORDS, or "left"
        self.detail: Final = detail  # a sentence for people
        self.uptime_ms: Final = uptime_ms  # of the route, connection or broker that ended
        self.requests: Final = requests  # that the route had served; whose annotations were refused
        self.choices: Final = choices  # that the broker had made: a request of a greater `order` was chosen after it

    @property
    def name(self) -> str:
        """`RouteJoined`."""
        return KIND_NAMES[self.kind]

    def row(self) -> tuple[object, ...]:
        """For the writer: record type, then `LIFECYCLE_FIELDS`."""
        return (
            LIFECYCLE,
            self.kind,
            self.seq,
            self.at_ms,
            self.route_id,
            self.service,
            self.tags,
            self.peer,
            self.reason,
            self.detail,
            self.uptime_ms,
            self.requests,
            self.choices,
        )


class FlowRecord:
    """The requests of one caller to one route, of one model, routing type and outcome, in one interval."""

    __slots__ = (
        "address",
        "address_frame",
        "at_ms",
        "branches",
        "bytes_in",
        "bytes_out",
        "caller_route",
        "caller_service",
        "emptied_by",
        "histogram",
        "interval_ms",
        "items_in",
        "items_out",
        "latency_max_us",
        "latency_sum_us",
        "model",
        "outcome",
        "requests",
        "route_id",
        "routing",
        "seq",
        "service",
        "word",
    )

    def __init__(
        self,
        seq: int,
        at_ms: int,
        interval_ms: int,
        caller_route: str,
        caller_service: str,
        route_id: str,
        service: str,
        address: str,
        model: str,
        routing: str,
        outcome: str,
        word: str,
        emptied_by: str,
        requests: int,
        branches: int,
        items_in: int,
        items_out: int,
        bytes_in: int,
        bytes_out: int,
        latency_sum_us: int,
        latency_max_us: int,
        histogram: list[tuple[int, int]],
        address_frame: str,
    ) -> None:
        self.seq: Final = seq
        self.at_ms: Final = at_ms  # when the interval ended, milliseconds since the epoch
        self.interval_ms: Final = interval_ms
        self.caller_route: Final = caller_route  # empty for a caller without ROUTE_SETUP (D-17)
        self.caller_service: Final = caller_service
        self.route_id: Final = route_id  # empty when no route was found
        self.service: Final = service
        self.address: Final = address  # its tags: "service=orders region=eu"
        self.model: Final = model
        self.routing: Final = routing
        self.outcome: Final = outcome
        self.word: Final = word  # code word of the broker's own error, or empty
        self.emptied_by: Final = emptied_by  # of `no-route` the tag that no route was left with, "region=mars"
        self.requests: Final = requests
        self.branches: Final = branches  # routes that they went to, added up
        self.items_in: Final = items_in  # payloads of the caller
        self.items_out: Final = items_out  # payloads of the route
        self.bytes_in: Final = bytes_in  # frame bytes from the caller to the route
        self.bytes_out: Final = bytes_out  # frame bytes from the route to the caller
        self.latency_sum_us: Final = latency_sum_us  # from the first frame of a request to its end
        self.latency_max_us: Final = latency_max_us
        self.histogram: Final = histogram  # (bucket, count), ascending
        self.address_frame: Final = address_frame  # the ADDRESS in base64, its origin zeroed; empty: none, or too long

    def row(self) -> tuple[object, ...]:
        """For the writer: record type, then `FLOW_FIELDS`."""
        return (
            FLOW,
            self.seq,
            self.at_ms,
            self.interval_ms,
            self.caller_route,
            self.caller_service,
            self.route_id,
            self.service,
            self.address,
            self.model,
            self.routing,
            self.outcome,
            self.word,
            self.emptied_by,
            self.requests,
            self.branches,
            self.items_in,
            self.items_out,
            self.bytes_in,
            self.bytes_out,
            self.latency_sum_us,
            self.latency_max_us,
            self.histogram,
            self.address_frame,
        )


def bucket_of(us: int) -> int:
    """Bucket of a latency in microseconds; negative counts as 0, beyond the last bucket as the last."""
    if us < _LINEAR:
        return us if us > 0 else 0
    octave = us.bit_length() - 5
    bucket = (octave << 4) + (us >> octave)
    return bucket if bucket < MAX_BUCKET else MAX_BUCKET


def bucket_low_us(bucket: int) -> int:
    """Smallest latency that falls into the bucket, microseconds."""
    if bucket < _LINEAR:
        return bucket
    octave = (bucket >> 4) - 1
    return (bucket - (octave << 4)) << octave


def bucket_high_us(bucket: int) -> int:
    """Smallest latency that is too large for the bucket, microseconds."""
    return bucket_low_us(bucket + 1)
