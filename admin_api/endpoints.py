"""What each path answers. Plain functions without a wait, so that what they read cannot change under them; only the
metrics, which may be long, let the loop turn in between, and event files are looked for in a thread."""

from typing import Final

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from admin_api.admin import Admin, state_of
from admin_api.errors import AdminError, shown
from admin_api.event_files import EventFiles
from admin_api.metrics import Metrics
from admin_api.page import index_page
from admin_api.parameters import brokers_of, part_of, tags_of
from admin_api.schemas import Health, Items, json_response
from admin_api.shared import Shared
from broker.views import cluster_queries, queries, schemas
from broker.views.schemas import Part

SHOWN: Final = 20  # brokers and links on the page, of each
REASONS: Final = {
    "starting": "starting: not everything is listened on yet",
    "draining": "draining: an operator took the broker out of service",
    "stopping": "stopping: no new requests are taken, those in flight may end",
}


class Endpoints:
    """The answers of one broker."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._metrics = Metrics(admin)
        self._exposition = Shared[tuple[bytes, str]]()
        self._event_files = EventFiles(admin.config.events.dir)

    def index(self, request: web.Request) -> web.Response:
        """A page for people."""
        core = self._admin.core
        part = Part(limit=SHOWN)
        brokers = cluster_queries.brokers(core, part)
        links = cluster_queries.links(core, self._admin.moment(), part, self._admin.lookups())
        return web.Response(text=index_page(self._status(), brokers, links), content_type="text/html")

    def livez(self, request: web.Request) -> web.Response:
        """The loop turns, or nobody would answer."""
        return json_response(Health("live"))

    def readyz(self, request: web.Request) -> web.Response:
        """Whether requests of peers are taken."""
        state = state_of(self._admin)
        if state != "ready":
            raise AdminError("not-ready", f"the broker is {state}", [REASONS[state]])
        return json_response(Health("ready"))

    async def metrics(self, request: web.Request) -> web.Response:
        """For Prometheus."""
        accept = request.headers.get("Accept", "")
        kind = choose_encoder(accept)[1]
        body, content_type = await self._exposition.get(kind, lambda: self._metrics.render(accept))
        return web.Response(body=body, headers={"Content-Type": content_type})

    def status(self, request: web.Request) -> web.Response:
        """The broker in one look."""
        return json_response(self._status())

    def routes(self, request: web.Request) -> web.Response:
        """Routes by their tags and their brokers."""
        admin = self._admin
        brokers = brokers_of(request)
        return json_response(queries.routes(admin.core, admin.moment(), tags_of(request), part_of(request), brokers))

    def route(self, request: web.Request) -> web.Response:
        """One route."""
        id = request.match_info["id"]
        found = queries.route(self._admin.core, self._admin.moment(), id)
        if found is None:
            raise AdminError("no-such-route", f"no route has the id {shown(id)}")
        return json_response(found)

    def services(self, request: web.Request) -> web.Response:
        """Services that have a route."""
        return json_response(queries.services(self._admin.core, part_of(request)))

    def service(self, request: web.Request) -> web.Response:
        """One service, its routes and its traffic."""
        name = request.match_info["name"]
        found = queries.service(self._admin.core, self._admin.moment(), name, part_of(request))
        if found is None:
            raise AdminError("no-such-service", f"no route offers the service {shown(name)!r}")
        return json_response(found)

    def connections(self, request: web.Request) -> web.Response:
        """Connections that are there."""
        return json_response(queries.connections(self._admin.core, self._admin.moment(), part_of(request)))

    def closed(self, request: web.Request) -> web.Response:
        """Connections that ended of late."""
        return json_response(queries.closed(self._admin.core, part_of(request)))

    def traffic(self, request: web.Request) -> web.Response:
        """Ended requests, counted."""
        return json_response(queries.traffic(self._admin.core, part_of(request)))

    def drains(self, request: web.Request) -> web.Response:
        """What gets no new requests."""
        return json_response(queries.drains(self._admin.core, self._admin.moment(), part_of(request)))

    def brokers(self, request: web.Request) -> web.Response:
        """Brokers of the cluster."""
        return json_response(cluster_queries.brokers(self._admin.core, part_of(request)))

    def links(self, request: web.Request) -> web.Response:
        """Connections to other brokers."""
        admin = self._admin
        return json_response(cluster_queries.links(admin.core, admin.moment(), part_of(request), admin.lookups()))

    def paths(self, request: web.Request) -> web.Response:
        """Ways that requests took."""
        return json_response(cluster_queries.paths(self._admin.core, self._admin.moment(), part_of(request)))

    def redirects(self, request: web.Request) -> web.Response:
        """Services whose requests go elsewhere."""
        return json_response(cluster_queries.redirects(self._admin.core, self._admin.moment(), part_of(request)))

    def limits(self, request: web.Request) -> web.Response:
        """The limits in use."""
        return json_response(Items(queries.limits(self._admin.config)))

    async def event_streams(self, request: web.Request) -> web.Response:
        """Runs of brokers that have event files."""
        return await self._event_files.streams(request)

    async def event_files(self, request: web.Request) -> web.Response:
        """Event files of one run."""
        return await self._event_files.files(request)

    async def event_file(self, request: web.Request) -> web.StreamResponse:
        """The bytes of one event file."""
        return await self._event_files.file(request)

    def _status(self) -> schemas.StatusView:
        admin = self._admin
        return queries.status(
            admin.core,
            admin.moment(),
            name=admin.config.broker.name,
            state=state_of(admin),
            listeners=admin.listeners,
            event_files=admin.event_state(),
            config=admin.config,
        )
