"""What the site has beyond docs/: the README as its first page, and a reference of client_sdk made from docstrings.

Decides which names are public and on which page they stand: those of `client_sdk.__all__` on the page of the module
that defines them, and those of the modules that one imports by their own name. Their text is mkdocstrings's.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File

import client_sdk

ROOT: Final = Path(__file__).resolve().parents[2]
READ_FIRST: Final = (
    "guide.md",
    "cookbook.md",
    "services.md",
    "frameworks.md",
    "sync.md",
    "testing.md",
    "command-line.md",
    "rsocket-py.md",
    "tracing.md",
    "beside.md",
)
FIRST: Final = (
    "connecting",
    "client",
    "addresses",
    "scatter_gather",
    "retry",
    "state",
    "streams",
    "service",
    "run",
)  # pages of the reference
TITLES: Final = {  # of pages, where the name of the module says too little
    "connecting": "Connecting",
    "client": "Client: calls",
    "addresses": "Addresses",
    "scatter_gather": "Gathering answers",
    "retry": "Retries and hedging",
    "state": "States of a client",
    "streams": "Streams",
    "service": "Service: handlers",
    "run": "Running services",
    "codecs": "Codecs",
    "contract": "Methods of a contract",
    "credentials": "Credentials",
    "errors": "Errors",
    "payload": "Payload",
    "caller": "Who calls",
    "remote": "Calls of a contract",
    "sync": "Blocking API",
    "testing": "Testing",
    "tracing": "Tracing",
    "rsocket_py": "Programs for rsocket-py",
}
TOGETHER: Final = {  # modules on the page of another one
    "gather_answers": "scatter_gather",
    "group": "run",
    "hedge": "retry",
    "request": "service",
}
STRANGERS: Final = {"rsocket.payload": "client_sdk.payload"}  # where the types of a class of others are said
ONCE: Final = "    options: { inherited_members: false }\n"  # what all errors have is said of ClientError
_TABLE: Final = re.compile(r"<table>.*?</table>", re.DOTALL)
_PART_END: Final = re.compile(r"(/|_(?=\w{3})|::|\.(?=\w))")  # of names of files, tests, options
_SHORT: Final = re.compile(r"(?<!<pre>)<code>(?=[^<]{1,24}</code>)")  # an option, a name: no line ends within it
_LINE: Final = re.compile(
    r'<span id="[^"]*__span-\d+-\d+"(?=>(?:<span class="w">)?( +))'
)  # of a program, if it is indented
_DOCUMENT: Final = re.compile(r"(?<=[( ])docs/((?:[\w-]+/)*)([\w-]+)\.md")  # that a docstring names
OWN_MODULES: Final = ("sync", "testing", "tracing", "rsocket_py")  # what one imports as client_sdk.NAME


def reference() -> Iterator[tuple[str, str, list[str]]]:
    """(page, module to import from, full names of what stands there), in the order of reading."""
    own = [f"client_sdk.{name}" for name in OWN_MODULES]
    homes: dict[str, list[str]] = {}
    for name in client_sdk.__all__:
        homes.setdefault(home_of(getattr(client_sdk, name), "client_sdk"), []).append(name)
    pages: dict[str, list[str]] = {page: [] for page in FIRST}
    for home, names in sorted(homes.items()):
        in_source = [name for name in vars(importlib.import_module(home)) if name in names]
        if home not in own:
            page = home.split(".")[-1]
            pages.setdefault(TOGETHER.get(page, page), []).extend(f"{home}.{name}" for name in in_source)
    for page, names in pages.items():
        functions_first = sorted(names, key=lambda name: inspect.isclass(getattr(client_sdk, name.split(".")[-1])))
        yield page, "client_sdk", functions_first
    for home in own:
        module = importlib.import_module(home)
        full = [f"{home_of(getattr(module, name), home)}.{name}" for name in public_names(home)]
        yield home.split(".")[-1], home, full


def home_of(thing: object, otherwise: str) -> str:
    """The module in which a thing is defined; `otherwise` for one that does not know."""
    home: str = getattr(thing, "__module__", otherwise)
    return STRANGERS.get(home, home if home.startswith("client_sdk") else otherwise)


def public_names(module_name: str) -> list[str]:
    """What a module offers: its `__all__`, or the functions and classes that it defines."""
    module = importlib.import_module(module_name)
    named: list[str] | None = getattr(module, "__all__", None)
    if named is not None:
        return named
    found = [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__ == module_name
    ]
    return found


def on_config(config: Any) -> Any:
    """Puts the documents of client_sdk and its reference behind the first page."""
    documents = sorted(path.name for path in (ROOT / "docs/sdk").glob("*.md"))
    documents.sort(key=lambda name: READ_FIRST.index(name) if name in READ_FIRST else len(READ_FIRST))
    pages = [{TITLES.get(page, page): f"sdk/reference/{page}.md"} for page, _, _ in reference()]
    config.nav[1:1] = [
        {"Python": [f"sdk/{name}" for name in documents]},
        {"Reference": pages},
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """The pages that are in no file of docs/."""
    for page, home, names in reference():
        short = ", ".join(name.split(".")[-1] for name in names)
        text = f"# {TITLES.get(page, page)}\n\n```python\nfrom {home} import {short}\n```\n\n"
        text += "\n".join(f"::: {name}\n{ONCE if page == 'errors' else ''}" for name in names)
        files.append(File.generated(config, f"sdk/reference/{page}.md", content=text))
    files.append(File.generated(config, "index.md", content=front_page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """What a document links to outside of docs/ is named and not linked."""
    here = ROOT / "docs" / page.file.src_uri

    def named(match: re.Match[str]) -> str:
        target = (here.parent / match[2]).resolve()
        return match[0] if target.is_relative_to(ROOT / "docs") else match[1]

    return re.sub(r"\[([^\]]*)\]\((\.\./[^)#]*)[^)]*\)", named, markdown)


def on_page_content(html: str, page: Any = None, **_: Any) -> str:
    """For narrow screens: cells say which column they are of, names in them break where their parts end, and lines of
    programs say how far they are indented. Short names do not break anywhere. What docstrings name is linked."""
    if page is not None and page.file.src_uri.startswith("sdk/reference/"):
        html = _DOCUMENT.sub(r'<a href="../../\1\2.html">\2</a>', html)
    html = _SHORT.sub('<code class="short">', html)
    html = _LINE.sub(lambda line: f'{line[0]} style="--indent: {len(line[1])}"', html)
    return _TABLE.sub(_readable_table, html)


def on_post_template(html: str, template_name: str, **_: Any) -> str:
    """The page for addresses that are not there has its style on the disk, too. A server shows it for addresses in all
    folders, so there its links count from /."""
    if template_name != "404.html":
        return html
    base = '<script>location.protocol != "file:" && document.write("<base href=/>")</script>'
    return html.replace("<head>", f"<head>{base}", 1).replace('="/', '="')


def _readable_table(match: re.Match[str]) -> str:
    heads = [re.sub(r"<.*?>|\"", "", each).strip() for each in re.findall(r"<th[^>]*>(.*?)</th>", match[0], re.DOTALL)]

    def row(found: re.Match[str]) -> str:
        at = iter(heads[: found[0].count("<td")])

        def cell(begin: re.Match[str]) -> str:
            head = next(at, "")
            return f'<td data-head="{head}"' if head else "<td"

        return re.sub(r"<td(?=[ >])", cell, found[0])

    table = re.sub(r"<tr>.*?</tr>", row, match[0], flags=re.DOTALL)
    table = re.sub(r"(?<=<code>)[^<]*(?=</code>)", lambda name: _PART_END.sub(r"\1<wbr>", name[0]), table)
    return table.replace("\\|", "|")  # as it stands in a cell of Markdown, where Python-Markdown leaves it in code


def front_page() -> str:
    """The README; what it links to outside of docs/ is named and not linked."""
    text = (ROOT / "README.md").read_text().replace("](docs/", "](")
    return re.sub(
        r"\[([^\]]*)\]\((?!https?:|[\w/-]+\.(?:md|svg)|#)[^)]*\)|\[([^\]]*)\]\(benchmarks/[^)]*\)", r"\1\2", text
    )
