"""Partials added up: rows with the same keys become one. Whole columns with numpy, no Python object per row; exact."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from broker.events import MAX_BUCKET
from spark_sink.columns import TEXT, arrow_schema
from spark_sink.tables import HISTOGRAM_COLUMNS, MAX_COLUMN, SPAN_COLUMNS, Partial

_BUCKETS: Final = MAX_BUCKET + 1


def merged(partial: Partial, rows: pa.Table) -> pa.Table:
    """The rows of the table `partial` that these rows make, which have at least its columns; in the order of its keys.

    Nothing where a text should be is an empty text, and no number is 0: columns that an older writer did not know."""
    if rows.num_rows == 0:
        return arrow_schema(partial.columns).empty_table()
    keys = {column.name: _encoded(rows[column.name], column.kind == TEXT) for column in partial.keys}
    groups = _groups([codes for codes, _ in keys.values()])
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    first = order[starts]  # one row of each group
    columns = {name: values.take(pa.array(codes[first])) for name, (codes, values) in keys.items()}
    for name in partial.sums:
        columns[name] = pa.array(np.add.reduceat(_numbers(rows[name])[order], starts))
    if partial.has_max:
        columns[MAX_COLUMN] = pa.array(np.maximum.reduceat(_numbers(rows[MAX_COLUMN])[order], starts))
    if partial.has_span:
        for name, reduce in zip(SPAN_COLUMNS, (np.minimum, np.maximum), strict=True):
            moments = rows[name].cast(pa.int64()).to_numpy()[order]
            columns[name] = pa.array(reduce.reduceat(moments, starts))
    if partial.has_histogram:
        columns |= _histograms(groups, len(starts), *(rows[name] for name in HISTOGRAM_COLUMNS))
    schema = arrow_schema(partial.columns)
    return pa.Table.from_arrays([columns[name].cast(schema.field(name).type) for name in schema.names], schema=schema)


def _encoded(column: pa.ChunkedArray, is_text: bool) -> tuple[Any, Any]:
    """Codes that order like the values, and the values."""
    column = column.fill_null("") if is_text else column
    encoded = column.combine_chunks().dictionary_encode()
    ranks = pa.compute.rank(encoded.dictionary, "ascending", tiebreaker="dense").to_numpy().astype(np.int64) - 1
    values = encoded.dictionary.take(pa.compute.sort_indices(encoded.dictionary))
    return ranks[encoded.indices.to_numpy()], values


def _groups(codes: list[Any]) -> Any:
    """One number per row, dense, in the order of the codes: equal where all codes are."""
    groups = codes[0]
    for more in codes[1:]:
        _, groups = np.unique(groups * (int(more.max()) + 1) + more, return_inverse=True)
    return np.unique(groups, return_inverse=True)[1]


def _numbers(column: pa.ChunkedArray) -> Any:
    return column.fill_null(0).to_numpy().astype(np.int64)


def _histograms(groups: Any, count: int, buckets: pa.ChunkedArray, counts: pa.ChunkedArray) -> dict[str, Any]:
    lengths = pa.compute.list_value_length(buckets).fill_null(0).to_numpy().astype(np.int64)
    flat_buckets = np.clip(pa.compute.list_flatten(buckets).to_numpy(), 0, MAX_BUCKET).astype(np.int64)
    cells = np.repeat(groups, lengths) * _BUCKETS + flat_buckets
    order = np.argsort(cells, kind="stable")
    starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
    flat_counts = pa.compute.list_flatten(counts).to_numpy()[order]
    sums = np.add.reduceat(flat_counts, starts) if len(starts) else flat_counts
    used = cells[order][starts]
    offsets = pa.array(np.searchsorted(used // _BUCKETS, np.arange(count + 1)).astype(np.int32))
    lists = (pa.array(used % _BUCKETS, pa.int64()), pa.array(sums, pa.int64()))
    return {
        name: pa.ListArray.from_arrays(offsets, values) for name, values in zip(HISTOGRAM_COLUMNS, lists, strict=True)
    }
