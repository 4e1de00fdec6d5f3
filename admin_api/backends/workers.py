"""The admin API of several workers as that of one broker: every question is put to all of them, over Unix sockets that
only they and the supervisor can open, and one answer is made of theirs.

Decides for each path who is asked and what is done with the answers; how values are put together stands in
`workers_merge` and `workers_metrics`. A worker that does not answer is missing in the answer, whose header
`X-Workers-Missing` says so; it never makes the question fail as long as one answers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence, Set
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web
from prometheus_client.exposition import choose_encoder

from admin_api.app import (
    BROKER_DRAIN,
    CHANGES,
    ENDPOINTS,
    EVENT_FILE,
    EVENT_STREAM,
    EVENTS,
    HEADERS,
    NONE,
    REDIRECT,
    ROUTE_DRAIN,
    TAG_DRAIN,
)
from admin_api.backends.admin import Workers
from admin_api.backends.ask import Asker, Query, Reply
from admin_api.backends.merge import (
    GATHERED,
    Answer,
    Body,
    gathered,
    inner_id,
    join_drains,
    listed,
    placed,
    plan_pages,
    service_detail,
    status,
)
from admin_api.backends.metrics import WorkersMetrics, encoded, own_families
from admin_api.bodies import MAX_BODY_BYTES
from admin_api.changes import guard
from admin_api.errors import AdminError, Handler, problems, shown
from admin_api.event_files import EventFiles
from admin_api.guards import known_host_only
from admin_api.listener import STOP_S
from admin_api.metrics import log_lines
from admin_api.page import index_page
from admin_api.parameters import BROKER, SERVICE, TAG, brokers_of, part_of, reject_unknown
from admin_api.schemas import Health, Items, json_response
from admin_api.shared import Shared
from broker.limited_log import STRANGERS
from broker.views import queries
from broker.views.schemas import BrokerView, LinksView, Listed, Part, StatusView
from rsocket_wire.errors import BrokerError

MISSING: Final = "X-Workers-Missing"
BROKERS: Final = "/api/v1/brokers"
ROUTES: Final = "/api/v1/routes"
LINKS: Final = "/api/v1/links"
STATUS: Final = "/api/v1/status"
SUPERVISOR: Final = 0  # among the numbers of workers
SHOWN: Final = 20  # brokers and links on the page, of each
Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Drain(NamedTuple):
    """How something was drained."""

    path: str
    body: bytes


class WorkersApi:
    """The answers of all workers."""

    def __init__(self, workers: Workers) -> None:
        self._workers: Final = workers
        self.asker: Final = Asker(self)
        self._metrics: Final = WorkersMetrics()
        self._exposition: Final = Shared[tuple[bytes, str, list[Reply]]]()
        self._drains: Final[dict[tuple[str, str], Drain]] = {}  # by kind and name; as many as a worker lets there be
        event_files = EventFiles(workers.config.events.dir)  # all workers write into one folder
        self._returning: Final[set[asyncio.Task[None]]] = set()  # workers that are told of drains; ends with each
        self._special: Final[dict[str, Answering]] = {
            "/": self.index,
            "/livez": self.livez,
            "/readyz": self.readyz,
            "/metrics": self.metrics,
            STATUS: self.status,
            ROUTES: self.routes,
            "/api/v1/routes/{id:[^/]+}": self.route,
            "/api/v1/services/{name:.+}": self.service,
            "/api/v1/connections": self.connections,
            LINKS: self.links,
            "/api/v1/limits": self.limits,
            EVENTS: event_files.streams,
            EVENT_STREAM: event_files.files,
            EVENT_FILE: event_files.file,
        }

    def numbers(self) -> list[int]:
        """Of all workers."""
        return [each.number for each in self._workers.states()]

    def admin_path(self, number: int, /) -> str:
        """The Unix socket of one."""
        return self._workers.admin_path(number)

    def answer_of(self, path: str) -> Answering:
        """Who answers at this path of ENDPOINTS; KeyError when it has no rule yet."""
        if path in self._special:
            return self._special[path]
        rule = GATHERED[path]

        async def answer(request: web.Request) -> web.Response:
            part = part_of(request)
            replies, items = await self._whole(path, _filters(request))
            if path == "/api/v1/connections/closed":
                items = [Answer(each.worker, placed(each)) for each in items]
            return self._json(gathered(rule, items, part), replies)

        return answer

    async def index(self, request: web.Request) -> web.Response:
        """A page for people."""
        replies, joined = await self._status()
        part = Part(limit=SHOWN)
        _, brokers = await self._whole(BROKERS, ())
        linked, links = await self._links(part)
        page = index_page(
            msgspec.convert(joined, StatusView),
            msgspec.convert(gathered(GATHERED[BROKERS], brokers, part), Listed[BrokerView]),
            msgspec.convert(links, LinksView),
        )
        return self._said(web.Response(text=page, content_type="text/html"), replies or linked)

    async def livez(self, request: web.Request) -> web.Response:
        """The supervisor lives; workers that do not are started again."""
        return json_response(Health("live"))

    async def readyz(self, request: web.Request) -> web.Response:
        """Whether requests of peers are taken, by any worker."""
        replies = await self.asker.ask_all("/readyz")
        if any(reply.is_good for reply in replies):
            return self._said(json_response(Health("ready")), replies)
        return self._passed(replies)

    async def metrics(self, request: web.Request) -> web.Response:
        """For Prometheus."""
        accept = request.headers.get("Accept", "")
        body, content_type, replies = await self._exposition.get(
            choose_encoder(accept)[1], lambda: self._metrics_of_all(accept)
        )
        return self._said(web.Response(body=body, headers={"Content-Type": content_type}), replies)

    async def _metrics_of_all(self, accept: str) -> tuple[bytes, str, list[Reply]]:
        """Text, content type, and what it was made of."""
        states = self._workers.states()
        replies = [reply for reply in await self.asker.ask_all("/metrics") if reply.is_good]
        pids = {each.number: each.pid for each in states}
        texts = {reply.worker: (pids[reply.worker], reply.body.decode()) for reply in replies}
        own = own_families(
            {each.number: each.restarts for each in states}, {each.number: each.number in texts for each in states}
        )
        texts[SUPERVISOR] = 0, encoded([log_lines(STRANGERS.lines)])  # it has the admin port
        return *self._metrics.render(accept, texts, own), replies

    async def status(self, request: web.Request) -> web.Response:
        """All workers in one look."""
        replies, joined = await self._status()
        return self._json(joined, replies)

    async def routes(self, request: web.Request) -> web.Response:
        """Routes by their tags and their brokers."""
        return await self._routes(part_of(request), _filters(request), brokers_of(request))

    async def route(self, request: web.Request) -> web.Response:
        """One route, from the worker that has it."""
        replies = await self.asker.ask_all(request.rel_url.raw_path)
        found = [Answer(reply.worker, reply.json()) for reply in replies if reply.is_good]
        if not found:
            return self._passed(replies)
        own = [placed(answer) for answer in found if answer.body["is_local"]]
        return self._json(own[0] if own else found[0].body | {"worker": None}, replies)

    async def service(self, request: web.Request) -> web.Response:
        """One service, its routes and its traffic."""
        part = part_of(request)
        replies = await self.asker.ask_all(request.rel_url.raw_path, [("limit", "1")])
        found = [Answer(reply.worker, reply.json()) for reply in replies if reply.is_good]
        if not found:
            return self._passed(replies)
        _, routes = await self._list_routes(part, [(SERVICE, request.match_info["name"])], frozenset())
        return self._json(service_detail(found, routes), replies)

    async def connections(self, request: web.Request) -> web.Response:
        """Connections that are there, of one worker behind those of the other."""
        asked: dict[tuple[int, int], Query] = {(number, number): () for number in self.numbers()}
        silent, body = await self._paged("/api/v1/connections", part_of(request), asked)
        return self._json(body, (), silent)

    async def links(self, request: web.Request) -> web.Response:
        """Connections to other brokers, and between workers."""
        replies, body = await self._links(part_of(request))
        return self._json(body, replies)

    async def limits(self, request: web.Request) -> web.Response:
        """The limits in use; they hold for each worker."""
        return json_response(Items(queries.limits(self._workers.config)))

    # Changes

    async def change(self, request: web.Request, path: str, method: str) -> web.Response:
        """Drains are for all workers; a connection has one; a redirect is told to one, which tells the others."""
        body = await request.read()
        raw = request.rel_url.raw_path
        if path in (ROUTE_DRAIN, TAG_DRAIN, BROKER_DRAIN):
            replies = await self.asker.ask_all(raw, (), method, body)
            drains = [reply.json() for reply in replies if reply.is_good]
            if not drains:
                return self._passed(replies)
            name = (drains[0]["kind"], drains[0]["name"])
            self._drains.pop(name, None)
            if method == "PUT":
                self._drains[name] = Drain(raw, body)
            return self._json(join_drains(drains), replies)
        if path == REDIRECT:
            for number in self.numbers():
                reply = await self.asker.ask(number, raw, (), method, body)
                if reply is not None:
                    return _raw(reply)
            return self._passed([])
        return await self._close(request, method)

    def returned(self, worker: int) -> None:
        """A worker was started again: what is drained is drained there, too."""
        if self._drains:
            task = asyncio.get_running_loop().create_task(self._drain_again(worker))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    async def close(self) -> None:
        """Asks and tells no more."""
        for task in self._returning:
            task.cancel()
        await self.asker.close()

    async def _drain_again(self, worker: int) -> None:
        for drain in list(self._drains.values()):
            await self.asker.ask(worker, drain.path, (), "PUT", drain.body)

    async def _close(self, request: web.Request, method: str) -> web.Response:
        text = request.match_info["id"]
        inner = inner_id(text)
        reply = None
        if inner is not None and inner[0] in self.numbers():
            reply = await self.asker.ask(inner[0], f"/api/v1/connections/{inner[1]}", (), method)
            if reply is None:
                return self._passed([])
        if reply is None or reply.status == 404:
            raise AdminError("no-such-connection", f"no connection has the number {shown(text)}")
        return self._json(placed(Answer(reply.worker, reply.json())), ()) if reply.is_good else _raw(reply)

    # How

    async def _status(self) -> tuple[list[Reply], Body]:
        workers = self._workers
        replies = await self.asker.ask_all(STATUS)
        bodies = [reply.json() for reply in replies if reply.is_good]
        if not bodies:
            raise _nobody()
        states = [body["state"] for body in bodies]
        own = {
            "broker_id": workers.broker_id,
            "name": workers.config.broker.name,
            "state": "stopping" if workers.is_stopping else "ready" if "ready" in states else states[0],
            "started_at_ms": workers.started_at_ms,
            "uptime_s": max(0, workers.now_ms() - workers.started_at_ms) / 1000,
            "listeners": list(workers.listeners),
            "config": queries.config_view(workers.config),
            "workers": msgspec.to_builtins(list(workers.states())),
        }
        return replies, status(bodies, own)

    async def _routes(self, part: Part, filters: Query, brokers: frozenset[str]) -> web.Response:
        replies, body = await self._list_routes(part, filters, brokers)
        return self._json(body, replies)

    async def _list_routes(self, part: Part, filters: Query, brokers: frozenset[str]) -> tuple[list[Reply], Body]:
        """Routes of each worker as it sees them itself, then those of other brokers as one worker sees them."""
        states = [each for each in self._workers.states() if each.name]
        filters = list(filters)
        asked: dict[tuple[int, int], Query] = {  # who is asked what; 0: routes that no worker has
            (each.number, each.number): [*filters, (BROKER, each.name)]
            for each in states
            if not brokers or each.name in brokers
        }
        replies, known = await self._whole(BROKERS, ())
        others = sorted({str(each.body["name"]) for each in known} - {each.name for each in states})
        wanted = [name for name in others if not brokers or name in brokers]
        if wanted or not asked:  # of a broker that nobody knows: one worker says whether the other filters are good
            names = wanted or sorted(brokers)
            asked[0, replies[0].worker] = [*filters, *((BROKER, name) for name in names)]
        silent, body = await self._paged(ROUTES, part, asked)
        return [reply for reply in replies if reply.worker not in silent], body

    async def _paged(self, path: str, part: Part, asked: dict[tuple[int, int], Query]) -> tuple[set[int], Body]:
        """A part of lists one behind the other, and who did not answer. `asked`: by place (the worker that has the
        items; 0: none has) and worker, the query."""
        lists = list(asked.items())
        firsts = await asyncio.gather(
            *(self.asker.ask(worker, path, [*query, ("limit", "1")]) for (_, worker), query in lists)
        )
        self._check([reply for reply in firsts if reply is not None])
        silent = {worker for ((_, worker), _), reply in zip(lists, firsts, strict=True) if reply is None}
        totals = {at: int(reply.json()["total"]) for at, reply in enumerate(firsts) if reply and reply.is_good}
        plans = plan_pages(totals, part)
        pages = await asyncio.gather(
            *(
                self.asker.ask(
                    lists[plan.at][0][1],
                    path,
                    [*lists[plan.at][1], ("offset", str(plan.offset)), ("limit", str(plan.limit))],
                )
                for plan in plans
            )
        )
        items: list[Body] = []
        for plan, page in zip(plans, pages, strict=True):
            place, worker = lists[plan.at][0]
            if page is None or not page.is_good:
                silent.add(worker)
                continue
            items += [
                placed(Answer(place, body)) if place else body | {"worker": None} for body in page.json()["items"]
            ]
        return silent, listed(items, sum(totals.values()), part)

    async def _links(self, part: Part) -> tuple[list[Reply], Body]:
        replies = await self.asker.ask_all(LINKS, [("limit", "1000")])  # cluster.max_links is less, but for experts
        self._check(replies)
        bodies = [Answer(reply.worker, reply.json()) for reply in replies if reply.is_good]
        items = [placed(Answer(each.worker, item)) for each in bodies for item in each.body["items"]]
        dials = [item | {"worker": each.worker} for each in bodies for item in each.body["dials"]]
        return replies, listed(items[part.offset : part.offset + part.limit], len(items), part) | {"dials": dials}

    async def _whole(self, path: str, query: Query) -> tuple[list[Reply], list[Answer]]:
        """Everything on a list, of all workers; a reply for each that answered."""
        query = list(query)
        found = await asyncio.gather(*(self.asker.whole(number, path, query) for number in self.numbers()))
        replies: list[Reply] = []
        items: list[Answer] = []
        for number, each in zip(self.numbers(), found, strict=True):
            if isinstance(each, list):
                items += each
                replies.append(Reply(number, 200, b"", ""))
            elif each is not None:
                replies.append(each)
        self._check(replies)
        return replies, items

    def _check(self, replies: Sequence[Reply]) -> None:
        """Raises what all say, if it is that the question is a bad one."""
        if not replies:
            raise _nobody()
        if not any(reply.is_good for reply in replies):
            raise _refused(replies[0])

    def _passed(self, replies: Sequence[Reply]) -> web.Response:
        """What the first one says, who speaks for all."""
        if not replies:
            raise _nobody()
        return self._said(_raw(replies[0]), replies)

    def _json(self, body: Body, replies: Sequence[Reply], silent: Set[int] = frozenset()) -> web.Response:
        return self._said(json_response(body), replies, silent)

    def _said(self, response: web.Response, replies: Sequence[Reply], silent: Set[int] = frozenset()) -> web.Response:
        """With the workers that are missing: those without one of the replies, if there are any, and the silent."""
        gone = set(silent)
        if replies:
            gone |= set(self.numbers()) - {reply.worker for reply in replies}
        if gone:
            response.headers[MISSING] = ", ".join(map(str, sorted(gone)))
        return response


def make_workers_app(workers: Workers) -> web.Application:
    """The application of all workers."""
    app = web.Application(middlewares=[problems, known_host_only(workers.config)], client_max_size=MAX_BODY_BYTES)
    api = WorkersApi(workers)
    workers.on_return = api.returned
    for endpoint in ENDPOINTS:
        app.router.add_get(
            endpoint.path, _handler(api.answer_of(endpoint.path), endpoint.parameters, endpoint.takes_tags)
        )
    for change in CHANGES:
        app.router.add_route(change.method, change.path, _change_handler(workers, api, change.path, change.method))

    async def close(_: web.Application) -> None:
        workers.on_return = None
        await api.close()

    async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(HEADERS)

    app.on_cleanup.append(close)
    app.on_response_prepare.append(add_headers)
    return app


async def start_unix(app: web.Application, path: str) -> web.AppRunner:
    """Listens at a Unix socket; the runner, whose `cleanup()` ends it. BrokerError "cannot-listen"."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=STOP_S)
    await runner.setup()
    try:
        if os.path.exists(path):
            os.unlink(path)  # of a process that was killed
        await web.UnixSite(runner, path).start()
    except OSError as error:
        await runner.cleanup()
        raise BrokerError("cannot-listen", f"admin {path}: {error.strerror or error}") from None
    return runner


def _handler(answer: Answering, parameters: frozenset[str], takes_tags: bool) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        reject_unknown(request, parameters, takes_tags)
        return await answer(request)

    return handle


def _change_handler(workers: Workers, api: WorkersApi, path: str, method: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        guard(request, workers.config, workers.is_stopping)
        reject_unknown(request, NONE, False)
        return await api.change(request, path, method)

    return handle


def _filters(request: web.Request) -> list[tuple[str, str]]:
    """What is passed on of a query: which items, not which part of them."""
    return [(name, value) for name, value in request.query.items() if name == SERVICE or name.startswith(TAG)]


def _raw(reply: Reply) -> web.Response:
    return web.Response(body=reply.body, status=reply.status, headers={"Content-Type": reply.content_type})


def _nobody() -> AdminError:
    return AdminError("not-ready", "no worker answers", ["starting: all workers are being started"])


def _refused(reply: Reply) -> AdminError:
    """What a worker refuses all would."""
    problem: dict[str, Any] = reply.json()
    return AdminError(str(problem["code"]), str(problem["detail"]), list(problem.get("reasons", [])))
