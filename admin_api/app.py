"""The admin API as an aiohttp application: which path has which answer, and who listens.

Decides the table of paths. Does not know what the answers are (`endpoints`) nor how they fail (`errors`).
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from aiohttp import web

from admin_api.admin import Admin
from admin_api.bodies import MAX_BODY_BYTES
from admin_api.changes import Changes
from admin_api.endpoints import Endpoints
from admin_api.errors import Handler, problems
from admin_api.guards import known_host_only
from admin_api.listener import AdminListener
from admin_api.page import POLICY
from admin_api.parameters import AFTER, ARCHIVED, BROKER, PART, SERVICE, SOURCE, reject_unknown

__all__ = ["Admin", "CHANGES", "ENDPOINTS", "make_app", "start_admin"]

HEADERS: Final = {
    "Server": "rsocket-broker",  # aiohttp would tell its version and Python's
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": POLICY,
}
NONE: Final[frozenset[str]] = frozenset()
ROUTE_DRAIN: Final = "/api/v1/routes/{id:[^/]+}/drain"
TAG_DRAIN: Final = "/api/v1/drains/tags/{key:[^/]+}/{value:.*}"  # a value may hold slashes, or be empty
BROKER_DRAIN: Final = "/api/v1/drains/broker"
EVENTS: Final = "/api/v1/events"
EVENT_STREAM: Final = "/api/v1/events/{stream:[^/]+}"
EVENT_FILE: Final = "/api/v1/events/{stream:[^/]+}/{source:[^/]+}/{number:[^/]+}"
REDIRECT: Final = "/api/v1/redirects/{service:.+}"  # a service's name may hold slashes


class Endpoint(NamedTuple):
    """One path to look at. HEAD is answered wherever GET is."""

    path: str
    answer: Callable[[Endpoints, web.Request], web.Response | Awaitable[web.StreamResponse]]
    parameters: frozenset[str] = NONE
    takes_tags: bool = False  # tag.NAME, any name


class ChangePath(NamedTuple):
    """One path to change something. Only by methods that no page of another origin can use unasked: never POST."""

    method: str  # PUT or DELETE
    path: str
    answer: Callable[[Changes, web.Request], web.Response | Awaitable[web.Response]]


ENDPOINTS: Final = (
    Endpoint("/", Endpoints.index),
    Endpoint("/livez", Endpoints.livez),
    Endpoint("/readyz", Endpoints.readyz),
    Endpoint("/metrics", Endpoints.metrics),
    Endpoint("/api/v1/status", Endpoints.status),
    Endpoint("/api/v1/routes", Endpoints.routes, PART | {SERVICE, BROKER}, takes_tags=True),
    Endpoint("/api/v1/routes/{id:[^/]+}", Endpoints.route),  # Id{…} has braces, which a plain {id} excludes
    Endpoint("/api/v1/services", Endpoints.services, PART),
    Endpoint("/api/v1/services/{name:.+}", Endpoints.service, PART),  # a service's name may hold slashes
    Endpoint("/api/v1/connections", Endpoints.connections, PART),
    Endpoint("/api/v1/connections/closed", Endpoints.closed, PART),
    Endpoint("/api/v1/traffic", Endpoints.traffic, PART),
    Endpoint("/api/v1/drains", Endpoints.drains, PART),
    Endpoint("/api/v1/brokers", Endpoints.brokers, PART),
    Endpoint("/api/v1/links", Endpoints.links, PART),
    Endpoint("/api/v1/paths", Endpoints.paths, PART),
    Endpoint("/api/v1/redirects", Endpoints.redirects, PART),
    Endpoint("/api/v1/limits", Endpoints.limits),
    Endpoint(EVENTS, Endpoints.event_streams, PART | {ARCHIVED}),
    Endpoint(EVENT_STREAM, Endpoints.event_files, PART | {ARCHIVED, SOURCE, AFTER}),
    Endpoint(EVENT_FILE, Endpoints.event_file),
)

CHANGES: Final = (
    ChangePath("PUT", ROUTE_DRAIN, Changes.drain_route),
    ChangePath("DELETE", ROUTE_DRAIN, Changes.undrain_route),
    ChangePath("PUT", TAG_DRAIN, Changes.drain_tag),
    ChangePath("DELETE", TAG_DRAIN, Changes.undrain_tag),
    ChangePath("PUT", BROKER_DRAIN, Changes.drain_broker),
    ChangePath("DELETE", BROKER_DRAIN, Changes.undrain_broker),
    ChangePath("PUT", REDIRECT, Changes.redirect),
    ChangePath("DELETE", REDIRECT, Changes.unredirect),
    ChangePath("DELETE", "/api/v1/connections/{id:[^/]+}", Changes.close),
)


def make_app(admin: Admin) -> web.Application:
    """The application of one broker."""
    app = web.Application(middlewares=[problems, known_host_only(admin.config)], client_max_size=MAX_BODY_BYTES)
    endpoints = Endpoints(admin)
    for endpoint in ENDPOINTS:
        app.router.add_get(endpoint.path, _handler(endpoints, endpoint))
    changes = Changes(admin)
    for change in CHANGES:
        app.router.add_route(change.method, change.path, _change_handler(changes, change))
    app.on_response_prepare.append(_add_headers)
    return app


async def start_admin(app: web.Application, host: str, port: int) -> tuple[AdminListener, int]:
    """Listens; the listener, whose `cleanup()` ends it, and the port, which the system chose if `port` is 0.

    OSError, and nothing is left open, when the place is taken or cannot be.
    """
    listener = AdminListener(app)
    return listener, await listener.listen(host, port)


def _handler(endpoints: Endpoints, endpoint: Endpoint) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        reject_unknown(request, endpoint.parameters, endpoint.takes_tags)
        answer = endpoint.answer(endpoints, request)
        return answer if isinstance(answer, web.Response) else await answer

    return handle


def _change_handler(changes: Changes, change: ChangePath) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        changes.guard(request)
        reject_unknown(request, NONE, False)
        answer = change.answer(changes, request)
        return answer if isinstance(answer, web.Response) else await answer

    return handle


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
