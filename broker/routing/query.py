"""From the bytes of an ADDRESS to the routes that match it, and to the one that gets the request.

The answer is remembered under the raw bytes and is good for one generation of the table, what masks take out of it for
one generation of the masks; so the same address costs one look into a dict and two comparisons. What an address asks
for is read by `targets`, who may get a request is decided by `eligibility`, who of them gets it by a chooser.

    spec "Creating list of Routable Destinations": look up the bitmap of each tag; a tag without one: no route;
    AND them; empty: no route.
"""

from typing import Final

from broker.routing.bitmaps import Slots
from broker.routing.candidates import Candidates
from broker.routing.choosers.chooser import Turn
from broker.routing.choosers.sticky import Sticky
from broker.routing.health.eligibility import blocked, eligible, reachable, staying
from broker.routing.health.loads import Load, ServiceLoad
from broker.routing.near_names import NO_PATTERNS, NearNames, is_pattern
from broker.routing.reach import Reach
from broker.routing.remarks import Remarks
from broker.routing.rng import Rng
from broker.routing.sharding.cache import MAX_BUILT_PER_S, OwnerCache
from broker.routing.table import Route, Table, normal_tag
from broker.routing.targets import FOR_NOW, ORIGIN_AT, ORIGIN_TO, Addresses, Target, label_of
from rsocket_wire.errors import REJECTED, Refusal
from rsocket_wire.wire.frames import MULTICAST, SHARD
from rsocket_wire.wire.tags import Tag

# What is remembered of one address is bounded twice, or one peer with long addresses could fill the memory: at worst
# it is some 10 KiB beside its sets of routes, and not the 50 KiB of 255 short tags. An address beyond that is looked
# up each time.
MAX_REMEMBERED_BYTES: Final = 2048
MAX_REMEMBERED_TAGS: Final = 32  # of both maps together
SPARE_SEED: Final = 20_261_123
FORGOTTEN_N: Final = 2  # targets that are given back for each new one


