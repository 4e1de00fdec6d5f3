"""The documents say what the code does."""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
import textwrap
from pathlib import Path

import client_sdk.errors
from admin_api.errors import PROBLEMS
from benchmarks.readme import BEGIN, END, section
from broker.config.load import load
from broker.config.sections.samwise import RetryOptions
from client_sdk.errors import CONNECTION_ADVICE, OWN_WORDS, ApplicationError, ClientError
from client_sdk.gateways.samwise.values import Refused
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
    rows = [
        f'| <a id="{word}"></a>`{word}` | {CODES[code]} 0x{code:03x} | {text} |'
        for word, (code, text) in CODE_WORDS.items()
    ]
    return "\n".join(["| code word | RSocket code | meaning, and what to do |", "|---|---|---|", *rows])


def test_every_code_word_stands_in_the_table_of_errors() -> None:
    assert errors_table() in (ROOT / "docs/errors.md").read_text()


def anchors(page: str) -> list[str]:
    """The code words that a page explains."""
    return re.findall(r'<a id="(.*?)"></a>`', (ROOT / page).read_text())


def test_each_error_leads_to_the_row_of_its_code_word() -> None:
    own = {
        each("").page
        for each in vars(client_sdk.errors).values()
        if isinstance(each, type) and issubclass(each, ClientError) and each is not ClientError
    }
    pages = own | {ClientError("", word=word).page for word in [*CONNECTION_ADVICE, *CODE_WORDS, *OWN_WORDS]}
    assert pages <= {f"docs/errors.md#{word}" for word in anchors("docs/errors.md")}
    assert ApplicationError("", word="out-of-stock").page == "docs/errors.md#application-error"
    assert set(anchors("docs/admin-api.md")) == set(PROBLEMS)
    for page in ("docs/errors.md", "docs/admin-api.md"):
        assert len(anchors(page)) == len(set(anchors(page)))


def words_of_the_gateway() -> set[str]:
    """What stands before the colon where the Samwise gateway refuses something, as far as its source spells it out:
    `malformed request` of f"{MALFORMED}: {count} frames"."""
    found = set[str]()
    for path in (ROOT / "client_sdk/gateways/samwise").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "Refused":
                continue
            text = call.args[0].values[0] if isinstance(call.args[0], ast.JoinedStr) else call.args[0]
            if isinstance(text, ast.Constant):
                found.add(str(text.value).partition(":")[0])
            elif isinstance(text, ast.FormattedValue) and isinstance(text.value, ast.Name) and text.value.id.isupper():
                found.add(getattr(importlib.import_module(module), text.value.id))
    return found


def test_the_texts_and_reasons_of_the_samwise_gateway_stand_in_the_table_of_errors() -> None:
    table = (
        (ROOT / "docs/errors.md").read_text().partition("## Answers of the Samwise gateway")[2].partition("\n## ")[0]
    )
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]
    words = {word for first, *_ in rows for word in re.findall("`(.*?)`", first)}
    reasons = {word for _, second, _ in rows for word in re.findall("`(.*?)`", second)}
    told = re.search(r"one word for counters: (.*?)\.", str(Refused.__doc__), re.DOTALL)
    assert told is not None
    assert reasons == set(re.split(r",\s+", told[1]))
    spelt_out = words_of_the_gateway()
    assert len(spelt_out) > 8
    assert spelt_out <= words
    sources = "".join(path.read_text() for path in (ROOT / "client_sdk/gateways/samwise").rglob("*.py"))
    assert [word for word in words if f'"{word}' not in sources] == []


def test_the_file_for_users_of_samd_is_a_configuration_and_says_what_theirs_says(tmp_path: Path) -> None:
    text = (ROOT / "docs/samwise.md").read_text().partition("So the whole file is\n\n")[2].partition("\n\nTimes and")[0]
    (tmp_path / "gateway.toml").write_text(textwrap.dedent(text))
    options = load(str(tmp_path / "gateway.toml"), {}, {}).samwise
    assert (options.endpoints, options.backend) == (("ipc:///var/run/samwise/sam_ipc",), "rabbitmq")
    assert options.retry == RetryOptions()  # which are those of samd
    assert [(each.host, each.port) for each in options.rabbitmq.values()] == [("localhost", 5672), ("localhost", 5673)]


def test_no_text_of_a_document_is_taken_for_a_tag() -> None:
    """Readers of HTML would not see it."""
    code = re.compile(r"^ *```.*?^ *```$|(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)|^    .*?$", re.MULTILINE | re.DOTALL)
    for page in PAGES:
        text = code.sub("", page.read_text())
        assert re.findall(r"<(?!(?:br|/a|a id=\"[\w-]+\"|!--[^>]*--)>)\w.*", text) == [], page.name


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
    says = re.findall(r"^```text\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
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
    assert (caller.returncode, log.decode(), [output.decode()]) == (0, "", says)
