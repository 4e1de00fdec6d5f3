"""One broker's routing as it was, or as it might have been: its table, its query and its rng, moved by events.

The code that decides is `broker.routing`, the same as in the broker; here stands only what the broker around it does:
routes that come and go, masks that somebody puts, requests that begin and end. Time comes in as wall clock.

What events do not tell is not here: who is congested, who has no lease left, and which routes of other brokers are on
their way out.
"""

import re
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Final

from broker import events
from broker.routing.choosers.chooser import Chooser
from broker.routing.query import Query
from broker.routing.rng import Rng
from broker.routing.table import Route, Table, normal_tag
from broker.routing.targets import Target
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.frames import SHARD
from rsocket_wire.wire.ids import parse_id
from rsocket_wire.wire.keys import ROUTE_ID, ZONE, keys_named
from rsocket_wire.wire.tags import Tag
from spark_sink.history.epochs import WHOLE, values_of
from spark_sink.history.records import PUTS, TAKES, Record
from spark_sink.what_if.question import Question, TagValues, key_of
from spark_sink.what_if.settings import RunSettings

US: Final = 1e6
MAX_SLOT: Final = 1_000_000  # of a snapshot; a broker has no more routes than connections
_LOCAL: Final = object()  # owner of a route: routing does not look into it
_REMOTE: Final = "broker "  # begins the `peer` of a route of another broker
_CHANGED: Final = "changed"  # why a route was replaced whose connection goes on with other tags
_FILLER: Final = "filler "  # service of a route that only holds a slot until the snapshot is whole


