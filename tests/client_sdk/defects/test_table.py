"""docs/sdk/defects.md is held to the tests: 34 rows, each test exists, and each says the rows that name it."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HERE = "tests/client_sdk/defects"
PAGE = ROOT / "docs/sdk/defects.md"
ROWS = 34
HEDGES = re.compile(r"\b(partly|partially|todo|tbd|not yet|planned|untested)\b", re.I)
CITED = re.compile(r"\b[Rr]ows? (\d+(?:(?:, | and )\d+)*)")


def rows_of(page: str) -> dict[str, list[str]]:
    """The cells behind the number of each row."""
    lines = [line for line in page.splitlines() if re.match(r"\| \d", line)]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {row[0]: row[1:] for row in rows}


@cache
def cited_in(path: Path) -> dict[str, set[str]]:
    """Its tests, and the rows that their docstrings cite."""
    found = {}
    for each in ast.parse(path.read_text()).body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_"):
            groups = CITED.findall(ast.get_docstring(each) or "")
            found[each.name] = {number for group in groups for number in re.findall(r"\d+", group)}
    return found


def mistakes_of(page: str) -> list[str]:
    """What is wrong with a page, as sentences."""
    rows = rows_of(page)
    found = [f"row {number} is missing" for number in range(1, ROWS + 1) if str(number) not in rows]
    named: dict[str, set[str]] = {}
    for number, cells in rows.items():
        if len(cells) != 3 or not all(cells):
            found.append(f"{number}: a cell is missing or empty")
            continue
        hedge = HEDGES.search(" ".join(cells))
        if hedge:
            found.append(f"{number} says {hedge[0]!r}")
        tests = re.findall(r"`(tests/[^`]+)`", cells[2])
        if not tests:
            found.append(f"{number} names no test")
        for test in tests:
            path, _, name = test.partition("::")
            if not (ROOT / path).is_file() or name not in cited_in(ROOT / path):
                found.append(f"{number}: there is no test {test}")
            named.setdefault(test, set()).add(number)
    for path in sorted((ROOT / HERE).glob("test_*.py")):
        for name, cited in cited_in(path).items():
            test = f"{HERE}/{path.name}::{name}"
            lost = cited - named.get(test, set())
            found += [f"{number} does not name {test}, which cites it" for number in sorted(lost)]
    return found


def test_every_row_has_its_tests_and_every_test_its_rows() -> None:
    page = PAGE.read_text()
    assert mistakes_of(page) == []
    assert list(rows_of(page)) == [str(number) for number in range(1, ROWS + 1)]


def test_every_test_of_a_defect_says_which() -> None:
    silent = [
        f"{path.name}::{name}"
        for path in sorted((ROOT / HERE).glob("test_*.py"))
        if path.name not in ("test_table.py", "test_fuzz.py")
        for name, cited in cited_in(path).items()
        if not cited
    ]
    assert silent == []


HERE_TEST = f"{HERE}/test_table.py::test_a_mistake_is_told"


@pytest.mark.parametrize(
    ("row", "mistake"),
    [
        ("", ""),
        (f"| 35 | a | b | `{HERE_TEST}` |", ""),
        (f"| 35 | a |  | `{HERE_TEST}` |", "35: a cell is missing or empty"),
        (f"| 35 | a | partly | `{HERE_TEST}` |", "35 says 'partly'"),
        ("| 35 | a | b | none |", "35 names no test"),
        (f"| 35 | a | b | `{HERE_TEST}_` |", f"35: there is no test {HERE_TEST}_"),
        ("| 35 | a | b | `tests/none.py::test_a` |", "35: there is no test tests/none.py::test_a"),
    ],
)
def test_a_mistake_is_told(row: str, mistake: str) -> None:
    assert mistakes_of(f"{PAGE.read_text()}{row}\n") == ([mistake] if mistake else [])


def test_a_row_that_is_lost_is_told() -> None:
    page = "\n".join(line for line in PAGE.read_text().splitlines() if not line.startswith("| 15 |"))
    assert "row 15 is missing" in mistakes_of(page)
    assert len(mistakes_of(page)) > 1
