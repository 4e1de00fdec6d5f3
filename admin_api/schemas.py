"""How values become JSON: snake_case, in the order in which their fields are declared, indented because people read it
with curl. The shapes are the views themselves (`broker.views`); here are those that no view has."""

from typing import Final, Generic, TypeVar

import msgspec
from aiohttp import web

from admin_api.openapi import JSON_TYPE

T = TypeVar("T")

_encoder: Final = msgspec.json.Encoder()


class Health(msgspec.Struct, frozen=True):
    """Of /livez and /readyz when all is well."""

    status: str  # live, ready


class Items(msgspec.Struct, Generic[T], frozen=True):
    """A list that is never cut."""

    items: list[T]


class OperationView(msgspec.Struct, frozen=True):
    """Something that can be asked or changed."""

    method: str
    path: str  # with {NAME} where something is to be filled in
    about: str


def json_response(body: object) -> web.Response:
    """200 with this body."""
    return web.Response(body=msgspec.json.format(_encoder.encode(body)) + b"\n", content_type=JSON_TYPE)
