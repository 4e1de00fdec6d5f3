"""The whole look-up against a model that looks at every route: always the same candidates, and nobody else is chosen.

The model knows routes as numbers with a set of (key, value) and a set of masks; nothing of bitmaps, slots, generations
and what is remembered.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.routing.health.loads import GOOD
from broker.routing.policies import Policies, Policy
from broker.routing.query import Query
from broker.routing.rng import Rng
from broker.routing.table import Route, Table
from broker.routing.targets import Target
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST, Address
from rsocket_wire.wire.keys import LB_METHOD, SHARD_KEY, STICKY_ROUTE_KEY, Key
from rsocket_wire.wire.tags import Tag
from tests.broker.routing.made import AT_MS, numbers, route_id

Pair = tuple[str, bytes | None]

HARD = ("draining", "unleased", "full")
MASKS = (*HARD, "ejected", "unhealthy", "congested")
SERVICES = ("orders", "billing")
KEYS = ("Region", "Zone", "user", "tier", "health", "weight", "nobody has it")
VALUES = (b"a", b"b", b"", None, b"down", b"3", b"\xc3\xa9")
METHODS = (
    None, "round_robin", "random", "weighted", "least_busy", "p2c", "ewma", "sticky", "zone", "zone_first:random",
    "sticky:zone_first", "no such method",
)  # fmt: skip
LIMIT = 3  # requests in flight at a route; small, so that routes are full now and then

route_numbers = st.integers(1, 9)
pairs = st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES))
services: st.SearchStrategy[Pair] = st.tuples(st.just("ServiceName"), st.sampled_from((b"orders", b"billing", b"mail")))
tag_lists = st.lists(pairs, max_size=4)
# Mostly the same few addresses, so that what was remembered of one meets what has changed since.
USUAL: list[list[Pair]] = [
    [("ServiceName", b"orders")],
    [("ServiceName", b"billing")],
    [("ServiceName", b"orders"), ("Zone", b"a")],
    [("ServiceName", b"orders"), ("user", b"a")],
    [("Zone", b"a")],
]
wanted_lists = st.one_of(
    st.sampled_from(USUAL), st.sampled_from(USUAL), st.lists(st.one_of(pairs, services), max_size=3)
)


class Modelled:
    """A route as the model knows it."""

    def __init__(self, service: str, tags: list[Pair]) -> None:
        self.service = service
        self.masks: set[str] = set()
        self.awaited_n = 0
        self.carried: set[tuple[str, bytes]] = set()
        self.change(tags)

    def change(self, tags: list[Pair]) -> None:
        """Null and empty are one value (D-07)."""
        self.carried = {(key, value or b"") for key, value in tags} | {("ServiceName", self.service.encode())}
        if any(key == "health" and value == b"down" for key, value in tags):
            self.masks.add("unhealthy")
        else:
            self.masks.discard("unhealthy")


def tag_of(key: str, value: bytes | None) -> Tag:
    well_known = key[0].isupper()
    return Tag(Key.text(f"io.rsocket.routing.{key}" if well_known else key), value)


def as_sent(pairs: list[Pair]) -> list[Pair]:
    """A null value can only be written as the last thing of a map (D-07); elsewhere it is empty."""
    return [(key, value or b"") for key, value in pairs[:-1]] + pairs[-1:]


def encoded(flags: int, pairs: list[Pair], hints: list[Tag], origin: int) -> bytes:
    """An ADDRESS of two maps."""
    tags = [tag_of(key, value) for key, value in pairs]
    return Address(route_id(origin), tags, hints or [Tag(Key.text("x"), b"y")], b"", flags).encode()


class RoutingModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.routes: dict[int, Modelled] = {}
        self.now = 1000.0

    @initialize(
        panic=st.sampled_from([0, 30, 50, 100]),
        slow_start_s=st.sampled_from([0.0, 20.0]),
        limit=st.sampled_from([0, 4, 1000]),
        seed=st.integers(1, 1000),
    )
    def open(self, panic: int, slow_start_s: float, limit: int, seed: int) -> None:
        self.panic = panic
        policy = Policy(panic_percent=panic, slow_start_s=slow_start_s, max_in_flight_per_route=LIMIT, sticky_ttl_s=5.0)
        self.table = Table(Policies(policy, {}))
        self.query = Query(self.table, Rng(seed), limit=limit)
        for number in range(1, 7):
            self.join(number, SERVICES[number % 4 == 0], [("Zone", b"a" if number % 2 else b"b")])

    def real(self, number: int) -> Route:
        found = self.table.find(route_id(number))
        assert found is not None
        return found

    # What happens

    @rule(number=route_numbers, service=st.sampled_from(SERVICES), tags=tag_lists)
    def join(self, number: int, service: str, tags: list[Pair]) -> None:
        """A new connection offers a route, or replaces the one with its id."""
        made = Route(route_id(number), service, [tag_of(key, value) for key, value in tags], None)
        self.table.join(made, AT_MS, self.now)
        self.routes[number] = Modelled(service, tags)

    @rule(number=route_numbers, tags=tag_lists)
    def change(self, number: int, tags: list[Pair]) -> None:
        """The same connection says other tags: what is known of the route stays."""
        if number in self.routes:
            old = self.real(number)
            made = Route(old.id, old.service, [tag_of(key, value) for key, value in tags], None)
            self.table.join(made, AT_MS, self.now, old.load)
            self.routes[number].change(tags)

    @rule(number=st.integers(1, 40))  # seldom, or nobody would be left
    def leave(self, number: int) -> None:
        if number in self.routes:
            self.table.leave(self.real(number))
            del self.routes[number]

    @rule(number=route_numbers, mask=st.sampled_from(["draining", "unleased", "ejected", "congested"]))
    def put(self, number: int, mask: str) -> None:
        if number in self.routes:
            self.table.masks.put(getattr(self.table.masks, mask), self.real(number).slot)
            self.routes[number].masks.add(mask)

    @rule(number=route_numbers, mask=st.sampled_from(["draining", "unleased", "ejected", "congested"]))
    def take(self, number: int, mask: str) -> None:
        if number in self.routes:
            self.table.masks.take(getattr(self.table.masks, mask), self.real(number).slot)
            self.routes[number].masks.discard(mask)

    @rule(
        number=route_numbers,
        other=route_numbers,
        mask=st.sampled_from(["draining", "unleased", "ejected", "congested"]),
    )
    def swap(self, number: int, other: int, mask: str) -> None:
        """One comes out from behind a mask, and another goes there, before anybody asks."""
        self.take(number, mask)
        self.put(other, mask)

    @rule(number=route_numbers)
    def begin(self, number: int) -> None:
        if number in self.routes and self.routes[number].awaited_n < LIMIT:
            self.real(number).load.began(True)
            self.routes[number].awaited_n += 1
            if self.routes[number].awaited_n == LIMIT:
                self.routes[number].masks.add("full")

    @rule(number=route_numbers, latency_us=st.integers(0, 1_000_000))
    def end(self, number: int, latency_us: int) -> None:
        if number in self.routes and self.routes[number].awaited_n:
            self.real(number).load.ended(True, GOOD, latency_us, self.now)
            self.routes[number].awaited_n -= 1
            self.routes[number].masks.discard("full")

    @rule(seconds=st.sampled_from([0.5, 3.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    # What is asked

    @rule(
        wanted=wanted_lists,
        method=st.sampled_from(METHODS),
        sticky=st.lists(st.sampled_from(["user", "region", "device", ""]), max_size=2),
        zone=st.sampled_from([b"", b"a", b"b", b"z"]),
        origin=st.integers(0, 3),
        times=st.integers(1, 3),
    )
    def unicast(
        self, wanted: list[Pair], method: str | None, sticky: list[str], zone: bytes, origin: int, times: int
    ) -> None:
        for _ in range(times):
            self.ask(as_sent(wanted), method, sticky, zone, origin)

    @rule(wanted=wanted_lists)
    def multicast(self, wanted: list[Pair]) -> None:
        self.multicast_to(as_sent(wanted))

    @rule(
        wanted=wanted_lists,
        names=st.lists(st.sampled_from(["user", "region", "tier", "service", "device"]), max_size=2),
    )
    def shard(self, wanted: list[Pair], names: list[str]) -> None:
        self.shard_of(as_sent(wanted), names)

    # The questions

    def ask(self, wanted: list[Pair], method: str | None, sticky: list[str], zone: bytes, origin: int) -> None:
        hints = [Tag(STICKY_ROUTE_KEY, name.encode()) for name in sticky]
        hints += [Tag(LB_METHOD, method.encode())] if method else []
        keyed = {"user": "user", "region": "Region"}
        keys = {keyed[name] for name in sticky if name in keyed}
        target = self.resolved(encoded(UNICAST, wanted, hints, origin), wanted, keys)
        if target is None:
            return
        may = self.eligible(self.matched(wanted, keys))
        could = self.query.find_block(target, self.now)
        found = self.query.choose(target, zone, route_id(origin), self.now)
        if isinstance(may, str):
            assert found is None
            assert target.blocked is not None
            assert target.blocked.word == may
            assert could is target.blocked
        else:
            assert could is None
            assert target.eligible is not None
            assert sorted(numbers(target.eligible.routes())) == may
            assert found is not None
            assert numbers([found])[0] in may
            assert found is self.real(numbers([found])[0])

    def multicast_to(self, wanted: list[Pair]) -> None:
        target = self.resolved(encoded(MULTICAST, wanted, [], 0), wanted, set())
        if target is None:
            return
        matched = self.matched(wanted, set())
        may = [number for number in matched if not self.routes[number].masks & {"draining", "unleased"}]
        assert sorted(numbers(self.query.members(target))) == may
        if not may:
            is_draining = all("draining" in self.routes[number].masks for number in matched)
            assert target.blocked is not None
            assert target.blocked.word == ("draining" if is_draining else "no-lease")

    def shard_of(self, wanted: list[Pair], names: list[str]) -> None:
        meant = {"region": "Region", "service": "ServiceName"}
        keys = {meant.get(name, name) for name in names}
        raw = encoded(SHARD, wanted, [Tag(SHARD_KEY, name.encode()) for name in names], 0)
        if not names or not keys <= {key for key, _ in wanted}:
            refusal = self.query.resolve(raw, 0, len(raw)).refusal
            assert refusal is not None
            assert refusal.word == "bad-shard-key"
            return
        target = self.resolved(raw, wanted, keys)
        if target is None:
            return
        staying = [each for each in self.matched(wanted, keys) if "draining" not in self.routes[each].masks]
        found = self.query.choose(target, b"", route_id(0), self.now)
        if not staying:
            assert found is None
            assert target.blocked is not None
            assert target.blocked.word == "draining"
            return
        assert target.key_owner is not None
        owner = numbers([target.key_owner])[0]
        assert owner in staying
        masks = self.routes[owner].masks
        if masks & {"unleased", "full"}:
            assert found is None
            assert target.blocked is not None
            assert target.blocked.word == ("no-lease" if "unleased" in masks else "over-limit")
        else:
            assert found is target.key_owner

    # The model

    def matched(self, wanted: list[Pair], keys: set[str]) -> list[int]:
        """Who carries all that is wanted; without the tags of the keys where nobody does (D-22)."""
        found = self.carriers(wanted)
        others = [(key, value) for key, value in wanted if key not in keys]
        return found if found or not others else self.carriers(others)

    def carriers(self, wanted: list[Pair]) -> list[int]:
        needed = {(key, value or b"") for key, value in wanted}
        return sorted(number for number, route in self.routes.items() if needed <= route.carried)

    def eligible(self, matched: list[int]) -> list[int] | str:
        """Who of them may be chosen, or the word of the refusal. D-34"""
        masks = {number: self.routes[number].masks for number in matched}
        left = [number for number in matched if not masks[number] & set(HARD)]
        if not left:
            free = [number for number in matched if "draining" not in masks[number]]
            if any("unleased" not in masks[number] for number in free):
                return "over-limit"
            return "no-lease" if free else "draining"
        well = [number for number in left if not masks[number] & {"ejected", "unhealthy"}]
        ill_n = len(left) - len(well)
        if not self.panic or ill_n / len(left) <= self.panic / 100:
            if not well:
                return "unhealthy"
            left = well
        relieved = [number for number in left if "congested" not in masks[number]]
        return relieved or left

    def resolved(self, raw: bytes, wanted: list[Pair], keys: set[str]) -> Target | None:
        """The target, if it has candidates, which are the model's; else its refusal is as it must be."""
        target = self.query.resolve(raw, 0, len(raw))
        if not wanted:
            assert target.refusal is not None
            assert target.refusal.word == "bad-address"
            return None
        expected = self.matched(wanted, keys)
        if expected:
            assert target.refusal is None
            assert target.candidates is not None
            assert sorted(numbers(target.candidates.routes())) == expected
            return target
        assert target.candidates is None
        assert target.refusal is not None
        others = [(key, value) for key, value in wanted if key not in keys]
        without_hint = target.refusal.message.partition("; did you mean")[0]
        assert without_hint == self.no_route(others if keys and others else wanted)
        return None

    def no_route(self, wanted: list[Pair]) -> str:
        """The refusal names the tag that emptied the result."""
        for place, pair in enumerate(wanted):
            own = len(self.carriers([pair]))
            if not own:
                return f"no-route: no route has {label([pair])}{' without a value' if pair[1] is None else ''}"
            if not self.carriers(wanted[: place + 1]):
                before = len(self.carriers(wanted[:place]))
                return f"no-route: no route has all: {before} have {label(wanted[:place])}, {own} have {label([pair])}"
        raise AssertionError("somebody has all")

    @invariant()
    def usual_questions_have_the_answers_of_now(self) -> None:
        """The same addresses after every step: what is remembered of them meets all that may have changed."""
        if hasattr(self, "table"):
            orders: list[Pair] = [("ServiceName", b"orders")]
            of_user: list[Pair] = [*orders, ("user", b"7")]
            self.ask(orders, None, [], b"", 0)
            self.ask(orders, "sticky", [], b"", 1)
            self.ask(of_user, "random", ["user"], b"", 2)
            self.ask(orders, "zone_first", [], b"a", 3)
            self.ask([("Zone", b"b")], "p2c", [], b"b", 0)
            self.multicast_to(orders)
            self.shard_of(of_user, ["user"])

    @invariant()
    def nothing_is_kept_of_routes_that_are_gone(self) -> None:
        if not hasattr(self, "table"):
            return
        slots = {self.real(number).slot: route for number, route in self.routes.items()}
        for mask in MASKS:
            expected = sorted(slot for slot, route in slots.items() if mask in route.masks)
            assert getattr(self.table.masks, mask).to_list() == expected
        assert self.query.remembered() <= 1000


def label(pairs: list[Pair]) -> str:
    """How tags are shown."""
    short = {"ServiceName": "service", "Region": "region", "Zone": "zone"}
    parts = []
    for key, value in pairs:
        name = short.get(key, key)
        parts.append(name if value is None else f"{name}={value.decode()}")
    return " ".join(parts)


TestRoutingModel = RoutingModel.TestCase
TestRoutingModel.settings = settings(max_examples=25, stateful_step_count=50, deadline=None, derandomize=True)
