"""Tables with the lifecycle events of histories, as the pipeline makes them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from broker.events import ROUTE_SEEN, LifecycleEvent
from spark_sink.event_files.layout import Disk, seal
from spark_sink.pipeline.rows import gap_row
from spark_sink.publishing import by_day, table_bytes
from spark_sink.schema import LIFECYCLES
from spark_sink.tables import GAPS, LIFECYCLE, ROUTES, TIMES, table_schema
from spark_sink.timestamps import moment_at
from tests.spark_sink.records import arrow_of, rows_frame
from tests.spark_sink.time_travel.histories import History


def write_tables(tables: Path, *histories: History, batch_rows: int = 500) -> None:
    """In batches of so many rows."""
    batch = 0
    for history in histories:
        rows = [row for row in history.rows if isinstance(row, LifecycleEvent)]
        for start in range(0, len(rows), batch_rows):
            frame = rows_frame(rows[start : start + batch_rows])
            lifecycle = arrow_of(frame, history.header)[LIFECYCLES]
            seen = lifecycle.filter(pc.equal(lifecycle["kind"], ROUTE_SEEN))
            name = f"0-{batch:010d}.parquet"
            publish(tables, LIFECYCLE, name, lifecycle.filter(pc.not_equal(lifecycle["kind"], ROUTE_SEEN)))
            publish(tables, ROUTES, name, seen.append_column("seen_at", seen["event_time"]))
            batch += 1


def write_gap(tables: Path, history: History, reason: str, detail: str) -> None:
    """A row of the table of gaps."""
    header = history.header
    broker = header.broker_id, header.broker_name, header.epoch
    row = gap_row(moment_at(history.at_ms * 1000), broker, (0, 0), reason, detail)
    publish(tables, GAPS, "0-gap.parquet", pa.Table.from_pylist([row], schema=table_schema(GAPS)))


def publish(tables: Path, table: str, name: str, rows: pa.Table) -> None:
    """The rows in the table, one sealed file `name` per day."""
    for day, part in by_day(rows, TIMES[table]).items():
        seal(tables / table / f"date={day}", name, table_bytes(table, part), Disk())
