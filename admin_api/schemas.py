"""How values become JSON: snake_case, in the order in which their fields are declared, indented because people read it
with curl. The shapes are the views themselves (`broker.views`); here are those that no view has."""

from typing import Final

import msgspec
from aiohttp import web

from broker.views.schemas import LimitView

JSON_TYPE: Final = "application/json"

_encoder: Final = msgspec.json.Encoder()


class Health(msgspec.Struct, frozen=True):
    """Of /livez and /readyz when all is well."""

    status: str  # live, ready


class Items(msgspec.Struct, frozen=True):
    """Of /api/v1/limits: a list that is never cut."""

    items: list[LimitView]


def json_response(body: object) -> web.Response:
    """200 with this body."""
    return web.Response(body=msgspec.json.format(_encoder.encode(body)) + b"\n", content_type=JSON_TYPE)
