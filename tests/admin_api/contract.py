"""The OpenAPI document as a contract: whether what a broker has answered is what the document says of it."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from admin_api.endpoints import operations
from admin_api.errors import PROBLEMS
from admin_api.openapi import JSON_TYPE, Operation, document

# What HTTP refuses at any path, and what is no path.
ANYWHERE = {"bad-request", "no-such-path", "method-not-allowed"}


def check_answer(method: str, path: str, body: Any) -> None:
    """The JSON of a success. `path`: without parameters."""
    validate(body, responses(operation_at(method, path))["200"]["content"][JSON_TYPE]["schema"])


def check_refusal(method: str, path: str, problem: dict[str, Any]) -> None:
    """A problem."""
    validate(problem, {"$ref": "#/components/schemas/Problem"})
    code = problem["code"]
    if code not in ANYWHERE:
        refusal = responses(operation_at(method, path))[str(PROBLEMS[code][0])]
        assert code in refusal["$ref"].rpartition("/")[2].split("."), f"{method} {path} does not declare {code}"


def operation_at(method: str, path: str) -> Operation:
    """The first that fits, as with the router."""
    return next(each for each in operations() if each.method == method and pattern(each.path).fullmatch(path))


def responses(operation: Operation) -> dict[str, Any]:
    """By status."""
    found: dict[str, Any] = ours()["paths"][operation.template][operation.method.lower()]["responses"]
    return found


@cache
def pattern(path: str) -> re.Pattern[str]:
    """Of a path as aiohttp has it: /api/v1/routes/{id:[^/]+}."""
    return re.compile(re.sub(r"\{\w+:([^}]+)\}", r"(?:\1)", path))


@cache
def ours() -> dict[str, Any]:
    """The document."""
    return document(operations())


def validate(value: Any, schema: dict[str, Any]) -> None:
    """ValidationError. `schema`: in the document, whose components it may name."""
    Draft202012Validator({**schema, "components": ours()["components"]}).validate(value)
