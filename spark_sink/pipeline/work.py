"""What the tasks of a batch do: files become pieces, and pieces of one key become files of tables.

    (file, content) ─ Pieces ─> (key, piece) ─ grouped by key ─ outputs_of ─> (table, day, name, bytes)

A task judges and decodes some files and adds up the flow records in them, so that what goes on to the second step does
not grow with the records but with their keys. The second step adds up what several tasks have made of the same day and
writes files of tables, as bytes. With Spark the first step is a `mapInArrow` and the second one an `applyInArrow` of
groups; the engine `local` calls both itself.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from spark_sink.pipeline.merging import merged
from spark_sink.pipeline.rows import tables_of_events, tables_of_flows, with_minute
from spark_sink.pipeline.segments import BadFile, GoodFile, ends_of, read, source_of
from spark_sink.publishing import by_day, table_bytes
from spark_sink.schema import FLOWS, LIFECYCLES
from spark_sink.schema import REQUESTS as REQUEST_SOURCE
from spark_sink.tables import FINEST, MINUTE, REQUESTS, TIMES

FLOW_ROWS: Final = 50_000  # records that are held before they are added up; 0.8 KB each
# Sums of a task of Spark are divided by service when they are of more records, so that several tasks share the second
# step. A pipeline that keeps up has fewer, and as few files as tables.
BUCKET_RECORDS: Final = 30_000
BUCKETS: Final = 8

INPUT_COLUMNS: Final = ("path", "modificationTime", "content")  # of Spark's file source "binaryFile"
PIECE_SCHEMA: Final = pa.schema([("key", pa.string()), ("piece", pa.binary())])
OUTPUT_SCHEMA: Final = pa.schema(
    [("table", pa.string()), ("day", pa.string()), ("name", pa.string()), ("content", pa.binary())]
)

_PACKED: Final = pa.ipc.IpcWriteOptions(compression="lz4")  # a quarter of the bytes pass through Java
_DECODER: Final = msgspec.msgpack.Decoder(GoodFile | BadFile)
_JUDGED: Final = "judged"  # a key: files, and no source
_TABLES_OF: Final = {FLOWS: tables_of_flows, LIFECYCLES: tables_of_events}  # records of others are rows of one table
_WANTED_FLOWS: Final = ["started_at", *(column.name for column in FINEST.columns if column.name != MINUTE)]


class Output(NamedTuple):
    """A file of a table."""

    table: str
    day: str  # "2026-11-20"
    name: str  # empty: it is one of the batch
    content: Any  # its bytes


class Result(NamedTuple):
    """What the tasks made of a batch."""

    files: list[GoodFile | BadFile]  # in the order of their names
    outputs: list[Output]


class Pieces:
    """Of some files, one after another."""

    def __init__(self, root: str, without: frozenset[str], buckets: int) -> None:
        """`root`: of the events folder; files elsewhere below it are nobody's. `without`: files not to be counted.
        `buckets`: into which the sums of many records are divided."""
        self._root: Final = root
        self._without: Final = without
        self._buckets: Final = buckets
        self._flows: list[pa.Table] = []  # records that are not added up yet
        self._groups: list[pa.Table] = []  # sums by `FINEST`
        self._records = 0  # that were added up
        self._others: Final[dict[str, list[pa.Table]]] = {}  # records by source that are not added up

    def take(self, file: str, changed_s: float, content: pa.Buffer) -> Iterator[tuple[str, bytes]]:
        """Judge and read a file: gives what of it is whole already."""
        if file in self._without or not source_of(file, self._root):
            return
        found = read(file, content)
        if isinstance(found, BadFile):
            yield _JUDGED, msgspec.msgpack.encode(found)
            return
        good, rows = found
        good.changed_s = changed_s
        yield from self._add(good, rows)
        yield _JUDGED, msgspec.msgpack.encode(good)

    def end(self) -> Iterator[tuple[str, bytes]]:
        """Gives the sums of all files."""
        self._add_up()
        for groups in self._groups:
            for day, rows in by_day(groups, MINUTE).items():
                for bucket, some in _by_service(rows, self._buckets if self._records > BUCKET_RECORDS else 1):
                    yield f"{FLOWS}/{day}/{bucket}", _bytes_of(some)
        for source, records in self._others.items():
            for day, rows in by_day(pa.concat_tables(records), TIMES[source]).items():
                yield f"{source}/{day}", _bytes_of(rows)

    def _add(self, file: GoodFile, rows: pa.Table) -> Iterator[tuple[str, bytes]]:
        if file.source == REQUEST_SOURCE:
            if not file.is_linked:
                for day, part in by_day(rows, TIMES[REQUESTS]).items():
                    yield f"{REQUESTS}/{day}/{file.name}", bytes(table_bytes(REQUESTS, part))
        elif file.source == FLOWS:
            self._flows.append(rows.select(_WANTED_FLOWS))
            if sum(table.num_rows for table in self._flows) > FLOW_ROWS:
                self._add_up()
        else:
            file.ends = ends_of(rows) if file.source == LIFECYCLES else []
            self._others.setdefault(file.source, []).append(rows)

    def _add_up(self) -> None:
        if self._flows:
            records = pa.concat_tables(self._flows)
            self._records += records.num_rows
            self._groups.append(merged(FINEST, with_minute(records)))
            self._flows.clear()
        if sum(groups.num_rows for groups in self._groups) > FLOW_ROWS:
            self._groups = [merged(FINEST, pa.concat_tables(self._groups))]


def outputs_of(key: str, pieces: Sequence[Any]) -> Iterator[Output]:
    """Files of tables, of all pieces of a key. What was judged passes as it is."""
    kind, _, rest = key.partition("/")
    if kind == _JUDGED:
        yield from (Output(_JUDGED, "", "", piece) for piece in pieces)
    elif kind == REQUESTS:
        day, _, name = rest.partition("/")
        yield from (Output(REQUESTS, day, name, piece) for piece in pieces)
    else:
        rows = pa.concat_tables([pa.ipc.open_stream(piece).read_all() for piece in pieces])
        if kind == FLOWS and len(pieces) > 1:  # a piece alone is added up already
            rows = merged(FINEST, rows)
        made = _TABLES_OF[kind](rows) if kind in _TABLES_OF else {kind: rows}
        day = rest.partition("/")[0]
        yield from (
            Output(table, day, "", bytes(table_bytes(table, some))) for table, some in made.items() if len(some)
        )


def result_of(outputs: Iterator[Output]) -> Result:
    """What was judged, apart from the files of tables."""
    files: list[GoodFile | BadFile] = []
    rest = []
    for output in outputs:
        if output.table == _JUDGED:
            files.append(_DECODER.decode(output.content))
        else:
            rest.append(output)
    return Result(sorted(files, key=lambda file: file.file), rest)


def done_here(
    files: Iterator[tuple[str, float, pa.Buffer]], root: str, without: frozenset[str], buckets: int = 1
) -> Result:
    """Both steps, in this process. `files`: name, time of the last change, content."""
    work = Pieces(root, without, buckets)
    grouped: dict[str, list[bytes]] = {}
    for file, changed_s, content in files:
        for key, piece in work.take(file, changed_s, content):
            grouped.setdefault(key, []).append(piece)
    for key, piece in work.end():
        grouped.setdefault(key, []).append(piece)
    return result_of(output for key, pieces in grouped.items() for output in outputs_of(key, pieces))


def map_files(
    batches: Iterator[pa.RecordBatch], root: str, without: frozenset[str], name_of: Callable[[str], str]
) -> Iterator[pa.RecordBatch]:
    """The first step as Spark calls it, `INPUT_COLUMNS` in, `PIECE_SCHEMA` out. `name_of`: a path of Spark's."""
    work = Pieces(root, without, BUCKETS)
    for batch in batches:
        times = batch.column("modificationTime").cast(pa.int64()).to_pylist()
        for place, (path, changed_us) in enumerate(zip(batch.column("path").to_pylist(), times, strict=True)):
            content = batch.column("content")[place].as_buffer()
            yield from _records(PIECE_SCHEMA, work.take(name_of(path), changed_us / 1e6, content))
    yield from _records(PIECE_SCHEMA, work.end())


def reduce_pieces(key: tuple[pa.Scalar, ...], pieces: pa.Table) -> pa.Table:
    """The second step as Spark calls it, the pieces of one key in, `OUTPUT_SCHEMA` out."""
    outputs = outputs_of(key[0].as_py(), pieces["piece"].to_pylist())
    return pa.Table.from_batches(_records(OUTPUT_SCHEMA, outputs), OUTPUT_SCHEMA)


def _records(schema: pa.Schema, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    for row in rows:
        arrays = [pa.array([value], field.type) for field, value in zip(schema, row, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bytes_of(rows: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema, options=_PACKED) as writer:
        writer.write_table(rows)
    return bytes(out.getvalue())


def _by_service(rows: pa.Table, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows in so many buckets at most; a service is in the same one everywhere."""
    if buckets == 1:
        yield 0, rows
        return
    encoded = rows["service"].combine_chunks().dictionary_encode()
    numbers = [zlib.crc32(service.encode()) % buckets for service in encoded.dictionary.to_pylist()]
    places = np.array(numbers, np.int64)[encoded.indices.to_numpy()]
    for bucket in np.unique(places).tolist():
        yield bucket, rows.filter(pa.array(places == bucket))
