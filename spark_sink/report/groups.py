"""Rows of a table by keys: the number of each row's group, exact sums per group, and the largest groups with the rest.

Works on whole columns: a table of a million rows becomes no million Python objects.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

Key = tuple[Any, ...]  # texts, as many as key columns
_MAX_TICKED: Final = 1 << 20  # numbers in a list of ticks: a few MiB
_MAX_CODES: Final = 1 << 62  # of the numbers that stand for combinations of texts


class Groups:
    """Which group each row is in. Groups are numbered by their keys, ascending."""

    def __init__(self, keys: Any, of_row: Any) -> None:
        self._keys: Final = keys  # one list of texts per key column, as long as there are groups
        self.of_row: Final = of_row  # int64 array: number of the group
        self.count: Final = len(keys[0]) if keys else 0

    def key(self, number: int) -> Key:
        """The texts that the group is named by."""
        return tuple(column[number].as_py() for column in self._keys)

    def keys(self, names: Sequence[str]) -> pa.Table:
        """One row per group: its texts, under these names."""
        return pa.table(self._keys, names=list(names))

    def sums(self, values: Any) -> Any:
        """Sum of these values (one int64 per row) of each group, int64 array."""
        sums = np.zeros(self.count, np.int64)
        np.add.at(sums, self.of_row, values)  # bincount would add in floats
        return sums

    def maxima(self, values: Any) -> Any:
        """The largest of each group; at least 0."""
        largest = np.zeros(self.count, np.int64)
        np.maximum.at(largest, self.of_row, values)
        return largest

    def top(self, values: Any, limit: int) -> list[int]:
        """Numbers of the groups with the largest values that are not 0, the largest first; equals by key."""
        order = np.argsort(-values, kind="stable")[:limit]
        return [int(number) for number in order if values[number] > 0]


def group(table: pa.Table, names: Sequence[str]) -> Groups:
    """The rows of a table by these text columns; null counts as empty."""
    columns = [encoded(table[name]) for name in names]
    codes, size = columns[0][1], len(columns[0][0])
    for values, own in columns[1:]:
        if size * len(values) >= _MAX_CODES:
            distinct, codes = distinct_of(codes, size)
            size = len(distinct)
        codes = codes * max(1, len(values)) + own
        size *= max(1, len(values))
    if len(columns) == 1:
        return Groups([columns[0][0]], codes)
    distinct, codes = distinct_of(codes, size)
    first = np.zeros(len(distinct), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last one that is written stays
    return Groups([values.take(pa.array(own[first])) for values, own in columns], codes)


def encoded(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The distinct texts of a column, ascending, as an Arrow array, and the place of each row's text among them. Null
    counts as empty."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if column.num_chunks == 0:
        return pa.array([], pa.string()), np.zeros(0, np.int64)
    encoding = column.combine_chunks()
    texts = encoding.dictionary
    codes = pa.compute.fill_null(encoding.indices, len(texts)).to_numpy()
    used, codes = distinct_of(codes, len(texts) + 1)
    texts = pa.concat_arrays([texts, pa.array([""], texts.type)]).take(pa.array(used))
    values, places = _merged(texts)
    return values, places[codes]


def distinct_of(codes: Any, size: int) -> tuple[Any, Any]:
    """Distinct numbers, ascending, and the place of each row's number among them; all are below `size`.

    By ticking off or by hashing: sorting a million takes ten times as long."""
    if size <= _MAX_TICKED:
        is_used = np.zeros(size, bool)
        is_used[codes] = True
        return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[codes]
    encoding = pa.array(codes, pa.int64()).dictionary_encode()
    distinct = encoding.dictionary.to_numpy()
    order = np.argsort(distinct)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return distinct[order], place[encoding.indices.to_numpy()]


def _merged(texts: Any) -> tuple[Any, Any]:
    """Texts, ascending and each once, and the place of each of the given among them."""
    encoding = texts.dictionary_encode()
    order = pa.compute.array_sort_indices(encoding.dictionary).to_numpy()
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return encoding.dictionary.take(pa.array(order)), place[encoding.indices.to_numpy()]


def chosen(groups: Groups, top: Sequence[int]) -> Any:
    """For each row the place of its group in `top`, or len(top) where it is none of them."""
    place = np.full(groups.count + 1, len(top), np.int64)
    place[np.asarray(top, np.int64)] = np.arange(len(top))
    return place[groups.of_row]


def last_of(*columns: Any, by: Sequence[Any]) -> Any:
    """Places of the last row of each combination of values, in their order; `by`: what rows are in order of, the most
    important first. All are int64 arrays."""
    order = np.lexsort((*reversed(by), *reversed(columns)))
    keys = np.stack(columns, axis=1)[order]
    is_last = np.ones(len(order), bool)
    is_last[:-1] = (keys[1:] != keys[:-1]).any(axis=1)
    return order[is_last]


def numbers(table: pa.Table, name: str) -> Any:
    """A bigint column as an int64 array; null counts as 0."""
    return pa.compute.fill_null(table[name], 0).to_numpy()


def micros(table: pa.Table, name: str) -> Any:
    """A column of times as int64 array, microseconds since the epoch; null counts as 0."""
    return pa.compute.fill_null(table[name].cast(pa.int64()), 0).to_numpy()


def is_in(table: pa.Table, name: str, texts: Sequence[str]) -> Any:
    """For each row whether its text is one of these, bool array."""
    values, codes = encoded(table[name])
    found: Any = pa.compute.is_in(values, value_set=pa.array(texts, pa.string())).to_numpy(zero_copy_only=False)
    return found.astype(bool)[codes]
