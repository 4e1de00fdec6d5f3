"""From the bytes of an ADDRESS to the routes that match it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.routing.bitmaps import Slots
from broker.routing.query import FORGOTTEN_N, MAX_REMEMBERED_BYTES, MAX_REMEMBERED_TAGS, Query
from broker.routing.table import Table
from broker.routing.targets import MAX_LABEL
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST, Address
from rsocket_wire.wire.ids import id_text
from rsocket_wire.wire.keys import LB_METHOD, SHARD_KEY, STICKY_ROUTE_KEY, Key
from rsocket_wire.wire.tags import Tag
from tests.broker.routing.made import (
    AT_MS,
    CALLER,
    address,
    chosen,
    found,
    joined,
    number_of,
    numbers,
    query_of,
    resolve,
    route,
    route_id,
    slots,
    table_of,
    zoo,
)

ORDERS = address(service="orders")

# What is refused


def test_address_that_is_cut_spoils_no_other() -> None:
    """A short one may look like another without the bytes that are not compared."""
    query = query_of(zoo())
    raw = address(region="us")
    assert "needs 16 bytes" in str(found(query, raw[:6] + raw[22:]))
    assert found(query, raw) == [2]
    assert "needs 16 bytes" in str(found(query, raw[:6]))
    assert found(query, address()) == "bad-address: the ADDRESS has no tag to route by"


@settings(derandomize=True, deadline=None, max_examples=75)
@given(st.binary(max_size=60), st.integers(0, 60), st.integers(0, 255), st.sampled_from([UNICAST, SHARD, MULTICAST]))
def test_any_bytes_give_a_target(junk: bytes, at: int, byte: int, flags: int) -> None:
    """Bytes behind a good header, and a good address with one byte changed."""
    query = query_of(zoo())
    good = address(flags, [(SHARD_KEY, "region"), (LB_METHOD, "random")], b"wrapped", service="orders", region="eu")
    at %= len(good)
    for raw in (junk, good[:22] + junk, good[:at] + bytes([byte]) + good[at + 1 :]):
        target = resolve(query, raw)
        assert (target.refusal is None) == (target.candidates is not None)
        if target.candidates is not None:
            query.choose(target, b"", CALLER, 0.0)
        assert len(target.label) <= MAX_LABEL


# Turns


def test_round_robin_goes_by_address_and_never_by_one_counter() -> None:
    """With one counter for all, two callers that alternate would each meet one instance for ever."""
    table = table_of(2)
    for number in (3, 4):
        joined(table, number, "billing")
    query = query_of(table)
    one, other = address(service="orders"), address(service="billing")
    picks = [chosen(query, raw, 1)[0] for _ in range(4) for raw in (one, other)]
    assert sorted(picks[0:4:2]) == [1, 2]
    assert sorted(picks[1:4:2]) == [3, 4]
    assert picks[4:] == picks[:4]


def test_callers_of_one_address_share_its_turn() -> None:
    """The origin's Route Id does not take part."""
    query = query_of(table_of(4))
    raws = [address(origin=number, service="orders") for number in range(4)]
    assert sorted(chosen(query, raw, 1)[0] for raw in raws) == [1, 2, 3, 4]
    assert query.remembered() == 1


def test_turn_of_an_address_survives_generations() -> None:
    table = table_of(3)
    query = query_of(table)
    raw = address(service="orders")
    first = chosen(query, raw, 3)
    joined(table, 9, "billing")
    assert chosen(query, raw, 2) == first[:2]
    joined(table, 10, "billing")
    assert chosen(query, raw, 1) == first[2:]


# What is remembered


def test_answer_is_looked_up_once_for_a_generation() -> None:
    table = zoo()
    query = query_of(table)
    raw = address(service="orders", region="eu")
    target = resolve(query, raw)
    candidates = target.candidates
    assert [resolve(query, raw) is target for _ in range(3)] == [True] * 3
    assert target.candidates is candidates
    assert (query.hits, query.misses, query.remembered()) == (3, 1, 1)
    joined(table, 9, "orders", region="eu")
    assert resolve(query, raw) is target
    assert target.candidates is not candidates
    assert found(query, raw) == [1, 3, 9]


def test_refusal_for_ever_survives_generations() -> None:
    table = zoo()
    query = query_of(table)
    raw = address(UNICAST | MULTICAST, service="orders")
    target = resolve(query, raw)
    refusal = target.refusal
    joined(table, 9)
    assert resolve(query, raw) is target
    assert refusal is not None
    assert target.refusal is refusal


