"""What this API is, for programs: the OpenAPI 3.1 document of all of its operations.

Decides how declarations become OpenAPI: what an operation is called and takes stands in the tables of `endpoints` and
`changes`, what it answers in its view, what it can refuse in `errors`. Nothing of these stands here.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from admin_api.access.roles import ANYBODY, needed_role
from admin_api.errors import MISSING, PROBLEM_TYPE, PROBLEMS, Problem
from admin_api.parameters import Parameter, Tags
from broker import VERSION

JSON_TYPE: Final = "application/json"
COMMON: Final = ("bad-parameter", "wrong-host", "internal")  # what each operation can refuse
# And each that needs a role.
GUARDED: Final = ("no-token", "wrong-token", "role-not-enough", "too-many-requests", "auth-unavailable")
TOKEN: Final = "token"  # the name of the way to say who asks
ROOT: Final = "/api/v1"
ABOUT_TOKENS: Final = "rsb_… or a JWT; who looks needs none on the broker's machine, nor elsewhere where none is known"

_FILLED: Final = re.compile(r"\{(\w+):([^}]+)\}")  # a part of a path to fill in, and what fits there
_ANY: Final = {"description": "any value"}  # of an `object`, as the values of options are
_COMPONENTS: Final = "#/components/schemas/{name}"


class Operation(NamedTuple):
    """A method and a path, and what both ends may say there."""

    method: str
    path: str  # as aiohttp has it: /api/v1/routes/{id:[^/]+}
    about: str  # a few words for people
    answer: Any = None  # the type of the view that is the answer; None: it is no JSON
    parameters: Sequence[Parameter] = ()
    body: Any = None  # the type of the body; None: it takes none
    refuses: Sequence[str] = ()  # code words of PROBLEMS; those of COMMON as well
    media_type: str = JSON_TYPE  # of the answer

    @property
    def template(self) -> str:
        """The path as OpenAPI has it: /api/v1/routes/{id}."""
        return _FILLED.sub(r"{\1}", self.path)

    @property
    def role(self) -> str:
        """That it needs."""
        return needed_role(self.method, self.template)


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The whole document, as JSON."""
    operations = list(operations)
    types = {each for operation in operations for each in (operation.answer, operation.body) if each is not None}
    kinds = sorted({*types, Problem}, key=str)
    schemas, components = msgspec.json.schema_components(kinds, schema_hook=lambda _: _ANY, ref_template=_COMPONENTS)
    by_kind = dict(zip(kinds, schemas, strict=True))
    components[Problem.__name__]["properties"]["code"]["enum"] = [*PROBLEMS]
    names = {name for operation in operations for name in _refusals(operation).values()}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.template, {})[operation.method.lower()] = _operation(operation, by_kind, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rsocket-broker admin API",
            "version": VERSION,
            "description": "HEAD is answered wherever GET is. Fields may be added; others keep name and meaning.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {name: _refusal(name, by_kind[Problem]) for name in sorted(names)},
            "securitySchemes": {TOKEN: {"type": "http", "scheme": "bearer", "description": ABOUT_TOKENS}},
        },
    }


def _operation(operation: Operation, schemas: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    shown = {
        "operationId": "_".join([operation.method.lower(), *re.findall(r"\w+", operation.template)]),
        "summary": operation.about,
        "parameters": [
            *(_path_parameter(*each) for each in _FILLED.findall(operation.path)),
            *map(_query_parameter, operation.parameters),
        ],
        "responses": _responses(operation, schemas),
        "security": [{}] if operation.role == ANYBODY else [{TOKEN: [operation.role]}],
    }
    if operation.body is not None:
        shown["requestBody"] = {
            "content": {JSON_TYPE: {"schema": schemas[operation.body]}},
            "required": bool(components[operation.body.__name__]["required"]),
        }
    return shown


def _path_parameter(name: str, pattern: str) -> dict[str, Any]:
    shown = {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": f"^{pattern}$"}}
    return shown | ({"description": "may hold slashes, as %2F"} if pattern.startswith(".") else {})


def _query_parameter(parameter: Parameter) -> dict[str, Any]:
    shown = {"name": parameter.name, "in": "query", "description": parameter.about, "schema": parameter.schema}
    return shown | ({"style": "form", "explode": True} if isinstance(parameter, Tags) else {})


def _responses(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    """By status."""
    answer: dict[str, Any] = {"description": operation.about, "content": {operation.media_type: {}}}
    if operation.answer is not None:
        answer["content"][JSON_TYPE] = {"schema": schemas[operation.answer]}
        answer["headers"] = {
            MISSING: {"description": "numbers of workers that the answer is without", "schema": {"type": "string"}}
        }
    refusals = {status: {"$ref": f"#/components/responses/{name}"} for status, name in _refusals(operation).items()}
    return {"200": answer, **refusals}


def _refusals(operation: Operation) -> dict[str, str]:
    """By status the code words, as the name of a component; `default` is what HTTP itself refuses, with any status."""
    by_status: dict[str, list[str]] = {}
    guarded = () if operation.role == ANYBODY else GUARDED
    for word in sorted({*COMMON, *guarded, *operation.refuses}, key=[*PROBLEMS].index):
        by_status.setdefault(str(PROBLEMS[word][0]), []).append(word)
    return {status: ".".join(words) for status, words in sorted(by_status.items())} | {"default": "bad-request"}


def _refusal(name: str, problem: dict[str, Any]) -> dict[str, Any]:
    """A component of this name. `problem`: the schema of its body."""
    titles = "; ".join(f"{word}: {PROBLEMS[word][1]}" for word in name.split("."))
    return {"description": titles, "content": {PROBLEM_TYPE: {"schema": problem}}}
