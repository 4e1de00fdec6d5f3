"""What tests of clause tables share: a page is held to the sources, and names what is there.

A table has a row for each clause of a document: its id, the clause in its own words, its kind, what we do, in which
files, and tests that fail without it.
"""

import ast
import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ["#", "clause", "kind", "what we do", "where", "tests"]
HEDGES = re.compile(
    r"\b(partly|partial(ly)?|todo|tbd|fixme|not yet|yet to|planned|later on|unsupported|untested)\b", re.I
)


def rows_of(page: str, columns: Sequence[str] = COLUMNS) -> list[list[str]]:
    """The cells of every row of every table. `columns`: the head of each, which is none."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    rows = [[html.unescape(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in rows if row != list(columns) and not set("".join(row)) <= set("-")]


def mistakes_of(page: str, demands: Sequence[str], keys: Mapping[str, int]) -> list[str]:
    """What is wrong with a page, as sentences. `demands`, `keys`: what must stand in its clauses."""
    rows = rows_of(page)
    found = [f"{id} stands {count} times" for id, count in Counter(row[0] for row in rows).items() if count > 1]
    for row in rows:
        id = row[0]
        if not re.fullmatch(r"[A-Z]{1,2}-\d\d", id):
            found.append(f"{id!r} is no id")
        if len(row) != len(COLUMNS) or not all(row):
            found.append(f"{id}: a cell is missing or empty")
            continue
        hedge = HEDGES.search(" ".join(row[2:]))
        if hedge:
            found.append(f"{id} says {hedge[0]!r}")
        files = re.findall(r"`([^`]+)`", row[4])
        tests = re.findall(r"`([^`]+)`", row[5])
        if not files or not tests:
            found.append(f"{id} names no file or no test")
        found += [f"{id}: there is no file {file}" for file in files if not (ROOT / file).is_file()]
        found += [f"{id}: there is no test {test}" for test in tests if not is_test(test)]
    clauses = [row[1] for row in rows if len(row) > 1]
    found += [f"no row has: {each}" for each in demands if not any(each in clause for clause in clauses)]
    for name, value in keys.items():
        if not any(re.search(rf"\b{re.escape(name)} 0x{value:02X}\b", clause) for clause in clauses):
            found.append(f"no row has the key {name}")
    return found


def is_test(name: str) -> bool:
    path, _, function = name.partition("::")
    return path.startswith("tests/") and (ROOT / path).is_file() and function in functions_in(ROOT / path)


def dangling_in(page: str) -> set[str]:
    """Decisions and rows that a page names, and that are not there."""
    decisions = re.findall(r"^\| (D-\d\d) ", (ROOT / "docs/protocol-decisions.md").read_text(), re.MULTILINE)
    return set(re.findall(r"\b[A-Z]{1,2}-\d\d\b", page)) - {row[0] for row in rows_of(page)} - set(decisions)


@cache
def functions_in(path: Path) -> frozenset[str]:
    """The tests that pytest would collect from a file: functions of the module, with parameters or without."""
    body = ast.parse(path.read_text()).body
    functions = [each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(each.name for each in functions if each.name.startswith("test_"))