def test_remembered_addresses_are_bounded() -> None:
    query = query_of(zoo(), limit=10)
    for number in range(95):
        resolve(query, address(service="orders", region=str(number % 30)))
        assert query.remembered() <= 10
    assert found(query, address(region="us")) == [2]


def test_addresses_that_are_forgotten_are_given_back_a_few_at_a_time() -> None:
    """All at once would hold up everybody."""
    query = query_of(zoo(), limit=10)
    for number in range(11):  # the last one makes the others forgotten
        resolve(query, address(service="orders", region=str(number)))
    assert (query.remembered(), len(query._forgotten)) == (1, 10)
    left = []
    for number in range(5):
        resolve(query, address(service="orders", region=f"new {number}"))
        left.append(len(query._forgotten))
    assert left == [10 - FORGOTTEN_N * each for each in range(1, 6)]


def test_limit_of_zero_remembers_nothing() -> None:
    query = query_of(zoo(), limit=0)
    raw = address(service="orders", region="eu")
    assert [found(query, raw), found(query, raw)] == [[1, 3], [1, 3]]
    assert (query.remembered(), query.hits, query.misses) == (0, 0, 2)


def test_long_addresses_are_not_remembered_but_answered() -> None:
    query = query_of(zoo())
    tags = [Tag.of("region", "us")]
    hints = [Tag(Key.text(f"k{number:02}"), b"v" * 127) for number in range(15)]
    short = Address(route_id(1), tags, hints).encode()
    room = MAX_REMEMBERED_BYTES + 16 - len(short)
    assert 2 < room <= 127
    for size, remembered in ((room - 2, 0), (room - 3, 1)):
        more = [*hints, Tag(Key.text("m"), b"v" * size)]
        raw = Address(route_id(1), tags, more).encode()
        assert len(raw) - 16 == MAX_REMEMBERED_BYTES + (1 - remembered)
        assert found(query, raw) == [2]
        assert query.remembered() == remembered


def test_what_is_wrapped_does_not_make_another_address() -> None:
    """A trace id in each request must not fill the memory, nor make a flow of its own of each."""
    query = query_of(zoo())
    raws = [address(wrapped=b"trace %d" % number, service="orders", region="us") for number in range(9)]
    assert {query.resolve(raw, 0, len(raw)).number for raw in raws} == {1}
    assert (query.remembered(), query.misses, query.hits) == (1, 9, 8)


def test_addresses_of_many_tags_are_not_remembered_but_answered() -> None:
    """A tag in memory is many times its bytes on the wire."""
    query = query_of(zoo())
    tags = [Tag.of("region", "us")] * (MAX_REMEMBERED_TAGS - 1)
    hint = [Tag(LB_METHOD, b"random")]
    assert found(query, Address(route_id(1), [*tags, tags[0]], hint).encode()) == [2]
    assert query.remembered() == 0
    assert found(query, Address(route_id(1), tags, hint).encode()) == [2]
    assert query.remembered() == 1


def test_targets_are_numbered_in_the_order_in_which_they_were_met() -> None:
    query = query_of(zoo())
    raws = [address(region="eu"), address(region="us"), address(region="eu")]
    assert [resolve(query, raw).number for raw in raws] == [1, 2, 1]


# The same AND for people


def test_people_ask_by_any_of_several_tags_of_each_kind() -> None:
    query = query_of(zoo())
    eu, us, orders = Tag.of("region", "eu"), Tag.of("region", "us"), Tag.of("service", "orders")
    assert numbers(query.matching([])) == [1, 2, 3, 4]
    assert numbers(query.matching([[eu]])) == [1, 3, 4]
    assert numbers(query.matching([[eu, us], [orders]])) == [1, 2, 3]
    assert numbers(query.matching([[eu], [Tag.of("zone", "nowhere")]])) == []
    assert numbers(query.matching([[Tag.of("route_id", f"Id{{{id_text(route_id(2))}}}")]])) == [2]


# Many routes; `test_model` has the rest of what may be asked of any table


KEYS = ["service", "region", "zone", "user", "color"]
VALUES = ["a", "b", "c"]


