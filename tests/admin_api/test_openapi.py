"""The OpenAPI document. That answers and refusals fit it is held wherever tests ask (`asking`, `contract`)."""

from __future__ import annotations

import pytest
from aiohttp import web
from jsonschema import ValidationError
from openapi_spec_validator import validate

from admin_api.app import make_app
from admin_api.bodies import DrainBody
from admin_api.openapi import Operation, document
from admin_api.parameters import PART
from broker.views.schemas import DrainView
from tests.admin_api.asking import Api, get
from tests.admin_api.contract import check_answer, check_refusal, ours
from tests.admin_api.fakes import FakeAdmin
from tests.fakes import World

DOCUMENT = "/api/v1/openapi.json"


def routed() -> set[tuple[str, str]]:
    """Method and path of all that the router knows."""
    router = make_app(FakeAdmin(World())).router
    assert all(isinstance(each.resource, web.Resource) for each in router.routes())
    return {(each.method, each.resource.canonical) for each in router.routes() if each.resource is not None}


async def test_the_document_is_valid(client: Api) -> None:
    validate(await get(client, DOCUMENT))


async def test_all_that_the_router_knows_is_in_the_document(client: Api) -> None:
    paths = (await get(client, DOCUMENT))["paths"]
    documented = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert {each for each in routed() if each[0] != "HEAD"} == documented
    assert {path for method, path in routed() if method == "HEAD"} == {path for path in paths if "get" in paths[path]}


async def test_the_api_lists_itself(client: Api) -> None:
    items = (await get(client, "/api/v1"))["items"]
    assert {(each["method"], each["path"]) for each in items} == {each for each in routed() if each[0] != "HEAD"}
    assert {"method": "GET", "path": "/api/v1/samwise", "about": "the Samwise gateway"} in items
    assert all(each["about"] for each in items)


def test_an_operation_has_its_parameters_its_body_its_answer_and_its_refusals() -> None:
    drain = Operation(
        "PUT",
        "/api/v1/drains/tags/{key:[^/]+}/{value:.*}",
        "drains",
        DrainView,
        PART,
        DrainBody,
        ("no-such-drain", "bad-body"),
    )
    shown = document([drain])
    assert shown["paths"]["/api/v1/drains/tags/{key}/{value}"]["put"] == {
        "operationId": "put_api_v1_drains_tags_key_value",
        "summary": "drains",
        "parameters": [
            {"name": "key", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[^/]+$"}},
            {
                "name": "value",
                "in": "path",
                "required": True,
                "schema": {"type": "string", "pattern": "^.*$"},
                "description": "may hold slashes, as %2F",
            },
            {
                "name": "limit",
                "in": "query",
                "description": "items at most",
                "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
            },
            {
                "name": "offset",
                "in": "query",
                "description": "items of the list that are left out",
                "schema": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1, "default": 0},
            },
        ],
        "requestBody": {
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/DrainBody"}}},
            "required": False,
        },
        "responses": {
            "200": {
                "description": "drains",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/DrainView"}}},
                "headers": {
                    "X-Workers-Missing": {
                        "description": "numbers of workers that the answer is without",
                        "schema": {"type": "string"},
                    }
                },
            },
            "400": {"$ref": "#/components/responses/bad-parameter.bad-body"},
            "401": {"$ref": "#/components/responses/no-token.wrong-token"},
            "403": {"$ref": "#/components/responses/role-not-enough"},
            "404": {"$ref": "#/components/responses/no-such-drain"},
            "421": {"$ref": "#/components/responses/wrong-host"},
            "429": {"$ref": "#/components/responses/too-many-requests"},
            "500": {"$ref": "#/components/responses/internal"},
            "503": {"$ref": "#/components/responses/auth-unavailable"},
            "default": {"$ref": "#/components/responses/bad-request"},
        },
        "security": [{"token": ["operator"]}],
    }
    assert shown["components"]["schemas"]["DrainBody"]["properties"]["grace_s"] == {
        "description": "a number from 0 to 3600",
        "type": "number",
        "minimum": 0,
        "maximum": 3600,
    }


def test_a_redirect_needs_its_body_and_a_drain_does_not() -> None:
    paths = ours()["paths"]
    assert paths["/api/v1/redirects/{service}"]["put"]["requestBody"]["required"]
    assert not paths["/api/v1/drains/broker"]["put"]["requestBody"]["required"]


def test_the_contract_sees_what_does_not_fit() -> None:
    with pytest.raises(ValidationError, match="'status' is a required property"):
        check_answer("GET", "/livez", {"state": "live"})
    problem = {
        "type": "",
        "title": "",
        "status": 404,
        "detail": "",
        "code": "no-such-route",
        "instance": "",
        "page": "",
    }
    check_refusal("GET", "/api/v1/routes/1", problem)
    with pytest.raises(KeyError):
        check_refusal("GET", "/api/v1/status", problem)
    with pytest.raises(ValidationError, match="is not one of"):
        check_refusal("GET", "/api/v1/status", {**problem, "code": "tired"})
