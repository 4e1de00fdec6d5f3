"""What the endpoints ask: one broker (`one`) or the workers behind a supervisor (`workers`).

Each question has one answer, a view of `broker.views.schemas`, and raises AdminError if it cannot be answered.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from admin_api.backends.lists import Listing
from admin_api.bodies import Terms
from broker.config.options import Config
from broker.views import schemas
from broker.views.queries import TagFilter
from broker.views.schemas import Listed, Part
from rsocket_wire.wire.tags import Tag

T = TypeVar("T", covariant=True)
Item = TypeVar("Item", bound=msgspec.Struct)


class Answer(NamedTuple, Generic[T]):
    """A value, and the numbers of the workers that it is without."""

    value: T
    missing: frozenset[int] = frozenset()


class DrainTarget(NamedTuple):
    """What is drained: a route, the routes with a tag, or all of the broker."""

    path: str  # where the drain is in this API, as it was asked for
    route_id: bytes | None = None
    tag: Tag | None = None


class Backend(Protocol):
    """All that can be asked, and all that can be changed."""

    @property
    def config(self) -> Config:
        """The configuration that it was started with."""

    @property
    def is_stopping(self) -> bool:
        """Was told to stop."""

    async def check_ready(self) -> Answer[None]:
        """AdminError "not-ready" unless requests of peers are taken."""

    async def metrics(self, accept: str) -> Answer[tuple[bytes, str]]:
        """Text and content type, in the format that the Accept header asks for."""

    async def status(self) -> Answer[schemas.StatusView]:
        """The broker in one look."""

    async def routes(self, wanted: TagFilter, brokers: frozenset[str], part: Part) -> Answer[Listed[schemas.RouteView]]:
        """Routes with these tags, of the brokers with one of these names. No names: of all."""

    async def route(self, id: str) -> Answer[schemas.RouteView]:
        """AdminError "no-such-route"."""

    async def listed(self, listing: Listing[Item], part: Part) -> Answer[Listed[Item]]:
        """One of the lists of `lists`."""

    async def service(self, name: str, part: Part) -> Answer[schemas.ServiceDetailView]:
        """A service and a part of its routes. AdminError "no-such-service"."""

    async def connections(self, part: Part) -> Answer[Listed[schemas.ConnectionView]]:
        """Open connections."""

    async def closed(self, part: Part) -> Answer[Listed[schemas.ClosedConnectionView]]:
        """The last connections that ended, latest first."""

    async def links(self, part: Part) -> Answer[schemas.LinksView]:
        """Connections to other brokers, and all dials that fail."""

    async def drain(self, target: DrainTarget, terms: Terms) -> Answer[schemas.DrainView]:
        """Begins a drain. AdminError "over-limit"."""

    async def undrain(self, target: DrainTarget) -> Answer[schemas.DrainView]:
        """Ends a drain; the view is of the moment before. AdminError "no-such-drain"."""

    async def redirect(self, service: str, to: str) -> Answer[schemas.RedirectView]:
        """Redirects a service. AdminError "bad-redirect", "over-limit"."""

    async def unredirect(self, service: str) -> Answer[schemas.RedirectView]:
        """Ends a redirect; the view is of the moment before. AdminError "no-such-redirect"."""

    async def close_connection(self, number: int) -> Answer[schemas.ClosedConnectionView]:
        """Closes a connection. AdminError "no-such-connection"."""

    async def close(self) -> None:
        """Asks nothing more; called once, when the API ends."""
