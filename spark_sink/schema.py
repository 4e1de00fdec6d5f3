"""The one schema of event files: which columns a lifecycle event, a flow record and a request have, and of which type.

It is made from the field tables of `broker.events`, so that a field added there is asked for here. Before them come
the columns that say who tells it: broker id, broker name and epoch (one run of a broker); with `seq` they name a record
in all the world. `docs/spark/events.md` shows these columns and a test compares it with this module.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from broker.events import DEFINITION_FIELDS, FLOW_FIELDS, LIFECYCLE_FIELDS, REQUEST_FIELDS
from spark_sink.columns import BIGINT, BIGINTS, TAGS, TEXT, TIME, Column, arrow_schema, spark_ddl

SCHEMA_VERSION: Final = (
    3  # in the metadata of every file; grows when a column changes its meaning, not when one is added
)

FLOWS: Final = "flows"
LIFECYCLES: Final = "lifecycle"
REQUESTS: Final = "requests"

Bigint = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
LAST_AT_MS: Final = 253_402_300_799_999  # the end of the year 9999, like Spark's timestamps
AtMs = Annotated[int, Meta(ge=0, le=LAST_AT_MS)]
LengthMs = Annotated[int, Meta(ge=0, le=86_400_000_000)]
AtUs = Annotated[int, Meta(ge=0, le=LAST_AT_MS * 1000 + 999)]
LengthUs = Annotated[int, Meta(ge=0, le=86_400_000_000_000)]
Outcome = Annotated[int, Meta(ge=0, le=255)]

OUTCOMES: Final = ("completed", "error", "cancelled", "rejected", "route_lost", "caller_lost")  # by their numbers

# field of a row -> its type on the pipe; whatever is not here is a text
FIELD_TYPES: Final[dict[str, object]] = {
    "kind": Bigint,
    "seq": Bigint,
    "at_ms": AtMs,
    "interval_ms": LengthMs,
    "uptime_ms": Bigint,
    "requests": Bigint,
    "choices": Bigint,
    "branches": Bigint,
    "items_in": Bigint,
    "items_out": Bigint,
    "bytes_in": Bigint,
    "bytes_out": Bigint,
    "latency_sum_us": Bigint,
    "latency_max_us": Bigint,
    "histogram": list[tuple[Bigint, Bigint]],
}
REQUEST_TYPES: Final[dict[str, object]] = {
    **dict.fromkeys(REQUEST_FIELDS, Bigint),
    "started_at_us": AtUs,
    "duration_us": LengthUs,
    "outcome": Outcome,
}
DEFINITION_TYPES: Final[dict[str, object]] = dict.fromkeys(DEFINITION_FIELDS, str) | {"flow": Bigint}
LIFECYCLE_TYPES: Final = FIELD_TYPES | {"tags": list[tuple[str, str | None]]}

ORIGIN_COLUMNS: Final = (
    Column("broker_id", TEXT, "the broker that tells it, uuid text"),
    Column("broker_name", TEXT, "its name for people"),
    Column("epoch", BIGINT, "the run of that broker: it grows with every start"),
)

# field of a row -> the columns that it becomes
_SHARED: Final = {
    "seq": (Column("seq", BIGINT, "1, 2, 3 … over all records of one broker and epoch: a missing number is a gap"),),
    "route_id": (Column("route_id", TEXT, "the route, uuid text; empty: none"),),
    "service": (Column("service", TEXT, "service name of the route, or of the address when no route was found"),),
}
LIFECYCLE_FIELD_COLUMNS: Final[dict[str, tuple[Column, ...]]] = _SHARED | {
    "kind": (
        Column("kind", BIGINT, "what happened, as a number that never changes its meaning"),
        Column("event", TEXT, "the same as a word, `RouteJoined`"),
    ),
    "at_ms": (Column("at", TIME, "when it happened"),),
    "tags": (
        Column(
            "tags",
            TAGS,
            "tags of the route; of EventsDropped `records`, `first_seq` and `last_seq`; of BrokerStarted and "
            "TableDigest what is said of them below",
        ),
    ),
    "peer": (
        Column("peer", TEXT, "the connection, `tcp 10.0.0.4:5123`; of a route of another broker `broker` and its id"),
    ),
    "reason": (
        Column(
            "reason",
            TEXT,
            "why: a code word of docs/errors.md, or `left`; of RouteEjected `errors-in-row`; of AnnotationsRefused "
            "what is wrong with them",
        ),
    ),
    "detail": (Column("detail", TEXT, "a sentence for people; of RouteSeen the number of its slot"),),
    "uptime_ms": (
        Column(
            "uptime_ms",
            BIGINT,
            "how long the route was in the table of this broker, or the connection that ended had lived",
        ),
    ),
    "requests": (
        Column(
            "requests",
            BIGINT,
            "requests that the route had served; of EventsDropped: that are missing; of AnnotationsRefused: that were "
            "refused since the last such event",
        ),
    ),
    "choices": (
        Column(
            "choices",
            BIGINT,
            "choices that the broker had made by then: a request whose `order` is greater was chosen after it",
        ),
    ),
}
FLOW_FIELD_COLUMNS: Final[dict[str, tuple[Column, ...]]] = _SHARED | {
    "at_ms": (Column("at", TIME, "when the interval ended"),),
    "interval_ms": (
        Column("started_at", TIME, "when the interval began"),
        Column("interval_ms", BIGINT, "how long it was"),
    ),
    "caller_route": (Column("caller_route", TEXT, "route of the caller; empty: a caller without ROUTE_SETUP"),),
    "caller_service": (Column("caller_service", TEXT, "service name of the caller, or empty"),),
    "address": (Column("address", TEXT, "its tags, `service=orders region=eu`"),),
    "model": (Column("model", TEXT, "`request_response`, `request_stream` …"),),
    "routing": (Column("routing", TEXT, "`unicast`, `shard` or `multicast`"),),
    "outcome": (Column("outcome", TEXT, "`completed`, `error`, `cancelled`, `rejected`, `route_lost`, `caller_lost`"),),
    "word": (
        Column(
            "word", TEXT, "code word of the broker's own error, also of an `error` that it made (`deadline`), or empty"
        ),
    ),
    "emptied_by": (
        Column("emptied_by", TEXT, "of `no-route` the tag that left no route over, `region=mars`; else empty"),
    ),
    "requests": (Column("requests", BIGINT, "requests of this caller, route, model, routing and outcome that ended"),),
    "branches": (
        Column(
            "branches",
            BIGINT,
            "routes that they went to, added up: 1 of each unicast and shard request, as many as matched of a "
            "multicast, 0 of one that was refused",
        ),
    ),
    "items_in": (Column("items_in", BIGINT, "payloads from the caller"),),
    "items_out": (Column("items_out", BIGINT, "payloads from the route"),),
    "bytes_in": (Column("bytes_in", BIGINT, "frame bytes from the caller to the route"),),
    "bytes_out": (Column("bytes_out", BIGINT, "frame bytes from the route to the caller"),),
    "latency_sum_us": (Column("latency_sum_us", BIGINT, "sum over the requests, from first frame to end"),),
    "latency_max_us": (Column("latency_max_us", BIGINT, "the slowest request"),),
    "histogram": (
        Column("latency_buckets", BIGINTS, "latency histogram: bucket numbers, ascending"),
        Column("latency_counts", BIGINTS, "requests in each of these buckets, a list of the same length"),
    ),
    "address_frame": (
        Column(
            "address_frame",
            TEXT,
            "the ADDRESS as the caller sent it, in base64, its origin zeroed; empty: none, or more than 2048 bytes",
        ),
    ),
}

_FLOW_TEXTS: Final = ("caller_route", "caller_service", "route_id", "service", "address", "model", "routing")
_FLOW_SIZES: Final = ("items_in", "items_out", "bytes_in", "bytes_out")

REQUEST_COLUMNS: Final = (
    *ORIGIN_COLUMNS,
    *_SHARED["seq"],
    Column("at", TIME, "when it ended"),
    Column("started_at", TIME, "when its first frame came"),
    Column("duration_us", BIGINT, "from first frame to end"),
    *(FLOW_FIELD_COLUMNS[name][0] for name in (*_FLOW_TEXTS, "outcome", "word", "emptied_by")),
    *(FLOW_FIELD_COLUMNS[name][0] for name in ("branches", *_FLOW_SIZES)),
    Column("order", BIGINT, "which of the broker's choices it was, 1, 2, 3 … in their order; 0: refused before one"),
    Column("ended", BIGINT, "choices that the broker had made when it ended"),
    Column("key_hash", BIGINT, "of a shard request 31 bits of a hash of its key; -1: no shard request"),
    *FLOW_FIELD_COLUMNS["address_frame"],
    Column("weight", BIGINT, "requests that this row stands for: N, where one of N is written"),
)


def _columns(fields: Sequence[str], columns_of: dict[str, tuple[Column, ...]]) -> tuple[Column, ...]:
    """Origin first, then `seq` and the time, which every reader sorts by, then the others in the fields' order."""
    first = [name for name in fields if name in ("seq", "at_ms")]
    rest = [name for name in fields if name not in first]
    return ORIGIN_COLUMNS + tuple(column for name in first + rest for column in columns_of[name])


LIFECYCLE_COLUMNS: Final = _columns(LIFECYCLE_FIELDS, LIFECYCLE_FIELD_COLUMNS)
FLOW_COLUMNS: Final = _columns(FLOW_FIELDS, FLOW_FIELD_COLUMNS)

COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    FLOWS: FLOW_COLUMNS,
    LIFECYCLES: LIFECYCLE_COLUMNS,
    REQUESTS: REQUEST_COLUMNS,
}
ARROW_SCHEMAS: Final = {source: arrow_schema(columns) for source, columns in COLUMNS.items()}
SPARK_SCHEMAS: Final = {source: spark_ddl(columns) for source, columns in COLUMNS.items()}
