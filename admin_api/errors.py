"""What a request to the admin API can be told: problem details (RFC 9457) with stable code words.

    {"type": "urn:rsocket-broker:problem:no-such-route", "title": "No such route", "status": 404,
     "detail": "no route has the id 0000…", "code": "no-such-route", "instance": "/api/v1/routes/0000…",
     "page": "docs/admin-api.md#no-such-route"}

`type` is a name and leads nowhere, since there is no public site; `page` is a file of the sources, and of the site that
`make docs` builds.

Every answer of 400 and above is one, also those that aiohttp decides (404, 405), and what nobody expected (500): that
one holds an id that stands in the log line, too, and nothing else of the inside.
"""

import difflib
import logging
import re
import uuid
from collections.abc import Awaitable, Callable, Set
from typing import Final
from urllib.parse import quote

import msgspec
from aiohttp import web

from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.ids import parse_id

PROBLEM_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:rsocket-broker:problem:"
PAGE: Final = "docs/admin-api.md"
MISSING: Final = "X-Workers-Missing"
API: Final = "/api/v1"
MAX_BELOW: Final = 4  # paths that are named where a method is not allowed
PUTTING: Final = ("POST", "PUT", "PATCH")  # with which programs change something, here PUT
MAX_SHOWN: Final = 200  # characters of a path or of a value in a sentence
NEAR: Final = 0.8  # so alike, of 1, must a path be to be proposed
HEALTH: Final = ("health", "healthz", "healthcheck", "ready", "readiness", "ping")  # what others call these
_BROKERS: Final = "brokers find each other by cluster.peers of their configuration"
# What is only read below /api/v1, and how it is changed.
READ_ONLY: Final = {
    "routes": "a service makes its routes by connecting; PUT /api/v1/routes/{id}/drain takes one out of service",
    "services": "a service comes by connecting, and is called through the broker (rsocket-broker call) and not by "
    "REST; PUT /api/v1/drains/tags/service/{name} takes it out of service",
    "brokers": _BROKERS,
    "links": _BROKERS,
    "limits": "limits are options of the configuration (docs/limits.md)",
}

# code word -> (HTTP status, title)
PROBLEMS: Final[dict[str, tuple[int, str]]] = {
    "bad-parameter": (400, "Invalid query parameter"),
    "bad-filter": (400, "Invalid tag filter"),
    "bad-body": (400, "Invalid request body"),
    "bad-redirect": (400, "Invalid redirect"),
    "no-token": (401, "A token is needed"),
    "wrong-token": (401, "Wrong token"),
    "role-not-enough": (403, "The role does not suffice"),
    "bad-revocation": (400, "Invalid revocation"),
    "not-allowed": (403, "Changes are not allowed from here"),
    "no-such-path": (404, "No such path"),
    "no-such-route": (404, "No such route"),
    "no-such-service": (404, "No such service"),
    "no-such-connection": (404, "No such connection"),
    "no-such-drain": (404, "No such drain"),
    "no-such-redirect": (404, "No such redirect"),
    "no-such-revocation": (404, "No such revocation"),
    "no-event-files": (404, "No event files are written"),
    "no-such-event-file": (404, "No such event file"),
    "no-samwise": (404, "No Samwise gateway"),
    "no-such-message": (404, "No such message"),
    "no-feed": (404, "No feed"),
    "no-such-folder": (404, "No such folder"),
    "no-such-file": (404, "No such file"),
    "method-not-allowed": (405, "Method not allowed"),
    "over-limit": (409, "Limit reached"),
    "too-many-requests": (429, "Too many requests"),
    "wrong-host": (421, "Wrong host"),
    "bad-request": (400, "Bad request"),
    "internal": (500, "Internal error"),
    "not-ready": (503, "Not ready"),
    "auth-unavailable": (503, "Tokens cannot be verified now"),
    "samwise-unavailable": (503, "Samwise gateway unavailable"),
    "feed-unavailable": (503, "Feed unavailable"),
}
# code word -> header fields beside it (RFC 6750, RFC 9110 section 10.2.3)
FIELDS: Final = {
    "no-token": {"WWW-Authenticate": 'Bearer realm="rsocket-broker"'},
    "wrong-token": {"WWW-Authenticate": 'Bearer realm="rsocket-broker", error="invalid_token"'},
    "too-many-requests": {"Retry-After": "1"},
    "role-not-enough": {"WWW-Authenticate": 'Bearer realm="rsocket-broker", error="insufficient_scope"'},
}

