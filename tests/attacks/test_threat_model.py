"""docs/threat-model.md is held to the sources: what it names is there, each script of this folder has its row, and each
row a script against what runs."""

import re
from pathlib import Path

from broker.config.options import OPTIONS
from tests.conformance.table import ROOT, dangling_in, functions_in, is_test, rows_of

PAGE = ROOT / "docs/threat-model.md"
COLUMNS = ["#", "actor", "what is tried", "what happens", "bounded by", "tests"]
RUNNING = ("tests/attacks/", "tests/system/")  # tests of brokers, gateways and mirrors that run, over real sockets
ALWAYS = ("always", "none: the modes of the files")  # no option bounds it


def rows() -> list[list[str]]:
    return rows_of(PAGE.read_text(), COLUMNS)


def names_in(cell: str) -> list[str]:
    return re.findall("`([^`]+)`", cell)


def is_bound(name: str) -> bool:
    """An option, one of a table `[role.NAME]`, or a constant that docs/limits.md lists."""
    if ".NAME." not in name:
        return name in OPTIONS or f"`{name}`" in (ROOT / "docs/limits.md").read_text()
    table, _, key = name.rpartition(".")
    section = (ROOT / "docs/configuration.md").read_text().partition(f"\n### [{table}]\n")[2].partition("\n### ")[0]
    return f"\n| `{key}` |" in section


def test_each_row_is_whole_and_ids_are_consecutive() -> None:
    found = rows()
    assert [row[0] for row in found] == [f"T-{number:02}" for number in range(1, len(found) + 1)]
    assert [row[0] for row in found if len(row) != len(COLUMNS) or not all(row)] == []


def test_each_test_of_a_row_exists() -> None:
    tests = {row[0]: names_in(row[5]) for row in rows()}
    assert [id for id, names in tests.items() if not names] == []
    assert [name for names in tests.values() for name in names if not is_test(name)] == []


def test_each_row_is_tried_at_what_runs() -> None:
    """And not only at a part of it: a defence that is not wired up would hold there."""
    tests = {row[0]: names_in(row[5]) for row in rows()}
    assert [id for id, names in tests.items() if not any(name.startswith(RUNNING) for name in names)] == []


def test_what_bounds_a_threat_is_an_option_or_a_limit() -> None:
    cells = [row[4] for row in rows()]
    assert [cell for cell in cells if not names_in(cell) and not cell.startswith(ALWAYS)] == []
    assert [name for cell in cells for name in names_in(cell) if not is_bound(name)] == []


def test_decisions_and_rows_that_are_named_exist() -> None:
    assert dangling_in(PAGE.read_text()) == set()


def test_each_script_has_a_row() -> None:
    named = {name for row in rows() for name in names_in(row[5])}
    folder = Path(__file__).parent
    scripts = {
        f"{path.relative_to(ROOT)}::{function}"
        for path in folder.glob("test_*.py")
        if path != Path(__file__)
        for function in functions_in(path)
    }
    assert scripts - named == set()
