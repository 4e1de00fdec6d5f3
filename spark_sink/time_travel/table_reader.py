"""Records from the tables that the pipeline made, read with pyarrow: `lifecycle`, `routes` for snapshots, `gaps`.

The numbers of flows are in no table, so what is missing is only what the broker or the pipeline told of. Compaction
exchanges files under a reader: then the question is asked again.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from broker.events import BROKER_STARTED, EVENTS_DROPPED, TABLE_DIGEST
from spark_sink.delta_log import table_paths
from spark_sink.errors import BadFolder, NoFile
from spark_sink.event_files.layout import check_file
from spark_sink.history import records as history
from spark_sink.tables import BAD_FILE, GAPS, LIFECYCLE, RETRIES, ROUTES, check_tables, table_schema


class TableReader(history.RecordReader):
    """One folder of tables."""

    def __init__(self, tables: Path) -> None:
        """BadFolder: there are none."""
        super().__init__([])
        check_tables(tables)
        self._tables: Final = tables
        self._bad: Final[set[Path]] = set()
        names = ["broker_id", "broker_name", "epoch"]
        named = self._rows(LIFECYCLE, names).group_by(names).aggregate([])
        self._runs: Final = [run for run, _ in history.by_run(named)]

    def runs(self) -> list[history.Run]:
        """By broker and epoch."""
        return self._runs

    def first(self, run: history.Run) -> history.Position | None:
        """Of the lifecycle events."""
        return self._end(run, "min", None)

    def ended(self, run: history.Run, kind: int) -> history.Position | None:
        """Its last event of this kind."""
        return self._end(run, "max", ds.field("kind") == kind)

    def window(self, run: history.Run, at_us: int) -> history.Window:
        """All lifecycle events of the run are looked at."""
        last = self._end(run, "max", ds.field("event_time") <= _moment(at_us))
        if last is None:
            return history.Window(None, self.first(run))
        return history.Window(last, self._end(run, "min", ds.field("seq") > last.seq))

    def start(self, run: history.Run, seq: int) -> history.Start:
        """The latest snapshot of which all routes are there, or the broker's start."""
        digests = self._records(run, (ds.field("kind") == TABLE_DIGEST) & (ds.field("seq") <= seq))
        for digest in reversed(digests):
            wanted = digest.snapshot
            if len(self._seen(run, wanted.start, wanted.stop - 1)) == len(wanted):
                return history.Start(wanted.start, digest.at_us, True, digest)
        is_it = (ds.field("kind") == BROKER_STARTED) & (ds.field("seq") <= seq)
        return self.start_without_snapshot(run, self._end(run, "min", is_it))

    def states(self, run: history.Run, first: int, seen_until: int, stops: Sequence[int]) -> Iterator[history.State]:
        """Memory holds the records of the span."""
        is_within = (ds.field("seq") >= first) & (ds.field("seq") <= stops[-1])
        records = sorted(self._records(run, is_within) + self._seen(run, first, seen_until))
        return history.states_of((record for record in records if record.kind != EVENTS_DROPPED), stops)

    def digest_after(self, run: history.Run, seq: int, until_us: int) -> history.Record | None:
        """The first."""
        is_behind = (ds.field("seq") > seq) & (ds.field("event_time") <= _moment(until_us))
        is_it = (ds.field("kind") == TABLE_DIGEST) & is_behind
        return next(iter(self._records(run, is_it)), None)

    def missing(self, run: history.Run, first: int, last: int) -> history.Missing:
        """What was told."""
        self._tell_bad_files(run)
        dropped = self._records(run, ds.field("kind") == EVENTS_DROPPED)
        return history.Missing([], [record for record in dropped if history.overlaps(record, first, last)], False)

    def files(self, table: str) -> list[Path]:
        """Of a table, without those that cannot be read."""
        found = table_paths(self._tables / table)
        return sorted(path.absolute() for path in found if path not in self._bad and path.is_file())

    def _tell_bad_files(self, run: history.Run) -> None:
        """Whatever was in a file that the pipeline could not read is in no table."""
        bad = self._rows(GAPS, ["broker_id", "epoch", "detail"], ds.field("reason") == BAD_FILE).to_pylist()
        for row in bad:
            if row["broker_id"] in (run.broker_id, "") and row["epoch"] in (run.epoch, 0):
                text = f"the pipeline could not read a file: {row['detail']}"
                if text not in self.problems:
                    self.problems.append(text)

    def _records(self, run: history.Run, only: Any) -> list[history.Record]:
        return history.records_of(self._rows(LIFECYCLE, history.RECORD_COLUMNS, _of(run) & only))

    def _seen(self, run: history.Run, first: int, last: int) -> list[history.Record]:
        """RouteSeen events with these numbers."""
        is_within = (ds.field("seq") >= first) & (ds.field("seq") <= last)
        names = ["seq", "seen_at", "route_id", "service", "tags", "peer", "uptime_ms", "requests"]
        return history.records_of(history.seen_of(self._rows(ROUTES, names, _of(run) & is_within)))

    def _end(self, run: history.Run, which: str, only: Any | None) -> history.Position | None:
        """The record with the smallest (`min`) or largest (`max`) number."""
        rows = self._rows(LIFECYCLE, ["seq", "event_time"], _of(run) if only is None else _of(run) & only)
        if not len(rows):
            return None
        seq = pc.min_max(rows["seq"])[which]
        row = rows.filter(pc.equal(rows["seq"], seq))
        return history.Position(seq.as_py(), int(history.micros(row["event_time"])[0]))

    def _rows(self, table: str, names: Sequence[str], only: Any | None = None) -> pa.Table:
        """Of all files that can be read. BadFolder: they vanish again and again."""
        for _ in range(RETRIES):
            try:
                return self._rows_once(table, names, only)
            except FileNotFoundError:
                continue  # compaction has replaced it meanwhile: what replaced it is there now
        raise BadFolder(f"files of the table {table} in {self._tables} vanish while they are read")

    def _rows_once(self, table: str, names: Sequence[str], only: Any | None) -> pa.Table:
        schema = table_schema(table)
        found = []
        for path in sorted(table_paths(self._tables / table)):
            if path in self._bad:
                continue
            try:
                check_file(path, follows_links=True)
                rows = ds.dataset(str(path), schema=schema, format="parquet").to_table(
                    columns=list(names), filter=only, use_threads=False
                )
            except FileNotFoundError:
                raise
            except (pa.ArrowException, OSError, NoFile) as error:
                self._bad.add(path)
                self.problems.append(f"{path} is passed over: it cannot be read ({str(error).splitlines()[0]})")
                continue
            if len(rows):
                found.append(rows)
        empty = pa.schema([schema.field(name) for name in names]).empty_table()
        return pa.concat_tables(found) if found else empty


def _of(run: history.Run) -> Any:
    return (ds.field("broker_id") == run.broker_id) & (ds.field("epoch") == run.epoch)


def _moment(us: int) -> Any:
    return pa.scalar(us, pa.timestamp("us", "UTC"))
