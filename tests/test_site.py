"""What the site makes of documents beyond what MkDocs does (docs/site/hooks.py)."""

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.conftest import missing

HOOKS = Path(__file__).resolve().parents[1] / "docs/site/hooks.py"


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """The module, which needs MkDocs."""
    if importlib.util.find_spec("mkdocs") is None:
        missing("no mkdocs: make .venv/docs installs it")
    spec = importlib.util.spec_from_file_location("site_hooks", HOOKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_of_programs_say_how_far_they_are_indented(hooks: ModuleType) -> None:
    lines = '<span id="__span-0-1">a</span><span id="__span-0-2">    b</span>'
    assert hooks.on_page_content(lines) == lines.replace('-2"', '-2" style="--indent: 4"')


def test_lines_of_examples_in_docstrings_say_it_too(hooks: ModuleType) -> None:
    line = '<span id="client_sdk.client.Client--__span-0-1">    b</span>'
    assert hooks.on_page_content(line) == line.replace('-1"', '-1" style="--indent: 4"')


def test_documents_that_docstrings_name_are_linked_from_the_reference(hooks: ModuleType) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="sdk/reference/client.md"))
    made = hooks.on_page_content("<p>a contract (docs/sdk/contracts.md)</p>", page=page)
    assert made == '<p>a contract (<a href="../../sdk/contracts.html">contracts</a>)</p>'
    assert hooks.on_page_content("<p>see docs/limits.md</p>") == "<p>see docs/limits.md</p>"


def test_a_bar_in_code_of_a_cell_has_no_backslash(hooks: ModuleType) -> None:
    made = hooks.on_page_content("<table><tr><td><code>a word \\| another word in code</code></td></tr></table>")
    assert "<code>a word | another word in code</code>" in made


def test_short_names_do_not_break(hooks: ModuleType) -> None:
    made = hooks.on_page_content("<p><code>--name=</code> and <code>rsocket-broker ctl routes --json</code></p>")
    assert made == '<p><code class="short">--name=</code> and <code>rsocket-broker ctl routes --json</code></p>'


def test_the_first_page_links_to_the_picture(hooks: ModuleType) -> None:
    assert "](images/five-models.svg)" in hooks.front_page()


def test_the_page_for_addresses_that_are_not_there_has_its_style_on_the_disk(hooks: ModuleType) -> None:
    made = hooks.on_post_template('<head><link href="/site/wide.css">', template_name="404.html")
    assert 'href="site/wide.css"' in made
    assert "<base href=/>" in made
    assert hooks.on_post_template('<a href="/">', template_name="sitemap.xml") == '<a href="/">'
