"""Functions that read off a core what operators see, as values of `schemas`, for the REST API and the command line.

Decides what an operator sees of a core and under which names. Everything is computed on the loop's thread, between two
requests, so no lock is needed and no value is half old; lists are cut to a `Part` before their values are made, so that
a look at a large broker stays a short one. Does not know HTTP, JSON or Prometheus, and changes nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from broker import VERSION
from broker.config.options import OPTIONS, SECTIONS, SERVICE_KEYS, TABLES, Config, OptionDoc
from broker.config.urls import Listen
from broker.connections.closed import ClosedPeer
from broker.connections.drains import BROKER, ROUTE, TAG, Drain
from broker.core import COMPILED, Core
from broker.edge.event_pipe import PipeState
from broker.event_log.histogram import Histogram
from broker.events import OUTCOME_NAMES, bucket_high_us, bucket_low_us
from broker.forwarding.peer import Peer
from broker.forwarding.traffic.flows import REJECTED, Counts
from broker.routing.bitmaps import Slots
from broker.routing.health.outliers import ejections_left
from broker.routing.table import Route, normal_tag
from broker.views import schemas
from broker.views.cluster_queries import broker_of, cluster
from broker.views.schemas import STATES, Listed, Moment, Part
from broker.views.search import Fields
from rsocket_wire.errors import BrokerError
from rsocket_wire.rsocket.connection import NEW
from rsocket_wire.wire.ids import id_text, parse_id
from rsocket_wire.wire.keys import keys_named
from rsocket_wire.wire.tags import Tag

CORE: Final = "compiled" if COMPILED else "interpreted"
REFUSED: Final = OUTCOME_NAMES[REJECTED]  # the outcome of requests that no route saw
HIDDEN: Final = "***"  # stands for a secret
LIMIT_SECTIONS: Final = ("protection", "limits")  # of the configuration

TotalKey: TypeAlias = tuple[str, str, str, str, str]  # service, model, routing, outcome, code
Total: TypeAlias = Counts  # of ended requests, it grows
EventState: TypeAlias = PipeState  # how event files are written, as the edge says it
Measured: TypeAlias = Histogram  # the same


class _Service(NamedTuple):
    """One service of which no view is made yet."""

    core: Core
    name: str
    routes: list[Route]


class TagFilter:
    """Tags that routes must carry: for each key that was named, one of the values that were named with it."""

    def __init__(self) -> None:
        self.given: Final[list[tuple[str, str]]] = []  # names and values as they were added
        self._choices: Final[dict[bytes, list[Tag]]] = {}  # by the likeliest key; bounded by the caller's text

    def add(self, name: str, value: str) -> None:
        """One more; `name` in any spelling. An empty value matches null, too (D-07). BrokerError "bad-tag" for a name
        or value that no tag can have.

        A name may mean a well-known key or a text that is spelt the same: routes with either are found.
        """
        keys = keys_named(name)
        self._choices.setdefault(keys[0].wire, []).extend(Tag.of(key, value) for key in keys)
        self.given.append((name, value))

    @property
    def choices(self) -> list[list[Tag]]:
        """For `Query.matching`."""
        return list(self._choices.values())


def status(
    core: Core,
    moment: Moment,
    *,
    name: str,
    state: str,
    listeners: Sequence[str] = (),
    event_files: EventState | None = None,
    config: Config | None = None,
) -> schemas.StatusView:
    """The broker in one look; what the core does not know of its process is handed in."""
    peers = core.peers()
    query = core.query
    return schemas.StatusView(
        broker_id=core.id_text,
        name=name,
        version=VERSION,
        core=CORE,
        state=state,
        started_at_ms=core.started_at_ms,
        uptime_s=moment.age_s(core.started_at_ms),
        listeners=list(listeners),
        connections=len(peers),
        connections_accepted=connections_accepted(core),
        cluster=cluster(core),
        routes=core.table.size(),
        services=len(core.table.loads.services),
        tags=core.table.index.size(),
        generation=core.table.generation,
        streams=core.in_flight_n,
        requests=sum(total.requests for _, total in totals(core)),
        lookups=schemas.LookupView(query.hits, query.misses, query.remembered(), query.unknown_methods),
        waiting=waiting(core),
        drains=len(core.lifecycle.drains.all()),
        route_states=route_states(core),
        protection=protection(core),
        sticky_choices=query.sticky.size(),
        sessions=sessions(core),
        frames=core.frames_in,
        ignored_frames=core.engine.ignored,
        dropped_requests=core.engine.drops.total_n,
        lost_metadata_entries=core.engine.mime_pairs.lost_entries_n,
        bytes=bytes_view(core),
        added_latency=_durations_view(core.added),
        loop_lag=_durations_view(core.lag),
        events_dropped=core.events_dropped,
        event_files=msgspec.convert(event_files, schemas.EventFilesView, from_attributes=True) if event_files else None,
        config=config_view(config) if config is not None else {},
    )


def routes(
    core: Core, moment: Moment, wanted: TagFilter, part: Part, brokers: frozenset[str] = frozenset()
) -> Listed[schemas.RouteView]:
    """The routes that carry the wanted tags: the AND that requests are routed by. All of them for an empty filter.

    `brokers`: of the brokers with one of these names only; none: of all.
    """
    found = core.query.matching(wanted.choices)
    if brokers:
        found = [route for route in found if broker_of(core, route) in brokers]
    return part.listed(found, lambda route: _route_view(core, route, moment))


def route(core: Core, moment: Moment, id_text: str) -> schemas.RouteView | None:
    """The route with this id, in any spelling of `parse_id`; None when there is none, or the text is no id."""
    try:
        found = core.table.find(parse_id(id_text))
    except BrokerError:
        return None
    return _route_view(core, found, moment) if found is not None else None


def services(core: Core, part: Part) -> Listed[schemas.ServiceView]:
    """All services that have a route, by name."""
    found = [_Service(core, *each) for each in sorted(_by_service(core).items())]
    return part.listed(SERVICE_FIELDS.find(found, part), lambda each: _service_view(*each))


def service(core: Core, moment: Moment, name: str, part: Part) -> schemas.ServiceDetailView | None:
    """One service with the wanted part of its routes; None when it has no route."""
    found = [route for route in core.table.routes() if route.service == name]
    if not found:
        return None
    listed = part.listed(found, lambda route: _route_view(core, route, moment))
    rows = [_traffic_view(key, total) for key, total in totals(core) if key[0] == name]
    policy = core.table.loads.services[name].policy
    policy_view = {key: getattr(policy, key) for key in SERVICE_KEYS}
    return schemas.ServiceDetailView(_service_view(core, name, found), policy_view, listed, rows)


def connections(core: Core, moment: Moment, part: Part) -> Listed[schemas.ConnectionView]:
    """Connections that are not gone yet, oldest first."""
    return part.listed(CONNECTION_FIELDS.find(core.peers(), part), lambda peer: _connection_view(peer, moment))


def connection(core: Core, moment: Moment, number: int) -> schemas.ConnectionView | None:
    """The connection with this number; None when there is none."""
    found = next((peer for peer in core.peers() if peer.id == number), None)
    return _connection_view(found, moment) if found is not None else None


def closed(core: Core, part: Part) -> Listed[schemas.ClosedConnectionView]:
    """The connections that ended of late (the core remembers `MAX_CLOSED`), latest first."""
    return part.listed(core.lifecycle.limits.closed.latest[::-1], _closed_view)


def drains(core: Core, moment: Moment, part: Part) -> Listed[schemas.DrainView]:
    """What is drained, in the order in which it was."""
    return part.listed(core.lifecycle.drains.all(), lambda drain: _drain_view(core, moment, drain))


def drain(core: Core, moment: Moment, route_id: bytes | None, tag: Tag | None) -> schemas.DrainView | None:
    """The drain of this route, else of this tag, else of the whole broker; None when there is none of exactly this."""
    if route_id is not None:
        wanted = ROUTE, id_text(route_id)
    else:
        wanted = (TAG, str(normal_tag(tag))) if tag is not None else (BROKER, "")
    found = next((each for each in core.lifecycle.drains.all() if (each.kind, each.name) == wanted), None)
    return _drain_view(core, moment, found) if found is not None else None


def limits(config: Config) -> list[schemas.LimitView]:
    """Every limit in use: the sections [limits] and [protection]."""
    return [
        schemas.LimitView(
            name=doc.name,
            value=_plain(getattr(getattr(config, doc.section), doc.key)),
            unit=doc.unit,
            default=_plain(doc.default),
            takes=doc.takes,
            why=doc.option.why,
        )
        for doc in OPTIONS.values()
        if doc.section in LIMIT_SECTIONS
    ]


def traffic(core: Core, part: Part) -> Listed[schemas.TrafficView]:
    """Ended requests by service, model, routing, outcome and code, in the order in which they were first met."""
    return part.listed(TRAFFIC_FIELDS.find(totals(core), part), lambda item: _traffic_view(*item))


def totals(core: Core) -> list[tuple[TotalKey, Total]]:
    """What `traffic` shows, all of it and in the same order; the totals themselves, do not change them."""
    return list(core.engine.flows.totals.items())


def service_routes(core: Core) -> dict[str, int]:
    """How many routes each service has."""
    return {name: len(routes) for name, routes in _by_service(core).items()}


def waiting(core: Core) -> schemas.WaitingView:
    """Requests that wait for a route."""
    room = core.engine.pending
    return schemas.WaitingView(room.size, room.bytes_n, room.waited_n)


def route_states(core: Core) -> dict[str, int]:
    """How many routes are in each of STATES."""
    return {name: mask.size() for name, mask in _masks(core)}


def protection(core: Core) -> schemas.ProtectionView:
    """What was done against routes that fail and services that are asked too much."""
    outliers, breakers = core.health.outliers, core.health.breakers
    return schemas.ProtectionView(
        ejected=outliers.ejected,
        relieved=outliers.relieved,
        spared=outliers.spared,
        breakers_opened=breakers.opened,
        refused=sum(breakers.refused.values()),
        panics=core.query.panics,
    )


def sessions(core: Core) -> schemas.SessionsView:
    """The sessions of resumption."""
    known = core.lifecycle.sessions
    return schemas.SessionsView(known.size(), known.suspended_n, known.resumed_n, known.budget.used_bytes)


def connections_accepted(core: Core) -> int:
    """Connections that ever came, refused ones included."""
    return sum(core.lifecycle.limits.closed.by_reason.values()) + sum(not peer.is_ending for peer in core.peers())


def bytes_view(core: Core) -> schemas.BytesView:
    """What went through all connections, and what waits."""
    return schemas.BytesView(
        core.lifecycle.limits.bytes_in, core.lifecycle.limits.bytes_out, core.lifecycle.limits.buffered_bytes
    )


def transport_of(peer: Peer) -> str:
    """`tcp`, `tls`, `ws`, `wss` or `unix`: what the edge put first in the peer's name."""
    return peer.name.partition(" ")[0]


