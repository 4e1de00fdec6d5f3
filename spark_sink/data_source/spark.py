"""`format("rsocket_broker")` for Spark: the classes that PySpark asks for, around `reader`. Needs pyspark 4.1 or newer.

    from spark_sink.data_source.spark import RSocketBroker
    spark.dataSource.register(RSocketBroker)

From Spark 4.2 on `latestOffset` gets the offset to start from and a limit, before that nothing; both work.
"""

import inspect
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, Final, NoReturn

import pyarrow as pa

from spark_sink.data_source.options import Offsets, options_of
from spark_sink.data_source.reader import EventReader
from spark_sink.errors import BadOptions, MissingPart
from spark_sink.schema import ARROW_SCHEMAS, SPARK_SCHEMAS

OLDEST_PYSPARK: Final = (4, 1)
READ_ONLY: Final = (
    "rsocket_broker is for reading events; write the result elsewhere: format('parquet') or format('delta')"
)

try:
    import pyspark
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.pandas.types import to_arrow_schema
except ImportError as error:  # before pyspark 4 there were no data sources in Python
    raise MissingPart(
        f'format("rsocket_broker") needs pyspark 4.1 or newer: pip install "rsocket-broker[spark]" ({error})'
    ) from error
if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < OLDEST_PYSPARK:
    raise MissingPart(f'format("rsocket_broker") needs pyspark 4.1 or newer, this is {pyspark.__version__}')
try:
    from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # Spark 4.1: no limits, and a trigger "available now" is one batch
    ReadMaxRows, SupportsTriggerAvailableNow = None, object


class RSocketBroker(DataSource):
    """Event files of brokers as rows; the options stand in docs/spark/spark-source.md."""

    @classmethod
    def name(cls) -> str:
        """Of the format."""
        return "rsocket_broker"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """BadOptions: all that is wrong with them."""
        super().__init__(options)
        self._options: Final = options_of(options)

    def schema(self) -> str:
        """Columns of the source, as in docs/spark/events.md."""
        return SPARK_SCHEMAS[self._options.source]

    def reader(self, schema: Any) -> "BatchReader":
        """Of a batch."""
        return BatchReader(EventReader(self._options), columns_of(schema, self._options.source))

    def writer(self, schema: Any, overwrite: bool) -> NoReturn:
        """Events are written by brokers only."""
        raise BadOptions(READ_ONLY)

    def streamWriter(self, schema: Any, overwrite: bool) -> NoReturn:
        """As `writer`."""
        raise BadOptions(READ_ONLY)

    def streamReader(self, schema: Any) -> "StreamReader":
        """Of a streaming query."""
        return StreamReader(EventReader(self._options), columns_of(schema, self._options.source))


class _Reads:
    """Parts as Spark's partitions."""

    def __init__(self, reader: EventReader, schema: pa.Schema) -> None:
        self._reader: Final = reader
        self._schema: Final = schema

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Rows of a part, with the columns that were asked for."""
        if partition.value is None:  # Spark makes one of no partitions
            return
        for batch in self._reader.read(partition.value):
            yield batch.select(self._schema.names).cast(self._schema)


class BatchReader(_Reads, DataSourceReader):
    """All that is there."""

    def partitions(self) -> Sequence[Any]:
        """Of Spark's job."""
        return list(map(InputPartition, self._reader.whole()))


class StreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What comes."""

    def initialOffset(self) -> Offsets:
        """Of a query without a checkpoint."""
        return self._reader.initial_offset()

    def latestOffset(self, start: Offsets | None = None, limit: Any = None) -> Offsets:
        """Up to where the next batch reads. Spark 4.1 gives neither parameter."""
        if start is None:
            return self._reader.latest_offset()
        return self._reader.latest_offset(start, getattr(limit, "max_rows", 0))

    def getDefaultReadLimit(self) -> Any:
        """What `maxRecordsPerTrigger` says."""
        most = self._reader.max_records
        return ReadMaxRows(most) if most else super().getDefaultReadLimit()

    def reportLatestOffset(self) -> Offsets | None:
        """What there was at the last look, for the query's progress."""
        return self._reader.ends or None

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """Of one batch; the same again after a failure."""
        return list(map(InputPartition, self._reader.parts(start, end)))

    def commit(self, end: Offsets) -> None:
        """A batch is done."""
        self._reader.commit(end)

    def stop(self) -> None:
        """Nothing is open."""

    def prepareForTriggerAvailableNow(self) -> None:
        """For `trigger(availableNow=True)`, in batches of `maxRecordsPerTrigger`: what comes later is left to the next
        query. Spark 4.1 does not ask."""
        self._reader.stop_at_latest()


def columns_of(schema: Any, source: str) -> pa.Schema:
    """The Arrow schema that Spark wants for its own. BadOptions: a column that the source does not have."""
    strange = [name for name in schema.names if name not in ARROW_SCHEMAS[source].names]
    if strange:
        raise BadOptions(
            f"rsocket_broker: {source} have no column {', '.join(strange)}; docs/spark/events.md names all"
        )
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # Spark 4.1: times are UTC anyway
