"""Bodies of requests: JSON objects with a few fields. Decides what is a mistake, and names the field then."""

import asyncio
from typing import Annotated, Any, Final, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from admin_api.errors import AdminError, shown
from broker.config.options import OPTIONS
from broker.config.sections.process import ServerOptions

MAX_BODY_BYTES: Final = 4096  # the longest that makes sense has a hundred
BODY_S: Final = 10.0  # for a body to come
BODY_TIME: Final = web.AppKey("BODY_TIME", float)  # of an application that waits for another time than BODY_S


def _range_of(option: str) -> Meta:
    """The values that an option takes."""
    doc = OPTIONS[option]
    low, high = doc.option.within
    return Meta(ge=low, le=high, description=doc.takes)


class DrainBody(msgspec.Struct):
    """How something is drained; a field that is not there has the value of the configuration."""

    grace_s: Annotated[float, _range_of("server.drain_grace_s")] | UnsetType = UNSET
    spread_s: Annotated[float, _range_of("server.drain_spread_s")] | UnsetType = UNSET
    close: Annotated[bool, Meta(description="true or false")] = True


class RedirectBody(msgspec.Struct):
    """Where the requests for a service go."""

    to: Annotated[str, Meta(description="the name of a service")]


class RevocationBody(msgspec.Struct):
    """Which credentials of an identity hold no longer."""

    before_ms: Annotated[int, Meta(description="milliseconds since the epoch")] | UnsetType = UNSET


class ChangeNote(msgspec.Struct, frozen=True):
    """One request to change something and what came of it: what the event Changed is made of, told to one worker."""

    operation: str  # `drain`, `redirect` …
    subject: str  # what was to be changed: a Route Id, a service …
    where_from: str  # `admin 10.0.0.4`
    principal: str  # who asked, `token:grafana`; empty: nobody said
    role: str  # of that
    word: str  # code word of the refusal; empty: it is done
    text: str  # a sentence for people


class Terms(msgspec.Struct, frozen=True):
    """How something is drained, see `broker.connections.drains`."""

    grace_s: float  # seconds
    spread_s: float  # seconds
    close: bool  # connections are closed; else they only get nothing new


Body = TypeVar("Body", bound=msgspec.Struct)

_EXAMPLES: Final[dict[type[msgspec.Struct], str]] = {
    DrainBody: '{"spread_s": 60}',
    RedirectBody: '{"to": "orders-2"}',
    RevocationBody: '{"before_ms": 1767225600000}',
}


async def terms_of(request: web.Request, usual: ServerOptions) -> Terms:
    """What the body says, and what is usual where it says nothing; no body at all says nothing."""
    raw = await _read(request)
    body = _body(raw, DrainBody) if raw else DrainBody()
    return Terms(
        usual.drain_grace_s if body.grace_s is UNSET else body.grace_s,
        usual.drain_spread_s if body.spread_s is UNSET else body.spread_s,
        body.close,
    )


async def destination_of(request: web.Request) -> str:
    """The service that the body names with `to`, which it must."""
    return _body(await _read(request), RedirectBody).to


async def moment_of(request: web.Request, now_ms: int) -> int:
    """The moment that the body names, milliseconds since the epoch; no body, or one without it: now."""
    raw = await _read(request)
    before_ms = _body(raw, RevocationBody).before_ms if raw else UNSET
    return now_ms if before_ms is UNSET else before_ms


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


def _body(raw: bytes, kind: type[Body]) -> Body:
    """A JSON object that has all fields of this kind that must be there, and none but these."""
    try:
        body = msgspec.json.decode(raw)
    except ValueError as error:  # no UTF-8, or msgspec's own
        text = f"the body is not JSON, such as {_EXAMPLES[kind]}: {shown(str(error))}"
        raise AdminError("bad-body", text) from None
    if not isinstance(body, dict):
        raise AdminError("bad-body", f"the body must be a JSON object, not {_shown_json(body)}")
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name, value in body.items():
        if name not in fields:
            raise AdminError("bad-body", f"unknown field {shown(name)!r}; allowed: {', '.join(fields)}")
        try:
            msgspec.convert(value, fields[name].type)
        except msgspec.ValidationError:
            about = msgspec.json.schema(fields[name].type)["description"]
            raise AdminError("bad-body", f"{name} must be {about}, not {_shown_json(value)}") from None
    for name, field in fields.items():
        if field.required and name not in body:
            raise AdminError("bad-body", f'the body needs the field "{name}"')
    return msgspec.convert(body, kind)


def _shown_json(value: Any) -> str:
    return shown(msgspec.json.encode(value).decode())
