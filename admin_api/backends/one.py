"""The answers of one broker, in whose process the API runs.

Nothing here waits (only the metrics, which may be long, let the loop turn in between), so what is read cannot change
meanwhile; but for gateways, which are other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, TypeVar

from msgspec.structs import astuple

from admin_api.backends.answer import Answer, DrainTarget
from admin_api.backends.feed import Feed
from admin_api.backends.lists import Listing
from admin_api.backends.samwise import SamwiseGateway
from admin_api.bodies import ChangeNote, Terms
from admin_api.errors import AdminError, no_connection, no_route, shown
from admin_api.metrics import Metrics
from admin_api.processes import BrokerProcess, GatewayProcess, state_of
from broker.config.options import Config
from broker.connections.drains import Drains
from broker.core import Core
from broker.events import OPERATION, SUBJECT
from broker.routing.near_names import MAX_NAMES, is_near
from broker.views import cluster_queries, queries, schemas
from broker.views.queries import TagFilter
from broker.views.schemas import Listed, Moment, Part
from rsocket_wire.errors import BrokerError

T = TypeVar("T")

REASONS: Final = {
    "starting": "starting: not all listeners are open yet",
    "draining": "draining: an operator took the broker out of service",
    "stopping": "stopping: no new requests are taken, those in flight may end",
}


class OneBroker:
    """Each question has one answer, a view of `broker.views.schemas`; AdminError: it cannot be answered."""

    def __init__(
        self, process: BrokerProcess, samwise: GatewayProcess | None = None, feed: GatewayProcess | None = None
    ) -> None:
        self.samwise: Final = SamwiseGateway(process.config.samwise, samwise)
        self.feed: Final = Feed(process.config.feed, feed)
        self._process: Final = process
        self._metrics: Final = Metrics(process)

    @property
    def config(self) -> Config:
        """The configuration that it was started with."""
        return self._process.config

    @property
    def is_stopping(self) -> bool:
        """Was told to stop."""
        return self._process.is_stopping

    @property
    def _core(self) -> Core:
        return self._process.core

    def _now(self) -> Moment:
        return self._process.moment()

    async def check_ready(self) -> Answer[None]:
        """AdminError "not-ready" unless requests of peers are taken."""
        state = state_of(self._process)
        if state != "ready":
            raise AdminError("not-ready", f"the broker is {state}", [REASONS[state]])
        return Answer(None)

    async def metrics(self, accept: str) -> Answer[tuple[bytes, str]]:
        """Text and content type, in the format that the Accept header asks for."""
        gateways = [*await self.samwise.families(), *await self.feed.families()]
        return Answer(await self._metrics.render(accept, gateways))

    async def status(self) -> Answer[schemas.StatusView]:
        """The broker in one look."""
        process = self._process
        status = queries.status(
            process.core,
            process.moment(),
            name=process.config.broker.name,
            state=state_of(process),
            listeners=process.listeners,
            event_files=process.event_state(),
            config=process.config,
        )
        return Answer(status)

    async def routes(self, wanted: TagFilter, brokers: frozenset[str], part: Part) -> Answer[Listed[schemas.RouteView]]:
        """Routes with these tags, of the brokers with one of these names. No names: of all."""
        return Answer(queries.routes(self._core, self._now(), wanted, part, brokers))

    async def route(self, id: str) -> Answer[schemas.RouteView]:
        """AdminError "no-such-route"."""
        found = queries.route(self._core, self._now(), id)
        if found is None:
            raise no_route(id)
        return Answer(found)

    async def listed(self, listing: Listing[T], part: Part) -> Answer[Listed[T]]:
        """One of the lists of `lists`."""
        return Answer(listing.ask(self._process, part))

    async def service(self, name: str, part: Part) -> Answer[schemas.ServiceDetailView]:
        """A service and a part of its routes. AdminError "no-such-service"."""
        found = queries.service(self._core, self._now(), name, part)
        if found is None:
            some = islice(self._core.table.loads.services, MAX_NAMES)
            near = next((each for each in some if is_near(name, each) or name == f"{each}/routes"), "")
            hint = f"; did you mean {shown(near)!r}?" if near else "; /api/v1/services lists all"
            raise AdminError("no-such-service", f"no route offers the service {shown(name)!r}{hint}")
        return Answer(found)

    async def connections(self, part: Part) -> Answer[Listed[schemas.ConnectionView]]:
        """Open connections."""
        return Answer(queries.connections(self._core, self._now(), part))

    async def connection(self, number: int) -> Answer[schemas.ConnectionView]:
        """AdminError "no-such-connection"."""
        found = queries.connection(self._core, self._now(), number)
        if found is None:
            raise no_connection(number)
        return Answer(found)

    async def closed(self, part: Part) -> Answer[Listed[schemas.ClosedConnectionView]]:
        """The last connections that ended, latest first."""
        return Answer(queries.closed(self._core, part))

    async def links(self, part: Part) -> Answer[schemas.LinksView]:
        """Connections to other brokers, and all dials that fail."""
        return Answer(cluster_queries.links(self._core, self._now(), part, self._process.lookups()))

    async def drain(self, target: DrainTarget, terms: Terms) -> Answer[schemas.DrainView]:
        """Begins a drain. AdminError "over-limit"."""
        self._change(lambda core, now: begin_drain(core.lifecycle.drains, target, terms, now))
        drain = self._find_drain(target)
        assert drain is not None  # it has just begun, and nothing else has happened since
        return Answer(drain)

    async def undrain(self, target: DrainTarget) -> Answer[schemas.DrainView]:
        """Ends a drain; the view is of the moment before. AdminError "no-such-drain"."""
        drain = self._find_drain(target)
        if drain is None or not self._change(lambda core, now: end_drain(core.lifecycle.drains, target, now)):
            raise AdminError("no-such-drain", "there is no such drain; /api/v1/drains lists all")
        return Answer(drain)

    async def redirect(self, service: str, to: str) -> Answer[schemas.RedirectView]:
        """Redirects a service. AdminError "bad-redirect", "over-limit"."""
        self._change(lambda core, now: core.cluster.set_redirect(service, to, now))
        redirect = cluster_queries.redirect(self._core, self._now(), service)
        assert redirect is not None  # it was just set, and what was heard before is older
        return Answer(redirect)

    async def unredirect(self, service: str) -> Answer[schemas.RedirectView]:
        """Ends a redirect; the view is of the moment before. AdminError "no-such-redirect"."""
        redirect = cluster_queries.redirect(self._core, self._now(), service)
        if redirect is None or not self._change(lambda core, now: core.cluster.remove_redirect(service, now)):
            text = f"the service {shown(service)!r} is not redirected; /api/v1/redirects lists all"
            raise AdminError("no-such-redirect", text)
        return Answer(redirect)

    async def revoke(self, principal: str, before_ms: int) -> Answer[schemas.RevocationView]:
        """Revokes credentials. AdminError "bad-revocation", "over-limit"."""
        self._change(lambda core, now: core.cluster.set_revocation(principal, before_ms, now))
        revocation = cluster_queries.revocation(self._core, principal)
        assert revocation is not None  # it was just set, and what was heard before is older
        return Answer(revocation)

    async def unrevoke(self, principal: str) -> Answer[schemas.RevocationView]:
        """Ends a revocation; the view is of the moment before. AdminError "no-such-revocation"."""
        revocation = cluster_queries.revocation(self._core, principal)
        if revocation is None or not self._change(lambda core, now: core.cluster.remove_revocation(principal, now)):
            raise AdminError("no-such-revocation", f"nothing of {shown(principal)!r} is revoked here")
        return Answer(revocation)

    async def close_connection(self, number: int) -> Answer[schemas.ClosedConnectionView]:
        """Closes a connection. AdminError "no-such-connection"."""
        if not self._change(lambda core, now: end_connection(core, number, now)):
            raise no_connection(number)
        return Answer(queries.closed(self._core, Part(limit=1)).items[0])

    async def tell_changed(self, note: ChangeNote) -> None:
        """Tells of a change that was asked for, and what came of it."""
        tags = [(OPERATION, note.operation), (SUBJECT, note.subject)]
        self._process.change(
            lambda core, now: core.tell_changed(
                tags, note.where_from, note.word, note.text, note.principal, note.role, now
            )
        )

    async def is_revoked(self, principal: str, issued_at_ms: int) -> bool:
        """Credentials of this identity that were issued then hold no longer, see `Revocations.covers`."""
        return self._core.lifecycle.revocations.covers(principal, issued_at_ms)

    async def close(self) -> None:
        """Asks nothing more; called once, when the API ends."""
        await self.samwise.close()
        await self.feed.close()

    def _find_drain(self, target: DrainTarget) -> schemas.DrainView | None:
        return queries.drain(self._core, self._now(), target.route_id, target.tag)

    def _change(self, change: Callable[[Core, float], T]) -> T:
        try:
            return self._process.change(change)
        except BrokerError as error:
            raise AdminError(error.word, error.text) from None


def begin_drain(drains: Drains, target: DrainTarget, terms: Terms, now: float) -> None:
    """BrokerError "over-limit"."""
    grace_s, spread_s, closes = astuple(terms)
    if target.route_id is not None:
        drains.drain_route(target.route_id, grace_s, spread_s, closes, now)
    elif target.tag is not None:
        drains.drain_tag(target.tag, grace_s, spread_s, closes, now)
    else:
        drains.drain_broker(grace_s, spread_s, closes, now)


def end_drain(drains: Drains, target: DrainTarget, now: float) -> bool:
    """In service again; False: it was not drained."""
    if target.route_id is not None:
        return drains.undrain_route(target.route_id, now)
    if target.tag is not None:
        return drains.undrain_tag(target.tag, now)
    return drains.undrain_broker(now)


def end_connection(core: Core, number: int, now: float) -> bool:
    """Ends a connection for good; False: there is none with this number, or it is ending."""
    for peer in core.peers():
        if peer.id == number and not peer.is_ending:
            core.end(peer, "closed-by-operator", "an operator closed the connection", now)
            return True
    return False
