"""The documents say what the code does."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path

from benchmarks.readme import BEGIN, END, section
from client_sdk.testing import local_broker
from rsocket_wire.errors import CODE_WORDS
from tests.test_guide import RUN_S, WRITTEN_URL, start_program, wait_until_served

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]

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


def test_no_line_of_text_stands_twice_in_a_document() -> None:
    """A merge that keeps both sides makes two; they begin alike, so the first half of a long line is compared."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        begins = [line[:60] for line in text.splitlines() if len(line) >= 60 and not line.startswith(("|", "    "))]
        assert [each for each in begins if begins.count(each) > 1] == [], page.name


def test_the_figures_in_the_readme_are_those_that_were_measured() -> None:
    assert BEGIN + section() + END in (ROOT / "README.md").read_text()


def test_links_between_documents_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists() or Path(target).is_absolute(), f"{page.name} links to {target}"


def programs(page: Path) -> list[str]:
    """The blocks of Python in a document."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def test_all_python_in_the_documents_compiles() -> None:
    for page in PAGES:
        for program in programs(page):
            compile(program, page.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


async def test_the_programs_of_the_readme_do_what_it_says(tmp_path: Path) -> None:
    """With a real broker; only the URL is another one than in the text."""
    service_text, caller_text = programs(ROOT / "README.md")
    async with local_broker() as url, asyncio.timeout(RUN_S):
        for name, text in (("service.py", service_text), ("caller.py", caller_text)):
            assert text.count(WRITTEN_URL) == 1
            (tmp_path / name).write_text(text.replace(WRITTEN_URL, url))
        service = await start_program(tmp_path / "service.py")
        caller: asyncio.subprocess.Process | None = None  # None until somebody serves
        try:
            await wait_until_served(url)
            caller = await start_program(tmp_path / "caller.py")
            output, log = await caller.communicate()
            assert service.returncode is None
        finally:
            for process in (service, caller):
                if process is not None and process.returncode is None:
                    process.kill()
                    await process.wait()
    assert (caller.returncode, log.decode(), output.decode().splitlines()) == (
        0,
        "",
        ["b'order taken: a book'", "b'a book taken'", "b'a book packed'", "b'a book sent'", "b'order taken: a lamp'"],
    )
