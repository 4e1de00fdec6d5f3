"""Lists that several workers answer as one broker does: a row for each, and nothing of it stands anywhere else.

Decides where a list is in this API, which query fills it, and in which order the items of all workers stand; how items
that two workers have become one stands beside the fields of the view (`broker.views.merge`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from admin_api.parameters import SERVICE_SEARCH, TRAFFIC_SEARCH, Parameter
from admin_api.processes import BrokerProcess
from broker.views import cluster_queries, queries, schemas
from broker.views.schemas import Listed, Part

T = TypeVar("T")


class Listing(NamedTuple, Generic[T]):
    """One list."""

    path: str
    kind: type[Listed[T]]
    ask: Callable[[BrokerProcess, Part], Listed[T]]  # one broker
    about: str  # for the page at /
    order: Callable[[T], Any] | None = None  # by which the items of all workers are sorted; None: as they came
    search: Sequence[Parameter] = ()  # what it can be searched for and sorted by


BROKERS: Final = Listing(
    "/api/v1/brokers",
    Listed[schemas.BrokerView],
    lambda process, part: cluster_queries.brokers(process.core, part),
    "brokers of the cluster",
    lambda broker: (not broker.is_self, broker.name),
)
SERVICES: Final = Listing(
    "/api/v1/services",
    Listed[schemas.ServiceView],
    lambda process, part: queries.services(process.core, part),
    "services that have a route",
    lambda service: service.service,
    SERVICE_SEARCH,
)
LISTS: Final[tuple[Listing[Any], ...]] = (
    SERVICES,
    BROKERS,
    Listing(
        "/api/v1/paths",
        Listed[schemas.PathView],
        lambda process, part: cluster_queries.paths(process.core, process.moment(), part),
        "paths of requests from other brokers",
    ),
    Listing(
        "/api/v1/redirects",
        Listed[schemas.RedirectView],
        lambda process, part: cluster_queries.redirects(process.core, process.moment(), part),
        "redirects of services",
        lambda redirect: redirect.service,
    ),
    Listing(
        "/api/v1/revocations",
        Listed[schemas.RevocationView],
        lambda process, part: cluster_queries.revocations(process.core, part),
        "identities whose credentials are revoked",
        lambda revocation: (revocation.is_of_file, revocation.principal),
    ),
    Listing(
        "/api/v1/drains",
        Listed[schemas.DrainView],
        lambda process, part: queries.drains(process.core, process.moment(), part),
        "routes, tags and brokers that are drained",
        lambda drain: drain.began_at_ms,
    ),
    Listing(
        "/api/v1/traffic",
        Listed[schemas.TrafficView],
        lambda process, part: queries.traffic(process.core, part),
        "ended requests by service, model, routing and outcome",
        search=TRAFFIC_SEARCH,
    ),
)
