"""Bodies of requests: JSON objects with a few fields. Decides what is a mistake, and names the field then."""

import asyncio
import math
from typing import Any, Final

import msgspec
from aiohttp import web

from admin_api.errors import AdminError, shown
from broker.config.options import OPTIONS
from broker.config.sections.process import ServerOptions

MAX_BODY_BYTES: Final = 4096  # the longest that makes sense has a hundred
BODY_S: Final = 10.0  # for a body to come
BODY_TIME: Final = web.AppKey("BODY_TIME", float)  # of an application that waits for another time than BODY_S
FIELDS: Final = ("grace_s", "spread_s", "close")
REDIRECT_FIELDS: Final = ("to",)


class Terms(msgspec.Struct, frozen=True):
    """How something is drained, see `broker.connections.drains`."""

    grace_s: float  # seconds
    spread_s: float  # seconds
    close: bool  # connections are closed; else they only get nothing new


async def terms_of(request: web.Request, usual: ServerOptions) -> Terms:
    """What the body says, and what is usual where it says nothing; no body at all says nothing."""
    raw = await _read(request)
    body = _object(raw, FIELDS) if raw else {}
    close = body.get("close", True)
    if not isinstance(close, bool):
        raise AdminError("bad-body", f"close must be true or false, not {_shown_json(close)}")
    return Terms(
        _seconds(body, "grace_s", usual.drain_grace_s), _seconds(body, "spread_s", usual.drain_spread_s), close
    )


async def destination_of(request: web.Request) -> str:
    """The service that the body names with `to`, which it must."""
    body = _object(await _read(request), REDIRECT_FIELDS)
    if "to" not in body:
        raise AdminError("bad-body", 'the body needs the field "to": {"to": "NAME"}')
    to = body["to"]
    if not isinstance(to, str):
        raise AdminError("bad-body", f"to must be the name of a service, not {_shown_json(to)}")
    return to


async def _read(request: web.Request) -> bytes:
    """All of the body."""
    wait_s = request.app.get(BODY_TIME, BODY_S)
    try:
        async with asyncio.timeout(wait_s):
            return await request.read()
    except TimeoutError:
        raise AdminError("bad-body", f"the body did not arrive within {wait_s:g} s") from None
    except (web.RequestPayloadError, ValueError) as error:  # what is no chunk, or no gzip
        raise AdminError("bad-body", f"the body cannot be read: {shown(str(error))}") from None


def _object(raw: bytes, fields: tuple[str, ...]) -> dict[str, Any]:
    """A JSON object that has none but these fields."""
    try:
        body = msgspec.json.decode(raw)
    except ValueError as error:  # no UTF-8, or msgspec's own
        raise AdminError("bad-body", f"the body is not JSON: {shown(str(error))}") from None
    if not isinstance(body, dict):
        raise AdminError("bad-body", f"the body must be a JSON object, not {_shown_json(body)}")
    for name in body:
        if name not in fields:
            raise AdminError("bad-body", f"unknown field {shown(name)!r}; allowed: {', '.join(fields)}")
    return body


def _seconds(body: dict[str, object], name: str, usual: float) -> float:
    """A number in the range of the option that has its default."""
    value = body.get(name, usual)
    doc = OPTIONS[f"server.drain_{name}"]
    low, high = doc.option.within
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        raise AdminError("bad-body", f"{name} must be {doc.takes}, not {_shown_json(value)}")
    return float(value)  # type: ignore[arg-type]


def _shown_json(value: object) -> str:
    return shown(msgspec.json.encode(value).decode())
