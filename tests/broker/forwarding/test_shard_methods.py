"""Which shard method finds the route of a request: the hint's, the service's, the default."""

import pytest

from broker.core import CoreSettings
from broker.routing.policies import Policy
from broker.routing.sharding.hashes import key_hash
from broker.routing.sharding.methods import ShardMethods
from broker.routing.sharding.tables import ShardTables
from broker.routing.table import Route
from rsocket_wire.methods import SHARD_METHODS
from rsocket_wire.wire.frames import SHARD, Address
from rsocket_wire.wire.keys import SHARD_KEY, SHARD_METHOD, Key
from rsocket_wire.wire.tags import Tag
from tests.fakes import Wire, World, address, ask, route_id, tags_of

NUMBERS = (1, 2, 3, 4, 5)
USERS = [f"user-{number}" for number in range(24)]


def owners(method: str, numbers: tuple[int, ...] = NUMBERS) -> list[int]:
    """Whose keys the users are, by number."""
    by = ShardMethods().find(method)
    assert by is not None
    among = ShardTables([Route(route_id(number), "carts", [], None) for number in numbers])
    return [int.from_bytes(by.choose(among, key_hash([user.encode()])).id, "big") for user in USERS]


def asked(user: str, *hints: tuple[Key, str], service: str = "carts") -> bytes:
    return address(SHARD, [(SHARD_KEY, "user"), *hints], service=service, user=user)


def served(wires: dict[int, Wire], caller: Wire, addresses: list[bytes]) -> list[int]:
    """The number of the route that got each request."""
    found: list[int] = []
    for raw in addresses:
        ask(caller, raw=raw)
        found += [number for number, wire in wires.items() for _ in wire.received()]
    return found


def shop(settings: CoreSettings | None = None, service: str = "carts") -> tuple[World, dict[int, Wire], Wire]:
    world = World(settings)
    wires = {number: world.service(service, number) for number in NUMBERS}
    return world, wires, world.caller()


def test_methods_disagree_about_these_keys() -> None:
    """Or the tests below would say nothing."""
    assert len({tuple(owners(name)) for name in SHARD_METHODS}) == len(SHARD_METHODS)


@pytest.mark.parametrize("name", SHARD_METHODS)
def test_the_method_of_the_hint_is_taken(name: str) -> None:
    world, wires, caller = shop()
    assert served(wires, caller, [asked(user, (SHARD_METHOD, name.upper())) for user in USERS]) == owners(name)
    assert world.core.query.unknown_methods == 0


@pytest.mark.parametrize("name", SHARD_METHODS)
def test_the_hint_may_stand_among_the_tags_of_one_map(name: str) -> None:
    """D-12."""
    _, wires, caller = shop()
    hints = [Tag(SHARD_KEY, b"user"), Tag(SHARD_METHOD, name.encode())]
    sent = [Address(route_id(9), [*hints, *tags_of({"service": "carts", "user": user})], flags=SHARD) for user in USERS]
    assert served(wires, caller, [each.encode() for each in sent]) == owners(name)


def test_what_is_built_of_a_service_is_built_once_for_all_keys() -> None:
    world, wires, caller = shop()
    served(wires, caller, [asked(user, (SHARD_METHOD, "maglev")) for user in USERS])
    assert world.core.query.owner_cache.size() == 1


def test_rendezvous_is_the_default() -> None:
    _, wires, caller = shop()
    assert served(wires, caller, [asked(user) for user in USERS]) == owners("rendezvous")


@pytest.mark.parametrize("name", SHARD_METHODS)
def test_a_service_may_have_a_default_of_its_own(name: str) -> None:
    settings = CoreSettings(policy=Policy(shard_method="modulo"), policies={"carts": Policy(shard_method=name)})
    _, wires, caller = shop(settings)
    assert served(wires, caller, [asked(user) for user in USERS]) == owners(name)
    jump = served(wires, caller, [asked(user, (SHARD_METHOD, "jump")) for user in USERS])
    assert jump == owners("jump")  # the hint wins


def test_the_method_of_the_default_policy_is_for_all_other_services() -> None:
    settings = CoreSettings(policy=Policy(shard_method="modulo"), policies={"carts": Policy(shard_method="ring")})
    _, wires, caller = shop(settings, "orders")
    assert served(wires, caller, [asked(user, service="orders") for user in USERS]) == owners("modulo")


def test_a_hint_that_nobody_knows_is_counted_once_for_each_address_and_the_default_taken() -> None:
    world, wires, caller = shop(CoreSettings(policies={"carts": Policy(shard_method="maglev")}))
    sent = [asked(user, (SHARD_METHOD, "astrology")) for user in USERS]
    assert served(wires, caller, sent * 2) == owners("maglev") * 2
    assert world.core.query.unknown_methods == len(USERS)


def test_a_policy_that_names_no_method_is_counted_and_rendezvous_taken() -> None:
    """The configuration knows the names, a program that embeds the broker may not."""
    world, wires, caller = shop(CoreSettings(policy=Policy(shard_method="astrology")))
    assert served(wires, caller, [asked(user) for user in USERS]) == owners("rendezvous")
    assert world.core.query.unknown_methods == len(USERS)


@pytest.mark.parametrize("name", SHARD_METHODS)
def test_owners_follow_routes_that_come_and_go(name: str) -> None:
    """What was remembered of a service is good for one generation; the addresses are the same ones all the time."""
    world, wires, caller = shop()
    sent = [asked(user, (SHARD_METHOD, name)) for user in USERS]
    assert served(wires, caller, sent) == owners(name)
    wires[2].lose()
    assert served(wires, caller, sent) == owners(name, (1, 3, 4, 5))
    wires[9] = world.service("carts", 9)  # where 2 was in the table
    assert served(wires, caller, sent) == owners(name, (1, 3, 4, 5, 9))
    masks = world.core.table.masks
    fourth = world.core.table.find(route_id(4))
    assert fourth is not None
    masks.put(masks.draining, fourth.slot)
    assert served(wires, caller, sent) == owners(name, (1, 3, 5, 9))
    masks.take(masks.draining, fourth.slot)
    assert served(wires, caller, sent) == owners(name, (1, 3, 4, 5, 9))


def test_a_key_that_routes_carry_is_sharded_among_those_that_do() -> None:
    """D-22: and the others' keys among all; neither may be taken for the other."""
    world = World()
    wires = {number: world.service("carts", number, user="user-3" if number < 4 else "x") for number in NUMBERS}
    caller = world.caller()
    found = served(wires, caller, [asked(user, (SHARD_METHOD, "maglev")) for user in USERS])
    assert found[3] == owners("maglev", (1, 2, 3))[3]
    assert found[:3] + found[4:] == owners("maglev")[:3] + owners("maglev")[4:]
