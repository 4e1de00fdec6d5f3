"""What each path changes: drains, redirects, revocations, connections that are closed, messages of the Samwise gateway.
All the rest of this API only looks.

Decides who may: see `check_allowed`. The changes themselves are the broker's; each is one of its events, so that it
stands in the log and in the event files. Those of messages are the gateway's, and stand in the log.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from aiohttp import web

from admin_api.backends.answer import Answer, DrainTarget
from admin_api.backends.workers import Backend
from admin_api.bodies import DrainBody, RedirectBody, RevocationBody, destination_of, moment_of, terms_of
from admin_api.errors import AdminError, no_connection, no_route, shown
from admin_api.openapi import Operation
from broker.config.hosts import is_local
from broker.config.options import Config
from broker.views.samwise import ChangedMessageView
from broker.views.schemas import ClosedConnectionView, DrainView, RedirectView, RevocationView
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.ids import parse_id
from rsocket_wire.wire.tags import Tag

MAX_ID_DIGITS: Final = 18  # of the number of a connection or a message
REDIRECT: Final = "/api/v1/redirects/{service:.+}"  # a service's name may hold slashes
REVOCATION: Final = "/api/v1/revocations/{principal:.+}"  # so may an identity
CONNECTION: Final = "/api/v1/connections/{id:[^/]+}"
MESSAGE: Final = "/api/v1/samwise/messages/{id:[^/]+}"
NO_SAMWISE: Final = ("no-samwise", "samwise-unavailable")


T = TypeVar("T")


class Change(NamedTuple):
    """One way to change something. Only by methods that no page of another origin can use unasked: never POST."""

    operation: Operation
    change: Callable[[Backend, web.Request], Awaitable[Answer[object]]]

    @property
    def name(self) -> str:
        """`drain`, `undrain`, `redirect` …"""
        return self.change.__name__


def changing(
    method: str,
    path: str,
    kind: type[T],
    change: Callable[[Backend, web.Request], Awaitable[Answer[T]]],
    about: str,
    refuses: Sequence[str],
    body: Any = None,
) -> Change:
    """A change by PUT or DELETE, whose answer is a view."""
    refuses = ("not-allowed", "not-ready", *refuses)
    return Change(Operation(method, path, about, kind, body=body, refuses=refuses), change)


async def drain(backend: Backend, request: web.Request) -> Answer[DrainView]:
    """Something gets no new requests: a route, now or when it comes; the routes with a tag; or all of the broker."""
    target = _target(request)
    return await backend.drain(target, await terms_of(request, backend.config.server))


async def undrain(backend: Backend, request: web.Request) -> Answer[DrainView]:
    """It gets new requests again, unless another drain covers it."""
    return await backend.undrain(_target(request))


async def redirect(backend: Backend, request: web.Request) -> Answer[RedirectView]:
    """Requests for a service go to another one."""
    return await backend.redirect(request.match_info["service"], await destination_of(request))


async def unredirect(backend: Backend, request: web.Request) -> Answer[RedirectView]:
    """They go to it again."""
    return await backend.unredirect(request.match_info["service"])


async def revoke(backend: Backend, request: web.Request) -> Answer[RevocationView]:
    """Credentials of an identity hold no longer."""
    return await backend.revoke(request.match_info["principal"], await moment_of(request, time.time_ns() // 1_000_000))


async def unrevoke(backend: Backend, request: web.Request) -> Answer[RevocationView]:
    """They hold again."""
    return await backend.unrevoke(request.match_info["principal"])


async def close(backend: Backend, request: web.Request) -> Answer[ClosedConnectionView]:
    """A connection ends."""
    return await backend.close_connection(connection_number(request))


async def requeue(backend: Backend, request: web.Request) -> Answer[ChangedMessageView]:
    """A dead letter of the Samwise gateway is tried again."""
    return await backend.samwise.requeue(_number(request, "no-such-message", "no dead letter has the id"))


async def remove(backend: Backend, request: web.Request) -> Answer[ChangedMessageView]:
    """A stored message of the Samwise gateway is gone."""
    return await backend.samwise.remove(_number(request, "no-such-message", "no message has the id"))


def draining(path: str, about: str, refuses: Sequence[str] = ()) -> tuple[Change, Change]:
    """Drains, and undrains."""
    return (
        changing("PUT", path, DrainView, drain, f"drains {about}", ("bad-body", "over-limit", *refuses), DrainBody),
        changing("DELETE", path, DrainView, undrain, f"undrains {about}", ("no-such-drain", *refuses)),
    )


CHANGES: Final = (
    *draining("/api/v1/routes/{id:[^/]+}/drain", "one route", ("no-such-route",)),
    # A value may hold slashes, or be empty.
    *draining("/api/v1/drains/tags/{key:[^/]+}/{value:.*}", "all routes with a tag", ("bad-filter",)),
    *draining("/api/v1/drains/broker", "the whole broker"),
    changing(
        "PUT",
        REDIRECT,
        RedirectView,
        redirect,
        "redirects the requests for a service to another one",
        ("bad-body", "bad-redirect", "over-limit"),
        RedirectBody,
    ),
    changing(
        "DELETE",
        REDIRECT,
        RedirectView,
        unredirect,
        "ends a redirect",
        ("no-such-redirect",),
    ),
    changing(
        "PUT",
        REVOCATION,
        RevocationView,
        revoke,
        "revokes credentials of an identity",
        ("bad-body", "bad-revocation", "over-limit"),
        RevocationBody,
    ),
    changing(
        "DELETE",
        REVOCATION,
        RevocationView,
        unrevoke,
        "ends a revocation",
        ("no-such-revocation",),
    ),
    changing("DELETE", CONNECTION, ClosedConnectionView, close, "closes a connection", ("no-such-connection",)),
    changing(
        "PUT",
        f"{MESSAGE}/requeue",
        ChangedMessageView,
        requeue,
        "tries a dead letter of the Samwise gateway again",
        (*NO_SAMWISE, "no-such-message"),
    ),
    changing(
        "DELETE",
        MESSAGE,
        ChangedMessageView,
        remove,
        "removes a message of the Samwise gateway",
        (*NO_SAMWISE, "no-such-message"),
    ),
)


def check_allowed(request: web.Request, config: Config, is_stopping: bool) -> None:
    """AdminError unless whoever asks may change something.

    No page in a browser may, not even one that says to be from here (its server's name may have been made to mean
    this machine): every browser names the origin of such a request.
    """
    who = config.admin.changes
    if who == "off":
        raise AdminError("not-allowed", "changes are switched off (admin.changes)")
    if "Origin" in request.headers:
        raise AdminError("not-allowed", "pages in a browser may not change anything")
    if who == "local" and not is_local(request.remote):
        raise AdminError("not-allowed", "only programs on the broker's machine may change anything (admin.changes)")
    if is_stopping:
        raise AdminError("not-ready", "the broker is stopping", ["stopping: nothing can be changed any more"])


def connection_number(request: web.Request) -> int:
    """Of the connection in the path. AdminError "no-such-connection"."""
    id = request.match_info["id"]
    if not _is_number(id):
        raise no_connection(shown(id))
    return int(id)


def _target(request: web.Request) -> DrainTarget:
    path = request.rel_url.raw_path
    if "id" in request.match_info:
        return DrainTarget(path, route_id=_route_id(request))
    return DrainTarget(path, tag=_tag(request)) if "key" in request.match_info else DrainTarget(path)


def _number(request: web.Request, code: str, text: str) -> int:
    """The id in the path. AdminError with this code, and a text that the id ends, when it cannot be one."""
    id = request.match_info["id"]
    if not _is_number(id):
        raise AdminError(code, f"{text} {shown(id)}")
    return int(id)


def _is_number(id: str) -> bool:
    return id.isascii() and id.isdigit() and len(id) <= MAX_ID_DIGITS


def _route_id(request: web.Request) -> bytes:
    text = request.match_info["id"]
    try:
        return parse_id(text)
    except BrokerError:
        raise no_route(text) from None


def _tag(request: web.Request) -> Tag:
    """An empty value is none (D-07)."""
    key, value = request.match_info["key"], request.match_info.get("value", "")
    try:
        return Tag.of(key, value or None)
    except BrokerError as error:
        raise AdminError("bad-filter", f"{shown(key)}: {error.text}") from None