def config_view(config: Config) -> dict[str, dict[str, object]]:
    """The configuration in use as plain values: section, key, value; listeners as their URLs; a service's own keys."""
    shown: dict[str, dict[str, object]] = {section: {} for section in SECTIONS}
    for doc in OPTIONS.values():
        shown[doc.section][doc.key] = _shown(doc, attrgetter(doc.name)(config))
    for tables in TABLES.values():
        named: Mapping[str, Any] = attrgetter(tables.place)(config)
        shown[tables.place] = {
            name: dict(own)
            if tables.kind is dict
            else {key: _shown(doc, getattr(own, key)) for key, doc in tables.keys.items()}
            for name, own in named.items()
        }
    return shown


def percentiles_us(histogram: Mapping[int, int], fractions: Sequence[float]) -> list[int]:
    """For each of the ascending fractions (0.5, 0.99) the middle of the bucket that holds the value there, in us.

    Of n values it is the one of rank ceil(fraction * n), counted from 1; 0 of no values.
    """
    total = sum(histogram.values())
    found: list[int] = []
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        while len(found) < len(fractions) and seen >= max(1, math.ceil(fractions[len(found)] * total)):
            found.append((bucket_low_us(bucket) + bucket_high_us(bucket) - 1) // 2)
    return found + [0] * (len(fractions) - len(found))


def _key_field(at: int) -> Callable[[tuple[TotalKey, Total]], str]:
    return lambda item: item[0][at]


def _total_field(name: str) -> Callable[[tuple[TotalKey, Total]], int]:
    value_of = attrgetter(name)
    return lambda item: int(value_of(item[1]))


def _by_service(core: Core) -> dict[str, list[Route]]:
    """Routes by service name. One pass over the table: some 2 ms for 10 000 routes, interpreted."""
    found: dict[str, list[Route]] = defaultdict(list)
    for route in core.table.routes():
        found[route.service].append(route)
    return found


def _route_view(core: Core, route: Route, moment: Moment) -> schemas.RouteView:
    owner = route.owner
    load = route.load
    return schemas.RouteView(
        route_id=route.id_text,
        service=route.service,
        tags=[schemas.TagView(tag.key.name, tag.key.short_name, tag.value) for tag in route.tags],
        broker=broker_of(core, route),
        is_local=isinstance(owner, Peer),
        connection_id=owner.id if isinstance(owner, Peer) else None,
        peer=owner.name if isinstance(owner, Peer) else "",
        joined_at_ms=route.joined_at_ms,
        age_s=moment.age_s(route.joined_at_ms),
        requests=load.requests,
        in_flight=load.in_flight,
        awaited=load.awaited_n,
        weight=load.weight,
        states=[name for name, mask in _masks(core) if mask.has(route.slot)],
        errors_in_a_row=load.errors_n,
        ejections=ejections_left(load, moment.now),
        ejected_s=moment.until(load.ejected_until),
        grants=load.lease.left_n if load.lease is not None else None,
    )


def _masks(core: Core) -> list[tuple[str, Slots]]:
    """The mask of each state."""
    masks = core.table.masks
    return [(name, getattr(masks, name)) for name in STATES]


def _service_view(core: Core, name: str, routes: Sequence[Route]) -> schemas.ServiceView:
    load = core.table.loads.services[name]
    breakers = core.health.breakers
    return schemas.ServiceView(
        service=name,
        routes=len(routes),
        remote=sum(not isinstance(route.owner, Peer) for route in routes),
        requests=sum(route.load.requests for route in routes),
        in_flight=sum(route.load.in_flight for route in routes),
        awaited=load.awaited_n,
        ejected=load.ejected_n,
        is_refusing=breakers.is_open(name),
        refused=breakers.refused.get(name, 0),
    )


def _connection_view(peer: Peer, moment: Moment) -> schemas.ConnectionView:
    setup = peer.connection.setup
    offered = peer.route
    return schemas.ConnectionView(
        connection_id=peer.id,
        peer=peer.name,
        transport=transport_of(peer),
        state=_state(peer),
        route_id=offered.id_text if isinstance(offered, Route) else "",
        service=peer.caller_service,
        principal=peer.principal,
        metadata_mime=setup.metadata_mime if setup is not None else "",
        data_mime=setup.data_mime if setup is not None else "",
        lifetime_s=peer.connection.lifetime_s,
        connected_at_ms=peer.connected_at_ms,
        age_s=moment.since(peer.connected_at),
        idle_s=moment.since(peer.heard_at),
        requests=peer.requests,
        streams_begun=peer.begun,
        streams_served=len(peer.streams) - peer.begun,
        bytes_in=peer.bytes_in,
        bytes_out=peer.bytes_out,
    )


def _drain_view(core: Core, moment: Moment, drain: Drain) -> schemas.DrainView:
    if drain.kind == BROKER:
        routes = core.table.size() - core.table.masks.remote.size()
    elif drain.kind == ROUTE:
        routes = sum(core.table.find(token) is not None for token in drain.tokens)
    else:
        found = [slots for slots in map(core.table.index.find, drain.tokens) if slots is not None]
        routes = reduce(Slots.join, found, Slots()).size()
    return schemas.DrainView(
        kind=drain.kind,
        name=drain.name,
        began_at_ms=drain.at_ms,
        age_s=moment.age_s(drain.at_ms),
        grace_s=drain.grace_s,
        spread_s=drain.spread_s,
        close=drain.closes,
        routes=routes,
        connections_left=drain.left_n,
    )


def _closed_view(peer: ClosedPeer) -> schemas.ClosedConnectionView:
    return schemas.ClosedConnectionView(
        connection_id=peer.id,
        peer=peer.name,
        reason=peer.reason,
        detail=peer.detail,
        route_id=peer.route_id,
        service=peer.service,
        connected_at_ms=peer.connected_at_ms,
        closed_at_ms=peer.closed_at_ms,
        duration_s=max(0, peer.closed_at_ms - peer.connected_at_ms) / 1000,
        bytes_in=peer.bytes_in,
        bytes_out=peer.bytes_out,
    )


def _traffic_view(key: TotalKey, total: Total) -> schemas.TrafficView:
    service, model, routing, outcome, code = key
    p50_us, p95_us, p99_us = percentiles_us(total.histogram, (0.50, 0.95, 0.99))
    return schemas.TrafficView(
        service=service,
        model=model,
        routing=routing,
        outcome=outcome,
        code=code,
        requests=total.requests,
        items_in=total.items_in,
        items_out=total.items_out,
        bytes_in=total.bytes_in,
        bytes_out=total.bytes_out,
        latency_mean_us=total.latency_sum_us // total.requests if total.requests else 0,
        latency_p50_us=p50_us,
        latency_p95_us=p95_us,
        latency_p99_us=p99_us,
        latency_max_us=total.latency_max_us,
    )


def _durations_view(durations: Histogram) -> schemas.DurationsView:
    histogram = {bucket: number for bucket, number in enumerate(durations.numbers) if number}
    p50_us, p99_us = percentiles_us(histogram, (0.50, 0.99))
    return schemas.DurationsView(durations.number, p50_us, p99_us, durations.max_us)


def _shown(doc: OptionDoc, value: object) -> object:
    """An option's value as `_plain`, of a secret only that there is one."""
    return HIDDEN if doc.option.is_secret and value else _plain(value)


def _plain(value: object) -> object:
    """An option's value as JSON can say it; None is how options that can be switched off are off."""
    if value is None:
        return "off"
    if isinstance(value, tuple):
        return [str(each) for each in value]
    if isinstance(value, Listen):
        return value.address if value.scheme == "http" else str(value)
    return value


def _state(peer: Peer) -> str:
    if peer.is_ending:
        return "ending"
    if peer.connection.state == NEW:
        return "connecting"
    return "suspended" if peer.is_suspended else "open"


# By what lists can be searched and sorted. To sort 50 000 connections takes some 20 ms, interpreted.
SERVICE_FIELDS: Final[Fields[_Service]] = Fields(
    {"service": attrgetter("name")},
    {
        "routes": lambda each: len(each.routes),
        "requests": lambda each: sum(route.load.requests for route in each.routes),
        "in_flight": lambda each: sum(route.load.in_flight for route in each.routes),
        "awaited": lambda each: each.core.table.loads.services[each.name].awaited_n,
        "ejected": lambda each: each.core.table.loads.services[each.name].ejected_n,
        "refused": lambda each: each.core.health.breakers.refused.get(each.name, 0),
    },
)
CONNECTION_FIELDS: Final[Fields[Peer]] = Fields(
    {
        "service": attrgetter("caller_service"),
        "principal": attrgetter("principal"),
        "state": _state,
        "transport": transport_of,
    },
    {
        "requests": attrgetter("requests"),
        "streams_begun": attrgetter("begun"),
        "streams_served": lambda peer: len(peer.streams) - peer.begun,
        "bytes_in": attrgetter("bytes_in"),
        "bytes_out": attrgetter("bytes_out"),
        "age_s": lambda peer: -peer.connected_at,
        "idle_s": lambda peer: -peer.heard_at,
    },
)
TRAFFIC_FIELDS: Final[Fields[tuple[TotalKey, Total]]] = Fields(
    {name: _key_field(at) for at, name in enumerate(("service", "model", "routing", "outcome", "code"))},
    {
        **{name: _total_field(name) for name in ("requests", "items_in", "items_out", "bytes_in", "bytes_out")},
        "latency_mean_us": lambda item: item[1].latency_sum_us // max(1, item[1].requests),
        "latency_max_us": lambda item: item[1].latency_max_us,
    },
)
