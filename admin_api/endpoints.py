"""What each path answers: the table of all paths that are only looked at.

A list that workers answer as one broker does is a row of `backends.lists`. Any other endpoint stands here,
and in what it asks of one broker (`backends.one`) and of several workers (`backends.workers`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from aiohttp import web
from prometheus_client.exposition import choose_encoder

from admin_api.answers.packing import GZIP, packed, takes_gzip
from admin_api.answers.sentences import feed_texts, samwise_texts
from admin_api.answers.shared import Shared
from admin_api.backends.answer import Answer
from admin_api.backends.lists import BROKERS, LISTS, SERVICES, Listing
from admin_api.backends.workers import Backend
from admin_api.changes import CHANGES, CONNECTION, NO_SAMWISE, connection_number
from admin_api.errors import AdminError, with_missing
from admin_api.event_files import EventFiles, EventFileView, StreamsView
from admin_api.feed_files import FeedFiles
from admin_api.openapi import JSON_TYPE, ROOT, Operation, document
from admin_api.page import BUSIEST, DEAD_LETTERS, index_page
from admin_api.parameters import (
    AFTER,
    ARCHIVED,
    BROKER,
    CONNECTION_SEARCH,
    LIMIT,
    PART,
    PATH,
    SERVICE,
    SOURCE,
    STATE,
    TAGS,
    WITHOUT,
    Parameter,
    brokers_of,
    number_of,
    part_of,
    tags_of,
    text_of,
    word_of,
)
from admin_api.schemas import Health, Items, OperationView, json_response
from broker.views import schemas
from broker.views.feed import FeedView, PostsView
from broker.views.queries import limits
from broker.views.samwise import DEAD, MessagesView, MessageView, SamwiseView
from broker.views.schemas import LimitView, Listed, Part

SHOWN: Final = 20  # brokers and links on the page, of each
EVENTS: Final = "/api/v1/events"
SAMWISE: Final = "/api/v1/samwise"
FEED: Final = "/api/v1/feed"
NO_FEED: Final = ("no-feed", "feed-unavailable")
NO_EVENTS: Final = ("no-event-files", "no-such-event-file", "not-ready")


class Endpoints:
    """What the endpoints of one API have in common."""

    def __init__(self, backend: Backend) -> None:
        self.backend: Final = backend
        self.event_files: Final = EventFiles(backend.config.events.dir)  # all workers write into one folder
        self.feed_files: Final = FeedFiles(backend.config)
        self.exposition: Final = Shared[Answer[tuple[bytes, str]]]()


T = TypeVar("T")


class Endpoint(NamedTuple):
    """One path to look at. HEAD is answered wherever GET is."""

    operation: Operation
    answer: Callable[[Endpoints, web.Request], Awaitable[web.StreamResponse]]

    @property
    def path(self) -> str:
        """As aiohttp has it."""
        return self.operation.path


def view(
    path: str,
    kind: type[T],
    ask: Callable[[Backend, web.Request], Awaitable[Answer[T]]],
    about: str,
    parameters: Sequence[Parameter] = (),
    refuses: Sequence[str] = (),
) -> Endpoint:
    """An endpoint whose answer is a view, as JSON."""

    async def answer(endpoints: Endpoints, request: web.Request) -> web.Response:
        value, missing = await ask(endpoints.backend, request)
        return with_missing(json_response(value), missing)

    return Endpoint(Operation("GET", path, about, kind, parameters, refuses=("not-ready", *refuses)), answer)


async def index(endpoints: Endpoints, request: web.Request) -> web.Response:
    """A page for people."""
    backend, part = endpoints.backend, Part(limit=SHOWN)
    status = await backend.status()
    brokers = await backend.listed(BROKERS, part)
    links = await backend.links(part)
    services = await backend.listed(SERVICES, Part(limit=BUSIEST, sort="-requests"))
    paths = [
        (each.path, each.operation.about)
        for each in ENDPOINTS[1:]  # but this page
        if "{" not in each.path
        and (backend.samwise.is_there or not each.path.startswith(SAMWISE))
        and (backend.feed.is_there or not each.path.startswith(FEED))
    ]
    samwise, dead, dead_n = await samwise_of(backend)
    gateways = {"Samwise gateway": samwise, "Feed": await feed_of(backend)}
    page = index_page(status.value, services.value, brokers.value, links.value, gateways, dead, dead_n, paths)
    return with_missing(web.Response(text=page, content_type="text/html"), status.missing)


async def samwise_of(backend: Backend) -> tuple[dict[str, str], list[MessageView], int]:
    """How the Samwise gateway is, for people; its first dead letters, and how many there are. Empty where there is
    none."""
    gateway = backend.samwise
    if not gateway.is_there:
        return {}, [], 0
    try:
        # At the same time: each may take as long as a person should wait for both.
        state, dead = await asyncio.gather(gateway.state(), gateway.messages(DEAD, 0, DEAD_LETTERS))
    except AdminError as error:
        return {"state": error.detail}, [], 0
    return samwise_texts(msgspec.to_builtins(state.value)), dead.value.items, state.value.dead


async def feed_of(backend: Backend) -> dict[str, str]:
    """How the feed is, likewise."""
    if not backend.feed.is_there:
        return {}
    try:
        state = await backend.feed.state()
    except AdminError as error:
        return {"state": error.detail}
    return feed_texts(msgspec.to_builtins(state.value))


async def livez(endpoints: Endpoints, request: web.Request) -> web.Response:
    """The loop turns, or nobody would answer; workers that do not live are started again."""
    return json_response(Health("live"))


async def readyz(endpoints: Endpoints, request: web.Request) -> web.Response:
    """Whether requests of peers are taken."""
    ready = await endpoints.backend.check_ready()
    return with_missing(json_response(Health("ready")), ready.missing)


async def metrics(endpoints: Endpoints, request: web.Request) -> web.Response:
    """For Prometheus."""
    accept, is_packed = request.headers.get("Accept", ""), takes_gzip(request)

    async def make() -> Answer[tuple[bytes, str]]:
        (body, content_type), missing = await endpoints.backend.metrics(accept)
        return Answer((await packed(body) if is_packed else body, content_type), missing)

    kind = f"{choose_encoder(accept)[1]} {GZIP if is_packed else ''}"
    (body, content_type), missing = await endpoints.exposition.get(kind, make)
    headers = {"Content-Type": content_type} | ({"Content-Encoding": GZIP} if is_packed else {})
    return with_missing(web.Response(body=body, headers=headers), missing)


async def posts_of(backend: Backend, request: web.Request) -> Answer[PostsView]:
    """Posts of one folder of the feed."""
    folder, after, limit = request.match_info["folder"], number_of(request, AFTER), number_of(request, LIMIT)
    return await backend.feed.posts(folder, after, limit, text_of(request, PATH), text_of(request, WITHOUT))


async def messages_of(backend: Backend, request: web.Request) -> Answer[MessagesView]:
    """Stored messages of the Samwise gateway."""
    return await backend.samwise.messages(word_of(request, STATE), number_of(request, AFTER), number_of(request, LIMIT))


async def limits_of(backend: Backend, request: web.Request) -> Answer[Items[LimitView]]:
    """The limits in use; they hold for each worker."""
    return Answer(Items(limits(backend.config)))


async def operations_of(backend: Backend, request: web.Request) -> Answer[Items[OperationView]]:
    """What can be asked and changed."""
    return Answer(Items([OperationView(each.method, each.template, each.about) for each in operations()]))


async def openapi(endpoints: Endpoints, request: web.Request) -> web.Response:
    """All of that for programs."""
    body = await asyncio.to_thread(openapi_text)  # some 40 ms at the first time
    return web.Response(body=body, content_type=JSON_TYPE)


@cache
def openapi_text() -> bytes:
    """The document; it is the same as long as the process runs."""
    return msgspec.json.format(msgspec.json.encode(document(operations()))) + b"\n"


def operations() -> list[Operation]:
    """All of this API."""
    return [*(each.operation for each in ENDPOINTS), *(each.operation for each in CHANGES)]


def paged(
    path: str,
    kind: type[T],
    ask: Callable[[Backend, Part], Awaitable[Answer[T]]],
    about: str,
    search: Sequence[Parameter] = (),
) -> Endpoint:
    """A view of which a part is asked for. `search`: what it can be searched for and sorted by."""
    return view(path, kind, lambda backend, asked: ask(backend, part_of(asked, search)), about, (*PART, *search))


def listing(row: Listing[Any]) -> Endpoint:
    """A list that both backends answer alike."""
    return paged(row.path, row.kind, lambda backend, part: backend.listed(row, part), row.about, row.search)


ENDPOINTS: Final = (
    Endpoint(Operation("GET", "/", "a page for people", refuses=("not-ready",), media_type="text/html"), index),
    view(ROOT, Items[OperationView], operations_of, "what can be asked and changed"),
    Endpoint(
        Operation("GET", f"{ROOT}/openapi.json", "the same for programs: an OpenAPI document", dict[str, Any]), openapi
    ),
    view("/api/v1/status", schemas.StatusView, lambda backend, _: backend.status(), "an overview of the broker"),
    view(
        "/api/v1/routes",
        Listed[schemas.RouteView],
        lambda backend, asked: backend.routes(tags_of(asked), brokers_of(asked), part_of(asked)),
        "routes, for example ?service=orders&tag.region=eu",
        (*PART, SERVICE, BROKER, TAGS),
        ("bad-filter",),
    ),
    view(
        "/api/v1/routes/{id:[^/]+}",  # Id{…} has braces, which a plain {id} excludes
        schemas.RouteView,
        lambda backend, asked: backend.route(asked.match_info["id"]),
        "one route",
        refuses=("no-such-route",),
    ),
    *map(listing, LISTS),
    view(
        "/api/v1/services/{name:.+}",  # a service's name may hold slashes
        schemas.ServiceDetailView,
        lambda backend, asked: backend.service(asked.match_info["name"], part_of(asked)),
        "a service, a part of its routes, and its traffic",
        PART,
        ("no-such-service",),
    ),
    paged(
        "/api/v1/connections",
        Listed[schemas.ConnectionView],
        lambda backend, part: backend.connections(part),
        "connections",
        CONNECTION_SEARCH,
    ),
    paged(
        "/api/v1/connections/closed",
        Listed[schemas.ClosedConnectionView],
        lambda backend, part: backend.closed(part),
        "recently closed connections, with the reason",
    ),
    view(
        CONNECTION,
        schemas.ConnectionView,
        lambda backend, asked: backend.connection(connection_number(asked)),
        "one connection",
        refuses=("no-such-connection",),
    ),
    paged(
        "/api/v1/links",
        schemas.LinksView,
        lambda backend, part: backend.links(part),
        "connections to other brokers, and failed dials",
    ),
    view("/api/v1/limits", Items[LimitView], limits_of, "limits in use, with their reasons"),
    Endpoint(
        Operation(
            "GET", EVENTS, "event files, for Spark elsewhere", StreamsView, (*PART, ARCHIVED), refuses=("not-ready",)
        ),
        lambda endpoints, asked: endpoints.event_files.streams(asked),
    ),
    Endpoint(
        Operation(
            "GET",
            EVENTS + "/{stream:[^/]+}",
            "the event files of one run of a broker",
            Listed[EventFileView],
            (*PART, ARCHIVED, SOURCE, AFTER),
            refuses=NO_EVENTS,
        ),
        lambda endpoints, asked: endpoints.event_files.files(asked),
    ),
    Endpoint(
        Operation(
            "GET",
            EVENTS + "/{stream:[^/]+}/{source:[^/]+}/{number:[^/]+}",
            "the bytes of one event file, or a Range of them",
            refuses=NO_EVENTS,
            media_type="application/octet-stream",
        ),
        lambda endpoints, asked: endpoints.event_files.file(asked),
    ),
    view(SAMWISE, SamwiseView, lambda backend, _: backend.samwise.state(), "the Samwise gateway", refuses=NO_SAMWISE),
    view(
        SAMWISE + "/messages",
        MessagesView,
        messages_of,
        "stored messages of the Samwise gateway; ?state=dead: dead letters",
        (STATE, AFTER, LIMIT),
        NO_SAMWISE,
    ),
    view(
        FEED, FeedView, lambda backend, _: backend.feed.state(), "the feed: what is announced, who has it", (), NO_FEED
    ),
    view(
        FEED + "/{folder:[^/]+}/posts",
        PostsView,
        posts_of,
        "posts of a folder with the reports on them; ?path=…: who has this file; ?without=…: what this consumer lacks",
        (AFTER, LIMIT, PATH, WITHOUT),
        (*NO_FEED, "no-such-folder"),
    ),
    Endpoint(
        Operation(
            "GET",
            r"/feed/{folder:[^/]+}/{path:[\s\S]*}",
            "the bytes of an announced file, or a Range of them",
            refuses=("no-such-file",),
            media_type="application/octet-stream",
        ),
        lambda endpoints, asked: endpoints.feed_files.answer(asked),
    ),
    Endpoint(Operation("GET", "/metrics", "metrics for Prometheus", media_type="text/plain"), metrics),
    Endpoint(Operation("GET", "/livez", "liveness", Health), livez),
    Endpoint(Operation("GET", "/readyz", "readiness: are requests accepted?", Health, refuses=("not-ready",)), readyz),
)
