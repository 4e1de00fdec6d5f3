"""The reference of all options: the tables of `docs/configuration.md`, and what `check --options` prints."""

import re
import textwrap
from typing import Final

from broker.config.options import OPTIONS, SECTIONS, SERVICE_KEYS, TABLES, OptionDoc, Tables

CELL_WORDS: Final = 30  # of a table cell; more sentences stand below the table
EXAMPLE_NAMES: Final = {
    "service": '"orders.eu"',
    "role": "orders",
    "samwise.rabbitmq": "rabbit-1",
    "samwise.exchange": "orders",
    "feed.broker": "rabbit-1",
    "feed.post": "data",
    "feed.subscribe": "mirror",
    "feed.winnow": "first",
}


def options_markdown() -> str:
    """The tables of `docs/configuration.md`; a test holds the two equal."""
    lines: list[str] = []
    for section, kind in SECTIONS.items():
        lines += [f"### [{section}]", "", kind.__doc__ or "", ""]
        lines += _table([doc for doc in OPTIONS.values() if doc.section == section])
    for tables in TABLES.values():
        lines += [f"### [{tables.place}.NAME]", "", tables.text, ""]
        if tables.keys is SERVICE_KEYS:  # their tables stand above
            lines += [f"Keys: {', '.join(f'`{key}`' for key in tables.keys)}.", ""]
        else:
            lines += _table(list(tables.keys.values()))
        lines += ["```toml", *_example(tables), "```", ""]
    return "\n".join(lines)


def options_toml() -> str:
    """A configuration file that holds every option at its default, with unit, reason and example beside it."""
    lines: list[str] = []
    for section, kind in SECTIONS.items():
        lines += [f"[{section}]  # {kind.__doc__}", ""]
        for doc in OPTIONS.values():
            if doc.section == section:
                lines += textwrap.wrap(doc.option.why, 110, initial_indent="# ", subsequent_indent="# ")
                unit = f" ({doc.unit})" if doc.unit else ""
                lines += [f"# {doc.takes}{unit}; example: {doc.option.example}; {doc.variable}"]
                lines += [f"{doc.key} = {doc.default_text}", ""]
    for tables in TABLES.values():
        lines += textwrap.wrap(tables.text.replace("`", ""), 110, initial_indent="# ", subsequent_indent="# ")
        lines += ["#", *(f"# {line}" for line in _example(tables)), ""]
    return "\n".join(lines)


def _table(docs: list[OptionDoc]) -> list[str]:
    """A table of options, and below it what does not fit into it."""
    lines = ["| key, flag | default | unit | takes | what and why | example |", "|---|---|---|---|---|---|"]
    details: list[str] = []
    for doc in docs:
        what, rest = _for_cell(doc.option.why)
        key = f"`{doc.key}`, `{doc.option.flag}`" if doc.option.flag else f"`{doc.key}`"
        cells = [key, f"`{doc.default_text}`", doc.unit, doc.takes, what]
        lines.append(f"| {' | '.join(cells)} | `{doc.option.example}` |")
        if rest:
            details.append(f"- `{doc.key}`: {rest}")
    return [*lines, "", *details, ""] if details else [*lines, ""]


def _for_cell(text: str) -> tuple[str, str]:
    """The sentences at the beginning of a text that fit into a cell, and the rest of it."""
    sentences = re.split(r"(?<=\.) ", text)
    fitting = 1
    while fitting < len(sentences) and len(" ".join(sentences[: fitting + 1]).split()) <= CELL_WORDS:
        fitting += 1
    return " ".join(sentences[:fitting]), " ".join(sentences[fitting:])


def _example(tables: Tables) -> list[str]:
    """A table with all that may stand in it, as an example."""
    return [
        f"[{tables.place}.{EXAMPLE_NAMES[tables.place]}]",
        *(
            f"{key} = {doc.option.example}  # default: {doc.default_text if doc.name not in OPTIONS else doc.name}"
            for key, doc in tables.keys.items()
        ),
    ]
