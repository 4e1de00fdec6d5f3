"""The reference of all options: the tables of `docs/configuration.md`, and what `check --options` prints."""

import re
import textwrap
from typing import Final

from broker.config.option import MAX_NAME_BYTES
from broker.config.options import MAX_SERVICES, OPTIONS, SECTIONS, SERVICE_KEYS

CELL_WORDS: Final = 30  # of a table cell; more sentences stand below the table
SERVICE_TEXT: Final = (
    "Options of one service, NAME, which override those of `[routing]` and `[protection]` for its routes. At most "
    f"{MAX_SERVICES} services, with names of 1 to {MAX_NAME_BYTES} bytes, quoted where TOML requires it. Only in the "
    "file: there are no variables and flags for them."
)


def options_markdown() -> str:
    """The tables of `docs/configuration.md`; a test holds the two equal."""
    lines: list[str] = []
    for section, kind in SECTIONS.items():
        lines += [f"### [{section}]", "", kind.__doc__ or "", ""]
        lines += ["| key, flag | default | unit | takes | what and why | example |", "|---|---|---|---|---|---|"]
        details: list[str] = []
        for doc in OPTIONS.values():
            if doc.section == section:
                what, rest = _for_cell(doc.option.why)
                key = f"`{doc.key}`, `{doc.option.flag}`" if doc.option.flag else f"`{doc.key}`"
                cells = [key, f"`{doc.default_text}`", doc.unit, doc.takes, what]
                lines.append(f"| {' | '.join(cells)} | `{doc.option.example}` |")
                if rest:
                    details.append(f"- `{doc.key}`: {rest}")
        lines += ["", *details, ""] if details else [""]
    keys = ", ".join(f"`{key}`" for key in SERVICE_KEYS)
    lines += ["### [service.NAME]", "", SERVICE_TEXT, "", f"Keys: {keys}.", ""]
    lines += ["```toml", *_service_toml(), "```", ""]
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
    lines += textwrap.wrap(SERVICE_TEXT.replace("`", ""), 110, initial_indent="# ", subsequent_indent="# ")
    lines += ["#", *(f"# {line}" for line in _service_toml()), ""]
    return "\n".join(lines)


def _for_cell(text: str) -> tuple[str, str]:
    """The sentences at the beginning of a text that fit into a cell, and the rest of it."""
    sentences = re.split(r"(?<=\.) ", text)
    fitting = 1
    while fitting < len(sentences) and len(" ".join(sentences[: fitting + 1]).split()) <= CELL_WORDS:
        fitting += 1
    return " ".join(sentences[:fitting]), " ".join(sentences[fitting:])


def _service_toml() -> list[str]:
    """A table of a service with all that may stand in it, as an example."""
    return [
        '[service."orders.eu"]',
        *(f"{key} = {doc.option.example}  # default: {doc.name}" for key, doc in SERVICE_KEYS.items()),
    ]