def test_many_routes_are_found_as_a_plain_and_finds_them() -> None:
    """A thousand steps with up to two hundred routes."""
    rng = random.Random(4)
    table = Table()
    query = query_of(table)
    carried: dict[int, set[tuple[str, str]]] = {}
    for _ in range(1000):
        number = rng.randrange(200)
        old = table.find(route_id(number))
        if old is not None and rng.random() < 0.4:
            table.leave(old)
            del carried[number]
        else:
            tags = {key: rng.choice(VALUES) for key in rng.sample(KEYS[1:], rng.randrange(4))}
            table.join(route(number, rng.choice(VALUES), **tags), AT_MS)
            made = table.find(route_id(number))
            assert made is not None
            carried[number] = {*tags.items(), ("service", made.service)}
        wanted = {key: rng.choice(VALUES) for key in rng.sample(KEYS, 1 + rng.randrange(3))}
        expected = sorted(number for number, has in carried.items() if has.issuperset(wanted.items()))
        answer = found(query, Address(route_id(1), [Tag.of(key, value) for key, value in wanted.items()]).encode())
        assert answer == expected if expected else str(answer).startswith("no-route: ")


# Instead of what was chosen (D-68)

CHOOSERS = ["round_robin", "random", "weighted", "least_busy", "power_of_two", "peak_ewma"]


@pytest.mark.parametrize("zone", [b"", b"a"])
@pytest.mark.parametrize("method", CHOOSERS)
def test_what_is_chosen_instead_leaves_no_trace(method: str, zone: bytes) -> None:
    sticky = [(STICKY_ROUTE_KEY, "service")] if zone else []
    raw = address(hints=[(LB_METHOD, method), *sticky], service="orders")
    sequences: list[list[int]] = []
    for is_disturbed in (False, True):
        table = table_of(4)
        joined(table, 5, "orders", zone="a", weight="3")
        query = query_of(table, seed=7)
        target = resolve(query, raw)
        sequence: list[int] = []
        for number in range(200):
            route = query.choose(target, zone, CALLER, float(number))
            assert route is not None
            sequence += numbers([route])
            if is_disturbed:
                other = query.choose_substitute(target, slots(route.slot), zone, float(number))
                assert other is not None
                assert other is not route
        assert query.choices == 200
        sequences.append(sequence)
    assert sequences[0] == sequences[1]


def test_nobody_is_chosen_instead_where_all_are_barred_or_masked() -> None:
    table = table_of(2)
    query = query_of(table)
    target = resolve(query, address(service="orders"))
    barred = slots(*[each.slot for each in table.routes()])
    assert query.choose(target, b"", CALLER, 0.0) is not None
    assert query.choose_substitute(target, barred, b"", 0.0) is None
    one = slots(table.routes()[0].slot)
    table.masks.put(table.masks.draining, table.routes()[1].slot)
    assert query.choose_substitute(target, one, b"", 0.0) is None


# Redirects (D-55) and locality (D-52)


def two_services() -> tuple[Table, Query]:
    """Routes 1 and 2 are `orders`, 11 and 12 `orders-next`; 2 and 12 are in `eu`."""
    table = Table()
    for number, name, region in ((1, "orders", "us"), (2, "orders", "eu"), (11, "orders-next", "us")):
        joined(table, number, name, region=region)
    joined(table, 12, "orders-next", region="eu")
    return table, query_of(table)


def far(table: Table, *which: int) -> Slots:
    """Puts routes, by number, behind the mask of those that other brokers have; their slots."""
    moved = slots(*[route.slot for route in table.routes() if number_of(route) in which])
    for slot in moved.to_list():
        table.masks.put(table.masks.remote, slot)
        table.masks.put(table.masks.elsewhere, slot)
    return moved


def test_a_redirected_service_is_looked_for_under_its_other_name_with_the_same_tags() -> None:
    """D-55."""
    _, query = two_services()
    asked = address(service="orders", region="eu")
    target = resolve(query, asked)
    assert (set(chosen(query, ORDERS, 8)), chosen(query, asked, 2), target.redirected) == ({1, 2}, [2, 2], "")
    query.set_redirects({"orders": "orders-next"})
    assert (set(chosen(query, ORDERS, 8)), chosen(query, asked, 2)) == ({11, 12}, [12, 12])
    assert resolve(query, asked) is target
    assert (target.redirected, target.service, target.asked_service) == ("orders-next", "orders-next", "orders")
    assert target.label == "service=orders-next region=eu"
    query.set_redirects({})
    assert (chosen(query, asked, 2), target.redirected, target.label) == ([2, 2], "", "service=orders region=eu")


def test_a_redirect_is_one_step() -> None:
    """D-55: of a -> b, b -> c, a goes to b; so redirects never go round."""
    table, query = two_services()
    query.set_redirects({"orders": "orders-next", "orders-next": "orders"})
    assert set(chosen(query, ORDERS, 4)) == {11, 12}
    assert set(chosen(query, address(service="orders-next"), 4)) == {1, 2}
    assert table.size() == 4