class RoutingModel:
    """The routing of one unit of an epoch."""

    def __init__(self, settings: RunSettings, question: Question, unit: str) -> None:
        self._question: Final = question
        self.table: Final = Table(settings.policies(question))
        seed = question.seed if question.seed is not None else settings.seed
        if unit != WHOLE:
            seed ^= zlib.crc32(unit.encode())  # parts of a broker shall not all roll the same
        self.query: Final = Query(self.table, Rng(seed), settings.strict_hints, settings.lookup_cache)
        self.query.prefers_local = settings.prefers_local
        self._default_zone: Final = settings.zone.encode()
        self._mates: Final = settings.mates
        self._now = 0.0  # seconds, the latest moment that anything said
        self._zones: Final[dict[str, bytes]] = {}  # of callers, by Route Id
        self._copies: Final[dict[str, list[str]]] = {}  # Route Id -> those of its copies
        self._changing: Final[dict[str, Route]] = {}  # Route Id -> its old route, until the new one comes
        self._drained: Final[dict[str, list[bytes]]] = {}  # name of a drain -> tokens, or one Route Id
        self._redirects: Final[dict[str, str]] = {}
        self._seen: Final[list[Record]] = []  # of a snapshot that is not whole yet
        self._names: Final[dict[str, bytes]] = {}

    def know_zones(self, changes: list[Record]) -> None:
        """Where the callers are that are routes of other units."""
        for change in changes:
            if change.kind in PUTS:
                self._zones.setdefault(change.route_id, self._zone_of(change.tags))

    def apply(self, change: Record) -> None:
        """Something happened to the table."""
        self._now = max(self._now, change.at_us / US)
        kind = change.kind
        if kind == events.ROUTE_SEEN:
            self._seen.append(change)
            return
        self.settle()
        if kind in PUTS:
            self._come(change)
        elif kind in TAKES:
            self._go(change)
        elif kind in (events.ROUTE_EJECTED, events.ROUTE_RELIEVED):
            masks = self.table.masks
            put_or_take = masks.put if kind == events.ROUTE_EJECTED else masks.take
            for route in self._routes(change.route_id):
                put_or_take(masks.ejected, route.slot)
        elif kind in (events.DRAIN_STARTED, events.DRAIN_ENDED):
            self._drain(change)
        elif kind in (events.REDIRECT_SET, events.REDIRECT_REMOVED):
            self._redirects.pop(change.service, None)
            if kind == events.REDIRECT_SET:
                self._redirects[change.service] = change.detail.removeprefix("requests go to ")
            self.query.set_redirects(self._redirects)

    def settle(self) -> None:
        """Puts the routes of a snapshot into the slots that they had then."""
        if not self._seen:
            return
        by_slot = {int(each.detail): each for each in self._seen if each.detail.isdigit()}
        if len(by_slot) < len(self._seen) or max(by_slot) > MAX_SLOT:
            # Tables of routes do not tell slots: then in the order of the snapshot.
            by_slot = dict(enumerate(self._seen))
        self._seen.clear()
        fillers: list[Route] = []
        for slot in range(max(by_slot) + 1):
            change = by_slot.get(slot)
            if change is not None and not self._question.is_without(TagValues(change.tags)):
                self._come(change)
            else:
                filler = Route(slot.to_bytes(16, "big"), _FILLER, [], None)
                self.table.join(filler, 0, self._now)
                fillers.append(filler)
        for filler in reversed(fillers):
            self.table.leave(filler)

    def resolve(self, raw: bytes) -> Target:
        """As the broker does with an ADDRESS."""
        self.settle()
        return self.query.resolve(raw, 0, len(raw))

    def choose(self, target: Target, caller_route: str, started_us: int) -> Route | None:
        """As the broker does with a unicast or shard request."""
        now = started_us / US
        if now > self._now:
            self._now = now
        origin = b"" if not target.is_by_origin else self._id(caller_route) if caller_route else bytes(16)
        zone = self._zones.get(caller_route, self._default_zone)  # the broker's own of a caller without a route
        return self.query.choose(target, zone, origin, self._now)

    def ended(self, route: Route, is_awaited: bool, verdict: int, latency_us: int, ended_us: int) -> None:
        """A request that began is over."""
        now = ended_us / US
        if now > self._now:
            self._now = now
        route.load.ended(is_awaited, verdict, latency_us, self._now)

    def find(self, route_id: str) -> Route | None:
        """The route with this id, if it is in the table."""
        return self.table.find(self._id(route_id)) if route_id else None

    def emptied_by(self, target: Target) -> str:
        """The tag that left no route over, `region=mars`; why nobody may be chosen, where some match."""
        if target.emptied_by:
            return target.emptied_by
        why = target.refusal if target.refusal is not None else target.blocked
        return why.word if why is not None else ""

    def _come(self, change: Record) -> None:
        self._zones[change.route_id] = self._zone_of(change.tags)
        tags = TagValues(change.tags)
        old = self._changing.pop(change.peer, None) if change.kind == events.ROUTE_JOINED else None
        if self._question.is_without(tags):
            if old is not None:
                self.table.leave(old)
            return
        self._join(change, change.route_id, old)
        names = self._question.copy_ids(change.route_id, tags)
        if names:
            self._copies[change.route_id] = names
        for name in names:
            self._join(change, name, self.find(name) if old is not None else None)

    def _join(self, change: Record, route_id: str, old: Route | None) -> None:
        """`old`: the route of the same connection, which has other tags now."""
        route = Route(self._id(route_id), change.service, tags_of(change.tags, route_id, change.route_id), _LOCAL)
        load = None
        if old is not None and old.slot >= 0:
            load = old.load if old.service == route.service else None
            if old.id != route.id:
                self.table.leave(old, load is not None)
        self.table.join(route, change.at_us // 1000, self._now, load)
        masks = self.table.masks
        if change.kind == events.ROUTE_ADDED or change.peer.startswith(_REMOTE):
            masks.put(masks.remote, route.slot)
            if change.peer.removeprefix(_REMOTE) not in self._mates:
                masks.put(masks.elsewhere, route.slot)
        if self._is_drained(route):
            masks.put(masks.draining, route.slot)
        elif masks.draining.has(route.slot):
            masks.take(masks.draining, route.slot)

    def _go(self, change: Record) -> None:
        if change.kind == events.ROUTE_REPLACED and change.reason == _CHANGED:
            route = self.find(change.route_id)
            if route is not None:  # its new tags come with the next RouteJoined of the connection
                self._changing[change.peer] = route
            return
        for each in self._routes(change.route_id):
            self.table.leave(each)
        self._copies.pop(change.route_id, None)

    def _drain(self, change: Record) -> None:
        name = change.detail.rpartition(": ")[0]
        key = f"{change.reason} {name}"
        masks = self.table.masks
        if change.kind == events.DRAIN_STARTED:
            self._drained[key] = self._tokens(change, name)
            for route in self.table.routes():
                if self._is_drained(route):
                    masks.put(masks.draining, route.slot)
            return
        self._drained.pop(key, None)
        for slot in masks.draining.to_list():
            if not self._is_drained(self.table.route_at(slot)):
                masks.take(masks.draining, slot)

    def _tokens(self, change: Record, name: str) -> list[bytes]:
        if change.route_id:
            return [self._id(change.route_id)]
        if change.reason != "tag":
            return []  # of the broker: it refuses before anybody is chosen
        key, equals, value = name.partition("=")
        tag = normal_tag(Tag.of(key, value if equals else None))
        return [Tag(each, tag.raw).token() for each in keys_named(tag.key.short_name)]

    def _is_drained(self, route: Route) -> bool:
        return any(token == route.id or token in route.tokens for tokens in self._drained.values() for token in tokens)

    def _routes(self, route_id: str) -> list[Route]:
        found = [self.find(name) for name in (route_id, *self._copies.get(route_id, []))]
        return [route for route in found if route is not None]

    def _zone_of(self, tags: Mapping[str, str | None]) -> bytes:
        zone = tags.get(ZONE.name)
        return zone.split(",")[0].encode() if zone else self._default_zone

    def _id(self, text: str) -> bytes:
        raw = self._names.get(text)
        if raw is None:
            raw = self._names[text] = parse_id(text)  # bounded by the routes that ever were
        return raw


def tags_of(tags: Mapping[str, str | None], route_id: str, original_id: str) -> list[Tag]:
    """The tags of a route as the table wants them; a copy has its own Route Id."""
    found: list[Tag] = []
    for name, joined in tags.items():
        for value in values_of(joined):
            try:
                tag = Tag.of(key_of(name), value)
            except BrokerError:
                continue  # no key or value that a tag can have: nobody can ask for it
            if tag.key == ROUTE_ID and value == original_id and route_id != original_id:
                tag = Tag(ROUTE_ID, route_id.encode())
            found.append(tag)
    return found


def method_name(target: Target) -> str:
    """How a unicast or shard request was chosen: `power_of_two`, `sticky round_robin`, `shard maglev`."""
    if target.routing == SHARD:
        return f"shard {target.shard_method.name}" if target.shard_method is not None else "shard"
    name = _name_of(target.chooser)
    if name == "zone_first":
        name += f":{_name_of(getattr(target.chooser, 'inner', None))}"
    return f"sticky {name}" if target.is_sticky else name


@cache
def _name_of(chooser: Chooser | None) -> str:
    """As a policy says it: `peak_ewma` of a PeakEwma."""
    return re.sub("(?<=.)(?=[A-Z])", "_", type(chooser).__name__).lower() if chooser is not None else "none"
