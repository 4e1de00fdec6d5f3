"""The answers of several workers as those of one broker: every question is put to all of them, over Unix sockets that
only they and the supervisor can open, and one answer is made of theirs.

Decides who is asked and in which order items stand; how values become one stands beside the fields of the views
(`broker.views.merge`), how metrics do in `metrics`. A worker that does not answer is missing in the answer; it never
makes the question fail as long as one answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from admin_api.backends.answer import Answer, DrainTarget
from admin_api.backends.ask import ANSWER_S, SILENT_S, Query, Reply, WorkerClient, check
from admin_api.backends.feed import Feed
from admin_api.backends.lists import BROKERS, Listing
from admin_api.backends.metrics import WorkersMetrics, encoded, own_families
from admin_api.backends.one import OneBroker
from admin_api.backends.samwise import SamwiseGateway
from admin_api.bodies import ChangeNote, Terms
from admin_api.errors import AdminError, no_connection
from admin_api.metrics import log_lines
from admin_api.parameters import BROKER, SORT, TAG
from admin_api.processes import GatewayProcess, Supervisor
from broker.config.options import Config
from broker.limited_log import STRANGERS
from broker.views import schemas
from broker.views.merge import count_outside, merge, merge_items
from broker.views.queries import TagFilter, config_view
from broker.views.schemas import Listed, Part
from broker.views.search import sort_views

ROUTES: Final = "/api/v1/routes"
CONNECTIONS: Final = "/api/v1/connections"
NOTES: Final = "/api/v1/notes"  # of a worker, which nobody but its supervisor asks
REVOKED: Final = "/api/v1/revoked"  # likewise
WORKER_STRIDE: Final = 1000  # connection 42 of worker 3 is 42003 for operators
SUPERVISOR: Final = 0  # among the numbers of workers

T = TypeVar("T")
View = TypeVar("View", bound=msgspec.Struct)
Placed = TypeVar(
    "Placed", bound=schemas.RouteView | schemas.ConnectionView | schemas.ClosedConnectionView | schemas.LinkView
)


class Question(NamedTuple):
    """What one worker is asked for a part of a list."""

    worker: int
    query: Query
    is_owner: bool = True  # the items are its own; else no worker's


class PagePlan(NamedTuple):
    """The part of one of several lists."""

    at: int  # which list
    offset: int
    limit: int


class Workers:
    """The questions of `OneBroker`, put to all workers."""

    def __init__(
        self,
        supervisor: Supervisor,
        samwise: GatewayProcess | None = None,
        feed: GatewayProcess | None = None,
        answer_s: float = ANSWER_S,
        silent_s: float = SILENT_S,
    ) -> None:
        """`answer_s`: for one answer; `silent_s`: for one of a worker that took too long the last time."""
        self.samwise: Final = SamwiseGateway(supervisor.config.samwise, samwise)  # one for all workers
        self.feed: Final = Feed(supervisor.config.feed, feed)
        self._supervisor: Final = supervisor
        self._client: Final = WorkerClient(self._numbers, supervisor.admin_path, answer_s, silent_s)
        self._metrics: Final = WorkersMetrics()
        # Path and body of each drain, by kind and name; as many as a worker lets there be.
        self._drains: Final[dict[tuple[str, str], tuple[str, bytes]]] = {}
        self._returning: Final[set[asyncio.Task[None]]] = set()  # workers that are told of drains; ends with each
        supervisor.on_return = self._returned

    @property
    def config(self) -> Config:
        return self._supervisor.config

    @property
    def is_stopping(self) -> bool:
        return self._supervisor.is_stopping

    async def close(self) -> None:
        self._supervisor.on_return = None
        for task in self._returning:
            task.cancel()
        await self._client.close()
        await self.samwise.close()
        await self.feed.close()

    async def check_ready(self) -> Answer[None]:
        replies = await self._client.ask_all("/readyz")
        return Answer(None, replies.missing)

    async def metrics(self, accept: str) -> Answer[tuple[bytes, str]]:
        states = self._supervisor.states()
        replies, samwise, feed = await asyncio.gather(
            self._client.ask_each("/metrics"), self.samwise.families(), self.feed.families()
        )
        pids = {each.number: each.pid for each in states}
        texts = {reply.worker: (pids[reply.worker], reply.body.decode()) for reply in replies if reply.is_good}
        own = own_families(
            {each.number: each.restarts for each in states}, {each.number: each.number in texts for each in states}
        )
        missing = frozenset(pids.keys() - texts.keys()) if texts else frozenset[int]()
        texts[SUPERVISOR] = 0, encoded([log_lines(STRANGERS.lines)])  # it has the admin port
        return Answer(self._metrics.render(accept, texts, [*own, *samwise, *feed]), missing)

    async def status(self) -> Answer[schemas.StatusView]:
        supervisor = self._supervisor
        replies = await self._client.ask_all("/api/v1/status")
        statuses = [reply.decode(schemas.StatusView) for reply in replies.good]
        states = [each.state for each in statuses]
        merged = merge(statuses)
        remote_routes = count_outside([(each.routes, each.cluster.remote_routes) for each in statuses])
        status = replace(
            merged,
            broker_id=supervisor.broker_id,
            name=supervisor.config.broker.name,
            state="stopping" if supervisor.is_stopping else "ready" if "ready" in states else states[0],
            started_at_ms=supervisor.started_at_ms,
            uptime_s=max(0, supervisor.now_ms() - supervisor.started_at_ms) / 1000,
            listeners=list(supervisor.listeners),
            cluster=replace(merged.cluster, remote_routes=remote_routes),
            config=config_view(supervisor.config),
            workers=list(supervisor.states()),
        )
        return Answer(status, replies.missing)

    async def routes(self, wanted: TagFilter, brokers: frozenset[str], part: Part) -> Answer[Listed[schemas.RouteView]]:
        """Routes of each worker as it sees them itself, then those of other brokers as one worker sees them."""
        filters = [(f"{TAG}{name}", value) for name, value in wanted.given]
        states = [each for each in self._supervisor.states() if each.name]
        known = await self._client.list_all(BROKERS.path, BROKERS.kind)
        questions = [
            Question(each.number, [*filters, (BROKER.name, each.name)])
            for each in states
            if not brokers or each.name in brokers
        ]
        others = {each.name for items in known.items.values() for each in items} - {each.name for each in states}
        names = sorted(others & brokers if brokers else others)
        if names:
            query = [*filters, *((BROKER.name, name) for name in names)]
            questions.append(Question(min(known.items), query, is_owner=False))
        routes, silent = await self._page(ROUTES, Listed[schemas.RouteView], part, questions)
        return Answer(routes, known.missing | silent)

    async def route(self, id: str) -> Answer[schemas.RouteView]:
        """From the worker that has it, if one has."""
        replies = await self._client.ask_all(f"{ROUTES}/{quote(id, safe='')}")
        found = [(reply.worker, reply.decode(schemas.RouteView)) for reply in replies.good]
        own = [placed(route, worker) for worker, route in found if route.is_local]
        return Answer(own[0] if own else replace(found[0][1], worker=None), replies.missing)

    async def listed(self, listing: Listing[View], part: Part) -> Answer[Listed[View]]:
        lists = await self._client.list_all(listing.path, listing.kind, search_of(part))
        items = merge_items(each for items in lists.items.values() for each in items)
        if part.sort:
            sort_views(items, part.sort)
        elif listing.order is not None:
            items.sort(key=listing.order)
        return Answer(cut(items, part), lists.missing)

    async def service(self, name: str, part: Part) -> Answer[schemas.ServiceDetailView]:
        replies = await self._client.ask_all(f"/api/v1/services/{quote(name, safe='')}", [("limit", "1")])
        detail = merge([reply.decode(schemas.ServiceDetailView) for reply in replies.good])
        wanted = TagFilter()
        wanted.add("service", name)
        routes = await self.routes(wanted, frozenset(), part)
        return Answer(replace(detail, routes=routes.value), replies.missing)

    async def connections(self, part: Part) -> Answer[Listed[schemas.ConnectionView]]:
        """Those of one worker behind those of the other, or sorted; then of each worker the first ones."""
        query = search_of(part)
        if not part.sort:
            questions = [Question(number, query) for number in self._numbers()]
            return Answer(*await self._page(CONNECTIONS, Listed[schemas.ConnectionView], part, questions))
        query.append((SORT, part.sort))
        kind = Listed[schemas.ConnectionView]
        lists = await self._client.list_all(CONNECTIONS, kind, query, part.offset + part.limit)
        found = [placed(each, worker) for worker, items in lists.items.items() for each in items]
        sort_views(found, part.sort)
        items = found[part.offset : part.offset + part.limit]
        return Answer(Listed(items, lists.total_n, part.offset, part.limit), lists.missing)

    async def connection(self, number: int) -> Answer[schemas.ConnectionView]:
        """From its own worker."""
        worker, reply = await self._ask_connection(number)
        return Answer(placed(reply.decode(schemas.ConnectionView), worker))

    async def closed(self, part: Part) -> Answer[Listed[schemas.ClosedConnectionView]]:
        lists = await self._client.list_all(f"{CONNECTIONS}/closed", Listed[schemas.ClosedConnectionView])
        closed = [placed(each, worker) for worker, items in lists.items.items() for each in items]
        closed.sort(key=lambda each: -each.closed_at_ms)
        return Answer(cut(closed, part), lists.missing)

    async def links(self, part: Part) -> Answer[schemas.LinksView]:
        """Those between workers, too."""
        limit = [("limit", "1000")]  # cluster.max_links is less, but for experts
        replies = await self._client.ask_all("/api/v1/links", limit)
        found = [(reply.worker, reply.decode(schemas.LinksView)) for reply in replies.good]
        links = cut([placed(each, worker) for worker, links in found for each in links.items], part)
        dials = [replace(each, worker=worker) for worker, links in found for each in links.dials]
        return Answer(schemas.LinksView(links.items, links.total, links.offset, links.limit, dials), replies.missing)

    # Changes

    async def drain(self, target: DrainTarget, terms: Terms) -> Answer[schemas.DrainView]:
        """All workers drain, also those that are started again later."""
        body = msgspec.json.encode(terms)
        answer = await self._drain(target.path, "PUT", body)
        self._drains[answer.value.kind, answer.value.name] = target.path, body
        return answer

    async def undrain(self, target: DrainTarget) -> Answer[schemas.DrainView]:
        answer = await self._drain(target.path, "DELETE")
        self._drains.pop((answer.value.kind, answer.value.name), None)
        return answer

    async def redirect(self, service: str, to: str) -> Answer[schemas.RedirectView]:
        """One worker is told, which tells the others."""
        reply = await self._tell_one("redirects", service, "PUT", msgspec.json.encode({"to": to}))
        return Answer(reply.decode(schemas.RedirectView))

    async def unredirect(self, service: str) -> Answer[schemas.RedirectView]:
        return Answer((await self._tell_one("redirects", service, "DELETE")).decode(schemas.RedirectView))

    async def revoke(self, principal: str, before_ms: int) -> Answer[schemas.RevocationView]:
        """As `redirect`."""
        reply = await self._tell_one("revocations", principal, "PUT", msgspec.json.encode({"before_ms": before_ms}))
        return Answer(reply.decode(schemas.RevocationView))

    async def unrevoke(self, principal: str) -> Answer[schemas.RevocationView]:
        return Answer((await self._tell_one("revocations", principal, "DELETE")).decode(schemas.RevocationView))

    async def close_connection(self, number: int) -> Answer[schemas.ClosedConnectionView]:
        """At its own worker."""
        worker, reply = await self._ask_connection(number, "DELETE")
        return Answer(placed(reply.decode(schemas.ClosedConnectionView), worker))

    async def tell_changed(self, note: ChangeNote) -> None:
        """One worker writes the event, so that there is one."""
        body = msgspec.json.encode(note)
        for number in self._numbers():
            if await self._client.ask(number, NOTES, (), "PUT", body) is not None:
                return

    async def is_revoked(self, principal: str, issued_at_ms: int) -> bool:
        """As the first worker that answers knows it; AdminError "not-ready"."""
        query = [("principal", principal), ("issued_at_ms", str(issued_at_ms))]
        for number in self._numbers():
            reply = await self._client.ask(number, REVOKED, query)
            if reply is not None and reply.is_good:
                return reply.decode(bool)
        raise AdminError("not-ready", "no worker answers", ["nobody knows what was revoked"])

    def _returned(self, worker: int) -> None:
        """A worker was started again: what is drained is drained there, too."""
        if self._drains:
            task = asyncio.get_running_loop().create_task(self._drain_again(worker))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    async def _drain_again(self, worker: int) -> None:
        for path, body in list(self._drains.values()):
            await self._client.ask(worker, path, (), "PUT", body)

    async def _drain(self, path: str, method: str, body: bytes = b"") -> Answer[schemas.DrainView]:
        replies = await self._client.ask_all(path, (), method, body)
        return Answer(merge([reply.decode(schemas.DrainView) for reply in replies.good]), replies.missing)

    async def _tell_one(self, kind: str, name: str, method: str, body: bytes = b"") -> Reply:
        """The first worker that answers decides."""
        reply: Reply | None = None
        for number in self._numbers():
            reply = await self._client.ask(number, f"/api/v1/{kind}/{quote(name, safe='')}", (), method, body)
            if reply is not None:
                break
        (reply,) = check([reply])
        return reply

    # How

    def _numbers(self) -> list[int]:
        return [each.number for each in self._supervisor.states()]

    async def _ask_connection(self, number: int, method: str = "GET") -> tuple[int, Reply]:
        """The worker that has it, and what that says. AdminError "no-such-connection", "not-ready"."""
        connection_id, worker = divmod(number, WORKER_STRIDE)
        error = no_connection(number)
        if worker not in self._numbers():
            raise error
        reply = await self._client.ask(worker, f"{CONNECTIONS}/{connection_id}", (), method)
        if reply is not None and reply.status == 404:
            raise error
        (reply,) = check([reply])
        return worker, reply

    async def _page(
        self, path: str, kind: type[Listed[Placed]], part: Part, questions: Sequence[Question]
    ) -> tuple[Listed[Placed], frozenset[int]]:
        """A part of the lists that answer these questions, one behind the other; and who did not answer."""
        if not questions:
            return cut([], part), frozenset()
        firsts = await asyncio.gather(
            *(self._client.ask(each.worker, path, [*each.query, ("limit", "1")]) for each in questions)
        )
        check(firsts)
        silent = {each.worker for each, reply in zip(questions, firsts, strict=True) if reply is None}
        totals = {at: reply.decode(kind).total for at, reply in enumerate(firsts) if reply and reply.is_good}
        plans = plan_pages(totals, part)
        pages = await asyncio.gather(*(self._ask_page(path, questions[plan.at], plan) for plan in plans))
        items: list[Placed] = []
        for plan, page in zip(plans, pages, strict=True):
            question = questions[plan.at]
            if page is None or not page.is_good:
                silent.add(question.worker)
                continue
            items += [placed(each, question.worker if question.is_owner else None) for each in page.decode(kind).items]
        return Listed(items, sum(totals.values()), part.offset, part.limit), frozenset(silent)

    async def _ask_page(self, path: str, question: Question, plan: PagePlan) -> Reply | None:
        query = [*question.query, ("offset", str(plan.offset)), ("limit", str(plan.limit))]
        return await self._client.ask(question.worker, path, query)


Backend: TypeAlias = OneBroker | Workers  # what the endpoints ask


def search_of(part: Part) -> list[tuple[str, str]]:
    """What items are searched for, as a query."""
    return [(name, value) for name, values in part.only for value in sorted(values)]


def plan_pages(totals: Mapping[int, int], part: Part) -> list[PagePlan]:
    """The parts of lists that, one behind the other, are the part of the whole; `totals`: how long each list is."""
    offset, left = part.offset, part.limit
    plans: list[PagePlan] = []
    for at, total in totals.items():
        here = min(max(0, total - offset), left)
        if here:
            plans.append(PagePlan(at, offset, here))
        offset = max(0, offset - total)
        left -= here
    return plans


def placed(item: Placed, worker: int | None) -> Placed:
    """An item with its worker, and with a connection's number that no connection of another worker has."""
    if worker is None or item.connection_id is None:
        return replace(item, worker=worker)
    return replace(item, worker=worker, connection_id=item.connection_id * WORKER_STRIDE + worker)


def cut(items: Iterable[T], part: Part) -> Listed[T]:
    """A part of these."""
    whole = list(items)
    return Listed(whole[part.offset : part.offset + part.limit], len(whole), part.offset, part.limit)
