"""A TOML text as people see it: on which line a key stands, what is no TOML, and how a value is quoted to them.

tomllib gives values and forgets where they stood; this keeps the places and no values. It knows no option: a key is
any dotted name, and whether it means anything is decided in `broker.config.load`.
"""

import json
import re
import tomllib
from collections.abc import Collection, Sequence
from typing import Final

_BARE_TEXT: Final = re.compile(
    r"(?:^[^=]*=[ \t]*\[?|^(?=[^=]+$))[ \t]*((?!true|false)[a-z]|[~.]{0,2}/|:?\d+(\.\d+){2}|[\d.]*:\d)", re.IGNORECASE
)
_VARIABLE: Final = re.compile(r"(export[ \t]+)?RSB_[A-Z_]+=")
_AS_TOML: Final = 'a line [server], then listen = ["tcp://127.0.0.1:7878"]; rsocket-broker check --options prints one'
_WORDS: Final = {
    **dict.fromkeys(("True", "TRUE", "yes", "Yes", "on"), "write true"),
    **dict.fromkeys(("False", "FALSE", "no", "No", "off"), "write false, or a text in quotes"),
    **dict.fromkeys(("null", "None", "nil", ""), "an option without a value is left out"),
}
MAX_SHOWN: Final = 80  # characters of a wrong value that a mistake repeats


class TomlLines:
    """Which lines of a TOML text hold which key: tomllib does not tell.

    A scan for headers and keys that knows strings, comments and brackets only well enough to step over values; the
    text is known to be TOML. Keys within an inline table have the line of the table.
    """

    _KEY: Final = r"(?:[A-Za-z0-9_-]+|\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*')"
    _PATH: Final = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
    _HEADER: Final = re.compile(rf"[ \t]*\[\[?[ \t]*({_PATH})[ \t]*\]")
    _ASSIGNMENT: Final = re.compile(rf"[ \t]*({_PATH})[ \t]*=")
    _PIECE: Final = re.compile(
        r'"""(?:\\.|[^\\])*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'|#[^\n]*|.", re.DOTALL
    )

    def __init__(self, text: str) -> None:
        self._text: Final = text
        # dotted key -> where it begins, and where its value ends; of a section, its header
        self._spans: Final[dict[str, tuple[int, int]]] = {}
        at, section = 0, ""
        while at < len(text):
            header = self._HEADER.match(text, at)
            assignment = self._ASSIGNMENT.match(text, at)
            end = self._end_of_line(assignment.end() if assignment else at)
            found = header or assignment
            if found:
                name = self._dotted(found.group(1)) if header else section + self._dotted(found.group(1))
                section = f"{name}." if header else section
                while name:  # `server.listen = …` is where `server` begins, too
                    self._spans.setdefault(name, (found.start(1), end))
                    name = name.rpartition(".")[0]
            at = end

    def find(self, name: str, needle: str = "") -> int:
        """Line of this dotted key, or of what holds it; with a `needle`, the line in its value that quotes that."""
        while name and name not in self._spans:
            name, needle = name.rpartition(".")[0], ""
        if not name:
            return 0
        start, end = self._spans[name]
        hits = [self._text.rfind(quote + needle + quote, start, end) for quote in "\"'"] if needle else []
        return self._text.count("\n", 0, max([start, *hits])) + 1

    def _end_of_line(self, at: int) -> int:
        """Where the line ends that `at` is in, with the lines over which its value goes on."""
        depth = 0
        while at < len(self._text):
            piece = self._PIECE.match(self._text, at)
            assert piece  # its last alternative is any character
            at = piece.end()
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(piece.group(), 0)
            if piece.group() == "\n" and depth <= 0:
                break
        return at

    @classmethod
    def _dotted(cls, path: str) -> str:
        """`"server" . listen` without quotes, blanks and escapes."""
        keys = re.findall(cls._KEY, path)
        return ".".join(next(iter(tomllib.loads(f"{key} = 0"))) if key[0] == '"' else key.strip("'") for key in keys)


def syntax_mistake(text: str, error: str, places: Collection[str] = (), is_quoted: bool = True) -> tuple[int, str]:
    """The line (1 is the first) of which tomllib's `error` about the text speaks, and a sentence, which quotes that
    line and says what to write.

    `places`: what stands in front of names of tables, as `service`. `is_quoted`: False where nothing of the line may
    be shown.
    """
    place = re.search(r" \(at line (\d+), column (\d+)\)$", error)
    lines = text.rstrip("\n").split("\n")
    line = int(place.group(1)) if place else len(lines)
    said = error[: place.start()] if place else error.removesuffix(" (at end of document)")
    shown = lines[line - 1].strip() if line <= len(lines) else ""
    advice = _advice(said, lines, line, shown, places)
    if not is_quoted:
        value, said_words = (set(re.findall(r"\w+", each)) for each in (shown.partition("=")[2] or shown, advice))
        return line, f"invalid TOML: {said}{'' if value & said_words else advice}"
    return line, f"invalid TOML: {said}: {shown_value(shown)}{advice}"


