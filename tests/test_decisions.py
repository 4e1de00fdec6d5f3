"""docs/protocol-decisions.md: every decision is cited in the code, and every citation has a decision."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs/protocol-decisions.md").read_text()
SOURCES = ("rsocket_wire", "broker", "client_sdk", "admin_api", "spark_sink")
OTHERS = ("tests", "benchmarks", "examples", "docs")
TYPES = (".py", ".js", ".md", ".toml")
TITLE = re.compile(r"^## (D-\d\d) (.+)$", re.MULTILINE)
ROW = re.compile(r"^\| (D-\d\d) \| \[([^\]]+)\]\(#([^)]+)\) \| (.+) \|$", re.MULTILINE)
NAMES: dict[str, str] = dict(TITLE.findall(TEXT))


def files(folders: tuple[str, ...]) -> Iterator[Path]:
    """Texts in these folders, and the README; what npm installed is not ours."""
    yield ROOT / "README.md"
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in TYPES and "node_modules" not in path.parts:
                yield path


@functools.cache
def cited_in(path: Path) -> set[str]:
    """`# D-08`, and the tests whose names begin with `test_d_08_`."""
    text = path.read_text()
    return set(re.findall(r"\bD-\d\d\b", text)) | {f"D-{number}" for number in re.findall(r"def test_d_(\d\d)_", text)}


def test_every_decision_has_one_title_and_one_row_with_the_same_words() -> None:
    titles = TITLE.findall(TEXT)
    assert [(id, name) for id, name, _, _ in ROW.findall(TEXT)] == titles
    assert [id for id, _ in titles] == [f"D-{number:02d}" for number in range(1, len(titles) + 1)]


def test_links_of_the_rows_lead_to_the_titles() -> None:
    for id, name, anchor, _ in ROW.findall(TEXT):
        assert anchor == re.sub(r"[^\w\- ]", "", f"{id} {name}".lower()).replace(" ", "-")


def test_every_decision_is_cited_where_it_is_obeyed() -> None:
    cited = {id for path in files(SOURCES) if path.suffix == ".py" for id in cited_in(path)}
    assert set(NAMES) - cited == set()


def test_every_decision_that_is_cited_is_in_the_document() -> None:
    for path in files(SOURCES + OTHERS):
        assert cited_in(path) <= set(NAMES), path


def test_modules_of_the_rows_exist() -> None:
    for id, _, _, where in ROW.findall(TEXT):
        modules = re.findall(r"`([^`]+)`", where)
        assert modules, id
        for module in modules:
            assert (ROOT / f"{module}.py").is_file(), f"{id}: there is no module {module}"
