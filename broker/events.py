"""Records of what happened, and all that the broker and the writer of event files share.

The broker's log, its metrics and its event files are made of these records. A lifecycle event tells one thing that
happened; a flow record counts the requests of one caller to one route in one interval; a request record tells of one
request. The core appends them and does not know who reads them. A message record tells what became of a message of the
Samwise gateway, a file record what became of a file of the feed: both write event files as a broker does.

Each field is declared here once: its name and type in the record, its meaning in the dict beside it. From these come
the rows on the pipe, the writer's checks, the columns of files and tables (`spark_sink.schema`) and the tables of
docs/spark/events.md. `row()` is the tuple that travels to the writer: the record type first, then the fields in order.

The latency histogram has 16 buckets per octave of microseconds, so that a bucket is at most 1/16 wide and histograms
of any brokers and intervals merge by adding:

    us       0 1 2 … 31 | 32 33  34 35 … 62 63 | 64 … 67  68 … 71  …
    bucket   0 1 2 … 31 |   32     33  …   47  |    48       49    …
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

PIPE_FORMAT: Final = 6  # of the frames on the pipe to the writer, in the broker's header; a new field is a new format

LIFECYCLE: Final = 0
FLOW: Final = 1
REQUEST: Final = 2
DEFINITION: Final = 3  # of a flow number; no event, it has no sequence number
MESSAGE: Final = 4
FILE: Final = 5

SAMWISE_ID: Final = "samwise-"  # what the id of a Samwise gateway begins with
FEED_ID: Final = "feed-"  # of a feed
GATEWAYS: Final = (SAMWISE_ID, FEED_ID)  # of those who write records and have no routes

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
BROKER_LOAD: Final = 33
FILES_RELOADED: Final = 34
ADMITTED: Final = 35
AUTH_REFUSED: Final = 36
DENIED: Final = 37
ROLES_CHANGED: Final = 38
REVOKED: Final = 39
REVOCATION_SET: Final = 40
REVOCATION_REMOVED: Final = 41
CHANGED: Final = 42

# Tags of Denied: which tag of the route was in the way.
TAG: Final = "tag"
VALUE: Final = "value"

ISSUED_BEFORE: Final = "issued_before"  # tag of RevocationSet: before when, milliseconds since the epoch
# Of Changed: what was asked for.
OPERATION: Final = "operation"
SUBJECT: Final = "subject"

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
    BROKER_LOAD: "BrokerLoad",
    FILES_RELOADED: "FilesReloaded",
    ADMITTED: "Admitted",
    AUTH_REFUSED: "AuthRefused",
    DENIED: "Denied",
    ROLES_CHANGED: "RolesChanged",
    REVOKED: "Revoked",
    REVOCATION_SET: "RevocationSet",
    REVOCATION_REMOVED: "RevocationRemoved",
    CHANGED: "Changed",
}

# Outcomes of a request by their numbers, see `broker.forwarding.traffic.flows`.
OUTCOME_NAMES: Final = ("completed", "error", "cancelled", "rejected", "route_lost", "caller_lost")

NO_KEY: Final = -1  # `key_hash` of a request that is no shard request

_LINEAR: Final = 32  # below this every microsecond is a bucket of its own
MAX_BUCKET: Final = 16 * 36  # 2^40 us is twelve days: nothing real is slower


class LifecycleEvent(NamedTuple):
    """One thing that happened. Texts are empty and numbers 0 where the kind has no use for them."""

    kind: int
    seq: int
    at_ms: int  # milliseconds since the epoch
    route_id: str = ""  # canonical uuid text
    service: str = ""
    tags: Sequence[tuple[str, str]] = ()  # names and values
    peer: str = ""
    reason: str = ""
    detail: str = ""
    uptime_ms: int = 0
    requests: int = 0
    choices: int = 0
    principal: str = ""
    role: str = ""

    @property
    def name(self) -> str:
        """`RouteJoined`."""
        return KIND_NAMES[self.kind]

    def row(self) -> tuple[object, ...]:
        """For the writer: record type, then the fields."""
        return (LIFECYCLE, *self)


class FlowRecord(NamedTuple):
    """The requests of one caller to one route, of one model, routing type and outcome, in one interval.

    Tables add up the integers from `requests` on, but those with `_max_` in their names (`schema.FLOW_SUMS`).
    """

    seq: int
    at_ms: int  # milliseconds since the epoch
    interval_ms: int
    caller_route: str
    caller_service: str
    principal: str
    route_id: str
    service: str
    address: str
    model: str
    routing: str
    outcome: str
    word: str
    emptied_by: str
    requests: int
    branches: int
    items_in: int
    items_out: int
    bytes_in: int
    bytes_out: int
    latency_sum_us: int
    latency_max_us: int
    histogram: list[tuple[int, int]]  # (bucket, count), ascending
    address_frame: str

    def row(self) -> tuple[object, ...]:
        """For the writer: record type, then the fields."""
        return (FLOW, *self)


class MessageRecord(NamedTuple):
    """One destination has acknowledged a message of the Samwise gateway, or the message is a dead letter."""

    seq: int
    at_ms: int  # milliseconds since the epoch
    message_id: str
    exchange: str
    routing_key: str
    destination: str
    outcome: str  # DELIVERED or DEAD
    reason: str
    accepted_at_ms: int  # milliseconds since the epoch
    after_ms: int
    tries: int

    def row(self) -> tuple[object, ...]:
        """For the writer: record type, then the fields."""
        return (MESSAGE, *self)


class FileRecord(NamedTuple):
    """What became of a file of the feed, at who announces it or at who mirrors it."""

    seq: int
    at_ms: int  # milliseconds since the epoch
    feed: str
    outcome: str  # POSTED … PASSED
    posted_at_ms: int  # milliseconds since the epoch
    after_ms: int = 0
    path: str = ""
    operation: str = ""
    base_url: str = ""
    consumer: str = ""
    code: int = 0
    reason: str = ""
    tries: int = 0
    bytes: int = 0
    files: int = 1

    def row(self) -> tuple[object, ...]:
        """For the writer: record type, then the fields."""
        return (FILE, *self)


DELIVERED: Final = "delivered"
DEAD: Final = "dead"

POSTED: Final = "posted"
REPORTED: Final = "reported"
MIRRORED: Final = "mirrored"
REFUSED: Final = "refused"
FAILED: Final = "failed"
REPEATED: Final = "repeated"
PASSED: Final = "passed"

LIFECYCLE_FIELDS: Final = LifecycleEvent._fields
FLOW_FIELDS: Final = FlowRecord._fields
MESSAGE_FIELDS: Final = MessageRecord._fields
FILE_FIELDS: Final = FileRecord._fields

# A request that ended, as integers: after the record type each row, a plain tuple, has these. What its flow number
# means a definition says, sent before the number is used.
REQUEST_FIELDS: Final = (
    "seq",
    "started_at_us",
    "duration_us",
    "flow",
    "outcome",
    "choice",
    "ended",
    "key_hash",
    "branches",
    "items_in",
    "items_out",
    "bytes_in",
    "bytes_out",
)
# What the requests of a flow have in common: the texts of a flow record but the outcome.
DEFINITION_FIELDS: Final = (
    "flow",
    *[name for name, kind in FlowRecord.__annotations__.items() if kind is str and name != "outcome"],
)

_SHARED_MEANINGS: Final = {
    "seq": "1, 2, 3 … over all records of one broker and epoch: a missing number is a gap",
    "route_id": "the route, uuid text; empty: none",
    "service": "service name of the route, or of the address when no route was found",
}
LIFECYCLE_MEANINGS: Final[dict[str, str]] = {
    **_SHARED_MEANINGS,
    "kind": "what happened, as a number that never changes its meaning",
    "at_ms": "when it happened",
    "tags": "tags of the route; of EventsDropped `records`, `first_seq` and `last_seq`; of Denied the `tag` that "
    "was in the way and its `value`; of Changed `operation` and `subject`; of BrokerStarted, TableDigest and "
    "BrokerLoad what is said of them below",
    "peer": "the connection, `tcp 10.0.0.4:5123`; of a route of another broker `broker` and its id; of Changed `admin` "
    "and the address of who asked",
    "reason": "why: a code word of docs/errors.md, or `left`; of RouteEjected `errors-in-row`; of AnnotationsRefused "
    "what is wrong with them; of Admitted the kind of the identity; of Changed the code word of a refusal",
    "detail": "a sentence for people; of RouteSeen the number of its slot",
    "uptime_ms": "how long the route was in the table of this broker, or the connection that ended had lived",
    "requests": "requests that the route had served; of EventsDropped: that are missing; of AnnotationsRefused: that "
    "were refused since the last such event",
    "choices": "choices that the broker had made by then: a request whose `choice` is greater was chosen after it",
    "principal": "identity of the connection, `jwt:orders-7`; empty: it is anonymous, not known yet, or there is none; "
    "of Changed who asked, `token:grafana`",
    "role": "of Admitted, AuthRefused, Denied and Changed the role of that identity; empty: it has none",
}
FLOW_MEANINGS: Final[dict[str, str]] = {
    **_SHARED_MEANINGS,
    "at_ms": "when the interval ended",
    "interval_ms": "how long it was",
    "caller_route": "route of the caller; empty: a caller without ROUTE_SETUP",  # D-17
    "caller_service": "service name of the caller, or empty",
    "principal": "identity of the caller, `jwt:orders-7`; empty: it is anonymous",
    "address": "its tags, `service=orders region=eu`",
    "model": "`request_response`, `request_stream` …",
    "routing": "`unicast`, `shard` or `multicast`",
    "outcome": "`completed`, `error`, `cancelled`, `rejected`, `route_lost`, `caller_lost`",
    "word": "code word of an error that the broker itself sent, also as outcome `error` (`deadline`); else empty",
    "emptied_by": "of `no-route` the tag after which no route was left, `region=mars`; else empty",
    "requests": "requests of this caller, route, model, routing and outcome that ended",
    "branches": "sum of the routes that the requests went to: 1 for a unicast or shard request, all that matched for a "
    "multicast, 0 for one that was refused",
    "items_in": "payloads from the caller",
    "items_out": "payloads from the route",
    "bytes_in": "bytes of frames from the caller: its request, PAYLOAD, ERROR and, but for a multicast, "
    "REQUEST_N; no others",
    "bytes_out": "bytes of frames from the route to the caller: PAYLOAD, ERROR and, but for a multicast, "
    "REQUEST_N; no others",
    "latency_sum_us": "sum over the requests, from first frame to end",
    "latency_max_us": "the slowest request",
    "histogram": "latency histogram: bucket numbers, ascending",
    "address_frame": "the ADDRESS as the caller sent it, in base64, with an origin of zeros; empty: none, or more "
    "than 2048 bytes",
}
# Of those fields of a request that a flow record does not have.
REQUEST_MEANINGS: Final[dict[str, str]] = {
    "started_at_us": "when its first frame came",
    "duration_us": "from first frame to end",
    "choice": "which of the broker's choices it was, 1, 2, 3 … in their order; 0: refused before one",
    "ended": "choices that the broker had made when it ended",
    "key_hash": "of a shard request 31 bits of a hash of its key; -1: no shard request",
}
MESSAGE_MEANINGS: Final[dict[str, str]] = {
    "seq": _SHARED_MEANINGS["seq"],
    "at_ms": "when it was acknowledged, or became a dead letter",
    "message_id": "`x-samwise-id` of the message, 32 hex digits",
    "exchange": "its exchange",
    "routing_key": "its routing key",
    "destination": "who acknowledged it: a RabbitMQ broker by its name, a service, or a Route Id; empty: it is dead",
    "outcome": "`delivered` or `dead`; a redundant message has a row for each that acknowledged it",
    "reason": "of a dead letter why its last delivery failed, at most 255 characters; else empty",
    "accepted_at_ms": "when the gateway accepted it",
    "after_ms": "how long after that",
    "tries": "how often it had been delivered by then, this time included",
}
FILE_MEANINGS: Final[dict[str, str]] = {
    "seq": _SHARED_MEANINGS["seq"],
    "at_ms": "when that was known",
    "feed": "NAME of the table of the configuration, `[feed.post.NAME]`, `[feed.subscribe.NAME]`, `[feed.winnow.NAME]`",
    "outcome": "`posted`, `reported`, `mirrored`, `refused`, `failed`, `repeated` or `passed`, see below",
    "posted_at_ms": "when it was posted, pubTime; of a row that counts the same as event_time",
    "after_ms": "how long after that; less than 0: the clocks differ",
    "path": "of the file, at most 4096 characters; empty: the row counts posts",
    "operation": "`link`, `hlink`, `rename`, `remove` or `directory`; empty: the content of a file",
    "base_url": "of its post: below which it is to be had",
    "consumer": "of `reported` who has reported, USER@HOST; else empty",
    "code": "of the report, three digits; 0: there is none",
    "reason": "the text of the report, at most 255 characters; of `mirrored`, `posted` and counts empty",
    "tries": "of a mirror how often it had failed by then",
    "bytes": "of `posted` the size of the file, of `mirrored` what was fetched or written; else 0",
    "files": "1, or how many posts the row counts",
}


class WriterState(msgspec.Struct):
    """State of the writer: after each change a line of JSON on its standard output.

    Counts only grow: what is sealed and dropped over all writers of the broker's epoch, the others of one process.
    """

    frames: int = 0  # number of the last frame that survives this process: in a log, in files, or told as dropped
    sealed: int = 0  # records of the broker that are in files
    sealed_requests: int = 0  # requests that these records count
    sealed_seq: int = 0  # the highest sequence number among them
    dropped: int = 0  # records that are told as dropped, or will be
    dropped_requests: int = 0
    segments: int = 0  # files
    next_number: int = 0  # of the next log and its files
    held_bytes: int = 0  # of frames that wait in memory
    wal_bytes: int = 0  # of logs that are no files yet
    recovered: int = 0  # records that this process found in logs of writers that were killed
    torn_bytes: int = 0  # at the ends of these logs
    free_bytes: int = 0  # of the file system
    removed: int = 0  # files removed because of their age or of all their sizes
    unread_bytes: int = 0  # of files that would have been removed, if their readers had read them
    silent_readers: int = 0  # readers that have not said for long what they read
    error: str = ""  # why the last try failed; empty: it did not


class Gap:
    """Records that are missing, until an event tells it; none at first."""

    def __init__(self, reason: str, detail: str) -> None:
        """`reason`: a code word; `detail`: a sentence that begins with their number."""
        self.reason: Final = reason
        self.detail: Final = detail
        self.records = 0
        self.requests = 0  # that were counted in them
        self.first_seq = 0
        self.last_seq = 0

    def add(self, records: int, requests: int, first_seq: int, last_seq: int) -> None:
        """So many more, with numbers between these two."""
        if self.records == 0 or first_seq < self.first_seq:
            self.first_seq = first_seq
        if self.records == 0 or last_seq > self.last_seq:
            self.last_seq = last_seq
        self.records += records
        self.requests += requests

    def told(self, at_ms: int, choices: int = 0) -> LifecycleEvent:
        """The event, which takes the place, and the number, of the last of them."""
        seqs = ("first_seq", str(self.first_seq)), ("last_seq", str(self.last_seq))
        tags = [("records", str(self.records)), *seqs]
        text = f"{self.records} records {self.detail}"
        kind, seq = EVENTS_DROPPED, self.last_seq
        return LifecycleEvent(kind, seq, at_ms, "", "", tags, "", self.reason, text, 0, self.requests, choices)


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
    width_us = 1 << ((bucket >> 4) - 1) if bucket >= _LINEAR else 1
    return bucket_low_us(bucket) + width_us