def test_a_redirect_to_nobody_says_so() -> None:
    _, query = two_services()
    query.set_redirects({"orders": "gone"})
    refusal = resolve(query, ORDERS).refusal
    assert refusal is not None
    assert refusal.message == "no-route: no route has service=gone; an operator redirects orders to gone"


def test_redirects_hold_for_multicast_and_shard_requests() -> None:
    """D-55."""
    _, query = two_services()
    query.set_redirects({"orders": "orders-next"})
    assert numbers(query.members(resolve(query, address(MULTICAST, service="orders")))) == [11, 12]
    keyed = address(SHARD, [(SHARD_KEY, "customer")], service="orders", customer="7")
    direct = address(SHARD, [(SHARD_KEY, "customer")], service="orders-next", customer="7")
    assert chosen(query, keyed, 1) == chosen(query, direct, 1)


def test_what_another_broker_redirected_is_found_whatever_this_one_knows() -> None:
    """D-55."""
    _, query = two_services()
    target = query.resolve_as(ORDERS, 0, len(ORDERS), "orders-next")
    assert query.resolve_as(ORDERS, 0, len(ORDERS), "orders-next") is target
    query.set_redirects({"orders": "gone"})
    query.refresh(target)
    route = query.choose(target, b"", CALLER, 0.0)
    assert route is not None
    assert number_of(route) in (11, 12)


def test_routes_of_this_broker_come_first_and_those_of_others_when_none_is_left() -> None:
    """D-52."""
    table = table_of(4)
    query = query_of(table)
    far(table, 1, 2)
    assert sorted(chosen(query, ORDERS, 4)) == [3, 3, 4, 4]
    for each in table.routes():
        if number_of(each) in (3, 4):
            table.masks.put(table.masks.draining, each.slot)
    assert sorted(chosen(query, ORDERS, 4)) == [1, 1, 2, 2]


def test_even_locality_makes_no_difference_between_brokers() -> None:
    """D-52."""
    table = table_of(4)
    query = query_of(table)
    query.prefers_local = False
    far(table, 1, 2)
    assert sorted(chosen(query, ORDERS, 4)) == [1, 2, 3, 4]


def test_a_congested_route_of_this_broker_is_worse_than_a_free_one_of_another() -> None:
    """D-52: local first only among those that may be chosen."""
    table = table_of(2)
    query = query_of(table)
    far(table, 1)
    for each in table.routes():
        if number_of(each) == 2:
            table.masks.put(table.masks.congested, each.slot)
    assert chosen(query, ORDERS, 2) == [1, 1]


def test_who_owns_a_key_and_whom_a_multicast_reaches_does_not_depend_on_where_routes_are() -> None:
    """D-52."""
    table = table_of(4)
    query = query_of(table)
    keyed = address(SHARD, [(SHARD_KEY, "customer")], service="orders", customer="7")
    owner = chosen(query, keyed, 1)
    far(table, *owner)
    assert chosen(query, keyed, 1) == owner
    assert numbers(query.members(resolve(query, address(MULTICAST, service="orders")))) == [1, 2, 3, 4]


def test_a_choice_besides_some_routes_never_falls_on_them() -> None:
    """D-50."""
    table = table_of(3)
    query = query_of(table)
    target = resolve(query, ORDERS)
    barred = far(table, 1, 3)
    found = [query.choose_excluding(target, barred, b"", CALLER, 0.0) for _ in range(4)]
    assert [number_of(route) for route in found if route is not None] == [2, 2, 2, 2]
    barred = far(table, 1, 2, 3)
    assert query.choose_excluding(target, barred, b"", CALLER, 0.0) is None
    assert target.blocked is not None
    assert target.blocked.message == "no-route: none of the 3 routes with service=orders can be reached from here"


def test_a_key_has_no_other_owner_when_its_own_is_barred() -> None:
    """D-50."""
    table = table_of(3)
    query = query_of(table)
    keyed = address(SHARD, [(SHARD_KEY, "customer")], service="orders", customer="7")
    target = resolve(query, keyed)
    owner = chosen(query, keyed, 1)
    other = far(table, *({1, 2, 3} - set(owner)))
    kept = query.choose_excluding(target, other, b"", CALLER, 0.0)
    assert kept is not None
    assert number_of(kept) == owner[0]
    assert query.choose_excluding(target, far(table, *owner), b"", CALLER, 0.0) is None
    assert target.blocked is not None
    assert target.blocked.word == "no-route"
