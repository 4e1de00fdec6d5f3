from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sink.report import groups as groups_module
from spark_sink.report.groups import chosen, encoded, group, is_in

NAMES = st.sampled_from(["", "a", "b", "größe", None])
Rows = list[tuple[str | None, str | None, int]]
ROWS = st.lists(st.tuples(NAMES, NAMES, st.integers(0, 2**60)), max_size=7)


def table_of(chunks: list[Rows], kind: pa.DataType) -> pa.Table:
    """Each chunk with a dictionary of its own, if it has one."""
    columns = [pa.chunked_array([pa.array([row[n] for row in rows], kind) for rows in chunks], kind) for n in (0, 1)]
    values = pa.chunked_array([pa.array([row[2] for row in rows], pa.int64()) for rows in chunks], pa.int64())
    return pa.table([*columns, values], names=["x", "y", "n"])


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())], ids=["texts", "dictionary"])
@pytest.mark.parametrize("ticked", [0, 1 << 20], ids=["hashed", "ticked"])
@given(chunks=st.lists(ROWS, max_size=3))
def test_groups_add_up_exactly(kind: pa.DataType, ticked: int, chunks: list[Rows]) -> None:
    rows = [row for chunk in chunks for row in chunk]
    expected: dict[tuple[str, ...], int] = defaultdict(int)
    for x, y, n in rows:
        expected[x or "", y or ""] += n
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups_module, "_MAX_TICKED", ticked)
        table = table_of(chunks, kind)
        found = group(table, ["x", "y"])
        values = np.array([n for _, _, n in rows], np.int64)
        sums = found.sums(values)
        assert {found.key(number): int(sums[number]) for number in range(found.count)} == expected
        assert [found.key(number) for number in range(found.count)] == sorted(expected)
        top = found.top(sums, 2)
        assert [found.key(number) for number in top] == sorted(
            (key for key in expected if expected[key]), key=lambda key: (-expected[key], key)
        )[:2]
        names = [found.key(number) for number in top]
        places = [names.index(key) if key in names else len(top) for key in ((x or "", y or "") for x, y, _ in rows)]
        assert chosen(found, top).tolist() == places
        assert is_in(table, "x", ["a", ""]).tolist() == [x in ("a", "", None) for x, _, _ in rows]
        texts, codes = encoded(table["y"])
        assert [texts[int(code)].as_py() for code in codes] == [y or "" for _, y, _ in rows]
        assert texts.to_pylist() == sorted({y or "" for _, y, _ in rows})


def test_many_columns_do_not_overflow() -> None:
    """Combinations of 40 distinct texts in 14 columns are more than 64 bits count."""
    rows = [f"t{number:02d}" for number in range(40)]
    table = pa.table({f"c{column}": rows for column in range(14)})
    found = group(table, table.column_names)
    assert found.of_row.tolist() == list(range(40))
    assert found.key(39) == ("t39",) * 14
