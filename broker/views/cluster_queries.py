"""Looks at the cluster: which brokers there are, how this one is linked to them, which ways requests came, and which
services were redirected.

Decides names and states of what is between brokers, as `queries` does of the rest. It is one broker's view: others may
know more or less at the same moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from broker.cluster.links.dials import Dial
from broker.cluster.links.neighbour import Neighbour
from broker.cluster.member import Member
from broker.cluster.messages import RedirectMessage, RevocationMessage
from broker.core import Core
from broker.forwarding.interbroker.annotations import Path
from broker.forwarding.interbroker.remote import Remote
from broker.routing.table import Route
from broker.views import schemas
from broker.views.schemas import Listed, Moment, Part
from rsocket_wire.wire.ids import id_text

REACHABLE: Final = "reachable"
DRAINING: Final = "draining"
UNREACHABLE: Final = "unreachable"
HANDSHAKE: Final = "handshake"
UP: Final = "up"


def cluster(core: Core) -> schemas.ClusterView:
    """The cluster in one look."""
    members = core.cluster.members.values()
    return schemas.ClusterView(
        name=core.cluster.name,
        brokers=len(members),
        reachable=sum(member.is_reachable for member in members),
        links=len(core.cluster.links()),
        links_up=len(_up(core)),
        remote_routes=core.table.masks.remote.size(),
        redirects=len(core.cluster.redirects),
    )


def brokers(core: Core, part: Part) -> Listed[schemas.BrokerView]:
    """All brokers that are known: this one first, the others by name."""
    found = sorted(core.cluster.members.values(), key=lambda member: (not member.is_self, member.name, member.id))
    routes = _routes(core)
    return part.listed(found, lambda member: _broker_view(member, routes[member.id]))


def links(core: Core, moment: Moment, part: Part, lookups: Sequence[schemas.DialView] = ()) -> schemas.LinksView:
    """Connections to other brokers, in the order in which they began, and dials that fail.

    `lookups`: names for which nothing was found.
    """
    listed = part.listed(core.cluster.links(), lambda link: _link_view(link, moment))
    linked = {link.id for link in (each.peer.link for each in _up(core)) if link is not None}
    dials = [
        _dial_view(dial, moment)
        for dial in core.cluster.dials.state()
        if dial.attempts and not dial.is_linked and not dial.is_self and dial.broker_id not in linked
    ]
    return schemas.LinksView(listed.items, listed.total, part.offset, part.limit, [*dials, *lookups])


def paths(core: Core, moment: Moment, part: Part) -> Listed[schemas.PathView]:
    """The ways that requests took to get here, in the order in which they were first taken."""
    return part.listed(list(core.engine.annotations.paths.values()), lambda path: _path_view(path, moment))


def redirects(core: Core, moment: Moment, part: Part) -> Listed[schemas.RedirectView]:
    """Services whose requests go to another one, by name."""
    found = [each for _, each in sorted(core.cluster.redirects.items())]
    return part.listed(found, lambda each: _redirect_view(core, each, moment))


def redirect(core: Core, moment: Moment, service: str) -> schemas.RedirectView | None:
    """Where the requests of this service go; None: where they ask for."""
    found = core.cluster.redirects.get(service)
    return _redirect_view(core, found, moment) if found is not None else None


def revocations(core: Core, part: Part) -> Listed[schemas.RevocationView]:
    """Identities whose credentials hold no longer, by name; those of the file last."""
    told = [_revocation_view(core, each) for _, each in sorted(core.cluster.revocations.by_principal.items())]
    of_file = [
        schemas.RevocationView(principal, True, before_ms, 0, "", "")
        for principal, before_ms in sorted(core.lifecycle.revocations.of_file.items())
    ]
    return part.listed([*told, *of_file], lambda view: view)


def revocation(core: Core, principal: str) -> schemas.RevocationView | None:
    """What an operator has revoked of this identity; None: nothing."""
    found = core.cluster.revocations.by_principal.get(principal)
    return _revocation_view(core, found) if found is not None else None


def link_states(core: Core) -> dict[str, int]:
    """How many links are in each state."""
    up_n = len(_up(core))
    return {HANDSHAKE: len(core.cluster.links()) - up_n, UP: up_n}


def link_lags(core: Core) -> dict[str, float]:
    """Of each link whose other end has answered: how long it took, seconds, by the name of that broker."""
    links = [each.peer.link for each in _up(core)]
    return {link.name: link.lag_us / 1e6 for link in links if link is not None and link.lag_us >= 0}


def broker_states(core: Core) -> dict[str, int]:
    """How many brokers are in each state, this one included."""
    numbers = Counter(map(_state, core.cluster.members.values()))
    return {state: numbers[state] for state in (REACHABLE, DRAINING, UNREACHABLE)}


def broker_of(core: Core, route: Route) -> str:
    """The name of the broker that has the route."""
    owner = route.owner
    return owner.name if isinstance(owner, Remote) else core.cluster.name


def _up(core: Core) -> list[Neighbour]:
    """Links on which both ends have proved who they are."""
    return [link for link in core.cluster.links() if link.is_up]


def _routes(core: Core) -> Counter[bytes]:
    """How many routes each broker has, by id. One pass over the table."""
    owners = (route.owner for route in core.table.routes())
    return Counter(owner.id if isinstance(owner, Remote) else core.broker_id for owner in owners)


def _state(member: Member) -> str:
    if not member.is_reachable:
        return UNREACHABLE
    return DRAINING if member.is_draining else REACHABLE


def _broker_view(member: Member, routes: int) -> schemas.BrokerView:
    info = member.info
    return schemas.BrokerView(
        name=member.name,
        broker_id=member.id_text,
        is_self=member.is_self,
        state=_state(member),
        urls=list(info.urls),
        client_urls=list(info.client_urls),
        hops=member.hops_n if member.is_reachable else None,
        cost=member.cost if member.is_reachable else None,
        next_hop=member.next_hop,
        routes=routes,
        annotations_version=info.version,
        info_at_ms=member.timestamp_ms,
    )


def _link_view(neighbour: Neighbour, moment: Moment) -> schemas.LinkView:
    peer = neighbour.peer
    link = peer.link
    info = neighbour.info
    return schemas.LinkView(
        name=neighbour.name,
        broker_id=id_text(info.id) if info is not None else "",
        connection_id=peer.id,
        peer=peer.name,
        url=neighbour.url,
        direction="dialled" if neighbour.url else "accepted",
        state=UP if neighbour.is_up else HANDSHAKE,
        since_s=moment.since(neighbour.since_at),
        lag_us=link.lag_us if link is not None and link.lag_us >= 0 else None,
        is_agreed=neighbour.is_agreed,
        mismatches=neighbour.mismatches,
        has_other_roles=neighbour.has_other_roles,
        annotations_version=link.version if link is not None else 0,
        pending_bytes=peer.pending_bytes + peer.unsent_bytes,
        streams=len(peer.streams),
    )


def _dial_view(dial: Dial, moment: Moment) -> schemas.DialView:
    next_s = 0.0 if dial.is_dialling else moment.until(dial.next_at)
    return schemas.DialView(dial.url, dial.attempts, dial.error, next_s)


def _path_view(path: Path, moment: Moment) -> schemas.PathView:
    way = path.way.split(">") if path.way else []
    return schemas.PathView(path.ingress, way, path.hops_n, path.requests, moment.since(path.last_at))


def _revocation_view(core: Core, found: RevocationMessage) -> schemas.RevocationView:
    member = core.cluster.members.get(found.broker_id)
    return schemas.RevocationView(
        principal=found.principal,
        is_of_file=False,
        before_ms=found.before_ms,
        set_at_ms=found.timestamp_ms,
        broker_id=id_text(found.broker_id),
        broker=member.name if member is not None else "",
    )


def _redirect_view(core: Core, found: RedirectMessage, moment: Moment) -> schemas.RedirectView:
    member = core.cluster.members.get(found.broker_id)
    return schemas.RedirectView(
        service=found.service,
        to=found.to,
        set_at_ms=found.timestamp_ms,
        age_s=moment.age_s(found.timestamp_ms),
        broker_id=id_text(found.broker_id),
        broker=member.name if member is not None else "",
    )
