"""From the bytes of an ADDRESS to the routes that match it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.routing.query import FORGOTTEN_N, MAX_REMEMBERED_BYTES, MAX_REMEMBERED_TAGS
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
    numbers,
    query_of,
    resolve,
    route,
    route_id,
    slots,
    table_of,
    zoo,
)

# What is refused


def test_address_that_is_cut_spoils_no_other() -> None:
    """A short one may look like another without the bytes that are not compared."""
    query = query_of(zoo())
    raw = address(region="us")
    assert "needs 16 bytes" in str(found(query, raw[:6] + raw[22:]))
    assert found(query, raw) == [2]
    assert "needs 16 bytes" in str(found(query, raw[:6]))
    assert found(query, address()) == "bad-address: the ADDRESS has no tag to route by"


@settings(derandomize=True, deadline=None, max_examples=300)
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


def test_addresses_that_are_met_once_are_spread() -> None:
    """Wrapped metadata with a trace id makes every request an address of its own."""
    query = query_of(table_of(4))
    picks = [chosen(query, address(wrapped=b"trace %d" % number, service="orders"), 1)[0] for number in range(400)]
    assert all(75 <= picks.count(number) <= 125 for number in (1, 2, 3, 4))


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
