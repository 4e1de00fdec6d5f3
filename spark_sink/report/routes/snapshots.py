"""The routes of the last whole snapshot of each run of a broker, and all routes that any snapshot has seen.

A snapshot is written every minute, so the table is read a piece at a time: a day of 5000 routes is seven million rows.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from spark_sink.report.cluster.runs import Heard, RunKey
from spark_sink.report.groups import encoded, group, micros, numbers
from spark_sink.report.reading import row_schema
from spark_sink.tables import ROUTES

COLUMNS: Final = ("seen_at", "broker_id", "broker_name", "epoch", "seq", "route_id", "service", "peer", "uptime_ms")
PAIR: Final = ["service", "route_id"]
_EMPTY: Final = row_schema(ROUTES).empty_table().select(list(COLUMNS))
REMOTE: Final = "broker "  # what `peer` of another broker's route begins with


class Snapshots(NamedTuple):
    """What the table `routes` tells."""

    last: pa.Table  # rows of the last snapshot of each run, of routes of its own
    there: pa.Table  # distinct `service` and `route_id`
    heard: Heard


def snapshots_of(pieces: Iterable[pa.Table], complete_us: Mapping[RunKey, int]) -> Snapshots:
    """`pieces`: COLUMNS of `routes`; `complete_us`: when the last whole snapshot of a run was, where that is known:
    later rows are of one that was not finished."""
    last: dict[RunKey, tuple[int, list[pa.Table]]] = {}
    heard = Heard()
    there = group(_EMPTY, PAIR).keys(PAIR)
    for piece in pieces:
        there = group(pa.concat_tables([there, group(piece, PAIR).keys(PAIR)]), PAIR).keys(PAIR)
        heard.add_rows(piece, "seen_at")
        times = micros(piece, "seen_at")
        ids, codes = encoded(piece["broker_id"])
        epochs = numbers(piece, "epoch")
        peers, peer_of = encoded(piece["peer"])
        is_local = ~pa.compute.starts_with(peers, REMOTE).to_numpy(zero_copy_only=False).astype(bool)[peer_of]
        for code, epoch in np.unique(np.stack([codes, epochs], axis=1), axis=0).tolist():
            run = ids[code].as_py(), epoch
            mine = (codes == code) & (epochs == epoch)
            whole = mine & (times <= complete_us.get(run, int(times.max())))
            if not whole.any():
                continue
            at_us = int(times[whole].max())
            before_us, tables = last.get(run, (-1, []))
            if at_us < before_us:
                continue
            rows = piece.filter(pa.array(whole & (times == at_us) & is_local))
            last[run] = at_us, [rows] if at_us > before_us else [*tables, rows]
    found = [rows for _, tables in last.values() for rows in tables]
    return Snapshots(pa.concat_tables([_EMPTY, *found]), there, heard)
