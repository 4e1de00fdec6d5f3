"""Which option somebody meant who wrote one that is none: the ends of mistakes."""

import difflib
from collections.abc import Sequence
from typing import Final

from broker.config.options import OPTIONS, SECTIONS, Tables
from broker.config.toml import either, toml_text

LISTEN: Final = '; write listen = ["tcp://HOST:PORT"] in [server], such as ["tcp://127.0.0.1:7878"]'
_ADDRESSES: Final = ("address", "addresses", "bind", "host", "port", "ports")  # what other servers have for `listen`
_ELSEWHERE: Final = 0.85  # so alike, of 1, must keys of different sections be: "chooser" and "choser", never "port"
_NOT_NEAR: Final = "; rsocket-broker check --options lists all"


def near_option(section: str, key: str) -> str:
    """As `near_name`, for a key that may stand in the wrong section, or be a section."""
    if section and key in SECTIONS:
        return f"; did you mean [{key}]?"
    if section in ("", "server") and key in _ADDRESSES:
        return LISTEN
    elsewhere = [doc.name for doc in OPTIONS.values() if doc.key == key]
    if elsewhere:
        return f"; did you mean {either(elsewhere)}?"
    for same_section in (True, False):
        names = {doc.key: doc.name for doc in OPTIONS.values() if doc.section == section or not same_section}
        begun = [name for name in names if same_section and name.startswith(key)]
        cutoff = 0.6 if same_section else _ELSEWHERE
        near = begun if len(begun) == 1 else difflib.get_close_matches(key, names, 1, cutoff)
        if near:
            return f"; did you mean {names[near[0]]}?"
    return _NOT_NEAR


def near_table_key(tables: Tables, key: str) -> str:
    """As `near_name`, for a key that only the sections of all services may have."""
    everywhere = [doc.name for doc in OPTIONS.values() if doc.key == key]
    if everywhere:
        return f"; {everywhere[0]} is one of all"
    own = near_name(key, list(tables.keys))
    if own is not _NOT_NEAR:
        return own
    others = {doc.key: doc.name for doc in OPTIONS.values()}
    near = difflib.get_close_matches(key, others, 1, _ELSEWHERE)
    return f"; did you mean {others[near[0]]}, which is one of all?" if near else own


def near_word(text: str, words: Sequence[str]) -> str:
    """`; did you mean "user"?`; empty where none is like it."""
    near = difflib.get_close_matches(text.lower(), words, 1)
    return f"; did you mean {toml_text(near[0])}?" if near else ""


def near_name(name: str, known: list[str], cutoff: float = 0.6) -> str:
    """`; did you mean server.listen?`, or where the known ones are listed."""
    near = difflib.get_close_matches(name, known, 1, cutoff)
    return f"; did you mean {near[0]}?" if near else _NOT_NEAR
