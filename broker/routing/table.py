"""The routing table: every route once, by its Route Id, with its tags in the index.

Decides which of two entries for one Route Id stays (D-08) and adds the default tags. Does not know connections: a
route's `owner` is whatever carries requests to it.

    spec "Routing Table":   The route table MUST not allow duplicate Route Id entries.
    spec "Default Tags":    ServiceName and RouteId are added if they are not already present.
"""

import zlib
from typing import Final

from broker.routing.bitmaps import ListedSets
from broker.routing.digest import Digest, route_mark
from broker.routing.health.loads import Load, Loads
from broker.routing.index import TagIndex
from broker.routing.max_weights import MaxWeights
from broker.routing.policies import Policies, Policy
from broker.routing.reach import Reaches
from broker.routing.route_hints import is_down, weight_of
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.ids import id_text, parse_id
from rsocket_wire.wire.keys import ROUTE_ID, SERVICE_NAME
from rsocket_wire.wire.tags import Tag


class Route:
    """One offered destination: who it is. Changed tags are a new Route in the old one's place, with the same load."""

    __slots__ = (
        "holder",
        "id",
        "id_text",
        "joined_at_ms",
        "load",
        "mark",
        "number",
        "owner",
        "prefix",
        "prefix_key",
        "seed_high",
        "seed_low",
        "service",
        "slot",
        "tags",
        "timestamp_ms",
        "tokens",
    )

    load: Load  # what is going on there; from the moment when it joins the table, and for ever

    def __init__(self, route_id: bytes, service: str, tags: list[Tag], owner: object) -> None:
        self.id: Final = route_id  # 16 bytes
        self.id_text: Final = id_text(route_id)
        self.service: Final = service
        self.tags: Final = with_default_tags(route_id, service, tags)
        self.tokens: Final = [tag.token() for tag in self.tags]
        self.owner: object | None = owner  # None once it has left: who remembers a route must not keep its peer
        self.seed_high: Final = zlib.crc32(route_id) & 0x7FFFFFFF  # for rendezvous sharding, see `sharding.hashes`
        # CRC-32 is linear, another start would say nothing new; the halves the other way round do.
        self.seed_low: Final = zlib.crc32(route_id[8:] + route_id[:8]) & 0x7FFFFFFF
        self.slot = -1  # -1 unless it is in the table
        self.number = 0  # of the join, never used twice in a run
        self.timestamp_ms = 0  # of the announcement, D-08: by the clock of the broker where it came
        self.joined_at_ms = 0
        # What stands in front of the latest request that went there over a link (`interbroker.annotations`); -1: none.
        self.prefix_key = -1
        self.prefix = b""
        self.mark = 0  # in the digest of the table, from the moment when it joins
        self.holder = b""  # whose Route Id it is, see `access.holders`; empty: nobody says

    def tag_texts(self) -> list[tuple[str, str]]:
        """Names and values of its tags, as events and digests have them: no value is an empty one."""
        return [(tag.key.name, tag.value or "") for tag in self.tags]


