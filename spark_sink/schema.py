"""The one schema of event files: which columns each record has, and of which type.

It is made from the records of `broker.events`: a field that is declared there gets its column here by its type. Before
them come the columns that say which broker tells it: broker id, broker name and epoch (one run of a broker); together
with `seq` they name a record uniquely. `docs/spark/events.md` shows these columns; a test compares it with this module.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from msgspec import Meta

from broker.events import (
    DEFINITION_FIELDS,
    FILE_FIELDS,
    FILE_MEANINGS,
    FLOW_FIELDS,
    FLOW_MEANINGS,
    LIFECYCLE_FIELDS,
    LIFECYCLE_MEANINGS,
    MESSAGE_FIELDS,
    MESSAGE_MEANINGS,
    REQUEST_FIELDS,
    REQUEST_MEANINGS,
    FileRecord,
    FlowRecord,
    LifecycleEvent,
    MessageRecord,
)
from spark_sink.columns import BIGINT, BIGINTS, TAGS, TEXT, TIME, Column, arrow_schema, spark_ddl

SCHEMA_VERSION: Final = (
    4  # in the metadata of every file; grows when a column changes its meaning, not when one is added
)

FLOWS: Final = "flows"
LIFECYCLES: Final = "lifecycle"
REQUESTS: Final = "requests"
MESSAGES: Final = "messages"
FILES: Final = "files"

Bigint = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
LAST_AT_MS: Final = 253_402_300_799_999  # the end of the year 9999, like Spark's timestamps
AtMs = Annotated[int, Meta(ge=0, le=LAST_AT_MS)]
LengthMs = Annotated[int, Meta(ge=0, le=86_400_000_000)]
AtUs = Annotated[int, Meta(ge=0, le=LAST_AT_MS * 1000 + 999)]
LengthUs = Annotated[int, Meta(ge=0, le=86_400_000_000_000)]
Outcome = Annotated[int, Meta(ge=0, le=255)]

# Fields that are not a text or a number of any size on the pipe.
_PIPE_TYPES: Final[dict[str, object]] = {
    "at_ms": AtMs,
    "accepted_at_ms": AtMs,
    "posted_at_ms": AtMs,
    "interval_ms": LengthMs,
    "tags": list[tuple[str, str | None]],
    "histogram": list[tuple[Bigint, Bigint]],
    "started_at_us": AtUs,
    "duration_us": LengthUs,
}
_IS_TEXT: Final = {
    name: kind is str
    for record in (LifecycleEvent, FlowRecord, MessageRecord, FileRecord)
    for name, kind in record.__annotations__.items()
}

ORIGIN_COLUMNS: Final = (
    Column("broker_id", TEXT, "id of the broker that wrote the record, uuid text"),
    Column("broker_name", TEXT, "name of that broker"),
    Column("epoch", BIGINT, "run of that broker: a later start has a greater number"),
)


def pipe_type(field: str, *, is_request: bool = False) -> object:
    """The type of a field on the pipe, for msgspec; the outcome of a request is a number."""
    if is_request and field == "outcome":
        return Outcome
    return _PIPE_TYPES.get(field, str if _IS_TEXT.get(field, False) else Bigint)


def field_columns(field: str, meanings: Mapping[str, str]) -> tuple[Column, ...]:
    """The columns that a field of a record becomes; `meanings`: of the record's fields."""
    meaning = meanings[field]
    if field == "kind":
        return Column(field, BIGINT, meaning), Column("event", TEXT, "the same as a word, `RouteJoined`")
    if field == "at_ms":
        return (Column("event_time", TIME, meaning),)
    if field in ("started_at_us", "accepted_at_ms", "posted_at_ms"):
        return (Column(field[:-3], TIME, meaning),)
    if field == "interval_ms":
        return Column("started_at", TIME, "when the interval began"), Column(field, BIGINT, meaning)
    if field == "histogram":
        counts = "requests in each of these buckets, a list of the same length"
        return Column("latency_buckets", BIGINTS, meaning), Column("latency_counts", BIGINTS, counts)
    if field == "tags":
        return (Column(field, TAGS, meaning),)
    return (Column(field, TEXT if _IS_TEXT.get(field, False) else BIGINT, meaning),)


def _columns(fields: Sequence[str], meanings: Mapping[str, str]) -> tuple[Column, ...]:
    """The columns of these fields: `seq` and the time, which every reader sorts by, come first."""
    first = [name for name in fields if name in ("seq", "at_ms")]
    rest = [name for name in fields if name not in first]
    return tuple(column for name in first + rest for column in field_columns(name, meanings))


LIFECYCLE_COLUMNS: Final = ORIGIN_COLUMNS + _columns(LIFECYCLE_FIELDS, LIFECYCLE_MEANINGS)
FLOW_COLUMNS: Final = ORIGIN_COLUMNS + _columns(FLOW_FIELDS, FLOW_MEANINGS)
MESSAGE_COLUMNS: Final = ORIGIN_COLUMNS + _columns(MESSAGE_FIELDS, MESSAGE_MEANINGS)
FILE_COLUMNS: Final = ORIGIN_COLUMNS + _columns(FILE_FIELDS, FILE_MEANINGS)
# Of a flow record: what is added up where records are.
FLOW_SUMS: Final = tuple(
    name for name in FLOW_FIELDS[FLOW_FIELDS.index("requests") :] if pipe_type(name) is Bigint and "_max_" not in name
)

# A request has its flow's texts, its own numbers under the names of a flow's, and numbers that only it has.
_LAST: Final = "address_frame"
_OF_FLOW: Final = [
    name for name in FLOW_FIELDS if name in (*DEFINITION_FIELDS, *REQUEST_FIELDS) and name not in ("seq", _LAST)
]
_ITS_OWN: Final = [name for name in REQUEST_MEANINGS if name not in ("started_at_us", "duration_us")]
REQUEST_COLUMNS: Final = (
    *ORIGIN_COLUMNS,
    *field_columns("seq", FLOW_MEANINGS),
    Column("event_time", TIME, "when it ended"),
    *_columns(("started_at_us", "duration_us"), REQUEST_MEANINGS),
    *_columns(_OF_FLOW, FLOW_MEANINGS),
    *_columns(_ITS_OWN, REQUEST_MEANINGS),
    *field_columns(_LAST, FLOW_MEANINGS),
    Column("weight", BIGINT, "requests that this row stands for: N, where one of N is written"),
)

COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    FLOWS: FLOW_COLUMNS,
    LIFECYCLES: LIFECYCLE_COLUMNS,
    REQUESTS: REQUEST_COLUMNS,
    MESSAGES: MESSAGE_COLUMNS,
    FILES: FILE_COLUMNS,
}
ARROW_SCHEMAS: Final = {source: arrow_schema(columns) for source, columns in COLUMNS.items()}
SPARK_SCHEMAS: Final = {source: spark_ddl(columns) for source, columns in COLUMNS.items()}
