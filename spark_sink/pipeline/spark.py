"""The engine on Spark: its file source finds the segments and its tasks do the sums, on all of its machines.

    readStream "binaryFile" ─ foreachBatch ─ mapInArrow(map_files) ─ groupBy(key).applyInArrow(reduce_pieces) ─ driver

The source gives files as bytes, whatever is in them, so that a torn one ends no query, and from any file system that
Hadoop reaches. Its checkpoint is one of a run: which files were read is decided by `progress`.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from spark_sink.errors import SinkError
from spark_sink.pipeline.batch import BatchWriter, Work
from spark_sink.pipeline.compaction import merged_bytes
from spark_sink.pipeline.filesystems import FileSystem, file_of, spark_text
from spark_sink.pipeline.work import (
    INPUT_COLUMNS,
    OUTPUT_SCHEMA,
    PIECE_SCHEMA,
    Output,
    Result,
    map_files,
    reduce_pieces,
    result_of,
)
from spark_sink.schema import COLUMNS as SOURCE_COLUMNS

MAX_FILES_PER_BATCH: Final = 1000
# Spark's file source never forgets a file that it has seen. So after so many files a new query begins.
ROLL_FILES: Final = 10_000
ROLL_WORD: Final = "this query has seen enough files"  # in what ends one that is to be followed by another
KEEP_FOREVER: Final = "36500d"  # Spark passes silently over files that are much older than the newest; never do
_NUMBERED: Final = pa.schema(
    [("number", pa.int64()), ("table", pa.string()), ("file", pa.string()), ("content", pa.binary())]
)
_MERGED: Final = pa.schema([("number", pa.int64()), ("content", pa.binary())])
_FILE_COLUMNS: Final = "path string, modificationTime timestamp, length bigint, content binary"


class SparkEngine:
    """Finds segments and counts them, in a session of Spark."""

    def __init__(self, session: Any, *, roll_files: int = ROLL_FILES) -> None:
        self.session: Final = session
        self._roll_files: Final = roll_files

    def work_on(self, events: FileSystem, files: Sequence[str]) -> Work:
        """The tasks of a batch that is repeated."""
        if not files:
            return lambda _without: Result([], [])
        found = self.session.read.format("binaryFile").schema(_FILE_COLUMNS).load([spark_text(file) for file in files])
        return partial(_result, found, events.root)

    def start(self, events: FileSystem, writer: BatchWriter, every: str | None) -> "SparkQuery":
        """A query that gives batches to the writer. `every`: the trigger, "5 seconds"; None: what is there, once."""
        reader = self.session.readStream.format("binaryFile").schema(_FILE_COLUMNS)
        reader = reader.option("pathGlobFilter", "*.parquet").option("recursiveFileLookup", "true")
        reader = reader.option("maxFileAge", KEEP_FOREVER).option("maxFilesPerTrigger", MAX_FILES_PER_BATCH)
        found = reader.load(f"{spark_text(events.root)}/{{{','.join(SOURCE_COLUMNS)}}}")
        stream = found.writeStream.queryName(f"rsocket-broker pipeline {time.time():.0f}")
        stream = stream.foreachBatch(partial(take_batch, writer, events.root, self._roll_files))
        trigger = {"availableNow": True} if every is None else {"processingTime": every}
        return SparkQuery(stream.trigger(**trigger).start())

    def merged(self, tables: FileSystem, folder: str, groups: Sequence[Sequence[str]]) -> Iterator[Any]:
        """Of the files of each group in a folder of tables, the bytes of one."""
        places = {tables.file(f"{folder}/{name}"): number for number, names in enumerate(groups) for name in names}
        files = self.session.read.format("binaryFile").schema(_FILE_COLUMNS).load([spark_text(file) for file in places])
        first = partial(_numbered, places=places, table=folder.partition("/")[0])
        numbered = files.select("path", "content").mapInArrow(first, _ddl(_NUMBERED))
        made = numbered.groupBy("number", "table").applyInArrow(_merge_group, _ddl(_MERGED)).toArrow()
        yield from (content.as_buffer() for content in made.sort_by("number")["content"])


class SparkQuery:
    """A query that runs by itself."""

    def __init__(self, query: Any) -> None:
        self._query: Final = query

    def wait(self, seconds: float) -> bool:
        """Has it read everything that is there? Raises what ended it."""
        return bool(self._query.awaitTermination(seconds))

    @property
    def is_busy(self) -> bool:
        """A batch is being done."""
        return bool(self._query.isActive and self._query.status["isTriggerActive"])

    def stop(self) -> None:
        """A batch that is being done is interrupted."""
        self._query.stop()


def take_batch(writer: BatchWriter, root: str, roll_files: int, batch: Any, _batch_id: int) -> None:
    """Spark's foreachBatch. SinkError: `ROLL_WORD`, nothing was done, or as `BatchWriter.write`."""
    if writer.files >= roll_files:
        raise SinkError(f"{ROLL_WORD}: {writer.files}")
    writer.write(batch.sparkSession, partial(_result, batch, root))


def _result(files: Any, root: str, without: frozenset[str]) -> Result:
    """What tasks make of a DataFrame of files. The driver gets names, counts and finished files."""
    first = partial(map_files, root=root, without=without, name_of=file_of)
    pieces = files.select(*INPUT_COLUMNS).mapInArrow(first, _ddl(PIECE_SCHEMA))
    made = pieces.groupBy("key").applyInArrow(reduce_pieces, _ddl(OUTPUT_SCHEMA)).toArrow()
    texts = (made[name].to_pylist() for name in OUTPUT_SCHEMA.names[:3])
    contents = (content.as_buffer() for content in made["content"])
    return result_of(Output(*row) for row in zip(*texts, contents, strict=True))


def _numbered(batches: Iterator[pa.RecordBatch], places: Mapping[str, int], table: str) -> Iterator[pa.RecordBatch]:
    """Files with the number of their group."""
    for batch in batches:
        files = [file_of(path) for path in batch.column("path").to_pylist()]
        numbers = pa.array([places[file] for file in files], pa.int64())
        columns = [numbers, pa.array([table] * len(files)), pa.array(files), batch.column("content")]
        yield pa.RecordBatch.from_arrays(columns, schema=_NUMBERED)


def _merge_group(key: tuple[pa.Scalar, ...], files: pa.Table) -> pa.Table:
    number, table = (value.as_py() for value in key)
    content = merged_bytes(table, (each.as_buffer() for each in files.sort_by("file")["content"]))
    return pa.Table.from_pylist([{"number": number, "content": bytes(content)}], _MERGED)


def _ddl(schema: Any) -> str:
    kinds = {pa.int64(): "bigint", pa.string(): "string", pa.binary(): "binary"}
    return ", ".join(f"`{field.name}` {kinds[field.type]}" for field in schema)
