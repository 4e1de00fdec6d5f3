"""Records from the tables that the pipeline made, read with pyarrow: `lifecycle`, `routes` for snapshots, `gaps`.

The numbers of flows are in no table, so what is missing is only what the broker or the pipeline told of. Compaction
exchanges files under a reader: then the question is asked again.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from broker.events import BROKER_STARTED, EVENTS_DROPPED, TABLE_DIGEST
from spark_sink.delta_log import table_paths
from spark_sink.errors import BadFolder, NoFile
from spark_sink.event_files.layout import check_file
from spark_sink.history import records as history
from spark_sink.tables import BAD_FILE, GAPS, LIFECYCLE, RETRIES, ROUTES, check_tables, table_schema


class TableReader:
    """One folder of tables."""

    def __init__(self, tables: Path) -> None:
        """BadFolder: there are none."""
        self.problems: Final[list[str]] = []  # sentences: files that were passed over, each once
        check_tables(tables)
        self._tables: Final = tables
        self._bad: Final[set[Path]] = set()
        self._known: tuple[history.Run, Any, Any] | None = None  # of the run that was asked for last, see `_positions`
        names = ["broker_id", "broker_name", "epoch"]
        named = self._rows(LIFECYCLE, names).group_by(names).aggregate([])
        self._runs: Final = [run for run, _ in history.by_run(named)]

    def runs(self) -> list[history.Run]:
        """By broker and epoch."""
        return self._runs

    def first(self, run: history.Run) -> history.Position | None:
        """Of the lifecycle events."""
        return _position(*self._positions(run), 0)

    def spot(self, run: history.Run, at_us: int) -> history.Spot | None:
        """All lifecycle events of the run are looked at."""
        seqs, times_us = self._positions(run)
        earlier = np.flatnonzero(times_us <= at_us)
        if not len(earlier):
            return None
        place = int(earlier[-1])
        last = history.Position(int(seqs[place]), int(times_us[place]))
        is_digest = pc.field("kind") == TABLE_DIGEST
        is_near = (pc.field("seq") > last.seq) & (pc.field("event_time") <= _moment(at_us + history.NEAR_US))
        digest = next(iter(self._records(run, is_digest & is_near)), None)
        start = self._start(run, pc.field("seq") <= last.seq)
        return history.Spot(last, _position(seqs, times_us, place + 1), start, digest)

    def _start(self, run: history.Run, is_before: Any) -> history.Start:
        """The latest snapshot of which all routes are there, or the broker's start."""
        for digest in reversed(self._records(run, (pc.field("kind") == TABLE_DIGEST) & is_before)):
            wanted = digest.snapshot
            if len(self._seen(run, wanted.start, wanted.stop - 1)) == len(wanted):
                return history.Start(wanted.start, digest.at_us, True, digest)
        started = self._records(run, (pc.field("kind") == BROKER_STARTED) & is_before)
        return history.start_without_snapshot(history.Position(*started[0][:2]) if started else None, self.first(run))

    def records(self, run: history.Run, spot: history.Spot) -> list[history.Record]:
        """Memory holds the records of the span."""
        is_within = (pc.field("seq") >= spot.start.seq) & (pc.field("seq") <= spot.stops[-1][0])
        return sorted(self._records(run, is_within) + self._seen(run, spot.start.seq, spot.seen_until))

    def missing(self, run: history.Run, spot: history.Spot) -> history.Missing:
        """What was told."""
        self._tell_bad_files(run)
        dropped = self._records(run, pc.field("kind") == EVENTS_DROPPED)
        return history.Missing([], history.told_of(dropped, spot), False)

    def files(self, table: str) -> list[Path]:
        """Of a table, without those that cannot be read."""
        found = table_paths(self._tables / table)
        return sorted(path.absolute() for path in found if path not in self._bad and path.is_file())

    def _tell_bad_files(self, run: history.Run) -> None:
        """Whatever was in a file that the pipeline could not read is in no table."""
        bad = self._rows(GAPS, ["broker_id", "epoch", "detail"], pc.field("reason") == BAD_FILE).to_pylist()
        for row in bad:
            if row["broker_id"] in (run.broker_id, "") and row["epoch"] in (run.epoch, 0):
                text = f"the pipeline could not read a file: {row['detail']}"
                if text not in self.problems:
                    self.problems.append(text)

    def _records(self, run: history.Run, only: Any) -> list[history.Record]:
        return history.records_of(self._rows(LIFECYCLE, history.RECORD_COLUMNS, _of(run) & only))

    def _seen(self, run: history.Run, first: int, last: int) -> list[history.Record]:
        """RouteSeen events with these numbers."""
        is_within = (pc.field("seq") >= first) & (pc.field("seq") <= last)
        names = ["seq", "seen_at", "route_id", "service", "tags", "peer", "uptime_ms", "requests"]
        return history.records_of(history.seen_of(self._rows(ROUTES, names, _of(run) & is_within)))

    def _positions(self, run: history.Run) -> tuple[Any, Any]:
        """The numbers of its lifecycle events, ascending, and their times in microseconds: two arrays, for a run may
        have millions."""
        if self._known is None or self._known[0] != run:
            rows = self._rows(LIFECYCLE, ["seq", "event_time"], _of(run)).sort_by("seq")
            self._known = run, rows["seq"].to_numpy(), history.micros(rows["event_time"])
        return self._known[1:]

    def _rows(self, table: str, names: Sequence[str], only: Any | None = None) -> pa.Table:
        """Of all files that can be read. BadFolder: they vanish again and again."""
        schema = table_schema(table)
        for _ in range(RETRIES):
            found = [pa.schema([schema.field(name) for name in names]).empty_table()]
            try:
                for path in sorted(table_paths(self._tables / table)):
                    if path not in self._bad:
                        found.append(self._rows_in(path, schema, names, only))
            except FileNotFoundError:
                continue  # compaction has replaced it meanwhile: what replaced it is there now
            return pa.concat_tables(found)
        raise BadFolder(f"files of the table {table} in {self._tables} vanish while they are read")

    def _rows_in(self, path: Path, schema: pa.Schema, names: Sequence[str], only: Any | None) -> pa.Table:
        """None of a file that cannot be read, which is named."""
        import pyarrow.dataset as ds  # as in `tables.read_table`

        try:
            check_file(path, follows_links=True)
            data = ds.dataset(str(path), schema=schema, format="parquet")
            return data.to_table(columns=list(names), filter=only, use_threads=False)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, NoFile) as error:
            self._bad.add(path)
            self.problems.append(f"{path} is passed over: it cannot be read ({str(error).splitlines()[0]})")
            return pa.schema([schema.field(name) for name in names]).empty_table()


def _position(seqs: Any, times_us: Any, place: int) -> history.Position | None:
    """None: there is none at this place."""
    return history.Position(int(seqs[place]), int(times_us[place])) if place < len(seqs) else None


def _of(run: history.Run) -> Any:
    return (pc.field("broker_id") == run.broker_id) & (pc.field("epoch") == run.epoch)


def _moment(us: int) -> Any:
    return pa.scalar(us, pa.timestamp("us", "UTC"))