_log: Final = logging.getLogger(__name__)


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of an answer that is no success."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str
    page: str  # of the documents, where the code is explained
    reasons: list[str] = []  # of not-ready
    id: str = ""  # of internal: also in the log


class AdminError(Exception):
    """Ends one HTTP request with a problem."""

    def __init__(
        self,
        code: str,
        detail: str,
        reasons: list[str] | None = None,
        *,
        id: str = "",
        missing: frozenset[int] = frozenset(),
    ) -> None:
        """`code` is one of PROBLEMS."""
        super().__init__(f"{code}: {detail}")
        self.code: Final = code
        self.detail: Final = detail
        self.reasons: Final = reasons or []
        self.id: Final = id  # of the log line; empty: there is none
        self.missing: Final = missing  # workers that were not heard


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Makes a problem of whatever is raised behind it."""
    try:
        return await handler(request)
    except AdminError as error:
        headers = FIELDS.get(error.code)
        response = problem_response(
            request, error.code, error.detail, reasons=error.reasons, id=error.id, headers=headers
        )
        return with_missing(response, error.missing)
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        detail = f"{shown(request.method)} is not allowed here; allowed: {allowed}{_other_method(request)}"
        return problem_response(request, "method-not-allowed", detail, headers={"Allow": allowed})
    except web.HTTPNotFound:
        detail = f"there is no path {shown(request.path)}; {await _other_path(request)}/ lists all paths"
        return problem_response(request, "no-such-path", detail)
    except web.HTTPRequestEntityTooLarge as error:
        detail = f"the body is too large: at most {request.client_max_size} bytes"
        return problem_response(request, "bad-request", detail, status=error.status)
    except web.HTTPException as error:
        return problem_response(request, "bad-request", f"{error.reason}", status=error.status)
    except ConnectionError:  # there is nobody who could be told
        raise
    except Exception:  # the edge: one request ends, the others and the broker go on
        id = uuid.uuid4().hex
        _log.exception("admin %s %s: failed, id %s", request.method, shown(request.path), id)
        return problem_response(request, "internal", f"see the broker's log, id {id}", id=id)


def problem_response(
    request: web.Request,
    code: str,
    detail: str,
    *,
    status: int = 0,
    reasons: list[str] | None = None,
    id: str = "",
    headers: dict[str, str] | None = None,
) -> web.Response:
    """The answer; `status` 0 means that of the code."""
    usual_status, title = PROBLEMS[code]
    problem = Problem(
        type=f"{TYPE_PREFIX}{code}",
        title=title,
        status=status or usual_status,
        detail=detail,
        code=code,
        instance=shown(request.path),
        page=f"{PAGE}#{code}",
        reasons=reasons or [],
        id=id,
    )
    body = msgspec.json.format(msgspec.json.encode(problem)) + b"\n"
    return web.Response(body=body, status=problem.status, content_type=PROBLEM_TYPE, headers=headers)


def no_connection(number: int | str) -> AdminError:
    """No connection has this number."""
    return AdminError("no-such-connection", f"no connection has the number {number}; /api/v1/connections lists all")


def no_route(id: str) -> AdminError:
    """No route has this Route Id, which may be none: then it may be a service's name."""
    try:
        parse_id(id)
    except BrokerError:
        if re.fullmatch("[0-9a-fA-F-]{4,36}", id) and re.search("[0-9]", id):
            text = f"{shown(id)} is not a Route Id, which has 32 digits; /api/v1/routes lists all"
            return AdminError("no-such-route", text)
        query = quote(shown(id), safe="")
        text = f"{shown(id)} is not a Route Id; /api/v1/routes?service={query} lists the routes of a service"
        return AdminError("no-such-route", text)
    return AdminError("no-such-route", f"no route has the id {shown(id)}; /api/v1/routes lists all")


