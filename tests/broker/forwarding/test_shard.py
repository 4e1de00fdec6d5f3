"""Shard requests: the owner of a key gets them, whatever the model; a request without a usable key is invalid."""

from __future__ import annotations

import pytest

from rsocket_wire.errors import INVALID, REJECTED
from rsocket_wire.rsocket.frames import NEXT, REQUEST_FNF, REQUEST_RESPONSE, encode_payload
from rsocket_wire.wire.frames import SHARD
from rsocket_wire.wire.keys import SHARD_KEY
from tests.broker.forwarding.pairs import MODELS
from tests.fakes import Wire, World, address, error, moved


def sharded(user: str, *keys: str, **tags: str) -> bytes:
    names = keys or ("user",)
    return address(SHARD, [(SHARD_KEY, name) for name in names], b"", service="orders", user=user, **tags)


def owners(world: World, wires: list[Wire], caller: Wire, users: list[str]) -> list[int]:
    """Which of the wires gets the request of each user."""
    found: list[int] = []
    for number, user in enumerate(users):
        caller.request(REQUEST_FNF, number * 2 + 1, sharded(user))
        counts = [len(wire.received()) for wire in wires]
        assert sum(counts) == 1
        found.append(counts.index(1))
    return found


USERS = [f"user-{number}" for number in range(200)]


@pytest.mark.parametrize("kind", MODELS)
def test_every_model_is_sent_to_the_owner_with_its_id_rewritten_and_nothing_else(kind: int) -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2, 3)]
    caller = world.caller()
    first = caller.request(kind, 1, sharded("ann"), b"one")
    second = caller.request(kind, 3, sharded("ann"), b"two")
    got = [wire.received() for wire in wires]
    assert sorted(got, key=len) == [[], [], [moved(first, 2), moved(second, 4)]]


def test_a_key_has_one_owner_for_all_callers() -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2, 3)]
    assert owners(world, wires, world.caller(), USERS) == owners(world, wires, world.caller(), USERS)


def test_two_brokers_with_the_same_routes_agree_on_the_owner() -> None:
    found: list[list[int]] = []
    for order in ([1, 2, 3], [3, 1, 2]):
        world = World(seed=order[0])
        wires = {number: world.service("orders", number) for number in order}
        found.append(owners(world, [wires[1], wires[2], wires[3]], world.caller(), USERS))
    assert found[0] == found[1]


def test_keys_are_spread_over_the_routes() -> None:
    world = World()
    wires = [world.service("orders", number) for number in range(1, 5)]
    found = owners(world, wires, world.caller(), USERS)
    assert all(25 <= found.count(number) <= 80 for number in range(4)), found


def test_only_the_keys_of_a_route_that_left_move() -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2, 3)]
    caller = world.caller()
    before = owners(world, wires, caller, USERS)
    wires[1].lose()
    after = owners(world, wires, caller, USERS)
    assert [owner for was, owner in zip(before, after, strict=True) if was != 1] == [was for was in before if was != 1]
    assert 1 not in after


def test_several_keys_shard_together_and_in_their_order() -> None:
    world = World()
    wires = [world.service("orders", number) for number in (1, 2, 3, 4, 5)]
    caller = world.caller()
    places: list[tuple[int, int]] = []
    for number in range(30):
        caller.request(REQUEST_FNF, 1, sharded(f"u{number}", "user", "tenant", tenant="a"))
        first = [len(wire.received()) for wire in wires].index(1)
        caller.request(REQUEST_FNF, 3, sharded(f"u{number}", "tenant", "user", tenant="a"))
        places.append((first, [len(wire.received()) for wire in wires].index(1)))
    assert any(one != other for one, other in places)


def test_a_shard_key_may_be_a_tag_that_the_routes_have() -> None:
    world = World()
    wires = [world.service("orders", 1, region="eu"), world.service("orders", 2, region="us")]
    caller = world.caller()
    raw = address(SHARD, [(SHARD_KEY, "region")], service="orders", region="us")
    for number in range(4):
        caller.request(REQUEST_FNF, number * 2 + 1, raw)
    assert [len(wire.received()) for wire in wires] == [0, 4]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            address(SHARD, [(SHARD_KEY, "planet")], service="orders"),
            "bad-shard-key: ShardKey 'planet' names no tag of the ADDRESS",
        ),
        (
            address(SHARD, [(SHARD_KEY, "user"), (SHARD_KEY, "planet")], service="orders", user="ann"),
            "bad-shard-key: ShardKey 'planet' names no tag of the ADDRESS",
        ),
        (address(SHARD, None, service="orders"), "bad-shard-key: a shard request needs at least one ShardKey"),
    ],
)
def test_a_shard_request_without_a_usable_key_is_invalid(raw: bytes, text: str) -> None:
    world = World()
    world.service("orders", 1)
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, raw)
    assert caller.received() == [error(1, INVALID, text)]


def test_a_shard_request_without_a_route_is_rejected() -> None:
    caller = World().caller()
    caller.request(REQUEST_RESPONSE, 1, sharded("ann"))
    (frame,) = caller.received()
    assert (frame.code, frame.text.split(":")[0]) == (REJECTED, "no-route")


def test_the_answer_of_an_owner_comes_back() -> None:
    world = World()
    service = world.service("orders", 1)
    caller = world.caller()
    caller.request(REQUEST_RESPONSE, 1, sharded("ann"))
    service.answer(2, b"yes", NEXT)
    assert caller.received() == [moved(encode_payload(2, NEXT, b"yes"), 1)]
    assert world.left_over() == []
