"""The engine without Spark: reads Parquet with pyarrow and replays in this process. For small inputs, and for tests."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rsocket_wire.files import missing_advice
from spark_sink.errors import BadFolder, SinkError
from spark_sink.event_files.folder import list_folder
from spark_sink.event_files.store import read_segments
from spark_sink.history.epochs import KINDS
from spark_sink.history.records import RECORD_COLUMNS, seen_of
from spark_sink.schema import FLOWS, LIFECYCLES, REQUESTS
from spark_sink.tables import LIFECYCLE, ROUTES, check_tables, read_table
from spark_sink.what_if.parts import Plan, replay_batches
from spark_sink.what_if.question import Question
from spark_sink.what_if.records import (
    RECORD_SCHEMA,
    RESULT_SCHEMA,
    ROW_ORDER,
    ROW_SCHEMA,
    flow_records,
    request_records,
    rows_of,
)
from spark_sink.what_if.totals import read_records, read_totals, totals_of

MAX_RECORDS: Final = 5_000_000  # requests or flows, some 300 bytes each; more are for Spark
BATCH: Final = 65_536  # records that are calculated with at a time; rows that are Python objects

LIFECYCLE_NAMES: Final = ("broker_id", "broker_name", "epoch", *RECORD_COLUMNS, "choices")  # that a replay needs


class LocalEngine:
    """Events or tables, read and replayed here."""

    def __init__(self, *, events: Path | None, tables: Path | None, question: Question) -> None:
        """One of the two folders. BadFolder: it is not there."""
        self._events: Final = events
        self._tables: Final = tables
        self._until_us: Final = question.end_us
        self.problems: list[str] = []  # sentences: files that were passed over
        check_folder(events, tables)

    def lifecycle(self) -> pa.Table:
        """Lifecycle events of the kinds that a replay needs, with what `epochs_of` wants."""
        if self._tables is not None:
            seen = seen_of(read_table(self._tables, ROUTES)).select(LIFECYCLE_NAMES)
            return pa.concat_tables([lifecycle_rows(read_table(self._tables, LIFECYCLE)), seen])
        return lifecycle_rows(self._read(LIFECYCLES))

    def totals(self) -> pa.Table:
        """See `totals`."""
        totals = read_totals(totals_of(self._pieces(), self._until_us))
        records = pc.sum(totals["rows"]).as_py() or 0
        if records > MAX_RECORDS:
            raise SinkError(
                f"{records:,} records are more than are replayed without Spark ({MAX_RECORDS:,}): leave out "
                "--no-spark, or narrow it with --until"
            )
        if records < len(self.records):
            read = [read_records(some, totals, self._until_us) for some in self._pieces()]
            self.records = pa.concat_tables([RECORD_SCHEMA.empty_table(), *read])
        return totals

    def replay(self, plan: Plan) -> pa.Table:
        """The results of all parts that have rows."""
        rows = pa.concat_tables([ROW_SCHEMA.empty_table(), *rows_of(self._pieces(), plan.places)])
        del self.records  # which the rows are copies of
        rows = rows.sort_by([(name, "ascending") for name in ROW_ORDER])
        batches = list(replay_batches(iter(rows.to_batches(max_chunksize=BATCH)), plan))
        return pa.Table.from_batches(batches, schema=RESULT_SCHEMA)

    @cached_property
    def records(self) -> pa.Table:
        """Of requests and flows; until the totals are known those beyond what is asked for, too."""
        if self._tables is not None:
            return request_records(read_table(self._tables, REQUESTS))
        return pa.concat_tables([request_records(self._read(REQUESTS)), flow_records(self._read(FLOWS))])

    def _pieces(self) -> Iterator[pa.Table]:
        """The records, some at a time: what is calculated of them are many more columns."""
        for begin in range(0, len(self.records), BATCH):
            yield self.records.slice(begin, BATCH)

    def _read(self, source: str) -> pa.Table:
        assert self._events is not None  # else it is read from tables
        return read_segments(self._events, list_folder(self._events, (source,)), source, self.problems)


def check_folder(events: Path | None, tables: Path | None) -> None:
    """BadFolder: what is to be read is not there."""
    if events is not None and events.is_file():
        raise BadFolder(f"{events} is a file: name the folder of events, as serve --events does")
    if events is not None and not events.is_dir():
        raise BadFolder(f"there is no events folder {events}{missing_advice(str(events), 'folder')}")
    if tables is not None:
        check_tables(tables)


def lifecycle_rows(events: pa.Table) -> pa.Table:
    """The columns and kinds of lifecycle events that a replay needs."""
    return events.filter(pc.is_in(events["kind"], value_set=pa.array(sorted(KINDS), pa.int64()))).select(
        LIFECYCLE_NAMES
    )
