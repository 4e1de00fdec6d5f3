"""The records that a replay reads: requests, or flow records where a broker wrote no requests, in one shape.

    requests, flows  ->  records (one shape)  ->  rows: expanded, given to parts, with a position to sort by

Whole Arrow batches at a time; Spark's workers and the engine without Spark call the same functions.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

MAX_ROWS_OF_FLOW: Final = 1000  # choices that stand for the requests of one flow record, however many these are

_TEXTS: Final = ("caller_route", "route_id", "service", "model", "routing", "outcome", "word", "address_frame")
_OF_BOTH: Final = ("broker_id", "epoch", "seq", "started_at", "branches", "address", *_TEXTS)
REQUEST_COLUMNS: Final[tuple[str, ...]] = (
    *_OF_BOTH,
    "duration_us",
    "choice",
    "ended",
    "weight",
)  # that records are made of
FLOW_COLUMNS: Final[tuple[str, ...]] = (*_OF_BOTH, "latency_sum_us", "requests", "interval_ms")
_KEY: Final = (("broker_id", pa.string()), ("epoch", pa.int64()))
_NUMBERS: Final = ("seq", "started_us", "duration_us", "choice", "ended", "branches", "weight")

RECORD_SCHEMA: Final = pa.schema(
    [
        *_KEY,
        *((name, pa.int64()) for name in _NUMBERS),
        ("interval_us", pa.int64()),  # of a flow; 0: it is a request
        ("is_unnamed", pa.int64()),  # 1: its ADDRESS names no service
        *((name, pa.string()) for name in _TEXTS),
    ]
)
ROW_SCHEMA: Final = pa.schema(
    [
        ("part", pa.int64()),
        ("position", pa.int64()),
        *((name, pa.int64()) for name in _NUMBERS),
        *((name, pa.string()) for name in _TEXTS),
    ]
)
ROW_ORDER: Final = ("part", "position", "seq")  # in which rows are replayed
RESULT_SCHEMA: Final = pa.schema([("part", pa.int64()), ("result", pa.binary())])

_NAMES_SERVICE: Final = "(^| )service="  # in the label of an address


class PartNumbers(Struct):
    """Where the records of one epoch go."""

    is_flows: bool  # its flow records are replayed, for it has no requests
    until_us: int  # records that began then or later are not read
    checks: int = -1  # part that replays all of it with the real settings; -1: none
    asked: int = -1  # part of what no service in `by_service` is; -1: none
    by_service: dict[str, int] = {}  # service -> part
    # Of an epoch of flows: Route Id -> when it came and when it went, microseconds.
    lifetimes: dict[str, list[tuple[int, int]]] = {}


def request_records(table: pa.Table) -> pa.Table:
    """Of rows of requests with `REQUEST_COLUMNS`."""
    columns = {name: _or_zero(table[name]) for name in ("duration_us", "choice", "ended")}
    weight = pc.coalesce(table["weight"], pa.scalar(1, pa.int64()))
    return _records(table, columns | {"weight": weight, "interval_us": _zeros(table)})


def flow_records(table: pa.Table) -> pa.Table:
    """Of rows of flows with `FLOW_COLUMNS`."""
    requests, interval_ms = table["requests"].to_numpy(), table["interval_ms"].to_numpy()
    columns = {
        "duration_us": pa.chunked_array([table["latency_sum_us"].to_numpy() // np.maximum(requests, 1)]),
        "choice": _zeros(table),
        "ended": _zeros(table),
        "weight": table["requests"],
        "interval_us": pa.chunked_array([np.maximum(interval_ms, 1) * 1000]),
    }
    return _records(table, columns)


def rows_of(records: Iterable[pa.Table], places: Mapping[tuple[str, int], PartNumbers]) -> Iterator[pa.Table]:
    """The rows that records become, each for one part; records of epochs without a place become none."""
    for some in records:
        epochs = set(pc.unique(some["epoch"]).to_pylist())
        for (broker_id, epoch), place in places.items():
            if epoch not in epochs:
                continue
            is_mine = (pc.field("broker_id") == broker_id) & (pc.field("epoch") == epoch)
            is_read = ((pc.field("interval_us") > 0) == place.is_flows) & (pc.field("started_us") < place.until_us)
            mine = some.filter(is_mine & is_read)
            if not len(mine):
                continue
            rows = _expanded(mine, place.lifetimes) if place.is_flows else mine
            if place.checks >= 0:
                yield _placed(rows, pa.repeat(pa.scalar(place.checks, pa.int64()), len(rows)))
            if place.asked >= 0:
                yield _placed(rows, _parts(rows["service"], place))


def _records(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    texts = {name: pc.coalesce(table[name].cast(pa.string()), pa.scalar("")) for name in (*_TEXTS, "address")}
    has_frame = pc.not_equal(texts["address_frame"], "")
    is_named = pc.match_substring_regex(texts["address"], _NAMES_SERVICE)
    columns |= texts | {
        "seq": _or_zero(table["seq"]),
        "started_us": table["started_at"].cast(pa.int64()),
        "branches": _or_zero(table["branches"]),
        "is_unnamed": pc.and_not(has_frame, is_named).cast(pa.int64()),
    }
    names = RECORD_SCHEMA.names
    return pa.table([columns[name] if name in columns else table[name] for name in names], schema=RECORD_SCHEMA)


def _or_zero(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.coalesce(column, pa.scalar(0, pa.int64()))


def _zeros(table: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([np.zeros(len(table), np.int64)])


def _expanded(records: pa.Table, lifetimes: Mapping[str, list[tuple[int, int]]]) -> pa.Table:
    """Of a flow one row for each of its requests, evenly over that part of its interval in which its route was there.

    Of more than `MAX_ROWS_OF_FLOW` each row stands for several. Positions are then moments instead of choices."""
    weight = records["weight"].to_numpy()
    rows_n = np.minimum(weight, MAX_ROWS_OF_FLOW)
    place = np.repeat(np.arange(len(records)), rows_n)
    number = np.arange(len(place)) - np.repeat(np.cumsum(rows_n) - rows_n, rows_n)
    share, rest = np.divmod(weight, np.maximum(rows_n, 1))
    begins_us, spans_us = _spans(records, lifetimes)
    started_us = begins_us[place] + ((2 * number + 1) * spans_us[place]) // (2 * rows_n[place])
    duration_us = records["duration_us"].to_numpy()[place]
    is_routed = pc.or_(pc.not_equal(records["route_id"], ""), pc.equal(records["routing"], "multicast")).to_numpy(
        zero_copy_only=False
    )[place] & (records["outcome"].to_numpy(zero_copy_only=False)[place] != "rejected")
    branches = records["branches"].to_numpy()[place] // np.maximum(weight[place], 1)
    rows = records.take(pa.array(place))
    new = {
        "started_us": started_us,
        "weight": share[place] + (number < rest[place]),
        "choice": np.where(is_routed, started_us, 0),
        "ended": started_us + duration_us,
        "branches": branches,
    }
    for name, values in new.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values.astype(np.int64)))
    return rows


def _spans(records: pa.Table, lifetimes: Mapping[str, list[tuple[int, int]]]) -> tuple[Any, Any]:
    """When the requests of each flow began at the earliest, and over how long: within its interval and a stay of its
    route."""
    begins_us = records["started_us"].to_numpy().copy()
    spans_us = records["interval_us"].to_numpy().copy()
    for number, route_id in enumerate(records["route_id"].to_pylist()):
        first, last = int(begins_us[number]), int(begins_us[number] + spans_us[number])
        for came, went in lifetimes.get(route_id, ()):
            if max(first, came) < min(last, went):
                begins_us[number] = max(first, came)
                spans_us[number] = min(last, went) - begins_us[number]
                break
    return begins_us, spans_us


def _parts(services: pa.ChunkedArray, place: PartNumbers) -> pa.Array:
    if not place.by_service:
        return pa.repeat(pa.scalar(place.asked, pa.int64()), len(services))
    encoded = services.dictionary_encode().unify_dictionaries().combine_chunks()
    parts = [place.by_service.get(service, place.asked) for service in encoded.dictionary.to_pylist()]
    return pa.array(np.array(parts, np.int64)[encoded.indices.to_numpy()])


def _placed(rows: pa.Table, parts: pa.Array) -> pa.Table:
    choice, ended = rows["choice"].to_numpy(), rows["ended"].to_numpy()
    position = np.where(choice > 0, 2 * choice, 2 * ended + 1)  # who was refused comes behind the choice before it
    columns = {"part": parts, "position": pa.array(position)}
    return pa.table([columns[name] if name in columns else rows[name] for name in ROW_SCHEMA.names], schema=ROW_SCHEMA)