class Table:
    """All routes. `generation` grows with every change, so that whoever remembers an answer knows when it is old."""

    def __init__(self, policies: Policies | None = None) -> None:
        self.generation = 1
        self.index: Final = TagIndex()
        self.reaches: Final = Reaches(self.index)
        self.listed: Final = ListedSets()
        self.max_weights: Final = MaxWeights()
        self.loads: Final = Loads(policies if policies is not None else Policies(Policy(), {}))
        self.masks: Final = self.loads.masks
        self.digest: Final = Digest()  # D-59
        self._by_id: dict[bytes, Route] = {}  # bounded by the connections: each has at most one route
        self._slots: list[Route | None] = []
        self._free: list[int] = []  # slots of routes that left, used again so that bitmaps stay dense
        self._joins = 0

    def join(
        self, route: Route, at_ms: int, now: float = 0.0, load: Load | None = None, stamp_ms: int = 0
    ) -> Route | None:
        """Puts a route into the table at `at_ms`; the route of the same Route Id that it replaced, or None.

        `load`: that of the route in whose place it comes, when the same connection has changed its tags. `stamp_ms`:
        the timestamp of its announcement, where that is not `at_ms`; other brokers have other clocks.

        Spec "Handling ROUTE_SETUP Frames": the existing route MUST be removed and replaced. Its timestamp becomes newer
        than the old one's even when the clock went back (D-08).
        """
        old = self._by_id.get(route.id)
        route.joined_at_ms = at_ms
        route.timestamp_ms = stamp_ms or at_ms
        if old is not None:
            self._remove(old, load is old.load)
            route.timestamp_ms = max(route.timestamp_ms, old.timestamp_ms + 1)
        route.load = load if load is not None else self.loads.open(route.service, now)
        self._insert(route)
        return old

    def leave(self, route: Route, keeps_load: bool = False) -> bool:
        """Takes exactly this route out; False when it is not in the table any more, whoever has its id now (D-09).

        `keeps_load`: another route takes over its load at once.
        """
        if self._by_id.get(route.id) is not route:
            return False
        self._remove(route, keeps_load)
        return True

    def find(self, route_id: bytes) -> Route | None:
        """The route with this id."""
        return self._by_id.get(route_id)

    def route_at(self, slot: int) -> Route:
        """The route in a slot that the index gave."""
        route = self._slots[slot]
        assert route is not None  # the index holds slots of routes that are in the table, and no others
        return route

    def routes(self) -> list[Route]:
        """All routes, in the order in which they joined."""
        return list(self._by_id.values())

    def size(self) -> int:
        """How many routes."""
        return len(self._by_id)

    def _insert(self, route: Route) -> None:
        if self._free:
            slot = self._free.pop()
            self._slots[slot] = route
        else:
            slot = len(self._slots)
            self._slots.append(route)
        self._joins += 1
        route.slot = slot
        route.number = self._joins
        self._by_id[route.id] = route
        self.index.add(slot, route.tokens)
        self.reaches.changed(slot, route.tags)
        self.loads.joined(route.load, slot)
        weight = weight_of(route.tags)
        self.loads.told(route.load, weight, is_down(route.tags))
        self.max_weights.joined(route.tags, weight)
        route.mark = route_mark(route.id_text, route.service, route.tag_texts())
        self.digest.add(route.mark)
        self.generation += 1

    def _remove(self, route: Route, keeps_load: bool) -> None:
        self.index.remove(route.slot, route.tokens)
        self.reaches.changed(route.slot, None)
        self.max_weights.left(route.tags, route.load.weight)
        self.digest.take(route.mark)
        if not keeps_load:
            self.loads.left(route.load)
        self._slots[route.slot] = None
        self._free.append(route.slot)
        route.slot = -1
        route.owner = None
        del self._by_id[route.id]
        self.generation += 1


def announced_tags(route_id: bytes, service: str, tags: list[Tag]) -> list[Tag]:
    """All tags by which a route that is announced could be found, with the service that a tag may contradict."""
    return [*with_default_tags(route_id, service, tags), Tag(SERVICE_NAME, service.encode())]


def with_default_tags(route_id: bytes, service: str, tags: list[Tag]) -> list[Tag]:
    """The tags of a route: RouteId values in canonical form (D-18), ServiceName and RouteId added if absent.

    The same tag twice is one tag; the same key with several values is several tags.
    """
    found: list[Tag] = []
    has_service = False
    has_id = False
    for tag in tags:
        tag = normal_tag(tag)
        if tag.key == SERVICE_NAME:
            has_service = True
        elif tag.key == ROUTE_ID:
            has_id = True
        if tag not in found:
            found.append(tag)
    if not has_service and len(service.encode()) <= 127:  # a longer name does not fit a tag value (D-06)
        found.append(Tag(SERVICE_NAME, service.encode()))
    if not has_id:
        found.append(Tag(ROUTE_ID, id_text(route_id).encode()))
    return found


def normal_tag(tag: Tag) -> Tag:
    """The tag as it is matched: a RouteId's value in canonical uuid text, `Id{uuid}` of Java included (D-18)."""
    if tag.key == ROUTE_ID and tag.raw is not None:
        try:
            return Tag(ROUTE_ID, id_text(parse_id(tag.raw.decode("utf-8", "replace"))).encode())
        except BrokerError:
            return tag  # not an id of ours; it still matches itself
    return tag
