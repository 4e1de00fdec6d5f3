"""What docstrings and comments name in backticks with a dot is there: a module's name, a class's member, an option."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from broker.config.options import OPTIONS

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("rsocket_wire", "broker", "client_sdk", "admin_api", "spark_sink")
REFERENCE = re.compile(r"`(\w+)\.(\w+)(?:\(\))?`")
OTHERS = {"rsocket", "reactivestreams", "concurrent", "bytes", "AwaitableRSocket", "DataFrameReader", "service"}


class Tree:
    """The names that each module, package and class has."""

    def __init__(self) -> None:
        self.files = {path: path.read_text() for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}
        self.members: dict[str, set[str]] = defaultdict(set)  # of classes, and of modules by their last name
        self.bases: dict[str, set[str]] = defaultdict(set)
        for path, source in self.files.items():
            module = ast.parse(source)
            name = path.parent.name if path.name == "__init__.py" else path.stem
            self.members[name] |= set(names_in(module.body))
            self.members[path.parent.name] |= {name, *(each.name for each in path.parent.iterdir() if each.is_dir())}
            for node in ast.walk(module):
                if isinstance(node, ast.ClassDef):
                    self.members[node.name] |= set(names_in(node.body)) | set(attributes_in(node))
                    self.bases[node.name] |= {base.id for base in node.bases if isinstance(base, ast.Name)}

    def has(self, owner: str, name: str) -> bool:
        """`owner` is a module, a package, a class, or what one of that class is called: `peer` is a Peer."""
        if owner in OTHERS or f"{owner}.{name}" in OPTIONS:
            return True
        owners = (owner, owner.capitalize())
        return any(
            name in self.members[each] or any(self.has(base, name) for base in self.bases[each]) for each in owners
        )


def names_in(body: list[ast.stmt]) -> Iterator[str]:
    """What these statements define or import."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
        else:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name):
                    yield node.id
                elif isinstance(node, ast.alias):
                    yield (node.asname or node.name).split(".")[-1]


def attributes_in(node: ast.ClassDef) -> Iterator[str]:
    """What its methods set or use of `self`."""
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in ("self", "cls"):
            yield each.attr


def prose_of(source: str) -> Iterator[str]:
    """Its docstrings and comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@cache
def tree() -> Tree:
    return Tree()


def mistakes_of(source: str) -> list[str]:
    """References of the prose to what is not there."""
    if not REFERENCE.search(source):
        return []
    found = (match for text in prose_of(source) for match in REFERENCE.finditer(text))
    return [match[0] for match in found if not tree().has(match[1], match[2])]


def test_what_prose_refers_to_is_there() -> None:
    wrong = {str(path.relative_to(ROOT)): mistakes_of(source) for path, source in tree().files.items()}
    assert {path: found for path, found in wrong.items() if found} == {}


def test_a_reference_to_what_is_gone_is_told() -> None:
    source = (
        '"""See `Engine.give`, `peer.forward` and `Engine.gone`."""\nx = 1  # `nowhere.x`, `limits.max_frame_bytes`\n'
    )
    assert mistakes_of(source) == ["`Engine.gone`", "`nowhere.x`"]