def _advice(said: str, lines: Sequence[str], line: int, shown: str, places: Collection[str]) -> str:
    """What to write instead of the line, `shown`, of which tomllib has said that."""
    earlier = [each.strip() for each in lines[: line - 1]]
    key, sign, value = (each.strip() for each in shown.partition("="))
    if line <= 2 and (other := _other_format(lines)):
        return other
    header = re.match(r"\[[^\[\]]+\]", shown)
    if header and said.startswith("Cannot declare") and header[0] in earlier:
        return f"; {header[0]} stands in line {earlier.index(header[0]) + 1} already, its keys belong there"
    if said.startswith("Cannot overwrite"):
        first = next((number for number, each in enumerate(earlier, 1) if re.match(rf"{re.escape(key)}\s*=", each)), 0)
        return f"; {key} stands in line {first} already, leave one of them out" if first else ""
    if said.startswith("Expected ']'") and (name := re.fullmatch(r"(\[{1,2})([^\[\]\"']+?)(\]{0,2})(\s*#.*)?", shown)):
        return f"; write {name[1]}{_quoted_name(name[2].strip(), places)}{']' * len(name[1])}"
    if shown.startswith((";", "//")):
        return "; a comment begins with #"
    if sign and re.fullmatch(r"[+-]?(\.\d+|\d+\.|\d+,\d+)", value):
        return "; a number is written as in 0.5"
    if sign and value in _WORDS:
        return f"; {_WORDS[value]}"
    if sign and (number := re.fullmatch(r"([0-9][0-9_.,]*)\s*([A-Za-z%]+)\s*(#.*)?", value)):
        return f'; write {number[1]}, or "{number[1]}{number[2]}" where the option takes a text with a unit'
    if said.startswith("Expected newline") and re.search(r"[\w\"\])'][;,]$", shown):
        return f"; leave out the {shown[-1]} at its end"
    if said.startswith("Illegal character '\\n'"):
        return "; a text ends in its line, with the quote that it began with"
    if said.startswith(("Invalid value", "Expected newline", "Unclosed array")) and _BARE_TEXT.search(shown):
        return '; a text needs quotes, as in "text", or ["text"] for a list'
    if said.startswith("Unclosed array"):
        begun = [number for number, each in enumerate(lines[:line], 1) if re.match(r"[^#=]+=\s*\[", each)]
        return f"; the list of line {begun[-1]} has no ] at its end, or no comma between two items" if begun else ""
    if said.startswith("Expected '='") and re.match(r"[A-Za-z0-9_-]+:(?:[ \t]|$)", shown):
        if any(re.match(r"\[[^\[{]", each) for each in earlier):
            return (
                f"; write {shown.partition(':')[0]} = VALUE, with the value as rsocket-broker check --options shows it"
            )
        return f"; this looks like YAML, the configuration is TOML: {_AS_TOML}"
    if said.startswith("Expected '='") and not sign:
        return f"; the configuration is TOML: {_AS_TOML}" if line == 1 else "; a line is KEY = VALUE or [SECTION]"
    return ""


def _other_format(lines: Sequence[str]) -> str:
    """What the whole text may be instead."""
    first = next((each.strip() for each in lines if each.strip()), "")
    if first.startswith(("{", "[{")):
        return f"; this is JSON, the configuration is TOML: {_AS_TOML}"
    if first.startswith("<"):
        return f"; this is XML, the configuration is TOML: {_AS_TOML}"
    if _VARIABLE.match(first):
        return f"; this is a variable of the environment, the configuration is TOML: {_AS_TOML}"
    if first == "---" or first.startswith("%YAML"):
        return f"; this looks like YAML, the configuration is TOML: {_AS_TOML}"
    return ""


def _quoted_name(header: str, places: Collection[str]) -> str:
    """`service."billing/v2"` of `service.billing/v2`."""
    place = next((each for each in sorted(places, key=len, reverse=True) if header.startswith(f"{each}.")), "")
    if place:
        return f"{place}.{toml_key(header[len(place) + 1 :])}"
    return ".".join(toml_key(each.strip()) for each in header.split("."))


def toml_text(value: object) -> str:
    """A value as one writes it in TOML; tables and dates as Python has them, they are in no option."""
    if value is None:
        return '"off"'
    return json.dumps(value, ensure_ascii=False, default=str)


def toml_key(name: str) -> str:
    """A key as one writes it in TOML: quoted where it must be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)


def shown_value(value: object) -> str:
    """A value in a mistake: as TOML, on one line, shortened; without what is in tables, which may be passwords."""
    text = re.sub(r"\{.+\}", "{…}", toml_text(value)) if isinstance(value, dict | list) else toml_text(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def either(words: Sequence[str]) -> str:
    """`a, b or c`."""
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
