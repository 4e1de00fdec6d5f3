"""The engine without Spark: reads Parquet with pyarrow and replays in this process. For small inputs, and for tests."""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_sink.errors import BadFolder, SinkError
from spark_sink.event_files.folder import list_folder
from spark_sink.event_files.store import read_segments
from spark_sink.history.epochs import KINDS
from spark_sink.history.records import RECORD_COLUMNS, seen_of
from spark_sink.schema import FLOWS, LIFECYCLES, REQUESTS
from spark_sink.tables import LIFECYCLE, ROUTES, check_tables, read_table
from spark_sink.what_if.parts import Plan, replay_batches
from spark_sink.what_if.question import Question
from spark_sink.what_if.records import RESULT_SCHEMA, flow_records, request_records, rows_of, sorted_rows
from spark_sink.what_if.totals import totals_of

MAX_RECORDS: Final = 5_000_000  # requests or flows, some 300 bytes each; more are for Spark
BATCH: Final = 65_536  # rows that are Python objects at a time

LIFECYCLE_NAMES: Final = ("broker_id", "broker_name", "epoch", *RECORD_COLUMNS, "choices")  # that a replay needs


class LocalEngine:
    """Events or tables, read and replayed here."""

    def __init__(self, *, events: Path | None, tables: Path | None, question: Question) -> None:
        """One of the two folders. BadFolder: it is not there."""
        self._events: Final = events
        self._tables: Final = tables
        self._until_us: Final = question.until_us
        self.problems: list[str] = []  # sentences: files that were passed over
        check_folder(events, tables)
        self._records: pa.Table | None = None  # until somebody asks

    def lifecycle(self) -> pa.Table:
        if self._tables is not None:
            seen = seen_of(read_table(self._tables, ROUTES)).select(LIFECYCLE_NAMES)
            return pa.concat_tables([lifecycle_rows(read_table(self._tables, LIFECYCLE)), seen])
        return lifecycle_rows(self._read(LIFECYCLES))

    def totals(self) -> pa.Table:
        return totals_of(self.records())

    def replay(self, plan: Plan) -> pa.Table:
        rows = sorted_rows(list(rows_of(self.records(), plan.places)))
        batches = list(replay_batches(iter(rows.to_batches(max_chunksize=BATCH)), plan))
        return pa.Table.from_batches(batches, schema=RESULT_SCHEMA)

    def records(self) -> pa.Table:
        """The requests of all epochs that have some, and the flows of the others."""
        if self._records is None:
            if self._tables is not None:
                parts = [request_records(read_table(self._tables, REQUESTS))]
            else:
                requests = request_records(self._read(REQUESTS))
                flows = flow_records(self._read(FLOWS))
                is_also = pc.is_in(_keys(flows), value_set=pc.unique(_keys(requests)))
                parts = [requests, flows.filter(pc.invert(is_also))]
            records = pa.concat_tables(parts)
            if self._until_us is not None:
                records = records.filter(pc.less(records["started_us"], self._until_us))
            if len(records) > MAX_RECORDS:
                raise SinkError(
                    f"{len(records):,} records are more than are replayed without Spark ({MAX_RECORDS:,}): leave out "
                    "--no-spark, or narrow it with --until"
                )
            self._records = records
        return self._records

    def _read(self, source: str) -> pa.Table:
        assert self._events is not None  # else it is read from tables
        return read_segments(self._events, list_folder(self._events, (source,)), source, self.problems)


def check_folder(events: Path | None, tables: Path | None) -> None:
    """BadFolder: what is to be read is not there."""
    if events is not None and not events.is_dir():
        raise BadFolder(f"there is no events folder {events}: start the broker with --events {events}")
    if tables is not None:
        check_tables(tables)


def lifecycle_rows(events: pa.Table) -> pa.Table:
    """The columns and kinds of lifecycle events that a replay needs."""
    return events.filter(pc.is_in(events["kind"], value_set=pa.array(sorted(KINDS), pa.int64()))).select(
        LIFECYCLE_NAMES
    )


def _keys(records: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(records["broker_id"], records["epoch"].cast(pa.string()), " ")
