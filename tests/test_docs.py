"""The documents say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.readme import BEGIN, END, section
from broker.errors import CODE_WORDS

ROOT = Path(__file__).resolve().parents[1]

CODES = {
    0x001: "INVALID_SETUP",
    0x002: "UNSUPPORTED_SETUP",
    0x003: "REJECTED_SETUP",
    0x004: "REJECTED_RESUME",
    0x101: "CONNECTION_ERROR",
    0x102: "CONNECTION_CLOSE",
    0x202: "REJECTED",
    0x203: "CANCELED",
    0x204: "INVALID",
}


def errors_table() -> str:
    rows = [f"| `{word}` | {CODES[code]} 0x{code:03x} | {text} |" for word, (code, text) in CODE_WORDS.items()]
    return "\n".join(["| code word | RSocket code | meaning, and what to do |", "|---|---|---|", *rows])


def test_every_code_word_stands_in_the_table_of_errors() -> None:
    assert errors_table() in (ROOT / "docs/errors.md").read_text()


def test_every_decision_that_the_code_cites_is_in_the_list() -> None:
    listed = set(re.findall(r"^\| (D-\d\d) ", (ROOT / "docs/protocol-decisions.md").read_text(), re.MULTILINE))
    for path in [*(ROOT / "broker").rglob("*.py"), *(ROOT / "client_sdk").rglob("*.py")]:
        for decision in re.findall(r"\bD-\d\d\b", path.read_text()):
            assert decision in listed, f"{path} cites {decision}"


def test_the_figures_in_the_readme_are_those_that_were_measured() -> None:
    assert BEGIN + section() + END in (ROOT / "README.md").read_text()


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists() or Path(target).is_absolute(), f"{page.name} links to {target}"
