"""Which service a refusal suggests: one slip away, one that the caller may reach, and not for ever."""

from __future__ import annotations

import pytest

from broker.access.roles import Offer, Role
from broker.routing.near_names import MAX_LOOKS, MAX_NAMES, NO_PATTERNS, NearNames, is_near
from broker.routing.query import Query
from broker.routing.reach import Reach
from broker.routing.rng import Rng
from broker.routing.table import Table
from rsocket_wire.wire.frames import SHARD, Address
from rsocket_wire.wire.keys import SERVICE_NAME, SHARD_KEY
from rsocket_wire.wire.tags import Tag
from tests.broker.routing.made import joined, table_of
from tests.fakes import tags_of


@pytest.mark.parametrize(
    ("name", "other", "near"),
    [
        ("ehco", "echo", True),
        ("order", "orders", True),
        ("orderss", "orders", True),
        ("ordrrs", "orders", True),
        ("ORDERS", "orders", True),
        ("orders-1", "orders-2", False),
        ("orders1", "orders", False),
        ("orders-12", "orders-21", False),
        ("prices", "orders", False),
        ("eoch", "echo", False),
        ("abc", "abcd", False),
        ("", "", False),
    ],
)
def test_one_slip_of_the_hand_is_near(name: str, other: str, near: bool) -> None:
    assert is_near(name, other) == is_near(other, name) == near


def service(name: str) -> Tag:
    return Tag(SERVICE_NAME, name.encode())


def refused(table: Table, name: str, reach: Reach | None = None, *more: Tag) -> str:
    raw = Address(bytes(16), [*([service(name)] if name else []), *more]).encode()
    query = Query(table, Rng(1))
    target = query.resolve(raw, 0, len(raw)) if reach is None else query.resolve_within(reach, raw, 0, len(raw))
    assert target.refusal is not None
    return target.refusal.text


def test_a_refusal_suggests_the_service_that_was_meant() -> None:
    table = table_of(2, "orders")
    assert refused(table, "ordres") == "no route has service=ordres; did you mean service=orders?"
    assert refused(table, "prices") == "no route has service=prices"


def test_nobody_learns_of_a_service_that_the_role_does_not_reach() -> None:
    table = table_of(1, "orders")
    joined(table, 2, "vault")
    reach = table.reaches.find(Role("some", ["*"], [], [Offer([("service", ["orders"])])]), "")
    assert refused(table, "vautl", reach) == "no route has service=vautl"
    assert refused(table, "vautl") == "no route has service=vautl; did you mean service=vault?"
    assert refused(table, "order", reach) == "no route has service=order; did you mean service=orders?"


def test_a_value_in_other_letters_or_with_a_slip_is_suggested_whatever_its_key_is() -> None:
    table = table_of(0)
    joined(table, 1, "orders", region="eu", team="Shipping", zone="A", instance_name="a-1")

    def asked(**tags: str | None) -> str:
        return refused(table, "", None, *tags_of({**tags})).removeprefix("no route has ")

    assert asked(region="EU") == "region=EU; did you mean region=eu?"
    assert asked(zone="a") == "zone=a; did you mean zone=A?"
    assert asked(team="shipping") == "team=shipping; did you mean team=Shipping?"
    assert asked(team="Shiping") == "team=Shiping; did you mean team=Shipping?"
    assert asked(region="us") == "region=us"
    assert asked(regoin="eu") == "regoin=eu; did you mean region=eu?"
    assert asked(taem="Shipping") == "taem=Shipping; did you mean team=Shipping?"
    assert asked(colour="eu") == "colour=eu"
    assert asked(instance="a-1") == "instance=a-1; did you mean instance_name=a-1?"
    assert asked(region=None) == "region without a value; did you mean region=eu?"
    assert asked(colour=None) == "colour without a value"
    assert asked(service="") == "service="
    assert asked(name="orders") == "name=orders; did you mean service=orders?"
    assert refused(table, "orders", None, *tags_of({"region": "EU"})).endswith("region=EU; did you mean region=eu?")


def test_a_service_with_its_route_behind_it_is_taken_apart() -> None:
    table = table_of(1, "orders")
    for name in ("orders.create", "orders/create", "orders:create"):
        text = f"no route has service={name}; did you mean service=orders with the route 'create'?"
        assert refused(table, name) == text
    assert refused(table, "orders.") == "no route has service=orders.; did you mean service=orders?"
    assert refused(table, "prices.create") == "no route has service=prices.create"


def test_a_pattern_is_none() -> None:
    table = table_of(1, "orders")
    for name in ("orders.*", "*", "orders.>", "orders/#", ">"):
        assert refused(table, name) == f"no route has service={name}; {NO_PATTERNS}"
    assert refused(table, "c#") == "no route has service=c#"
    assert refused(table, "", None, *tags_of({"region": "e*"})) == f"no route has region=e*; {NO_PATTERNS}"


def test_nobody_learns_of_other_tags_that_the_role_does_not_reach() -> None:
    table = table_of(1, "orders")
    joined(table, 2, "vault", region="eu")
    reach = table.reaches.find(Role("some", ["*"], [], [Offer([("service", ["orders"])])]), "")
    assert refused(table, "vault.open", reach) == "no route has service=vault.open"
    assert refused(table, "", reach, *tags_of({"region": "EU"})) == "no route has region=EU"
    assert refused(table, "", reach, *tags_of({"name": "vault"})) == "no route has name=vault"
    assert refused(table, "", reach, *tags_of({"regoin": "eu"})) == "no route has regoin=eu"
    assert refused(table, "", reach, *tags_of({"region": None})) == "no route has region without a value"


def test_the_key_of_a_shard_is_no_slip() -> None:
    table = table_of(1, "orders", user="ada")
    query = Query(table, Rng(1))
    raw = Address(bytes(16), [service("ordres"), *tags_of({"user": "Ada"})], [Tag(SHARD_KEY, b"user")], b"", SHARD)
    target = query.resolve(raw.encode(), 0, len(raw.encode()))
    assert target.refusal is not None
    assert target.refusal.text == "no route has service=ordres; did you mean service=orders?"


def test_strangers_cannot_have_it_look_for_ever() -> None:
    table = table_of(1, "orders")
    names = NearNames(table)
    assert [names.find(service(f"orderx{n}"), None) for n in range(MAX_LOOKS - 1)] == [""] * (MAX_LOOKS - 1)
    assert [names.find(service("order"), None), names.find(service("order"), None)] == ["service=orders", ""]
    joined(table, 2, "prices")
    assert names.find(service("price"), None) == "service=prices"


def test_a_look_compares_so_many_names_and_no_more() -> None:
    table = table_of(0)
    for number in range(MAX_NAMES):
        joined(table, number + 1, f"number {number}")
    joined(table, MAX_NAMES + 1, "orders")
    assert NearNames(table).find(service("order"), None) == ""


def test_a_name_that_is_no_tag_of_any_route_is_not_suggested() -> None:
    """A route may carry another ServiceName than the name that it announces."""
    table = table_of(0)
    joined(table, 1, "orders", service="billing")
    assert refused(table, "orders") == "no route has service=orders"
    assert refused(table, "order") == "no route has service=order"
