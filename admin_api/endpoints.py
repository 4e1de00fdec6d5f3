"""What each path answers: the table of all paths that are only looked at.

A list that workers answer as one broker does is a row of `backends.lists`. Any other endpoint stands here,
and in what it asks of one broker (`backends.one`) and of several workers (`backends.workers`).
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web
from prometheus_client.exposition import choose_encoder

from admin_api.backends.answer import Answer
from admin_api.backends.lists import BROKERS, LISTS, Listing
from admin_api.backends.samwise import STATES
from admin_api.backends.workers import Backend
from admin_api.errors import AdminError, with_missing
from admin_api.event_files import EventFiles
from admin_api.page import index_page, samwise_texts
from admin_api.parameters import (
    AFTER,
    ARCHIVED,
    BROKER,
    PART,
    SERVICE,
    SOURCE,
    STATE,
    after_of,
    brokers_of,
    limit_of,
    part_of,
    state_of,
    tags_of,
)
from admin_api.schemas import Health, Items, json_response
from admin_api.shared import Shared
from broker.views.queries import limits
from broker.views.samwise import MessagesView
from broker.views.schemas import Part

SHOWN: Final = 20  # brokers and links on the page, of each
NONE: Final[frozenset[str]] = frozenset()
EVENTS: Final = "/api/v1/events"
SAMWISE: Final = "/api/v1/samwise"


class Endpoints:
    """What the endpoints of one API have in common."""

    def __init__(self, backend: Backend) -> None:
        self.backend: Final = backend
        self.event_files: Final = EventFiles(backend.config.events.dir)  # all workers write into one folder
        self.exposition: Final = Shared[Answer[tuple[bytes, str]]]()


Answering = Callable[[Endpoints, web.Request], Awaitable[web.StreamResponse]]


class Endpoint(NamedTuple):
    """One path to look at. HEAD is answered wherever GET is."""

    path: str
    answer: Answering
    parameters: frozenset[str] = NONE
    takes_tags: bool = False  # tag.NAME, any name
    about: str = ""  # HTML, for the page at /; empty: it is not listed there


def view(ask: Callable[[Backend, web.Request], Awaitable[Answer[object]]]) -> Answering:
    """An endpoint whose answer is a view, as JSON."""

    async def answer(endpoints: Endpoints, request: web.Request) -> web.Response:
        value, missing = await ask(endpoints.backend, request)
        return with_missing(json_response(value), missing)

    return answer


async def index(endpoints: Endpoints, request: web.Request) -> web.Response:
    """A page for people."""
    backend, part = endpoints.backend, Part(limit=SHOWN)
    status = await backend.status()
    brokers = await backend.listed(BROKERS, part)
    links = await backend.links(part)
    paths = [
        (each.path.partition("/{")[0], each.about)
        for each in ENDPOINTS
        if each.about and (backend.samwise.is_there or not each.path.startswith(SAMWISE))
    ]
    page = index_page(status.value, brokers.value, links.value, await samwise_of(backend), paths)
    return with_missing(web.Response(text=page, content_type="text/html"), status.missing)


async def samwise_of(backend: Backend) -> dict[str, str]:
    """How the Samwise gateway is, for people; empty where there is none."""
    if not backend.samwise.is_there:
        return {}
    try:
        state = await backend.samwise.state()
    except AdminError as error:
        return {"state": error.detail}
    return samwise_texts(msgspec.to_builtins(state.value))


async def livez(endpoints: Endpoints, request: web.Request) -> web.Response:
    """The loop turns, or nobody would answer; workers that do not live are started again."""
    return json_response(Health("live"))


async def readyz(endpoints: Endpoints, request: web.Request) -> web.Response:
    """Whether requests of peers are taken."""
    ready = await endpoints.backend.check_ready()
    return with_missing(json_response(Health("ready")), ready.missing)


async def metrics(endpoints: Endpoints, request: web.Request) -> web.Response:
    """For Prometheus."""
    accept = request.headers.get("Accept", "")
    (body, content_type), missing = await endpoints.exposition.get(
        choose_encoder(accept)[1], lambda: endpoints.backend.metrics(accept)
    )
    return with_missing(web.Response(body=body, headers={"Content-Type": content_type}), missing)


async def messages_of(backend: Backend, request: web.Request) -> Answer[MessagesView]:
    """Stored messages of the Samwise gateway."""
    return await backend.samwise.messages(state_of(request, STATES), after_of(request), limit_of(request))


async def limits_of(backend: Backend, request: web.Request) -> Answer[Items]:
    """The limits in use; they hold for each worker."""
    return Answer(Items(limits(backend.config)))


def paged(path: str, ask: Callable[[Backend, Part], Awaitable[Answer[object]]], about: str) -> Endpoint:
    """A view of which a part is asked for."""
    return Endpoint(path, view(lambda backend, asked: ask(backend, part_of(asked))), PART, about=about)


def listing(row: Listing[Any]) -> Endpoint:
    """A list that both backends answer alike."""
    return paged(row.path, lambda backend, part: backend.listed(row, part), row.about)


ENDPOINTS: Final = (
    Endpoint("/", index),
    Endpoint("/api/v1/status", view(lambda backend, _: backend.status()), about="an overview of the broker"),
    Endpoint(
        "/api/v1/routes",
        view(lambda backend, asked: backend.routes(tags_of(asked), brokers_of(asked), part_of(asked))),
        PART | {SERVICE, BROKER},
        takes_tags=True,
        about="routes, for example ?service=orders&amp;tag.region=eu",
    ),
    # Id{…} has braces, which a plain {id} excludes
    Endpoint("/api/v1/routes/{id:[^/]+}", view(lambda backend, asked: backend.route(asked.match_info["id"]))),
    *map(listing, LISTS),
    Endpoint(
        "/api/v1/services/{name:.+}",  # a service's name may hold slashes
        view(lambda backend, asked: backend.service(asked.match_info["name"], part_of(asked))),
        PART,
    ),
    paged("/api/v1/connections", lambda backend, part: backend.connections(part), "connections"),
    paged(
        "/api/v1/connections/closed",
        lambda backend, part: backend.closed(part),
        "recently closed connections, with the reason",
    ),
    paged("/api/v1/links", lambda backend, part: backend.links(part), "connections to other brokers, and failed dials"),
    Endpoint("/api/v1/limits", view(limits_of), about="limits in use, with their reasons"),
    Endpoint(
        EVENTS,
        lambda endpoints, asked: endpoints.event_files.streams(asked),
        PART | {ARCHIVED},
        about="event files, for Spark elsewhere",
    ),
    Endpoint(
        EVENTS + "/{stream:[^/]+}",
        lambda endpoints, asked: endpoints.event_files.files(asked),
        PART | {ARCHIVED, SOURCE, AFTER},
    ),
    Endpoint(
        EVENTS + "/{stream:[^/]+}/{source:[^/]+}/{number:[^/]+}",
        lambda endpoints, asked: endpoints.event_files.file(asked),
    ),
    Endpoint(SAMWISE, view(lambda backend, _: backend.samwise.state()), about="the Samwise gateway"),
    Endpoint(
        SAMWISE + "/messages",
        view(messages_of),
        frozenset({STATE, AFTER, "limit"}),
        about="its stored messages; ?state=dead: dead letters",
    ),
    Endpoint("/metrics", metrics, about="metrics for Prometheus"),
    Endpoint("/livez", livez, about="liveness"),
    Endpoint("/readyz", readyz, about="readiness: are requests accepted?"),
)