async def _other_path(request: web.Request) -> str:
    """`did you mean /api/v1/routes? `, `write PUT /api/v1/redirects/{service}; `, or nothing."""
    near = await _near_path(request)
    if near and (changes := _changes(request, near)):
        return f"write {changes}; "
    hint = f"did you mean {near}? " if near else ""
    if request.method in PUTTING:  # to what is taken for the path of a service
        hint += "services are asked over RSocket, as rsocket-broker call does, and not here; "
    return hint


async def _near_path(request: web.Request) -> str:
    """`/api/v1/routes`, or nothing."""
    if len(request.path) > MAX_SHOWN:  # to compare takes longer than its length
        return ""
    path = request.path
    if path.strip("/").rpartition("/")[2] in HEALTH:
        return "/readyz or /livez"
    others = [
        path.replace("/drains/services/", "/drains/tags/service/", 1),
        path.replace("=", "/", 1),  # of a tag
        path.replace(":", "/", 1),
        path.rstrip("/"),
        path.lower(),
        f"{API}{path}",
        re.sub(r"/(broker|connection|drain|redirect|route|service)/", r"/\1s/", path, count=1),
        f"{path.rstrip('/')}/VALUE",  # the end was forgotten
    ]
    for other in others:
        if other != path and await _is_path(request, other):
            return shown(other)
    paths = [resource.canonical for resource in request.app.router.resources()]
    return next(iter(difflib.get_close_matches(path, paths, 1, NEAR)), "")


async def _is_path(request: web.Request, path: str) -> bool:
    try:
        found = await request.app.router.resolve(request.clone(rel_url=quote(path)))
    except ValueError:  # no path at all
        return False
    return not isinstance(found.http_exception, web.HTTPNotFound)


def _other_method(request: web.Request) -> str:
    """`; write PUT /api/v1/redirects/{service}` for what is changed below this path, and GET for what is told above it;
    empty: nothing is, or too much.
    """
    path, method = request.path.rstrip("/"), request.method
    place = path.removeprefix(f"{API}/").partition("/")[0]
    if method in ("GET", "HEAD"):
        return f"; write GET {API}/{'drains' if path.endswith('/drain') else place}"
    if changes := _changes(request, path):
        return f"; write {changes}"
    is_change = method in (*PUTTING, "DELETE")
    return f"; {READ_ONLY[place]}" if is_change and place in READ_ONLY and path.startswith(API) else ""


def _changes(request: web.Request, path: str) -> str:
    """`PUT /api/v1/redirects/{service}`: where what the request may want is changed, at the path or below it; empty:
    nowhere, or at too many places."""
    wanted = "PUT" if request.method in PUTTING else request.method
    below = [
        route.resource.canonical
        for route in request.app.router.routes()
        if route.method == wanted
        and wanted in ("PUT", "DELETE")
        and route.resource
        and re.fullmatch(rf"{re.escape(path)}(/\w+)?(/{{\w+}})*", route.resource.canonical)
    ]
    return f"{wanted} {' or '.join(below)}" if 0 < len(below) <= MAX_BELOW else ""


def with_missing(response: web.Response, missing: Set[int]) -> web.Response:
    """The same, with the numbers of the workers that it is without in a header, if there are any."""
    if missing:
        response.headers[MISSING] = ", ".join(map(str, sorted(missing)))
    return response


def shown(text: str) -> str:
    """A text of the caller in an answer or a log line: on one line, shortened."""
    text = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
