"""The rows of tables: flow records added up, lifecycle events sorted into the tables that they belong to."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from broker.events import (
    ADMITTED,
    AUTH_REFUSED,
    CHANGED,
    DENIED,
    EVENTS_DROPPED,
    OPERATION,
    REVOKED,
    ROUTE_LEFT,
    ROUTE_REMOVED,
    ROUTE_REPLACED,
    ROUTE_SEEN,
    SUBJECT,
    TAG,
    VALUE,
)
from spark_sink.pipeline.merging import merged
from spark_sink.tables import (
    DAY,
    GAPS,
    GRAINS,
    IDENTIFIED,
    JUDGED,
    LEFT,
    LIFECYCLE,
    MINUTE,
    OPERATED,
    PARTIALS,
    REFUSED,
    REJECTIONS,
    REMOVED,
    REPLACED,
    ROUTES,
    SESSIONS,
    Partial,
    table_schema,
)

ANONYMOUS: Final = "anonymous"  # as identities are called
_JUDGING: Final = pa.array([ADMITTED, AUTH_REFUSED, REVOKED], pa.int64())
_ENDS: Final = {ROUTE_LEFT: LEFT, ROUTE_REPLACED: REPLACED, ROUTE_REMOVED: REMOVED}


def with_minute(flows: pa.Table) -> pa.Table:
    """Flow records with the minute in which each began."""
    return flows.append_column(MINUTE, pc.floor_temporal(flows["started_at"], unit="minute"))


def tables_of_flows(groups: pa.Table) -> dict[str, pa.Table]:
    """Table -> its rows, of grouped flow records."""
    made = {}
    for partial in PARTIALS:
        rows = groups.filter(pc.equal(groups["outcome"], "rejected")) if partial.name == REJECTIONS else groups
        made[partial.name] = rows = merged(partial, rows)
        for grain in GRAINS[1:]:  # each of the finer one
            roll_up = partial.rolled_up(grain)
            made[roll_up.name] = rows = merged(roll_up, in_longer(rows, grain))
    known = groups.filter(pc.not_equal(groups["principal"].fill_null(""), ""))
    made[IDENTIFIED.name] = merged(IDENTIFIED, in_longer(known, DAY))
    return made


def in_longer(rows: pa.Table, grain: str) -> pa.Table:
    """Rows of a partial with the begin of the hour or day in which each lies, in front."""
    return rows.add_column(0, grain, pc.floor_temporal(rows[rows.schema.names[0]], unit=grain))


def tables_of_events(events: pa.Table) -> dict[str, pa.Table]:
    """Table -> its rows, of lifecycle events."""
    kinds = events["kind"]
    is_seen = pc.equal(kinds, ROUTE_SEEN)
    return {
        LIFECYCLE: events.filter(pc.invert(is_seen)),
        ROUTES: _routes(events.filter(is_seen)),
        SESSIONS: _sessions(events.filter(pc.is_in(kinds, pa.array(list(_ENDS), pa.int64())))),
        GAPS: _dropped(events.filter(pc.equal(kinds, EVENTS_DROPPED))),
        JUDGED.name: _counted(JUDGED, events.filter(pc.is_in(kinds, _JUDGING)), _access_row),
        REFUSED.name: _counted(REFUSED, events.filter(pc.equal(kinds, DENIED)), _denial_row),
        OPERATED.name: _counted(OPERATED, events.filter(pc.equal(kinds, CHANGED)), _change_row),
    }


def gap_row(
    at: datetime, broker: tuple[str, str, int], seqs: tuple[int, int], reason: str, detail: str
) -> dict[str, Any]:
    """A row of `gaps` that no broker told. `broker`: id, name, epoch."""
    values = at, *broker, *seqs, 0, 0, reason, detail
    return dict(zip(table_schema(GAPS).names, values, strict=True))


def _routes(seen: pa.Table) -> pa.Table:
    schema = table_schema(ROUTES)
    names = ["seen_at" if name == "event_time" else name for name in seen.schema.names]
    return seen.rename_columns(names).select(schema.names)


def _sessions(ends: pa.Table) -> pa.Table:
    uptime = ends["uptime_ms"].cast(pa.duration("ms")).cast(pa.duration("us"))
    kinds = ends["kind"].to_pylist()
    made = {
        "is_local": pa.array([int(kind != ROUTE_REMOVED) for kind in kinds], pa.int64()),
        "joined_at": pc.subtract(ends["event_time"], uptime),
        "left_at": ends["event_time"],
        "ended_as": pa.array([_ENDS[kind] for kind in kinds], pa.string()),
    }
    schema = table_schema(SESSIONS)
    return pa.table({name: made.get(name, ends[name] if name in ends.schema.names else None) for name in schema.names})


def _counted(partial: Partial, events: pa.Table, row_of: Callable[[dict[str, Any]], dict[str, Any]]) -> pa.Table:
    """Events added up. `row_of`: what an event says beside its broker and its time."""
    rows = []
    for event in events.to_pylist():
        at, broker = event["event_time"], {name: event[name] for name in ("broker_id", "broker_name")}
        times = {partial.grain: at.replace(second=0, microsecond=0), "times": 1, "first_at": at, "last_at": at}
        rows.append(times | broker | row_of(event))
    return merged(partial, pa.Table.from_pylist(rows, table_schema(partial.name)))


def _access_row(event: dict[str, Any]) -> dict[str, Any]:
    is_admitted = event["kind"] == ADMITTED
    return {
        "event": event["event"],
        "principal": event["principal"] or (event["detail"] if is_admitted else ""),  # older writers had no principal
        "role": event["role"],
        "word": "" if is_admitted else event["reason"],
        "reason": "" if is_admitted else event["detail"],
    }


def _denial_row(event: dict[str, Any]) -> dict[str, Any]:
    told = dict(event["tags"] or ())
    return {
        "principal": event["principal"] or ANONYMOUS,
        "role": event["role"],
        "asked": "address" if event["requests"] else "announce",
        "service": event["service"],
        "tag": told.get(TAG),
        "tag_value": told.get(VALUE),
        "reason": event["detail"],
        "times": event["requests"] or 1,
    }


def _change_row(event: dict[str, Any]) -> dict[str, Any]:
    told = dict(event["tags"] or ())
    return {
        "principal": event["principal"],
        "role": event["role"],
        "peer": event["peer"],
        "operation": told.get(OPERATION),
        "subject": told.get(SUBJECT),
        "word": event["reason"],
    }


def _dropped(drops: pa.Table) -> pa.Table:
    rows = []
    for row in drops.to_pylist():
        told = dict(row["tags"] or ())
        seqs = _number(told.get("first_seq")), _number(told.get("last_seq"))
        broker = row["broker_id"], row["broker_name"], row["epoch"]
        gap = gap_row(row["event_time"], broker, seqs, row["reason"], row["detail"])
        rows.append(gap | {"records": _number(told.get("records")), "requests": row["requests"]})
    return pa.Table.from_pylist(rows, table_schema(GAPS))


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