class Query:
    """Resolves addresses against one table."""

    def __init__(self, table: Table, rng: Rng, strict_hints: bool = False, limit: int = 16384) -> None:
        """`limit`: addresses that are remembered, 0 for none; at the bound all are forgotten and learnt again."""
        self.table: Final = table
        self.services: Final = table.loads.services  # those that have routes, by name; nobody else changes it
        self._near_names: Final = NearNames(table)
        self._masks: Final = table.masks
        self._rng: Final = rng
        self._spare_rng: Final = Rng(SPARE_SEED)  # for what is no choice of its own
        self._is_strict: Final = strict_hints
        self.remarks: Final = Remarks()
        self._addresses: Final = Addresses(table.loads.policies, strict_hints, self.remarks)
        self._decided_addresses: Final = Addresses(table.loads.policies, False, self.remarks)
        self._limit: Final = limit
        self._limits_services: Final = table.loads.policies.limits_services
        self._known: dict[bytes, Target] = {}
        # Targets that are not remembered any more, given back a few with each new one: to free all at once takes 50 ms.
        # As many as were remembered: as many new ones come before the next are forgotten.
        self._forgotten: list[Target] = []
        # By a service and an address; bounded by `limit`, too.
        self._known_as: dict[bytes, Target] = {}  # what other brokers redirected
        self._decided: dict[bytes, Target] = {}  # by what other brokers have decided
        # Of callers with a role: by that, too, and by the service that another broker says. Bounded by `limit` each.
        self._within: dict[bytes, Target] = {}
        self._within_as: dict[bytes, Target] = {}
        self.only_observes = False  # what roles do not allow: then it is noted in the target, and nothing else
        self.redirects: dict[str, str] = {}  # service -> service that is asked for instead (D-55), see `set_redirects`
        self.prefers_local = True  # routes elsewhere get unicast requests only when none is left here (D-52, D-64)
        self.owner_cache: Final = OwnerCache()
        self.sticky: Final = Sticky()
        self.choices = 0  # made so far, see `choose`
        self.hits = 0
        self.misses = 0
        self.panics = 0  # requests whose candidates were chosen from as if none was ejected or unhealthy

    @property
    def unknown_methods(self) -> int:
        """Hints (LBMethod, ShardMethod) that name no method of ours, once for each address: the default was taken."""
        return self._addresses.unknown_methods

    def resolve(self, data: bytes, start: int, end: int) -> Target:
        """The target of the ADDRESS in `data[start:end]`, looked up anew if the table has changed."""
        if end - start < ORIGIN_TO:  # cut within the origin's Route Id: it has no bytes that name it
            return self._meet(data[start:end])  # refused: there is nothing to look up
        key = data[start : start + ORIGIN_AT] + data[start + ORIGIN_TO : end]
        target = self._known.get(key)
        if target is not None:
            self.refresh(target)
            return target
        return self._learn(self._known, key, 0, self._meet(data[start:end]))

    def resolve_as(self, data: bytes, start: int, end: int, service: str, is_decided: bool = False) -> Target:
        """As `resolve`, but for this service in place of what the ADDRESS names: another broker says so. D-55

        `is_decided`: as `resolve_decided`.
        """
        if end - start < ORIGIN_TO:
            return self._meet(data[start:end])  # refused
        known = self._decided if is_decided else self._known_as
        name = service.encode()
        prefix = len(name).to_bytes(4, "big") + name
        key = prefix + data[start : start + ORIGIN_AT] + data[start + ORIGIN_TO : end]
        target = known.get(key)
        if target is not None:
            self.refresh(target)
            return target
        target = self._meet(data[start:end], is_decided)
        target.forced = service
        return self._learn(known, key, len(prefix), target)

    def resolve_within(self, reach: Reach, data: bytes, start: int, end: int, service: str = "") -> Target:
        """As `resolve`, or for a service as `resolve_as`, among the routes that these callers may reach. D-98"""
        if end - start < ORIGIN_TO:
            return self._meet(data[start:end])  # refused
        known = self._within
        prefix = reach.key
        if service:
            known = self._within_as
            name = service.encode()
            prefix += len(name).to_bytes(4, "big") + name
        key = prefix + data[start : start + ORIGIN_AT] + data[start + ORIGIN_TO : end]
        target = known.get(key)
        if target is not None:
            self.refresh(target)
            return target
        target = self._meet(data[start:end])
        target.forced = service
        target.reach = reach
        return self._learn(known, key, len(prefix), target)

    def resolve_decided(self, data: bytes, start: int, end: int, service: str) -> Target:
        """By what another broker has decided: this service, or if that is empty what the ADDRESS names, whatever is
        redirected here (D-55), and whether or not hints among the tags take part in the AND here (D-12).
        """
        if service or self.redirects or self._is_strict:
            return self.resolve_as(data, start, end, service, True)
        return self.resolve(data, start, end)

    def set_redirects(self, redirects: dict[str, str]) -> None:
        """From now on requests for these services go to others; one step only: of a -> b, b -> c, a goes to b. D-55"""
        self.redirects = dict(redirects)
        self.table.generation += 1  # all answers are old
        self._masks.generation += 1  # so that who waits for a route is looked at again

    def refresh(self, target: Target) -> None:
        """Looks a target up anew if the table has changed since."""
        self.hits += 1
        if target.generation != self.table.generation:
            self._look_up(target)

    def choose(self, target: Target, zone: bytes, origin: bytes, now: float) -> Route | None:
        """One of the candidates, for a unicast or shard target without a refusal.

        `zone`: of the caller, empty if unknown. `origin`: 16 bytes that stand for the caller. `now`: seconds,
        monotonic. None when nobody may get the request; then `target.blocked` says why.

        `choices` counts it in either case, and so it counts each `choose_excluding` and `choose_all`: whoever does the
        same with the same table, in the same order, comes to the same routes.
        """
        self.choices += 1
        if target.masked_at != self._masks.generation:
            self._mask(target, now)
        if target.routing == SHARD:
            route = target.owner
            if route is None:
                return None
        else:
            among = target.eligible
            if among is None:
                return None
            if target.is_panic:
                self.panics += 1
            if target.is_sticky:
                route = self._choose_sticky(target, among, zone, origin, now)
            elif among.size == 1:
                route = among.route_at(0)
            else:
                chooser = target.chooser
                assert chooser is not None  # read from the address, which is no refusal
                route = chooser.choose(among, target.turn, self._rng, zone, now)
        if self._limits_services and self._is_over(target, route.load.service):
            return None
        return route

    def choose_excluding(self, target: Target, barred: Slots, zone: bytes, origin: bytes, now: float) -> Route | None:
        """As `choose`, but none of the routes in the slots `barred`: a shard's owner is nobody else's then. D-50"""
        if target.routing == SHARD:
            owner = self.choose(target, zone, origin, now)  # counts it
            if owner is None or not barred.has(owner.slot):
                return owner
            text = f"the route that owns the key among those with {target.label} cannot be reached from here"
            target.blocked = Refusal("no-route", text)
            target.blocked_service = None
            return None
        self.choices += 1
        among = self._eligible_besides(target, barred)
        if among is None:
            return None
        chooser = target.chooser
        assert chooser is not None  # there is no refusal
        if target.is_sticky:
            route = self._choose_sticky(target, among, zone, origin, now)
        else:
            route = chooser.choose(among, target.turn, self._rng, zone, now)
        if self._limits_services and self._is_over(target, route.load.service):
            return None
        return route

    def choose_substitute(self, target: Target, barred: Slots, zone: bytes, now: float) -> Route | None:
        """Another one than `choose` has just chosen, for a unicast target: none of the routes in the slots `barred`.

        It takes the place of that choice: it is not counted, and what choosers remember and draw is as if it had not
        been, so that whoever repeats what was chosen is not put out by it. D-68
        """
        among = self._eligible_besides(target, barred)
        if among is None:
            return None
        chooser = target.chooser
        assert chooser is not None  # there is no refusal
        turn = Turn()
        turn.matched = target.candidates
        route = chooser.choose(among, turn, self._spare_rng, zone, now)
        return None if self._limits_services and self._is_over(target, route.load.service) else route

    def choose_all(self, target: Target) -> list[Route]:
        """All that a multicast goes to now, see `members`: a choice like one of `choose`."""
        self.choices += 1
        return self.members(target)

    def members(self, target: Target) -> list[Route]:
        """All that a multicast goes to, for a target without a refusal. Empty: `target.blocked` says why.

        Spec "Multicast Routing": "a broker must forward a request to all routes in the list of routes". All but those
        that are draining, or have no lease left: also those whom unicast requests keep away from. D-34
        """
        candidates = target.candidates
        assert candidates is not None  # there is no refusal
        slots = reachable(candidates.slots, self._masks)
        if not slots.size():
            target.blocked = blocked(candidates.slots, self._masks, target.label)
        return candidates.routes() if slots is candidates.slots else self._routes_at(slots)

    def is_spread(self, target: Target) -> bool:
        """Some of the candidates are routes of other brokers; for a target without a refusal."""
        candidates = target.candidates
        return candidates is not None and candidates.slots.meets(self._masks.remote)

    def find_block(self, target: Target, now: float) -> Refusal | None:
        """Why nobody could be chosen for a target without a refusal now; None when somebody could."""
        if target.routing == MULTICAST:
            return target.blocked if not self.members(target) else None
        if target.masked_at != self._masks.generation:
            self._mask(target, now)
        is_free = target.owner is not None if target.routing == SHARD else target.eligible is not None
        return None if is_free else target.blocked

    def find_full(self, target: Target, most_n: int) -> list[Route]:
        """Some of the candidates that have as many requests in flight as they may, the first ones; of a shard request
        the owner.
        """
        found: list[Route] = []
        owner = target.key_owner
        if target.routing == SHARD:
            return [owner] if owner is not None and self._masks.full.has(owner.slot) else found
        candidates = target.candidates
        if candidates is not None and candidates.slots.meets(self._masks.full):
            slots = candidates.slots.meet(self._masks.full)
            for position in range(min(most_n, slots.size())):
                found.append(self.table.route_at(slots.slot_at(position)))
        return found

    def matching(self, wanted: list[list[Tag]]) -> list[Route]:
        """Routes that carry, of each list, at least one tag: the same AND, for people. All routes for no lists."""
        if not wanted:
            return self.table.routes()
        found: Slots | None = None
        for choices in wanted:
            slots = Slots()
            for tag in choices:
                more = self.table.index.find(normal_tag(tag).token())
                if more is not None:
                    slots = slots.join(more)
            found = slots if found is None else found.meet(slots)
        assert found is not None  # wanted is not empty
        return self._routes_at(found)

    def remembered(self) -> int:
        """How many addresses are remembered."""
        return len(self._known)

    def _learn(self, known: dict[bytes, Target], key: bytes, prefix_bytes: int, target: Target) -> Target:
        """Remembers a target that was read just now; it, or an older one of the same address. `key`: with that prefix.

        What is wrapped says nothing about the way and may differ in every request: the address without it counts.
        """
        if target.wrapped_bytes:
            key = key[: len(key) - target.wrapped_bytes]
            same = known.get(key)
            if same is not None:
                self.refresh(same)
                return same
        address_bytes = len(key) - prefix_bytes
        if self._limit and address_bytes <= MAX_REMEMBERED_BYTES and target.tags_n <= MAX_REMEMBERED_TAGS:
            if len(known) >= self._limit:
                self._forgotten += known.values()
                known.clear()
            known[key] = target
        self._look_up(target)
        return target

    def _meet(self, raw: bytes, is_decided: bool = False) -> Target:
        """A new target for an address that is not remembered; not looked up yet."""
        self.misses += 1
        del self._forgotten[-FORGOTTEN_N:]
        target = self._decided_addresses.read(raw) if is_decided else self._addresses.read(raw)
        target.is_decided = is_decided
        return target

    def _look_up(self, target: Target) -> None:
        """The candidates in the table as it is now."""
        target.generation = self.table.generation
        if target.refusal is not None and target.refusal.word not in FOR_NOW:
            return
        target.refusal = None
        target.observed = None
        target.candidates = None
        target.eligible = None
        target.masked_at = 0
        target.emptied_n = 0
        if target.forced or target.redirected or self.redirects:
            service = target.forced
            if not service and not target.is_decided:
                service = self.redirects.get(target.asked_service, "")
            if service != target.redirected:
                addresses = self._decided_addresses if target.is_decided else self._addresses
                addresses.redirect(target, service)
        target.matched_by = target.wanted
        has_keys = len(target.selectors) != len(target.wanted) and len(target.selectors) > 0
        slots = self._intersect(target, target.wanted, not has_keys)
        if slots is None and has_keys:
            # D-22: the tag of a key is usually no route's; then it only says which of the others' routes.
            target.refusal = None
            target.emptied_n = 0
            target.matched_by = target.selectors
            slots = self._intersect(target, target.selectors, True)
        if slots is not None and target.reach is not None:
            slots = self._reachable(target, target.reach, slots)
        if slots is not None:
            target.candidates = Candidates(self.table, slots, self.table.max_weights.among(target.matched_by))
        target.turn.matched = target.candidates

    def _reachable(self, target: Target, reach: Reach, slots: Slots) -> Slots | None:
        """Those of the slots that the target's callers may reach; None, and a refusal, when there are none. D-98"""
        among = slots.meet(reach.slots())
        if among.size() == slots.size():
            return slots
        if not among.size():
            routes = "the one route" if slots.size() == 1 else f"any of the {slots.size()} routes"
            text = f"the role {reach.role.name} does not allow to address {routes} with {target.label}"
            refusal = Refusal("denied", text, REJECTED)
            if not self.only_observes:
                target.refusal = refusal
                return None
            target.observed = refusal
        return slots if self.only_observes else among

    def _intersect(self, target: Target, tags: list[Tag], is_last: bool) -> Slots | None:
        """The AND; None, and a refusal with the tag that emptied it, when nothing is left. `is_last`: for good."""
        found: Slots | None = None
        for number, tag in enumerate(tags, 1):
            slots = self.table.index.find(tag.token())
            if slots is None:
                target.emptied_n = number
                text = f"no route has {label_of([tag])}{' without a value' if tag.value is None else ''}"
                near = self._find_near(target, tag) if is_last else ""
                if near:
                    text = f"{text}; {near}"
                self._refuse(target, text)
                return None
            if found is None:
                found = slots
            else:
                before = found.size()
                found = found.meet(slots)
                if found.size() == 0:
                    before_label = label_of(tags[: number - 1])
                    target.emptied_n = number
                    text = f"no route has all: {before} have {before_label}, {slots.size()} have {label_of([tag])}"
                    self._refuse(target, text)
                    return None
        return found

    def _refuse(self, target: Target, text: str) -> None:
        if target.redirected and target.asked_service:
            text = f"{text}; an operator redirects {target.asked_service} to {target.redirected}"
        target.refusal = Refusal("no-route", text)

    def _find_near(self, target: Target, tag: Tag) -> str:
        """Asks for the tag that may have been meant; empty when there is none that the caller may know of."""
        # What other brokers have chosen, and what is redirected, is no caller's slip.
        if target.is_decided or target.redirected:
            return ""
        if is_pattern(tag.value or ""):
            return NO_PATTERNS
        near = self._near_names.find(tag, target.reach)
        return near and f"did you mean {near}?"

    def _mask(self, target: Target, now: float) -> None:
        """Who of the candidates may be chosen, with the masks as they are now."""
        target.masked_at = self._masks.generation
        candidates = target.candidates
        assert candidates is not None  # there is no refusal
        if target.routing == SHARD:
            self._find_owner(target, candidates, now)
            return
        policy = target.policy
        assert policy is not None  # there is no refusal for ever
        found = eligible(candidates.slots, self._masks, policy.panic_percent, target.label, self.prefers_local)
        target.is_panic = found.is_panic
        if found.refusal is not None:
            self._block(target, self._with_limit(target, found.refusal), candidates.route_at(0).load)
            target.eligible = None
            return
        before = target.eligible
        if found.slots is candidates.slots:
            target.eligible = candidates
        elif before is None or not before.slots.equals(found.slots):  # else what is known of them stays known
            target.eligible = candidates.among(found.slots)

    def _eligible_besides(self, target: Target, barred: Slots) -> Candidates | None:
        """Who may be chosen of the candidates outside the slots `barred`; None: nobody, `target.blocked` says why."""
        candidates = target.candidates
        policy = target.policy
        assert candidates is not None  # there is no refusal
        assert policy is not None
        target.blocked_service = None
        slots = candidates.slots.without(barred)
        if not slots.size():
            text = f"none of the {candidates.size} routes with {target.label} can be reached from here"
            target.blocked = Refusal("no-route", text)
            return None
        found = eligible(slots, self._masks, policy.panic_percent, target.label, self.prefers_local)
        if found.refusal is not None:
            target.blocked = self._with_limit(target, found.refusal)
            return None
        return candidates.among(found.slots, False)

    def _find_owner(self, target: Target, candidates: Candidates, now: float) -> None:
        """The route that owns the key, if it may get the request.

        Who owns it must not depend on what only this broker sees: of the masks only `draining` counts, and where the
        owner may not get it nobody else does. D-34
        """
        target.owner = None
        owned_at = self.table.generation + self._masks.drains  # both only grow: another sum whenever one has grown
        if target.owned_at != owned_at:
            target.owned_at = owned_at
            slots = staying(candidates.slots, self._masks)
            among = candidates if slots is candidates.slots else candidates.among(slots)
            target.key_owner = None
            if among is not None:
                method = target.shard_method
                assert method is not None  # it is a shard request, and no refusal for ever
                key = target.shard_hash
                target.key_owner = self.owner_cache.choose(method, among, owned_at, key, now)
                if target.key_owner is None:
                    self._put_off(target)
                    return
        owner = target.key_owner
        masks = self._masks
        if owner is None:
            why = self._with_limit(target, blocked(candidates.slots, masks, target.label))
            self._block(target, why, candidates.route_at(0).load)
        elif masks.unleased.has(owner.slot):
            text = f"the route that owns the key among those with {target.label} has no lease left"
            self._block(target, Refusal("no-lease", text), owner.load)
        elif masks.full.has(owner.slot):
            text = f"the route that owns the key among those with {target.label} has {owner.load.awaited_n} requests"
            text = f"{text} in flight, {owner.load.limit_text}"
            self._block(target, Refusal("over-limit", text), owner.load)
        else:
            target.owner = owner

    def _put_off(self, target: Target) -> None:
        """Its owner is not found now, and sought anew when somebody asks again: another method finds another owner."""
        target.owned_at = 0
        target.masked_at = 0
        text = f"the routes with {target.label} have no shard table yet, and {MAX_BUILT_PER_S} a second are built"
        target.blocked = Refusal("over-limit", text)
        target.blocked_service = None

    def _with_limit(self, target: Target, refusal: Refusal) -> Refusal:
        """The refusal with the number and the option where it is a limit in flight."""
        if refusal.word != "over-limit":
            return refusal
        for route in self.find_full(target, 1):
            return Refusal(refusal.word, f"{refusal.text}; {route.load.limit_text}")
        return refusal

    def _block(self, target: Target, refusal: Refusal, load: Load) -> None:
        target.blocked = refusal
        target.blocked_service = load.service if refusal.word == "over-limit" else None

    def _is_over(self, target: Target, service: ServiceLoad) -> bool:
        """The service has as many requests in flight as it may have."""
        limit = service.policy.max_in_flight_per_service
        if not limit or service.awaited_n < limit:
            return False
        text = f"{service.awaited_n} requests are in flight at service {service.name}"
        text = f"{text}, protection.max_in_flight_per_service is {limit}"
        target.blocked = Refusal("over-limit", text)
        target.blocked_service = service
        return True

    def _choose_sticky(self, target: Target, among: Candidates, zone: bytes, origin: bytes, now: float) -> Route:
        """Who was chosen before, or else whom the chooser chooses from now on. D-35"""
        policy = target.policy
        chooser = target.chooser
        assert policy is not None  # there is no refusal
        assert chooser is not None
        key = target.sticky_key + origin if target.is_by_origin else target.sticky_key
        if target.reach is not None:  # else callers of two roles could unsettle each other's choices
            key += target.reach.key
        route = self.sticky.find(key, among, policy.sticky_ttl_s, now)
        if route is None:
            route = chooser.choose(among, target.turn, self._rng, zone, now)
            self.sticky.remember(key, route, policy.sticky_ttl_s, now)
        return route

    def _routes_at(self, slots: Slots) -> list[Route]:
        return [self.table.route_at(slot) for slot in slots.to_list()]
